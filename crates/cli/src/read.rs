//! The commands that read a run: its directory, or files of the reference system.

pub(crate) mod args;
pub(crate) mod check;
pub(crate) mod critical_path;
pub(crate) mod deps;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod export;
mod npy;
pub(crate) mod recover;
mod replay;
pub(crate) mod report;
pub(crate) mod sched;
pub(crate) mod scopes;
pub(crate) mod stats;

use crate::exit::in_calls;
use crate::size::is_of_the_command;
use crate::wording::wording_of;
use clap::Args;
use plimsoll::trace::{self, Liveness, Manifest, OUTPUTS, Request, Status, Trace, TraceParts};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a command reads and how it answers; the same of every command that reads.
#[derive(Args)]
pub(crate) struct ReadArgs {
    /// A run's directory, or a file or directory of the reference; the newest run if left out
    path: Option<PathBuf>,
    /// Dependencies (deps.json) that lie elsewhere
    #[arg(long, value_name = "FILE")]
    deps: Option<PathBuf>,
    /// Names of kernels (name_map*.json) that lie elsewhere
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Scope statistics (scope_stats.jsonl) that lie elsewhere
    #[arg(long, value_name = "FILE")]
    scopes: Option<PathBuf>,
    /// Which rank of a capture of several
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A run that was read, and where from.
pub(crate) struct Reading {
    pub(crate) trace: Trace,
    /// What was named; of a folder of ranks, the folder of the one that was chosen.
    pub(crate) path: PathBuf,
    /// Flags that name files which lie elsewhere.
    files: String,
    json: bool,
}

impl ReadArgs {
    /// Reads the capture and says on the terminal what is wrong with it.
    pub(crate) fn open(&self, load: TraceParts) -> anyhow::Result<Reading> {
        let path = trace::rank_folder(&place(self.path.clone())?, self.rank)?;
        let trace = trace::open_request(&Request {
            deps: self.deps.clone(),
            names: self.names.clone(),
            scopes: self.scopes.clone(),
            load,
            ..Request::new(&path)
        })
        .map_err(|error| recover::or_removed(&path, error))?;
        warn(&trace, &path);
        let files = [("--deps", &self.deps), ("--names", &self.names), ("--scopes", &self.scopes)];
        let named = files.into_iter().filter_map(|(flag, file)| Some((flag, trace::for_shell(file.as_ref()?))));
        let files = named.map(|(flag, file)| format!(" {flag} {file}")).collect();
        Ok(Reading { trace, path, files, json: self.json })
    }
}

/// A run as an argument of another command, with a space before it; nothing of the newest, which commands find by themselves.
pub(crate) fn run_argument(path: &Path) -> String {
    let is_newest = trace::newest_run(Path::new(OUTPUTS)).is_ok_and(|newest| newest == path);
    if is_newest { String::new() } else { format!(" {}", trace::for_shell(path)) }
}

impl Reading {
    /// Prints an answer: as one JSON object, or as text with what to do next.
    pub(crate) fn answer(
        &self,
        answer: &impl serde::Serialize,
        text: impl FnOnce() -> String,
        next: &str,
    ) -> anyhow::Result<()> {
        let facts = &self.trace.facts;
        if self.json {
            println!("{}", object(answer, facts.virtual_time, facts.emulated, self.trace.manifest.as_ref())?);
            return Ok(());
        }
        print!("{}", text());
        if let Some(sentence) = self.trace.manifest.as_ref().and_then(|manifest| ended_badly(manifest, &self.path)) {
            println!("{sentence}");
        }
        say_machine(facts.virtual_time, facts.emulated, &facts.arch);
        if !next.is_empty() {
            println!("next: {}", self.of_this_run(next));
        }
        Ok(())
    }

    /// Commands, as lines to paste: those that read a run name this one and its files.
    fn of_this_run(&self, next: &str) -> String {
        let run = run_argument(&self.path);
        let named = next.split(" · ").map(|command| match command.split(' ').nth(1) {
            Some("check") => format!("{command}{run}"),
            _ if command.starts_with("plimsoll ") => format!("{command}{run}{}", self.files),
            _ => command.to_owned(),
        });
        named.collect::<Vec<_>>().join(" · ")
    }

    /// Fails if the run has no times of tasks, which nearly every question needs.
    pub(crate) fn need_times(&self) -> anyhow::Result<()> {
        // A run that recorded times and ran nothing has them all.
        if !self.trace.executions.is_empty() || self.trace.manifest.as_ref().is_some_and(|m| m.level > 0) {
            return Ok(());
        }
        Err(in_calls(format!(
            "{} holds no times of tasks. They were not recorded, or are elsewhere. {}",
            self.path.display(),
            how_to_get_times(self.trace.manifest.as_ref())
        )))
    }

    /// Fails if a run of ours has lost its records. Those of a run that lives, or that was not recovered, may all be in its region
    /// still; and a run that died before it took the first has none, as its ledger says.
    pub(crate) fn need_records(&self) -> anyhow::Result<()> {
        let is_out = matches!(self.trace.liveness, Liveness::Ended | Liveness::RegionGone);
        let manifest = self.trace.manifest.as_ref().filter(|manifest| is_out && manifest.flags != 0);
        let took_none = |manifest: &Manifest| {
            manifest.reconcile.as_ref().is_some_and(|ledger| ledger.pools.iter().all(|pool| pool.total == 0))
        };
        anyhow::ensure!(
            manifest.is_none_or(took_none) || !self.trace.executions.is_empty() || has_segments(&self.path),
            "{} holds no records. They were removed, or the run's account of them never came. Run the program again.",
            self.path.display()
        );
        Ok(())
    }

