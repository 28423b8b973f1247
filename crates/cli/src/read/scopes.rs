//! `plimsoll scopes`: scopes by how close they came to the rings' limits.

use super::ReadArgs;
use clap::Args;
use plimsoll::trace::TraceParts;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `scopes`.
#[derive(Args)]
pub(crate) struct ScopesCommand {
    #[command(flatten)]
    subject: ReadArgs,
}

impl ScopesCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(TraceParts { scopes: true, ..TraceParts::TASKS })?;
        let table = analyze::scopes(&reading.trace);
        reading.answer(&table, || reading.worded(&report::text::scopes(&table)), "")?;
        Ok(ExitCode::SUCCESS)
    }
}
