//! Samples of scopes: what the rings held when each began and ended.

use plimsoll_abi::record::ScopePhase;
use plimsoll_abi::{RINGS, RingUse, Usage};

use crate::{CapacityFacts, FindingKind, Quality};

/// What is known about the most that was in use inside a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeakForm {
    /// Every allocation was compared: true peaks, on every ring.
    #[default]
    True,
    /// Only heads and tails at begin and end: what was taken since, less what had been given back before. An upper
    /// bound, on the scope's own ring.
    HighWater,
    /// Only what was in use when the sample was taken: a lower bound, on every ring.
    AtSample,
}

/// A sample of one scope. Heads and tails are those of the scope's own ring and only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScopeSample {
    /// When it was taken, in ticks.
    pub at: u64,
    /// Tasks reclaimed.
    pub window_tail: u64,
    /// Tasks submitted.
    pub window_head: u64,
    /// Heap bytes given back.
    pub heap_tail: u64,
    /// Heap bytes allocated.
    pub heap_head: u64,
    /// Dependency entries given back.
    pub dep_tail: u64,
    /// Dependency entries allocated.
    pub dep_head: u64,
    /// Where the scope was opened.
    pub site: u32,
    /// Number of the scope in order of opening, the same in both samples; 0 where it is unknown.
    pub scope: u32,
    /// Tensormap entries in use.
    pub tensormap: u32,
    /// Largest number of tensormap entries in use inside the scope; at its end.
    pub peak_tensormap: u32,
    /// Largest number of producers of one task inside the scope; at its end.
    pub peak_fanin: u32,
    /// The place of its peaks in `ScopeSamples::differing`, from 1; 0 if the peaks are what is in use.
    pub(crate) peaks: u32,
    /// The scope's depth; the root's is 0.
    pub depth: u16,
    /// Whether it was taken at the begin or at the end of the scope.
    pub phase: ScopePhase,
    /// The scope's ring.
    pub ring: u8,
    /// Whether the run had failed.
    pub fatal: bool,
}

/// The samples of a run, in the order they were taken.
#[derive(Clone, Debug, Default)]
pub struct ScopeSamples {
    /// The samples; `site` is an index into `sites`.
    pub samples: Vec<ScopeSample>,
    /// What was in use of each ring: the samples at which the amount changed, with the new amount.
    pub(crate) used: [Vec<(u32, RingUse)>; RINGS],
    /// Peaks of rings that differ from what was in use at the end of their scope.
    pub(crate) differing: Vec<Usage>,
    /// Sites as `file:line`.
    pub sites: Vec<String>,
    /// What the rings can hold.
    pub capacities: CapacityFacts,
    /// Whether samples carry a time.
    pub timed: bool,
    /// What is known about peaks.
    pub peaks: PeakForm,
    /// Whether the run failed.
    pub fatal: bool,
    /// Samples that the producer says it lost.
    pub dropped: u64,
}

/// One scope: its two samples, or the first alone if it never ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScopeSpan {
    /// Where its begin lies among the samples.
    pub begin: usize,
    /// Where its end lies.
    pub end: Option<usize>,
}

impl ScopeSamples {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Adds a sample with what was in use and, at a scope's end, its peaks.
    pub fn push(&mut self, sample: ScopeSample, used: &Usage, peaks: &Usage) {
        let at = self.samples.len() as u32;
        for (ring, changes) in self.used.iter_mut().enumerate() {
            let now = used.ring(ring);
            if changes.last().map_or(RingUse::default(), |(_, last)| *last) != now {
                changes.push((at, now));
            }
        }
        let differs = sample.phase == ScopePhase::End && !peaks.same_rings(used);
        if differs {
            self.differing.push(*peaks);
        }
        let place = if differs { self.differing.len() as u32 } else { 0 };
        self.samples.push(ScopeSample { peaks: place, ..sample });
    }

    /// What was in use when a sample was taken.
    pub fn used(&self, at: usize) -> Usage {
        let mut used = Usage { tensormap: self.samples[at].tensormap, ..Usage::NONE };
        for (ring, changes) in self.used.iter().enumerate() {
            let after = changes.partition_point(|(from, _)| *from as usize <= at);
            if let Some((_, now)) = after.checked_sub(1).map(|last| changes[last]) {
                used.set_ring(ring, now);
            }
        }
        used
    }

    /// What was in use of a ring: in order, each sample at which the amount changed, with the new amount. The first entry is
    /// that of the first sample.
    pub fn changes(&self, ring: usize) -> impl Iterator<Item = (usize, RingUse)> + Clone {
        let changes = self.used[ring].iter().map(|(from, now)| (*from as usize, *now));
        let nothing = self.used[ring].first().is_none_or(|(from, _)| *from > 0) && !self.is_empty();
        nothing.then_some((0, RingUse::default())).into_iter().chain(changes)
    }

