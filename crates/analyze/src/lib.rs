//! Pure functions over a [`Trace`](plimsoll_trace::Trace): what people ask of a run.
//!
//! One file per question. Every answer is a value that serialises to the `--json` of the command that prints it, and
//! nothing here prints, reads or writes.
#![forbid(unsafe_code)]

mod args;
mod check;
mod counters;
mod critical_path;
mod dependencies;
mod diff;
mod explain;
mod findings;
mod histogram;
mod quantile;
mod sched;
mod scopes;
mod sizing;
mod stats;
mod task_rows;
mod task_table;
mod verdict;
mod waits;
mod why;

pub use args::{
    ArgRow, ArgsAnswer, ArgsDifference, ArgsReplay, ElementStats, FirstDifference, FirstNan, NanSearch, arg_row,
    args_diff, difference, dumped_tasks, first_nan,
};
pub use check::{Check, PoolCheck, ReconcileCheck, check};
pub use counters::{CounterStats, FunctionCounters, HostPhaseStats};
pub use critical_path::{
    CriticalPath, Folded, Hop, LongestSteps, Parts, PathFunction, PathSummary, Wait, critical_arrows, critical_path,
    path_summary,
};
pub use dependencies::{
    DependencyGraph, FalseDependency, FalseKind, FalsePair, Node, Pair, false_dependencies, false_pairs, graph,
};
pub use diff::{Change, Diff, Peak, UNTOLD_NOISE, diff};
pub use explain::{Outside, explain};
pub use findings::{Costly, costliest, costliest_beside};
pub use histogram::{Histograms, histograms};
pub use sched::{
    Distribution, LoopBudget, Overhead, Overheads, Sched, SchedulerLoops, Switch, Switches, sched, sched_beside,
};
pub use scopes::{Exhausted, ResourcePeak, ScopeNode, ScopeRow, ScopeTable, ScopeTree, scope_tree, scopes};
pub use sizing::{SizeRow, Sizing, sizing};
pub use stats::{CoreStats, FunctionStats, LifecycleStats, Stats, stats};
pub use task_rows::{TaskRow, task_rows};
pub use task_table::TaskTable;
pub use why::{Cause, Ended, TaskWait, TaskWaits, TaskWhy, why};
