//! What the rotation protocol runs on: the memory of a pool as its producer sees it, and the host's way to all pools.

use crate::error::Error;
use crate::queue::QueueView;
use crate::sync::{AtomicU32, RecordSlot};
use crate::words::{ActiveHead, BufferHeader};

/// The memory of one pool as its producer sees it.
///
/// # Safety
/// Whatever copies of it there are, `slots` returns records that only the pool whose `head` it is writes: a writer that has
/// claimed the head writes them without looking further. A safe implementation does not compile:
///
/// ```compile_fail,E0200
/// # use plimsoll_abi::record::AicoreTask;
/// # use plimsoll_shm::PoolView;
/// # use plimsoll_shm::queue::QueueView;
/// # use plimsoll_shm::rotation::PoolMemory;
/// # use plimsoll_shm::sync::RecordSlot;
/// # use plimsoll_shm::words::{ActiveHead, BufferHeader};
/// #[derive(Clone, Copy)]
/// struct Liar<'r>(PoolView<'r, AicoreTask>);
/// impl<'r> PoolMemory<'r, AicoreTask> for Liar<'r> {
///     fn index(self) -> u32 {
///         self.0.index()
///     }
///     fn head(self) -> &'r ActiveHead {
///         self.0.head()
///     }
///     fn free(self) -> QueueView<'r> {
///         self.0.free()
///     }
///     fn buffers(self) -> u32 {
///         self.0.buffers()
///     }
///     fn header(self, buffer: u32) -> &'r BufferHeader {
///         self.0.header(buffer)
///     }
///     fn slots(self, _: u32) -> &'r [RecordSlot<AicoreTask>] {
///         self.0.slots(0) // the records of one buffer for every one
///     }
/// }
/// ```
pub unsafe trait PoolMemory<'r, R: 'r>: Copy {
    /// Its directory index.
    fn index(self) -> u32;
    /// Its active head.
    fn head(self) -> &'r ActiveHead;
    /// Its free queue.
    fn free(self) -> QueueView<'r>;
    /// How many buffers it has.
    fn buffers(self) -> u32;
    /// The header of a buffer below [`buffers`](Self::buffers).
    fn header(self, buffer: u32) -> &'r BufferHeader;
    /// The records of a buffer below [`buffers`](Self::buffers).
    fn slots(self, buffer: u32) -> &'r [RecordSlot<R>];
}

/// The memory of a pool whose slots are stamped.
///
/// # Safety
/// The stamp is a word of the record of the same buffer and slot as `slots` has it, and the same for every copy. A safe
/// implementation does not compile:
///
/// ```compile_fail,E0200
/// # use plimsoll_abi::record::AicoreTask;
/// # use plimsoll_shm::PoolView;
/// # use plimsoll_shm::queue::QueueView;
/// # use plimsoll_shm::rotation::{PoolMemory, StampMemory};
/// # use plimsoll_shm::sync::{AtomicU32, RecordSlot};
/// # use plimsoll_shm::words::{ActiveHead, BufferHeader};
/// #[derive(Clone, Copy)]
/// struct Liar<'r>(PoolView<'r, AicoreTask>);
/// # // SAFETY: as that of the pool.
/// # unsafe impl<'r> PoolMemory<'r, AicoreTask> for Liar<'r> {
/// #     fn index(self) -> u32 {
/// #         self.0.index()
/// #     }
/// #     fn head(self) -> &'r ActiveHead {
/// #         self.0.head()
/// #     }
/// #     fn free(self) -> QueueView<'r> {
/// #         self.0.free()
/// #     }
/// #     fn buffers(self) -> u32 {
/// #         self.0.buffers()
/// #     }
/// #     fn header(self, buffer: u32) -> &'r BufferHeader {
/// #         self.0.header(buffer)
/// #     }
/// #     fn slots(self, buffer: u32) -> &'r [RecordSlot<AicoreTask>] {
/// #         self.0.slots(buffer)
/// #     }
/// # }
/// impl<'r> StampMemory<'r, AicoreTask> for Liar<'r> {
///     fn stamp_word(self, _: u32, _: u32) -> Option<&'r AtomicU32> {
///         self.0.stamp_word(0, 0) // that of another record
///     }
///     unsafe fn write_unstamped(self, buffer: u32, slot: u32, record: AicoreTask) -> bool {
///         // SAFETY: the caller's promise.
///         unsafe { self.0.write_unstamped(buffer, slot, record) }
///     }
/// }
/// ```
pub unsafe trait StampMemory<'r, R: 'r>: PoolMemory<'r, R> {
    /// The stamp of a slot, if there is such a buffer and slot. It is a word of the record.
    fn stamp_word(self, buffer: u32, slot: u32) -> Option<&'r AtomicU32>;

    /// Writes a record but for its stamp, if there is such a buffer and slot; whether there is.
    ///
    /// # Safety
    /// No other access to the record may happen at the same time, but for its stamp.
    unsafe fn write_unstamped(self, buffer: u32, slot: u32, record: R) -> bool;
}

