//! The tables that make a region readable without any other file: kernels, source sites, clock readings.
//!
//! Entries are written under the region's mutex and published by the table's count; nothing here allocates, so a site
//! may be looked up while the run is under way.

use crate::error::Error;
use crate::region::Region;
use crate::sync::{AtomicU32, Ordering};
use plimsoll_abi::region::{
    CLOCK_SLOTS, ClockPair, KERNEL_SLOTS, KernelNameEntry, SITE_SLOTS, SiteEntry, StringRef, TableHead,
};
use plimsoll_abi::{KernelId, SiteId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots of the site index, twice the table's so that probing stays short.
const INDEX_SLOTS: usize = 2 * SITE_SLOTS;

/// What the host keeps beside the tables: an index of the sites by hash.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Site numbers, 0 = empty; open addressing.
    sites: Box<[u32]>,
    /// Where the string of each site is, to compare with.
    entries: Box<[SiteEntry]>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        let (sites, entries) = (vec![0; INDEX_SLOTS], vec![SiteEntry::default(); SITE_SLOTS]);
        Self { sites: sites.into_boxed_slice(), entries: entries.into_boxed_slice() }
    }
}

fn lock(tables: &Mutex<Tables>) -> MutexGuard<'_, Tables> {
    // A panic under this lock leaves at most a string that nobody refers to.
    tables.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Region {
    /// The number of a source site, found or added. Site 0 stands for all that found no room.
    pub fn site(&self, file: &str, line: u32) -> SiteId {
        let mut tables = lock(&self.tables);
        let mut slot = hash(file, line) as usize % INDEX_SLOTS;
        while tables.sites[slot] != 0 {
            let number = tables.sites[slot];
            let entry = tables.entries[number as usize - 1];
            if entry.line == line && self.string_is(entry.file, file) {
                return SiteId(number);
            }
            slot = (slot + 1) % INDEX_SLOTS;
        }
        let offset = Region::header(self).sites_offset;
        let count = self.table_count(offset).load(Ordering::Relaxed) as usize;
        let name = if count < SITE_SLOTS { self.add_string(file) } else { self.full("site", SITE_SLOTS) };
        let Ok(file) = name else {
            self.refused(offset).fetch_add(1, Ordering::Relaxed);
            return SiteId(0);
        };
        let entry = SiteEntry { line, file, pad: 0 };
        self.append(offset, count, bytemuck::bytes_of(&entry));
        tables.entries[count] = entry;
        tables.sites[slot] = count as u32 + 1;
        SiteId(count as u32 + 1)
    }

    /// The source sites so far, as number, file and line. They are read from the region, because a device in a process of its
    /// own adds them there; a string outside the table is shown as a question mark.
    pub fn sites(&self) -> Vec<(SiteId, String, u32)> {
        let _tables = lock(&self.tables);
        let offset = Region::header(self).sites_offset;
        // Acquire: the entries below the count. pairs(table.count): `append`.
        let count = self.table_count(offset).load(Ordering::Acquire) as usize;
        let entry = |at: usize| {
            let offset = offset + (size_of::<TableHead>() + at * size_of::<SiteEntry>()) as u64;
            let start = self.span(offset, size_of::<SiteEntry>());
            // SAFETY: in bounds as checked; an entry below the count is never written again, and any bytes are one.
            unsafe { start.cast::<SiteEntry>().as_ptr().read_unaligned() }
        };
        let entries = (0..count.min(SITE_SLOTS)).map(|at| (at, entry(at)));
        entries.map(|(at, entry)| (SiteId(at as u32 + 1), self.string(entry.file), entry.line)).collect()
    }

    fn string(&self, found: StringRef) -> String {
        let header = Region::header(self);
        if u64::from(found.offset) + u64::from(found.len) > u64::from(header.string_bytes) {
            return "?".to_owned();
        }
        let offset = header.strings_offset + size_of::<TableHead>() as u64 + u64::from(found.offset);
        let start = self.span(offset, found.len as usize);
        // SAFETY: in bounds as checked; strings are written once, before the entry that names them is counted.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), found.len as usize) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Names a kernel.
    ///
    /// # Errors
    /// [`Error::TableFull`] if there is no room for another kernel, or for its name.
    pub fn add_kernel(&self, id: KernelId, name: &str) -> Result<(), Error> {
        let _tables = lock(&self.tables);
        let offset = Region::header(self).kernels_offset;
        let count = self.table_count(offset).load(Ordering::Relaxed) as usize;
        if count >= KERNEL_SLOTS {
            return self.full("kernel", KERNEL_SLOTS);
        }
        let entry = KernelNameEntry { id: id.0, name: self.add_string(name)?, pad: 0 };
        self.append(offset, count, bytemuck::bytes_of(&entry));
        Ok(())
    }

    /// Adds a reading of the clock. When the table is full the last one is replaced, so that first and last stay true.
    pub fn add_clock_pair(&self, pair: ClockPair) {
        let _tables = lock(&self.tables);
        let offset = Region::header(self).clock_offset;
        let count = (self.table_count(offset).load(Ordering::Relaxed) as usize).min(CLOCK_SLOTS - 1);
        self.append(offset, count, bytemuck::bytes_of(&pair));
    }

    /// Appends a string. The caller holds the tables' mutex, or the region is being made.
    pub(crate) fn add_string(&self, text: &str) -> Result<StringRef, Error> {
        let (offset, room) = (Region::header(self).strings_offset, Region::header(self).string_bytes as usize);
        let used = self.table_count(offset).load(Ordering::Relaxed) as usize;
        if text.len() > room - used {
            return self.full("string", room);
        }
        self.put(offset + (size_of::<TableHead>() + used) as u64, text.as_bytes());
        // Release: the bytes before the count. pairs(table.count): the readers of a dead region.
        self.table_count(offset).store((used + text.len()) as u32, Ordering::Release);
        Ok(StringRef { offset: used as u32, len: text.len() as u32 })
    }

    fn full<T>(&self, table: &'static str, limit: usize) -> Result<T, Error> {
        Err(Error::TableFull { table, limit })
    }

    fn append(&self, table: u64, index: usize, entry: &[u8]) {
        self.put(table + (size_of::<TableHead>() + index * entry.len()) as u64, entry);
        // Release: the entry before the count. pairs(table.count): the readers of a dead region.
        self.table_count(table).store(index as u32 + 1, Ordering::Release);
    }

    fn string_is(&self, found: StringRef, text: &str) -> bool {
        if found.len as usize != text.len() {
            return false;
        }
        let offset = Region::header(self).strings_offset + size_of::<TableHead>() as u64 + u64::from(found.offset);
        let start = self.span(offset, text.len());
        // SAFETY: in bounds as checked; strings are written once, under the mutex that the caller holds.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), text.len()) == text.as_bytes() }
    }

    fn table_count(&self, table: u64) -> &AtomicU32 {
        self.at(table + std::mem::offset_of!(TableHead, count) as u64)
    }

    fn refused(&self, table: u64) -> &AtomicU32 {
        self.at(table + std::mem::offset_of!(TableHead, refused) as u64)
    }
}

/// FNV-1a: short, and good enough for file names.
fn hash(file: &str, line: u32) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    file.bytes().chain(line.to_le_bytes()).fold(0x811c_9dc5, step)
}
