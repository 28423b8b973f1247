//! The region: one mapped file that holds all shared state of a run's recorder.
//!
//! The file has mode 0600, its space is reserved before it is mapped (so a full file system is an error at the start
//! and never a SIGBUS), and it is locked as long as the run lives. Views are computed from this process's own copy of
//! the layout; what the other side writes into the region can never lead outside it.

use crate::backing::{NAME_END, NAME_START, free_name, has_room, map, reserve};
use crate::board::{HeadLine, RingLine, StatusLine};
use crate::error::Error;
use crate::image::RegionImage;
use crate::lane::{Patience, Policy};
use crate::plan::{RegionPlan, RegionSpec, checksum};
use crate::queue::QueueView;
use crate::rotation::{HostMemory, PoolMemory, StampMemory};
use crate::sync::{AtomicU32, AtomicU64, RecordSlot};
use crate::tables::Tables;
use crate::words::{ActiveHead, BufferHeader, Control, QueueHead};
use plimsoll_abi::board::{line_offset, rings_offset};
use plimsoll_abi::record::{Kind, Record, Stamped};
use plimsoll_abi::region::{INSTANCE_SLOTS, KindLayout, LINE, PoolEntry, pool_index};
use plimsoll_abi::{AgentId, Flags, Nanos, RINGS};
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

mod attach;
mod transport;

pub use transport::{Moved, Transport, TransportKind};

/// Whose region is made.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The run's directory. The region names it, so it should be absolute.
    pub run_dir: &'a Path,
    /// Where the region goes; `None` = /dev/shm if it has room, else the run's directory.
    pub region_dir: Option<&'a Path>,
    /// Tells the runs of processes with the same number apart; 0 if nobody asks.
    pub tag: u32,
}

/// A mapped region.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    /// Bytes mapped.
    bytes: usize,
    path: PathBuf,
    plan: RegionPlan,
    pub(crate) tables: Mutex<Tables>,
    /// Open as long as the region is mapped: it holds the lock.
    file: File,
    /// Whether this is the process that made the region, and so gives the lock back.
    owns_lock: bool,
}

/// Removes a region's file, unless it is gone already.
///
/// # Errors
/// [`Error::Io`] if the system refuses to remove it.
pub fn remove_region(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { doing: "remove", path: path.to_path_buf(), source, advice: "remove it by hand" })
        }
        _ => Ok(()),
    }
}

