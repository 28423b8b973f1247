//! `plimsoll recover`: the records of a killed run, out of its region.

use super::place;
use clap::Args;
use plimsoll::collect;
use plimsoll::trace::Manifest;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `recover`.
#[derive(Args)]
pub(crate) struct Recover {
    /// The run's directory; the newest run if left out
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Recover {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let dir = place(self.dir.clone())?;
        let recovered = collect::recover(&dir)?;
        for damage in &recovered.damage {
            eprintln!("plimsoll: warning: {damage}");
        }
        let what = if recovered.changed {
            "recovered"
        } else {
            "nothing to recover: the run ended by itself or was recovered before"
        };
        self.say(&recovered.manifest, &dir, what)
    }

    fn say(&self, manifest: &Manifest, dir: &std::path::Path, what: &str) -> anyhow::Result<ExitCode> {
        let ledger = manifest.reconcile.clone().unwrap_or_default();
        if self.json {
            println!("{}", serde_json::json!({ "status": manifest.status.name(), "reconcile": ledger, "out": dir }));
        } else {
            let sum = |part: fn(&plimsoll::trace::manifest::Pool) -> u64| ledger.pools.iter().map(part).sum::<u64>();
            println!("{}: {what}", dir.display());
            println!(
                "  {} records: {} collected, {} recovered, {} dropped, {} mismatched; the ledger {}",
                sum(|p| p.total),
                sum(|p| p.collected),
                sum(|p| p.recovered),
                sum(|p| p.dropped),
                sum(|p| p.mismatch),
                if ledger.balanced { "balances" } else { "does not balance" },
            );
            println!("next: plimsoll stats {0} · plimsoll export {0}", dir.display());
        }
        Ok(if ledger.balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
