//! What a run records, from the command line.

use super::machine::Machine;
use crate::exit::wrong;
use clap::{Args, ValueEnum};
use plimsoll::abi::{Flags, Level};
use plimsoll::record::{CounterGroup, DumpRules, Policy, TransportKind};
use plimsoll::run::{parse_bytes, parse_duration};
use plimsoll::trace::{ArgsDump, OUTPUTS, Trace};
use plimsoll::{Device, RecordOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of a recording.
#[derive(Args)]
pub(super) struct RecordingArgs {
    /// Record swimlanes: 1 core timing, 2 + dispatch and finish, 3 + scheduler phases, 4 + orchestrator phases; 4 if no
    /// level is given, 1 if the flag is left out
    // What is given last holds: `explain` gives more to paste behind a command.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "4", overrides_with = "swimlane")]
    swimlane: Option<u64>,
    /// Record samples and peaks of every scope; on, but with --swimlane=0 only if asked for
    #[arg(long)]
    scope_stats: bool,
    /// Record submits, from which the dependencies are written
    #[arg(long)]
    dep_gen: bool,
    /// Capture the arguments of tasks: 1 those that are marked, 2 everything, 3 the shapes of all and the elements of marked
    /// ones; 1 if no level is given. Never the elements of `no_dep` arguments, which another task may write meanwhile
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", overrides_with = "dump_args", value_parser = clap::value_parser!(u8).range(1..=3))]
    dump_args: Option<u8>,
    /// With --dump-args: only of these, by kernel, as r2t17 or, in round 3, as r2t17@3, with commas between them
    #[arg(long, value_name = "TASKS", value_delimiter = ',', requires = "dump_args")]
    dump_tasks: Vec<String>,
    /// With --dump-args: at most so many bytes of each argument, with k, m or g for powers of 1024
    #[arg(long, value_name = "BYTES", requires = "dump_args")]
    dump_bytes: Option<String>,
    /// Count while each task runs: cycles (and instructions), cache, branches, software or rusage; cycles if no group is given.
    /// Where the machine does not have it, what it has
    #[arg(long, value_name = "GROUP", num_args = 0..=1, require_equals = true, default_missing_value = "cycles")]
    pmu: Option<String>,
    /// Everything above but captured arguments and counters: swimlane 4, dependencies, scope statistics
    #[arg(long, conflicts_with_all = ["swimlane", "no_record"])]
    profile: bool,
    /// Record nothing
    #[arg(long, conflicts_with_all = ["swimlane", "scope_stats", "dep_gen", "dump_args", "pmu", "transport", "region_dir", "on_full", "host_gone_timeout"])]
    no_record: bool,
    /// What a recorder does that finds no buffer
    #[arg(long, value_enum, default_value_t = OnFull::Block)]
    on_full: OnFull,
    /// Where the shared-memory region goes
    #[arg(long, value_name = "DIR")]
    region_dir: Option<PathBuf>,
    /// How the collector reaches the device's records: in place, or through a copy that it moves ranges into; as the arch has
    /// it if left out
    #[arg(long, value_enum)]
    transport: Option<TransportChoice>,
    /// How long whoever records waits for the collector before it is taken for gone, such as 500ms; 30s if left out
    #[arg(long, value_name = "TIME", overrides_with = "host_gone_timeout")]
    host_gone_timeout: Option<String>,
    /// Exit 1 if a record was lost
    #[arg(long)]
    pub(super) require_lossless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportChoice {
    /// In place
    Mapped,
    /// Through a copy
    Shadow,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFull {
    /// Wait for the collector: nothing is lost
    Block,
    /// Wait a little, then drop and count
    Drop,
}

impl RecordingArgs {
    /// Refuses what cannot be recorded.
    pub(super) fn check(&self, machine: &Machine) -> anyhow::Result<()> {
        let group = self.pmu.as_deref().map(counter_group).transpose()?;
        if group.is_some() {
            allow_open_files();
        }
        if group == Some(CounterGroup::Virtual) && !machine.is_virtual() {
            return Err(wrong(
                "--pmu=virtual needs virtual time. It counts what a cost table charges by. Add --engine virtual, or choose another group.",
            ));
        }
        Ok(())
    }

    /// Refuses names of tasks to capture that are neither kernels of the device nor tasks.
    pub(super) fn check_tasks(&self, device: &Device) -> anyhow::Result<()> {
        let is_known = |name: &str| device.kernel_named(name).is_some() || Trace::task_word(name).is_some();
        match self.dump_tasks.iter().find(|name| !is_known(name)) {
            Some(name) => Err(wrong(format!(
                "--dump-tasks cannot be {name}. That is neither a kernel of the program nor a task such as r2t17. Its kernels are {}.",
                device.kernel_names().collect::<Vec<_>>().join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// Says what was not captured though it was asked for. Fails if marked arguments, or those of certain tasks, were to be captured
    /// and there were none.
    pub(super) fn check_args(&self, dir: &Path) -> anyhow::Result<()> {
        if self.dump_args.is_none() {
            return Ok(());
        }
        let dump = ArgsDump::open(dir)?;
        for note in dump.truncations() {
            eprintln!("plimsoll: {note}");
        }
        let (marked, tasks) = (self.dump_args == Some(DumpRules::MARKED), self.dump_tasks.join(", "));
        let is_needed = marked || !tasks.is_empty();
        if !is_needed || !dump.args.is_empty() || dump.loss().is_some() {
            return Ok(());
        }
        let why = match (marked, tasks.is_empty()) {
            (true, true) => {
                "--dump-args captures marked arguments, and no task that ran has one. Use --dump-args=2 for everything."
                    .to_owned()
            }
            (true, false) => format!(
                "--dump-args captures marked arguments, and no task that ran and that --dump-tasks names ({tasks}) has one. Use --dump-args=2 for all their arguments, or name other tasks."
            ),
            (false, _) => format!(
                "No task that ran and has arguments is one that --dump-tasks names ({tasks}). Name other tasks, or leave --dump-tasks out to capture all."
            ),
        };
        anyhow::bail!("Nothing was captured. {why}")
    }

    fn flags(&self) -> anyhow::Result<Flags> {
        // Submits are recorded with the arguments: they tell the order of the tasks.
        let dump = self.dump_args.map_or(Flags::NONE, |_| Flags::TENSOR_DUMP.with(Flags::DEP_GEN));
        let pmu = self.pmu.as_ref().map_or(Flags::NONE, |_| Flags::PMU);
        Ok(self.other_flags()?.with(dump).with(pmu))
    }

    fn other_flags(&self) -> anyhow::Result<Flags> {
        if self.no_record {
            return Ok(Flags::NONE);
        }
        if self.profile {
            let level = level(4)?;
            return Ok(level.flags().with(Flags::DEP_GEN).with(Flags::SCOPE_STATS));
        }
        let mut flags = level(self.swimlane.unwrap_or(1))?.flags();
        if self.dep_gen {
            flags = flags.with(Flags::DEP_GEN);
        }
        // On by default; an explicit level 0 without it means what it says.
        if self.scope_stats || self.swimlane != Some(0) {
            flags = flags.with(Flags::SCOPE_STATS);
        }
        Ok(flags)
    }

    /// What to record, or nothing.
    pub(super) fn options(
        &self,
        (spelled, name): (&str, &str),
        out: Option<PathBuf>,
        sets: &[String],
    ) -> anyhow::Result<Option<RecordOptions>> {
        let flags = self.flags()?;
        if flags.is_empty() {
            return Ok(None);
        }
        let mut record = out.map_or_else(|| RecordOptions::under(OUTPUTS), |dir| RecordOptions::new(dir, flags));
        record.flags = flags;
        record.policy = if self.on_full == OnFull::Drop { Policy::Drop } else { Policy::Block };
        record.transport = self.transport.map(|choice| match choice {
            TransportChoice::Mapped => TransportKind::Mapped,
            TransportChoice::Shadow => TransportKind::Shadow,
        });
        record.region_dir.clone_from(&self.region_dir);
        if let Some(text) = &self.host_gone_timeout {
            let time = parse_duration(text).map_err(|error| wrong(format!("--host-gone-timeout: {error}.")))?;
            record.host_gone = time.unwrap_or(Duration::MAX);
        }
        record.dump.level = self.dump_args.unwrap_or(DumpRules::ALL);
        if let Some(bytes) = &self.dump_bytes {
            record.dump.bytes =
                parse_bytes(bytes).map_err(|error| wrong(format!("--dump-bytes cannot be used: {error}.")))?;
        }
        record.dump_tasks.clone_from(&self.dump_tasks);
        record.program = spelled.to_owned();
        record.dir_name = Some(name.to_owned());
        if let Some(name) = &self.pmu {
            record.counters = counter_group(name)?;
        }
        record.command = std::env::args().collect();
        record.wording = Some(crate::wording::in_flags);
        record.settings =
            sets.iter().filter_map(|set| set.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Ok(Some(record))
    }
}

/// Lets this process open as many files as it may at all: every core takes some for its counters. An isolated device inherits that.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be, fewer are counted on, and the run says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The group of counters with this name.
pub(crate) fn counter_group(name: &str) -> anyhow::Result<CounterGroup> {
    let named = |group: CounterGroup| format!("{} ({})", group.name(), group.counters().join(", "));
    CounterGroup::from_name(name).ok_or_else(|| {
        wrong(format!(
            "There is no group of counters {name:?}. --pmu knows these: {}. Choose one of them.",
            CounterGroup::ALL.map(named).join("; ")
        ))
    })
}

fn level(number: u64) -> anyhow::Result<Level> {
    Level::new(number).map_err(|error| wrong(format!("{error}. Choose one of them.")))
}
