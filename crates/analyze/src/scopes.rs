//! Which scope came how close to what its rings hold.

mod tree;

use std::collections::BTreeMap;

use plimsoll_abi::{RINGS, Resource};
use plimsoll_trace::{CapacityFacts, PeakForm, Quality, ScopePeaks, ScopeSamples, ScopeSpan, Trace};
use serde::Serialize;

pub use tree::{ScopeNode, ScopeTree, scope_tree};

/// Scopes by site, the fullest first.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ScopeTable {
    /// What ended the run, if it was a resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<Exhausted>,
    /// Whether the run failed.
    pub fatal: bool,
    /// Samples that the producer lost.
    pub dropped: u64,
    /// How the peaks are known: `true`, `high_water` (an upper bound, own ring only), `at_sample` (a lower bound).
    pub peaks: &'static str,
    /// What the rings hold.
    pub capacities: CapacityFacts,
    /// One row per site and depth.
    pub scopes: Vec<ScopeRow>,
}

/// A resource that ran out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Exhausted {
    /// The error's name.
    pub error: String,
    /// The scope.
    pub site: String,
    /// The ring; absent for what rings share.
    pub ring: Option<u8>,
    /// The resource.
    pub resource: String,
    /// How much of it was in use.
    pub used: Option<u64>,
    /// Configured capacity.
    pub capacity: Option<u64>,
    /// Capacity with which the program gets past this point.
    pub needed: Option<u64>,
    /// Whether that is only a lower bound.
    pub needed_is_bound: bool,
}

/// The scopes of one site at one depth.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScopeRow {
    /// Where they were opened.
    pub site: String,
    /// Their depth.
    pub depth: u16,
    /// Their own ring.
    pub ring: u8,
    /// How many there were.
    pub entered: u64,
    /// How many of them never ended.
    pub open: u64,
    /// Tasks submitted on their own ring between begin and end.
    pub tasks: u64,
    /// Time between begin and end, summed up; absent where samples carry no time, or one never ended.
    pub duration_ns: Option<u64>,
    /// Share of the time from the first begin of a scope or a kernel to the last end of either; scopes inside each other or of several
    /// rounds add up.
    pub share: Option<f64>,
    /// Largest number of producers of one task.
    pub peak_fanin: u32,
    /// The largest peak as a share of its capacity.
    pub fullest: f64,
    /// Peaks against capacity, the fullest first; resources that were never used are left out.
    pub resources: Vec<ResourcePeak>,
}

/// The peak of one resource.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ResourcePeak {
    /// The resource.
    pub resource: &'static str,
    /// On which ring; absent for what rings share.
    pub ring: Option<u8>,
    /// The most that was in use.
    pub peak: u64,
    /// Configured capacity; 0 if unknown.
    pub capacity: u64,
    /// Peak over capacity; 1 where the peak is a bound beyond it.
    pub share: f64,
    /// Whether the peak is a bound beyond the capacity: heads and tails were sampled at different moments, and what was in
    /// use between them cannot have been more than there is.
    pub beyond_capacity: bool,
}

#[derive(Clone, Copy, Default)]
struct Gathered {
    ring: u8,
    entered: u64,
    open: u64,
    tasks: u64,
    ticks: u64,
    peaks: ScopePeaks,
}

/// The table of a trace's scopes; a trace without samples gives an empty one.
pub fn scopes(trace: &Trace) -> ScopeTable {
    let samples = &trace.scopes;
    let mut by_site: BTreeMap<(u32, u16), Gathered> = BTreeMap::new();
    for span in samples.spans(&mut Quality::default()) {
        let begin = &samples.samples[span.begin];
        let row = by_site.entry((begin.site, begin.depth)).or_default();
        gather(row, samples, span);
    }
    let run_ticks = run_ticks(trace);
    let mut rows: Vec<ScopeRow> =
        by_site.iter().map(|((site, depth), row)| finish(trace, *site, *depth, row, run_ticks)).collect();
    rows.sort_by(|a, b| b.fullest.total_cmp(&a.fullest).then(a.depth.cmp(&b.depth)).then(a.site.cmp(&b.site)));
    ScopeTable {
        exhausted: exhausted(trace),
        fatal: samples.fatal,
        dropped: samples.dropped,
        peaks: match samples.peaks {
            PeakForm::True => "true",
            PeakForm::HighWater => "high_water",
            PeakForm::AtSample => "at_sample",
        },
        capacities: samples.capacities.clone(),
        scopes: rows,
    }
}

