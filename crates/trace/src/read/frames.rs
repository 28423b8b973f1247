//! Finds the frames of one segment file. No length is trusted: bytes that are no frame are skipped up to the next that are.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use plimsoll_abi::record::Kind;
use plimsoll_abi::segment::packing::Packed;
use plimsoll_abi::segment::{FRAME_MAGIC, FileHeader, FrameHeader};

const FILE_HEADER: usize = size_of::<FileHeader>();
const FRAME_HEADER: usize = size_of::<FrameHeader>();
/// Headers are read through a window of this size.
const WINDOW: usize = 64 << 10;

/// How a segment file starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// As a segment file of this schema; frames start at this byte.
    Frames(u64),
    /// It ends before its header does.
    CutOff,
    /// As a segment file of this other schema.
    OtherSchema(u32),
    /// As no segment file does.
    Foreign,
}

/// What starts at one byte of a segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stretch {
    /// A frame of this kind, all of whose bytes are in the file. Their sum has not been looked at.
    Frame(Kind, FrameHeader),
    /// A frame of this kind that the end of the file cuts off.
    Cut(Kind, FrameHeader),
    /// No frame, up to this byte: the next frame's first, or the end of the file.
    NoFrame(u64),
}

/// A walk through a segment file, whose bytes are read a window at a time.
#[derive(Debug)]
pub struct FrameFinder<'f> {
    file: &'f File,
    /// Bytes of the file.
    len: u64,
    /// The first byte that the walk has not come to.
    next: u64,
    /// The window's first byte.
    at: u64,
    /// The window.
    bytes: Vec<u8>,
}

impl<'f> FrameFinder<'f> {
    /// Looks into this file.
    ///
    /// # Errors
    /// If the system does not tell the file's length.
    pub fn new(file: &'f File) -> io::Result<Self> {
        Ok(Self { file, len: file.metadata()?.len(), next: 0, at: 0, bytes: Vec::new() })
    }

    /// Bytes of the file.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// How the file starts. The walk goes on behind that.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn opening(&mut self) -> io::Result<Opening> {
        if self.len < FILE_HEADER as u64 {
            return Ok(Opening::CutOff);
        }
        let Some(bytes) = self.get(0, FILE_HEADER)?.first_chunk::<FILE_HEADER>() else { return Ok(Opening::CutOff) };
        Ok(match (FileHeader::from_bytes(bytes), FileHeader::schema_of(bytes)) {
            (Some(header), _) => {
                self.next = header.header_bytes.into();
                Opening::Frames(self.next)
            }
            (None, Some(schema)) if schema != plimsoll_abi::segment::SCHEMA => Opening::OtherSchema(schema),
            _ => Opening::Foreign,
        })
    }

    /// The next stretch of the file, and its first byte; nothing at the end of the file. The payload of a frame follows its header,
    /// as far as the file goes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_stretch(&mut self) -> io::Result<Option<(u64, Stretch)>> {
        let at = self.next;
        if at >= self.len {
            return Ok(None);
        }
        let stretch = self.stretch_at(at)?;
        self.next = match stretch {
            Stretch::Frame(_, header) => end_of(at, &header),
            Stretch::Cut(..) => self.len,
            Stretch::NoFrame(until) => until,
        };
        Ok(Some((at, stretch)))
    }

    fn stretch_at(&mut self, at: u64) -> io::Result<Stretch> {
        let header = self.frame_at(at)?;
        let Some((kind, header)) = header.and_then(|header| Some((Kind::from_number(header.kind)?, header))) else {
            return Ok(Stretch::NoFrame(self.frame_or_end(at + 1)?));
        };
        let (payload, end) = (at + FRAME_HEADER as u64, end_of(at, &header));
        if end > self.len {
            // A length past the end of the file is a cut, unless frames follow: then the length itself is wrong.
            let after = self.next_frame(payload)?;
            return Ok(after.map_or(Stretch::Cut(kind, header), Stretch::NoFrame));
        }
        // A wrong length would hide the frames that it covers. It is right if it leads to a frame, or if the sum is right.
        if self.frame_at(end)?.is_some() || self.has_its_sum(kind, &header, payload)? {
            return Ok(Stretch::Frame(kind, header));
        }
        let hidden = self.next_frame(at + 1)?.filter(|&hidden| hidden < end);
        Ok(hidden.map_or(Stretch::Frame(kind, header), Stretch::NoFrame))
    }

    fn has_its_sum(&self, kind: Kind, header: &FrameHeader, payload: u64) -> io::Result<bool> {
        let mut packed = vec![0; header.bytes as usize];
        self.file.read_exact_at(&mut packed, payload)?;
        Ok(whole_frame(kind, header.count, header.crc, &packed).is_some())
    }

    /// The first place from `at` on where a frame starts, or else the end of the file.
    fn frame_or_end(&mut self, at: u64) -> io::Result<u64> {
        Ok(self.next_frame(at)?.unwrap_or(self.len))
    }

    fn frame_at(&mut self, at: u64) -> io::Result<Option<FrameHeader>> {
        let bytes = self.get(at, FRAME_HEADER)?;
        Ok(bytes.first_chunk::<FRAME_HEADER>().and_then(FrameHeader::from_bytes))
    }

    fn next_frame(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        let magic = FRAME_MAGIC.to_le_bytes();
        while at + FRAME_HEADER as u64 <= self.len {
            let bytes = self.get(at, WINDOW)?;
            match bytes.windows(magic.len()).position(|w| w == magic) {
                Some(ahead) => {
                    at += ahead as u64;
                    if self.frame_at(at)?.is_some() {
                        return Ok(Some(at));
                    }
                    at += 1;
                }
                // A magic may straddle the window's end.
                None => at += (bytes.len() - magic.len() + 1) as u64,
            }
        }
        Ok(None)
    }

    /// Up to `len` bytes at `at`; fewer at the end of the file.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let len = len.min(self.len.saturating_sub(at) as usize);
        if at < self.at || at + len as u64 > self.at + self.bytes.len() as u64 {
            self.bytes.resize(WINDOW.min(self.len.saturating_sub(at) as usize), 0);
            self.file.read_exact_at(&mut self.bytes, at)?;
            self.at = at;
        }
        let from = (at - self.at) as usize;
        Ok(&self.bytes[from..from + len])
    }
}

/// The first byte behind the frame that starts at `at`.
fn end_of(at: u64, header: &FrameHeader) -> u64 {
    at + FRAME_HEADER as u64 + u64::from(header.bytes)
}

/// The records of a whole frame, if these bytes are what was written: the sum is right, and they are so many records and
/// nothing else.
pub fn whole_frame(kind: Kind, count: u32, crc: u32, packed: &[u8]) -> Option<Packed<'_>> {
    let sound = crc32c::crc32c(packed) == crc;
    Packed::exactly(kind, count as usize, packed).filter(|_| sound)
}
