//! Graphs that are built once and launched any number of times, with other buffers in between.
//!
//! ```
//! use plimsoll::graph::Prebuilt;
//! use plimsoll::tensor::SharedBuffer;
//! use plimsoll::{Device, InOut, RunOptions, inout};
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! let bump = device.kernel("bump", |mut x: InOut<i64>| x[[0]] += 1);
//! let (mine, other) = (SharedBuffer::new(vec![0]), SharedBuffer::new(vec![100]));
//! let mut graph: Prebuilt<'_> = device.prebuild(|o| {
//!     let x = o.share(&mine, [1])?;
//!     (0..10).try_for_each(|_| o.submit(&bump, (inout(&x),)).map(drop))
//! })?;
//! device.launch(&mut graph, 2, &RunOptions::default())?;
//! graph.bind(&mine, &other)?;
//! device.launch(&mut graph, 1, &RunOptions::default())?;
//! assert_eq!((mine.to_vec()?, other.to_vec()?), (vec![20], vec![110]));
//! # Ok(())
//! # }
//! ```

pub use plimsoll_runtime::Prebuilt;
