//! The answers that the page shows, each the value that a command prints with `--json`.

use plimsoll_analyze::{
    Check, Costly, FalsePair, Histograms, PathSummary, Sched, ScopeTable, ScopeTree, Sizing, Stats, TaskTable, check,
    costliest_beside, explain, false_pairs, histograms, path_summary, sched_beside, scope_tree, scopes, sizing, stats,
};
use plimsoll_trace::{ArgsDump, Audit, Explanation, Liveness, Source, Status, Trace};
use std::sync::Arc;

/// Answers about one run.
#[derive(Clone, Debug)]
pub struct Answers {
    /// `plimsoll stats`.
    pub stats: Stats,
    /// How the times of its functions are distributed.
    pub histograms: Histograms,
    /// `plimsoll scopes`.
    pub scopes: ScopeTable,
    /// The same scopes as they nest.
    pub scope_tree: ScopeTree,
    /// `plimsoll size`; absent where a run could not say what it used.
    pub sizing: Option<Sizing>,
    /// `plimsoll check`.
    pub check: Check,
    /// `plimsoll critical-path`; absent if nothing ran.
    pub path: Option<PathSummary>,
    /// The tasks of the critical path by their words, first to last.
    pub path_tasks: Vec<u64>,
    /// `plimsoll sched`; absent if nothing ran.
    pub sched: Option<Sched>,
    /// Dependencies that data does not need, of `plimsoll deps`, those that cost most first; absent where no dependencies
    /// were recorded.
    pub false_dependencies: Option<Vec<FalsePair>>,
    /// What cost most, of `plimsoll explain`; of a run that did not end well there is none.
    pub costliest: Vec<Costly>,
    /// How the run died, of `plimsoll explain`; of a run that ended well or goes on there is none.
    pub explanation: Option<Explanation>,
    /// The captured arguments that lie beside the run.
    pub(super) dump: Option<Arc<ArgsDump>>,
    /// Turns calls of the library in a text into what the run's user has in their place.
    pub(super) wording: fn(&str) -> String,
    /// The tasks that ran: what they waited for is asked of this task by task.
    pub(super) table: TaskTable,
}

/// Bins of a function's histogram: as many as its picture has bars.
const BINS: usize = 40;

impl Answers {
    /// Asks everything of a trace that was read in full. Advice names calls of the library.
    pub fn of(trace: &Trace) -> Self {
        Self::in_words(trace, str::to_owned, |trace| {
            let own = trace.manifest.as_ref().and_then(|manifest| manifest.explanation.clone());
            own.unwrap_or_else(|| explain(trace, None, None))
        })
    }

    /// The same, with advice in the words of whoever ran it. `explain` is asked only of a run that is dead: a command can
    /// look at what the run left outside of its files.
    pub fn in_words(trace: &Trace, wording: fn(&str) -> String, explain: impl FnOnce(&Trace) -> Explanation) -> Self {
        let stats = stats(trace);
        let table = TaskTable::new(trace);
        let mut path_tasks = Vec::new();
        let path = path_summary(trace, &table, |task, _| path_tasks.push(task));
        let sched = path.as_ref().and_then(|path| sched_beside(trace, &table, path));
        let false_dependencies = trace.deps.is_some().then(|| false_pairs(trace, &table));
        let ended_well = trace.manifest.as_ref().is_none_or(|manifest| manifest.status == Status::Ok);
        let is_dead = !ended_well && trace.liveness != Liveness::Alive;
        let worst = false_dependencies.as_ref().and_then(|all| all.first());
        let told = path.as_ref().filter(|_| ended_well);
        Self {
            histograms: histograms(trace, &stats, BINS),
            stats,
            scopes: scopes(trace),
            scope_tree: scope_tree(trace),
            sizing: trace.manifest.as_ref().and_then(sizing),
            check: check(&Audit::from(trace)),
            costliest: told.map_or(Vec::new(), |path| costliest_beside(trace, path, sched.as_ref(), worst)),
            explanation: is_dead.then(|| explain(trace)),
            dump: dump_of(trace).map(Arc::new),
            wording,
            sched,
            path,
            path_tasks,
            table,
            false_dependencies,
        }
    }
}

/// The captured arguments that lie beside a trace.
fn dump_of(trace: &Trace) -> Option<ArgsDump> {
    match &trace.source {
        Source::Run(dir) => ArgsDump::open(dir).ok(),
        Source::Reference(paths) => {
            paths.iter().filter_map(|path| path.parent()).find_map(|dir| ArgsDump::open(dir).ok())
        }
    }
}
