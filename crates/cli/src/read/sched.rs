//! `plimsoll sched`: what the scheduler cost.

use super::Subject;
use clap::Args;
use plimsoll::trace::Load;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `sched`.
#[derive(Args)]
pub(crate) struct Sched {
    #[command(flatten)]
    subject: Subject,
}

impl Sched {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(Load { scopes: false, ..Load::ALL })?;
        reading.need_times()?;
        let Some(sched) = analyze::sched(&reading.trace) else {
            anyhow::bail!("{} has no scheduling to look at. No task ran. Run something.", reading.path.display());
        };
        reading.answer(&sched, || report::text::sched(&sched), "plimsoll critical-path · plimsoll stats")?;
        Ok(ExitCode::SUCCESS)
    }
}
