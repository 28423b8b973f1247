//! `plimsoll critical-path`: what the makespan is made of, and why a task started only when it did.

use super::ReadArgs;
use crate::exit::wrong;
use clap::Args;
use plimsoll::trace::{Trace, TraceParts};
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `critical-path`.
#[derive(Args)]
pub(crate) struct CriticalPathCommand {
    #[command(flatten)]
    subject: ReadArgs,
    /// Say why this task started only when it did, as `r2t17` (`r2t17@1` in the second round)
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
}

impl CriticalPathCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(TraceParts::WAITS)?;
        reading.need_times()?;
        if let Some(name) = &self.task {
            let why = task(&reading.trace, name)?;
            reading.answer(&why, || report::text::why(&why), "plimsoll critical-path · plimsoll sched")?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(path) = analyze::critical_path(&reading.trace) else {
            anyhow::bail!("{} has no critical path. {}", reading.path.display(), reading.nothing_ended());
        };
        let next = path.path.iter().max_by_key(|hop| hop.wait_ns).map_or(String::new(), |hop| {
            format!("plimsoll critical-path --task {} · plimsoll sched · plimsoll deps", hop.task)
        });
        reading.answer(&path, || report::text::critical_path(&path), &next)?;
        if reading.trace.deps.is_none() {
            eprintln!(
                "plimsoll: no dependencies were recorded, so every wait is taken for one for a core. {}",
                reading.how_to_get_deps()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn task(trace: &Trace, name: &str) -> anyhow::Result<analyze::TaskWhy> {
    let Some(word) = Trace::task_word(name) else {
        return Err(wrong(format!("{name:?} is no task. Tasks are written as r2t17. Choose one of the run's.")));
    };
    match analyze::why(trace, word) {
        Some(why) => Ok(why),
        None => anyhow::bail!(
            "{name} did not run, or its time was not recorded. The run has other tasks. Choose one of them."
        ),
    }
}
