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
//!
//! | module | what it is about |
//! |---|---|
//! | [`tensor`] | what tensors are made of, where they live, views of them |
//! | [`kernel`] | functions over views, and how tasks use arguments |
//! | [`shape`] | tasks in blocks, of several parts, that start together, that an element switches off |
//! | [`run`] | devices, orchestrators, options, reports, errors |
//! | [`graph`] | graphs that are built once and launched often |
//! | [`record`] | what a run records, and what became of it |
//! | [`replay`] | one captured task, run again |
//! | [`isolate`] | a device in a process of its own |
//! | [`machine`] | engines, chips in virtual time, costs |
//! | [`untyped`] | the tier below: kernels by id, arguments as descriptors, scopes by calls |
//! | [`trace`], [`analyze`], [`report`], [`collect`] | reading runs, answers about them, files for viewers, recovery |
//! | [`abi`] | ids, codes, flags and records, as both sides of the recorder see them |

pub mod abi;
pub mod analyze;
pub mod collect;
mod export;
pub mod graph;
pub mod isolate;
pub mod kernel;
pub mod machine;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod shape;
pub mod tensor;
pub mod trace;
pub mod untyped;

// What programs name most.
pub use graph::Prebuilt;
pub use isolate::device_main;
pub use kernel::{
    In, InList, InOut, Kernel, Out, inout, input, input_list, no_dep, no_dep_inout, output, output_existing, scalar,
};
pub use machine::{ArchSpec, CoreClass, EmulatedOptions, VirtualOptions};
pub use record::RecordOptions;
pub use run::{CancelToken, Capacities, Device, Error, Orchestrator, Result, RunOptions};
pub use tensor::{SharedBuffer, Tensor};