/// The time that scopes have a share of. It is made of scopes and kernels alone, because other records are not always read, and
/// schedulers sleep on after the run's end.
fn run_ticks(trace: &Trace) -> u64 {
    let executions = &trace.executions;
    let kernels = (0..executions.len()).flat_map(|at| [Some(executions.start(at)), executions.end(at)]).flatten();
    let scopes = trace.scopes.samples.iter().filter(|_| trace.scopes.timed).map(|sample| sample.at);
    let ends = kernels.chain(scopes).fold(None, |ends: Option<(u64, u64)>, at| {
        Some(ends.map_or((at, at), |(first, last)| (first.min(at), last.max(at))))
    });
    ends.map_or(0, |(first, last)| last - first)
}

fn gather(row: &mut Gathered, samples: &ScopeSamples, span: ScopeSpan) {
    let begin = &samples.samples[span.begin];
    row.ring = begin.ring;
    row.entered += 1;
    row.peaks = row.peaks.max(samples.peaks_of(span));
    match span.end.map(|at| &samples.samples[at]) {
        Some(end) => {
            row.tasks = row.tasks.saturating_add(end.window_head.saturating_sub(begin.window_head));
            row.ticks = row.ticks.saturating_add(end.at.saturating_sub(begin.at));
        }
        None => row.open += 1,
    }
}

fn finish(trace: &Trace, site: u32, depth: u16, row: &Gathered, run_ticks: u64) -> ScopeRow {
    let samples = &trace.scopes;
    let resources = resources(&row.peaks, &samples.capacities);
    let is_timed = samples.timed && row.open == 0;
    ScopeRow {
        site: samples.sites.get(site as usize).cloned().unwrap_or_else(|| "(unknown):0".to_string()),
        depth,
        ring: row.ring,
        entered: row.entered,
        open: row.open,
        tasks: row.tasks,
        duration_ns: is_timed.then(|| trace.clock.ns(row.ticks)),
        share: (is_timed && run_ticks > 0).then(|| row.ticks as f64 / run_ticks as f64),
        peak_fanin: row.peaks.fanin,
        fullest: resources.first().map_or(0.0, |r| r.share),
        resources,
    }
}

fn resources(peaks: &ScopePeaks, capacities: &CapacityFacts) -> Vec<ResourcePeak> {
    let mut list = Vec::new();
    let mut add = |resource: Resource, ring: Option<u8>, peak: u64, capacity: u64| {
        if peak > 0 {
            let beyond_capacity = capacity > 0 && peak > capacity;
            let share = if capacity > 0 { peak.min(capacity) as f64 / capacity as f64 } else { 0.0 };
            list.push(ResourcePeak { resource: resource.name(), ring, peak, capacity, share, beyond_capacity });
        }
    };
    for ring in 0..RINGS {
        let (number, capacity) = (Some(ring as u8), &capacities.rings[ring]);
        add(Resource::TaskWindow, number, peaks.window[ring], capacity.task_window);
        add(Resource::Heap, number, peaks.heap[ring], capacity.heap);
        add(Resource::DepPool, number, peaks.dep[ring], capacity.dep_pool);
    }
    add(Resource::Tensormap, None, peaks.tensormap, capacities.tensormap);
    list.sort_by(|a, b| b.share.total_cmp(&a.share));
    list
}

fn exhausted(trace: &Trace) -> Option<Exhausted> {
    let error = trace.manifest.as_ref()?.error.as_ref()?;
    Some(Exhausted {
        error: error.name.clone(),
        site: error.site.clone().unwrap_or_else(|| "(unknown):0".to_string()),
        ring: error.ring,
        resource: error.resource.clone()?,
        used: error.used,
        capacity: error.capacity,
        needed: error.needed,
        needed_is_bound: error.needed_is_bound.unwrap_or(false),
    })
}
