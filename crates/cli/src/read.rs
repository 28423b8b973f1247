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

/// Says plainly that times are no measurements.
pub(crate) fn say_virtual(is_virtual: bool, arch: &str) {
    if is_virtual {
        println!("Time is virtual: {arch} is a model here, and nothing was measured.");
    }
}

/// An answer as one JSON object, which says too whether time is virtual.
pub(crate) fn object(answer: &impl serde::Serialize, is_virtual: bool) -> anyhow::Result<serde_json::Value> {
    let mut object = serde_json::to_value(answer)?;
    object["virtual"] = is_virtual.into();
    Ok(object)
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
