//! Tables for a terminal.

use std::fmt::{self, Write};

use plimsoll_analyze::{Check, ScopeTable, Sizing, Stats};

use crate::plain::{PROGRAM_NAME, one_line};

mod args;
mod counters;
mod critical_path;
mod diff;
mod explain;
mod graph;
mod sched;

pub use args::{args, args_diff, args_replay, first_nan};
pub use critical_path::{critical_path, why};
pub use diff::diff;
pub use explain::explanation;
pub use graph::{dot, dot_with_label, graph, neighbours};
pub use sched::sched;
pub(crate) use sched::unrecorded_parts;

/// Most characters of a cell. A longer name would push every other column off the screen.
const CELL: usize = 48;

/// Columns of text; the first is flush left, the others flush right.
#[derive(Clone, Debug, Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|h| h.to_string()).collect()] }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| one_line(cell, CELL)).collect()).collect();
        let width = |column: usize| rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                if column == 0 { write!(line, "{cell:<width$}")? } else { write!(line, "  {cell:>width$}")? }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A time as people read it: three digits and the unit that suits it.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        n if n < 1e3 => (ns, "ns"),
        n if n < 1e6 => (ns / 1e3, "µs"),
        n if n < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    if value.fract() == 0.0 && unit == "ns" || value.abs() >= 100.0 {
        format!("{value:.0} {unit}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.2} {unit}")
    }
}

/// How full a resource was, as percent. Some files hold its usage at the bounds of scopes only, from which more than the capacity
/// may follow; then words say that it was full.
pub(crate) fn fullness(peak: u64, capacity: u64) -> String {
    match capacity {
        0 => percent(0.0),
        _ if peak > capacity => "≥ capacity, from boundary samples".to_string(),
        _ => percent(peak as f64 / capacity as f64),
    }
}

/// A share as percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share of the time that there is, as percent.
pub(crate) fn share_of_time(share: f64) -> String {
    // A little more comes of rounding.
    if share > 1.005 { "over 100 %: the file contradicts itself".to_string() } else { percent(share) }
}

/// The statistics of a run: functions, cores, and a line of totals.
pub fn stats(stats: &Stats) -> String {
    let besides = counters::counters(stats) + &counters::host_phases(stats);
    if stats.executions == 0 && !besides.is_empty() {
        return besides.trim_start().to_string();
    }
    let level2 = stats.latency_ns.is_some();
    let mut head = vec!["function", "count", "share", "exec avg", "p50", "p99", "min", "max", "total"];
    if level2 {
        head.extend(["latency", "head", "tail"]);
    }
    let mut functions = Table::new(&head);
    for f in &stats.functions {
        let mut row = vec![f.name.clone(), f.count.to_string(), percent(f.exec_share), duration(f.exec_avg_ns)];
        let whole = [f.exec_p50_ns, f.exec_p99_ns, f.exec_min_ns, f.exec_max_ns, f.exec_total_ns];
        row.extend(whole.map(|ns| duration(ns as f64)));
        if let Some(l) = &f.lifecycle {
            row.extend([l.latency_avg_ns, l.head_avg_ns, l.tail_avg_ns].map(duration));
        }
        functions.rows.push(row);
    }
    let mut cores = Table::new(&["core", "tasks", "busy", "utilisation"]);
    for c in stats.cores.iter().filter(|c| c.tasks > 0) {
        cores.rows.push(vec![
            c.name.clone(),
            c.tasks.to_string(),
            duration(c.busy_ns as f64),
            share_of_time(c.utilisation),
        ]);
    }
    let idle = stats.cores.iter().filter(|c| c.tasks == 0).count();
    let mut text = format!(
        "{} tasks ran in {} executions, makespan {}, {} of the cores' time in kernels{}\n\n{functions}\n{cores}",
        stats.tasks,
        stats.executions,
        stats.makespan_ns.map_or("–".to_string(), |ns| duration(ns as f64)),
        stats.utilisation.map_or("–".to_string(), share_of_time),
        said_plainly(stats),
    );
    if idle > 0 {
        let _ = writeln!(text, "({idle} more ran nothing)");
    }
    if stats.open > 0 {
        let _ = writeln!(text, "({} executions had not ended and are in no sum)", stats.open);
    }
    text.push_str(&besides);
    text
}

fn said_plainly(stats: &Stats) -> String {
    if stats.facts.emulated { format!("; {} is emulated", stats.facts.arch) } else { String::new() }
}

