//! `cargo xtask kill`: SIGKILL of the command or of its device at random moments, as often as you like.

use anyhow::Result;
use clap::Args;

use crate::workspace::{Workspace, shown, succeed};

#[derive(Args)]
pub(crate) struct KillOptions {
    /// How often.
    #[arg(long, value_name = "N", default_value_t = 200)]
    times: u32,
}

pub(crate) fn run(options: &KillOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    let mut command = workspace.cargo(["test", "--quiet", "--package", "plimsoll-cli", "--test", "cli"]);
    command
        .args(["ends::kills_at_random_moments", "--", "--nocapture"])
        .env("PLIMSOLL_KILLS", options.times.to_string());
    println!("$ PLIMSOLL_KILLS={} {}", options.times, shown(&command));
    succeed(&mut command)
}
