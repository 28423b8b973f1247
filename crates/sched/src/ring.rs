//! The memory of a ring: slots, dependency entries and a heap.
//!
//! All of it is mapped and zero, so what is not used costs nothing; slots in huge pages where the system has them, since a ring
//! goes through all of its window before it comes back to the first. The heap is mapped twice in a row, so that an
//! allocation never has to skip its end: used bytes are the sum of what was asked for, wherever the head stands.

use crate::slot::{DepNode, Slot};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes that every heap allocation is rounded up and aligned to.
pub const HEAP_ALIGN: u64 = 64;

/// What a ring has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Task slots, a power of two.
    pub window: u32,
    /// Heap bytes, a multiple of [`HEAP_ALIGN`].
    pub heap: u64,
    /// Dependency entries.
    pub dep_pool: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { window: 16_384, heap: 64 << 20, dep_pool: 16_384 }
    }
}

/// The memory of one ring. A power of two in size, so that finding one takes a shift.
#[derive(Debug)]
#[repr(align(64))]
pub struct RingMem {
    /// Its slots.
    pub slots: Wheel<Slot>,
    /// Its dependency entries.
    pub nodes: Mapped<DepNode>,
    /// Its heap.
    pub heap: Heap,
}

impl RingMem {
    /// Maps a ring.
    pub fn new(capacity: &Capacity) -> io::Result<Self> {
        Ok(Self {
            slots: Wheel::zeroed(capacity.window)?,
            nodes: Mapped::zeroed(capacity.dep_pool as usize)?,
            heap: Heap::new(capacity.heap)?,
        })
    }
}

/// A type that zeroed memory is a valid value of, and that needs no drop.
///
/// # Safety
/// All bytes zero must be a valid value of the type.
pub unsafe trait ZeroValid {}

// SAFETY: a slot is atomics of integers, for which zero is valid.
unsafe impl ZeroValid for Slot {}
// SAFETY: an atomic integer.
unsafe impl ZeroValid for DepNode {}
// SAFETY: an atomic integer.
unsafe impl ZeroValid for std::sync::atomic::AtomicU32 {}

/// What is as large as a huge page is put into some: a fault for each page of the usual size would be felt by a first run.
const HUGE_PAGE: usize = 2 << 20;

/// A slice in zeroed memory of its own that is not touched before it is used.
#[derive(Debug)]
pub struct Mapped<T: ZeroValid> {
    at: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory and gives out shared references only.
unsafe impl<T: ZeroValid + Sync> Sync for Mapped<T> {}
// SAFETY: as above; nothing is tied to the mapping thread.
unsafe impl<T: ZeroValid + Send> Send for Mapped<T> {}

impl<T: ZeroValid> Mapped<T> {
    /// `len` zeroed values.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        let bytes = (len * size_of::<T>()).max(1);
        // SAFETY: a fresh private mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if bytes >= HUGE_PAGE {
            // SAFETY: the mapping above. It is advice: a system that has no huge pages says so, and nothing is lost.
            unsafe { libc::madvise(at, bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(Self { at: NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)?, len })
    }
}

impl<T: ZeroValid> std::ops::Deref for Mapped<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` values, is page-aligned and was zeroed, which is a valid value.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl<T: ZeroValid> std::ops::DerefMut for Mapped<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` makes this one exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl<T: ZeroValid> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), (self.len * size_of::<T>()).max(1)) };
    }
}

/// Values in zeroed memory that are taken in turns: the one with number `n` is at `n` modulo how many there are, which is a
/// power of two. So every number has its place, and nothing needs to be checked to find it.
#[derive(Debug)]
pub struct Wheel<T: ZeroValid> {
    values: Mapped<T>,
    /// One less than there are values.
    mask: u32,
}

impl<T: ZeroValid> Wheel<T> {
    /// `len` zeroed values, a power of two.
    pub fn zeroed(len: u32) -> io::Result<Self> {
        assert!(len.is_power_of_two(), "a wheel of {len} values");
        Ok(Self { values: Mapped::zeroed(len as usize)?, mask: len - 1 })
    }

    /// One less than there are values.
    #[inline(always)]
    pub fn mask(&self) -> u64 {
        u64::from(self.mask)
    }

    /// The place of a number.
    #[inline(always)]
    pub fn index(&self, number: u64) -> u32 {
        number as u32 & self.mask
    }

    /// The value with this number.
    #[inline(always)]
    pub fn at(&self, number: u64) -> &T {
        // SAFETY: the place is at most `mask`, one less than there are values: `zeroed` made both, and they never change.
        unsafe { self.values.get_unchecked(self.index(number) as usize) }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn at_mut(&mut self, number: u64) -> &mut T {
        let at = self.index(number) as usize;
        // SAFETY: as in `at`.
        unsafe { self.values.get_unchecked_mut(at) }
    }
}

/// A ring of bytes in which every range up to its size is contiguous.
#[derive(Debug)]
pub struct Heap {
    at: NonNull<u8>,
    /// Bytes of one of the two mappings, a multiple of the page size.
    bytes: usize,
}

// SAFETY: it owns its mapping and only computes addresses.
unsafe impl Sync for Heap {}
// SAFETY: as above.
unsafe impl Send for Heap {}

impl Heap {
    fn new(capacity: u64) -> io::Result<Self> {
        // SAFETY: a query without memory.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let bytes = (capacity as usize).max(1).next_multiple_of(page);
        // SAFETY: the name is a C string; a negative result is an error.
        let fd = unsafe { libc::memfd_create(c"plimsoll-heap".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the descriptor is open; the length is not negative.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), bytes as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let heap = Self { at: reserve(2 * bytes)?, bytes };
        for half in [0, bytes] {
            // SAFETY: both halves lie in the range reserved above, which nobody else uses.
            let at = unsafe {
                libc::mmap(
                    heap.at.as_ptr().add(half).cast(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
                    fd.as_raw_fd(),
                    0,
                )
            };
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(heap)
    }

    /// The address of the byte at `position`, from where the whole size is contiguous.
    #[inline(always)]
    pub fn address(&self, position: u64) -> *mut u8 {
        let mut at = position as usize;
        // Most positions are on the first lap, and a division takes its time.
        if at >= self.bytes {
            std::hint::cold_path();
            at = if self.bytes.is_power_of_two() { at & (self.bytes - 1) } else { at % self.bytes };
        }
        // SAFETY: below the size of the first mapping.
        unsafe { self.at.as_ptr().add(at) }
    }
}

fn reserve(bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh mapping without access at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: both mappings, which nobody refers to any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), 2 * self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_across_the_end_is_contiguous() {
        let heap = Heap::new(4096).expect("mapped");
        let end = heap.address(4096 - 8).cast::<[u64; 2]>();
        // SAFETY: the two words lie in the two mappings of one page.
        unsafe { end.write([1, 2]) };
        // SAFETY: the first word of the page is the second word above.
        assert_eq!(unsafe { heap.address(0).cast::<u64>().read() }, 2);
    }
}
