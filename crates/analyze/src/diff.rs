//! What changed from one run to another, by function, scope, ring and in the whole, and on the critical path.

use std::collections::BTreeMap;

use plimsoll_trace::{CapacityFacts, KernelTime, Quality, RingCapacity, ScopePeaks, Status, Trace};
use serde::Serialize;

use crate::critical_path::{Parts, PathSummary, path_summary};
use crate::scopes::scopes;
use crate::stats::stats;
use crate::task_table::TaskTable;

/// What changed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diff {
    /// The whole run's makespan.
    pub makespan: Change,
    /// What the makespan was made of, and is.
    pub parts: Vec<Change>,
    /// The dependency floor.
    pub static_path: Option<Change>,
    /// Time in kernels by function, the largest change first.
    pub functions: Vec<Change>,
    /// Kernel time on the critical path by function, the largest change first: what moved, not only what got slower.
    pub critical_functions: Vec<Change>,
    /// Time in scopes by site, the largest change first.
    pub scopes: Vec<Change>,
    /// Peaks by ring and resource that changed.
    pub rings: Vec<Peak>,
    /// Relative noise of the makespan: the larger spread of the two runs' rounds; absent with a single round in both, and none in virtual
    /// time.
    pub noise: Option<f64>,
    /// Why the two do not compare well, in sentences; none where they do.
    pub cautions: Vec<String>,
    /// `faster`, `slower` or `same`: whether the makespan changed by more than the noise, or by more than two per cent
    /// where no rounds tell it. `incomparable` if one of the runs did not end well: how far it came is no time.
    pub verdict: &'static str,
}

/// One figure before and after.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The name of what is compared.
    pub name: String,
    /// Before; absent if it was not there.
    pub before_ns: Option<u64>,
    /// After; absent if it is not there.
    pub after_ns: Option<u64>,
    /// After minus before; 0 for a part of the makespan that one of the runs cannot tell.
    pub change_ns: i64,
    /// Change over before; absent without a before, and for such a part.
    pub change: Option<f64>,
}

/// The peak of a resource before and after.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Peak {
    /// The resource.
    pub resource: &'static str,
    /// Its ring; absent for what rings share.
    pub ring: Option<u8>,
    /// Peak in the run before.
    pub before: u64,
    /// Peak in the run after.
    pub after: u64,
}

impl Change {
    fn new(name: impl Into<String>, before_ns: Option<u64>, after_ns: Option<u64>) -> Self {
        let (from, to) = (before_ns.unwrap_or(0), after_ns.unwrap_or(0));
        let change_ns = i64::try_from(to).unwrap_or(i64::MAX).saturating_sub(i64::try_from(from).unwrap_or(i64::MAX));
        let change = before_ns.filter(|ns| *ns > 0).map(|ns| change_ns as f64 / ns as f64);
        Self { name: name.into(), before_ns, after_ns, change_ns, change }
    }
}

/// A smaller change counts as none for the verdict, where there are no rounds to tell the noise from.
pub const UNTOLD_NOISE: f64 = 0.02;

