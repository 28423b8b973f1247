//! `plimsoll stats`: time per function and utilisation per core.

use super::{open, place};
use clap::Args;
use plimsoll::trace::Load;
use plimsoll::{analyze, report};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `stats`.
#[derive(Args)]
pub(crate) struct Stats {
    /// A run's directory, or a file or directory of the reference; the newest run if left out
    path: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = place(self.path)?;
        // The names of a reference's kernels come with its dependencies; ours are in the manifest.
        let own = path.join(plimsoll::trace::Manifest::FILE).is_file();
        let trace = open(&path, Load { deps: !own, phases: false, scopes: false })?;
        let stats = analyze::stats(&trace);
        if self.json {
            println!("{}", serde_json::to_string(&stats)?);
        } else {
            print!("{}", report::text::stats(&stats));
            println!("next: plimsoll export · plimsoll scopes · plimsoll check");
        }
        Ok(ExitCode::SUCCESS)
    }
}
