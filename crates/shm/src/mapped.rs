//! Zeroed memory of this process that costs nothing before it is touched, however much of it there is.
//!
//! The system maps a page when it is first written, so tables can have room for the most that a run may ever need. Memory
//! from the allocator is not always like that: of a large alignment it does not come zeroed and has to be written.

use bytemuck::Zeroable;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::ptr::NonNull;

/// Memory of this size or more is put into huge pages: a fault for each page of the usual size would slow a first run down.
const HUGE_PAGE: usize = 2 << 20;

/// A slice in zeroed memory of its own that is not touched before it is used.
#[derive(Debug)]
pub struct Mapped<T: Zeroable> {
    at: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory and gives out shared references only.
unsafe impl<T: Zeroable + Sync> Sync for Mapped<T> {}
// SAFETY: as above; nothing is tied to the mapping thread.
unsafe impl<T: Zeroable + Send> Send for Mapped<T> {}

impl<T: Zeroable> Mapped<T> {
    /// `len` zeroed values.
    ///
    /// # Errors
    /// `OutOfMemory` if so many bytes cannot be counted; else what the system says when it refuses the mapping.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        const { assert!(!std::mem::needs_drop::<T>(), "values are never dropped") };
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?.max(1);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
        if bytes >= HUGE_PAGE {
            // SAFETY: the mapping above. It is advice: a system that has no huge pages says so, and nothing is lost.
            let _ = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxHugepage) };
        }
        Ok(Self { at: NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }
}

impl<T: Zeroable> std::ops::Deref for Mapped<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` values, is page-aligned and was zeroed, which is a valid value.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> std::ops::DerefMut for Mapped<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` makes this one exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and no reference into it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), (self.len * size_of::<T>()).max(1)) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours could not be undone: {unmapped:?}");
    }
}

/// Values in zeroed memory that are taken in turns: the one with number `n` is at `n` modulo how many there are, which is a
/// power of two. So every number has its place, and nothing needs to be checked to find it.
#[derive(Debug)]
pub struct Wheel<T: Zeroable> {
    values: Mapped<T>,
    /// One less than there are values.
    mask: u32,
}

impl<T: Zeroable> Wheel<T> {
    /// `len` zeroed values, a power of two.
    ///
    /// # Errors
    /// As [`Mapped::zeroed`].
    ///
    /// # Panics
    /// If `len` is no power of two.
    pub fn zeroed(len: u32) -> io::Result<Self> {
        assert!(len.is_power_of_two(), "a wheel of {len} values");
        Ok(Self { values: Mapped::zeroed(len as usize)?, mask: len - 1 })
    }

    /// One less than there are values.
    #[inline]
    pub fn mask(&self) -> u64 {
        u64::from(self.mask)
    }

    /// The place of a number.
    #[inline]
    pub fn index(&self, number: u64) -> u32 {
        number as u32 & self.mask
    }

    /// The value with this number.
    #[inline]
    pub fn at(&self, number: u64) -> &T {
        // SAFETY: the place is at most `mask`, one less than there are values: `zeroed` made both, and they never change.
        unsafe { self.values.get_unchecked(self.index(number) as usize) }
    }

    /// The value with this number, to be changed.
    #[inline]
    pub fn at_mut(&mut self, number: u64) -> &mut T {
        let at = self.index(number) as usize;
        // SAFETY: as in `at`.
        unsafe { self.values.get_unchecked_mut(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of this process that are in memory.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        text.split(' ').nth(1).expect("the second number").parse().expect("a number")
    }

    #[test]
    fn what_is_not_touched_takes_no_memory() {
        let before = resident();
        let mut values = Mapped::<u64>::zeroed(1 << 32).expect("32 GiB of address space");
        (values[0], values[1 << 31]) = (1, 2);
        assert_eq!((values[0], values[1], values[1 << 31]), (1, 0, 2));
        let pages = resident().saturating_sub(before);
        assert!(pages < 1 << 16, "{pages} pages for two values");
    }

    #[test]
    fn more_than_there_are_addresses_is_refused() {
        assert!(Mapped::<u64>::zeroed(usize::MAX / 4).is_err());
        assert!(Mapped::<u64>::zeroed(1 << 50).is_err());
    }
}
