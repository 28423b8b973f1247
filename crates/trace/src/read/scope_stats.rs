//! Reader of `scope_stats.jsonl`, versions 5 and 6: a line of capacities, then a line per sample.

use std::borrow::Cow;
use std::path::Path;

use plimsoll_abi::record::ScopePhase;
use plimsoll_abi::{RINGS, RingUse, Usage};
use serde::Deserialize;

use super::number::JsonNumber;
use super::read_file;
use crate::error::reason_of;
use crate::scopes::PeakForm;
use crate::{CapacityFacts, Error, FindingKind, MachineMark, Quality, RingCapacity, ScopeSample, ScopeSamples, Trace};

/// From this version on heap fields only grow; before, they are offsets that wrap.
const MONOTONIC_HEAP: u64 = 6;
/// The versions that are known.
const VERSIONS: std::ops::RangeInclusive<u64> = 5..=6;

#[derive(Deserialize)]
struct Head {
    version: Option<JsonNumber>,
    #[serde(default)]
    fatal: bool,
    #[serde(default)]
    dropped: JsonNumber,
    /// How many samples the file has; with those that were dropped or without them.
    total: Option<JsonNumber>,
    task_window_max: Option<Vec<JsonNumber>>,
    #[serde(default)]
    heap_max: Vec<JsonNumber>,
    #[serde(default)]
    dep_pool_max: Vec<JsonNumber>,
    #[serde(default)]
    tensormap_max: JsonNumber,
    /// Written by us only: what machine the run had.
    #[serde(rename = "virtual", default)]
    virtual_time: bool,
    #[serde(default)]
    emulated: bool,
    #[serde(default)]
    arch: String,
}

#[derive(Deserialize)]
struct SampleLine<'a> {
    #[serde(borrow, default)]
    site: Cow<'a, str>,
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(default)]
    depth: JsonNumber,
    #[serde(default)]
    ring: JsonNumber,
    #[serde(default)]
    task_window_start: JsonNumber,
    #[serde(default)]
    task_window_end: JsonNumber,
    #[serde(default)]
    heap_start: JsonNumber,
    #[serde(default)]
    heap_end: JsonNumber,
    #[serde(default)]
    dep_pool_start: JsonNumber,
    #[serde(default)]
    dep_pool_end: JsonNumber,
    #[serde(default)]
    tensormap: JsonNumber,
    peak_task_window: Option<[JsonNumber; RINGS]>,
    peak_heap: Option<[JsonNumber; RINGS]>,
    peak_dep_pool: Option<[JsonNumber; RINGS]>,
    #[serde(default)]
    peak_fanin: JsonNumber,
    #[serde(default)]
    peak_tensormap: JsonNumber,
}

