//! `plimsoll stats`: time per function and utilisation per core.

use super::ReadArgs;
use clap::Args;
use plimsoll::trace::TraceParts;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `stats`.
#[derive(Args)]
pub(crate) struct StatsCommand {
    #[command(flatten)]
    subject: ReadArgs,
}

impl StatsCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(TraceParts { counters: true, ..TraceParts::TASKS })?;
        if reading.trace.counters.is_empty() && reading.trace.host_phases.is_empty() {
            reading.need_times()?;
            reading.need_records()?;
        }
        let stats = analyze::stats(&reading.trace);
        reading.answer(&stats, || report::text::stats(&stats), "plimsoll export · plimsoll scopes · plimsoll check")?;
        Ok(ExitCode::SUCCESS)
    }
}
