//! The answers that the page shows, each the value that a command prints with `--json`.

use plimsoll_analyze::{
    Check, CriticalPath, FalseDependency, Histograms, Sched, ScopeTable, ScopeTree, Sizing, Stats, check,
    critical_path, graph, histograms, sched, scope_tree, scopes, sizing, stats,
};
use plimsoll_trace::{Audit, Trace};

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
    pub path: Option<CriticalPath>,
    /// `plimsoll sched`; absent if nothing ran.
    pub sched: Option<Sched>,
    /// Dependencies that data does not need, of `plimsoll deps`; absent where they were not looked for.
    pub false_dependencies: Option<Vec<FalseDependency>>,
    /// Whether dependencies were recorded.
    pub has_dependencies: bool,
}

/// Above this many tasks dependencies are not searched for false ones: that takes longer than all the rest of the page.
const MOST_SEARCHED: usize = 100_000;

/// Bins of a function's histogram: as many as its picture has bars.
const BINS: usize = 40;

impl Answers {
    /// Asks everything of a trace that was read in full.
    pub fn of(trace: &Trace) -> Self {
        let has_dependencies = trace.deps.is_some();
        let few = trace.deps.as_ref().is_some_and(|deps| deps.tasks.len() <= MOST_SEARCHED);
        let stats = stats(trace);
        Self {
            histograms: histograms(trace, &stats, BINS),
            stats,
            scopes: scopes(trace),
            scope_tree: scope_tree(trace),
            sizing: trace.manifest.as_ref().and_then(sizing),
            check: check(&Audit::from(trace)),
            path: critical_path(trace),
            sched: sched(trace),
            false_dependencies: few.then(|| graph(trace, true)).flatten().map(|graph| graph.false_dependencies),
            has_dependencies,
        }
    }
}
