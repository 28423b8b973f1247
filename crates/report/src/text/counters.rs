//! Counters and the host's time, as tables.

use plimsoll_analyze::{CounterStats, Stats};

use super::{Table, duration};

/// The counters by function: in all, and per call with their ratios; nothing if none were read.
pub(super) fn counters(stats: &Stats) -> String {
    let Some(counters) = &stats.counters else { return String::new() };
    let cycles = counters.has_cycles.then_some("cycles");
    let names = || cycles.into_iter().chain(counters.names.iter().map(String::as_str));
    let mut totals = Table::new(&["counters", "readings"].into_iter().chain(names()).collect::<Vec<_>>());
    let ratios = counters.ratio_names.iter().map(|name| name.replace('_', " ")).collect::<Vec<_>>();
    let head = std::iter::once("per call").chain(names()).chain(ratios.iter().map(String::as_str));
    let mut calls = Table::new(&head.collect::<Vec<_>>());
    for function in &counters.functions {
        let all = cycles.map(|_| function.total_cycles).into_iter().chain(function.counts.iter().copied());
        let first = [function.name.clone(), function.count.to_string()];
        totals.rows.push(first.into_iter().chain(all.map(|count| count.to_string())).collect());
        let each = cycles.map(|_| function.total_cycles_per_call).into_iter();
        let each = each.chain(function.counts_per_call.iter().copied()).map(|count| format!("{count:.1}"));
        let ratios = function.ratios.iter().map(|ratio| ratio.map_or_else(|| "–".to_owned(), |r| format!("{r:.3}")));
        calls.rows.push(std::iter::once(function.name.clone()).chain(each).chain(ratios).collect());
    }
    let all_zero = counters.functions.iter().all(|f| f.total_cycles == 0 && f.counts.iter().all(|count| *count == 0));
    if all_zero {
        return format!("\n{totals}(all counts are 0: a simulator has no counters)\n");
    }
    format!("\n{totals}\n{calls}{}", remarks(counters))
}

/// What a reader should know of the counts.
fn remarks(counters: &CounterStats) -> String {
    let mut out = String::new();
    if counters.virtual_counts {
        out += "(virtual: elements and bytes as the cost table has them, not a machine's counters)\n";
    }
    if counters.estimated > 0 {
        out += &format!(
            "({} readings are estimated in part: other processes used the counters, too)\n",
            counters.estimated
        );
    }
    if counters.not_counted > 0 {
        out += &format!(
            "({} executions could not be counted: the system gave their threads no counters)\n",
            counters.not_counted
        );
    }
    if let Some(note) = counters.note.as_ref().filter(|_| !counters.virtual_counts) {
        out += &format!("({note})\n");
    }
    out
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
