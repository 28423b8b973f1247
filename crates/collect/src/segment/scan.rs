//! Reads the frames of a segment file, as far as they are whole. Never trusts a length.
//!
//! A frame that is cut off at the end of the file is what a killed writer leaves. Anything else that is no whole frame is
//! damage: the reader looks for the next frame behind it, so one flipped bit costs one frame.

use super::path;
use crate::error::Error;
use plimsoll_abi::record::Kind;
use plimsoll_abi::segment::packing::Packed;
use plimsoll_abi::segment::{FRAME_MAGIC, FileHeader, FrameHeader, Origin};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are searched at a time for the next frame.
const SEARCH: usize = 64 << 10;

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
    /// Bytes after that: a frame that was cut off.
    pub torn_bytes: u64,
    /// Bytes between whole frames that are none.
    pub damaged_bytes: u64,
    /// The file does not start as a segment file does.
    pub foreign: bool,
}

impl Scan {
    /// Records of a pool that got here in one way.
    pub fn records(&self, kind: Kind, instance: u16, origin: Origin) -> u64 {
        let frames = self.frames.range((kind, instance, 0)..=(kind, instance, u64::MAX));
        frames.filter(|(_, frame)| frame.origin == origin).map(|(_, frame)| u64::from(frame.count)).sum()
    }
}

/// Reads the segment file of a run's directory; none is an empty scan. `visit` sees the records of every whole frame,
/// each (pool, sequence) once.
pub fn scan(dir: &Path, visit: impl FnMut(&FrameHeader, &[u8])) -> Result<Scan, Error> {
    let path = path(dir);
    let file = match plimsoll_trace::open_plain(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Scan::default()),
        opened => opened,
    };
    let scanned = file.and_then(|file| {
        let bytes = file.metadata()?.len();
        Scanner { file, bytes, packed: Vec::new(), records: Vec::new() }.run(visit)
    });
    scanned.map_err(|source| Error::Io { doing: "read", path, source, advice: "check that it can be read" })
}

struct Scanner {
    file: File,
    bytes: u64,
    /// The frame that was read last, without its header.
    packed: Vec<u8>,
    /// Its records.
    records: Vec<u8>,
}

impl Scanner {
    fn run(mut self, mut visit: impl FnMut(&FrameHeader, &[u8])) -> io::Result<Scan> {
        let mut scan = Scan { torn_bytes: self.bytes, ..Scan::default() };
        let Some(mut at) = self.first_frame(&mut scan)? else { return Ok(scan) };
        scan.good_bytes = at;
        while at < self.bytes {
            if let Some(frame) = self.frame(at)? {
                scan.damaged_bytes += at - scan.good_bytes;
                at += size_of::<FrameHeader>() as u64 + u64::from(frame.bytes);
                scan.good_bytes = at;
                if scan.is_new(&frame) {
                    visit(&frame, &self.records);
                }
            } else {
                at = self.search(at + 1)?;
            }
        }
        scan.torn_bytes = self.bytes - scan.good_bytes;
        Ok(scan)
    }

    /// Where the first frame starts; nothing if the file's header is cut off or not one.
    fn first_frame(&self, scan: &mut Scan) -> io::Result<Option<u64>> {
        let mut header = [0; size_of::<FileHeader>()];
        if self.bytes < header.len() as u64 {
            return Ok(None);
        }
        self.file.read_exact_at(&mut header, 0)?;
        let header = FileHeader::from_bytes(&header);
        scan.foreign = header.is_none();
        Ok(header.map(|header| u64::from(header.header_bytes)).filter(|&at| at <= self.bytes))
    }

    /// The whole frame that starts at `at`, if one does.
    fn frame(&mut self, at: u64) -> io::Result<Option<FrameHeader>> {
        let mut header = [0; size_of::<FrameHeader>()];
        let left = self.bytes - at;
        if left < header.len() as u64 {
            return Ok(None);
        }
        self.file.read_exact_at(&mut header, at)?;
        let Some(frame) = FrameHeader::from_bytes(&header) else { return Ok(None) };
        if u64::from(frame.bytes) > left - header.len() as u64 {
            return Ok(None);
        }
        self.packed.resize(frame.bytes as usize, 0);
        self.file.read_exact_at(&mut self.packed, at + header.len() as u64)?;
        let whole = crc32c::crc32c(&self.packed) == frame.crc && self.unpack(&frame);
        Ok(whole.then_some(frame))
    }

    /// Unpacks what was read; `false` if it is not what the frame says.
    fn unpack(&mut self, frame: &FrameHeader) -> bool {
        let Some(kind) = Kind::from_number(frame.kind) else { return false };
        let Some(packed) = Packed::exactly(kind, frame.count as usize, &self.packed) else { return false };
        self.records.resize(packed.record_bytes(), 0);
        packed.unpack(&mut self.records);
        true
    }

    /// Where the next frame may start, from `at` on; the end of the file if there is none.
    fn search(&mut self, mut at: u64) -> io::Result<u64> {
        let magic = FRAME_MAGIC.to_le_bytes();
        let mut window = vec![0; SEARCH];
        while at + magic.len() as u64 <= self.bytes {
            let size = (self.bytes - at).min(SEARCH as u64) as usize;
            self.file.read_exact_at(&mut window[..size], at)?;
            if let Some(found) = window[..size].windows(magic.len()).position(|bytes| bytes == magic) {
                return Ok(at + found as u64);
            }
            at += (size - magic.len() + 1) as u64;
        }
        Ok(self.bytes)
    }
}

impl Scan {
    /// Notes a whole frame; `false` if its buffer is here already.
    fn is_new(&mut self, frame: &FrameHeader) -> bool {
        let Some(kind) = Kind::from_number(frame.kind) else { return false };
        let origin = if frame.origin == Origin::Recovered as u16 { Origin::Recovered } else { Origin::Collected };
        match self.frames.entry((kind, frame.instance, frame.sequence)) {
            Entry::Occupied(_) => {
                self.duplicates += 1;
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(FrameInfo { count: frame.count, origin });
                true
            }
        }
    }
}
