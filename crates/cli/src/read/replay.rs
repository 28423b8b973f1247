//! `plimsoll args --replay`: one captured task run again.

use crate::exit::{refused, wrong};
use crate::program::NamedProgram;
use plimsoll::Device;
use plimsoll::abi::TaskId;
use plimsoll::analyze::ArgsReplay;
use plimsoll::replay::{ReplayError, ReplayRequest};
use plimsoll::trace::{ArgsDump, Manifest, Trace};

/// Runs a task of a dump again.
pub(super) fn replay(
    dump: &ArgsDump,
    task: &str,
    round: Option<u32>,
    times: u64,
    plugin: Option<&str>,
) -> anyhow::Result<ArgsReplay> {
    let word = Trace::task_word(task).ok_or_else(|| {
        wrong(format!(
            "{task:?} names no task. A task is its ring and its number. Write it as r2t17, or r2t17@3 in round 3."
        ))
    })?;
    let (task, named_round) = TaskId::from_word(word);
    let mut device = device_of(dump, plugin)?;
    let scratch = tempfile::tempdir()?;
    let scratch = scratch.path().join("replay");
    let request = ReplayRequest { task, round: round.unwrap_or(named_round), times, scratch: &scratch };
    plimsoll::replay::replay(&mut device, dump, &request).map_err(|error| match error {
        ReplayError::NotPossible(why) => wrong(why),
        other => other.into(),
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
