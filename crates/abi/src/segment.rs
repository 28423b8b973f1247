//! The frames of a segment file: a run's records as they were drained.
//!
//! A file is a [`FileHeader`] and then frames, each a [`FrameHeader`] and its records, *packed* ([`packing`]): what a
//! drained byte costs is mostly the file system's doing, so fewer of them are cheaper than their packing. A reader that
//! meets the end of the file inside a frame keeps the whole groups it has and counts the rest as cut off.

pub mod packing;

use crate::record::Kind;

/// First bytes of a segment file.
pub const FILE_MAGIC: [u8; 8] = *b"PLIMSEG1";
/// First bytes of a frame.
pub const FRAME_MAGIC: u32 = 0x4d52_4650; // "PFRM"
/// The schema that this code writes and reads. Segment files of any other are refused.
pub const SCHEMA: u32 = 5;

/// Bytes of a [`FileHeader`] and, padded with zeroes, what wrote the file.
pub const OPENING_BYTES: usize = size_of::<FileHeader>() + 32;

/// Opens a segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FileHeader {
    /// [`FILE_MAGIC`].
    pub magic: [u8; 8],
    /// [`SCHEMA`].
    pub schema: u32,
    /// Bytes of this header; frames start there.
    pub header_bytes: u32,
}

/// Opens a frame: one buffer of one pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FrameHeader {
    /// [`FRAME_MAGIC`].
    pub magic: u32,
    /// A [`Kind`] by number.
    pub kind: u16,
    /// The pool's instance: a core or an agent.
    pub instance: u16,
    /// The buffer's sequence number within its pool, from 0 without gaps.
    pub sequence: u64,
    /// Records that follow.
    pub count: u32,
    /// Bytes that they take, packed.
    pub bytes: u32,
    /// Bytes of each, unpacked.
    pub record_bytes: u16,
    /// How the records got here: a [`Origin`] by number.
    pub origin: u16,
    /// CRC-32C of the packed records.
    pub crc: u32,
}

/// How a frame's records reached the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Origin {
    /// Drained while the run lived.
    Collected = 0,
    /// Read out of the region after an abnormal end.
    Recovered = 1,
}

const _: () = assert!(size_of::<FileHeader>() == 16 && size_of::<FrameHeader>() == 32);

impl FileHeader {
    /// The header this code writes.
    pub const fn new() -> Self {
        Self { magic: FILE_MAGIC, schema: SCHEMA, header_bytes: size_of::<Self>() as u32 }
    }

    /// What a file of this code opens with: the header, and what wrote it.
    pub fn opening() -> [u8; OPENING_BYTES] {
        let mut out = [0; OPENING_BYTES];
        let header = Self { header_bytes: OPENING_BYTES as u32, ..Self::new() };
        out[..size_of::<Self>()].copy_from_slice(&header.to_bytes());
        let producer = crate::region::PRODUCER.as_bytes();
        out[size_of::<Self>()..size_of::<Self>() + producer.len()].copy_from_slice(producer);
        out
    }

    /// As little-endian bytes.
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.magic);
        out[8..12].copy_from_slice(&self.schema.to_le_bytes());
        out[12..].copy_from_slice(&self.header_bytes.to_le_bytes());
        out
    }

    /// The schema of a segment file that starts with these bytes; none if they are no header of any.
    pub fn schema_of(bytes: &[u8; 16]) -> Option<u32> {
        bytes.starts_with(&FILE_MAGIC).then(|| le_u32(bytes, 8))
    }

    /// From bytes, if they are a header of this code's schema.
    pub fn from_bytes(bytes: &[u8; 16]) -> Option<Self> {
        let header = Self { magic: *bytes.first_chunk()?, schema: le_u32(bytes, 8), header_bytes: le_u32(bytes, 12) };
        (header.magic == FILE_MAGIC && header.schema == SCHEMA && header.header_bytes >= 16).then_some(header)
    }
}

impl Default for FileHeader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameHeader {
    /// As little-endian bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut out = [0; 32];
        out[..4].copy_from_slice(&self.magic.to_le_bytes());
        out[4..6].copy_from_slice(&self.kind.to_le_bytes());
        out[6..8].copy_from_slice(&self.instance.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..20].copy_from_slice(&self.count.to_le_bytes());
        out[20..24].copy_from_slice(&self.bytes.to_le_bytes());
        out[24..26].copy_from_slice(&self.record_bytes.to_le_bytes());
        out[26..28].copy_from_slice(&self.origin.to_le_bytes());
        out[28..].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// From bytes, if they are a frame of a known kind whose record size is that kind's, and that many records can be
    /// packed into that many bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let header = Self {
            magic: le_u32(bytes, 0),
            kind: le_u16(bytes, 4),
            instance: le_u16(bytes, 6),
            sequence: u64::from(le_u32(bytes, 8)) | u64::from(le_u32(bytes, 12)) << 32,
            count: le_u32(bytes, 16),
            bytes: le_u32(bytes, 20),
            record_bytes: le_u16(bytes, 24),
            origin: le_u16(bytes, 26),
            crc: le_u32(bytes, 28),
        };
        let kind = Kind::from_number(header.kind)?;
        let fits = header.count as usize <= packing::most_records(kind, header.bytes as usize);
        let sized = usize::from(header.record_bytes) == kind.record_bytes();
        (header.magic == FRAME_MAGIC && sized && fits).then_some(header)
    }
}

fn le_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
