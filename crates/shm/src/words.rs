//! The shared words of a region as atomics: the images of `abi::region`, laid over mapped memory.
//!
//! Who writes each word is said on the field; everybody else only reads it.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// See [`plimsoll_abi::region::ActiveHead`]. Written by the pool's owner alone.
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub struct ActiveHead {
    /// Records published, void ones included, as all counts of records a count word ([`plimsoll_abi::region::count_word`]).
    pub(crate) published: AtomicU64,
    /// `published` when the current buffer was taken.
    pub(crate) base: AtomicU64,
    /// Buffers sealed and the current buffer, in one word.
    pub(crate) active: AtomicU64,
    /// Records dropped.
    pub(crate) dropped: AtomicU64,
    /// Records with a wrong stamp.
    pub(crate) mismatch: AtomicU64,
    /// Ticks spent waiting for the host.
    pub(crate) wait_ticks: AtomicU64,
    /// The owning agent + 1; compare-and-swap from 0 claims the pool.
    pub(crate) owner: AtomicU32,
}

/// An index with a cache line of its own.
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) AtomicU64);

/// See [`plimsoll_abi::region::QueueHead`].
#[derive(Default, Debug)]
#[repr(C)]
pub struct QueueHead {
    /// Written by the producer.
    pub(crate) head: Line,
    /// Written by the consumer.
    pub(crate) tail: Line,
}

/// See [`plimsoll_abi::region::BufferHeader`]. Written by the pool's owner alone.
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub struct BufferHeader {
    /// Sequence number + 1.
    pub(crate) sequence_plus_1: AtomicU64,
    /// Records, once sealed.
    pub(crate) count: AtomicU64,
    /// Void records of the buffer, once it is sealed.
    pub(crate) void: AtomicU64,
}

/// The doorbell's line of [`Control`].
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub(crate) struct Bell {
    /// Written by producers.
    pub(crate) rings: AtomicU32,
    /// Written by the collector.
    pub(crate) sleeping: AtomicU32,
}

/// The waiting producers' line of [`Control`].
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub(crate) struct Waits {
    /// Producers that wait for a buffer; each adds and takes away itself.
    pub(crate) blocked: AtomicU32,
    /// Waits that have ended.
    pub(crate) releases: AtomicU32,
    /// Latched by the first producer that gives up.
    pub(crate) host_gone: AtomicU32,
}

/// See [`plimsoll_abi::region::Control`].
#[derive(Default, Debug)]
#[repr(C)]
pub struct Control {
    /// The doorbell.
    pub(crate) bell: Bell,
    /// How many agents wait for the host.
    pub(crate) waits: Waits,
    /// Latched by the host; on a line that nobody else writes.
    pub(crate) ended: EndedLine,
}

/// The end-of-recording word with a line of its own.
#[derive(Default, Debug)]
#[repr(C, align(64))]
pub(crate) struct EndedLine(pub(crate) AtomicU32);

impl Control {
    /// Says that nobody needs to wait for buffers any more.
    pub fn end_recording(&self) {
        // Relaxed: it only ends waits; nothing is read on the strength of it.
        self.ended.0.store(1, Ordering::Relaxed);
    }
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::offset_of;
    use plimsoll_abi::region as image;
    assert!(size_of::<ActiveHead>() == size_of::<image::ActiveHead>());
    assert!(offset_of!(ActiveHead, published) == offset_of!(image::ActiveHead, published));
    assert!(offset_of!(ActiveHead, base) == offset_of!(image::ActiveHead, base));
    assert!(offset_of!(ActiveHead, active) == offset_of!(image::ActiveHead, active));
    assert!(offset_of!(ActiveHead, dropped) == offset_of!(image::ActiveHead, dropped));
    assert!(offset_of!(ActiveHead, mismatch) == offset_of!(image::ActiveHead, mismatch));
    assert!(offset_of!(ActiveHead, wait_ticks) == offset_of!(image::ActiveHead, wait_ticks));
    assert!(offset_of!(ActiveHead, owner) == offset_of!(image::ActiveHead, owner));
    assert!(size_of::<QueueHead>() == size_of::<image::QueueHead>());
    assert!(offset_of!(QueueHead, head) == offset_of!(image::QueueHead, head));
    assert!(offset_of!(QueueHead, tail) == offset_of!(image::QueueHead, tail));
    assert!(size_of::<BufferHeader>() == size_of::<image::BufferHeader>());
    assert!(offset_of!(BufferHeader, sequence_plus_1) == offset_of!(image::BufferHeader, sequence_plus_1));
    assert!(offset_of!(BufferHeader, count) == offset_of!(image::BufferHeader, count));
    assert!(offset_of!(BufferHeader, void) == offset_of!(image::BufferHeader, void));
    assert!(size_of::<Control>() == size_of::<image::Control>());
    assert!(offset_of!(Control, bell) + offset_of!(Bell, rings) == offset_of!(image::Control, rings));
    assert!(offset_of!(Control, bell) + offset_of!(Bell, sleeping) == offset_of!(image::Control, sleeping));
    assert!(offset_of!(Control, waits) + offset_of!(Waits, blocked) == offset_of!(image::Control, blocked));
    assert!(offset_of!(Control, waits) + offset_of!(Waits, releases) == offset_of!(image::Control, releases));
    assert!(offset_of!(Control, waits) + offset_of!(Waits, host_gone) == offset_of!(image::Control, host_gone));
    assert!(offset_of!(Control, ended) == offset_of!(image::Control, ended));
};