// SAFETY: the mapping is shared memory that is reached through atomics, through slots whose users keep the rotation
// protocol, and, for the tables, under the mutex.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Where regions live if there is room.
    pub const SHARED_MEMORY: &str = "/dev/shm";

    /// Makes the region of a run whose directory is `run_dir`: in `region_dir` if given, else on /dev/shm if it has the
    /// room, else in the run directory.
    ///
    /// # Errors
    /// As [`RegionPlan::new`]; [`Error::NoRoom`] if the file system is full; [`Error::Io`] if the file cannot be made, locked or mapped.
    pub fn create(spec: &RegionSpec, run_dir: &Path, region_dir: Option<&Path>) -> Result<Self, Error> {
        Self::create_announced(spec, &Owner { run_dir, region_dir, tag: 0 }, |_| Ok(()))
    }

    /// As [`create`](Self::create), but calls `announce` with every path before a file is made there. Whoever finds the file,
    /// however little of it is written, can then find out whose it is. On failure no file is left.
    ///
    /// # Errors
    /// As [`create`](Self::create); and what `announce` fails with.
    #[expect(clippy::missing_panics_doc, reason = "there is always a place to try")]
    pub fn create_announced<E: From<Error>>(
        spec: &RegionSpec,
        owner: &Owner<'_>,
        mut announce: impl FnMut(&Path) -> Result<(), E>,
    ) -> Result<Self, E> {
        let plan = RegionPlan::new(spec)?;
        let bytes = plan.bytes();
        let shared = Path::new(Self::SHARED_MEMORY);
        let places = match owner.region_dir {
            Some(dir) => vec![dir],
            None if has_room(shared, bytes) => vec![shared, owner.run_dir],
            None => vec![owner.run_dir],
        };
        let mut refused = None;
        for dir in places {
            loop {
                let path = free_name(dir);
                announce(&path)?;
                match reserve(&path, bytes) {
                    Ok(Some(file)) => return Ok(Self::describe(plan, path, file, owner)?),
                    Ok(None) => {}
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
        }
        Err(refused.expect("there is at least one place").into())
    }

    /// Maps the file and describes it; on failure it is removed.
    fn describe(plan: RegionPlan, path: PathBuf, file: File, owner: &Owner<'_>) -> Result<Self, Error> {
        let bytes = plan.bytes() as usize;
        let made = map(&path, &file, bytes).and_then(|base| {
            let mut region = Self {
                base,
                bytes,
                path: path.clone(),
                plan,
                tables: Mutex::new(Tables::new()),
                file,
                owns_lock: true,
            };
            region.write_header(owner)?;
            Ok(region)
        });
        // The file holds nothing yet. If it cannot be removed, the error that is returned matters more.
        made.inspect_err(|_| drop(remove_region(&path)))
    }

    /// Writes the header, the layout table and the directory, the magic last.
    fn write_header(&mut self, owner: &Owner<'_>) -> Result<(), Error> {
        let mut header = self.plan.header;
        header.run_dir = self.add_string(&owner.run_dir.to_string_lossy())?;
        header.run_tag = owner.tag;
        let (kinds, pools) = (bytemuck::cast_slice(&self.plan.kinds), bytemuck::cast_slice(&self.plan.pools));
        header.checksum = checksum(&header, kinds, pools);
        self.put(header.kinds_offset, kinds);
        self.put(header.pools_offset, pools);
        self.put(header.ready_offset, bytemuck::cast_slice(&self.plan.ready));
        self.plan.header = header;
        let bytes = bytemuck::bytes_of(&header);
        self.put(8, &bytes[8..]);
        // SeqCst, for the compiler alone: the magic is stored last. pairs(region.magic): a kill keeps the order of stores, so who
        // finds the magic in the file finds the rest of the header.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        self.put(0, &bytes[..8]);
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it lies on /dev/shm and so must not outlive its use.
    pub fn on_shared_memory(path: &Path) -> bool {
        path.starts_with(Self::SHARED_MEMORY)
    }

    /// The files on /dev/shm that are named like regions.
    pub fn files_on_shared_memory() -> Vec<PathBuf> {
        let entries = std::fs::read_dir(Self::SHARED_MEMORY).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| Self::is_named_like(path)).collect();
        paths.sort();
        paths
    }

    /// Whether a file has the name of a region.
    pub fn is_named_like(path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        name.starts_with(NAME_START) && name.ends_with(NAME_END)
    }

    /// Its size.
    pub fn len_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// What the run records.
    pub fn flags(&self) -> Flags {
        Flags::from_bits(self.plan.header.flags).unwrap_or(Flags::NONE)
    }

    /// Cores of the run.
    pub fn cores(&self) -> u16 {
        self.plan.header.cores as u16
    }

    /// Agents of the run.
    pub fn agents(&self) -> u16 {
        self.plan.header.agents as u16
    }

    /// The geometry of a kind's pools; all zero if the kind is off.
    pub fn kind_layout(&self, kind: Kind) -> KindLayout {
        self.plan.kinds[kind as usize]
    }

    /// Entries of the pool directory.
    pub fn directory_len(&self) -> usize {
        self.plan.pools.len()
    }

    /// Every pool, as kind, instance and directory index.
    pub fn pools(&self) -> impl Iterator<Item = (Kind, u16, u32)> + '_ {
        let present = self.plan.pools.iter().enumerate().filter(|(_, pool)| pool.present != 0);
        present.filter_map(|(index, _)| {
            let kind = Kind::from_number((index / INSTANCE_SLOTS) as u16)?;
            Some((kind, (index % INSTANCE_SLOTS) as u16, index as u32))
        })
    }

    /// Ticks as nanoseconds, by the nominal frequency of the clock.
    pub fn nanos(&self, ticks: u64) -> Nanos {
        Nanos(scaled(ticks, 1_000_000_000, self.plan.header.clock_hz))
    }

    /// How long producers wait for the host.
    pub fn patience(&self) -> Patience {
        let header = &self.plan.header;
        let ticks = |ns: u64| scaled(ns, header.clock_hz, 1_000_000_000);
        if header.policy == Policy::Drop as u32 {
            Patience { policy: Policy::Drop, ticks: ticks(header.drop_wait_ns).max(1), steps: 1000 }
        } else {
            Patience { policy: Policy::Block, ticks: ticks(header.host_gone_ns).max(1), steps: u32::MAX }
        }
    }

    /// How many sealed buffers make it worth waking the host: half of a pool, so that its writes are long.
    pub fn announce_every(&self) -> u32 {
        let buffers = self.plan.kinds.iter().map(|layout| layout.buffers).max();
        (buffers.unwrap_or(0) / 2).max(1)
    }

    /// The words that concern all pools.
    pub fn control(&self) -> &Control {
        self.at(self.plan.header.control_offset)
    }

    /// The words of the status board: head, rings, lines.
    pub(crate) fn board_words(&self) -> (&HeadLine, &[RingLine; RINGS], &[StatusLine]) {
        let offset = self.plan.header.board_offset;
        let lines = usize::from(self.agents()) + usize::from(self.cores());
        let first = self.span(offset + line_offset(0) as u64, lines * size_of::<StatusLine>()).cast::<StatusLine>();
        assert!(first.is_aligned(), "the board at {offset} is not aligned");
        // SAFETY: in bounds and aligned as checked; the mapping lives as long as `self`, and a line is made of atomics, for
        // which any bytes are valid and which may be shared.
        let lines = unsafe { std::slice::from_raw_parts(first.as_ptr(), lines) };
        (self.at(offset), self.at(offset + rings_offset() as u64), lines)
    }

    /// Where an agent says what it does.
    pub fn status_line(&self, agent: AgentId) -> &StatusLine {
        &self.board_words().2[agent.index()]
    }

    /// Says that nobody needs to wait for buffers any more.
    pub fn end_recording(&self) {
        self.control().end_recording();
    }

    /// Whether the recording has ended.
    pub fn recording_ended(&self) -> bool {
        self.control().ended.0.load(Ordering::Relaxed) != 0
    }

    /// How many producers wait for the host right now.
    pub fn waiting(&self) -> u32 {
        self.control().waits.blocked.load(Ordering::Relaxed)
    }

    /// Whether a producer has taken the host for gone.
    pub fn host_gone(&self) -> bool {
        self.control().waits.host_gone.load(Ordering::Relaxed) != 0
    }

    /// The ready queue of an agent of the run.
    pub fn ready_queue(&self, agent: AgentId) -> QueueView<'_> {
        let entry = self.plan.ready[agent.index()];
        self.queue(entry.offset, entry.slots as usize)
    }

    /// The pool of `R`'s kind and this instance, if the run has it.
    ///
    /// # Panics
    /// If records of the kind are not as long as an `R` is, or the tables of an attached region contradict themselves.
    pub fn pool<R: Record>(&self, instance: u16) -> Option<PoolView<'_, R>> {
        if usize::from(instance) >= INSTANCE_SLOTS {
            return None;
        }
        let index = pool_index(R::KIND, instance);
        let (entry, layout) = (self.entry(index as u32)?, self.plan.kinds[R::KIND as usize]);
        // Anybody may say of a type that it is a record, and a region that another process made may say anything.
        assert!(
            layout.record_bytes as usize == size_of::<R>() && align_of::<R>() <= align_of::<u64>(),
            "a record of {} bytes in a pool of {}",
            size_of::<R>(),
            layout.record_bytes
        );
        let used = size_of::<BufferHeader>() as u64 + u64::from(layout.records) * u64::from(layout.record_bytes);
        let is_aligned =
            entry.buffers_offset.is_multiple_of(LINE as u64) && (layout.buffer_stride as usize).is_multiple_of(LINE);
        assert!(used <= u64::from(layout.buffer_stride) && is_aligned, "buffers that do not hold their records");
        Some(PoolView {
            head: self.at(entry.head_offset),
            free: self.queue(entry.free_offset, layout.free_slots as usize),
            first: self.span(entry.buffers_offset, layout.buffers as usize * layout.buffer_stride as usize),
            stride: layout.buffer_stride,
            buffers: layout.buffers,
            records: layout.records,
            index: index as u32,
            record: PhantomData,
        })
    }

    /// The first `count` records of a buffer, as bytes.
    ///
    /// # Safety
    /// The records must not be written while the slice lives: the buffer is the host's ([`Taken`](crate::Taken)), or
    /// they are published ([`Unsealed`](crate::Unsealed)) and the buffer is not given back.
    ///
    /// # Panics
    /// If the region has no such pool or buffer, or the buffer not so many records.
    pub unsafe fn records(&self, pool: u32, buffer: u32, count: u32) -> &[u8] {
        let (entry, layout) = self.known(pool);
        assert!(buffer < layout.buffers && count <= layout.records, "records outside their buffer");
        let at = entry.buffers_offset + u64::from(buffer) * u64::from(layout.buffer_stride);
        let bytes = count as usize * layout.record_bytes as usize;
        let start = self.span(at + size_of::<BufferHeader>() as u64, bytes);
        // SAFETY: `span` checked that the bytes lie inside the mapping, which lives as long as `self`; the caller
        // promises that nobody writes them.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
    }

    /// The region as its bytes, read from its file as those of a dead run are: for a run whose collector has failed.
    ///
    /// # Errors
    /// As [`RegionImage::parse`].
    pub fn image(&self) -> Result<RegionImage<&File>, Error> {
        RegionImage::parse(&self.file, &self.path)
    }

    /// Removes the file, unless it is gone already. The mapping stays usable.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses to remove it.
    pub fn remove(&self) -> Result<(), Error> {
        remove_region(&self.path)
    }

    fn entry(&self, pool: u32) -> Option<PoolEntry> {
        self.plan.pools.get(pool as usize).copied().filter(|entry| entry.present != 0)
    }

    fn known(&self, pool: u32) -> (PoolEntry, KindLayout) {
        let entry = self.entry(pool).expect("the caller asked `geometry` for this pool");
        (entry, self.plan.kinds[pool as usize / INSTANCE_SLOTS])
    }

    fn queue(&self, offset: u64, slots: usize) -> QueueView<'_> {
        let head = self.at(offset);
        let first = self.span(offset + size_of::<QueueHead>() as u64, slots * 8).cast::<AtomicU64>();
        // SAFETY: `span` checked that the slots lie inside the mapping, which lives as long as `self`; they lie behind their
        // head, which `at` checked to be aligned, and any bytes are valid atomics.
        let slots = unsafe { std::slice::from_raw_parts(first.as_ptr(), slots) };
        QueueView::new(head, slots)
    }

    /// Shared words at an offset of the plan.
    pub(crate) fn at<T>(&self, offset: u64) -> &T {
        let start = self.span(offset, size_of::<T>()).cast::<T>();
        assert!(start.is_aligned(), "shared words at {offset} are not aligned");
        // SAFETY: in bounds and aligned as checked; `T` is one of the types of `words` (or made of atomics alone), for
        // which any bytes are valid and which may be shared.
        unsafe { start.as_ref() }
    }

    /// `bytes` bytes at an offset, which must lie inside the mapping.
    pub(crate) fn span(&self, offset: u64, bytes: usize) -> NonNull<u8> {
        let end = usize::try_from(offset).ok().and_then(|start| start.checked_add(bytes));
        assert!(end.is_some_and(|end| end <= self.bytes), "{bytes} bytes at {offset} are outside the region");
        // SAFETY: the offset was just checked to be inside the mapping.
        unsafe { self.base.add(offset as usize) }
    }

    /// Stores bytes that nobody else reads or writes at the same time: at creation, or under the tables' mutex.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        let start = self.span(offset, bytes.len());
        // SAFETY: in bounds as checked; the source is ordinary memory outside the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) }
    }

    pub(crate) fn header(&self) -> &plimsoll_abi::region::RegionHeader {
        &self.plan.header
    }
}

