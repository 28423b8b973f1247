//! The commands that read a run: its directory, or files of the reference system.

pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod recover;
pub(crate) mod scopes;
pub(crate) mod stats;

use plimsoll::trace::{self, Load, OUTPUTS, Trace};
use std::path::{Path, PathBuf};

/// What was named, or the newest run.
pub(crate) fn place(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => Ok(path),
        None => Ok(trace::newest_run(Path::new(OUTPUTS))?),
    }
}

/// Reads a capture and says on the terminal what is wrong with it.
fn open(path: &Path, load: Load) -> anyhow::Result<Trace> {
    let trace = trace::open_with(path, load)?;
    if trace.manifest.as_ref().is_some_and(|manifest| manifest.needs_recovery()) {
        eprintln!(
            "plimsoll: this run was killed and its last records are still in its region. They are not shown. Run `plimsoll recover {}` first.",
            path.display()
        );
    }
    for finding in trace.quality.findings() {
        eprintln!("plimsoll: warning: {finding}");
    }
    Ok(trace)
}
