//! Account of a run directory in one pass that keeps no record: memory is bounded by a few frames and by how far the two
//! views of a core's executions lie apart, not by the length of the run.
//!
//! What it finds is what reading the whole run finds, but for what only the dependencies themselves tell (an argument that
//! is no part of its buffer), because those need a table of all buffers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use plimsoll_abi::record::{
    AicoreTask, AicpuTask, OrchPhase, Record, SchedPhase, SchedPhaseKind, ScopePhase, ScopeRecord, ScopeRingsRecord,
    SubmitRecord,
};

use super::run_dir::{RECORDS, end_of};
use super::segments::{FrameWalk, Segments};
use crate::deps::SubmitAssembly;
use crate::{BoardFacts, Error, FindingKind, Manifest, PoolCount, Quality, Trace};

/// What can be said of a capture without keeping its records.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The manifest of a run directory.
    pub manifest: Option<Manifest>,
    /// Whether the run lived when it was read.
    pub liveness: crate::Liveness,
    /// Records per pool, counted in the segments.
    pub pools: Vec<PoolCount>,
    /// Depths of scopes that were seen, the root's included.
    pub scope_depths: u64,
    /// What is wrong with the input.
    pub quality: Quality,
}

impl From<&Trace> for Audit {
    fn from(trace: &Trace) -> Self {
        let depths = trace.scopes.samples.iter().map(|sample| u64::from(sample.depth) + 1);
        Self {
            manifest: trace.manifest.clone(),
            liveness: trace.liveness,
            pools: trace.pools.clone(),
            scope_depths: depths.max().unwrap_or(0),
            quality: trace.quality.clone(),
        }
    }
}

/// Accounts for every record of a run directory. `progress` is told now and then how many records were read, and how many
/// there are.
///
/// # Errors
/// If there is no run in the directory, or its files cannot be read. What is wrong with them is part of the answer.
pub fn audit(dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Audit, Error> {
    let manifest = Manifest::read(dir)?;
    let mut quality = Quality::default();
    let segments = Segments::find(&dir.join(RECORDS), &mut quality)?;
    let all = segments.all_records();
    let mut auditor = Auditor { segments, all, read: 0, pools: Vec::new(), quality, last: HashMap::new(), progress };
    auditor.executions()?;
    auditor.open(manifest.board.as_ref());
    auditor.phases()?;
    let scope_depths = auditor.scopes()?;
    auditor.submits()?;
    auditor.segments.count_unread(&mut auditor.pools, &mut auditor.quality)?;
    let Auditor { pools, quality, .. } = auditor;
    Ok(Audit { liveness: manifest.liveness(), manifest: Some(manifest), pools, scope_depths, quality })
}

struct Auditor<'p> {
    segments: Segments,
    all: u64,
    read: u64,
    pools: Vec<PoolCount>,
    quality: Quality,
    /// The last token of each core among its records.
    last: HashMap<u16, u32>,
    progress: &'p mut dyn FnMut(u64, u64),
}

/// What joins the core's record of an execution with the scheduler's: token and task word.
type Key = (u32, u64);

/// Keys of one view that the other has not answered yet.
#[derive(Default)]
struct SegmentView {
    /// Keys of the frame that was read last, in its order.
    fresh: Vec<Key>,
    next: usize,
    /// The last key that was read.
    last: Option<Key>,
    /// Keys of earlier frames that the other view has not had yet: it has another order there.
    late: HashSet<Key>,
    /// How many keys the other view, which has ended, does not have; and the first of them.
    unanswered: u64,
    first_unanswered: Option<Key>,
    /// Whether all frames were read.
    ended: bool,
}

impl SegmentView {
    fn is_drained(&self) -> bool {
        self.next == self.fresh.len()
    }

    fn left(&self) -> u64 {
        self.late.len() as u64 + self.unanswered
    }

