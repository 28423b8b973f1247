//! Reader of segment files.
//!
//! Two passes. The first walks the headers of all files and notes where each frame lies; a length is believed only as
//! far as its file goes, and bytes that are no frame are skipped up to the next that are. The second visits the frames
//! by pool and sequence, one copy of each, and checks their sums. So memory is bounded by the largest frame that is
//! really there, and order and duplication of frames across files do not matter.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::slice::ChunksExact;

use plimsoll_abi::record::{Kind, Record};
use plimsoll_abi::segment::packing::Packed;
use plimsoll_abi::segment::{FrameHeader, Origin};

use super::frames::{FrameFinder, Opening, Stretch, whole_frame};
use super::sorted_entries;
use crate::{Error, FindingKind, PoolCount, Quality};

const FRAME_HEADER: usize = size_of::<FrameHeader>();

/// Where a frame lies.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: Kind,
    instance: u16,
    sequence: u64,
    /// Records that are there; of a frame that is cut off those of whole groups.
    count: u32,
    /// Bytes that are there, packed.
    bytes: u32,
    /// Whether all bytes that the header promises are there.
    whole: bool,
    recovered: bool,
    crc: u32,
    file: u32,
    at: u64,
}

/// The frames of a directory of segments.
#[derive(Default)]
pub(crate) struct Segments {
    files: Vec<(PathBuf, File)>,
    frames: Vec<Frame>,
    /// The frame that is being visited, as it is in its file.
    packed: Vec<u8>,
    /// Its records.
    buffer: Vec<u8>,
    /// Frames that are in no file.
    loose: Vec<LooseFrame>,
}

/// A buffer of records that is in no file yet: read out of the region of a run that lives, or that was not recovered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LooseFrame {
    /// What the records are.
    pub kind: Kind,
    /// The core or agent.
    pub instance: u16,
    /// The buffer's place in the pool's stream.
    pub sequence: u64,
    /// The records, not packed.
    pub records: Vec<u8>,
}

/// The number of the file that frames which are in no file have.
const LOOSE: u32 = u32::MAX;

impl Segments {
    /// Finds every frame of every `*.seg` file of a directory; a directory that is not there has none.
    pub(crate) fn find(dir: &Path, quality: &mut Quality) -> Result<Self, Error> {
        let mut segments = Self::default();
        for path in sorted_entries(dir).into_iter().filter(|p| p.extension().is_some_and(|e| e == "seg")) {
            let file = crate::open_plain(&path).map_err(Error::io("open", &path))?;
            segments.walk(&path, &file, quality)?;
            segments.files.push((path, file));
        }
        segments.sort();
        Ok(segments)
    }

    /// Adds frames that the files may lack.
    pub(crate) fn add(&mut self, loose: Vec<LooseFrame>) {
        if loose.is_empty() {
            return;
        }
        for (at, frame) in loose.iter().enumerate() {
            self.frames.push(Frame {
                kind: frame.kind,
                instance: frame.instance,
                sequence: frame.sequence,
                count: (frame.records.len() / frame.kind.record_bytes()) as u32,
                bytes: 0,
                whole: true,
                recovered: true,
                crc: 0,
                file: LOOSE,
                at: at as u64,
            });
        }
        self.loose = loose;
        self.sort();
    }

    /// The best copy of each buffer first: whole before cut off, more before less, drained before recovered.
    fn sort(&mut self) {
        self.frames.sort_by_key(|f| {
            (f.kind, f.instance, f.sequence, !f.whole, std::cmp::Reverse(f.count), f.recovered, f.file, f.at)
        });
    }

    /// Notes the frames of a file. One of another schema is refused: without its records, answers would be of an empty run.
    fn walk(&mut self, path: &Path, file: &File, quality: &mut Quality) -> Result<(), Error> {
        let unread = || Error::io("read", path);
        let mut finder = FrameFinder::new(file).map_err(unread())?;
        let known = plimsoll_abi::segment::SCHEMA;
        match finder.opening().map_err(unread())? {
            Opening::Frames(_) => {}
            Opening::OtherSchema(found) => {
                return Err(Error::SegmentSchema { path: path.to_path_buf(), found, known });
            }
            unknown => {
                let cut = unknown == Opening::CutOff;
                let kind = if cut { FindingKind::CutOff } else { FindingKind::NotASegment };
                quality.note(kind, Some(path), || format!("{} bytes; schema {known} is known", finder.len_bytes()));
                return Ok(());
            }
        }
        self.walk_frames(path, file, finder, quality).map_err(unread())
    }

