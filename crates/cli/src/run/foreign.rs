//! `run` for programs that somebody else executes, such as those in Python: the same flags, the same words at the end.

use super::outcome::RunOutcome;
use super::{RunCommand, show};
use crate::exit::{self, failure, refused, wrong};
use crate::program::{isolation, python_file};
use crate::{Cli, Command, aliases, console};
use clap::{CommandFactory, Parser};
use plimsoll::run::{Builder, RunReport};
use plimsoll::{Device, Error, RunOptions};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// A run that was asked for by the command's words and is made by the caller.
pub struct ForeignRun {
    command: RunCommand,
    /// As the command line has it; kept for the life of the process, as names of programs are.
    spelled: &'static str,
    file: PathBuf,
    name: String,
}

impl std::fmt::Debug for ForeignRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ForeignRun({})", self.spelled)
    }
}

impl ForeignRun {
    /// Reads the words, of which the first is the command's name and the second is `run`.
    ///
    /// # Errors
    /// The code to exit with, if something is wrong with them or only help was asked for. What there is to say has been said.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        exit::set_signals();
        super::forget_environment_recording();
        let words = aliases::translate(words, &Cli::command()).map_err(|error| failure(&error))?;
        let cli = Cli::try_parse_from(&words).map_err(|error| exit::usage(&error))?;
        let Command::Run(command) = cli.command else { return Err(ExitCode::from(2)) };
        Self::of(*command).map_err(|error| failure(&error))
    }

    fn of(command: RunCommand) -> anyhow::Result<Self> {
        let named = python_file(&command.program).zip(command.program.rsplit_once(':'));
        let Some((file, (_, name))) = named else {
            return Err(wrong(format!(
                "{} names no program. It is a file and a function, such as mine.py:program. Write it so.",
                command.program
            )));
        };
        if command.machine.is_isolated() {
            return Err(wrong(isolation(&command.program, "one in Python")));
        }
        command.recording.check(&command.machine)?;
        let (name, spelled) = (name.to_owned(), command.program.clone().leak());
        Ok(Self { command, spelled, file, name })
    }

    /// The file and the function.
    pub fn program(&self) -> (&std::path::Path, &str) {
        (&self.file, &self.name)
    }

    /// Settings as they were written, KEY=VALUE.
    pub fn sets(&self) -> &[String] {
        &self.command.set
    }

    /// How many times it is run.
    pub fn rounds(&self) -> u32 {
        self.command.rounds
    }

    /// The most tasks of a graph, if the program is to be prebuilt.
    pub fn prebuilt(&self) -> Option<usize> {
        self.command.prebuilt.then_some(self.command.prebuilt_limit)
    }

    /// The engine and the arch, by name.
    pub fn machine(&self) -> (&'static str, String) {
        let facts = self.command.machine.facts();
        (facts.engine, facts.arch)
    }

    /// The device that was asked for, with `fewest` workers at least if their number was left open.
    ///
    /// # Errors
    /// The code to exit with, as for [`read`](Self::read).
    pub fn builder(&self, fewest: usize) -> Result<Builder, ExitCode> {
        let build = || -> anyhow::Result<Builder> {
            let engine = self.command.machine.engine()?;
            let builder = Device::builder().capacities(self.command.sizes.capacities()?).engine(engine);
            let builder = builder.at_least_workers(fewest);
            Ok(match self.command.workers {
                Some(workers) => builder.workers(workers),
                None => builder,
            })
        };
        build().map_err(|error| failure(&error))
    }

    /// Says why a device could not be opened; gives the code to exit with.
    pub fn refuse(error: Error) -> ExitCode {
        failure(&refused(error))
    }

    /// How the run is made: what is recorded, and what ends it. A run that was given up and cannot return ends the process.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn options(self: &Arc<Self>) -> Result<RunOptions, ExitCode> {
        let build = || -> anyhow::Result<RunOptions> {
            let command = &self.command;
            let deadline = command.deadline_ms.map(Duration::from_millis);
            let mut options = RunOptions { deadline, ..RunOptions::default() };
            command.budgets.put(&mut options, &command.machine)?;
            options.record =
                command.recording.options((self.spelled, &self.name), command.out.clone(), &command.set)?;
            let told = Arc::clone(self);
            options.on_hung = Some(Arc::new(move |error, report| {
                told.tell(report, Some(error));
                // Something in this process never returns, so nothing of it is waited for.
                std::process::exit(1)
            }));
            Ok(options)
        };
        build().map_err(|error| failure(&error))
    }

    /// Writes what is to be written of a run and says how it went; gives the code to exit with.
    pub fn tell(&self, report: &RunReport, error: Option<Error>) -> ExitCode {
        const INTERRUPTED: u8 = 130;
        let command = &self.command;
        let mut outcome = RunOutcome::new(self.spelled, command.machine.facts(), report, error, None);
        outcome.export();
        let told = show(&outcome, &command.telling())
            .and_then(|()| outcome.dir().map_or(Ok(()), |dir| command.recording.check_args(dir)));
        console::flush();
        match told {
            Err(error) => failure(&error),
            Ok(()) if outcome.interrupted() => ExitCode::from(INTERRUPTED),
            Ok(()) if outcome.good(command.recording.require_lossless) => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
        }
    }
}
