//! Memory of rings and queues for a model checker, whose atomics are not zeroed memory.

use std::io;

/// A slice of fresh values.
#[derive(Debug)]
pub struct Mapped<T>(Box<[T]>);

impl<T: Default> Mapped<T> {
    /// `len` values.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        Ok(Self((0..len).map(|_| T::default()).collect()))
    }
}

impl<T> std::ops::Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Values that are taken in turns.
#[derive(Debug)]
pub struct Wheel<T>(Mapped<T>);

impl<T: Default> Wheel<T> {
    /// `len` values, a power of two.
    pub fn zeroed(len: u32) -> io::Result<Self> {
        assert!(len.is_power_of_two(), "a wheel of {len} values");
        Mapped::zeroed(len as usize).map(Self)
    }

    /// The value with this number.
    pub fn at(&self, number: u64) -> &T {
        &self.0[number as u32 as usize & (self.0.len() - 1)]
    }
}
