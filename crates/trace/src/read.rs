//! Finding out what was given, and reading it with everything that lies beside it.

mod audit;
mod beside;
mod deps_json;
mod frames;
mod l2_records;
mod name_map;
mod newest;
mod number;
mod ranks;
mod run_dir;
mod scope_samples;
mod scope_stats;
mod scope_stats_first;
mod segments;
mod swimlane;
mod threads;

use std::path::{Path, PathBuf};

use crate::{Clock, Error, FindingKind, KernelTime, Manifest, Source, Trace};
pub use audit::{Audit, audit};
use beside::{Beside, Form};
pub use frames::{FrameFinder, Opening, whole_frame};
pub use scope_samples::{FullSample, ScopeJoin};

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
    open_request(&Request { load, ..Request::new(path) })
}

/// What to read, and files that lie elsewhere: the reference often leaves times and dependencies in two folders.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// A run directory, or a file or directory of the reference.
    pub path: PathBuf,
    /// Dependencies, in place of what lies beside the path.
    pub deps: Option<PathBuf>,
    /// Names of kernels, likewise.
    pub names: Option<PathBuf>,
    /// Scope statistics, likewise.
    pub scopes: Option<PathBuf>,
    /// Which rank of a capture of several.
    pub rank: Option<u32>,
    /// Which parts.
    pub load: Load,
}

impl Request {
    /// All of a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), deps: None, names: None, scopes: None, rank: None, load: Load::ALL }
    }

    /// Whether a file was asked for, by its name or with all that is in its folder.
    fn asks_for(&self, file: &Path) -> bool {
        let named = [&self.deps, &self.names, &self.scopes].into_iter().flatten();
        self.path.is_dir() || self.path == file || named.into_iter().any(|path| path == file)
    }
}

/// Reads what was asked for.
pub fn open_request(request: &Request) -> Result<Trace, Error> {
    let path = ranks::choose(&request.path, request.rank)?;
    let metadata = std::fs::metadata(&path).map_err(Error::io("open", &path))?;
    let dir = match path.parent() {
        _ if metadata.is_dir() => path.as_path(),
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let is_manifest = path.file_name().is_some_and(|name| name == Manifest::FILE);
    if is_manifest || metadata.is_dir() && path.join(Manifest::FILE).is_file() {
        let mut trace = run_dir::read(dir, request.load)?;
        let named = Beside { records: None, ..Beside::default() }.with(request)?;
        take(named, request, &mut trace)?;
        return Ok(trace);
    }
    let found =
        if metadata.is_dir() { Beside::in_dir(&path) } else { Beside::around(&path, Form::of_file(&path)?, dir) };
    let found = found.with(request)?;
    if found.is_empty() {
        return Err(Error::NotACapture { path });
    }
    let mut trace = Trace::empty(Source::Reference(found.paths()));
    trace.facts.engine = "reference".to_string();
    take(found, request, &mut trace)?;
    Ok(trace)
}

/// When kernels of a run directory of ours ran: one pass over its records that keeps none of them. The number of its
/// cores and its clock come with it.
pub fn kernel_time(dir: &Path) -> Result<(KernelTime, usize, Clock), Error> {
    run_dir::kernel_time(dir)
}

/// Reads files of the reference into a trace; what was asked for must be readable, what only lies beside it need not.
fn take(found: Beside, request: &Request, trace: &mut Trace) -> Result<(), Error> {
    let load = request.load;
    if found.is_empty() {
        return Ok(());
    }
    // Which kernel an execution ran is in deps.json alone, so it is read even where its edges are not asked for.
    if let Some(path) = &found.deps {
        let read = deps_json::read(path, !load.deps, trace);
        settle(read, path, request, trace)?;
    }
    if let Some(path) = &found.name_map {
        let read = name_map::read(path, trace);
        settle(read, path, request, trace)?;
    }
    if let Some((path, form)) = &found.records {
        let read = match form {
            Form::Swimlane => swimlane::read(path, load, trace),
            _ => l2_records::read(path, load, trace),
        };
        settle(read, path, request, trace)?;
    }
    if let Some((path, form)) = found.scopes.as_ref().filter(|_| load.scopes) {
        trace.scopes = crate::ScopeSamples::default();
        let read = match form {
            Form::ScopeStats => scope_stats::read(path, trace),
            _ => scope_stats_first::read(path, trace),
        };
        settle(read, path, request, trace)?;
    }
    deps_json::name_kernels(trace);
    if !load.deps {
        trace.deps = None;
    }
    trace.settle_origin();
    Ok(())
}

/// An error in a file that was not asked for is a finding.
fn settle(read: Result<(), Error>, path: &Path, request: &Request, trace: &mut Trace) -> Result<(), Error> {
    match read {
        Err(error) if !request.asks_for(path) => {
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
