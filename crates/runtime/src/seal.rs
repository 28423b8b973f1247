//! Seals the traits that unsafe code relies on, so that only this crate implements them.

/// A supertrait that cannot be named from outside, so that nobody else can implement a trait that has it. `M` tells apart the
/// signatures under which one function may be a kernel, and parameters of kernels from everything else.
pub trait Sealed<M = ()> {}

/// Tells the signature of a function that can be a kernel in blocks from that of one that can be a kernel.
pub struct InBlocks<M>(std::marker::PhantomData<M>);

/// The seal of a kernel's parameter. One of its own, because every `Scalar` is a parameter, and that trait is open.
pub struct Parameter;
