//! Segment files: buffers as they were drained, one frame each.
//!
//! A frame is written with one call, and a buffer is given back to its pool only after that. So a run that is killed
//! leaves at most one torn frame at the end of the file, whose records are still in the region.

use crate::error::Error;
use plimsoll_abi::record::Kind;
use plimsoll_abi::segment::{FRAME_MAGIC, FileHeader, FrameHeader, Origin, packing};
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

mod scan;
pub use scan::{FrameInfo, Scan, scan};

/// Where the segment files are, under the run's directory.
pub const DIRECTORY: &str = "records";
/// The file that a session writes.
pub const FILE: &str = "records.seg";

const HEADER: usize = size_of::<FrameHeader>();

/// The segment file of a run's directory.
pub fn path(dir: &Path) -> PathBuf {
    dir.join(DIRECTORY).join(FILE)
}

/// One frame to be written.
#[derive(Clone, Copy, Debug)]
pub struct FrameToWrite<'a> {
    /// The pool's kind.
    pub kind: Kind,
    /// The pool's instance.
    pub instance: u16,
    /// The buffer's place in the pool's stream.
    pub sequence: u64,
    /// How the records got here.
    pub origin: Origin,
    /// The records.
    pub records: &'a [u8],
}

impl<'a> FrameToWrite<'a> {
    /// The most bytes that [`Self::put`] can take.
    fn room(&self) -> usize {
        HEADER + if packing::is_stored(self.kind) { 0 } else { packing::room(self.kind, self.count()) }
    }

    fn count(&self) -> usize {
        self.records.len() / self.kind.record_bytes()
    }

    /// Writes the frame's header to the front of `out`, and its records behind it if they are packed; returns how many bytes that
    /// took. `out` must have room for them. Records that are not packed are not copied: the caller writes them from where they lie.
    fn put(&self, out: &mut [u8]) -> usize {
        let (header, packed) = out.split_at_mut(HEADER);
        let stored = self.stored();
        let bytes = if stored.is_empty() { packing::pack(self.kind, self.records, packed) } else { 0 };
        let payload = if stored.is_empty() { &packed[..bytes] } else { stored };
        let said = FrameHeader {
            magic: FRAME_MAGIC,
            kind: self.kind as u16,
            instance: self.instance,
            sequence: self.sequence,
            count: self.count() as u32,
            bytes: payload.len() as u32,
            record_bytes: self.kind.record_bytes() as u16,
            origin: self.origin as u16,
            crc: crc32c::crc32c(payload),
        };
        header.copy_from_slice(&said.to_bytes());
        HEADER + bytes
    }

    /// The records, if they are stored as they are.
    fn stored(&self) -> &'a [u8] {
        if packing::is_stored(self.kind) { self.records } else { &[] }
    }
}

/// Appends frames to a segment file.
#[derive(Debug)]
pub struct SegmentWriter {
    file: File,
    path: PathBuf,
    /// The end of the last whole frame.
    end: u64,
    /// The end of the blocks that were asked for ahead of need.
    reserved: u64,
    /// Where frames are packed; as long as the largest batch so far could have become.
    packed: Vec<u8>,
    /// Whether the file is left as it is.
    closed: bool,
}

/// Blocks are asked for ahead of need once a file is this long, and as much again each time: appending into blocks that
/// are there costs a third less.
const RESERVE_FROM: u64 = 1 << 20;
/// The most that is asked for at a time.
const RESERVE_MOST: u64 = 64 << 20;

impl SegmentWriter {
    /// Makes the segment file of a run; there must be none yet.
    ///
    /// # Errors
    /// [`Error::Io`] if there is a segment file already, or if it or its directory cannot be made. No segment file is left that was
    /// made here.
    pub fn create(dir: &Path) -> Result<Self, Error> {
        let records = dir.join(DIRECTORY);
        let advice = "check that the run's directory can be written and is not another run's";
        let io = |doing, path: &Path, source| Error::Io { doing, path: path.to_path_buf(), source, advice };
        std::fs::create_dir_all(&records).map_err(|source| io("create", &records, source))?;
        let path = path(dir);
        // Open for reading, too: `restore` copies from it.
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let mut file = file.map_err(|source| io("create", &path, source))?;
        let header = FileHeader::opening();
        if let Err(source) = file.write_all(&header) {
            drop(std::fs::remove_file(&path));
            return Err(io("write", &path, source));
        }
        Ok(Self { file, path, end: header.len() as u64, reserved: 0, packed: Vec::new(), closed: false })
    }

