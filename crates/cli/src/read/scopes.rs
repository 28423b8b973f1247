//! `plimsoll scopes`: scopes by how close they came to the rings' limits.

use super::{object, open, place, say_virtual};
use clap::Args;
use plimsoll::trace::Load;
use plimsoll::{analyze, report};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `scopes`.
#[derive(Args)]
pub(crate) struct Scopes {
    /// A run's directory, or a file or directory of the reference; the newest run if left out
    path: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Scopes {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = place(self.path)?;
        let trace = open(&path, Load { deps: false, phases: false, scopes: true })?;
        let table = analyze::scopes(&trace);
        if self.json {
            println!("{}", object(&table, trace.facts.virtual_time)?);
        } else {
            print!("{}", report::text::scopes(&table));
            say_virtual(trace.facts.virtual_time, &trace.facts.arch);
        }
        Ok(ExitCode::SUCCESS)
    }
}
