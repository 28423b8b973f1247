//! Pure functions over a [`Trace`](plimsoll_trace::Trace): what people ask of a run.
//!
//! One file per question. Every answer is a value that serialises to the `--json` of the command that prints it, and
//! nothing here prints, reads or writes.
#![forbid(unsafe_code)]

mod check;
mod critical_path;
mod dependencies;
mod diff;
mod findings;
mod quantile;
mod sched;
mod scopes;
mod sizing;
mod stats;
mod task_table;
mod why;

pub use check::{Check, PoolCheck, ReconcileCheck, check};
pub use critical_path::{CriticalPath, Folded, Hop, Parts, PathFunction, Wait, critical_arrows, critical_path};
pub use dependencies::{FalseDependency, Graph, Node, Pair, graph};
pub use diff::{Change, Diff, Peak, diff};
pub use findings::{Costly, costliest};
pub use sched::{Distribution, LoopBudget, Overhead, Overheads, Sched, SchedulerLoops, Switch, Switches, sched};
pub use scopes::{Exhausted, ResourcePeak, ScopeRow, ScopeTable, scopes};
pub use sizing::{SizeRow, Sizing, sizing};
pub use stats::{CoreStats, FunctionStats, LifecycleStats, Stats, stats};
pub use why::{Cause, Ended, TaskWait, TaskWhy, each_wait, why};
