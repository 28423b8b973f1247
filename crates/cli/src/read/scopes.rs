//! `plimsoll scopes`: scopes by how close they came to the rings' limits.

use super::Subject;
use clap::Args;
use plimsoll::trace::Load;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `scopes`.
#[derive(Args)]
pub(crate) struct Scopes {
    #[command(flatten)]
    subject: Subject,
}

impl Scopes {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(Load { scopes: true, ..Load::TASKS })?;
        let table = analyze::scopes(&reading.trace);
        reading.answer(&table, || report::text::scopes(&table), "")?;
        Ok(ExitCode::SUCCESS)
    }
}
