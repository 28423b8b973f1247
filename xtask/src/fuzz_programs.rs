//! `cargo xtask fuzz-programs`: random programs of the whole API on every engine, for as long as you like.

use anyhow::Result;
use clap::Args;

use crate::workspace::{Workspace, shown, succeed};

#[derive(Args)]
pub(crate) struct FuzzOptions {
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// The first seed; the time of day by default, so that every search is another one.
    #[arg(long)]
    first: Option<u64>,
}

pub(crate) fn run(options: &FuzzOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // A search takes one seed after the other, so those of another day are far away.
    let first = options.first.unwrap_or(since_epoch.as_secs() << 20);
    let mut command = workspace.cargo(["run", "--release", "--quiet", "--package", "plimsoll-simulator", "--"]);
    command.arg("--program-minutes").arg(options.minutes.to_string()).arg("--first").arg(first.to_string());
    println!("$ {}", shown(&command));
    succeed(&mut command)
}
