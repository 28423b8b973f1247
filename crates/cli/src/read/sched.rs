//! `plimsoll sched`: what the scheduler cost.

use super::ReadArgs;
use clap::Args;
use plimsoll::trace::TraceParts;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `sched`.
#[derive(Args)]
pub(crate) struct SchedCommand {
    #[command(flatten)]
    subject: ReadArgs,
}

impl SchedCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(TraceParts::WAITS)?;
        reading.need_times()?;
        let Some(sched) = analyze::sched(&reading.trace) else {
            anyhow::bail!("{} has no scheduling to look at. {}", reading.path.display(), reading.nothing_ended());
        };
        reading.answer(&sched, || report::text::sched(&sched), "plimsoll critical-path · plimsoll stats")?;
        if reading.trace.deps.is_none() {
            eprintln!(
                "plimsoll: no dependencies were recorded, so nobody can tell when a task was ready and whether cores idled beside it. {}",
                reading.how_to_get_deps()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}