pub(super) fn read(path: &Path, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let mut lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.trim_ascii().is_empty());
    let (_, first) = lines.next().unwrap_or((0, b""));
    let head: Head = serde_json::from_slice(first).map_err(Error::json("scope statistics", path))?;
    if head.version.is_none() && head.task_window_max.is_none() {
        return Err(Error::other_kind("scope statistics", path, "`version` or `task_window_max` in its first line"));
    }
    let mut scopes = ScopeSamples {
        capacities: capacities(&head),
        fatal: head.fatal,
        dropped: head.dropped.0,
        peaks: PeakForm::HighWater,
        ..ScopeSamples::default()
    };
    let version = head.version.unwrap_or_default().0;
    if head.version.is_some() && !VERSIONS.contains(&version) {
        trace.quality.note(FindingKind::UnknownVersion, Some(path), || format!("version {version}"));
    }
    let mut heap = HeapUnwrap::new(version, &scopes.capacities);
    let mut order = ScopeOrder { last: Default::default(), heap_grows: !heap.wraps };
    let mut listed = 0u64;
    for (number, line) in lines {
        listed += 1;
        match serde_json::from_slice::<SampleLine<'_>>(line) {
            Ok(line) => match impossible(&line) {
                None => {
                    push(&mut scopes, &mut heap, &line);
                    order.note(&scopes, number + 1, path, &mut trace.quality);
                }
                Some(what) => {
                    trace.quality.note(FindingKind::BadRecord, Some(path), || format!("line {}: {what}", number + 1));
                }
            },
            Err(error) => trace.quality.note(FindingKind::BadRecord, Some(path), || {
                format!("line {}, column {}: {}", number + 1, error.column(), reason_of(&error))
            }),
        }
    }
    trace.quality.note_many(FindingKind::ReportedLoss, Some(path), head.dropped.0, || "scope samples".to_string());
    let with_dropped = listed.saturating_add(head.dropped.0);
    if let Some(total) = head.total.filter(|total| total.0 != listed && total.0 != with_dropped) {
        let told = || format!("{} samples by the first line, {listed} in the file", total.0);
        trace.quality.note(FindingKind::WrongCount, Some(path), told);
    }
    // A run that failed left its scopes open.
    let mut unpaired = Quality::default();
    let spans = scopes.spans(&mut unpaired);
    if !scopes.fatal || spans.iter().all(|span| span.end.is_some()) {
        trace.quality.take_in(&unpaired, path);
    }
    trace.scopes = scopes;
    MachineMark { virtual_time: head.virtual_time, emulated: head.emulated, arch: head.arch }.note(trace);
    Ok(())
}

/// What no sample can say.
fn impossible(line: &SampleLine<'_>) -> Option<String> {
    if !matches!(line.phase.as_ref(), "begin" | "end") {
        return Some(format!("phase {:?}, which is neither begin nor end", line.phase));
    }
    (line.ring.0 >= RINGS as u64).then(|| format!("ring {} of {RINGS}", line.ring.0))
}

/// Heads and tails of each ring as they were last: from the begin of a root scope on they only grow, and a tail follows its head.
struct ScopeOrder {
    last: [[u64; 6]; RINGS],
    /// Whether those of the heap do, too: offsets that wrap are only a lower bound of what was given back and taken.
    heap_grows: bool,
}

impl ScopeOrder {
    /// Notes what the last sample contradicts.
    fn note(&mut self, scopes: &ScopeSamples, line: usize, path: &Path, quality: &mut Quality) {
        let Some(now) = scopes.samples.last() else { return };
        // Every round has a root scope of its own, and its rings begin anew.
        if now.depth == 0 && now.phase == ScopePhase::Begin {
            self.last = Default::default();
        }
        let heap = if self.heap_grows { [now.heap_tail, now.heap_head] } else { [0; 2] };
        let ends = [now.window_tail, now.window_head, heap[0], heap[1], now.dep_tail, now.dep_head];
        let before = std::mem::replace(&mut self.last[now.ring as usize], ends);
        let went_back = ends.iter().zip(before).any(|(now, before)| *now < before);
        if went_back || ends.chunks(2).any(|ends| ends[0] > ends[1]) {
            quality.note(FindingKind::WentBack, Some(path), || format!("line {line}, ring {}", now.ring));
        }
    }
}

fn capacities(head: &Head) -> CapacityFacts {
    let at = |list: &[JsonNumber], ring: usize| list.get(ring).map_or(0, |n| n.0);
    let ring = |r: usize| RingCapacity {
        task_window: at(head.task_window_max.as_deref().unwrap_or_default(), r),
        heap: at(&head.heap_max, r),
        dep_pool: at(&head.dep_pool_max, r),
    };
    CapacityFacts { rings: std::array::from_fn(ring), tensormap: head.tensormap_max.0 }
}

