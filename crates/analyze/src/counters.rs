//! Hardware counters by function, and the host's time by phase.

use std::collections::BTreeMap;

use plimsoll_trace::Trace;
use serde::Serialize;

/// What the counters of a run add up to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CounterStats {
    /// What was counted, besides all cycles.
    pub names: Vec<String>,
    /// The group of events, as the file numbers it.
    pub group: u32,
    /// Readings.
    pub readings: u64,
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
}

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
        });
        sums.count += 1;
        sums.total_cycles = sums.total_cycles.saturating_add(row.total_cycles);
        for (sum, count) in sums.counts.iter_mut().zip(counters.counts(at)) {
            *sum = sum.saturating_add(*count);
        }
    }
    let mut functions: Vec<FunctionCounters> = by_kernel.into_values().collect();
    functions.sort_by(|a, b| b.total_cycles.cmp(&a.total_cycles).then(a.kernel.cmp(&b.kernel)));
    let readings = counters.rows.len() as u64;
    Some(CounterStats { names: counters.names.clone(), group: first.group, readings, functions })
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
