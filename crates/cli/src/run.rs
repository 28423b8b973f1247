//! `plimsoll run`: runs a program, checks its result, records it.

mod budgets;
mod foreign;
mod junit;
pub(crate) mod machine;
mod outcome;
mod python;
mod recording;
pub(crate) mod sizes;

use crate::exit::{refused, wrong};
use crate::program::{NamedProgram, isolation, python_file};
use crate::signals::Signals;
use budgets::Budgets;
use clap::Args;
pub use foreign::ForeignRun;
use machine::Machine;
use outcome::RunOutcome;
use plimsoll::abi::TaskId;
use plimsoll::isolate::ProgramCall;
use plimsoll::run::HungHook;
use plimsoll::{CancelToken, Device, RecordOptions, RunOptions};
use plimsoll_programs::{Hosted, Settings};
use recording::RecordingArgs;
pub(crate) use recording::counter_group;
use sizes::Sizes;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Options of `run`.
#[derive(Args)]
pub(crate) struct RunCommand {
    /// The program; `plimsoll list` shows them. Or a plug-in, ./libmine.so or
    /// ./libmine.so:PROGRAM; or one in Python, mine.py:PROGRAM
    program: String,
    /// Change a setting of the program; `plimsoll list PROGRAM` shows them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Threads in all, or cores of an emulated arch host; one per CPU if left out
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    machine: Machine,
    /// Build the graph once and launch it, instead of streaming it
    #[arg(long)]
    prebuilt: bool,
    /// With --prebuilt: the most tasks that the graph may have
    #[arg(long, value_name = "N", requires = "prebuilt", default_value_t = Device::MOST_PREBUILT)]
    prebuilt_limit: usize,
    /// Run it this many times: a prebuilt graph is launched again, a streamed one is built again
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(TaskId::ROUNDS)))]
    rounds: u32,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    recording: RecordingArgs,
    /// End the run after this many milliseconds, all its rounds together
    #[arg(long, value_name = "MS")]
    deadline_ms: Option<u64>,
    #[command(flatten)]
    budgets: Budgets,
    /// The run's directory; `outputs/PROGRAM_TIME-PID` if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the page report.html into the run's directory
    #[arg(long, conflicts_with = "no_record")]
    report: bool,
    /// Write the verdict as one test case of JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How the outcome of a run is told.
#[derive(Clone)]
struct Telling {
    report: bool,
    json: bool,
    junit: Option<PathBuf>,
    /// The program with its settings, as the test case is called.
    case: String,
    require_lossless: bool,
}

/// Unsets the variables that turn recording on: the flags of the command decide what is recorded, and benches record nothing
/// of their own.
pub(crate) fn forget_environment_recording() {
    for variable in [RecordOptions::RECORD_VARIABLE, RecordOptions::OUT_VARIABLE] {
        // SAFETY: the command has one thread so far, so nobody reads the environment meanwhile.
        unsafe { std::env::remove_var(variable) };
    }
}