    /// Why no kernel has an end, and what to do.
    pub(crate) fn nothing_ended(&self) -> &'static str {
        match self.trace.executions.is_empty() {
            true => "No task ran. Run something.",
            false => "No task ended. `plimsoll explain` says what it waits for.",
        }
    }

    /// How to get dependencies, to whoever made this run.
    pub(crate) fn how_to_get_deps(&self) -> String {
        self.worded(match self.trace.manifest.as_ref() {
            None => "Name a file that has them with --deps.",
            Some(manifest) if is_of_the_command(manifest) => {
                "Run with --dep-gen or --profile, or name a file with --deps."
            }
            Some(_) => {
                "Record `Flags::DEP_GEN`, record the program with `plimsoll record --profile`, or name a file with --deps."
            }
        })
    }

    /// A text of the library in the words of whoever made this run: flags, or calls of the library.
    pub(crate) fn worded(&self, text: &str) -> String {
        wording_of(self.trace.manifest.as_ref())(text)
    }
}

/// How to get times of tasks, to whoever made a run.
fn how_to_get_times(manifest: Option<&Manifest>) -> String {
    wording_of(manifest)(match manifest {
        None => "Give the folder or file with the swimlane records.",
        Some(manifest) if is_of_the_command(manifest) => "Record the run with --swimlane or --profile.",
        Some(_) => "Record `Flags::CORE_TIMING`, or record the program with `plimsoll record`.",
    })
}

/// Whether a run's directory has a file of records.
fn has_segments(path: &Path) -> bool {
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    std::fs::read_dir(dir.join("records")).is_ok_and(|mut files| files.next().is_some())
}

/// Reads all of a capture and says on the terminal what is wrong with it.
fn open_with_warnings(path: &Path) -> anyhow::Result<Trace> {
    let trace = trace::open(path).map_err(|error| recover::or_removed(path, error))?;
    warn(&trace, path);
    Ok(trace)
}

/// Says on the terminal what is wrong with a capture.
fn warn(trace: &Trace, path: &Path) {
    if trace.manifest.as_ref().is_some_and(|manifest| manifest.needs_recovery()) {
        eprintln!(
            "plimsoll: this run was killed and its last records are still in its region. They are not shown. Run `plimsoll recover {}` first.",
            trace::for_shell(path)
        );
    }
    for finding in trace.quality.findings() {
        eprintln!("plimsoll: warning: {finding}");
    }
}

/// What was named, or the newest run.
pub(crate) fn place(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => Ok(path),
        None => Ok(trace::newest_run(Path::new(OUTPUTS))?),
    }
}

/// Says plainly that times are no measurements, or not those of the chip that is named.
pub(crate) fn say_machine(is_virtual: bool, emulated: bool, arch: &str) {
    if let Some(sentence) = machine(is_virtual, emulated, arch) {
        println!("{sentence}");
    }
}

/// The sentence that says so; none if times were measured on what is named.
pub(crate) fn machine(is_virtual: bool, emulated: bool, arch: &str) -> Option<String> {
    // The region of a run that has lost its directory does not know the arch.
    let arch = if arch.is_empty() { "the chip" } else { arch };
    if is_virtual {
        return Some(format!("Time is virtual: {arch} is a model here, and nothing was measured."));
    }
    emulated.then(|| format!("The device is emulated: {arch} is made of threads of this machine here."))
}

/// An answer as one JSON object, which says too how the run ended, whether time is virtual, and whether the device is emulated.
pub(crate) fn object(
    answer: &impl serde::Serialize,
    is_virtual: bool,
    emulated: bool,
    manifest: Option<&Manifest>,
) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(answer)?;
    object["virtual"] = is_virtual.into();
    object["emulated"] = emulated.into();
    object["status"] = manifest.map_or(Value::Null, |manifest| manifest.status.name().into());
    object["error"] = manifest.and_then(|m| m.error.as_ref()).map_or(Value::Null, |error| error.name.clone().into());
    Ok(object)
}

/// A sentence on a run that did not end well. That a run was killed and not recovered was said as a warning.
pub(crate) fn ended_badly(manifest: &Manifest, path: &Path) -> Option<String> {
    let why = manifest.error.as_ref().map_or(String::new(), |error| format!(" ({})", error.name));
    let (how, status) = match (manifest.status, manifest.liveness()) {
        (Status::Ok, _) | (_, Liveness::NeedsRecovery) => return None,
        (Status::Running, Liveness::Alive) => ("has not ended", "running"),
        (Status::Running, _) => ("did not end well", "killed"),
        (status, _) => ("did not end well", status.name()),
    };
    Some(format!(
        "This run {how}: {status}{why}. What is shown goes as far as it came. `plimsoll explain {}` says more.",
        trace::for_shell(path)
    ))
}
