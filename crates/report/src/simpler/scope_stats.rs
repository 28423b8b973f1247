//! Writing scope statistics: version 6 with our peaks beside it, and the first form.

use std::io::{self, Write};

use plimsoll_abi::record::ScopePhase;
use plimsoll_trace::{MachineMark, PeakForm, Quality, RingCapacity, ScopeSamples, ScopeSpan, Trace};
use serde::Serialize;

/// The version of the lines.
const VERSION: u32 = 6;

#[derive(Serialize)]
struct Head {
    version: u32,
    fatal: bool,
    dropped: u64,
    total: u64,
    task_window_max: Vec<u64>,
    heap_max: Vec<u64>,
    dep_pool_max: Vec<u64>,
    tensormap_max: u64,
    #[serde(flatten)]
    mark: MachineMark,
}

#[derive(Serialize)]
struct Line<'a> {
    site: &'a str,
    phase: &'static str,
    depth: u16,
    ring: u8,
    task_window_start: u64,
    task_window_end: u64,
    heap_start: u64,
    heap_end: u64,
    dep_pool_start: u64,
    dep_pool_end: u64,
    tensormap: u32,
    #[serde(flatten)]
    peaks: Option<PeakFields>,
}

/// What ours adds to the samples at the end of a scope.
#[derive(Serialize)]
struct PeakFields {
    peak_task_window: [u32; 4],
    peak_heap: [u64; 4],
    peak_dep_pool: [u32; 4],
    peak_fanin: u32,
    peak_tensormap: u32,
}

/// Writes `scope_stats.jsonl`.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_scope_stats(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let scopes = &trace.scopes;
    let by_ring = |of: fn(&RingCapacity) -> u64| scopes.capacities.rings.iter().map(of).collect();
    let head = Head {
        version: VERSION,
        fatal: scopes.fatal,
        dropped: scopes.dropped,
        total: scopes.samples.len() as u64,
        task_window_max: by_ring(|r| r.task_window),
        heap_max: by_ring(|r| r.heap),
        dep_pool_max: by_ring(|r| r.dep_pool),
        tensormap_max: scopes.capacities.tensormap,
        mark: MachineMark::of(&trace.facts),
    };
    write_line(&head, out)?;
    (0..scopes.samples.len()).try_for_each(|at| write_line(&line(scopes, at), out))
}

fn write_line(line: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn line(scopes: &ScopeSamples, at: usize) -> Line<'_> {
    let sample = &scopes.samples[at];
    let ended = sample.phase == ScopePhase::End;
    Line {
        site: scopes.site(sample),
        phase: if ended { "end" } else { "begin" },
        depth: sample.depth,
        ring: sample.ring,
        task_window_start: sample.window_tail,
        task_window_end: sample.window_head,
        heap_start: sample.heap_tail,
        heap_end: sample.heap_head,
        dep_pool_start: sample.dep_tail,
        dep_pool_end: sample.dep_head,
        tensormap: sample.tensormap,
        peaks: (ended && scopes.peaks == PeakForm::True).then(|| peak_fields(scopes, at)),
    }
}

fn peak_fields(scopes: &ScopeSamples, at: usize) -> PeakFields {
    let peaks = scopes.true_peaks(at);
    PeakFields {
        peak_task_window: peaks.window,
        peak_heap: peaks.heap,
        peak_dep_pool: peaks.dep_pool,
        peak_fanin: scopes.samples[at].peak_fanin,
        peak_tensormap: peaks.tensormap,
    }
}

#[derive(Serialize)]
struct FirstForm<'a> {
    fatal: bool,
    dropped: u64,
    scopes: Vec<FirstScope<'a>>,
    #[serde(flatten)]
    mark: MachineMark,
}

#[derive(Serialize)]
struct FirstScope<'a> {
    site: &'a str,
    depth: u16,
    ring: u8,
    task_window: Vec<String>,
    heap: Vec<String>,
    dep_pool: Vec<String>,
    tensormap: String,
}

/// Writes `scope_stats.json`, the first form: a record per scope, the most in use over capacity by ring.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_scope_stats_first(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let samples = &trace.scopes;
    let capacities = &samples.capacities;
    let of = |used: u64, capacity: u64| format!("{used}/{capacity}");
    let scope = |span: ScopeSpan| {
        let begin = &samples.samples[span.begin];
        let peaks = samples.peaks_of(span);
        let rings = || capacities.rings.iter();
        FirstScope {
            site: samples.site(begin),
            depth: begin.depth,
            ring: begin.ring,
            task_window: peaks.window.iter().zip(rings()).map(|(p, r)| of(*p, r.task_window)).collect(),
            heap: peaks.heap.iter().zip(rings()).map(|(p, r)| of(*p, r.heap)).collect(),
            dep_pool: peaks.dep.iter().zip(rings()).map(|(p, r)| of(*p, r.dep_pool)).collect(),
            tensormap: of(peaks.tensormap, capacities.tensormap),
        }
    };
    let spans = samples.spans(&mut Quality::default());
    let form = FirstForm {
        fatal: samples.fatal,
        dropped: samples.dropped,
        scopes: spans.into_iter().map(scope).collect(),
        mark: MachineMark::of(&trace.facts),
    };
    write_line(&form, out)
}
