//! Transports: how the host reaches the region. Mapped, it reads the device's memory in place. With a *shadow* it keeps a copy,
//! laid out as the region is, and moves ranges explicitly: in what the device owns, out what the host owns.
//!
//! A shadow reads in one of three ways: word by word where both sides are in one process; by `process_vm_readv` where the device
//! is a process that has said where it mapped the region; from the region's file where the kernel refuses that, or where the
//! device is gone. What the host owns is always stored through the mapping, because the device reads it with atomic loads.
//! How words move is in [`shadow`](crate::shadow).

use super::{Region, without_void};
use crate::backing::map_untouched;
use crate::error::Error;
use crate::queue::QueueView;
use crate::rotation::{HostMemory, SharedPart};
use crate::shadow::{
    QueuePlace, ShadowWords, copy_words, refresh_free, refresh_ready, write_back_free, write_back_ready,
};
use crate::sync::{AtomicU64, Ordering};
use crate::tables::Tables;
use crate::words::{ActiveHead, BufferHeader};
use plimsoll_abi::record::Kind;
use plimsoll_abi::region::{INSTANCE_SLOTS, LINE};
use rustix::fs::MemfdFlags;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock};

/// How the host reaches what it shares with the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransportKind {
    /// In place.
    #[default]
    Mapped,
    /// Through a copy that it refreshes and writes back.
    Shadow,
}

impl TransportKind {
    /// As files and flags spell it.
    pub const fn name(self) -> &'static str {
        match self {
            TransportKind::Mapped => "mapped",
            TransportKind::Shadow => "shadow",
        }
    }
}

/// What a transport has moved, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Bytes that were copied from the device.
    pub bytes_read: u64,
    /// Bytes that were stored for the device.
    pub bytes_written: u64,
    /// How they were read; empty if nothing had to be.
    pub way: &'static str,
    /// Why that is not the way it should be.
    pub note: Option<String>,
}

/// The host's way to one region.
#[derive(Debug)]
pub struct Transport {
    region: Arc<Region>,
    shadow: Option<Shadow>,
}

#[derive(Debug)]
struct Shadow {
    /// Laid out as the device's, and never written by it.
    copy: Region,
    /// The device's process, and where the region begins in its memory.
    device: OnceLock<(u32, u64)>,
    /// Whether the device is a process of its own, which may not have said where the region is in its memory.
    apart: OnceLock<()>,
    /// Why that cannot be read.
    refused: OnceLock<String>,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Transport {
    /// The host's way to `region`.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no memory for the shadow.
    pub fn new(region: Arc<Region>, kind: TransportKind) -> Result<Self, Error> {
        let shadow = match kind {
            TransportKind::Mapped => None,
            TransportKind::Shadow => Some(Shadow::of(&region)?),
        };
        Ok(Self { region, shadow })
    }

    /// The region, for the words that are the host's alone and for its tables.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// What kind it is.
    pub fn kind(&self) -> TransportKind {
        if self.shadow.is_some() { TransportKind::Shadow } else { TransportKind::Mapped }
    }

    /// The device is process `pid`, which has mapped the region at `base`.
    pub fn device_memory(&self, pid: u32, base: u64) {
        if let Some(shadow) = &self.shadow {
            // Said once; a second time would be the same.
            let _ = shadow.device.set((pid, base));
        }
    }

    /// The device is a process of its own, whose memory is not known yet: until it is, the region's file is read.
    pub fn device_apart(&self) {
        if let Some(shadow) = &self.shadow {
            // Said once; a second time would be the same.
            let _ = shadow.apart.set(());
        }
    }

    /// What was moved so far.
    pub fn moved(&self) -> Moved {
        let Some(shadow) = &self.shadow else { return Moved::default() };
        let apart = shadow.apart.get().is_some();
        let way = match (shadow.device.get(), shadow.refused.get()) {
            (None, _) if apart => "file",
            (None, _) => "memcpy",
            (Some(_), None) => "process_vm_readv",
            (Some(_), Some(_)) => "file",
        };
        Moved {
            bytes_read: shadow.bytes_read.load(Ordering::Relaxed),
            bytes_written: shadow.bytes_written.load(Ordering::Relaxed),
            way,
            note: shadow.refused.get().cloned().or_else(|| (apart && shadow.device.get().is_none()).then(not_attached)),
        }
    }

    /// The records of a buffer without the void ones.
    ///
    /// # Safety
    /// As for [`Region::records`].
    pub unsafe fn good_records(&self, pool: u32, buffer: u32, count: u32, void: u32) -> Cow<'_, [u8]> {
        let memory = self.shadow.as_ref().map_or(&*self.region, |shadow| &shadow.copy);
        // SAFETY: as the caller promises; a copy is this host's alone.
        let records = unsafe { memory.records(pool, buffer, count) };
        let kind = Kind::from_number((pool as usize / INSTANCE_SLOTS) as u16);
        match kind.filter(|_| void > 0) {
            Some(kind) => Cow::Owned(without_void(kind, records)),
            None => Cow::Borrowed(records),
        }
    }

