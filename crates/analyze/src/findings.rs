//! What cost a good run most, in sentences, each with the command that shows more.

use plimsoll_trace::Trace;
use serde::Serialize;

use crate::critical_path::{CriticalPath, critical_path};
use crate::dependencies::graph;
use crate::sched::{Overhead, sched};

/// One thing that cost time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Costly {
    /// How much, as far as it can be told.
    pub cost_ns: u64,
    /// The same as a share of the makespan.
    pub share: f64,
    /// What, in a sentence.
    pub what: String,
    /// The command that shows more, without the run's path.
    pub command: String,
}

/// Most findings that are told.
const MOST: usize = 3;
/// Less than this of the makespan is not worth a sentence.
const LEAST: f64 = 0.01;

/// The three things that cost most; fewer if fewer are worth a sentence.
pub fn costliest(trace: &Trace) -> Vec<Costly> {
    let Some(path) = critical_path(trace) else { return Vec::new() };
    let mut found = Vec::new();
    let whole = path.makespan_ns.max(1) as f64;
    let mut tell = |cost_ns: u64, what: String, command: &str| {
        let share = cost_ns as f64 / whole;
        if share >= LEAST {
            found.push(Costly { cost_ns, share, what, command: command.to_string() });
        }
    };
    idle_cores(trace, whole, &mut tell);
    waits(&path, &mut tell);
    if let Some(function) = path.functions.first() {
        let what = format!("kernel {:?} on the critical path, {} times", function.func, function.count);
        tell(function.kernel_ns, what, "plimsoll stats");
    }
    if let Some(worst) = graph(trace, true).and_then(|graph| graph.false_dependencies.into_iter().next()) {
        let what = format!("{} waits for {} though no data flows between them", worst.succ, worst.pred);
        tell(worst.cost_ns, what, "plimsoll deps");
    }
    recorder(trace, &mut tell);
    found.sort_by_key(|costly| std::cmp::Reverse(costly.cost_ns));
    found.truncate(MOST);
    found
}

fn idle_cores(trace: &Trace, whole: f64, tell: &mut impl FnMut(u64, String, &str)) {
    let Some(overhead) = sched(trace).and_then(|sched| sched.overhead.own.or(sched.overhead.reference)) else { return };
    let Overhead { by_class, .. } = overhead;
    for (class, share) in by_class {
        let name = if class == "any" { "workers".to_string() } else { format!("{} cores", class.to_uppercase()) };
        tell((share * whole) as u64, format!("{name} idle while ready tasks wait"), "plimsoll sched");
    }
}

fn waits(path: &CriticalPath, tell: &mut impl FnMut(u64, String, &str)) {
    let longest = path.path.iter().max_by_key(|hop| hop.wait_ns);
    let command = longest
        .map_or("plimsoll critical-path".to_string(), |hop| format!("plimsoll critical-path --task {}", hop.task));
    for (ns, what) in [
        (path.parts.scheduling.unwrap_or(0), "scheduling on the critical path, after data and core were there"),
        (path.parts.submit.unwrap_or(0), "tasks of the critical path were not submitted yet"),
        (path.parts.ring_wait.unwrap_or(0), "tasks of the critical path were not submitted because a ring was full"),
        (path.parts.recorder_wait.unwrap_or(0), "the critical path waited for the recorder"),
        (path.parts.gil_wait.unwrap_or(0), "the critical path waited for Python's GIL"),
        (path.parts.data_wait, "on the critical path producers had ended and were not seen to have"),
        (path.parts.core_wait, "on the critical path cores were free and not seen to be"),
        (path.parts.front_gap, "the critical path's first task had not begun"),
    ] {
        tell(ns, what.to_string(), &command);
    }
}

fn recorder(trace: &Trace, tell: &mut impl FnMut(u64, String, &str)) {
    let ledger = trace.manifest.as_ref().and_then(|manifest| manifest.reconcile.as_ref());
    let waited = ledger.map_or(0, |ledger| ledger.pools.iter().map(|pool| pool.wait_ns).max().unwrap_or(0));
    tell(waited, "one of the producers of records waited for the recorder".to_string(), "plimsoll check");
}