/// Words and records that the host moves when they are not in its own memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedPart {
    /// An agent's ready queue. The device owns all but the tail.
    Ready(usize),
    /// A pool's free queue. The host owns all but the tail.
    Free(u32),
    /// A pool's active head. The device owns it.
    Head(u32),
    /// The header of a pool's buffer. The device owns it.
    Header(u32, u32),
    /// So many records of a pool's buffer. The device owns them.
    Records(u32, u32, u32),
}

/// A transport: the host's way to the shared words, in place or through a copy of them. Buffers and pools that the other
/// side names are looked up here and may not exist.
///
/// The drainer calls [`refresh`](Self::refresh) before it reads what the device owns and
/// [`write_back`](Self::write_back) after it wrote what the host owns. Where the host has the device's memory mapped,
/// both have nothing to do.
pub trait HostMemory {
    /// Brings the copy of what the device owns up to date. Of a queue, the index is read before the values that it covers.
    ///
    /// # Errors
    /// If the part cannot be copied, as when the memory of the device's process cannot be read.
    fn refresh(&self, part: SharedPart) -> Result<(), Error> {
        let _ = part;
        Ok(())
    }

    /// Stores what the host owns where the device sees it. Of a queue, the values are stored before the index that covers
    /// them.
    ///
    /// # Errors
    /// If the part cannot be stored.
    fn write_back(&self, part: SharedPart) -> Result<(), Error> {
        let _ = part;
        Ok(())
    }

    /// The ready queue of an agent.
    fn ready(&self, agent: usize) -> QueueView<'_>;
    /// Number of buffers and of records per buffer; `None` if there is no such pool.
    fn geometry(&self, pool: u32) -> Option<(u32, u32)>;
    /// The active head of a pool that [`geometry`](Self::geometry) knows.
    fn head(&self, pool: u32) -> &ActiveHead;
    /// The free queue of a pool that [`geometry`](Self::geometry) knows.
    fn free(&self, pool: u32) -> QueueView<'_>;
    /// The header of a buffer that [`geometry`](Self::geometry) knows.
    fn header(&self, pool: u32, buffer: u32) -> &BufferHeader;
}

/// A buffer in state Draining: the host's until it is given back.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a buffer that is not given back is lost to its pool"]
pub struct Taken {
    /// The pool's directory index.
    pub pool: u32,
    /// The buffer's number.
    pub buffer: u32,
    /// Its place in the pool's stream.
    pub sequence: u64,
    /// Its records, void ones included.
    pub count: u32,
    /// Those that are void.
    pub void: u32,
}

/// The published part of a buffer in state Writing.
#[derive(PartialEq, Eq, Debug)]
pub struct Unsealed {
    /// The buffer's number.
    pub buffer: u32,
    /// Its place in the pool's stream.
    pub sequence: u64,
    /// The records published so far, void ones included.
    pub count: u32,
}

/// What a pool's producer has counted. A record is one of the first three, or in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Records published, without the void ones.
    pub published: u64,
    /// Records dropped.
    pub dropped: u64,
    /// Records with a wrong stamp.
    pub mismatch: u64,
    /// Ticks spent waiting.
    pub wait_ticks: u64,
}

impl Counters {
    /// All records that the producer made, but for those in flight.
    pub fn total(&self) -> u64 {
        self.published.saturating_add(self.dropped).saturating_add(self.mismatch)
    }
}