impl RunCommand {
    /// Runs the program. `words` is the command line that this was read from.
    pub(crate) fn run(self, words: &[OsString]) -> anyhow::Result<ExitCode> {
        if python_file(&self.program).is_some() {
            if self.machine.is_isolated() {
                return Err(wrong(isolation(&self.program, "one in Python")));
            }
            return Err(python::execute(words));
        }
        let program = NamedProgram::find(&self.program)?;
        program.check_isolation(self.machine.is_isolated())?;
        let settings = program.settings(&self.set)?;
        self.recording.check(&self.machine)?;
        let capacities = self.sizes.capacities()?;
        let mut builder = Device::builder().capacities(capacities).engine(self.machine.engine()?);
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        let mut device = builder.open().map_err(refused)?;
        let (outcome, signals) = self.execute(&program, &settings, &mut device)?;
        show(&outcome, &self.telling())?;
        crate::read::recover::mention_orphans();
        if outcome.interrupted() {
            return Ok(ExitCode::from(signals.exit_code()));
        }
        if let Some(dir) = outcome.dir() {
            self.recording.check_args(dir)?;
        }
        Ok(if outcome.good(self.recording.require_lossless) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn telling(&self) -> Telling {
        let sets = self.set.iter().map(|set| format!(" --set {set}"));
        Telling {
            report: self.report,
            json: self.json,
            junit: self.junit.clone(),
            case: format!("{}{}", self.program, sets.collect::<String>()),
            require_lossless: self.recording.require_lossless,
        }
    }

    /// What is left to do for a run that was given up and cannot return: say so, and end the command.
    fn last_words(&self, program: &'static str, signals: &Signals) -> Arc<HungHook> {
        let (machine, signals, telling) = (self.machine.facts(), signals.clone(), self.telling());
        Arc::new(move |error, done| {
            let mut outcome = RunOutcome::new(program, machine.clone(), done, Some(error), None);
            outcome.export();
            if let Err(error) = show(&outcome, &telling) {
                crate::exit::failure(&error);
            }
            crate::read::recover::mention_orphans();
            // Something in this process never returns, so nothing of it is waited for.
            std::process::exit(if outcome.interrupted() { signals.exit_code().into() } else { 1 })
        })
    }

    fn execute(
        &self,
        program: &NamedProgram,
        settings: &Settings,
        device: &mut Device,
    ) -> anyhow::Result<(RunOutcome, Signals)> {
        let hosted = Hosted(program.build(device, settings).map_err(refused)?);
        self.recording.check_tasks(device)?;
        let instance = &hosted.0;
        let mut options = instance.options();
        let signals = Signals::watch(options.cancel.get_or_insert_with(CancelToken::new).clone())?;
        if let Some(ms) = self.deadline_ms {
            options.deadline = Some(Duration::from_millis(ms));
        }
        self.budgets.put(&mut options, &self.machine)?;
        options.on_hung = Some(self.last_words(program.spelled, &signals));
        options.record = self.recording.options((program.spelled, program.name), self.out.clone(), &self.set)?;
        if options.record.is_none() && self.report {
            return Err(wrong(
                "--report cannot be used here. The page shows what was recorded, and --swimlane=0 records nothing. Leave it out, or add --scope-stats or --dep-gen.",
            ));
        }
        if let Some(record) = &mut options.record {
            record.records_out = Some(signals.records_out());
        }
        self.machine.warn_of_unused_costs(device);
        let result = catch_unwind(AssertUnwindSafe(|| self.launch(device, &hosted, &options)))
            .unwrap_or_else(|panic| Err(plimsoll::Error::orchestration_panicked(panic.as_ref())));
        signals.run_ended();
        let verdict = match &result {
            Ok(()) if instance.is_verifiable() => Some(instance.verify()?),
            _ => None,
        };
        let mut outcome =
            RunOutcome::new(program.spelled, self.machine.facts(), device.report(), result.err(), verdict);
        outcome.export();
        if !device.lost().is_empty() {
            // A kernel that never returned may use what the program holds.
            std::mem::forget(hosted);
        }
        Ok((outcome, signals))
    }

    fn launch(&self, device: &mut Device, program: &Hosted, options: &RunOptions) -> plimsoll::Result<()> {
        let prebuilt = self.prebuilt.then_some(self.prebuilt_limit);
        let call = ProgramCall { rounds: self.rounds, prebuilt, ..ProgramCall::new(&self.program, &self.set) };
        device.run_program(&call, program, options)
    }
}

/// Says how a run went, and writes its page and its test case if that was asked for.
fn show(outcome: &RunOutcome, telling: &Telling) -> anyhow::Result<()> {
    // First, so that the verdict is written even if the rest cannot be; and what cannot be written hides nothing that can be told.
    let case = match &telling.junit {
        Some(file) => junit::write(file, &outcome.case(&telling.case, telling.require_lossless)),
        None => Ok(()),
    };
    let page = page(outcome, telling.report);
    let written = page.as_ref().ok().and_then(Option::as_ref);
    if telling.json {
        let mut answer = outcome.json();
        answer["report"] = written.map_or(serde_json::Value::Null, |page| page.display().to_string().into());
        println!("{answer}");
    } else {
        outcome.print();
        if let Some(page) = written {
            println!("report: {}", page.display());
        }
    }
    case.and(page.map(drop))
}

/// Writes the page of a run that was recorded, if it was asked for.
fn page(outcome: &RunOutcome, report: bool) -> anyhow::Result<Option<PathBuf>> {
    match outcome.dir().filter(|_| report) {
        Some(dir) => {
            let page = dir.join("report.html");
            crate::read::report::write(&plimsoll::trace::open(&crate::read::report::from_here(dir))?, &page)?;
            Ok(Some(page))
        }
        None => Ok(None),
    }
}
