//! Atomics of the standard library, or loom's when the protocols are model-checked.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Zeroed words that take no memory before they are touched.
#[cfg(not(loom))]
pub(crate) type Words = plimsoll_shm::mapped::Mapped<AtomicU32>;
/// The same in a model, where there is no mapped memory.
#[cfg(loom)]
pub(crate) type Words = Box<[AtomicU32]>;

/// `len` of them.
pub(crate) fn zeroed_words(len: usize) -> std::io::Result<Words> {
    #[cfg(not(loom))]
    return Words::zeroed(len);
    #[cfg(loom)]
    return Ok((0..len).map(|_| AtomicU32::new(0)).collect());
}

/// Keeps what one thread writes often off the lines that others read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub(crate) T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
