//! What a run records and where, as the program says it or, for a program that does not, the environment.

use crate::error::{Error, Result};
use plimsoll_abi::{CounterGroup, Flags, Level};
use plimsoll_collect::{BufferSizes, Policy, TransportKind};
use plimsoll_probe::DumpRules;
use plimsoll_trace::OUTPUTS;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Where a run is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunPlace {
    /// In this directory, which is made if it does not exist and must not hold a run.
    Exactly(PathBuf),
    /// In a directory of its own in this one, whose `latest` points to the newest run. Any number of runs may use it.
    Under(PathBuf),
}

/// What a run records, and where.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Where it is recorded.
    pub place: RunPlace,
    /// What is recorded. Nothing at all turns recording off, whatever the environment says.
    pub flags: Flags,
    /// What a producer does that finds no buffer.
    pub policy: Policy,
    /// Where the region goes; `None` = shared memory if it has room, else the run's directory.
    pub region_dir: Option<PathBuf>,
    /// How the host reaches the region; `None` = as the arch has it.
    pub transport: Option<TransportKind>,
    /// How long a blocked producer waits before it takes the host for gone.
    pub host_gone: Duration,
    /// Buffers after which the collector stops, for tests of what happens then.
    #[doc(hidden)]
    pub collector_stops_after: Option<u64>,
    /// Sizes of the pools.
    pub sizes: BufferSizes,
    /// What is captured of tasks' arguments, if tensor dumps are recorded.
    pub dump: DumpRules,
    /// The tasks whose arguments are captured: names of kernels, and tasks as `r2t17` in every round or as
    /// `r2t17@3` in round 3. Empty for all tasks.
    pub dump_tasks: Vec<String>,
    /// What is counted while a task runs, if counters ([`Flags::PMU`]) are recorded. Where the machine does not have it, another
    /// group is counted, and the manifest says which and why.
    pub counters: CounterGroup,
    /// The program's name, for the manifest and for a directory under others; the binary's if it is empty.
    pub program: String,
    /// What the name of a directory under others starts with, if that is not the program's name.
    pub dir_name: Option<String>,
    /// The command line, for the manifest; empty in a program of the user's own.
    pub command: Vec<String>,
    /// The program's settings, for the manifest.
    pub settings: BTreeMap<String, String>,
    /// Rewords the explanation of the run's error for the manifest. The library gives advice in its own calls, and the
    /// command has flags for them.
    pub wording: Option<fn(&str) -> String>,
    /// The language that the program is written in, for the manifest: whoever reads the run later words its advice in that. Empty for
    /// Rust, and where the command runs the program.
    pub language: &'static str,
    /// Is set to `true` once the run has ended and its records are out. What may take long after that reads them: the
    /// explanation of a run that did not end well, and captured arguments.
    pub records_out: Option<Arc<AtomicBool>>,
}

impl RecordOptions {
    /// The variable that turns recording on in programs that do not set it: a level from 1 to 4, or `profile`.
    pub const RECORD_VARIABLE: &'static str = "PLIMSOLL_RECORD";
    /// The variable that says under which directory such a program's runs are recorded, `outputs` if it is not set.
    pub const OUT_VARIABLE: &'static str = "PLIMSOLL_OUT";
    /// The variable that is copied into the manifest of every run (`recorder`): by it `plimsoll record` knows the runs of the program
    /// that it started.
    pub const RECORDER_VARIABLE: &'static str = "PLIMSOLL_RECORDER";

    /// Records `flags` into `dir`, losing nothing.
    pub fn new(dir: impl Into<PathBuf>, flags: Flags) -> Self {
        Self::at(RunPlace::Exactly(dir.into()), flags)
    }

    /// Records every run into a directory of its own in `outputs`, named after the program; `outputs/latest` points to the
    /// newest. Recorded is what the command records by default: core timing and scope statistics.
    pub fn under(outputs: impl Into<PathBuf>) -> Self {
        Self::at(RunPlace::Under(outputs.into()), Flags::CORE_TIMING.with(Flags::SCOPE_STATS))
    }

