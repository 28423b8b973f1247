//! `plimsoll args`: the numbers that tasks saw and made.

use super::{place, say_machine};
use crate::exit::wrong;
use crate::wording::reworded;
use clap::{Args, ValueEnum};
use plimsoll::analyze::{self, ArgsAnswer};
use plimsoll::report;
use plimsoll::trace::{self, ArgRole, ArgStage, ArgsDump, DumpedArg, Manifest};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Statistics are made without being asked for up to so many bytes of elements.
const QUICK_BYTES: u64 = 64 << 20;

/// Options of `args`.
#[derive(Args)]
pub(crate) struct ArgsCommand {
    /// A run's directory or the reference's, its args_dump, or the list in it; the newest run if left out
    path: Option<PathBuf>,
    /// Which rank of a capture of several
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Only this task, as r2t17, or as r2t17@3 in round 3
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Only this round
    #[arg(long, value_name = "N")]
    round: Option<u32>,
    /// Only tasks of this kernel
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Only what was captured then
    #[arg(long)]
    stage: Option<StageChoice>,
    /// Only arguments that were used so
    #[arg(long)]
    role: Option<RoleChoice>,
    /// Only this argument of each task
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Least, greatest and mean element, NaNs and Infs, whatever the size of the dump
    #[arg(long)]
    stats: bool,
    /// Print the first N elements of each
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "16")]
    values: Option<usize>,
    /// Write each tensor to a folder as a .npy file
    #[arg(long, value_name = "FOLDER")]
    npy: Option<PathBuf>,
    /// Find the first task whose outputs differ from another run's though its inputs are the same
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,
    /// Find the first task that made a NaN out of finite inputs
    #[arg(long)]
    first_nan: bool,
    /// With --first-nan: a NaN or an Inf
    #[arg(long, requires = "first_nan")]
    inf: bool,
    /// Run this task's kernel alone on its captured inputs, on one worker, and compare what it makes
    #[arg(long, value_name = "TASK", conflicts_with = "task")]
    replay: Option<String>,
    /// With --replay: how often the kernel is run and timed
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// With --replay of a plug-in's task: the shared object that has its kernels, FILE or FILE:PROGRAM; or the name of a built-in
    /// program, if the run does not know its own
    #[arg(long, value_name = "FILE", requires = "replay")]
    plugin: Option<String>,
    /// With --replay: how long its kernel may take, such as 500ms or 10s; `off` waits for ever
    #[arg(long, value_name = "TIME", requires = "replay", default_value = "30s")]
    op_timeout: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A dump; of a run that has ended without making one, it is made of its records.
fn open(path: &Path) -> anyhow::Result<ArgsDump> {
    match ArgsDump::open(path) {
        Err(trace::Error::ArgsNotExported { path }) => {
            super::recover::export_args(&Manifest::read(&path)?, &path)?;
            // Nothing was captured if there is none even now.
            let none = |_| trace::Error::NoArgs { path: path.clone() };
            Ok(ArgsDump::open(&path).map_err(none)?)
        }
        opened => opened.map_err(|error| reworded(error, Manifest::read(path).ok().as_ref())),
    }
}