    /// Goes on with a file whose last whole frame ends at `end`; what follows is cut off. A file that is not there is made.
    ///
    /// # Errors
    /// [`Error::Io`] if the file or its directory cannot be made, cut off or written.
    pub fn reopen(dir: &Path, end: u64) -> Result<Self, Error> {
        let path = path(dir);
        let advice = "check that the run's directory can be written";
        let io = |doing, source| Error::Io { doing, path: path.clone(), source, advice };
        std::fs::create_dir_all(dir.join(DIRECTORY)).map_err(|source| io("create", source))?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(|source| io("open", source))?;
        file.set_len(end).map_err(|source| io("cut the torn frame off", source))?;
        let end = file.seek(SeekFrom::End(0)).map_err(|source| io("open", source))?;
        let mut writer = Self { file, path, end, reserved: 0, packed: Vec::new(), closed: false };
        if end == 0 {
            let opening = FileHeader::opening();
            writer.write(&mut [IoSlice::new(&opening)]).map_err(|source| writer.error("write", source))?;
        }
        Ok(writer)
    }

    /// Puts the file back where it was, if somebody has removed it since: it is still open here, and holds what was drained.
    ///
    /// # Errors
    /// If the copy cannot be made or written. The file that is open here is unchanged.
    pub fn restore(&mut self) -> io::Result<()> {
        if self.path.exists() {
            return Ok(());
        }
        if let Some(records) = self.path.parent() {
            std::fs::create_dir_all(records)?;
        }
        let mut copy = OpenOptions::new().write(true).create_new(true).open(&self.path)?;
        self.file.seek(SeekFrom::Start(0))?;
        io::copy(&mut (&self.file).take(self.end), &mut copy)?;
        copy.sync_data()?;
        self.file = copy;
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Packs frames and appends them with as few calls as the system allows. On failure the file ends with its last whole
    /// frame again.
    ///
    /// # Errors
    /// What the system says of the write, such as `StorageFull`.
    pub fn append(&mut self, frames: &[FrameToWrite<'_>]) -> io::Result<()> {
        let mut packed = std::mem::take(&mut self.packed);
        let room = frames.iter().map(FrameToWrite::room).sum();
        if packed.len() < room {
            // A new vector and not a resized one: its pages come zeroed from the system, and those that are never written
            // cost nothing.
            packed = vec![0; room.next_power_of_two()];
        }
        let mut ends = Vec::with_capacity(frames.len());
        let mut end = 0;
        for frame in frames {
            end += frame.put(&mut packed[end..]);
            ends.push(end);
        }
        // Packed bytes lie in one row. Records that are stored unpacked are written in between, from where they lie.
        let (mut slices, mut from) = (Vec::new(), 0);
        for (frame, end) in frames.iter().zip(ends).filter(|(frame, _)| !frame.stored().is_empty()) {
            slices.push(IoSlice::new(&packed[from..end]));
            slices.push(IoSlice::new(frame.stored()));
            from = end;
        }
        slices.push(IoSlice::new(&packed[from..end]));
        let written = self.write(&mut slices);
        self.packed = packed;
        written
    }

    fn write(&mut self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let bytes = slices.iter().map(|slice| slice.len() as u64).sum();
        self.reserve(bytes);
        // Drops empty slices at the front: a call that writes only those would return 0.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.file.write_vectored(slices) {
                Ok(0) => return self.fail(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(error),
            }
        }
        self.end += bytes;
        Ok(())
    }

    /// Asks for blocks ahead of need. A file system that has none, or cannot do it, is no error: the write will tell.
    fn reserve(&mut self, bytes: u64) {
        if self.end < RESERVE_FROM || self.end + bytes <= self.reserved {
            return;
        }
        let (start, length) = (self.end.max(self.reserved), (self.end.min(RESERVE_MOST)).max(bytes));
        let failed = rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, start, length).is_err();
        self.reserved = if failed { u64::MAX } else { start + length };
    }

    /// Cuts a torn frame off. If that fails too, readers do it.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        drop(self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end))));
        Err(error)
    }

    fn error(&self, doing: &'static str, source: io::Error) -> Error {
        Error::Io { doing, path: self.path.clone(), source, advice: "free some space on that file system" }
    }
}

impl SegmentWriter {
    /// Gives back the blocks beyond the last whole frame, and returns when what was written would survive a loss of power.
    /// From now on the file is left alone.
    ///
    /// # Errors
    /// If the file cannot be cut to its length, or the system cannot make it durable.
    pub fn close(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        self.file.set_len(self.end)?;
        self.file.sync_data()
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.closed {
            // If this fails, the reserved blocks stay, and readers ignore them.
            drop(self.file.set_len(self.end));
        }
    }
}