    /// Notes the frames; of one that is cut off, as many records as are there.
    fn walk_frames(
        &mut self,
        path: &Path,
        file: &File,
        mut finder: FrameFinder<'_>,
        quality: &mut Quality,
    ) -> std::io::Result<()> {
        let len = finder.len_bytes();
        while let Some((at, stretch)) = finder.next_stretch()? {
            let payload = at + FRAME_HEADER as u64;
            match stretch {
                Stretch::Frame(kind, header) => self.note(kind, &header, payload, true),
                Stretch::Cut(kind, mut header) => {
                    let (promised, there) = (header.bytes, (len - payload) as u32);
                    quality.note(FindingKind::CutOff, Some(path), || {
                        format!("{there} of {promised} bytes of the frame at byte {at}")
                    });
                    self.packed.resize(there as usize, 0);
                    file.read_exact_at(&mut self.packed, payload)?;
                    header.count = Packed::of(kind, header.count as usize, &self.packed).records() as u32;
                    header.bytes = there;
                    self.note(kind, &header, payload, false);
                }
                Stretch::NoFrame(until) => {
                    if len - at < FRAME_HEADER as u64 {
                        quality.note(FindingKind::CutOff, Some(path), || format!("a header at byte {at}"));
                    } else {
                        let skipped = until - at;
                        quality.note(FindingKind::NotAFrame, Some(path), || format!("{skipped} bytes at byte {at}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, kind: Kind, header: &FrameHeader, payload: u64, whole: bool) {
        self.frames.push(Frame {
            kind,
            instance: header.instance,
            sequence: header.sequence,
            count: header.count,
            bytes: header.bytes,
            whole,
            recovered: header.origin == Origin::Recovered as u16,
            crc: header.crc,
            file: self.files.len() as u32,
            at: payload,
        });
    }

    /// How many records all frames hold, copies included.
    pub(super) fn all_records(&self) -> u64 {
        self.frames.iter().map(|f| u64::from(f.count)).sum()
    }

    /// How many records of a kind the frames hold, copies included: an upper bound to reserve memory by.
    pub(super) fn records(&self, kind: Kind) -> usize {
        self.of_kind(kind).map(|f| f.count as usize).sum()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Frame> {
        let from = self.frames.partition_point(|f| f.kind < kind);
        self.frames[from..].iter().take_while(move |f| f.kind == kind)
    }

    /// Gives every record of a kind to `each`, with its instance, by instance and in order of writing; adds a row per
    /// pool to `pools`.
    pub(crate) fn visit<R: Record>(
        &mut self,
        pools: &mut Vec<PoolCount>,
        quality: &mut Quality,
        mut each: impl FnMut(u16, R, &mut Quality),
    ) -> Result<(), Error> {
        for mut walk in self.walks::<R>() {
            let instance = walk.count.instance;
            while let Some(records) = self.next(&mut walk, quality)? {
                records.for_each(|record| each(instance, record, quality));
            }
            pools.push(walk.count);
        }
        Ok(())
    }

    /// Counts the records of the kinds that have no row in `pools`: those that no reader knows.
    pub(super) fn count_unread(&mut self, pools: &mut Vec<PoolCount>, quality: &mut Quality) -> Result<(), Error> {
        macro_rules! count {
            ($($(#[$cfg:meta])* $kind:ident = $n:literal, $record:ident, $name:ident, $flag:ident, $who:ident $(($stamp:ident))?, $what:literal;)*) => {
                $($(#[$cfg])* if pools.iter().all(|pool| pool.kind != Kind::$kind) {
                    self.visit(pools, quality, |_, _: plimsoll_abi::record::$record, _| ())?;
                })*
            };
        }
        plimsoll_abi::for_each_kind!(count);
        Ok(())
    }

    /// A walk through each pool of a kind, by instance.
    pub(super) fn walks<R: Record>(&self) -> Vec<FrameWalk<R>> {
        let mut from = self.frames.partition_point(|f| f.kind < R::KIND);
        let of_kind = self.of_kind(R::KIND).collect::<Vec<_>>();
        let mut walks = Vec::new();
        for pool in of_kind.chunk_by(|a, b| a.instance == b.instance) {
            walks.push(FrameWalk::of_frames(pool[0].instance, from..from + pool.len()));
            from += pool.len();
        }
        walks
    }

    /// The records of the next frame of a pool; nothing once all were given.
    pub(super) fn next<R: Record>(
        &mut self,
        walk: &mut FrameWalk<R>,
        quality: &mut Quality,
    ) -> Result<Option<FrameRecords<'_, R>>, Error> {
        while !walk.frames.is_empty() {
            let left = &self.frames[walk.frames.clone()];
            let sequence = left[0].sequence;
            let copies: Vec<Frame> = left.iter().take_while(|f| f.sequence == sequence).copied().collect();
            walk.frames.start += copies.len();
            let instance = walk.count.instance;
            quality.note_many(FindingKind::SequenceGap, None, sequence.saturating_sub(walk.expected), || {
                format!("{} of instance {instance} before buffer {sequence}", R::KIND.name())
            });
            walk.expected = sequence.saturating_add(1);
            let Some(frame) = self.load(&copies, quality)? else { continue };
            let part = if frame.recovered { &mut walk.count.recovered } else { &mut walk.count.collected };
            *part += u64::from(frame.count);
            return Ok(Some(FrameRecords { bytes: self.buffer.chunks_exact(size_of::<R>()), of: PhantomData }));
        }
        Ok(None)
    }

    /// Unpacks the first copy whose sum is right into the buffer. The sum of a cut-off copy cannot be checked; its whole
    /// groups are used if there is nothing better.
    fn load(&mut self, copies: &[Frame], quality: &mut Quality) -> Result<Option<Frame>, Error> {
        let name = |f: &Frame| format!("buffer {} of {} {}", f.sequence, f.kind.name(), f.instance);
        let mut used = None;
        for frame in copies {
            if frame.file == LOOSE {
                if used.is_none() {
                    self.buffer.clone_from(&self.loose[frame.at as usize].records);
                    used = Some(*frame);
                }
                continue;
            }
            let (path, file) = &self.files[frame.file as usize];
            if used.is_some_and(|used| used.file == LOOSE) {
                continue;
            }
            if used.is_some() {
                quality.note(FindingKind::DuplicateFrame, Some(path), || name(frame));
                continue;
            }
            self.packed.resize(frame.bytes as usize, 0);
            file.read_exact_at(&mut self.packed, frame.at).map_err(Error::io("read", path))?;
            match frame.records(&self.packed) {
                Some(records) => {
                    self.buffer.resize(records.record_bytes(), 0);
                    records.unpack(&mut self.buffer);
                    used = Some(*frame);
                }
                None => quality.note(FindingKind::BadChecksum, Some(path), || name(frame)),
            }
        }
        Ok(used)
    }
}

impl Frame {
    /// Its records in the bytes that are there; nothing if those are not what was written.
    fn records<'b>(&self, bytes: &'b [u8]) -> Option<Packed<'b>> {
        if !self.whole {
            return Some(Packed::of(self.kind, self.count as usize, bytes));
        }
        whole_frame(self.kind, self.count, self.crc, bytes)
    }
}

/// How far the frames of one pool were read.
pub(super) struct FrameWalk<R> {
    /// Frames to come.
    frames: Range<usize>,
    /// The sequence number that comes next if nothing is missing.
    expected: u64,
    /// What was read so far.
    pub(super) count: PoolCount,
    of: PhantomData<R>,
}

impl<R: Record> FrameWalk<R> {
    fn of_frames(instance: u16, frames: Range<usize>) -> Self {
        let count = PoolCount { kind: R::KIND, instance, collected: 0, recovered: 0 };
        Self { frames, expected: 0, count, of: PhantomData }
    }

    /// A pool without records.
    pub(super) fn empty(instance: u16) -> Self {
        Self::of_frames(instance, 0..0)
    }

    /// Records that were read.
    pub(super) fn records(&self) -> u64 {
        self.count.collected + self.count.recovered
    }
}

/// The records of a frame, out of bytes that need not be aligned.
pub(super) struct FrameRecords<'b, R> {
    bytes: ChunksExact<'b, u8>,
    of: PhantomData<R>,
}

impl<R: Record> Iterator for FrameRecords<'_, R> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        self.bytes.next().map(bytemuck::pod_read_unaligned)
    }
}
