//! What the scheduler cost.

use std::fmt::Write;

use plimsoll_analyze::{Distribution, LoopBudget, Overhead, Sched};

use super::{Table, duration, percent};

/// Overheads, gaps, heads and tails, and the loops.
pub fn sched(sched: &Sched) -> String {
    let mut text = format!(
        "{} executions, makespan {}: bound by {}{} ({} of the makespan)\n\n",
        sched.executions,
        duration(sched.makespan_ns as f64),
        if sched.verdict == "ring" { "a ring" } else { sched.verdict },
        unrecorded_parts(&sched.verdict_folds).map_or(String::new(), |parts| format!(", with {parts}")),
        percent(sched.verdict_share)
    );
    let mut overheads =
        Table::new(&["a core idles beside ready work", "all classes", "every class with work", "by class"]);
    let rows = [
        ("ready when kernels end", &sched.overhead.reference),
        ("ready when the scheduler knows", &sched.overhead.own),
    ];
    for (name, overhead) in rows {
        overheads.rows.push(overhead_row(name, overhead.as_ref()));
    }
    let _ = writeln!(text, "{overheads}");
    let mut times = Table::new(&["around kernels", "count", "p10", "p50", "p90", "p99", "max", "mean", "total"]);
    for (name, times_of) in [("head (dispatch → start)", &sched.head_ns), ("tail (end → finish)", &sched.tail_ns)] {
        if let Some(d) = times_of {
            times.rows.push(distribution_row(name, d));
        }
    }
    if times.rows.len() > 1 {
        let _ = writeln!(text, "{times}");
    }
    let mut gaps =
        Table::new(&["gaps between kernels", "cores", "gaps", "mean gap", "least of a core", "mean", "most"]);
    for (class, s) in sched.switch.by_class.iter().filter(|(_, s)| s.count > 0) {
        let mut row = vec![class.to_string(), s.cores.to_string(), s.count.to_string(), duration(s.gap_ns)];
        row.extend([s.min_ns as f64, s.mean_ns, s.max_ns as f64].map(duration));
        gaps.rows.push(row);
    }
    if gaps.rows.len() > 1 {
        let _ = writeln!(text, "{gaps}");
    }
    match &sched.loops {
        Some(budget) => text.push_str(&loops(budget)),
        None => text.push_str("No scheduler phases were recorded: level 3 has them.\n"),
    }
    text
}

/// What a verdict takes in because it was not recorded, in words.
pub(crate) fn unrecorded_parts(parts: &[&str]) -> Option<String> {
    let words: Vec<&str> = parts
        .iter()
        .map(|part| match *part {
            "submit" => "submitting",
            "data_wait" => "waiting for data",
            other => other,
        })
        .collect();
    match words.len() {
        0 => None,
        1 => Some(format!("{}, which was not recorded", words[0])),
        _ => Some(format!("{}, which were not recorded", words.join(" and "))),
    }
}

fn overhead_row(name: &str, overhead: Option<&Overhead>) -> Vec<String> {
    let Some(overhead) = overhead else { return vec![name.to_string(), "not recorded".to_string()] };
    let classes: Vec<String> =
        overhead.by_class.iter().map(|(class, share)| format!("{class} {}", percent(*share))).collect();
    vec![name.to_string(), percent(overhead.all), percent(overhead.has), classes.join(", ")]
}

fn distribution_row(name: &str, d: &Distribution) -> Vec<String> {
    let mut row = vec![name.to_string(), d.count.to_string()];
    row.extend([d.p10, d.p50, d.p90, d.p99, d.max].map(|ns| duration(ns as f64)));
    row.extend([duration(d.mean), duration(d.total as f64)]);
    row
}

fn loops(budget: &LoopBudget) -> String {
    let mut rows = Table::new(&["scheduler", "loops", "tasks", "time", "per loop"]);
    for s in &budget.schedulers {
        let time = duration(s.total_ns as f64);
        rows.rows.push(vec![
            s.scheduler.clone(),
            s.loops.to_string(),
            s.tasks.to_string(),
            time,
            duration(s.ns_per_loop),
        ]);
    }
    let whole = budget.total_ns.max(1) as f64;
    let mut phases: Vec<(&String, &u64)> = budget.phases.iter().filter(|(_, ns)| **ns > 0).collect();
    phases.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let phases: Vec<String> =
        phases.iter().map(|(name, ns)| format!("{name} {}", percent(**ns as f64 / whole))).collect();
    let mut outside: Vec<(&String, &u64)> = budget.outside.iter().collect();
    outside.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let outside: Vec<String> = outside.iter().map(|(name, ns)| format!("{name} {}", duration(**ns as f64))).collect();
    let outside = match outside.len() {
        0 => String::new(),
        _ => format!("outside of the loops: {}\n", outside.join(", ")),
    };
    format!(
        "{rows}phases: {}\n{outside}looks into ready queues: {} found a task, {} found none ({} hits)\n",
        phases.join(", "),
        budget.pop_hit,
        budget.pop_miss,
        percent(budget.pop_hit_rate),
    )
}
