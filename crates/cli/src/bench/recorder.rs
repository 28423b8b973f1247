//! `plimsoll bench recorder`: what one recorded span costs on this machine.

use clap::Args;
use plimsoll::collect::bench::bench_recorder;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `bench recorder`.
#[derive(Args)]
pub(crate) struct RecorderBench {
    /// Records that two producers write to measure their throughput
    #[arg(long, default_value_t = 20_000_000)]
    records: u64,
    /// Measure on this directory's file system; the current directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl RecorderBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let dir = temporary(self.dir.as_deref())?;
        let cost = bench_recorder(dir.path(), self.records)?;
        if self.json {
            println!("{}", serde_json::to_string(&cost)?);
        } else {
            println!(
                "A span costs {:.1} ns of CPU ({:.2} × the floor of two clock readings and a store, {:.1} ns)",
                cost.on_ns,
                cost.on_ns / cost.floor_ns,
                cost.floor_ns
            );
            println!(
                "  {:.1} ns on the wall, {:.2} ns where its bit is clear; {:.1} million records/s from two producers into files, {}",
                cost.on_wall_ns,
                cost.off_ns,
                cost.records_per_s / 1e6,
                if cost.lossless { "nothing lost" } else { "RECORDS LOST" },
            );
        }
        Ok(if cost.lossless { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A directory that goes away with its owner, inside `parent` or the current directory: what is measured is the file
/// system that runs are written to.
pub(super) fn temporary(parent: Option<&Path>) -> anyhow::Result<tempfile::TempDir> {
    let parent = parent.unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix("plimsoll-bench-").tempdir_in(parent).map_err(|error| {
        anyhow::anyhow!(
            "No directory could be made in {}: {error}. The recordings that are measured go there. Choose another with --dir.",
            parent.display()
        )
    })
}
