//! Hardware counters and the host's time, as tables.

use plimsoll_analyze::Stats;

use super::{Table, duration};

/// The counters by function; nothing if none were read.
pub(super) fn counters(stats: &Stats) -> String {
    let Some(counters) = &stats.counters else { return String::new() };
    let mut head = vec!["counters", "readings", "cycles"];
    head.extend(counters.names.iter().map(String::as_str));
    let mut table = Table::new(&head);
    for function in &counters.functions {
        let mut row = vec![function.name.clone(), function.count.to_string(), function.total_cycles.to_string()];
        row.extend(function.counts.iter().map(u64::to_string));
        table.rows.push(row);
    }
    let all_zero = counters.functions.iter().all(|f| f.total_cycles == 0 && f.counts.iter().all(|count| *count == 0));
    let note = if all_zero { "(all counts are 0: a simulator has no counters)\n" } else { "" };
    format!("\n{table}{note}")
}

/// What the host did, the longest first; nothing if that was not recorded.
pub(super) fn host_phases(stats: &Stats) -> String {
    if stats.host_phases.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["host phase", "count", "total", "max"]);
    for phase in &stats.host_phases {
        let times = [phase.total_ns, phase.max_ns].map(|ns| duration(ns as f64));
        table.rows.push([phase.phase.clone(), phase.count.to_string()].into_iter().chain(times).collect());
    }
    format!("\n{table}")
}
