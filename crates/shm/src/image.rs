//! A region as its bytes: how a dead run is read. Nothing here is mapped and nothing is trusted.
//!
//! Every offset and count that the region holds is bounded by the file's length and by the layout before it is used,
//! and all reads are copies, so a damaged or hostile region can at worst yield nonsense records. What does not make sense
//! is left out and said in [`RegionImage::damage`].

use crate::board::BoardLook;
use crate::error::Error;
use crate::plan::checksum;
use crate::region::without_void;
use crate::rotation::Counters;
use bytemuck::{Pod, Zeroable};
use plimsoll_abi::board::{AgentStatus, BoardHead, RingStatus, line_offset, rings_offset};
use plimsoll_abi::record::Kind;
use plimsoll_abi::region::{
    ActiveHead, BufferHeader, COUNT_STEP, ClockPair, ClockSource, INSTANCE_SLOTS, KernelNameEntry, KindLayout, MAGIC,
    PoolEntry, RegionHeader, SCHEMA, SiteEntry, StringRef, TableHead, from_active_word, from_count_word,
};
use plimsoll_abi::{Flags, KernelId, RINGS, SiteId};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What to do with a file that is no whole region.
const RESTORE: &str = "Name the region of a run, or restore the file";

/// Largest directory that is read.
const KIND_LIMIT: u32 = 64;

/// Bytes that can be read at any offset.
pub trait ReadAt {
    /// How many bytes there are.
    ///
    /// # Errors
    /// What the system says.
    fn len_bytes(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if there are not as many bytes; else what the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl ReadAt for &File {
    fn len_bytes(&self) -> io::Result<u64> {
        ReadAt::len_bytes(*self)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        ReadAt::read_at(*self, buffer, offset)
    }
}

impl ReadAt for &[u8] {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let found = usize::try_from(offset).ok().and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// The bytes of a region.
#[derive(Debug)]
pub struct RegionImage<B> {
    bytes: B,
    len: u64,
    path: PathBuf,
    header: RegionHeader,
    pools: Vec<PoolImage>,
    damage: Vec<String>,
}

/// One pool of a region.
#[derive(Clone, Copy, Debug)]
pub struct PoolImage {
    /// The kind of its records.
    pub kind: Kind,
    /// The core or agent it belongs to.
    pub instance: u16,
    /// The active head, with its counts decoded to plain numbers.
    head: ActiveHead,
    layout: KindLayout,
    buffers_offset: u64,
}

impl PoolImage {
    /// What the producer had counted.
    pub fn counters(&self) -> Counters {
        let ActiveHead { published, dropped, mismatch, wait_ticks, .. } = self.head;
        Counters { published: published.saturating_sub(mismatch), dropped, mismatch, wait_ticks }
    }
}

/// A buffer that holds records: sealed, or being written when the run died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundBuffer {
    /// Its place in the pool's stream.
    pub sequence: u64,
    /// Its records, by the producer's published count, void ones included.
    pub count: u32,
    /// Where they start.
    offset: u64,
    /// Whether some of them may be void.
    void: bool,
}

/// A region's file with its readers' lock, which is refused while the run lives.
#[derive(Debug)]
pub struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Unlocked explicitly, because a process that is just being forked holds a copy of the descriptor, and closing this
        // one would not unlock it. If unlocking fails, closing the file has to do.
        drop(self.0.unlock());
    }
}

impl ReadAt for LockedFile {
    fn len_bytes(&self) -> io::Result<u64> {
        self.0.len_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        ReadAt::read_at(&self.0, buffer, offset)
    }
}

impl RegionImage<File> {
    /// Opens the region of a run that lives or is over, to look at it. Nothing is locked, so nobody is kept from anything.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened; else as [`parse`](Self::parse).
    pub fn open_any(path: &Path) -> Result<Self, Error> {
        Self::parse(open_plain(path)?, path)
    }
}

impl RegionImage<LockedFile> {
    /// Opens the region of a run that is over; a live run is refused. As long as the image lives, the file is locked as its
    /// readers lock it, which keeps none of them out: who may change the run is settled by a lock on its directory.
    ///
    /// # Errors
    /// [`Error::Live`] if the run lives; [`Error::Io`] if the file cannot be opened or locked; else as [`parse`](Self::parse).
    pub fn open_dead(path: &Path) -> Result<Self, Error> {
        let file = open_plain(path)?;
        match file.try_lock_shared() {
            Ok(()) => Self::parse(LockedFile(file), path),
            Err(TryLockError::WouldBlock) => Err(Error::Live { path: path.to_path_buf() }),
            Err(TryLockError::Error(source)) => {
                let advice = "check that its file system can lock files";
                Err(Error::Io { doing: "lock", path: path.to_path_buf(), source, advice })
            }
        }
    }
}

