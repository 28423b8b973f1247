//! `run.json`: what a run was, how it ended, and the ledger of its records.
//!
//! Each version of it is written beside the one before and then renamed, so that a reader finds one or the other and never
//! half of one. Who writes which version, and when, is up to the owner of the run's directory (`collect/src/run_dir.rs`).

mod board;
mod explanation;
mod facts;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, open_plain};
pub use board::{BoardFacts, ExecutedFacts, OrchestratorFacts, RingFacts, RunningFacts, SchedulerFacts};
pub use explanation::{Blocker, ChainLink, EndClass, Explanation, WaitGroup};
pub use facts::{
    AgentFacts, BudgetFacts, CapacityFacts, ClockFacts, ClockPair, CoreFacts, CounterFacts, ErrorReport, FileProducer,
    KernelFacts, Ledger, PoolLedger, RingCapacity, SiteFacts, Topology, TransportFacts,
};
use plimsoll_abi::ErrorCode;

/// The `format` of a manifest.
pub const FORMAT: &str = "plimsoll.run";
/// The newest schema of it.
pub const SCHEMA: u32 = 1;

/// How far a run got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It has not ended, or died without a word.
    #[default]
    Running,
    /// It ended well.
    Ok,
    /// It ended with an error.
    Failed,
    /// It made no progress any more.
    Hung,
    /// It was asked to stop.
    Interrupted,
    /// It was killed; the records were recovered afterwards.
    Killed,
}

impl Status {
    /// The status of a run that ended with this error, or with none.
    pub fn of(error: Option<ErrorCode>) -> Self {
        match error {
            None => Status::Ok,
            Some(ErrorCode::Interrupted) => Status::Interrupted,
            Some(ErrorCode::SchedulerTimeout | ErrorCode::OpTimeout) => Status::Hung,
            Some(_) => Status::Failed,
        }
    }

    /// As files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Ok => "ok",
            Status::Failed => "failed",
            Status::Hung => "hung",
            Status::Interrupted => "interrupted",
            Status::Killed => "killed",
        }
    }
}

/// Whether a run lives, and if not, whether its records are all out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// It ended and wrote its last manifest.
    Ended,
    /// Its region is locked: it runs.
    Alive,
    /// It died without a word and its region is still there: `plimsoll recover` gets the rest out.
    NeedsRecovery,
    /// It died without a word and its region is gone: what the segments hold is all there is.
    RegionGone,
}