    fn first_left(&self) -> Option<Key> {
        self.late.iter().min().copied().or(self.first_unanswered)
    }
}

impl Auditor<'_> {
    fn executions(&mut self) -> Result<(), Error> {
        let mut dispatches = self.segments.walks::<AicpuTask>();
        let joins = !dispatches.is_empty();
        for mut ran in self.segments.walks::<AicoreTask>() {
            let core = ran.count.instance;
            let own = dispatches.iter().position(|walk| walk.count.instance == core);
            let mut sent = own.map_or_else(|| FrameWalk::empty(core), |at| dispatches.swap_remove(at));
            self.core(&mut ran, &mut sent, joins)?;
            self.end_pool(ran.count);
            if own.is_some() {
                self.end_pool(sent.count);
            }
        }
        for mut sent in dispatches {
            self.core(&mut FrameWalk::empty(sent.count.instance), &mut sent, true)?;
            self.end_pool(sent.count);
        }
        Ok(())
    }

    /// Counts the executions that had not ended when the run did: they have no record, and are beside the sums.
    fn open(&mut self, board: Option<&BoardFacts>) {
        for of in board.into_iter().flat_map(|board| &board.running) {
            if self.last.get(&of.core).is_none_or(|last| *last < of.token) {
                let told = || format!("{} on core {}", plimsoll_abi::TaskId::from_raw(of.task), of.core);
                self.quality.note(FindingKind::StillRunning, None, told);
            }
        }
    }

    /// Holds the two views of a core against each other. Both normally have the same order, so the heads of the frames
    /// that were read last are compared, and only what differs is kept.
    fn core(
        &mut self,
        ran: &mut FrameWalk<AicoreTask>,
        sent: &mut FrameWalk<AicpuTask>,
        joins: bool,
    ) -> Result<(), Error> {
        let (mut ours, mut theirs) = (SegmentView::default(), SegmentView::default());
        while !ours.ended || !theirs.ended {
            if !ours.ended && (ours.is_drained() || theirs.ended) {
                keep_late(&mut ours, &mut theirs);
                self.read_executions(ran, &mut ours)?;
            }
            if !theirs.ended && (theirs.is_drained() || ours.ended) {
                keep_late(&mut theirs, &mut ours);
                self.read_dispatches(sent, &mut theirs)?;
            }
            match_heads(&mut ours, &mut theirs);
        }
        keep_late(&mut ours, &mut theirs);
        keep_late(&mut theirs, &mut ours);
        let core = ran.count.instance;
        self.last.extend(ours.last.map(|(token, _)| (core, token)));
        let told = |view: &SegmentView| {
            view.first_left().map_or(String::new(), |(token, _)| format!("token {token} on core {core}"))
        };
        if joins {
            self.quality.note_many(FindingKind::ExecutionWithoutDispatch, None, ours.left(), || told(&ours));
        }
        self.quality.note_many(FindingKind::DispatchWithoutExecution, None, theirs.left(), || told(&theirs));
        Ok(())
    }

    fn read_executions(&mut self, walk: &mut FrameWalk<AicoreTask>, view: &mut SegmentView) -> Result<(), Error> {
        let core = walk.count.instance;
        let before = walk.records();
        let mut quality = std::mem::take(&mut self.quality);
        let mut last = view.last;
        view.next = 0;
        view.fresh.clear();
        let records = self.segments.next(walk, &mut quality)?;
        view.ended = records.is_none();
        for record in records.into_iter().flatten() {
            if record.token == 0 {
                quality.note(FindingKind::BadRecord, None, || format!("a slot of core {core} without its stamp"));
                continue;
            }
            match end_of(&record) {
                None => quality.note(FindingKind::StillRunning, None, || running(core, &record)),
                Some(end) if end < record.start => {
                    quality.note(FindingKind::EndBeforeStart, None, || running(core, &record));
                }
                Some(_) => {}
            }
            let key = (record.token, record.task);
            if last == Some(key) {
                quality.note(FindingKind::DuplicateToken, None, || format!("token {} on core {core}", record.token));
            }
            last = Some(key);
            view.fresh.push(key);
        }
        view.last = last;
        self.quality = quality;
        self.told(walk.records() - before);
        Ok(())
    }

    fn read_dispatches(&mut self, walk: &mut FrameWalk<AicpuTask>, view: &mut SegmentView) -> Result<(), Error> {
        let before = walk.records();
        view.next = 0;
        view.fresh.clear();
        let records = self.segments.next(walk, &mut self.quality)?;
        view.ended = records.is_none();
        view.fresh.extend(records.into_iter().flatten().map(|record| (record.token, record.task)));
        self.told(walk.records() - before);
        Ok(())
    }

    fn phases(&mut self) -> Result<(), Error> {
        for mut walk in self.segments.walks::<SchedPhase>() {
            let mut quality = std::mem::take(&mut self.quality);
            while let Some(records) = self.segments.next(&mut walk, &mut quality)? {
                let unknown = records.filter(|r| SchedPhaseKind::ALL.get(r.kind as usize).is_none());
                for record in unknown {
                    quality.note(FindingKind::UnknownName, None, || format!("scheduler phase {}", record.kind));
                }
                (self.progress)(self.read + walk.records(), self.all);
            }
            self.quality = quality;
            self.end_walk(walk);
        }
        for mut walk in self.segments.walks::<OrchPhase>() {
            while self.segments.next(&mut walk, &mut self.quality)?.is_some() {
                (self.progress)(self.read + walk.records(), self.all);
            }
            self.end_walk(walk);
        }
        Ok(())
    }

    /// Pairs begins and ends, and gives how many depths there were. Scopes nest, so an end belongs to the innermost open
    /// scope that is its own; those opened inside it and still open never ended.
    fn scopes(&mut self) -> Result<u64, Error> {
        let mut depths = 0;
        let mut all_rings = self.segments.walks::<ScopeRingsRecord>();
        for mut walk in self.segments.walks::<ScopeRecord>() {
            let own = all_rings.iter().position(|rings| rings.count.instance == walk.count.instance);
            let mut rings = RingsAhead::new(own.map(|at| all_rings.swap_remove(at)));
            let mut open: Vec<(u16, u16, u32)> = Vec::new();
            let mut unpaired = 0u64;
            let mut quality = std::mem::take(&mut self.quality);
            let mut fresh = Vec::new();
            while let Some(records) = self.segments.next(&mut walk, &mut quality)? {
                fresh.clear();
                fresh.extend(records);
                for record in &fresh {
                    if record.has(ScopeRecord::HAS_RINGS) && !rings.has(record, &mut self.segments, &mut quality)? {
                        quality.note(FindingKind::MissingRings, None, || format!("scope {}", record.scope));
                    }
                    let key = (record.site(), record.depth, record.scope);
                    depths = depths.max(u64::from(record.depth) + 1);
                    match (record.phase(), open.iter().rposition(|own| *own == key)) {
                        (ScopePhase::Begin, _) => open.push(key),
                        (ScopePhase::End, Some(at)) => {
                            unpaired += (open.len() - at - 1) as u64;
                            open.truncate(at);
                        }
                        (ScopePhase::End, None) => unpaired += 1,
                    }
                }
                (self.progress)(self.read + walk.records(), self.all);
            }
            while rings.read_frame(&mut self.segments, &mut quality)? {}
            unpaired += open.len() as u64;
            quality.note_many(FindingKind::UnpairedScope, None, unpaired, || "a scope of the samples".to_string());
            self.quality = quality;
            self.end_walk(walk);
            rings.walk.into_iter().for_each(|walk| self.end_walk(walk));
        }
        for mut walk in all_rings {
            while self.segments.next(&mut walk, &mut self.quality)?.is_some() {}
            self.end_walk(walk);
        }
        Ok(depths)
    }

    fn end_walk<R: Record>(&mut self, walk: FrameWalk<R>) {
        self.read += walk.records();
        self.end_pool(walk.count);
    }

    fn submits(&mut self) -> Result<(), Error> {
        let mut assembly = SubmitAssembly::default();
        for mut walk in self.segments.walks::<SubmitRecord>() {
            let mut quality = std::mem::take(&mut self.quality);
            while let Some(records) = self.segments.next(&mut walk, &mut quality)? {
                records.for_each(|record| assembly.push(&record, &mut quality, |_, _| {}));
                (self.progress)(self.read + walk.records(), self.all);
            }
            self.quality = quality;
            self.end_walk(walk);
        }
        assembly.finish(&mut self.quality, &mut |_, _: &mut Quality| {});
        Ok(())
    }

    fn end_pool(&mut self, count: PoolCount) {
        self.pools.push(count);
    }

    fn told(&mut self, records: u64) {
        self.read += records;
        (self.progress)(self.read, self.all);
    }
}

