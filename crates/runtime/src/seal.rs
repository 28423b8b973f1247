//! Keeps traits whose word is believed to this crate.

/// A supertrait that cannot be named from outside, so that nobody else can implement a trait that has it. `M` tells apart the
/// signatures under which one function may be a kernel.
pub trait Sealed<M = ()> {}
