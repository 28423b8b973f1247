//! Sizes of rings and tensormap, from the command line over the environment.

use crate::exit::{refused, wrong};
use clap::Args;
use plimsoll::Capacities;

/// Sizes; what is left out comes from the environment, or is the default.
#[derive(Args)]
pub(crate) struct Sizes {
    /// Slots of every ring's task window, or four values with commas (- leaves a ring as it is); powers of two
    #[arg(long, value_name = "N[,N,N,N]", allow_hyphen_values = true)]
    ring_task_window: Option<String>,
    /// Bytes of every ring's heap, or four values with commas; suffixes k, m, g
    #[arg(long, value_name = "BYTES[,…]", allow_hyphen_values = true)]
    ring_heap: Option<String>,
    /// Entries of every ring's dependency pool, or four values with commas
    #[arg(long, value_name = "N[,N,N,N]", allow_hyphen_values = true)]
    ring_dep_pool: Option<String>,
    /// Entries of the tensormap
    #[arg(long, value_name = "N")]
    tensormap: Option<String>,
}

impl Sizes {
    pub(crate) fn capacities(&self) -> anyhow::Result<Capacities> {
        let mut capacities = Capacities::from_env().map_err(refused)?;
        type Set = fn(&mut Capacities, &str) -> Result<(), String>;
        let flags: [(&str, &Option<String>, Set); 4] = [
            ("--ring-task-window", &self.ring_task_window, Capacities::set_task_window),
            ("--ring-heap", &self.ring_heap, Capacities::set_heap),
            ("--ring-dep-pool", &self.ring_dep_pool, Capacities::set_dep_pool),
            ("--tensormap", &self.tensormap, Capacities::set_tensormap),
        ];
        for (flag, text, set) in flags {
            if let Some(text) = text {
                set(&mut capacities, text).map_err(|why| {
                    wrong(format!("{flag} {text} cannot be used. {why}. `plimsoll run --help` shows the form."))
                })?;
            }
        }
        capacities.validate().map_err(refused)?;
        Ok(capacities)
    }
}
