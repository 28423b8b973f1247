//! Counters by function, and the host's time by phase.

use std::collections::BTreeMap;

use plimsoll_abi::CounterGroup;
use plimsoll_trace::{CounterTable, Trace};
use serde::Serialize;

/// What the counters of a run add up to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CounterStats {
    /// The names of the counters, apart from the cycles of whole executions.
    pub names: Vec<String>,
    /// The group of events, as the file numbers it.
    pub group: u32,
    /// Its name, if it is one of ours.
    pub group_name: Option<&'static str>,
    /// Whether the counts are a cost table's and not a machine's.
    #[serde(rename = "virtual")]
    pub virtual_counts: bool,
    /// Whether the cycles of whole executions were counted: some groups have none.
    pub has_cycles: bool,
    /// Readings.
    pub readings: u64,
    /// Readings of which a part is estimated, because the counters were shared with others.
    pub estimated: u64,
    /// Executions during which nothing could be counted.
    pub not_counted: u64,
    /// Why another group was counted than was asked for.
    pub note: Option<String>,
    /// The names of the ratios that functions have.
    pub ratio_names: Vec<&'static str>,
    /// For each ratio, what is divided and by what, as places among [`CounterTable::columns`].
    #[serde(skip)]
    pub ratio_columns: Vec<(usize, usize)>,
    /// By function, the one with most cycles first.
    pub functions: Vec<FunctionCounters>,
}

/// The counters of one function, summed up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FunctionCounters {
    /// The kernel's number; absent for readings that no file names.
    pub kernel: Option<u32>,
    /// Its name.
    pub name: String,
    /// Readings.
    pub count: u64,
    /// All cycles.
    pub total_cycles: u64,
    /// By counter, in the order of the names.
    pub counts: Vec<u64>,
    /// All cycles of one call, on average.
    pub total_cycles_per_call: f64,
    /// The counts of one call, on average, in the order of the names.
    pub counts_per_call: Vec<f64>,
    /// Ratios of counts, in the order of their names; absent where nothing was counted to divide by.
    pub ratios: Vec<Option<f64>>,
}

/// Ratios that people ask for: name, what is divided, by what.
const RATIOS: [(&str, &str, &str); 4] = [
    ("instructions_per_cycle", "instructions", "cycles"),
    ("cache_miss_rate", "cache_misses", "cache_references"),
    ("branch_miss_rate", "branch_misses", "branches"),
    ("icache_miss_rate", "icache_miss", "icache_req"),
];

/// One phase of the host, summed up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HostPhaseStats {
    /// Its name.
    pub phase: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: u64,
    /// How long at most.
    pub max_ns: u64,
}

/// The counters of a trace by function; none if it has no readings.
pub(crate) fn counter_stats(trace: &Trace) -> Option<CounterStats> {
    let counters = &trace.counters;
    let first = counters.rows.first()?;
    let mut by_kernel: BTreeMap<Option<u32>, FunctionCounters> = BTreeMap::new();
    for (at, row) in counters.rows.iter().enumerate() {
        let kernel = counters.kernel(at);
        let sums = by_kernel.entry(kernel).or_insert_with(|| FunctionCounters {
            kernel,
            name: kernel.map_or_else(|| "(unknown)".to_string(), |k| trace.kernel_name(k).into_owned()),
            count: 0,
            total_cycles: 0,
            counts: vec![0; counters.names.len()],
            total_cycles_per_call: 0.0,
            counts_per_call: Vec::new(),
            ratios: Vec::new(),
        });
        sums.count += 1;
        sums.total_cycles = sums.total_cycles.saturating_add(row.total_cycles);
        for (sum, count) in sums.counts.iter_mut().zip(counters.counts(at)) {
            *sum = sum.saturating_add(*count);
        }
    }
    let mut functions: Vec<FunctionCounters> = by_kernel.into_values().collect();
    let ratios = ratios_of(counters);
    for function in &mut functions {
        let per_call = |count: u64| count as f64 / function.count.max(1) as f64;
        function.total_cycles_per_call = per_call(function.total_cycles);
        function.counts_per_call = function.counts.iter().map(|count| per_call(*count)).collect();
        function.ratios = ratios.iter().map(|(_, above, below)| ratio(function, *above, *below)).collect();
    }
    // Most cycles first; of groups without cycles, most of what they count first.
    functions.sort_by(|a, b| (b.total_cycles, &b.counts, a.kernel).cmp(&(a.total_cycles, &a.counts, b.kernel)));
    let group = u16::try_from(first.group).ok().and_then(CounterGroup::from_number);
    let facts = trace.manifest.as_ref().and_then(|manifest| manifest.counters.as_ref());
    Some(CounterStats {
        names: counters.names.clone(),
        group: first.group,
        group_name: group.map(CounterGroup::name),
        virtual_counts: group == Some(CounterGroup::Virtual),
        has_cycles: counters.has_cycles,
        readings: counters.rows.len() as u64,
        estimated: counters.estimated,
        not_counted: counters.not_counted,
        note: facts.and_then(|facts| facts.note.clone()),
        ratio_names: ratios.iter().map(|(name, ..)| *name).collect(),
        ratio_columns: ratios.iter().map(|(_, above, below)| columns_of(counters, *above, *below)).collect(),
        functions,
    })
}

/// The places of a ratio's counters among all columns, of which cycles come first where they were counted.
fn columns_of(counters: &CounterTable, above: usize, below: Option<usize>) -> (usize, usize) {
    let cycles = usize::from(counters.has_cycles);
    (above + cycles, below.map_or(0, |at| at + cycles))
}

/// The ratios that these counters allow: name, column of the dividend, column of the divisor. A column of `None` is the
/// cycles of whole executions.
fn ratios_of(counters: &CounterTable) -> Vec<(&'static str, usize, Option<usize>)> {
    let place = |name: &str| counters.names.iter().position(|known| known == name);
    let known = |&(name, above, below): &(&'static str, &str, &str)| match below {
        "cycles" if counters.has_cycles => Some((name, place(above)?, None)),
        _ => Some((name, place(above)?, Some(place(below)?))),
    };
    RATIOS.iter().filter_map(known).collect()
}

fn ratio(function: &FunctionCounters, above: usize, below: Option<usize>) -> Option<f64> {
    let below = below.map_or(function.total_cycles, |at| function.counts[at]);
    (below > 0).then(|| function.counts[above] as f64 / below as f64)
}

/// The host's phases by name, the longest in all first.
pub(crate) fn host_phase_stats(trace: &Trace) -> Vec<HostPhaseStats> {
    let host = &trace.host_phases;
    let mut sums: Vec<HostPhaseStats> = host
        .names
        .iter()
        .map(|name| HostPhaseStats { phase: name.clone(), count: 0, total_ns: 0, max_ns: 0 })
        .collect();
    for phase in &host.phases {
        let sum = &mut sums[phase.name as usize];
        let ns = phase.end_ns.saturating_sub(phase.start_ns);
        sum.count += 1;
        sum.total_ns = sum.total_ns.saturating_add(ns);
        sum.max_ns = sum.max_ns.max(ns);
    }
    sums.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.phase.cmp(&b.phase)));
    sums
}
