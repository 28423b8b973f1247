//! The memory of a ring: slots, dependency entries and a heap.
//!
//! All of it is mapped and zero, so what is not used costs nothing; slots in huge pages where the system has them, since a ring
//! goes through all of its window before it comes back to the first. The heap is mapped twice in a row, so that an
//! allocation never has to skip its end: used bytes are the sum of what was asked for, wherever the head stands.

use crate::slot::{DepNode, Slot};
use crate::sync::{Mapped, Wheel};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
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
    pub(crate) slots: Wheel<Slot>,
    /// Its dependency entries.
    pub(crate) nodes: Mapped<DepNode>,
    /// Its heap.
    pub(crate) heap: Heap,
}

impl RingMem {
    /// Maps a ring.
    ///
    /// # Errors
    /// What the system says when it refuses the memory.
    pub fn new(capacity: &Capacity) -> io::Result<Self> {
        Ok(Self {
            slots: Wheel::zeroed(capacity.window)?,
            nodes: Mapped::zeroed(capacity.dep_pool as usize)?,
            heap: Heap::new(capacity.heap)?,
        })
    }
}

#[cfg(not(loom))]
// SAFETY: a slot is atomics of integers, for which zero is valid.
unsafe impl bytemuck::Zeroable for Slot {}

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
        let bytes = (capacity as usize).max(1).next_multiple_of(rustix::param::page_size());
        let file = rustix::fs::memfd_create(c"plimsoll-heap", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let heap = Self { at: reserve(2 * bytes)?, bytes };
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        for half in [0, bytes] {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: both halves lie in the range reserved above, which nobody else uses.
            unsafe { rustix::mm::mmap(heap.at.as_ptr().add(half).cast(), bytes, access, flags, &file, 0)? };
        }
        Ok(heap)
    }

    /// The address of the byte at `position`, from where the whole size is contiguous.
    #[inline]
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
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping without access at an address of the kernel's choice.
    let at = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags)? };
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: both mappings, which nobody refers to any more.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), 2 * self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours could not be undone: {unmapped:?}");
    }
}

#[cfg(all(test, not(loom)))]
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
