//! Whether anything is missing from a capture.

use std::collections::BTreeMap;

use plimsoll_abi::ErrorCode;
use plimsoll_trace::{Audit, Finding, FindingKind, Liveness, PoolLedger, Status};
use serde::Serialize;

/// The verdict on a capture.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Check {
    /// Whether nothing is missing and nothing contradicts itself.
    pub sound: bool,
    /// How the run ended; absent for files of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Whether it still runs.
    pub alive: bool,
    /// Whether it died without a word and records are still to be recovered.
    pub needs_recovery: bool,
    /// The run's ledger, with what the segments really hold beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<ReconcileCheck>,
    /// Executions that had not ended when the run did: open slices, beside the ledger.
    pub open: u64,
    /// What is wrong with the files.
    pub findings: Vec<Finding>,
}

/// The ledger of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReconcileCheck {
    /// Whether in every pool the parts sum up to the total.
    pub balanced: bool,
    /// Whether nothing was lost.
    pub lossless: bool,
    /// Whether the segments hold as many records as the ledger says.
    pub files_agree: bool,
    /// One row per pool.
    pub pools: Vec<PoolCheck>,
    /// What made no sense in the region that the rows come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}

/// One pool of the ledger.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PoolCheck {
    /// The row of the run's own ledger.
    #[serde(flatten)]
    pub pool: PoolLedger,
    /// Records of this pool that were found in the segments.
    pub in_files: u64,
}

/// Checks the account of a capture.
pub fn check(audit: &Audit) -> Check {
    let manifest = audit.manifest.as_ref();
    let reconcile = reconcile(audit);
    let ledger_sound = reconcile.as_ref().is_none_or(|r| r.balanced && r.lossless && r.files_agree);
    let has_ledger = manifest.is_none() || reconcile.is_some();
    // What a live run has not drained yet shows as a cut or a gap; that is no fault of its files.
    let alive = audit.liveness == Liveness::Alive;
    Check {
        sound: (is_consistent(audit) && ledger_sound && has_ledger) || alive,
        status: manifest.map(|m| m.status.name()),
        alive,
        needs_recovery: audit.liveness == Liveness::NeedsRecovery,
        reconcile,
        open: audit.quality.count(FindingKind::StillRunning),
        findings: audit.quality.findings().to_vec(),
    }
}

/// Whether nothing contradicts itself. A kill, a hang or the loss of the device cuts short what was being done; more than that is a
/// fault.
fn is_consistent(audit: &Audit) -> bool {
    let excused = |f: &Finding| was_cut_short(audit) && f.count <= left_by_a_kill(audit, f.kind);
    audit.quality.findings().iter().all(|f| f.kind.is_harmless() || excused(f))
}

/// Whether the run was cut short: killed, hung, interrupted, lost with its device, or ended without those that did not come back.
fn was_cut_short(audit: &Audit) -> bool {
    let Some(manifest) = &audit.manifest else { return false };
    let lost = manifest.error.as_ref().is_some_and(|error| error.code == ErrorCode::DeviceLost.number());
    lost || manifest.left_behind > 0 || matches!(manifest.status, Status::Killed | Status::Hung | Status::Interrupted)
}

/// How many findings of this kind a kill can explain. A kill may come between the publication of two records that belong
/// together, and leaves one of them alone. The loss of a published record is never explained by it: it breaks the ledger or
/// a sequence.
fn left_by_a_kill(audit: &Audit, kind: FindingKind) -> u64 {
    match kind {
        // One agent orchestrates, and makes one submit at a time. Its task may run before its records are out.
        FindingKind::CutSubmit | FindingKind::TaskNotInDeps => 1,
        // An agent writes both records of a task one after the other.
        FindingKind::DispatchWithoutExecution | FindingKind::ExecutionWithoutDispatch => {
            audit.manifest.as_ref().map_or(0, |m| m.topology.agents.len() as u64)
        }
        // Scopes nest: at any moment one is open at each depth.
        FindingKind::UnpairedScope => audit.scope_depths,
        _ => 0,
    }
}

fn reconcile(audit: &Audit) -> Option<ReconcileCheck> {
    let ledger = audit.manifest.as_ref()?.reconcile.as_ref()?;
    let mut in_files: BTreeMap<(&str, u16), u64> = BTreeMap::new();
    for pool in &audit.pools {
        *in_files.entry((pool.kind.name(), pool.instance)).or_default() += pool.collected + pool.recovered;
    }
    let pools: Vec<PoolCheck> = ledger
        .pools
        .iter()
        .map(|pool| PoolCheck {
            in_files: in_files.remove(&(pool.kind.as_str(), pool.instance)).unwrap_or(0),
            pool: pool.clone(),
        })
        .collect();
    let agree = |p: &PoolCheck| p.pool.collected.saturating_add(p.pool.recovered) == p.in_files;
    Some(ReconcileCheck {
        balanced: ledger.balanced && pools.iter().all(|p| p.pool.is_balanced()),
        lossless: ledger.lossless && pools.iter().all(|p| p.pool.is_lossless()),
        files_agree: pools.iter().all(agree) && in_files.is_empty(),
        pools,
        damage: ledger.damage.clone(),
    })
}

