//! What recording a scope costs: empty scopes, opened and closed one after the other, with scope statistics and without.
//!
//! A program has too few scopes for their cost to show in its times, so they are measured by themselves in the same run
//! of the bench, in turns.

use super::{cpu_ns, thread_cpu_ns};
use plimsoll::abi::Flags;
use plimsoll::abi::record::Kind;
use plimsoll::{Device, RecordOptions, RunOptions};
use serde::Serialize;
use std::path::Path;

/// CPU time that recording adds to a scope.
#[derive(Serialize)]
pub(super) struct ScopeCost {
    /// Scopes of each run.
    scopes: u64,
    /// Of the orchestrating thread, median over the repetitions.
    pub(super) submitter_ns_per_scope_added: f64,
    /// The same of the least times: noise only adds.
    pub(super) submitter_ns_per_scope_added_least: f64,
    /// Of the whole process, so with the collector, which writes 432 bytes per scope to a file. Median.
    pub(super) cpu_ns_per_scope_added: f64,
    /// The same of the least times.
    pub(super) cpu_ns_per_scope_added_least: f64,
}

/// One run, in nanoseconds.
#[derive(Clone, Copy)]
struct Sample {
    submitter: f64,
    process: f64,
}

pub(super) fn scope_cost(device: &mut Device, dir: &Path, reps: usize) -> anyhow::Result<ScopeCost> {
    const SCOPES: u64 = 100_000;
    let mut samples = [Vec::with_capacity(reps), Vec::with_capacity(reps)];
    for rep in 0..reps {
        for turn in 0..2 {
            let recorded = (rep + turn) % 2;
            samples[recorded].push(sample(device, dir, SCOPES, recorded == 1)?);
        }
    }
    let [off, on] = &samples;
    let added = |part: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = on.iter().zip(off).map(|(on, off)| part(on) - part(off)).collect();
        super::recording::median(&mut values) / SCOPES as f64
    };
    let least = |of: &[Sample], part: fn(&Sample) -> f64| of.iter().map(part).fold(f64::MAX, f64::min);
    let added_least = |part: fn(&Sample) -> f64| (least(on, part) - least(off, part)) / SCOPES as f64;
    Ok(ScopeCost {
        scopes: SCOPES,
        submitter_ns_per_scope_added: added(|s| s.submitter),
        submitter_ns_per_scope_added_least: added_least(|s| s.submitter),
        cpu_ns_per_scope_added: added(|s| s.process),
        cpu_ns_per_scope_added_least: added_least(|s| s.process),
    })
}

fn sample(device: &mut Device, dir: &Path, scopes: u64, recorded: bool) -> anyhow::Result<Sample> {
    let dir = tempfile::tempdir_in(dir)?;
    let record = recorded.then(|| RecordOptions::new(dir.path().join("scopes"), Flags::SCOPE_STATS));
    let options = RunOptions { record, ..RunOptions::default() };
    // The process's time ends with the last scope too: what the collector has not drained by then is at most what the
    // pools hold, and what follows it (manifest, files of the reference's forms) is no cost of a scope.
    let sample = device.run_with(&options, |o| {
        let (submitter, process) = (thread_cpu_ns(), cpu_ns());
        (0..scopes).try_for_each(|_| o.scope(|_| Ok(())))?;
        Ok(Sample { submitter: (thread_cpu_ns() - submitter) as f64, process: (cpu_ns() - process) as f64 })
    })?;
    if let Some(ledger) = device.report().ledger.as_ref().filter(|_| recorded) {
        let samples: u64 = ledger.pools.iter().filter(|p| p.kind == Kind::ScopeSample).map(|p| p.total).sum();
        anyhow::ensure!(ledger.lossless && samples == 2 * (scopes + 1), "{samples} samples of {scopes} scopes");
    }
    Ok(sample)
}
