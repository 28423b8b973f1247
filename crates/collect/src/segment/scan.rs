//! Reads the frames of a segment file, as far as they are whole. Never trusts a length.

use super::{FILE, path};
use crate::error::Error;
use plimsoll_abi::record::Kind;
use plimsoll_abi::segment::{FileHeader, FrameHeader, Origin};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// What a segment file holds of one buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameInfo {
    /// Its records.
    pub count: u32,
    /// How they got there.
    pub origin: Origin,
}

/// What a segment file holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scan {
    /// Whole frames by pool and sequence number.
    pub frames: BTreeMap<(Kind, u16, u64), FrameInfo>,
    /// Whole frames whose (pool, sequence) was there already.
    pub duplicates: u64,
    /// Bytes up to the end of the last whole frame; 0 if not even the file's header is whole.
    pub good_bytes: u64,
    /// Bytes after that.
    pub torn_bytes: u64,
}

impl Scan {
    /// Records of a pool that got here in one way.
    pub fn records(&self, kind: Kind, instance: u16, origin: Origin) -> u64 {
        let frames = self.frames.range((kind, instance, 0)..=(kind, instance, u64::MAX));
        frames.filter(|(_, frame)| frame.origin == origin).map(|(_, frame)| u64::from(frame.count)).sum()
    }
}

/// Reads the segment file of a run's directory; none is an empty scan. `visit` sees the records of every whole frame.
pub fn scan(dir: &Path, mut visit: impl FnMut(&FrameHeader, &[u8])) -> Result<Scan, Error> {
    let path = path(dir);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Scan::default()),
        opened => opened,
    };
    let scanned = file.and_then(|file| {
        let bytes = file.metadata()?.len();
        scan_reader(BufReader::with_capacity(1 << 20, file), bytes, &mut visit)
    });
    scanned.map_err(|source| Error::Io { doing: "read", path, source, advice: "check that it can be read" })
}

fn scan_reader(mut input: impl Read, bytes: u64, visit: &mut impl FnMut(&FrameHeader, &[u8])) -> io::Result<Scan> {
    let mut scan = Scan { torn_bytes: bytes, ..Scan::default() };
    let mut header = [0; 16];
    if !fill(&mut input, &mut header)? || FileHeader::from_bytes(&header).is_none_or(|h| h.header_bytes != 16) {
        return Ok(scan);
    }
    let mut at = header.len() as u64;
    let mut records = Vec::new();
    loop {
        scan.good_bytes = at;
        scan.torn_bytes = bytes.saturating_sub(at);
        let mut header = [0; 32];
        if !fill(&mut input, &mut header)? {
            return Ok(scan);
        }
        let Some(frame) = FrameHeader::from_bytes(&header) else { return Ok(scan) };
        let length = u64::from(frame.count) * u64::from(frame.record_bytes);
        if length > scan.torn_bytes - header.len() as u64 {
            return Ok(scan);
        }
        records.resize(length as usize, 0);
        if !fill(&mut input, &mut records)? || crc32c::crc32c(&records) != frame.crc {
            return Ok(scan);
        }
        at += header.len() as u64 + length;
        scan.note(&frame, &records, visit);
    }
}

impl Scan {
    fn note(&mut self, frame: &FrameHeader, records: &[u8], visit: &mut impl FnMut(&FrameHeader, &[u8])) {
        let Some(kind) = Kind::from_number(frame.kind) else { return };
        let origin = if frame.origin == Origin::Recovered as u32 { Origin::Recovered } else { Origin::Collected };
        let info = FrameInfo { count: frame.count, origin };
        match self.frames.entry((kind, frame.instance, frame.sequence)) {
            std::collections::btree_map::Entry::Occupied(_) => self.duplicates += 1,
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(info);
                visit(frame, records);
            }
        }
    }
}

/// Fills the buffer; `false` at the end of the input.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

const _: () = assert!(!FILE.is_empty());
