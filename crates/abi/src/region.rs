//! The layout of the recorder's region: what a mapped file holds while a run lives and after it died.
//!
//! ```text
//! RegionHeader │ clock table │ kernel table │ site table │ strings
//! KindLayout × KIND_SLOTS │ PoolEntry × KIND_SLOTS × INSTANCE_SLOTS │ ReadyEntry × INSTANCE_SLOTS │ Control │ status board
//! ready queue × agents │ (ActiveHead, free queue, buffers) × pools
//! ```
//!
//! Every reference is an offset from the start of the region. The pool of (kind, instance) has the fixed directory
//! index `kind * INSTANCE_SLOTS + instance`, whatever the run's counts are; an all-zero entry is a pool that was not
//! allocated. These types are images of the bytes: `shm` lays atomic words over the shared ones and proves that the
//! offsets agree. Zeroed memory is a valid value of each.

use crate::record::{Kind, proven_layout};
use bytemuck::{Pod, Zeroable};

/// First bytes of a region.
pub const MAGIC: [u8; 8] = *b"PLIMREG1";
/// The schema that this code writes and reads. Regions of any other are refused.
pub const SCHEMA: u32 = 7;
/// What wrote the region, as [`RegionHeader::producer`] spells it.
pub const PRODUCER: &str = concat!("plimsoll ", env!("CARGO_PKG_VERSION"));
/// Kinds that the directory has room for.
pub const KIND_SLOTS: usize = 16;
/// Instances per kind that the directory has room for: the fixed stride.
pub const INSTANCE_SLOTS: usize = 512;
/// Bytes of a cache line; what two sides write never shares one.
pub const LINE: usize = 64;
/// Kernels that the kernel table has room for.
pub const KERNEL_SLOTS: usize = crate::record::AicoreTask::KERNELS as usize;
/// Source sites that the site table has room for, a power of two.
pub const SITE_SLOTS: usize = 4096;
/// Clock readings that the clock table has room for.
pub const CLOCK_SLOTS: usize = 256;
/// Bytes for the strings of source sites and the run's directory; those for the names of kernels come on top.
pub const STRING_BYTES: usize = 256 << 10;

const _: () = assert!(Kind::ALL.len() <= KIND_SLOTS && SITE_SLOTS.is_power_of_two());

/// Opens a region and says where everything else is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct RegionHeader {
    /// [`MAGIC`]; written last, so that a half-made region is none.
    pub magic: [u8; 8],
    /// [`SCHEMA`].
    pub schema: u32,
    /// Bytes of this header.
    pub header_bytes: u32,
    /// What wrote it, padded with zeroes.
    pub producer: [u8; 32],
    /// Bytes of the whole region.
    pub region_bytes: u64,
    /// The run's [`Flags`](crate::Flags).
    pub flags: u64,
    /// What a producer does that finds no buffer: 0 block, 1 drop.
    pub policy: u32,
    /// The host process.
    pub pid: u32,
    /// How long a blocked producer waits before it takes the host for gone.
    pub host_gone_ns: u64,
    /// How long a producer with policy drop waits.
    pub drop_wait_ns: u64,
    /// Cores of the run.
    pub cores: u32,
    /// Agents of the run.
    pub agents: u32,
    /// Offset of the first [`KindLayout`].
    pub kinds_offset: u64,
    /// Offset of the first [`PoolEntry`].
    pub pools_offset: u64,
    /// Offset of the first [`ReadyEntry`].
    pub ready_offset: u64,
    /// Offset of the [`Control`] words.
    pub control_offset: u64,
    /// Offset of the clock's [`TableHead`].
    pub clock_offset: u64,
    /// Offset of the kernels' [`TableHead`].
    pub kernels_offset: u64,
    /// Offset of the sites' [`TableHead`].
    pub sites_offset: u64,
    /// Offset of the strings' [`TableHead`].
    pub strings_offset: u64,
    /// [`KIND_SLOTS`] of the writer.
    pub kind_slots: u32,
    /// [`INSTANCE_SLOTS`] of the writer.
    pub instance_slots: u32,
    /// [`CLOCK_SLOTS`] of the writer.
    pub clock_slots: u32,
    /// [`KERNEL_SLOTS`] of the writer.
    pub kernel_slots: u32,
    /// [`SITE_SLOTS`] of the writer.
    pub site_slots: u32,
    /// Bytes that the string table has room for.
    pub string_bytes: u32,
    /// The run directory's path, within the strings.
    pub run_dir: StringRef,
    /// The clock's ticks per second.
    pub clock_hz: u64,
    /// What the clock is: a [`ClockSource`] by number.
    pub clock_source: u32,
    /// Tells the runs of processes with the same number apart; 0 if unknown.
    pub run_tag: u32,
    /// Offset of the status board ([`BoardHead`](crate::board::BoardHead)).
    pub board_offset: u64,
    /// CRC-32C of this header with a zero here, then of all [`KindLayout`]s, then of all [`PoolEntry`]s: what never changes.
    pub checksum: u32,
    /// Zero.
    pub pad: u32,
}
proven_layout!(RegionHeader, 224, {
    magic: [u8; 8], schema: u32, header_bytes: u32, producer: [u8; 32], region_bytes: u64, flags: u64, policy: u32,
    pid: u32, host_gone_ns: u64, drop_wait_ns: u64, cores: u32, agents: u32, kinds_offset: u64, pools_offset: u64,
    ready_offset: u64, control_offset: u64, clock_offset: u64, kernels_offset: u64, sites_offset: u64,
    strings_offset: u64, kind_slots: u32, instance_slots: u32, clock_slots: u32, kernel_slots: u32, site_slots: u32,
    string_bytes: u32, run_dir: StringRef, clock_hz: u64, clock_source: u32, run_tag: u32,
    board_offset: u64, checksum: u32, pad: u32,
});