    fn memory(&self) -> &Region {
        self.shadow.as_ref().map_or(&*self.region, |shadow| &shadow.copy)
    }
}

impl Shadow {
    fn of(region: &Region) -> Result<Self, Error> {
        let path = region.path.clone();
        let io = |source: rustix::io::Errno| Error::Io {
            doing: "make a shadow of",
            path: path.clone(),
            source: source.into(),
            advice: "free some memory, or use the mapped transport",
        };
        let file = File::from(rustix::fs::memfd_create("plimsoll-shadow", MemfdFlags::CLOEXEC).map_err(io)?);
        rustix::fs::ftruncate(&file, region.bytes as u64).map_err(io)?;
        let base = map_untouched(&path, &file, region.bytes)?;
        let (bytes, plan, tables) = (region.bytes, region.plan.clone(), Mutex::new(Tables::new()));
        let copy = Region { base, bytes, path, plan, tables, file, owns_lock: false };
        let (bytes_read, bytes_written) = (AtomicU64::new(0), AtomicU64::new(0));
        let (device, apart, refused) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Self { copy, device, apart, refused, bytes_read, bytes_written })
    }

    /// Copies ranges from the device, in this order.
    fn fetch(&self, region: &Region, ranges: &[(u64, usize)]) -> Result<(), Error> {
        let bytes: usize = ranges.iter().map(|(_, bytes)| bytes).sum();
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        let Some(&(pid, base)) = self.device.get() else {
            let words = BothSides { shadow: self, region };
            ranges.iter().for_each(|&(offset, bytes)| copy_words(&words, offset, bytes));
            return Ok(());
        };
        if self.refused.get().is_none() {
            match self.read_process(pid, base, ranges, bytes) {
                Ok(()) => return Ok(()),
                Err(error) => drop(self.refused.set(why_refused(&error))),
            }
        }
        for &(offset, bytes) in ranges {
            // SAFETY: in bounds as `span` checks; the copy is this host's alone, and nothing refers into it now.
            let to = unsafe { std::slice::from_raw_parts_mut(self.copy.span(offset, bytes).as_ptr(), bytes) };
            region.file.read_exact_at(to, offset).map_err(|source| Error::Io {
                doing: "read",
                path: region.path.clone(),
                source,
                advice: "use the mapped transport",
            })?;
        }
        Ok(())
    }

    /// Copies ranges from the memory of another process. The kernel takes them one after the other.
    fn read_process(&self, pid: u32, base: u64, ranges: &[(u64, usize)], bytes: usize) -> io::Result<()> {
        let part = |start: *mut u8, len: usize| libc::iovec { iov_base: start.cast(), iov_len: len };
        // A line is read last word first (T1); records and slots are for good, in whatever order they are read.
        let parts = ranges.iter().flat_map(|&(offset, bytes)| {
            let step = if bytes == LINE { 8 } else { bytes.max(1) };
            (0..bytes).step_by(step).rev().map(move |at| (offset + at as u64, step))
        });
        let parts: Vec<(u64, usize)> = parts.collect();
        let to: Vec<libc::iovec> =
            parts.iter().map(|&(offset, bytes)| part(self.copy.span(offset, bytes).as_ptr(), bytes)).collect();
        let from: Vec<libc::iovec> =
            parts.iter().map(|&(offset, bytes)| part((base + offset) as *mut u8, bytes)).collect();
        // SAFETY: the local parts lie inside the copy, as `span` checks, which is this host's alone; the remote ones are numbers
        // that the kernel checks.
        let read = unsafe {
            let (to_len, from_len) = (to.len() as libc::c_ulong, from.len() as libc::c_ulong);
            libc::process_vm_readv(pid as libc::pid_t, to.as_ptr(), to_len, from.as_ptr(), from_len, 0)
        };
        // Acquire: what is read after this is at least as new, as if the words had been loaded here.
        // pairs(queue.head), pairs(queue.tail), pairs(head.active), pairs(head.base), pairs(head.published).
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        match read {
            read if read < 0 => Err(io::Error::last_os_error()),
            read if read as usize == bytes => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }

    fn queue_place(&self, part: SharedPart) -> Option<QueuePlace> {
        match part {
            SharedPart::Ready(agent) => {
                let entry = self.copy.plan.ready[agent];
                Some(QueuePlace { offset: entry.offset, slots: entry.slots })
            }
            SharedPart::Free(pool) => {
                let (entry, layout) = self.copy.known(pool);
                Some(QueuePlace { offset: entry.free_offset, slots: u64::from(layout.free_slots) })
            }
            _ => None,
        }
    }

    fn refresh(&self, region: &Region, part: SharedPart) -> Result<(), Error> {
        let buffer_at = |pool, buffer| {
            let (entry, layout) = self.copy.known(pool);
            (entry.buffers_offset + u64::from(buffer) * u64::from(layout.buffer_stride), layout.record_bytes as usize)
        };
        let words = BothSides { shadow: self, region };
        match (part, self.queue_place(part)) {
            (SharedPart::Ready(_), Some(queue)) => refresh_ready(&words, queue),
            (_, Some(queue)) => refresh_free(&words, queue),
            (SharedPart::Head(pool), _) => self.fetch(region, &[(self.copy.known(pool).0.head_offset, LINE)]),
            (SharedPart::Header(pool, buffer), _) => self.fetch(region, &[(buffer_at(pool, buffer).0, LINE)]),
            (SharedPart::Records(pool, buffer, count), _) => {
                let (offset, record_bytes) = buffer_at(pool, buffer);
                self.fetch(region, &[(offset + LINE as u64, count as usize * record_bytes)])
            }
            _ => Ok(()),
        }
    }

    fn write_back(&self, region: &Region, part: SharedPart) {
        let words = BothSides { shadow: self, region };
        let stored = match (part, self.queue_place(part)) {
            (SharedPart::Ready(_), Some(queue)) => write_back_ready(&words, queue),
            (_, Some(queue)) => write_back_free(&words, queue),
            _ => 0,
        };
        self.bytes_written.fetch_add(stored, Ordering::Relaxed);
    }
}

