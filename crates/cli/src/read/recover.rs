//! `plimsoll recover`: the records of a killed run, out of its region.

use super::place;
use clap::Args;
use plimsoll::collect;
use plimsoll::trace::manifest::{ClockPair, KernelFacts, SiteFacts};
use plimsoll::trace::{CoreType, Liveness, Manifest, Status};
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
        let mut manifest = Manifest::read(&dir)?;
        if manifest.liveness() == Liveness::Alive {
            anyhow::bail!(
                "The run in {} is alive. Its region is locked by process {}. Wait for it to end, or end it.",
                dir.display(),
                manifest.pid
            );
        }
        let Some(region) = manifest.region.clone() else {
            return self.say(&manifest, &dir, "nothing to recover: the run ended by itself or was recovered before");
        };
        let recovery = collect::recover(&region, &dir)?;
        manifest.reconcile = Some(plimsoll::reconcile(&recovery.ledger));
        manifest.clock.pairs = recovery.clock_pairs.iter().map(|&(tick, ns)| ClockPair { tick, ns }).collect();
        manifest.sites = recovery
            .sites
            .iter()
            .map(|(id, file, line)| SiteFacts { id: *id, file: file.clone(), line: *line })
            .collect();
        if manifest.kernels.is_empty() {
            let kernels = recovery.kernels.iter();
            manifest.kernels = kernels
                .map(|(id, name)| KernelFacts { id: *id, name: name.clone(), core_type: CoreType::from_name("any") })
                .collect();
        }
        if manifest.status == Status::Running {
            manifest.status = Status::Killed;
        }
        manifest.region = None;
        manifest.write(&dir)?;
        // Only now: until the manifest had the account, the region was the one place that had it. One on /dev/shm is gone
        // already, its account is in the run's directory.
        if let Err(error) = std::fs::remove_file(&region)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!(
                "plimsoll: warning: {} is not needed any more and could not be removed: {error}.",
                region.display()
            );
        }
        for damage in &recovery.damage {
            eprintln!("plimsoll: warning: {damage}");
        }
        self.say(&manifest, &dir, "recovered")
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
