//! Finding out what was given, and reading it with everything that lies beside it.

mod audit;
mod beside;
mod contradictions;
mod cycles;
mod deps_json;
mod frames;
mod host_phases;
mod l2_records;
mod name_map;
mod newest;
mod null;
mod number;
mod pmu_csv;
mod ranks;
mod run_dir;
mod scope_samples;
mod scope_stats;
mod scope_stats_first;
mod segments;
mod swimlane;
mod threads;

use std::path::{Path, PathBuf};

use crate::{Error, FindingKind, KernelTime, Manifest, PhaseRows, RunClock, Source, Trace};
pub use audit::{Audit, audit};
use beside::{CaptureFiles, Form};
pub use frames::{FrameFinder, Opening, Stretch, whole_frame};
pub(crate) use number::JsonNumber;
pub use ranks::rank_folder;
pub use scope_samples::{FullSample, ScopeJoin};
pub use segments::LooseFrame;
pub(crate) use segments::Segments;

/// Which parts of a capture to read. Times of tasks are always read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceParts {
    /// Tasks and edges.
    pub deps: bool,
    /// Arguments of tasks, and the tensors that they are parts of, together with tasks and edges.
    pub args: bool,
    /// Scheduler and orchestrator phases. Of a run directory of ours this says which phases of schedulers are kept one by
    /// one; of the reference's files all are.
    pub phases: PhaseRows,
    /// Scope samples.
    pub scopes: bool,
    /// Readings of counters, and what the host did.
    pub counters: bool,
}

impl TraceParts {
    /// Everything.
    pub const ALL: TraceParts =
        TraceParts { deps: true, args: true, phases: PhaseRows::All, scopes: true, counters: true };
    /// Times of tasks and nothing else.
    pub const TASKS: TraceParts =
        TraceParts { deps: false, args: false, phases: PhaseRows::None, scopes: false, counters: false };
    /// The parts that explain waits: times, edges, and the waits among the phases. Arguments and the other phases would
    /// triple the memory.
    pub const WAITS: TraceParts = TraceParts { deps: true, phases: PhaseRows::Waits, ..TraceParts::TASKS };
}

impl Default for TraceParts {
    fn default() -> Self {
        Self::ALL
    }
}

/// Reads a run directory of ours, or a file or directory of the reference system.
///
/// # Errors
/// If there is no capture, or it cannot be read. What is only damaged is read as far as it goes, and [`Trace::quality`] says
/// what is missing.
pub fn open(path: &Path) -> Result<Trace, Error> {
    open_with(path, TraceParts::ALL)
}

/// Reads some parts of a capture.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, load: TraceParts) -> Result<Trace, Error> {
    open_request(&Request { load, ..Request::new(path) })
}

/// Reads some parts of a run of ours that lives, or that was killed and not recovered: its segments, and frames that its
/// region still has. `manifest` is what is known of the run; the directory may be gone.
///
/// # Errors
/// As [`open`].
pub fn open_unended(dir: &Path, load: TraceParts, manifest: Manifest, frames: Vec<LooseFrame>) -> Result<Trace, Error> {
    run_dir::read_as(dir, load, manifest, frames)
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
    pub load: TraceParts,
}

impl Request {
    /// A request for all parts of the capture at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), deps: None, names: None, scopes: None, rank: None, load: TraceParts::ALL }
    }

    /// Whether a file was asked for, by its name or with all that is in its folder.
    fn asks_for(&self, file: &Path) -> bool {
        let named = [&self.deps, &self.names, &self.scopes].into_iter().flatten();
        self.path.is_dir() || self.path == file || named.into_iter().any(|path| path == file)
    }
}

/// Reads what was asked for.
///
/// # Errors
/// As [`open`], and if a capture of several ranks is not asked for one of them.
pub fn open_request(request: &Request) -> Result<Trace, Error> {
    let path = rank_folder(&request.path, request.rank)?;
    let metadata = std::fs::metadata(&path).map_err(Error::io("open", &path))?;
    let dir = match path.parent() {
        _ if metadata.is_dir() => path.as_path(),
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let is_manifest = path.file_name().is_some_and(|name| name == Manifest::FILE);
    if is_manifest || metadata.is_dir() && path.join(Manifest::FILE).is_file() {
        let mut trace = run_dir::read(dir, request.load)?;
        let named = CaptureFiles { records: None, ..CaptureFiles::default() }.with(request)?;
        trace.named = named.paths();
        take(named, request, &mut trace)?;
        return Ok(trace);
    }
    let found = if metadata.is_dir() {
        CaptureFiles::in_dir(&path)
    } else {
        CaptureFiles::around(&path, Form::of_file(&path)?, dir)
    };
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
///
/// # Errors
/// As [`open`].
pub fn kernel_time(dir: &Path) -> Result<(KernelTime, usize, RunClock), Error> {
    run_dir::kernel_time(dir)
}

/// Reads files of the reference into a trace; what was asked for must be readable, what only lies beside it need not.
fn take(found: CaptureFiles, request: &Request, trace: &mut Trace) -> Result<(), Error> {
    let load = request.load;
    if found.is_empty() {
        return Ok(());
    }
    // Which kernel an execution ran is in deps.json alone, so it is read even where its edges are not asked for.
    if let Some(path) = &found.deps {
        let read = deps_json::read(path, load, trace);
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
        contradictions::note(trace, path);
    }
    if let Some((path, form)) = found.scopes.as_ref().filter(|_| load.scopes) {
        trace.scopes = crate::ScopeSamples::default();
        let read = match form {
            Form::ScopeStats => scope_stats::read(path, trace),
            _ => scope_stats_first::read(path, trace),
        };
        settle(read, path, request, trace)?;
    }
    if let Some(path) = found.counters.as_ref().filter(|_| load.counters) {
        let read = pmu_csv::read(path, trace);
        settle(read, path, request, trace)?;
    }
    if let Some(path) = found.host_phases.as_ref().filter(|_| load.counters) {
        let read = host_phases::read(path, trace);
        settle(read, path, request, trace)?;
    }
    deps_json::name_kernels(trace);
    if !load.deps {
        trace.deps = None;
    }
    trace.settle_origin();
    Ok(())
}

/// Turns an error in a file that was not asked for into a finding.
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
