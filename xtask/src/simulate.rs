//! `cargo xtask simulate`: many seeds, after the search was shown to find a planted defect.

use anyhow::{Result, bail};
use clap::Args;

use crate::stages::StageOutcome;
use crate::workspace::{Workspace, shown, succeed};

#[derive(Args)]
pub(crate) struct SimulateOptions {
    /// How many.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Leave out the planted defect.
    #[arg(long)]
    no_canary: bool,
}

pub(crate) fn run(options: &SimulateOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    if !options.no_canary {
        canary(&workspace)?;
    }
    let mut command = workspace.cargo(["run", "--release", "--quiet", "--package", "plimsoll-simulator", "--"]);
    command.arg("--seeds").arg(options.seeds.to_string()).arg("--first").arg(options.first.to_string());
    if options.keep_going {
        command.arg("--keep-going");
    }
    println!("$ {}", shown(&command));
    succeed(&mut command)
}

/// A search that does not find what was put there proves nothing. Built as the unit tests are, so that only what has the
/// defect compiled in is built again.
pub(crate) fn canary(workspace: &Workspace) -> Result<StageOutcome> {
    let mut command = workspace.cargo(["test", "--quiet", "--package", "plimsoll-simulator"]);
    command.args(["--features", "planted-bug", "--test", "simulator", "seeds::"]);
    println!("$ {}", shown(&command));
    if succeed(&mut command).is_err() {
        bail!("the planted defect was not found, so a search that finds nothing says nothing");
    }
    Ok(StageOutcome::Passed)
}