fn push(scopes: &mut ScopeSamples, heap: &mut HeapUnwrap, line: &SampleLine<'_>) {
    let narrow = |n: JsonNumber| u32::try_from(n.0).unwrap_or(u32::MAX);
    let ring = line.ring.0 as usize;
    let (heap_tail, heap_head) = heap.unwrap(ring, line.heap_start.0, line.heap_end.0);
    let sample = ScopeSample {
        site: scopes.intern_site(&line.site),
        phase: if line.phase == "begin" { ScopePhase::Begin } else { ScopePhase::End },
        ring: ring as u8,
        depth: u16::try_from(line.depth.0).unwrap_or(u16::MAX),
        fatal: scopes.fatal,
        window_tail: line.task_window_start.0,
        window_head: line.task_window_end.0,
        heap_tail,
        heap_head,
        dep_tail: line.dep_pool_start.0,
        dep_head: line.dep_pool_end.0,
        tensormap: narrow(line.tensormap),
        peak_fanin: narrow(line.peak_fanin),
        peak_tensormap: narrow(line.peak_tensormap),
        ..ScopeSample::default()
    };
    let own = RingUse {
        window: narrow(JsonNumber(sample.window_head.saturating_sub(sample.window_tail))),
        dep_pool: narrow(JsonNumber(sample.dep_head.saturating_sub(sample.dep_tail))),
        heap: sample.heap_head.saturating_sub(sample.heap_tail),
    };
    let mut used = Usage::NONE;
    used.set_ring(ring, own);
    let mut peaks = used;
    if let (Some(window), Some(heap), Some(dep)) = (line.peak_task_window, line.peak_heap, line.peak_dep_pool) {
        (peaks.window, peaks.heap, peaks.dep_pool) = (window.map(narrow), heap.map(|n| n.0), dep.map(narrow));
        scopes.peaks = PeakForm::True;
    }
    scopes.push(sample, &used, &peaks);
}

/// Makes wrapping heap offsets grow, by adding up how far each moved since the sample before. A heap that went round
/// more than once between two samples looks as if it went round less: the result is a lower bound.
struct HeapUnwrap {
    wraps: bool,
    capacity: [u64; RINGS],
    last: [Ends; RINGS],
}

#[derive(Clone, Copy, Default)]
struct Ends {
    raw: (u64, u64),
    grown: (u64, u64),
}

impl HeapUnwrap {
    fn new(version: u64, capacities: &CapacityFacts) -> Self {
        Self {
            wraps: version < MONOTONIC_HEAP,
            capacity: capacities.rings.map(|r| r.heap),
            last: [Ends::default(); RINGS],
        }
    }

    fn unwrap(&mut self, ring: usize, tail: u64, head: u64) -> (u64, u64) {
        let capacity = self.capacity[ring];
        if !self.wraps || capacity == 0 {
            return (tail, head);
        }
        let ends = &mut self.last[ring];
        let moved = |from: u64, to: u64| {
            let (from, to) = (from % capacity, to % capacity);
            if to >= from { to - from } else { capacity - (from - to) }
        };
        ends.grown.0 = ends.grown.0.saturating_add(moved(ends.raw.0, tail));
        ends.grown.1 = ends.grown.1.saturating_add(moved(ends.raw.1, head));
        ends.raw = (tail, head);
        ends.grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_offsets_are_made_to_grow() {
        let mut capacities = CapacityFacts::default();
        capacities.rings[1].heap = 100;
        let mut heap = HeapUnwrap::new(5, &capacities);
        assert_eq!(heap.unwrap(1, 0, 60), (0, 60));
        assert_eq!(heap.unwrap(1, 60, 20), (60, 120));
        assert_eq!(heap.unwrap(1, 10, 20), (110, 120));
        assert_eq!(heap.unwrap(0, 7, 9), (7, 9), "a ring of unknown size is left alone");
        assert_eq!(HeapUnwrap::new(6, &capacities).unwrap(1, 60, 20), (60, 20));
        capacities.rings[1].heap = u64::MAX;
        let mut widest = HeapUnwrap::new(5, &capacities);
        assert_eq!(widest.unwrap(1, 0, u64::MAX - 1), (0, u64::MAX - 1));
        assert_eq!(widest.unwrap(1, 0, 5), (0, u64::MAX), "it grows as far as numbers go");
    }
}
