//! Which files of the reference lie where.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Request, sorted_entries};
use crate::{ArgsDump, Error};

/// The form of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// `chip_swimlane_records.json`.
    Swimlane,
    /// `l2_swimlane_records.json` or `l2_perf_records.json`.
    L2Records,
    /// `deps.json`.
    Deps,
    /// `name_map*.json`.
    NameMap,
    /// `scope_stats.jsonl`.
    ScopeStats,
    /// `scope_stats.json`, the first form.
    ScopeStatsFirst,
    /// `pmu.csv`.
    Pmu,
    /// `host_phase_records.jsonl`.
    HostPhases,
    /// `args_dump.json`, which [`ArgsDump`] reads.
    Args,
}

/// The files of one capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CaptureFiles {
    pub(super) records: Option<(PathBuf, Form)>,
    pub(super) deps: Option<PathBuf>,
    pub(super) name_map: Option<PathBuf>,
    pub(super) scopes: Option<(PathBuf, Form)>,
    pub(super) counters: Option<PathBuf>,
    pub(super) host_phases: Option<PathBuf>,
    pub(super) args: Option<PathBuf>,
}

impl Form {
    fn of_name(name: &str) -> Option<Form> {
        let is_json = name.ends_with(".json");
        match name {
            "deps.json" => Some(Form::Deps),
            "scope_stats.jsonl" => Some(Form::ScopeStats),
            "scope_stats.json" => Some(Form::ScopeStatsFirst),
            "pmu.csv" => Some(Form::Pmu),
            "host_phase_records.jsonl" => Some(Form::HostPhases),
            ArgsDump::FILE => Some(Form::Args),
            _ if is_json && name.starts_with("chip_swimlane_records") => Some(Form::Swimlane),
            _ if is_json && (name.starts_with("l2_swimlane_records") || name.starts_with("l2_perf_records")) => {
                Some(Form::L2Records)
            }
            _ if is_json && name.starts_with("name_map") => Some(Form::NameMap),
            _ => None,
        }
    }

    /// The form of a file, by its name, else by the keys at its beginning.
    pub(super) fn of_file(path: &Path) -> Result<Form, Error> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(form) = Self::of_name(&name) {
            return Ok(form);
        }
        let mut head = Vec::new();
        let file = std::fs::File::open(path).map_err(Error::io("open", path))?;
        file.take(4096).read_to_end(&mut head).map_err(Error::io("read", path))?;
        let head = String::from_utf8_lossy(&head);
        let has = |key: &str| head.contains(key);
        if has("\"chip_swimlane_level\"") || has("\"aicore_tasks\"") {
            Ok(Form::Swimlane)
        } else if has("\"l2_swimlane_level\"") || has("\"start_time_us\"") {
            Ok(Form::L2Records)
        } else if has("\"kernel_ids\"") || has("\"buffer_addr\"") {
            Ok(Form::Deps)
        } else if has("\"task_window_max\"") {
            Ok(Form::ScopeStats)
        } else if has("\"callable_id_to_name\"") {
            Ok(Form::NameMap)
        } else if has("pmu_total_cycles") {
            Ok(Form::Pmu)
        } else if has("\"start_ns\"") && has("\"phase\"") {
            Ok(Form::HostPhases)
        } else {
            Err(Error::NotACapture { path: path.to_path_buf() })
        }
    }
}

impl CaptureFiles {
    /// Everything in a directory.
    pub(super) fn in_dir(dir: &Path) -> Self {
        let mut found = Self::default();
        let folders = ["scope_stats", ArgsDump::DIR].map(|folder| sorted_entries(&dir.join(folder)));
        for path in sorted_entries(dir).into_iter().chain(folders.into_iter().flatten()) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some(form) = Form::of_name(&name).filter(|_| path.is_file()) {
                found.offer(path, form);
            }
        }
        found
    }

    /// One file and what lies beside it; the file wins over another of its form.
    pub(super) fn around(path: &Path, form: Form, dir: &Path) -> Self {
        let mut found = Self::default();
        if !matches!(form, Form::ScopeStats | Form::ScopeStatsFirst) {
            found = Self::in_dir(dir);
        }
        let path = path.to_path_buf();
        match form {
            Form::Swimlane | Form::L2Records => found.records = Some((path, form)),
            Form::Deps => found.deps = Some(path),
            Form::NameMap => found.name_map = Some(path),
            Form::ScopeStats | Form::ScopeStatsFirst => found.scopes = Some((path, form)),
            Form::Pmu => found.counters = Some(path),
            Form::HostPhases => found.host_phases = Some(path),
            Form::Args => found.args = Some(path),
        }
        found
    }

    /// Puts the files that the request names in the place of those that were found.
    pub(super) fn with(mut self, request: &Request) -> Result<Self, Error> {
        if let Some(path) = &request.deps {
            self.deps = Some(path.clone());
        }
        if let Some(path) = &request.names {
            self.name_map = Some(path.clone());
        }
        if let Some(path) = &request.scopes {
            let form = Form::of_file(path)?;
            // Whether or not scopes are read, a file of another kind is a mistake of who named it.
            if !matches!(form, Form::ScopeStats | Form::ScopeStatsFirst) {
                return Err(Error::other_kind("scope statistics", path, "`task_window_max`"));
            }
            self.scopes = Some((path.clone(), form));
        }
        Ok(self)
    }

    /// Takes a file, unless a newer form, or an earlier file of the same form, is there.
    fn offer(&mut self, path: PathBuf, form: Form) {
        match form {
            Form::Swimlane if !matches!(self.records, Some((_, Form::Swimlane))) => self.records = Some((path, form)),
            Form::L2Records if self.records.is_none() => self.records = Some((path, form)),
            Form::Deps if self.deps.is_none() => self.deps = Some(path),
            Form::NameMap if self.name_map.is_none() => self.name_map = Some(path),
            Form::ScopeStats if !matches!(self.scopes, Some((_, Form::ScopeStats))) => self.scopes = Some((path, form)),
            Form::ScopeStatsFirst if self.scopes.is_none() => self.scopes = Some((path, form)),
            Form::Pmu if self.counters.is_none() => self.counters = Some(path),
            Form::HostPhases if self.host_phases.is_none() => self.host_phases = Some(path),
            Form::Args if self.args.is_none() => self.args = Some(path),
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths().is_empty()
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let with_form = [&self.records, &self.scopes].into_iter().flatten().map(|(path, _)| path);
        let plain = [&self.deps, &self.name_map, &self.counters, &self.host_phases, &self.args].into_iter().flatten();
        with_form.chain(plain).cloned().collect()
    }
}
