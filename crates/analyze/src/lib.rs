//! Pure functions over a [`Trace`](plimsoll_trace::Trace): what people ask of a run.
//!
//! One file per question. Every answer is a value that serialises to the `--json` of the command that prints it, and
//! nothing here prints, reads or writes.
#![forbid(unsafe_code)]

mod check;
mod quantile;
mod scopes;
mod sizing;
mod stats;

pub use check::{Check, PoolCheck, ReconcileCheck, check};
pub use scopes::{Exhausted, ResourcePeak, ScopeRow, ScopeTable, scopes};
pub use sizing::{SizeRow, Sizing, sizing};
pub use stats::{CoreStats, FunctionStats, LifecycleStats, Stats, stats};