/// What a run's clock reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum ClockSource {
    /// The operating system's monotonic clock.
    #[default]
    Os = 0,
    /// The CPU's invariant counter (TSC or CNTVCT).
    CpuCounter = 1,
    /// Virtual time.
    Virtual = 2,
}

impl ClockSource {
    /// The source with this number; an unknown one is taken for the operating system's.
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => ClockSource::CpuCounter,
            2 => ClockSource::Virtual,
            _ => ClockSource::Os,
        }
    }

    /// As files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            ClockSource::Os => "os",
            ClockSource::CpuCounter => "cpu_counter",
            ClockSource::Virtual => "virtual",
        }
    }
}

/// A string within the region's strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct StringRef {
    /// From the first byte of the strings.
    pub offset: u32,
    /// Its bytes.
    pub len: u32,
}

/// The geometry that all pools of one kind share; all zero if the kind is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct KindLayout {
    /// Bytes of one record.
    pub record_bytes: u32,
    /// Pools of this kind.
    pub instances: u32,
    /// Buffers per pool.
    pub buffers: u32,
    /// Records per buffer.
    pub records: u32,
    /// Bytes from one [`BufferHeader`] to the next.
    pub buffer_stride: u32,
    /// Slots of the pool's free queue, a power of two.
    pub free_slots: u32,
    /// Zero.
    pub pad: u64,
}
proven_layout!(KindLayout, 32, {
    record_bytes: u32, instances: u32, buffers: u32, records: u32, buffer_stride: u32, free_slots: u32, pad: u64,
});

/// One pool of the directory; all zero if it was not allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct PoolEntry {
    /// Offset of its [`ActiveHead`].
    pub head_offset: u64,
    /// Offset of its free queue's [`QueueHead`].
    pub free_offset: u64,
    /// Offset of its first [`BufferHeader`].
    pub buffers_offset: u64,
    /// 1 if the pool was allocated.
    pub present: u64,
}
proven_layout!(PoolEntry, 32, { head_offset: u64, free_offset: u64, buffers_offset: u64, present: u64 });

/// The ready queue of one agent; all zero if there is no such agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ReadyEntry {
    /// Offset of its [`QueueHead`].
    pub offset: u64,
    /// Its slots, a power of two and at least the number of buffers that can reach it.
    pub slots: u64,
}
proven_layout!(ReadyEntry, 16, { offset: u64, slots: u64 });

/// The one line that a pool's producer writes with every record.
///
/// Counts of records are held as count words ([`count_word`]). Records in the current buffer = `published - base`. Total =
/// `published + dropped`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ActiveHead {
    /// Records published in this pool since the run began, void ones included.
    pub published: u64,
    /// `published` when the current buffer was taken.
    pub base: u64,
    /// Buffers sealed, which is the sequence number of the current buffer or of the next one, and the current buffer
    /// ([`active_word`]). One word, so that the two cannot be seen apart.
    pub active: u64,
    /// Records dropped, counted where they are dropped.
    pub dropped: u64,
    /// Records whose stamp did not match: a defect, not a loss. Such a record is void.
    pub mismatch: u64,
    /// Ticks spent waiting for the host.
    pub wait_ticks: u64,
    /// The agent that owns the pool + 1; 0 = none.
    pub owner: u32,
    /// Zero.
    pub pad: [u32; 3],
}
proven_layout!(ActiveHead, 64, {
    published: u64, base: u64, active: u64, dropped: u64, mismatch: u64, wait_ticks: u64, owner: u32, pad: [u32; 3],
});

/// Opens a single-producer single-consumer queue; its slots of 8 bytes follow. Each index has a line of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct QueueHead {
    /// Values pushed since the run began; written by the producer.
    pub head: u64,
    /// Zero.
    pub pad0: [u64; 7],
    /// Values consumed since the run began; written by the consumer.
    pub tail: u64,
    /// Zero.
    pub pad1: [u64; 7],
}
proven_layout!(QueueHead, 128, { head: u64, pad0: [u64; 7], tail: u64, pad1: [u64; 7] });

