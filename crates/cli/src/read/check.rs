//! `plimsoll check`: whether anything is missing from a run.

use super::{object, place, say_virtual};
use clap::Args;
use plimsoll::{analyze, report, trace};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `check`.
#[derive(Args)]
pub(crate) struct Check {
    /// A run's directory; the newest run if left out
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let trace = trace::open(&place(self.dir)?)?;
        let check = analyze::check(&trace);
        if self.json {
            println!("{}", object(&check, trace.facts.virtual_time, trace.manifest.as_ref())?);
        } else {
            print!("{}", report::text::check(&check));
            say_virtual(trace.facts.virtual_time, &trace.facts.arch);
        }
        Ok(if check.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