/// The contents of `run.json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// Who wrote it.
    pub producer: FileProducer,
    /// The command line, word by word; empty for a library run.
    pub command: Vec<String>,
    /// The `plimsoll record` that started the program, by a name of its own; empty if none did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub recorder: String,
    /// The language of a program that calls the library, if that is not Rust: `c` or `python`. Advice on the run is worded in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub language: String,
    /// The program's name.
    pub program: String,
    /// Its settings, by name.
    pub settings: std::collections::BTreeMap<String, String>,
    /// The engine.
    pub engine: String,
    /// The arch.
    pub arch: String,
    /// Whether time is virtual.
    #[serde(rename = "virtual")]
    pub virtual_time: bool,
    /// Whether the arch is emulated on CPU threads rather than real.
    pub emulated: bool,
    /// The process that ran it.
    pub pid: u32,
    /// The process of the device, if that is one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_pid: Option<u32>,
    /// Which run of its device it is, from 1.
    pub device_run: u64,
    /// When it started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How the host reached the region, and what it moved; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportFacts>,
    /// What was counted while tasks ran; absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterFacts>,
    /// Threads and cores.
    pub topology: Topology,
    /// What each ring can hold.
    pub capacities: CapacityFacts,
    /// The clock of all records.
    pub clock: ClockFacts,
    /// The word of flags.
    pub flags: u64,
    /// The swimlane level.
    pub level: u8,
    /// What was captured of tasks' arguments: 1 marked ones, 2 everything, 3 everything with the elements of marked ones; 0 if
    /// nothing was, or a recovered directory does not know.
    #[serde(skip_serializing_if = "is_zero")]
    pub dump_args_level: u64,
    /// How far it got.
    pub status: Status,
    /// Why it failed.
    pub error: Option<ErrorReport>,
    /// What ended it, who waited for whom, what to try; absent of a run that ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// What its status board said last; absent of a run that ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<BoardFacts>,
    /// The ledger of its records; absent while it runs.
    pub reconcile: Option<Ledger>,
    /// The kernels of its device.
    pub kernels: Vec<KernelFacts>,
    /// The source sites that records name.
    pub sites: Vec<SiteFacts>,
    /// Rounds run.
    pub rounds: u32,
    /// Accepted submits.
    pub tasks: u64,
    /// Executions on cores.
    pub dispatches: u64,
    /// Threads that did not come back from the run.
    pub left_behind: u32,
    /// From the first submit to the end of the run. Files without this key have it under `makespan_ns`.
    #[serde(alias = "makespan_ns")]
    pub elapsed_ns: u64,
    /// The most of each resource that was in use; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<CapacityFacts>,
    /// The least capacities with which the run ends, lower bounds if it failed; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floors: Option<CapacityFacts>,
    /// Whether the result was checked, and was right.
    pub verified: Option<bool>,
    /// The files of the directory, relative to it.
    pub files: Vec<String>,
    /// The shared-memory region. Named before its file is made and until it is certain that the file is gone.
    pub region: Option<PathBuf>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Manifest {
    /// The file's name in a run directory.
    pub const FILE: &'static str = "run.json";
    /// Where its next version is written before it is renamed.
    pub const NEXT: &'static str = ".run.json.next";

    /// An empty manifest of the present schema.
    pub fn new(program: &str) -> Self {
        Self {
            format: FORMAT.to_string(),
            schema: SCHEMA,
            producer: FileProducer { name: "plimsoll".to_string(), version: env!("CARGO_PKG_VERSION").to_string() },
            program: program.to_string(),
            ..Self::default()
        }
    }

    /// Reads `run.json` of a directory.
    ///
    /// # Errors
    /// If there is no `run.json`, or it is none that this build knows.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(Self::FILE);
        let mut bytes = Vec::new();
        let read = open_plain(&path).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(Error::io("read", &path))?;
        let manifest: Self = serde_json::from_slice(&bytes).map_err(Error::json("a run's manifest", &path))?;
        if manifest.format != FORMAT {
            return Err(Error::Json {
                what: "a run's manifest",
                path,
                line: 1,
                column: 1,
                reason: format!("its format is {:?} and not {FORMAT:?}", manifest.format),
            });
        }
        if manifest.schema > SCHEMA {
            let Manifest { format, schema: found, .. } = manifest;
            return Err(Error::Schema { path, format, found, known: SCHEMA });
        }
        Ok(manifest)
    }

    /// Writes `run.json` into a directory, all of it or nothing. Two writers at a time are kept apart by the caller.
    ///
    /// # Errors
    /// If the file cannot be written. The one that was there before is whole.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        self.put(dir, false)
    }

    /// As [`write`](Self::write), and returns when it would survive a loss of power.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_durably(&self, dir: &Path) -> Result<(), Error> {
        self.put(dir, true)
    }

    fn put(&self, dir: &Path, durably: bool) -> Result<(), Error> {
        let (path, next) = (dir.join(Self::FILE), dir.join(Self::NEXT));
        let mut text = serde_json::to_vec_pretty(self).map_err(Error::json("a run's manifest", &path))?;
        text.push(b'\n');
        // Not truncated: its blocks may have been reserved when the run started, and are cut off behind the text.
        let opened = fs::File::options().write(true).create(true).truncate(false).open(&next);
        let written = opened.and_then(|mut file| {
            file.write_all(&text)?;
            file.set_len(text.len() as u64)?;
            if durably { file.sync_data() } else { Ok(()) }
        });
        let put = written.and_then(|()| fs::rename(&next, &path)).and_then(|()| match durably {
            true => fs::File::open(dir)?.sync_all(),
            false => Ok(()),
        });
        put.map_err(Error::io("write", &path))
    }

    /// Whether the run lives; a run is alive as long as its region's file is locked.
    pub fn liveness(&self) -> Liveness {
        if self.status != Status::Running {
            return Liveness::Ended;
        }
        let file = match self.region.as_ref().map(|path| open_plain(path)) {
            Some(Ok(file)) => file,
            // Another user's region is there, and whether it is locked is not for this one to know. Its process is for everybody.
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                let lives = Path::new("/proc").join(self.pid.to_string()).exists();
                return if lives { Liveness::Alive } else { Liveness::NeedsRecovery };
            }
            _ => return Liveness::RegionGone,
        };
        match file.try_lock_shared() {
            // Dropping the file gives the lock back.
            Ok(()) => Liveness::NeedsRecovery,
            Err(_) => Liveness::Alive,
        }
    }

    /// Whether `plimsoll recover` has something to do here.
    pub fn needs_recovery(&self) -> bool {
        self.liveness() == Liveness::NeedsRecovery
    }

    /// The text of a site: `file:line`.
    pub fn site(&self, id: u32) -> Option<String> {
        self.sites.iter().find(|s| s.id == id).map(|s| format!("{}:{}", s.file, s.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut manifest = Manifest::new("matmul");
        manifest.virtual_time = true;
        manifest.error = Some(ErrorReport { code: 1, name: "ScopeDeadlock".into(), ..ErrorReport::default() });
        manifest.write(dir.path()).expect("written");
        manifest.write(dir.path()).expect("written over");
        assert_eq!(Manifest::read(dir.path()).expect("read"), manifest);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
        let text = fs::read_to_string(dir.path().join(Manifest::FILE)).expect("text");
        assert!(text.contains("\"virtual\": true") && text.contains("\"status\": \"running\""), "{text}");
    }

    #[test]
    fn pipes_in_place_of_files_are_no_files_and_nobody_waits_for_them() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        let mut manifest = Manifest::new("x");
        manifest.region = Some(pipe.clone());
        assert_eq!(manifest.liveness(), Liveness::RegionGone);
        fs::rename(&pipe, dir.path().join(Manifest::FILE)).expect("renamed");
        let error = Manifest::read(dir.path()).expect_err("no file").to_string();
        assert!(error.contains("not a plain file"), "{error}");
    }

    #[test]
    fn newer_schemas_and_other_formats_are_refused_in_words() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut manifest = Manifest::new("x");
        manifest.schema = SCHEMA + 1;
        manifest.write(dir.path()).expect("written");
        let error = Manifest::read(dir.path()).expect_err("newer schema").to_string();
        assert!(error.contains("schema 2") && error.contains("newer plimsoll"), "{error}");
        fs::write(dir.path().join(Manifest::FILE), "{\"format\":\"other\"}").expect("written");
        assert!(Manifest::read(dir.path()).expect_err("other format").to_string().contains("\"other\""));
        fs::write(dir.path().join(Manifest::FILE), "{\"format\":\n 12}").expect("written");
        assert!(Manifest::read(dir.path()).expect_err("no text").to_string().contains("Line 2"));
    }

    #[test]
    fn a_run_without_a_last_word_needs_recovery_once_nobody_holds_its_region() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let region = dir.path().join("region");
        let mut manifest = Manifest::new("x");
        manifest.region = Some(region.clone());
        assert_eq!(manifest.liveness(), Liveness::RegionGone);
        let file = fs::File::create(&region).expect("region");
        file.lock().expect("locked");
        assert_eq!(manifest.liveness(), Liveness::Alive);
        drop(file);
        assert!(manifest.needs_recovery());
        manifest.status = Status::Killed;
        assert_eq!(manifest.liveness(), Liveness::Ended);
    }
}