/// One agent's records of what all rings held. They and the agent's scope samples are in the order of their writing, so they
/// are read only up to the sample that is being checked.
struct RingsAhead {
    walk: Option<FrameWalk<ScopeRingsRecord>>,
    /// Time and scope of the records that have been read and that no sample has been matched with.
    ahead: VecDeque<(u64, u32)>,
}

impl RingsAhead {
    fn new(walk: Option<FrameWalk<ScopeRingsRecord>>) -> Self {
        Self { walk, ahead: VecDeque::new() }
    }

    /// Reads another frame; whether there was one.
    fn read_frame(&mut self, segments: &mut Segments, quality: &mut Quality) -> Result<bool, Error> {
        let Some(walk) = &mut self.walk else { return Ok(false) };
        let Some(records) = segments.next(walk, quality)? else { return Ok(false) };
        self.ahead.extend(records.map(|record| (record.at, record.scope)));
        Ok(true)
    }

    /// Whether there is a record that belongs to the sample; those of earlier times are let go.
    fn has(&mut self, sample: &ScopeRecord, segments: &mut Segments, quality: &mut Quality) -> Result<bool, Error> {
        loop {
            while self.ahead.front().is_some_and(|(at, _)| *at < sample.at) {
                self.ahead.pop_front();
            }
            if self.ahead.iter().take_while(|(at, _)| *at == sample.at).any(|(_, scope)| *scope == sample.scope) {
                return Ok(true);
            }
            if self.ahead.back().is_some_and(|(at, _)| *at > sample.at) || !self.read_frame(segments, quality)? {
                return Ok(false);
            }
        }
    }
}

fn running(core: u16, record: &AicoreTask) -> String {
    format!("{} on core {core}", plimsoll_abi::TaskId::from_word(record.task).0)
}

/// Passes over the keys that both views have next.
fn match_heads(ours: &mut SegmentView, theirs: &mut SegmentView) {
    let same = ours.fresh[ours.next..].iter().zip(&theirs.fresh[theirs.next..]).take_while(|(a, b)| a == b).count();
    ours.next += same;
    theirs.next += same;
    if !ours.is_drained() && !theirs.is_drained() {
        // The order differs here: the rest of both frames is looked up instead.
        keep_late(ours, theirs);
        keep_late(theirs, ours);
    }
}

/// Moves the rest of one view's frame to its late keys, except those that are late keys of the other.
fn keep_late(of: &mut SegmentView, other: &mut SegmentView) {
    for key in of.fresh.drain(of.next..) {
        if other.late.remove(&key) {
            continue;
        }
        // The other view has ended, so this key will never be answered.
        if other.ended && other.is_drained() {
            of.unanswered += 1;
            of.first_unanswered.get_or_insert(key);
        } else {
            of.late.insert(key);
        }
    }
    of.next = of.fresh.len();
}