/// The records of a kind whose stamp is not 0; all of them if the kind has no stamp.
pub(crate) fn without_void(kind: Kind, records: &[u8]) -> Vec<u8> {
    let Some(stamp) = kind.stamp() else { return records.to_vec() };
    let good = records.chunks_exact(kind.record_bytes()).filter(|record| record[stamp..stamp + 4] != [0; 4]);
    good.flatten().copied().collect()
}

/// `value * by / of`, or the largest number if that is larger.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

impl Drop for Region {
    fn drop(&mut self) {
        // Unlocked explicitly, because a process that is just being forked holds a copy of the descriptor, and closing this
        // one would not unlock it. If unlocking fails, closing the file has to do. A region that was attached shares its
        // lock with whoever made it.
        if self.owns_lock {
            drop(self.file.unlock());
        }
        // SAFETY: the mapping was made by `map` with this length, and every view borrows from `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "the region was mapped with this address and length");
    }
}

impl HostMemory for Region {
    fn ready(&self, agent: usize) -> QueueView<'_> {
        self.ready_queue(AgentId(agent as u16))
    }

    fn geometry(&self, pool: u32) -> Option<(u32, u32)> {
        self.entry(pool)?;
        let layout = self.plan.kinds[pool as usize / INSTANCE_SLOTS];
        Some((layout.buffers, layout.records))
    }

    fn head(&self, pool: u32) -> &ActiveHead {
        self.at(self.known(pool).0.head_offset)
    }

    fn free(&self, pool: u32) -> QueueView<'_> {
        let (entry, layout) = self.known(pool);
        self.queue(entry.free_offset, layout.free_slots as usize)
    }

    fn header(&self, pool: u32, buffer: u32) -> &BufferHeader {
        let (entry, layout) = self.known(pool);
        self.at(entry.buffers_offset + u64::from(buffer) * u64::from(layout.buffer_stride))
    }
}

