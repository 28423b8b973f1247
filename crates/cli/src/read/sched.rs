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
            anyhow::bail!("{} has no scheduling to look at. No task ran. Run something.", reading.path.display());
        };
        reading.answer(&sched, || report::text::sched(&sched), "plimsoll critical-path · plimsoll stats")?;
        Ok(ExitCode::SUCCESS)
    }
}