/// Whether an argument is of the task of this name, which may say the round.
fn is_named(arg: &DumpedArg, name: &str) -> bool {
    match name.split_once('@') {
        Some((task, round)) => arg.task.to_string() == task && round.parse() == Ok(arg.round),
        None => arg.task.to_string() == name,
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum StageChoice {
    #[value(name = "before_dispatch", alias = "before")]
    Before,
    #[value(name = "after_completion", alias = "after")]
    After,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleChoice {
    Input,
    Output,
    Inout,
}

impl ArgsCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.check_filters()?;
        let path = trace::rank_folder(&place(self.path.clone())?, self.rank)?;
        let dump = open(&path)?;
        let shown: Vec<&DumpedArg> = dump.args.iter().filter(|arg| self.wants(arg)).collect();
        if shown.is_empty() && !dump.args.is_empty() {
            return Err(wrong(format!(
                "No captured argument of {} is like that. The filters leave none of its {}. See `plimsoll args {}` for what there is.",
                path.display(),
                dump.args.len(),
                trace::for_shell(&path)
            )));
        }
        if let Some(folder) = &self.npy {
            super::npy::write_all(&dump, &shown, folder)?;
        }
        let mut answer = ArgsAnswer { dump_args_level: dump.level, notes: dump.notes.clone(), ..ArgsAnswer::default() };
        if self.first_nan {
            let (found, search) = analyze::first_nan(&dump, self.inf)?;
            (answer.first_nan, answer.nan_search) = (found, Some(search));
        }
        if let Some(other) = &self.diff {
            let there = open(other)?;
            answer.diff = Some(analyze::args_diff(&dump, &there)?);
            answer.notes.extend(there.notes.iter().map(|note| format!("{}: {note}", other.display())));
        }
        if let Some(task) = &self.replay {
            answer.replay = Some(super::replay::replay(
                &dump,
                task,
                self.round,
                self.times,
                self.plugin.as_deref(),
                &self.op_timeout,
            )?);
        }
        let asked = self.first_nan || self.diff.is_some() || self.replay.is_some();
        if self.json || !asked {
            let bytes: u64 = shown.iter().map(|arg| arg.payload.1).sum();
            let stats = self.stats || (!asked && bytes <= QUICK_BYTES);
            let row = |arg: &&DumpedArg| analyze::arg_row(&dump, arg, stats, self.values.unwrap_or(0));
            answer.args = shown.iter().map(row).collect::<Result<_, _>>()?;
            if !stats && !asked {
                answer.notes.push(format!("{bytes} bytes of elements: --stats makes statistics of them."));
            }
        }
        self.print(&answer, Manifest::read(&path).ok().as_ref())?;
        Ok(if answer.replay.is_some_and(|replay| !replay.same) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Refuses filters for questions that look at all tasks, or at one that they name themselves.
    fn check_filters(&self) -> anyhow::Result<()> {
        let question = match () {
            () if self.replay.is_some() => "--replay",
            () if self.diff.is_some() => "--diff",
            () if self.first_nan => "--first-nan",
            () => return Ok(()),
        };
        let filters = [
            ("--task", self.task.is_some()),
            ("--round", self.round.is_some() && self.replay.is_none()),
            ("--kernel", self.kernel.is_some()),
            ("--stage", self.stage.is_some()),
            ("--role", self.role.is_some()),
            ("--index", self.index.is_some()),
        ];
        match filters.iter().find(|(_, given)| *given) {
            Some((filter, _)) => Err(wrong(format!(
                "{filter} cannot be used with {question}. {} Leave one of the two out.",
                if self.replay.is_some() { "That names its task." } else { "The first of all tasks is looked for." }
            ))),
            None => Ok(()),
        }
    }

    fn wants(&self, arg: &DumpedArg) -> bool {
        let stage = self.stage.map(|stage| match stage {
            StageChoice::Before => ArgStage::BeforeDispatch,
            StageChoice::After => ArgStage::AfterCompletion,
        });
        let role = self.role.map(|role| match role {
            RoleChoice::Input => ArgRole::Input,
            RoleChoice::Output => ArgRole::Output,
            RoleChoice::Inout => ArgRole::Inout,
        });
        self.task.as_ref().is_none_or(|task| is_named(arg, task))
            && self.round.is_none_or(|round| round == arg.round)
            && self.kernel.as_ref().is_none_or(|kernel| *kernel == arg.kernel)
            && stage.is_none_or(|stage| stage == arg.stage)
            && role.is_none_or(|role| role == arg.role)
            && self.index.is_none_or(|index| index == arg.index)
    }

    /// Prints the answer, and on what machine the run was, if the dump is in the directory of one.
    fn print(&self, answer: &ArgsAnswer, manifest: Option<&Manifest>) -> anyhow::Result<()> {
        if self.json {
            let mut object = serde_json::to_value(answer)?;
            object["virtual"] = manifest.is_some_and(|manifest| manifest.virtual_time).into();
            object["emulated"] = manifest.is_some_and(|manifest| manifest.emulated).into();
            println!("{object}");
            return Ok(());
        }
        print!("{}", report::text::args(answer));
        if self.first_nan {
            print!("{}", report::text::first_nan(answer, self.inf));
        }
        print!("{}{}", report::text::args_diff(answer), report::text::args_replay(answer));
        let asked = self.first_nan || answer.diff.is_some() || answer.replay.is_some();
        if answer.args.is_empty() && !asked {
            println!("Nothing was captured.");
        }
        if let Some(manifest) = manifest {
            say_machine(manifest.virtual_time, manifest.emulated, &manifest.arch);
        }
        Ok(())
    }
}
