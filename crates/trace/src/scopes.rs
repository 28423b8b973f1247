//! Samples of scopes: what the rings held when each began and ended.

use plimsoll_abi::RINGS;
use plimsoll_abi::record::{ScopePhase, ScopeSample};

use crate::{Capacities, FindingKind, Quality};

/// What is known about the most that was in use inside a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Peaks {
    /// Every allocation was compared: true peaks, on every ring.
    #[default]
    True,
    /// Only heads and tails at begin and end: what was taken since, less what had been given back before. An upper
    /// bound, on the scope's own ring.
    HighWater,
    /// Only what was in use when the sample was taken: a lower bound, on every ring.
    AtSample,
}

/// The samples of a run, in the order they were taken.
#[derive(Clone, Debug, Default)]
pub struct ScopeSamples {
    /// The samples; `site` is an index into `sites`.
    pub samples: Vec<ScopeSample>,
    /// Sites as `file:line`.
    pub sites: Vec<String>,
    /// What the rings can hold.
    pub capacities: Capacities,
    /// Whether samples carry a time.
    pub timed: bool,
    /// What is known about peaks.
    pub peaks: Peaks,
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
            if sample.phase == ScopePhase::Begin as u8 {
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
        let Some(end) = span.end.map(|at| &self.samples[at]) else {
            return ScopePeaks::in_use(begin);
        };
        match self.peaks {
            Peaks::True => ScopePeaks {
                window: end.peak_window.map(u64::from),
                heap: end.peak_heap,
                dep: end.peak_dep.map(u64::from),
                tensormap: u64::from(end.peak_tensormap),
                fanin: end.peak_fanin,
            },
            Peaks::AtSample => ScopePeaks::in_use(end),
            Peaks::HighWater => {
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
    fn in_use(sample: &ScopeSample) -> Self {
        Self {
            window: sample.used_window.map(u64::from),
            heap: sample.used_heap,
            dep: sample.used_dep.map(u64::from),
            tensormap: u64::from(sample.tensormap),
            fanin: sample.peak_fanin,
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
