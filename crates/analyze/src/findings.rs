//! What cost a good run most, in sentences, each with the command that shows more.

use plimsoll_trace::Trace;
use serde::Serialize;

use crate::critical_path::{PathSummary, path_summary};
use crate::dependencies::{FalsePair, false_pairs};
use crate::sched::{Overhead, Sched, sched_beside};
use crate::task_table::TaskTable;

/// One thing that cost time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Costly {
    /// The time that it cost, as far as it can be told.
    pub cost_ns: u64,
    /// The same as a share of the makespan.
    pub share: f64,
    /// What, in a sentence.
    pub what: String,
    /// The command that shows more, without the run's path.
    pub command: String,
    /// The task that shows it best, where one does.
    pub task: Option<String>,
}

/// Most findings that are told.
const MOST: usize = 3;
/// Most characters of a kernel's name in a sentence.
const NAME: usize = 80;
/// Less than this of the makespan is not worth a sentence.
const LEAST: f64 = 0.01;

/// The three things that cost most; fewer if fewer are worth a sentence.
pub fn costliest(trace: &Trace) -> Vec<Costly> {
    let table = TaskTable::new(trace);
    let Some(path) = path_summary(trace, &table, |_, _| {}) else { return Vec::new() };
    let sched = sched_beside(trace, &table, &path);
    let false_pairs = false_pairs(trace, &table);
    drop(table);
    costliest_beside(trace, &path, sched.as_ref(), false_pairs.first())
}

/// As [`costliest`], for whoever has asked the other questions already.
pub fn costliest_beside(
    trace: &Trace,
    path: &PathSummary,
    sched: Option<&Sched>,
    worst: Option<&FalsePair>,
) -> Vec<Costly> {
    let mut found = Vec::new();
    let whole = path.makespan_ns.max(1) as f64;
    let mut tell = |cost_ns: u64, what: String, command: &str, task: Option<String>| {
        let share = cost_ns as f64 / whole;
        if share >= LEAST {
            let command = task.as_ref().map_or(command.to_string(), |task| format!("{command} --task {task}"));
            found.push(Costly { cost_ns, share, what, command, task });
        }
    };
    idle_cores(sched, whole, &mut tell);
    waits(trace, path, &mut tell);
    if let Some(function) = path.functions.first() {
        let name: String = function.func.chars().take(NAME).collect();
        let what = format!("kernel {name:?} on the critical path, {} times", function.count);
        tell(function.kernel_ns, what, "plimsoll stats", None);
    }
    if let Some((deps, worst)) = trace.deps.as_ref().zip(worst) {
        let [pred, succ] = [worst.pred, worst.succ].map(|task| trace.task_name(deps.tasks[task as usize].word));
        let what = format!("{succ} waits for {pred} though no data flows between them");
        tell(worst.cost_ns, what, "plimsoll deps", Some(succ));
    }
    recorder(trace, &mut tell);
    found.sort_by_key(|costly| std::cmp::Reverse(costly.cost_ns));
    found.truncate(MOST);
    found
}

fn idle_cores(sched: Option<&Sched>, whole: f64, tell: &mut impl FnMut(u64, String, &str, Option<String>)) {
    let Some(overheads) = sched.map(|sched| &sched.overhead) else { return };
    let (overhead, waiting) = match (&overheads.own, &overheads.reference) {
        (Some(own), _) => (own, "ready tasks wait"),
        (None, Some(reference)) => {
            (reference, "tasks wait whose producers have ended (records of submits, level 4, tell which were ready)")
        }
        (None, None) => return,
    };
    let Overhead { by_class, .. } = overhead;
    for (class, share) in by_class {
        let name = if *class == "any" { "workers".to_string() } else { format!("{} cores", class.to_uppercase()) };
        tell((share * whole) as u64, format!("{name} idle while {waiting}"), "plimsoll sched", None);
    }
}

fn waits(trace: &Trace, path: &PathSummary, tell: &mut impl FnMut(u64, String, &str, Option<String>)) {
    let parts = &path.parts;
    // Below level 2 a wait has no parts: what the scheduler saw was not recorded.
    let [data, core] = match parts.scheduling {
        Some(_) => ["producers had ended and were not seen to have", "cores were free and not seen to be"],
        None => [
            "tasks began late after their producers had ended (records of dispatches, level 2, tell why)",
            "tasks began late on cores that were free (records of dispatches, level 2, tell why)",
        ],
    }
    .map(|what| format!("on the critical path {what}"));
    let scheduling = match (parts.submit, parts.data_wait) {
        (Some(_), Some(_)) => "scheduling on the critical path, after data and core were there",
        (None, Some(_)) => {
            "on the critical path tasks began late after data and core were there (records of submits, level 4, tell why)"
        }
        (Some(_), None) => {
            "on the critical path tasks began late after their cores were free (records of dependencies tell why)"
        }
        (None, None) => {
            "on the critical path tasks began late after their cores were free (records of submits, level 4, and of dependencies tell why)"
        }
    };
    let between_rounds = path.blame.between_rounds_ns.min(parts.front_gap);
    for (part, ns, what) in [
        ("scheduling", parts.scheduling, scheduling),
        ("submit", parts.submit, "tasks of the critical path were not submitted yet"),
        ("ring_wait", parts.ring_wait, "tasks of the critical path were not submitted because a ring was full"),
        ("recorder_wait", parts.recorder_wait, "the critical path waited for the recorder"),
        ("gil_wait", parts.gil_wait, "the critical path waited for Python's GIL"),
        ("data_wait", parts.data_wait, data.as_str()),
        ("core_wait", Some(parts.core_wait), core.as_str()),
        ("front_gap", Some(parts.front_gap - between_rounds), "the critical path's first task had not begun"),
        ("between rounds", Some(between_rounds), "between rounds nothing was being submitted"),
    ] {
        let task = path.longest.task(part).map(|task| trace.task_name(task));
        tell(ns.unwrap_or(0), what.to_string(), "plimsoll critical-path", task);
    }
}

fn recorder(trace: &Trace, tell: &mut impl FnMut(u64, String, &str, Option<String>)) {
    let ledger = trace.manifest.as_ref().and_then(|manifest| manifest.reconcile.as_ref());
    let waited = ledger.map_or(0, |ledger| ledger.pools.iter().map(|pool| pool.wait_ns).max().unwrap_or(0));
    tell(waited, "one of the producers of records waited for the recorder".to_string(), "plimsoll check", None);
}
