//! `plimsoll args --replay`: one captured task run again.

use crate::exit::{refused, wrong};
use crate::program::NamedProgram;
use crate::signals::Signals;
use plimsoll::abi::{ErrorCode, TaskId};
use plimsoll::analyze::ArgsReplay;
use plimsoll::replay::{ReplayError, ReplayRequest};
use plimsoll::run::{HungHook, parse_duration};
use plimsoll::trace::{ArgsDump, Manifest, Trace};
use plimsoll::{CancelToken, Device, RunOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// Runs a task of a dump again.
pub(super) fn replay(
    dump: &ArgsDump,
    task: &str,
    round: Option<u32>,
    times: u64,
    plugin: Option<&str>,
    op_timeout: &str,
) -> anyhow::Result<ArgsReplay> {
    let budget = parse_duration(op_timeout)
        .map_err(|error| wrong(format!("--op-timeout: {error}. Write it like 500ms, 10s or off.")))?;
    let word = Trace::task_word(task).ok_or_else(|| {
        wrong(format!(
            "{task:?} names no task. A task is its ring and its number. Write it as r2t17, or r2t17@3 in round 3."
        ))
    })?;
    let (task, named_round) = TaskId::from_word(word);
    let mut device = device_of(dump, plugin)?;
    let temporary = tempfile::tempdir()?;
    let scratch = temporary.path().join("replay");
    let token = CancelToken::new();
    let signals = Signals::watch(token.clone())?;
    let on_hung = Some(last_words(temporary.path().to_path_buf(), signals.clone()));
    let options = RunOptions { cancel: Some(token), op_timeout: budget, on_hung, ..RunOptions::default() };
    let round = round.unwrap_or(named_round);
    let request = ReplayRequest { task, round, times, scratch: &scratch, options: &options };
    let replayed = plimsoll::replay::replay(&mut device, dump, &request);
    signals.run_ended();
    replayed.map_err(|error| match error {
        ReplayError::NotPossible(why) => wrong(why),
        other => other.into(),
    })
}

/// What is done when the kernel does not return: the one worker is this command's own thread, so that nothing else can be said
/// afterwards.
fn last_words(scratch: PathBuf, signals: Signals) -> Arc<HungHook> {
    Arc::new(move |error, _| {
        // What cannot be removed is in the system's place for temporary files.
        drop(std::fs::remove_dir_all(&scratch));
        let interrupted = error.code() == ErrorCode::Interrupted;
        crate::exit::failure(&ReplayError::Failed(error).into());
        std::process::exit(if interrupted { signals.exit_code().into() } else { 1 })
    })
}

/// A device of one worker with the kernels of the run that made a dump: of a built-in program, or of the plug-in that is named.
fn device_of(dump: &ArgsDump, plugin: Option<&str>) -> anyhow::Result<Device> {
    let run = dump.dir.parent().filter(|dir| dir.join(Manifest::FILE).is_file());
    let Some(run) = run else {
        return Err(wrong(format!(
            "{} is not in the directory of a run of ours. What its kernels do is not known. Only tasks of built-in programs and plug-ins can be run again.",
            dump.dir.display()
        )));
    };
    let manifest = Manifest::read(run)?;
    // A plug-in is never loaded because a run's directory names it. The user has to name it.
    let program = match plugin {
        Some(file) => NamedProgram::find(file)?,
        None if plimsoll_programs::find(&manifest.program).is_some() => NamedProgram::find(&manifest.program)?,
        None if manifest.started_unix_ns == 0 => {
            return Err(wrong(format!(
                "Which program {} was is not known. Its directory had been lost, and its region does not name it. Name the program, or its file, with --plugin.",
                run.display()
            )));
        }
        None => {
            return Err(wrong(format!(
                "The kernels of {} are not in this command. Only tasks of built-in programs and plug-ins can be run again. Name its file with --plugin; a program of your own can call plimsoll::replay::replay on its device.",
                manifest.program
            )));
        }
    };
    let sets: Vec<String> = manifest.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let settings = program.settings(&sets)?;
    let mut device = Device::builder().workers(1).open().map_err(refused)?;
    program.build(&mut device, &settings).map_err(refused)?;
    Ok(device)
}