    fn at(place: RunPlace, flags: Flags) -> Self {
        Self {
            place,
            flags,
            policy: Policy::Block,
            region_dir: None,
            transport: None,
            host_gone: Duration::from_secs(30),
            collector_stops_after: None,
            sizes: BufferSizes::default(),
            dump: DumpRules::default(),
            dump_tasks: Vec::new(),
            counters: CounterGroup::default(),
            program: String::new(),
            dir_name: None,
            command: Vec::new(),
            settings: BTreeMap::new(),
            wording: None,
            language: "",
            records_out: None,
        }
    }

    /// Records everything: all swimlanes, dependencies and scope statistics.
    #[must_use]
    pub fn profile(mut self) -> Self {
        self.flags = Flags::ORCH_PHASES.with(Flags::DEP_GEN).with(Flags::SCOPE_STATS);
        self
    }

    /// Records counters, too: what `group` counts while each task runs.
    #[must_use]
    pub fn count(mut self, group: CounterGroup) -> Self {
        self.flags = self.flags.with(Flags::PMU);
        self.counters = group;
        self
    }

    /// What the environment asks for, for programs that do not say what to record.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if the variable is neither a level nor `profile`.
    pub fn from_env() -> Result<Option<Self>> {
        let out = std::env::var_os(Self::OUT_VARIABLE).filter(|out| !out.is_empty());
        let out = out.map_or_else(|| PathBuf::from(OUTPUTS), PathBuf::from);
        std::env::var_os(Self::RECORD_VARIABLE).map_or(Ok(None), |asked| Self::asked(&asked, out))
    }

    fn asked(asked: &OsStr, out: PathBuf) -> Result<Option<Self>> {
        let mut options = Self::under(out);
        let level = asked.to_str().and_then(|text| text.parse().ok()).and_then(|number| Level::new(number).ok());
        match (asked.to_str(), level) {
            (Some("" | "0"), _) => Ok(None),
            (Some("profile"), _) => Ok(Some(options.profile())),
            (_, Some(level)) => {
                options.flags = level.flags().with(Flags::SCOPE_STATS);
                Ok(Some(options))
            }
            _ => Err(Error::invalid(format!(
                "{} cannot be {asked:?}. It is a level from 1 to 4, or `profile`. Correct or unset it.",
                Self::RECORD_VARIABLE
            ))),
        }
    }

    /// The run's name: the program's, or the binary's.
    pub(crate) fn run_name(&self) -> String {
        if !self.program.is_empty() {
            return self.program.clone();
        }
        let binary = std::env::args_os().next().map(PathBuf::from);
        let name = binary.as_deref().and_then(Path::file_stem);
        name.map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn asked(text: &str) -> Result<Option<RecordOptions>> {
        RecordOptions::asked(OsStr::new(text), PathBuf::from("runs"))
    }

    #[test]
    fn levels_and_profile_turn_recording_on_and_other_words_are_refused() {
        for (text, level) in [("1", 1), ("2", 2), ("3", 3), ("4", 4), ("profile", 4)] {
            let options = asked(text).expect("known").expect("on");
            assert_eq!(options.flags.level().number(), level, "{text}");
            assert!(options.flags.has(Flags::SCOPE_STATS));
            assert_eq!(options.flags.has(Flags::DEP_GEN), text == "profile");
            assert_eq!(options.place, RunPlace::Under("runs".into()));
        }
        assert!(asked("").expect("known").is_none() && asked("0").expect("known").is_none());
        for text in ["5", "-1", "all", "1 "] {
            let error = asked(text).expect_err("unknown").to_string();
            assert!(error.contains("PLIMSOLL_RECORD") && error.contains("1 to 4"), "{error}");
        }
        let strange = RecordOptions::asked(OsStr::from_bytes(b"\xff"), PathBuf::new());
        assert!(strange.is_err(), "what is no text is not passed over");
    }
}
