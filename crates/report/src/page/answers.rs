//! The answers that the page shows, each the value that a command prints with `--json`.

use plimsoll_analyze::{Check, ScopeTable, Sizing, Stats, check, scopes, sizing, stats};
use plimsoll_trace::{Audit, Trace};

/// Answers about one run.
#[derive(Clone, Debug)]
pub struct Answers {
    /// `plimsoll stats`.
    pub stats: Stats,
    /// `plimsoll scopes`.
    pub scopes: ScopeTable,
    /// `plimsoll size`; absent where a run could not say what it used.
    pub sizing: Option<Sizing>,
    /// `plimsoll check`.
    pub check: Check,
}

impl Answers {
    /// Asks everything of a trace that was read in full.
    pub fn of(trace: &Trace) -> Self {
        Self {
            stats: stats(trace),
            scopes: scopes(trace),
            sizing: trace.manifest.as_ref().and_then(sizing),
            check: check(&Audit::from(trace)),
        }
    }
}
