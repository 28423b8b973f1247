//! The reference's own files, for its tools to read.
//!
//! What its forms have no word for is folded: a worker of a CPU run is written as a vector core with its kernel in the
//! first vector slot; `steal` becomes a `dispatch` that dealt with no task, `park` becomes `idle`, waits for rings and
//! for the recorder are left out, because they lie over other phases; a task of a later
//! round keeps the round in the upper bits of its id, but in the newest form, which has a column for it and the graph once.

mod newest;
mod pmu;
mod scope_stats;
mod swimlane;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use plimsoll_trace::deps::{write_deps_json, write_newest_deps_json};
use plimsoll_trace::{MachineMark, Trace};
use serde::Serialize;

use crate::{Error, spare_sources, write_whole};
pub use newest::write_newest_swimlane;
pub use pmu::write_pmu;
pub use scope_stats::{write_scope_stats, write_scope_stats_first};
pub use swimlane::write_swimlane;

/// The directory for them beside files of the reference that were read.
pub const DIR: &str = "simpler";
/// The files' names, relative to the directory.
pub const SWIMLANE: &str = "chip_swimlane_records.json";
/// Dependencies.
pub const DEPS: &str = "deps.json";
/// Names of kernels.
pub const NAME_MAP: &str = "name_map.json";
/// Scope statistics.
pub const SCOPE_STATS: &str = "scope_stats/scope_stats.jsonl";
/// Readings of counters.
pub const PMU: &str = "pmu.csv";
/// Scope statistics in their first form.
pub const SCOPE_STATS_FIRST: &str = "scope_stats/scope_stats.json";

/// Which of the reference's forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SimplerForm {
    /// That of mid 2026.
    Plain,
    /// The newest.
    Newest,
}

/// Writes every file that the trace has something for into a directory, as of mid 2026; gives their paths.
///
/// # Errors
/// If there is nothing to write, a file cannot be written, or one would replace a file that the trace was read from.
pub fn write_simpler(trace: &Trace, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    write_form(trace, SimplerForm::Plain, dir)
}

/// Writes the same in the newest form.
///
/// # Errors
/// As [`write_simpler`].
pub fn write_simpler_newest(trace: &Trace, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    write_form(trace, SimplerForm::Newest, dir)
}

fn write_form(trace: &Trace, form: SimplerForm, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    for name in [SWIMLANE, DEPS, NAME_MAP, SCOPE_STATS, PMU] {
        spare_sources(trace, &dir.join(name))?;
    }
    let mut written = Vec::new();
    let mark = MachineMark::of(&trace.facts);
    if !trace.executions.is_empty() {
        written.push(write_file(dir, SWIMLANE, |out| match form {
            SimplerForm::Plain => write_swimlane(trace, out),
            SimplerForm::Newest => write_newest_swimlane(trace, out),
        })?);
    }
    if let Some(deps) = &trace.deps {
        written.push(write_file(dir, DEPS, |out| match form {
            SimplerForm::Plain => write_deps_json(deps, &mark, out),
            SimplerForm::Newest => write_newest_deps_json(deps, newest::runtime(trace), &mark, out),
        })?);
    }
    if !trace.kernels.is_empty() {
        written.push(write_file(dir, NAME_MAP, |out| write_name_map(trace, out))?);
    }
    if !trace.scopes.is_empty() {
        written.push(write_file(dir, SCOPE_STATS, |out| write_scope_stats(trace, out))?);
    }
    if !trace.counters.is_empty() {
        written.push(write_file(dir, PMU, |out| match form {
            SimplerForm::Plain => write_pmu(trace, out),
            SimplerForm::Newest => pmu::write_readings(trace, out, |word| trace.id_and_epoch(word).0),
        })?);
    }
    if written.is_empty() {
        return Err(Error::NothingToExport {
            form: "files of the reference",
            missing: "no records",
            advice: "Record some: `Flags::CORE_TIMING`, `Flags::DEP_GEN` or `Flags::SCOPE_STATS`.",
        });
    }
    Ok(written)
}

/// Writes `scope_stats.json`, the first form, which is only written when it is asked for.
///
/// # Errors
/// If the file cannot be written, or would replace one that the trace was read from.
pub fn write_simpler_scopes_first(trace: &Trace, dir: &Path) -> Result<PathBuf, Error> {
    spare_sources(trace, &dir.join(SCOPE_STATS_FIRST))?;
    write_file(dir, SCOPE_STATS_FIRST, |out| write_scope_stats_first(trace, out))
}

/// Writes `name_map.json`.
///
/// # Errors
/// What `out` says.
pub fn write_name_map(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct NameMap<'a> {
        level: u32,
        orchestrator_name: Option<&'a str>,
        callable_id_to_name: std::collections::BTreeMap<String, &'a str>,
        #[serde(flatten)]
        mark: MachineMark,
    }
    let program = Some(trace.facts.program.as_str()).filter(|p| !p.is_empty());
    let map = NameMap {
        level: 2,
        orchestrator_name: trace.orchestrator.as_deref().or(program),
        callable_id_to_name: trace.kernels.iter().map(|(id, name)| (id.to_string(), name.as_str())).collect(),
        mark: MachineMark::of(&trace.facts),
    };
    serde_json::to_writer_pretty(&mut *out, &map)?;
    out.write_all(b"\n")
}

fn write_file(
    dir: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<PathBuf, Error> {
    let path = dir.join(name);
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(Error::io(&path))?;
    write_whole(&path, write)?;
    Ok(path)
}