/// What changed from `a` to `b`.
pub fn diff(a: &Trace, b: &Trace) -> Diff {
    let (before, after) = (stats(a), stats(b));
    let path = |trace: &Trace| path_summary(trace, &TaskTable::new(trace), |_, _| {});
    let (path_a, path_b) = (path(a), path(b));
    let makespan = Change::new("makespan", before.makespan_ns, after.makespan_ns);
    let by_name = |stats: &crate::Stats| stats.functions.iter().map(|f| (f.name.clone(), f.exec_total_ns)).collect();
    let on_path = |path: &Option<PathSummary>| {
        let functions = path.iter().flat_map(|path| &path.functions);
        functions.map(|f| (f.func.clone(), f.kernel_ns)).collect()
    };
    let sites = |trace: &Trace| {
        let rows = scopes(trace).scopes;
        rows.into_iter().filter_map(|row| Some((row.site, row.duration_ns?))).collect()
    };
    let noise = match a.facts.virtual_time && b.facts.virtual_time {
        true => Some(0.0),
        false => [noise(a), noise(b)].into_iter().flatten().reduce(f64::max),
    };
    let moved = makespan.change.unwrap_or(0.0);
    let verdict = match moved {
        _ if [a, b].into_iter().any(|trace| !ended_well(trace)) => "incomparable",
        moved if moved.abs() <= noise.unwrap_or(UNTOLD_NOISE) => "same",
        moved if moved < 0.0 => "faster",
        _ => "slower",
    };
    Diff {
        makespan,
        parts: parts(path_a.as_ref().map(|p| &p.parts), path_b.as_ref().map(|p| &p.parts)),
        static_path: path_a
            .as_ref()
            .zip(path_b.as_ref())
            .map(|(a, b)| Change::new("static_path", Some(a.static_ns), Some(b.static_ns))),
        functions: changes(by_name(&before), by_name(&after)),
        critical_functions: changes(on_path(&path_a), on_path(&path_b)),
        scopes: changes(sites(a), sites(b)),
        rings: rings(a, b),
        noise,
        cautions: cautions(a, b),
        verdict,
    }
}

impl Diff {
    /// Whether the makespan grew by more than this share, and by more than the noise where that is known.
    pub fn grew_over(&self, share: f64) -> bool {
        let most = self.noise.map_or(share, |noise| noise.max(share));
        self.verdict != "incomparable" && self.makespan.change.is_some_and(|change| change > most)
    }
}

/// Whether a run reached its end; files of the reference do not say, and are believed to.
fn ended_well(trace: &Trace) -> bool {
    trace.manifest.as_ref().is_none_or(|manifest| manifest.status == Status::Ok)
}

/// Why two runs do not compare well.
fn cautions(a: &Trace, b: &Trace) -> Vec<String> {
    let mut all = Vec::new();
    let programs = [a, b].map(|trace| trace.facts.program.as_str());
    if programs[0] != programs[1] && programs.iter().all(|program| !program.is_empty()) {
        all.push(format!("The runs are of two programs, {} and {}.", programs[0], programs[1]));
    }
    let rounds = [a, b].map(|trace| round_times(trace).len());
    if rounds[0] != rounds[1] {
        all.push(format!("The runs have {} and {} rounds, and whole runs are compared.", rounds[0], rounds[1]));
    }
    if a.facts.virtual_time != b.facts.virtual_time {
        let how = |trace: &Trace| if trace.facts.virtual_time { "virtual" } else { "measured" };
        all.push(format!("Times before are {}, times after {}.", how(a), how(b)));
    }
    let levels = [a, b].map(|trace| trace.facts.level);
    if levels[0] != levels[1] {
        all.push(format!(
            "The runs were recorded at levels {} and {}, so their waits are divided differently.",
            levels[0], levels[1]
        ));
    }
    let told = [a, b].map(|trace| trace.deps.is_some());
    if told[0] != told[1] {
        let which = if told[0] { "before" } else { "after" };
        all.push(format!(
            "Only the run {which} has dependencies, so critical paths and waits for data do not compare."
        ));
    }
    if [a, b].into_iter().any(|trace| !trace.scopes.samples.is_empty() && !trace.scopes.timed) {
        all.push("Samples of scopes have no times, so only peaks of rings are compared.".to_string());
    }
    for (trace, which) in [(a, "before"), (b, "after")] {
        if !ended_well(trace) {
            let status = trace.manifest.as_ref().map_or("unknown", |manifest| manifest.status.name());
            all.push(format!("The run {which} did not end well ({status}), so it was only timed so far."));
        }
    }
    all
}

/// Pairs figures of the same name; those of one name are added up first.
fn changes(before: Vec<(String, u64)>, after: Vec<(String, u64)>) -> Vec<Change> {
    let mut pairs: BTreeMap<String, (Option<u64>, Option<u64>)> = BTreeMap::new();
    for (name, ns) in before {
        let own = pairs.entry(name).or_default();
        own.0 = Some(own.0.unwrap_or(0).saturating_add(ns));
    }
    for (name, ns) in after {
        let own = pairs.entry(name).or_default();
        own.1 = Some(own.1.unwrap_or(0).saturating_add(ns));
    }
    let mut all: Vec<Change> = pairs.into_iter().map(|(name, (from, to))| Change::new(name, from, to)).collect();
    all.sort_by_key(|change| std::cmp::Reverse(change.change_ns.unsigned_abs()));
    all
}