/// The table of scopes, the fullest first; what ended a run for capacity comes before it.
pub fn scopes(table: &ScopeTable) -> String {
    let mut text = String::new();
    if let Some(e) = &table.exhausted {
        let ring = e.ring.map_or(String::new(), |r| format!(" on ring {r}"));
        let _ = write!(text, "The scope at {} exhausted {}{ring} ({})", e.site, e.resource, e.error);
        if let (Some(used), Some(capacity)) = (e.used, e.capacity) {
            let _ = write!(text, ": {used} of {capacity} in use");
        }
        if let Some(needed) = e.needed {
            let _ = write!(text, ", {}{needed} needed", if e.needed_is_bound { "at least " } else { "" });
        }
        text.push_str(".\n\n");
    }
    if table.scopes.is_empty() {
        text.push_str("There are no scope samples. Record them with `Flags::SCOPE_STATS`; a prebuilt graph has no scopes when it is launched.\n");
        return text;
    }
    let mut rows = Table::new(&["scope", "depth", "entered", "tasks", "share", "fullest", "of", "peak", "capacity"]);
    for scope in &table.scopes {
        let share = scope.share.map_or("–".to_string(), percent);
        let open = if scope.open > 0 { format!(" ({} open)", scope.open) } else { String::new() };
        let mut first = vec![
            scope.site.clone(),
            scope.depth.to_string(),
            format!("{}{open}", scope.entered),
            scope.tasks.to_string(),
            share,
        ];
        if scope.resources.is_empty() {
            rows.rows.push(first.clone());
        }
        for r in &scope.resources {
            let ring = r.ring.map_or(String::new(), |ring| format!("ring {ring} "));
            let full = fullness(r.peak, r.capacity);
            let cells = [full, format!("{ring}{}", r.resource), r.peak.to_string(), r.capacity.to_string()];
            rows.rows.push(first.into_iter().chain(cells).collect());
            // The scope is named on the first of its rows only.
            first = vec![String::new(); 5];
        }
    }
    let _ = write!(text, "{rows}");
    match table.peaks {
        "high_water" => text.push_str("Peaks are upper bounds from the samples at begin and end.\n"),
        "at_sample" => text.push_str("Peaks are what was in use when the samples were taken.\n"),
        _ => {}
    }
    text
}

/// Sizes that would do, with what to paste: flags and variables, or, for a run of the user's own program, `calls` that open its
/// device and variables.
pub fn sizing(sizing: &Sizing, calls: Option<&str>) -> String {
    let mut rows = Table::new(&["resource", "capacity", "peak", "floor", "recommended", "saves bytes"]);
    let bound = |value: u64, is_bound: bool| format!("{}{value}", if is_bound { "≥ " } else { "" });
    for row in &sizing.rings {
        let ring = row.ring.map_or(String::new(), |ring| format!("ring {ring} "));
        rows.rows.push(vec![
            format!("{ring}{}", row.resource),
            row.capacity.to_string(),
            bound(row.peak, row.peak_is_bound),
            bound(row.floor, row.floor_is_bound),
            row.recommended.to_string(),
            row.bytes_saved.to_string(),
        ]);
    }
    let mut text = format!("{} ({})\n\n{rows}\n", one_line(&sizing.program, PROGRAM_NAME), sizing.status);
    if sizing.rings.iter().any(|row| row.floor_is_bound) {
        let who = if calls.is_none() { " (`plimsoll size PROGRAM` does)" } else { "" };
        let _ = writeln!(
            text,
            "≥: more may be needed, because the run did not reach its end or, of a dependency pool, it was not run with its floors{who}. The other figures are exact."
        );
    }
    text.push_str("Below the floor the program deadlocks; a size between floor and peak only makes it wait.\n");
    let saved = sizing.bytes_saved;
    let word = if saved < 0 { "more" } else { "less" };
    let _ = writeln!(
        text,
        "The recommended sizes reserve {} bytes {word}:\n  {}",
        saved.unsigned_abs(),
        calls.unwrap_or(&sizing.flags)
    );
    for line in &sizing.environment {
        let _ = writeln!(text, "  export {line}");
    }
    text
}

/// The verdict on a capture and its ledger.
pub fn check(check: &Check) -> String {
    let mut text = String::new();
    if let Some(ledger) = &check.reconcile {
        let mut rows =
            Table::new(&["pool", "total", "collected", "recovered", "dropped", "mismatch", "in files", "waited"]);
        for row in ledger.pools.iter().filter(|r| r.pool.total > 0 || r.in_files > 0) {
            let p = &row.pool;
            let counts = [p.total, p.collected, p.recovered, p.dropped, p.mismatch, row.in_files];
            let mut cells = vec![format!("{} {}", p.kind, p.instance)];
            cells.extend(counts.map(|n| n.to_string()));
            cells.push(duration(p.wait_ns as f64));
            rows.rows.push(cells);
        }
        let _ = writeln!(text, "{rows}");
    }
    for line in check.complaints() {
        let _ = writeln!(text, "{line}");
    }
    let verdict = match (check.sound, check.alive, &check.reconcile) {
        (_, true, _) => "The run is still going.",
        (true, _, Some(_)) => "Nothing is missing: every record that was published is accounted for and in the files.",
        (true, _, None) => "Nothing contradicts itself. These files carry no ledger to check against.",
        (false, _, Some(_)) => "The capture is not complete.",
        (false, _, None) => "These files are not complete, or contradict themselves.",
    };
    let _ = writeln!(text, "{verdict}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let cases = [(0.0, "0 ns"), (7.0, "7 ns"), (7.25, "7.25 ns"), (1_500.0, "1.50 µs"), (123_456.0, "123 µs")];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(duration(12.34e9), "12.3 s");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "n"]);
        table.rows.push(vec!["µ".into(), "100".into()]);
        assert_eq!(table.to_string(), "name    n\nµ     100\n");
    }

    #[test]
    fn a_long_or_hostile_name_keeps_to_its_column() {
        let mut table = Table::new(&["name", "n"]);
        table.rows.push(vec!["k".repeat(10_000), "1".into()]);
        table.rows.push(vec!["\u{1b}[2J".into(), "2".into()]);
        let text = table.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= CELL + 3), "{text}");
        assert!(text.contains("\\u001b[2J") && !text.contains('\u{1b}'), "{text}");
    }
}