impl Check {
    /// What is wrong or worth a look, one line each and the gravest first; empty if nothing is.
    pub fn complaints(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.needs_recovery {
            lines.push("The run was killed and its last records are not out yet: run `plimsoll recover`.".to_string());
        }
        if let Some(ledger) = &self.reconcile {
            let of_region = |damage| format!("The region was damaged, so records may be missing or wrong: {damage}.");
            lines.extend(ledger.damage.iter().map(of_region));
            for row in &ledger.pools {
                let PoolCheck { pool, in_files } = row;
                let name = format!("{} {}", pool.kind, pool.instance);
                if !pool.is_balanced() {
                    let parts = [pool.collected, pool.recovered, pool.dropped, pool.mismatch];
                    let parts = parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
                    lines.push(format!("{name}: {} records were published, {parts} are accounted for.", pool.total));
                }
                if !pool.is_lossless() {
                    lines.push(format!("{name}: {} records dropped, {} mismatched.", pool.dropped, pool.mismatch));
                }
                if pool.collected.saturating_add(pool.recovered) != *in_files {
                    let said = pool.collected.saturating_add(pool.recovered);
                    lines.push(format!("{name}: the ledger says {said} records, the segments hold {in_files}."));
                }
            }
        }
        let (harmless, grave): (Vec<_>, Vec<_>) = self.findings.iter().partition(|f| f.kind.is_harmless());
        lines.extend(grave.into_iter().chain(harmless).map(|f| format!("{f}.")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::synthetic::Synthetic;
    use plimsoll_trace::{Manifest, audit};

    /// Whether a run that ended so, with so many findings of a kind, is sound.
    fn is_sound(status: Status, kind: FindingKind, count: u64) -> bool {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Synthetic::default().write(dir.path()).expect("written");
        let mut manifest = Manifest::read(dir.path()).expect("readable");
        manifest.status = status;
        manifest.write(dir.path()).expect("written");
        let mut audit = audit(dir.path(), &mut |_, _| {}).expect("readable");
        assert!(check(&audit).sound, "it is sound without them");
        audit.quality.note_many(kind, None, count, String::new);
        check(&audit).sound
    }

    /// A run that fails at its deadline, and whose kernel does not return then.
    #[test]
    fn a_run_that_left_somebody_behind_was_cut_short() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Synthetic::default().write(dir.path()).expect("written");
        let mut audit = audit(dir.path(), &mut |_, _| {}).expect("readable");
        audit.quality.note_many(FindingKind::UnpairedScope, None, 1, String::new);
        let manifest = audit.manifest.as_mut().expect("a manifest");
        (manifest.status, manifest.left_behind) = (Status::Failed, 0);
        assert!(!check(&audit).sound);
        audit.manifest.as_mut().expect("a manifest").left_behind = 1;
        assert!(check(&audit).sound);
    }

    #[test]
    fn what_harms_nothing_is_told_after_what_does() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Synthetic::default().write(dir.path()).expect("written");
        let mut audit = audit(dir.path(), &mut |_, _| {}).expect("readable");
        audit.quality.note_many(FindingKind::SeveralCores, None, 1, String::new);
        audit.quality.note_many(FindingKind::SelfEdge, None, 1, String::new);
        let told = check(&audit).complaints();
        assert!(told.len() == 2 && told[0].contains("edge") && told[1].contains("several cores"), "{told:?}");
    }

    #[test]
    fn a_kill_excuses_what_it_cut_short_and_no_more() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Synthetic::default().write(dir.path()).expect("written");
        let run = audit(dir.path(), &mut |_, _| {}).expect("readable");
        let agents = run.manifest.as_ref().map_or(0, |m| m.topology.agents.len() as u64);
        let depths = run.scope_depths;
        assert!(agents > 0 && depths > 1);
        for (kind, most) in [
            (FindingKind::CutSubmit, 1),
            (FindingKind::TaskNotInDeps, 1),
            (FindingKind::DispatchWithoutExecution, agents),
            (FindingKind::ExecutionWithoutDispatch, agents),
            (FindingKind::UnpairedScope, depths),
            (FindingKind::SequenceGap, 0),
            (FindingKind::ReportedLoss, 0),
            (FindingKind::CutOff, 0),
        ] {
            for status in [Status::Killed, Status::Hung, Status::Interrupted] {
                assert!(most == 0 || is_sound(status, kind, most), "{kind:?}");
                assert!(!is_sound(status, kind, most + 1), "{kind:?}");
            }
            assert!(!is_sound(Status::Failed, kind, 1), "{kind:?}: what fails ends what it does");
            assert!(!is_sound(Status::Ok, kind, 1), "{kind:?}: only a kill excuses anything");
        }
    }
}
