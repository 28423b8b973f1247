//! Kernels: functions over views, and how their tasks use arguments.
//!
//! A kernel is a function or closure of [`In`], [`Out`], [`InOut`], [`InList`] and plain values. A submit names an argument for
//! each: [`input`], [`inout`], [`output_existing`], [`output`], [`input_list`], [`scalar`].
//!
//! ```
//! use plimsoll::kernel::{In, InOut, input, inout, scalar};
//! use plimsoll::Device;
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! let axpy = device.kernel("axpy", |a: f32, x: In<f32>, mut y: InOut<f32>| {
//!     if x.len() != y.len() {
//!         return Err("the vectors differ in length");
//!     }
//!     (0..x.len()).for_each(|i| y[[i]] += a * x[[i]]);
//!     Ok(())
//! });
//! let y = device.run(|o| {
//!     let (x, y) = (o.own(vec![1.0; 4], [4])?, o.own(vec![0.5; 4], [4])?);
//!     o.submit(&axpy, (scalar(2.0), input(&x), inout(&y)))?;
//!     o.read(&y)
//! })?;
//! assert_eq!(y, [2.5; 4]);
//! # Ok(())
//! # }
//! ```

pub use plimsoll_runtime::{
    ArgList, Args, In, InList, InOut, InputList, IntoKernel, Kernel, KernelError, KernelReturn, MarkedOutput,
    MarkedUse, Out, Output, Param, Read, ReadList, ReadWrite, Scalar, ScalarArg, Scratch, SubmitArg, TensorUse,
    Untracked, UseKind, Value, Write, inout, input, input_list, no_dep, no_dep_inout, output, output_existing, scalar,
};