/// One pool of a region, as its producer sees it.
#[derive(Debug)]
pub struct PoolView<'r, R> {
    head: &'r ActiveHead,
    free: QueueView<'r>,
    /// The first buffer; `buffers * stride` bytes belong to the pool.
    first: NonNull<u8>,
    stride: u32,
    buffers: u32,
    records: u32,
    index: u32,
    record: PhantomData<&'r [RecordSlot<R>]>,
}

impl<R> Clone for PoolView<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for PoolView<'_, R> {}

// SAFETY: a view is a borrow of the region, which is `Sync`; its slots are only written through the one writer that
// owns the pool.
unsafe impl<R: Send> Send for PoolView<'_, R> {}

// SAFETY: the plan gives every pool a head and buffers of its own.
unsafe impl<'r, R: Record> PoolMemory<'r, R> for PoolView<'r, R> {
    fn index(self) -> u32 {
        self.index
    }

    #[inline]
    fn head(self) -> &'r ActiveHead {
        self.head
    }

    fn free(self) -> QueueView<'r> {
        self.free
    }

    fn buffers(self) -> u32 {
        self.buffers
    }

    fn header(self, buffer: u32) -> &'r BufferHeader {
        // SAFETY: `buffer` returns a pointer to a whole buffer inside the region, aligned to a line by the plan; the
        // header is made of atomics, for which any bytes are valid.
        unsafe { self.buffer(buffer).cast::<BufferHeader>().as_ref() }
    }

    fn slots(self, buffer: u32) -> &'r [RecordSlot<R>] {
        // SAFETY: the records follow the header inside the buffer; `R` is plain bytes, so any are valid, and the
        // header's 64 bytes keep them aligned to 8.
        unsafe {
            let first = self.buffer(buffer).add(size_of::<BufferHeader>()).cast::<RecordSlot<R>>();
            std::slice::from_raw_parts(first.as_ptr(), self.records as usize)
        }
    }
}