/// Removes the file of a region that was never finished, unless somebody is finishing it. What is no such file stays.
///
/// # Errors
/// [`Error::Live`] if somebody is finishing the region; [`Error::NotARegion`] if the file is none; [`Error::Io`] if it cannot be
/// opened or removed.
pub fn remove_half_made(path: &Path) -> Result<(), Error> {
    let advice = "remove it by hand";
    let io = |doing, source| Error::Io { doing, path: path.to_path_buf(), source, advice };
    let file = open_plain(path)?;
    if file.try_lock_shared().is_err() {
        return Err(Error::Live { path: path.to_path_buf() });
    }
    let file = LockedFile(file);
    match RegionImage::parse(&file.0, path) {
        // Under the lock: whoever makes a region looks, once the lock is its own, whether the file is still there.
        Err(Error::HalfMade { .. }) => std::fs::remove_file(path).map_err(|source| io("remove", source)),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// Opens a region's file for reading.
fn open_plain(path: &Path) -> Result<File, Error> {
    let advice = "check that it exists and is yours";
    let io = |source| Error::Io { doing: "open", path: path.to_path_buf(), source, advice };
    // Opening a pipe would wait for its other end.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        return Err(Error::NotARegion { path: path.to_path_buf(), why: format!("it is not a plain file. {RESTORE}") });
    }
    Ok(file)
}

impl<B: ReadAt> RegionImage<B> {
    /// Reads header and directory; `path` is what errors call it.
    ///
    /// # Errors
    /// [`Error::HalfMade`] if nothing describes the region yet; [`Error::NotARegion`] if the bytes are no region, one of another
    /// schema, or cannot be read. Damage inside a region is no error: see [`damage`](Self::damage).
    pub fn parse(bytes: B, path: &Path) -> Result<Self, Error> {
        let refuse = |why: String| Error::NotARegion { path: path.to_path_buf(), why };
        let len = bytes.len_bytes().map_err(|error| refuse(error.to_string()))?;
        let mut image = Self {
            bytes,
            len,
            path: path.to_path_buf(),
            header: RegionHeader::zeroed(),
            pools: Vec::new(),
            damage: Vec::new(),
        };
        // pairs(region.magic): it is written last, so a file without it has no header that could be read.
        if len == 0 || image.value::<[u8; 8]>(0) == Some([0; 8]) {
            return Err(Error::HalfMade { path: path.to_path_buf() });
        }
        let header: RegionHeader =
            image.value(0).ok_or_else(|| refuse(format!("it is shorter than a header. {RESTORE}")))?;
        if header.magic != MAGIC {
            return Err(refuse(format!("it does not start as one. {RESTORE}")));
        }
        if header.schema != SCHEMA {
            return Err(refuse(format!(
                "its schema is {}, and this version reads {SCHEMA}. Recover its run with the version of Plimsoll that recorded it",
                header.schema
            )));
        }
        if header.region_bytes > len {
            return Err(refuse(format!("it should be {} bytes long, but is {len}. {RESTORE}", header.region_bytes)));
        }
        if header.kind_slots > KIND_LIMIT || header.instance_slots as usize > INSTANCE_SLOTS {
            let (kinds, instances) = (header.kind_slots, header.instance_slots);
            return Err(refuse(format!(
                "its directory of {kinds} kinds by {instances} instances is larger than any. {RESTORE}"
            )));
        }
        image.header = header;
        if !image.has_its_checksum() {
            image
                .damage
                .push("the header or the directory of pools has another checksum than it was written with".to_owned());
        }
        image.read_directory();
        Ok(image)
    }

    /// Whether header and directory are as they were written.
    fn has_its_checksum(&self) -> bool {
        let header = &self.header;
        let kinds = u64::from(header.kind_slots) * size_of::<KindLayout>() as u64;
        let pools = u64::from(header.kind_slots) * u64::from(header.instance_slots) * size_of::<PoolEntry>() as u64;
        let tables = self.copy(header.kinds_offset, kinds).zip(self.copy(header.pools_offset, pools));
        tables.is_some_and(|(kinds, pools)| checksum(header, &kinds, &pools) == header.checksum)
    }

    fn read_directory(&mut self) {
        for kind in Kind::ALL.into_iter().filter(|&kind| (kind as u32) < self.header.kind_slots) {
            let layout = self.entry::<KindLayout>(self.header.kinds_offset, kind as u64);
            let Some(layout) = layout.filter(|layout| layout.instances > 0) else { continue };
            for instance in 0..self.header.instance_slots {
                let index = kind as u64 * u64::from(self.header.instance_slots) + u64::from(instance);
                let entry = self.entry::<PoolEntry>(self.header.pools_offset, index);
                let Some(entry) = entry.filter(|entry| entry.present != 0) else { continue };
                match self.pool(kind, instance as u16, layout, entry) {
                    Some(mut pool) => {
                        if !to_counts(&mut pool.head) {
                            self.damage.push(format!("a count of the pool of {} {instance} is damaged", kind.name()));
                        }
                        self.pools.push(pool);
                    }
                    None => self.damage.push(format!("the pool of {} {instance} lies outside the region", kind.name())),
                }
            }
        }
    }

    /// The pool, if its layout is its kind's and all of it lies inside the file.
    fn pool(&self, kind: Kind, instance: u16, layout: KindLayout, entry: PoolEntry) -> Option<PoolImage> {
        let record_bytes = kind.record_bytes() as u64;
        let needed = u64::from(layout.records).checked_mul(record_bytes)? + size_of::<BufferHeader>() as u64;
        let all = u64::from(layout.buffers) * u64::from(layout.buffer_stride);
        let fits = u64::from(layout.record_bytes) == record_bytes
            && needed <= u64::from(layout.buffer_stride)
            && entry.buffers_offset.checked_add(all)? <= self.len;
        let head = self.value::<ActiveHead>(entry.head_offset)?;
        fits.then_some(PoolImage { kind, instance, head, layout, buffers_offset: entry.buffers_offset })
    }

    /// The pools that can be read.
    pub fn pools(&self) -> &[PoolImage] {
        &self.pools
    }

    /// What made no sense, one line each.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Where the region is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the run recorded.
    pub fn flags(&self) -> Flags {
        Flags::from_bits(self.header.flags).unwrap_or(Flags::NONE)
    }

    /// The clock's ticks per second, and what it is.
    pub fn clock(&self) -> (u64, ClockSource) {
        (self.header.clock_hz.max(1), ClockSource::from_number(self.header.clock_source))
    }

    /// The run's directory, as the run knew it.
    pub fn run_dir(&self) -> Option<PathBuf> {
        self.string(self.header.run_dir).map(PathBuf::from)
    }

    /// The host process.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// What tells it from the region of another run of a process with the same number; 0 if unknown.
    pub fn run_tag(&self) -> u32 {
        self.header.run_tag
    }

    /// The buffers of a pool that hold records, in the order of their sequence numbers.
    pub fn buffers(&mut self, pool: &PoolImage) -> Vec<FoundBuffer> {
        let mut found = Vec::new();
        for number in 0..pool.layout.buffers {
            let at = pool.buffers_offset + u64::from(number) * u64::from(pool.layout.buffer_stride);
            let Some(header) = self.value::<BufferHeader>(at) else { break };
            // A live producer may have moved on since its head was read: its buffer has another number then.
            let (sequence, active) = from_active_word(pool.head.active);
            let current = active == Some(number) && header.sequence_plus_1 == sequence.wrapping_add(1);
            // pairs(region.image): the producer is dead, so its stores are in the file in the order of `make_current`.
            let count = match (header.count, current) {
                (0, true) => pool.head.published.saturating_sub(pool.head.base),
                (sealed, _) => sealed,
            };
            if count == 0 {
                continue;
            }
            if header.sequence_plus_1 == 0 || count > u64::from(pool.layout.records) {
                let (kind, limit) = (pool.kind.name(), pool.layout.records);
                let line = format!("buffer {number} of {kind} {} claims {count} records of {limit}", pool.instance);
                self.damage.push(line);
                continue;
            }
            let offset = at + size_of::<BufferHeader>() as u64;
            let void = if header.count > 0 { header.void > 0 } else { pool.head.mismatch > 0 };
            found.push(FoundBuffer { sequence: header.sequence_plus_1 - 1, count: count as u32, offset, void });
        }
        found.sort_by_key(|buffer| buffer.sequence);
        found
    }

    /// The records of a buffer, without the void ones.
    ///
    /// # Errors
    /// [`Error::Io`] if the bytes cannot be read.
    pub fn records(&self, pool: &PoolImage, buffer: &FoundBuffer) -> Result<Vec<u8>, Error> {
        let mut records = vec![0; buffer.count as usize * pool.kind.record_bytes()];
        self.bytes.read_at(&mut records, buffer.offset).map_err(|source| Error::Io {
            doing: "read",
            path: self.path.clone(),
            source,
            advice: "check that the file is not being changed",
        })?;
        Ok(if buffer.void { without_void(pool.kind, &records) } else { records })
    }

    /// Whether a buffer is still the one that was found. If it is, so were its records when they were read.
    pub fn still_holds(&self, buffer: &FoundBuffer) -> bool {
        let at = buffer.offset - size_of::<BufferHeader>() as u64;
        self.value::<BufferHeader>(at).is_some_and(|header| header.sequence_plus_1 == buffer.sequence + 1)
    }

    /// What the status board says. Of a live run it is a look at this moment.
    pub fn board(&self) -> Option<BoardLook> {
        let offset = self.header.board_offset;
        let head: BoardHead = self.value(offset)?;
        let (agents, cores) = (self.header.agents as usize, self.header.cores as usize);
        if agents > INSTANCE_SLOTS || cores > INSTANCE_SLOTS {
            return None;
        }
        let mut rings = [RingStatus::default(); RINGS];
        for (at, ring) in rings.iter_mut().enumerate() {
            *ring = self.entry(offset.checked_add(rings_offset() as u64)?, at as u64)?;
        }
        let first = offset.checked_add(line_offset(0) as u64)?;
        let line = |at: usize| self.entry::<AgentStatus>(first, at as u64);
        let all: Option<Vec<AgentStatus>> = (0..agents + cores).map(line).collect();
        let mut agent_lines = all?;
        let cores = agent_lines.split_off(agents);
        Some(BoardLook { head, rings, agents: agent_lines, cores })
    }

    /// The kernels by id.
    pub fn kernels(&self) -> Vec<(KernelId, String)> {
        let entries = self.table::<KernelNameEntry>(self.header.kernels_offset, self.header.kernel_slots);
        entries.iter().filter_map(|entry| Some((KernelId(entry.id), self.string(entry.name)?))).collect()
    }

    /// The source sites as id, file and line.
    pub fn sites(&self) -> Vec<(SiteId, String, u32)> {
        let entries = self.table::<SiteEntry>(self.header.sites_offset, self.header.site_slots);
        let numbered = (1..).zip(&entries);
        numbered.filter_map(|(id, entry)| Some((SiteId(id), self.string(entry.file)?, entry.line))).collect()
    }

    /// The clock's readings, in the order they were taken.
    pub fn clock_pairs(&self) -> Vec<ClockPair> {
        self.table(self.header.clock_offset, self.header.clock_slots)
    }

    fn table<T: Pod>(&self, offset: u64, slots: u32) -> Vec<T> {
        // pairs(table.count): as many entries as are counted are in the file.
        let Some(head) = self.value::<TableHead>(offset) else { return Vec::new() };
        let first = offset.saturating_add(size_of::<TableHead>() as u64);
        (0..u64::from(head.count.min(slots))).map_while(|index| self.entry(first, index)).collect()
    }

    fn string(&self, text: StringRef) -> Option<String> {
        let first = self.header.strings_offset.checked_add(size_of::<TableHead>() as u64)?;
        if u64::from(text.offset) + u64::from(text.len) > u64::from(self.header.string_bytes) {
            return None;
        }
        let bytes = self.copy(first.checked_add(text.offset.into())?, text.len.into())?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A copy of so many bytes, if all of them lie inside the file.
    fn copy(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.bytes.read_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }

    fn entry<T: Pod>(&self, first: u64, index: u64) -> Option<T> {
        self.value(first.checked_add(index.checked_mul(size_of::<T>() as u64)?)?)
    }

    fn value<T: Pod>(&self, offset: u64) -> Option<T> {
        if offset.checked_add(size_of::<T>() as u64)? > self.len {
            return None;
        }
        let mut value = T::zeroed();
        self.bytes.read_at(bytemuck::bytes_of_mut(&mut value), offset).ok()?;
        Some(value)
    }
}

/// Turns the count words of a head into counts; `false` if one is damaged, for which the next count below it is taken.
fn to_counts(head: &mut ActiveHead) -> bool {
    let words = [&mut head.published, &mut head.base, &mut head.dropped, &mut head.mismatch];
    words.into_iter().fold(true, |sound, word| {
        let count = from_count_word(*word);
        *word = count.unwrap_or(*word / COUNT_STEP);
        sound && count.is_some()
    })
}
