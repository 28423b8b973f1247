//! Reads the frames of a segment file, as far as they are whole. Never trusts a length.
//!
//! A frame that is cut off at the end of the file is what a killed writer leaves. Anything else that is no whole frame is
//! damage: the reader looks for the next frame behind it, so one flipped bit costs one frame.

use super::path;
use crate::error::Error;
use plimsoll_abi::record::Kind;
use plimsoll_abi::segment::{FrameHeader, Origin};
use plimsoll_trace::{FrameFinder, Opening, Stretch, whole_frame};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
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
    /// Bytes after that: a frame that was cut off.
    pub torn_bytes: u64,
    /// Bytes between whole frames that are none.
    pub damaged_bytes: u64,
    /// The file does not start as a segment file does.
    pub foreign: bool,
    /// The schema of its records, if this version reads another.
    pub other_schema: Option<u32>,
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
///
/// # Errors
/// [`Error::Io`] if the file is there and cannot be read. Damage in it is no error: the scan tells of it.
pub fn scan(dir: &Path, visit: impl FnMut(&FrameHeader, &[u8])) -> Result<Scan, Error> {
    let path = path(dir);
    let file = match plimsoll_trace::open_plain(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Scan::default()),
        opened => opened,
    };
    let scanned = file.and_then(|file| {
        Scanner { file: &file, finder: FrameFinder::new(&file)?, packed: Vec::new(), records: Vec::new() }.run(visit)
    });
    scanned.map_err(|source| Error::Io { doing: "read", path, source, advice: "check that it can be read" })
}

struct Scanner<'f> {
    file: &'f File,
    finder: FrameFinder<'f>,
    /// The frame that was read last, without its header.
    packed: Vec<u8>,
    /// Its records.
    records: Vec<u8>,
}

impl Scanner<'_> {
    fn run(mut self, mut visit: impl FnMut(&FrameHeader, &[u8])) -> io::Result<Scan> {
        let bytes = self.finder.len_bytes();
        let mut scan = Scan { torn_bytes: bytes, ..Scan::default() };
        let opening = self.finder.opening()?;
        let frames = match opening {
            Opening::Frames(at) => at,
            Opening::Foreign => return Ok(Scan { foreign: true, ..scan }),
            Opening::OtherSchema(schema) => return Ok(Scan { other_schema: Some(schema), ..scan }),
            Opening::CutOff => return Ok(scan),
        };
        if frames > bytes {
            return Ok(scan);
        }
        scan.good_bytes = frames;
        while let Some((at, stretch)) = self.finder.next_stretch()? {
            let Stretch::Frame(kind, frame) = stretch else { continue };
            if self.unpack(kind, &frame, at)? {
                scan.damaged_bytes += at - scan.good_bytes;
                scan.good_bytes = at + size_of::<FrameHeader>() as u64 + u64::from(frame.bytes);
                if scan.is_new(kind, &frame) {
                    visit(&frame, &self.records);
                }
            }
        }
        scan.torn_bytes = bytes - scan.good_bytes;
        Ok(scan)
    }

    /// Unpacks the records of the frame at `at`; `false` if its bytes are not what was written.
    fn unpack(&mut self, kind: Kind, frame: &FrameHeader, at: u64) -> io::Result<bool> {
        self.packed.resize(frame.bytes as usize, 0);
        self.file.read_exact_at(&mut self.packed, at + size_of::<FrameHeader>() as u64)?;
        let Some(packed) = whole_frame(kind, frame.count, frame.crc, &self.packed) else { return Ok(false) };
        self.records.resize(packed.record_bytes(), 0);
        packed.unpack(&mut self.records);
        Ok(true)
    }
}

impl Scan {
    /// Notes a whole frame; `false` if its buffer is here already.
    fn is_new(&mut self, kind: Kind, frame: &FrameHeader) -> bool {
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