    /// The most that was in use inside the scope that a sample ends, if true peaks were recorded.
    pub fn true_peaks(&self, at: usize) -> Usage {
        let sample = &self.samples[at];
        let rings = match sample.peaks.checked_sub(1) {
            Some(place) => self.differing[place as usize],
            None => self.used(at),
        };
        Usage { tensormap: sample.peak_tensormap, ..rings }
    }

    /// The text of a sample's site.
    pub fn site(&self, sample: &ScopeSample) -> &str {
        self.sites.get(sample.site as usize).map_or("(unknown):0", String::as_str)
    }

    /// The number of a site, which is added if it is new.
    pub fn intern_site(&mut self, site: &str) -> u32 {
        match self.sites.iter().rposition(|s| s == site) {
            Some(at) => at as u32,
            None => {
                self.sites.push(site.to_string());
                (self.sites.len() - 1) as u32
            }
        }
    }

    /// The scopes, in order of opening. Scopes nest, so an end belongs to the innermost open scope that is its own;
    /// those opened inside it and still open never ended.
    pub fn spans(&self, quality: &mut Quality) -> Vec<ScopeSpan> {
        let mut spans: Vec<ScopeSpan> = Vec::with_capacity(self.samples.len() / 2);
        let mut open: Vec<usize> = Vec::new();
        for (at, sample) in self.samples.iter().enumerate() {
            if sample.phase == ScopePhase::Begin {
                open.push(spans.len());
                spans.push(ScopeSpan { begin: at, end: None });
                continue;
            }
            let is_own = |span: &usize| {
                let begin = &self.samples[spans[*span].begin];
                (begin.site, begin.depth, begin.scope) == (sample.site, sample.depth, sample.scope)
            };
            match open.iter().rposition(is_own) {
                Some(depth) => {
                    spans[open[depth]].end = Some(at);
                    open.truncate(depth);
                }
                None => quality.note(FindingKind::UnpairedScope, None, || format!("an end at {}", self.site(sample))),
            }
        }
        let unpaired = spans.iter().filter(|s| s.end.is_none()).count() as u64;
        quality.note_many(FindingKind::UnpairedScope, None, unpaired, || {
            let first = spans.iter().find(|s| s.end.is_none()).map(|s| self.site(&self.samples[s.begin]));
            format!("a begin at {}", first.unwrap_or("(unknown):0"))
        });
        spans
    }

    /// The most that was in use inside a scope: task slots, heap bytes and dependency entries by ring, and tensormap
    /// entries, as far as `self.peaks` says they are known.
    pub fn peaks_of(&self, span: ScopeSpan) -> ScopePeaks {
        let begin = &self.samples[span.begin];
        let Some(at) = span.end else {
            return ScopePeaks::of(&self.used(span.begin), begin.peak_fanin);
        };
        let end = &self.samples[at];
        match self.peaks {
            PeakForm::True => ScopePeaks::of(&self.true_peaks(at), end.peak_fanin),
            PeakForm::AtSample => ScopePeaks::of(&self.used(at), end.peak_fanin),
            PeakForm::HighWater => {
                let mut peaks = ScopePeaks { tensormap: u64::from(end.tensormap), ..ScopePeaks::default() };
                let ring = (begin.ring as usize).min(RINGS - 1);
                peaks.window[ring] = end.window_head.saturating_sub(begin.window_tail);
                peaks.heap[ring] = end.heap_head.saturating_sub(begin.heap_tail);
                peaks.dep[ring] = end.dep_head.saturating_sub(begin.dep_tail);
                peaks
            }
        }
    }
}

/// The most that was in use inside a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScopePeaks {
    /// Task slots, by ring.
    pub window: [u64; RINGS],
    /// Heap bytes, by ring.
    pub heap: [u64; RINGS],
    /// Dependency entries, by ring.
    pub dep: [u64; RINGS],
    /// Tensormap entries.
    pub tensormap: u64,
    /// Producers of one task.
    pub fanin: u32,
}

impl ScopePeaks {
    fn of(usage: &Usage, fanin: u32) -> Self {
        Self {
            window: usage.window.map(u64::from),
            heap: usage.heap,
            dep: usage.dep_pool.map(u64::from),
            tensormap: u64::from(usage.tensormap),
            fanin,
        }
    }

    /// The larger of two, field by field.
    pub fn max(self, other: Self) -> Self {
        let by_ring = |a: [u64; RINGS], b: [u64; RINGS]| std::array::from_fn(|r| a[r].max(b[r]));
        Self {
            window: by_ring(self.window, other.window),
            heap: by_ring(self.heap, other.heap),
            dep: by_ring(self.dep, other.dep),
            tensormap: self.tensormap.max(other.tensormap),
            fanin: self.fanin.max(other.fanin),
        }
    }
}