/// The device's region and its copy, by offset.
struct BothSides<'s> {
    shadow: &'s Shadow,
    region: &'s Region,
}

impl ShadowWords for BothSides<'_> {
    fn device(&self, offset: u64) -> &AtomicU64 {
        self.region.at(offset)
    }

    fn copy(&self, offset: u64) -> &AtomicU64 {
        self.shadow.copy.at(offset)
    }

    fn fetch(&self, ranges: &[(u64, usize)]) -> Result<(), Error> {
        self.shadow.fetch(self.region, ranges)
    }
}

/// Why the memory of another process was not read, if it never said where the region is there.
fn not_attached() -> String {
    "the device's process did not attach to the region, so the region's file was read".to_owned()
}

/// Why another process cannot be read, for people.
fn why_refused(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::EFAULT) => "the device's process is gone, so its region's file was read".to_owned(),
        _ => format!("the kernel refuses process_vm_readv ({error}), so the region's file was read"),
    }
}

impl HostMemory for Transport {
    fn refresh(&self, part: SharedPart) -> Result<(), Error> {
        self.shadow.as_ref().map_or(Ok(()), |shadow| shadow.refresh(&self.region, part))
    }

    fn write_back(&self, part: SharedPart) -> Result<(), Error> {
        if let Some(shadow) = &self.shadow {
            shadow.write_back(&self.region, part);
        }
        Ok(())
    }

    fn ready(&self, agent: usize) -> QueueView<'_> {
        self.memory().ready(agent)
    }

    fn geometry(&self, pool: u32) -> Option<(u32, u32)> {
        self.region.geometry(pool)
    }

    fn head(&self, pool: u32) -> &ActiveHead {
        HostMemory::head(self.memory(), pool)
    }

    fn free(&self, pool: u32) -> QueueView<'_> {
        HostMemory::free(self.memory(), pool)
    }

    fn header(&self, pool: u32, buffer: u32) -> &BufferHeader {
        HostMemory::header(self.memory(), pool, buffer)
    }
}

#[cfg(test)]
mod tests;
