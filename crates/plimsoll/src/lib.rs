//! A dataflow task runtime for tensors with a lossless flight recorder built in.
//!
//! Tasks are submitted in the order of the program; which of them may run at the same time follows from the tensors
//! they read and write. Memory is fixed when a device is opened, and a run always knows how close it came to it.
//!
//! ```
//! use plimsoll::{Device, In, Out, input, output};
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! let add = device.kernel("add", |a: In<f32>, b: In<f32>, mut c: Out<f32>| {
//!     for i in 0..c.len() {
//!         c[[i]] = a[[i]] + b[[i]];
//!     }
//! });
//! let sum = device.run(|o| {
//!     let a = o.own(vec![1.0; 64], [64])?;
//!     let b = o.own(vec![2.0; 64], [64])?;
//!     let (.., c) = o.submit(&add, (input(&a), input(&b), output([64])))?;
//!     let (.., d) = o.submit(&add, (input(&c), input(&b), output([64])))?;
//!     o.read(&d)
//! })?;
//! assert_eq!(sum, vec![5.0; 64]);
//! # Ok(())
//! # }
//! ```

mod export;

pub use export::{EXPORT_LIMIT, ExportError, export_run};
pub use plimsoll_analyze as analyze;
pub use plimsoll_collect as collect;
pub use plimsoll_report as report;
pub use plimsoll_runtime::*;
pub use plimsoll_trace as trace;