/// The stamp of a record that names one outside of itself is refused by the compiler:
///
/// ```compile_fail,E0080
/// # use plimsoll_abi::record::{Kind, Record, Stamped};
/// # use plimsoll_shm::{PoolView, rotation::StampMemory};
/// #[derive(Clone, Copy)]
/// struct Lie(u64);
/// # // SAFETY: eight plain bytes.
/// # unsafe impl bytemuck::Zeroable for Lie {}
/// # // SAFETY: eight plain bytes.
/// # unsafe impl bytemuck::Pod for Lie {}
/// # impl Record for Lie {
/// #     const KIND: Kind = Kind::AicoreTask;
/// # }
/// impl Stamped for Lie {
///     const STAMP: usize = 8; // behind its end
/// }
/// fn look(pool: PoolView<'_, Lie>) -> bool {
///     pool.stamp_word(0, 0).is_some()
/// }
/// std::hint::black_box(look as fn(PoolView<'_, Lie>) -> bool);
/// ```
// SAFETY: the stamp is the word at `R::STAMP` of the record whose slot `slots` has, found by the same numbers.
unsafe impl<'r, R: Stamped> StampMemory<'r, R> for PoolView<'r, R> {
    #[inline]
    fn stamp_word(self, buffer: u32, slot: u32) -> Option<&'r AtomicU32> {
        const { check_stamp::<R>() };
        let record = self.record(buffer, slot)?;
        // SAFETY: the stamp lies inside the record, aligned as just proven; any bytes are a valid atomic, and while a slot
        // is in flight its stamp is reached through this word alone.
        Some(unsafe { record.add(R::STAMP).cast::<AtomicU32>().as_ref() })
    }

    #[inline]
    unsafe fn write_unstamped(self, buffer: u32, slot: u32, record: R) -> bool {
        const { check_stamp::<R>() };
        let Some(to) = self.record(buffer, slot) else { return false };
        let (from, after) = (bytemuck::bytes_of(&record), R::STAMP + 4);
        // SAFETY: both parts lie inside the record, which is inside the region; the caller promises that nobody else
        // accesses them, and the source is a value of this function.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), R::STAMP);
            std::ptr::copy_nonoverlapping(from[after..].as_ptr(), to.add(after).as_ptr(), from.len() - after);
        }
        true
    }
}

/// Refuses, while the program is compiled, a stamp that is not a word of its record.
const fn check_stamp<R: Stamped>() {
    assert!(R::STAMP.is_multiple_of(4) && R::STAMP + 4 <= size_of::<R>(), "a stamp is a word of its record");
}

impl<R> PoolView<'_, R> {
    /// Where a record is, if there is such a buffer and slot.
    #[inline]
    fn record(self, buffer: u32, slot: u32) -> Option<NonNull<u8>> {
        if buffer >= self.buffers || slot >= self.records {
            return None;
        }
        let at = size_of::<BufferHeader>() + slot as usize * size_of::<R>();
        // SAFETY: the slot is one of the buffer's, which lies inside the region.
        Some(unsafe { self.buffer(buffer).add(at) })
    }

    fn buffer(self, buffer: u32) -> NonNull<u8> {
        assert!(buffer < self.buffers, "buffer {buffer} of a pool of {}", self.buffers);
        // SAFETY: below the number of buffers, whose bytes `Region::pool` checked to lie inside the mapping.
        unsafe { self.first.add(buffer as usize * self.stride as usize) }
    }
}