/// Opens a buffer; its records follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct BufferHeader {
    /// The buffer's sequence number within its pool + 1; 0 = never used.
    pub sequence_plus_1: u64,
    /// Its records once it is sealed, void ones included; 0 before.
    pub count: u64,
    /// Those of them that are void: their stamp is 0. Set when it is sealed.
    pub void: u64,
    /// Zero.
    pub pad: [u64; 5],
}
proven_layout!(BufferHeader, 64, { sequence_plus_1: u64, count: u64, void: u64, pad: [u64; 5] });

/// Words that concern all pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Control {
    /// Doorbell: rings since the run began; written by producers, the word the collector sleeps on.
    pub rings: u32,
    /// 1 while the collector sleeps; written by the host.
    pub sleeping: u32,
    /// Zero.
    pub pad0: [u64; 7],
    /// Producers that wait for a buffer.
    pub blocked: u32,
    /// Waits that have ended.
    pub releases: u32,
    /// 1 once a producer took the host for gone.
    pub host_gone: u32,
    /// Zero.
    pub pad1: [u32; 13],
    /// 1 once the recording has ended: nobody waits for buffers any more; written by the host.
    pub ended: u32,
    /// Zero.
    pub pad2: [u32; 15],
}
proven_layout!(Control, 192, {
    rings: u32, sleeping: u32, pad0: [u64; 7], blocked: u32, releases: u32, host_gone: u32, pad1: [u32; 13],
    ended: u32, pad2: [u32; 15],
});

/// Opens a table; its entries follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct TableHead {
    /// Entries (or bytes of strings) in use; published after the entry.
    pub count: u32,
    /// Entries that found no room.
    pub refused: u32,
    /// Zero.
    pub pad: [u64; 7],
}
proven_layout!(TableHead, 64, { count: u32, refused: u32, pad: [u64; 7] });

/// One reading of two clocks at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct ClockPair {
    /// The run's clock.
    pub tick: u64,
    /// The operating system's monotonic clock, or virtual nanoseconds.
    pub ns: u64,
}
proven_layout!(ClockPair, 16, { tick: u64, ns: u64 });

/// One kernel's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct KernelNameEntry {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: StringRef,
    /// Zero.
    pub pad: u32,
}

/// One source site. Entry `i` is [`SiteId`](crate::SiteId) `i + 1`; site 0 is "unknown".
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct SiteEntry {
    /// Its line.
    pub line: u32,
    /// Its file.
    pub file: StringRef,
    /// Zero.
    pub pad: u32,
}

const _: () = {
    assert!(size_of::<KernelNameEntry>() == 16 && size_of::<SiteEntry>() == 16 && size_of::<StringRef>() == 8);
    assert!(core::mem::offset_of!(Control, blocked) == LINE && core::mem::offset_of!(Control, ended) == 2 * LINE);
    assert!(core::mem::offset_of!(QueueHead, tail) == LINE && size_of::<ActiveHead>() == LINE);
};

/// The directory index of a pool.
pub const fn pool_index(kind: Kind, instance: u16) -> usize {
    kind as usize * INSTANCE_SLOTS + instance as usize
}

/// What a count word grows by with every count: odd, so that one flipped bit leaves no multiple of it, and so small that 2^48
/// records can be counted.
pub const COUNT_STEP: u64 = 65_521;

/// The word of an [`ActiveHead`] that holds this count. A word that is none tells of damage, at no cost: counting is adding
/// [`COUNT_STEP`] instead of 1.
#[inline]
pub const fn count_word(count: u64) -> u64 {
    count.wrapping_mul(COUNT_STEP)
}

/// The count that a word of an [`ActiveHead`] holds; `None` if it is damaged.
#[inline]
pub const fn from_count_word(word: u64) -> Option<u64> {
    if word.is_multiple_of(COUNT_STEP) { Some(word / COUNT_STEP) } else { None }
}

/// Bits of an active word that hold the buffer.
const BUFFER_BITS: u32 = 16;
/// The most buffers a pool can have.
pub const BUFFER_LIMIT: u32 = (1 << BUFFER_BITS) - 1;

/// The active word of a pool that has sealed `sequence` buffers and is writing `buffer`.
#[inline]
pub const fn active_word(sequence: u64, buffer: Option<u32>) -> u64 {
    let buffer_plus_1 = match buffer {
        Some(buffer) => buffer as u64 + 1,
        None => 0,
    };
    sequence << BUFFER_BITS | buffer_plus_1
}

/// Takes an active word apart into the buffers sealed and the current buffer.
#[inline]
pub const fn from_active_word(word: u64) -> (u64, Option<u32>) {
    let buffer_plus_1 = word & BUFFER_LIMIT as u64;
    (word >> BUFFER_BITS, if buffer_plus_1 == 0 { None } else { Some(buffer_plus_1 as u32 - 1) })
}

/// The word a ready queue carries for a sealed buffer.
#[inline]
pub const fn ready_word(pool: u32, buffer: u32) -> u64 {
    (pool as u64) << 32 | buffer as u64
}

/// Takes a ready word apart into pool and buffer.
#[inline]
pub const fn from_ready_word(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}
