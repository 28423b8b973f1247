//! Names for what kernels do with their arguments, so that the type of a kernel can be written in a struct.

use plimsoll_runtime::{In, InList, InOut, Out, Param};

/// The kernel reads a tensor.
pub(crate) type Read<T> = <In<'static, T> as Param>::Kind;
/// The kernel reads a list of tensors.
pub(crate) type ReadList<T> = <InList<'static, T> as Param>::Kind;
/// The kernel writes a tensor.
pub(crate) type Write<T> = <Out<'static, T> as Param>::Kind;
/// The kernel reads and writes a tensor.
pub(crate) type ReadWrite<T> = <InOut<'static, T> as Param>::Kind;
/// The kernel takes a plain value.
pub(crate) type Value<T> = <T as Param>::Kind;
