//! `plimsoll stats`: time per function and utilisation per core.

use super::Subject;
use clap::Args;
use plimsoll::trace::Load;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `stats`.
#[derive(Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    subject: Subject,
}

impl Stats {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(Load::TASKS)?;
        reading.need_times()?;
        let stats = analyze::stats(&reading.trace);
        reading.answer(&stats, || report::text::stats(&stats), "plimsoll export · plimsoll scopes · plimsoll check")?;
        Ok(ExitCode::SUCCESS)
    }
}