fn parts(before: Option<&Parts>, after: Option<&Parts>) -> Vec<Change> {
    let part = |name: &str, of: fn(&Parts) -> Option<u64>| {
        let (from, to) = (before.and_then(of), after.and_then(of));
        match (from, to) {
            (None, None) => None,
            (Some(_), Some(_)) => Some(Change::new(name, from, to)),
            // A part that a run cannot tell is no zero, so what changed cannot be told either.
            _ => Some(Change { change_ns: 0, change: None, ..Change::new(name, from, to) }),
        }
    };
    let all = [
        part("kernel", |p| Some(p.kernel)),
        part("data_wait", |p| p.data_wait),
        part("core_wait", |p| Some(p.core_wait)),
        part("scheduling", |p| p.scheduling),
        part("submit", |p| p.submit),
        part("ring_wait", |p| p.ring_wait),
        part("recorder_wait", |p| p.recorder_wait),
        part("gil_wait", |p| p.gil_wait),
        part("front_gap", |p| Some(p.front_gap)),
    ];
    all.into_iter().flatten().collect()
}

/// When kernels of each round ran.
fn round_times(trace: &Trace) -> BTreeMap<u64, KernelTime> {
    let mut rounds: BTreeMap<u64, KernelTime> = BTreeMap::new();
    for row in 0..trace.executions.len() {
        let round = trace.round(trace.executions.word(row));
        rounds.entry(round).or_default().see(trace.executions.start(row), trace.executions.end(row));
    }
    rounds
}

/// The spread of the rounds' makespans over their mean; none with a single round.
fn noise(trace: &Trace) -> Option<f64> {
    let rounds = round_times(trace);
    let spans: Vec<f64> = rounds.values().filter_map(|time| time.makespan()).map(|ticks| ticks as f64).collect();
    if spans.len() < 2 {
        return None;
    }
    let mean = spans.iter().sum::<f64>() / spans.len() as f64;
    let spread = spans.iter().fold(0.0, |most: f64, span| most.max((span - mean).abs()));
    (mean > 0.0).then(|| spread / mean)
}

/// The most that was in use at all: as the manifest of a run says, else the most of any scope.
fn peaks(trace: &Trace) -> Option<CapacityFacts> {
    let told = trace.manifest.as_ref().and_then(|manifest| manifest.peaks.clone());
    told.or_else(|| {
        let spans = trace.scopes.spans(&mut Quality::default());
        let most = spans.into_iter().map(|span| trace.scopes.peaks_of(span)).reduce(ScopePeaks::max)?;
        let ring = |ring: usize| RingCapacity {
            task_window: most.window[ring],
            heap: most.heap[ring],
            dep_pool: most.dep[ring],
        };
        Some(CapacityFacts { rings: std::array::from_fn(ring), tensormap: most.tensormap })
    })
}

/// Peaks that differ.
fn rings(a: &Trace, b: &Trace) -> Vec<Peak> {
    let (Some(before), Some(after)) = (peaks(a), peaks(b)) else { return Vec::new() };
    let mut all = Vec::new();
    for (ring, (from, to)) in before.rings.iter().zip(&after.rings).enumerate() {
        for (resource, before, after) in [
            ("task_window", from.task_window, to.task_window),
            ("heap", from.heap, to.heap),
            ("dep_pool", from.dep_pool, to.dep_pool),
        ] {
            all.push(Peak { resource, ring: Some(ring as u8), before, after });
        }
    }
    all.push(Peak { resource: "tensormap", ring: None, before: before.tensormap, after: after.tensormap });
    all.retain(|peak| peak.before != peak.after);
    all
}
