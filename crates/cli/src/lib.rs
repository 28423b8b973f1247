//! The `plimsoll` command: runs programs, measures, and answers questions about runs.
//!
//! It is a library so that other packages can offer the same verbs; `main.rs` is the command itself.

// Declared first, so that its macros are in scope in all modules below.
#[macro_use]
mod console;
mod aliases;
mod bench;
mod exit;
mod list;
mod program;
mod progress;
mod read;
mod record;
mod run;
mod signals;
mod size;
mod wording;

use clap::{CommandFactory, Parser, Subcommand};
pub use run::ForeignRun;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// A dataflow task runtime for tensors that proves it lost no record.
#[derive(Parser)]
#[command(name = "plimsoll", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program and check its result
    Run(Box<run::RunCommand>),
    /// Run a program of your own that uses the library, and record its runs
    Record(record::RecordCommand),
    /// List the programs, one program's settings, or the archs
    List(list::ListCommand),
    /// Measure the runtime or the recorder on this machine
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Write everything about a run on one page, for any browser
    Report(read::report::ReportCommand),
    /// Write a run for a viewer or for the reference's tools
    Export(read::export::ExportCommand),
    /// Time per function and utilisation per core
    Stats(read::stats::StatsCommand),
    /// Scopes by how close they came to the rings' limits
    Scopes(read::scopes::ScopesCommand),
    /// What the makespan is made of, and why a task started only when it did
    CriticalPath(read::critical_path::CriticalPathCommand),
    /// What the scheduler cost: idle cores beside ready work, time around kernels, loops
    Sched(read::sched::SchedCommand),
    /// Who waits for whom, why, and which dependencies data does not need
    Deps(read::deps::DepsCommand),
    /// What changed from one run to another
    Diff(read::diff::DiffCommand),
    /// The numbers that tasks saw and made: list, statistics, first NaN, where two runs part
    Args(read::args::ArgsCommand),
    /// Sizes of rings that would do, from a run or by making one
    Size(size::SizeCommand),
    /// Account for every record of a run; exits 1 when anything is missing
    Check(read::check::CheckCommand),
    /// Get the records of a killed run out of its region
    Recover(read::recover::RecoverCommand),
    /// Explain how a run ended, or what an error code means
    Explain(read::explain::ExplainCommand),
}

impl Command {
    /// Does what the command says. `words` is the command line that it was read from.
    fn run(self, words: &[OsString]) -> anyhow::Result<ExitCode> {
        match self {
            Command::Run(run) => run.run(words),
            Command::Record(record) => record.run(),
            Command::List(list) => list.run(),
            Command::Bench(bench) => bench.run(),
            Command::Report(report) => report.run(),
            Command::Export(export) => export.run(),
            Command::Stats(stats) => stats.run(),
            Command::Scopes(scopes) => scopes.run(),
            Command::CriticalPath(path) => path.run(),
            Command::Sched(sched) => sched.run(),
            Command::Deps(deps) => deps.run(),
            Command::Diff(diff) => diff.run(),
            Command::Args(args) => args.run(),
            Command::Size(size) => size.run(),
            Command::Check(check) => check.run(),
            Command::Recover(recover) => recover.run(),
            Command::Explain(explain) => explain.run(),
        }
    }
}

/// Runs another command of this executable with these words, as the last act of a command.
pub(crate) fn continue_with<'w>(words: impl IntoIterator<Item = &'w OsStr>) -> anyhow::Result<ExitCode> {
    let words: Vec<OsString> = [OsStr::new("plimsoll")].into_iter().chain(words).map(OsStr::to_owned).collect();
    Cli::try_parse_from(&words)?.command.run(&words)
}

/// The command as a process of its own.
pub fn main() -> ExitCode {
    // The process of an isolated device is this executable, too, and goes no further than this.
    plimsoll::device_main(plimsoll_programs::registered().chain([bench::ShapeProgram::registered()]));
    command(std::env::args_os())
}

/// Does what the words say, of which the first is the command's name. Takes over the process: its signals, its panic hook,
/// and what the environment says of recording.
pub fn command(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    // A kernel's panic is caught and explained by the run's error; a line is enough to say where it was.
    std::panic::set_hook(Box::new(|panic| eprintln!("plimsoll: {panic}")));
    exit::set_signals();
    run::forget_environment_recording();
    let words = match aliases::translate(words, &Cli::command()) {
        Ok(words) => words,
        Err(not_yet) => return exit::failure(&not_yet),
    };
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    let outcome = cli.command.run(&words);
    let code = outcome.unwrap_or_else(|error| exit::failure(&error));
    console::flush();
    code
}
