//! The words and cells that two sides share: plain ones over the region, loom's under `cfg(loom)`.
//!
//! The protocols reach shared memory through these names alone, so the code that loom explores is the code that runs.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Room for one record, written by a pool's producer and read by the host, never at the same time.
#[cfg(not(loom))]
#[repr(transparent)]
pub struct RecordSlot<R>(core::cell::UnsafeCell<R>);

/// Room for one record, whose accesses loom checks for races.
#[cfg(loom)]
pub struct RecordSlot<R>(loom::cell::UnsafeCell<R>);

// SAFETY: a slot is only reached through `write` and `read`, whose callers promise that the accesses do not overlap.
unsafe impl<R: Send> Sync for RecordSlot<R> {}

#[cfg(not(loom))]
impl<R: Copy> RecordSlot<R> {
    /// Stores a record.
    ///
    /// # Safety
    /// No other access to this slot may happen at the same time.
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub unsafe fn write(&self, record: R) {
        // SAFETY: the pointer comes from a live cell, and the caller excludes every other access.
        unsafe { self.0.get().write(record) }
    }
}

#[cfg(loom)]
impl<R: Copy> RecordSlot<R> {
    /// A slot that holds `record`.
    pub fn new(record: R) -> Self {
        Self(loom::cell::UnsafeCell::new(record))
    }

    /// Stores a record.
    ///
    /// # Safety
    /// No other access to this slot may happen at the same time; loom checks it.
    pub unsafe fn write(&self, record: R) {
        // SAFETY: as the caller promises.
        self.0.with_mut(|slot| unsafe { slot.write(record) })
    }

    /// Loads a record.
    ///
    /// # Safety
    /// No write to this slot may happen at the same time; loom checks it.
    pub unsafe fn read(&self) -> R {
        // SAFETY: as the caller promises.
        self.0.with(|slot| unsafe { slot.read() })
    }
}
