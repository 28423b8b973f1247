//! Finding out what was given, and reading it with everything that lies beside it.

mod audit;
mod beside;
mod deps_json;
mod l2_records;
mod name_map;
mod number;
mod run_dir;
mod scope_records;
mod scope_stats;
mod scope_stats_first;
mod segments;
mod swimlane;
mod threads;

use std::path::{Path, PathBuf};

use crate::{Clock, Error, FindingKind, KernelTime, Manifest, Source, Trace};
pub use audit::{Audit, audit};
use beside::{Beside, Form};
pub use scope_records::{FullSample, ScopeDecoder};

/// Which parts of a capture to read. Times of tasks are always read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Tasks, arguments and edges.
    pub deps: bool,
    /// Scheduler and orchestrator phases.
    pub phases: bool,
    /// Scope samples.
    pub scopes: bool,
}

impl Load {
    /// Everything.
    pub const ALL: Load = Load { deps: true, phases: true, scopes: true };
    /// Times of tasks and nothing else.
    pub const TASKS: Load = Load { deps: false, phases: false, scopes: false };
}

impl Default for Load {
    fn default() -> Self {
        Self::ALL
    }
}

/// Reads a run directory of ours, or a file or directory of the reference system.
pub fn open(path: &Path) -> Result<Trace, Error> {
    open_with(path, Load::ALL)
}

/// Reads some parts of a capture.
pub fn open_with(path: &Path, load: Load) -> Result<Trace, Error> {
    let metadata = std::fs::metadata(path).map_err(Error::io("open", path))?;
    if metadata.is_dir() {
        if path.join(Manifest::FILE).is_file() {
            return run_dir::read(path, load);
        }
        return reference(Beside::in_dir(path), path, load);
    }
    let dir = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.file_name().is_some_and(|name| name == Manifest::FILE) {
        return run_dir::read(dir, load);
    }
    let form = Form::of_file(path)?;
    reference(Beside::around(path, form, dir), path, load)
}

/// When kernels of a run directory of ours ran: one pass over its records that keeps none of them. The number of its
/// cores and its clock come with it.
pub fn kernel_time(dir: &Path) -> Result<(KernelTime, usize, Clock), Error> {
    run_dir::kernel_time(dir)
}

/// Reads the files that were found; what was asked for by name must be readable, what only lies beside it need not.
fn reference(found: Beside, asked: &Path, load: Load) -> Result<Trace, Error> {
    let mut trace = Trace::empty(Source::Reference(found.paths()));
    if found.is_empty() {
        return Err(Error::NotACapture { path: asked.to_path_buf() });
    }
    trace.facts.engine = "reference".to_string();
    // Which kernel an execution ran is in deps.json alone, so it is read even where its edges are not asked for.
    if let Some(path) = &found.deps {
        let read = deps_json::read(path, !load.deps, &mut trace);
        settle(read, path, asked, &mut trace)?;
    }
    if let Some(path) = &found.name_map {
        let read = name_map::read(path, &mut trace);
        settle(read, path, asked, &mut trace)?;
    }
    if let Some((path, form)) = &found.records {
        let read = match form {
            Form::Swimlane => swimlane::read(path, load, &mut trace),
            _ => l2_records::read(path, load, &mut trace),
        };
        settle(read, path, asked, &mut trace)?;
    }
    if let Some((path, form)) = found.scopes.as_ref().filter(|_| load.scopes) {
        let read = match form {
            Form::ScopeStats => scope_stats::read(path, &mut trace),
            _ => scope_stats_first::read(path, &mut trace),
        };
        settle(read, path, asked, &mut trace)?;
    }
    deps_json::name_kernels(&mut trace);
    if !load.deps {
        trace.deps = None;
    }
    trace.settle_origin();
    Ok(trace)
}

/// An error in a file that was not asked for by name is a finding.
fn settle(read: Result<(), Error>, path: &Path, asked: &Path, trace: &mut Trace) -> Result<(), Error> {
    match read {
        Err(error) if path != asked && !asked.is_dir() => {
            trace.quality.note(FindingKind::FileLeftOut, Some(path), || error.to_string());
            Ok(())
        }
        other => other,
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::io("read", path))
}

/// Paths of a directory, sorted, so that the same directory always reads the same.
fn sorted_entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}
