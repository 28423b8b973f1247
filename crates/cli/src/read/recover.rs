//! `plimsoll recover`: the records of killed runs, out of their regions.

use super::{place, say_machine};
use crate::wording::{in_flags, wording_of};
use clap::Args;
use plimsoll::collect::{self, Orphan, Recovered};
use plimsoll::record::explain_run;
use plimsoll::trace::manifest::PoolLedger;
use plimsoll::trace::{self, Manifest, OUTPUTS};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Options of `recover`.
#[derive(Args)]
pub(crate) struct RecoverCommand {
    /// The run's directory; the newest run if left out
    dir: Option<PathBuf>,
    /// Show the regions that your killed runs have left, with run, age and size; recover nothing
    #[arg(long, conflicts_with_all = ["dir", "all"])]
    list: bool,
    /// Recover all of them
    #[arg(long, conflicts_with = "dir")]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl RecoverCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match (self.list, self.all) {
            (true, _) => {
                self.list_orphans(&orphans());
                Ok(ExitCode::SUCCESS)
            }
            (_, true) => Ok(self.recover_orphans(&orphans())),
            _ => self.recover_one(),
        }
    }

    fn recover_one(&self) -> anyhow::Result<ExitCode> {
        let dir = place(self.dir.clone())?;
        let recovered = if is_run(&dir) {
            collect::recover(&dir)?
        } else {
            match orphan_of(&dir).map(|orphan| orphan.recover()).transpose()?.flatten() {
                Some((_, recovered)) => {
                    eprintln!(
                        "plimsoll: {} was gone. It is made again, of what its run's region holds.",
                        dir.display()
                    );
                    recovered
                }
                None if dir.is_dir() => collect::recover(&dir)?,
                None => return Err(gone(&dir)),
            }
        };
        explain(&recovered, &dir);
        export_args(&recovered.manifest, &dir)?;
        warn_of_damage(&recovered);
        if self.json {
            println!("{}", object(&recovered, &dir));
        } else {
            print(&recovered, &dir);
            println!("next: plimsoll stats {0} · plimsoll export {0}", trace::for_shell(&dir));
        }
        Ok(if is_balanced(&recovered) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn list_orphans(&self, orphans: &[Orphan]) {
        if self.json {
            let rows: Vec<Value> = orphans.iter().map(row).collect();
            println!("{}", json!({ "orphans": rows }));
            return;
        }
        if orphans.is_empty() {
            println!("No killed run of yours has left a region.");
            return;
        }
        println!("  {:>8}  {:>10}  run", "age", "size");
        for orphan in orphans {
            println!("  {:>8}  {:>10}  {}", age(orphan.age), size(orphan.bytes), run_of(orphan));
            if let Some(why) = &orphan.unreadable {
                println!("  {:>20}  cannot be read: {why}.", "");
            }
        }
        println!("next: plimsoll recover --all");
    }

    fn recover_orphans(&self, orphans: &[Orphan]) -> ExitCode {
        let mut good = true;
        let mut rows = Vec::new();
        for orphan in orphans {
            match orphan.recover() {
                Ok(Some((dir, recovered))) => {
                    explain(&recovered, &dir);
                    warn_of_damage(&recovered);
                    good &= is_balanced(&recovered);
                    if let Err(error) = export_args(&recovered.manifest, &dir) {
                        good = false;
                        eprintln!("plimsoll: {}: {}", dir.display(), in_flags(&error.to_string()));
                    }
                    if !self.json {
                        print(&recovered, &dir);
                    }
                    rows.push(object(&recovered, &dir));
                }
                Ok(None) if self.json => {}
                Ok(None) => println!("{}: removed, nothing was in it", orphan.region.display()),
                Err(error) => {
                    good = false;
                    eprintln!("plimsoll: {} was not recovered. {}", run_of(orphan), in_flags(&error.to_string()));
                }
            }
        }
        if self.json {
            println!("{}", json!({ "recovered": rows }));
        } else if orphans.is_empty() {
            println!("No killed run of yours has left a region.");
        }
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The region of a dead run that recorded into this directory.
pub(super) fn orphan_of(dir: &Path) -> Option<Orphan> {
    let wanted = std::path::absolute(dir).ok()?;
    orphans().into_iter().find(|orphan| orphan.dir.as_ref().is_some_and(|dir| *dir == wanted))
}

/// Whether a directory tells of a run itself. One that was removed during its run does not, although the run has put segments there since.
pub(super) fn is_run(dir: &Path) -> bool {
    dir.join(Manifest::FILE).exists()
}

/// Why a path cannot be read: its run's directory was removed while the run recorded, or else `error`.
pub(super) fn or_removed(path: &Path, error: trace::Error) -> anyhow::Error {
    match orphan_of(path).filter(|_| !is_run(path)) {
        Some(_) => anyhow::anyhow!(
            "{} tells of no run: it was removed while its run recorded. The records are still in the run's region. Run `plimsoll recover {}` first.",
            path.display(),
            trace::for_shell(path)
        ),
        None => error.into(),
    }
}

/// What is said of a directory that is not there.
pub(super) fn gone(dir: &Path) -> anyhow::Error {
    let why = std::fs::metadata(dir).err().map_or("it is no directory".to_string(), |error| error.to_string());
    anyhow::anyhow!(
        "There is no {}: {why}. It was removed, or never was; no region of a killed run names it. While its run lives, `plimsoll explain --pid PID` tells of it; see `plimsoll recover --list` for what killed runs have left.",
        dir.display()
    )
}

/// Makes `args_dump/` of what a run captured; nothing if it captured no arguments.
pub(super) fn export_args(manifest: &Manifest, dir: &Path) -> Result<(), trace::Error> {
    if manifest.reconcile.iter().flat_map(|ledger| &ledger.pools).any(|pool| pool.kind == "arg_dump") {
        trace::export_args(dir, manifest.dump_args_level)?;
    }
    Ok(())
}

/// Mentions every orphaned region once. `run` calls this before it ends.
pub(crate) fn mention_orphans() {
    let fresh: Vec<Orphan> = orphans().into_iter().filter(|orphan| !orphan.is_mentioned()).collect();
    let Some(first) = fresh.first() else { return };
    let others = if fresh.len() > 1 { format!(" and {} more", fresh.len() - 1) } else { String::new() };
    eprintln!(
        "plimsoll: records of a killed run are still in its region: {}{others}. `plimsoll recover --list` shows what there is, `plimsoll recover --all` gets it out.",
        run_of(first)
    );
    fresh.iter().for_each(Orphan::mention);
}

fn orphans() -> Vec<Orphan> {
    collect::orphans(Path::new(OUTPUTS))
}

fn run_of(orphan: &Orphan) -> String {
    match (&orphan.dir, &orphan.unreadable) {
        (Some(dir), _) => dir.display().to_string(),
        (None, Some(_)) => orphan.region.display().to_string(),
        (None, None) => format!("{} (its run was killed while it started)", orphan.region.display()),
    }
}

fn row(orphan: &Orphan) -> Value {
    json!({
        "run": orphan.dir, "region": orphan.region, "pid": orphan.pid, "age_s": orphan.age.as_secs(), "bytes": orphan.bytes,
        "unreadable": orphan.unreadable,
    })
}

fn object(recovered: &Recovered, dir: &Path) -> Value {
    let manifest = &recovered.manifest;
    json!({
        "status": manifest.status.name(), "reconcile": manifest.reconcile.clone().unwrap_or_default(), "out": dir,
        "virtual": manifest.virtual_time, "emulated": manifest.emulated,
    })
}

fn is_balanced(recovered: &Recovered) -> bool {
    recovered.manifest.reconcile.as_ref().is_some_and(|ledger| ledger.balanced)
}

/// Notes in a run's manifest what it was doing when it was killed.
fn explain(recovered: &Recovered, dir: &Path) {
    if recovered.changed {
        // The recovery is complete without an explanation.
        drop(explain_run(dir, Some(wording_of(Some(&recovered.manifest)))));
    }
}

fn warn_of_damage(recovered: &Recovered) {
    recovered.damage.iter().for_each(|damage| eprintln!("plimsoll: warning: {damage}"));
}

fn print(recovered: &Recovered, dir: &Path) {
    let ledger = recovered.manifest.reconcile.clone().unwrap_or_default();
    let sum = |part: fn(&PoolLedger) -> u64| ledger.pools.iter().map(part).sum::<u64>();
    let what = if recovered.changed {
        "recovered"
    } else {
        "nothing to recover: the run ended by itself or was recovered before"
    };
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
    say_machine(recovered.manifest.virtual_time, recovered.manifest.emulated, &recovered.manifest.arch);
}

fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

fn size(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{:.1} KiB", bytes as f64 / 1024.0)
    } else {
        format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
    }
}
