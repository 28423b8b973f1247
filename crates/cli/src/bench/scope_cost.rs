//! What recording a scope costs: scopes opened and closed one after the other, with scope statistics and without; empty
//! ones, and ones that hold a task each.
//!
//! A program has too few scopes for their cost to show in its times, so they are measured by themselves in the same run
//! of the bench, in turns.

use super::{cpu_at_rest, thread_cpu_ns};
use plimsoll::abi::Flags;
use plimsoll::collect::segment;
use plimsoll::kernel::ReadWrite;
use plimsoll::{Device, InOut, Kernel, RecordOptions, RunOptions, inout};
use serde::Serialize;
use std::path::Path;

/// CPU time that recording adds to a scope.
#[derive(Serialize)]
pub(super) struct ScopeCost {
    /// Scopes of each run.
    scopes: u64,
    /// What a scope takes in the file.
    pub(super) bytes_per_scope: f64,
    /// Time of the orchestrating thread: the median over the repetitions.
    pub(super) submitter_ns_per_scope_added: f64,
    /// Time of the orchestrating thread, from the least times: noise only adds.
    pub(super) submitter_ns_per_scope_added_least: f64,
    /// Time of the whole process, with the collector, which writes the file: the median over the repetitions.
    pub(super) cpu_ns_per_scope_added: f64,
    /// Time of the whole process, from the least times.
    pub(super) cpu_ns_per_scope_added_least: f64,
}

/// One run, in nanoseconds.
#[derive(Clone, Copy)]
struct Sample {
    submitter: f64,
    process: f64,
    /// Bytes of the segment file; 0 if there is none.
    bytes: f64,
}

/// What the scopes hold.
#[derive(Clone, Copy)]
pub(super) enum ScopeContents<'k> {
    Empty,
    /// A task each, of this kernel.
    OfOneTask(&'k Kernel<(ReadWrite<f32>,)>),
}

/// Costs of empty scopes, and of scopes with a task each.
pub(super) fn scope_costs(device: &mut Device, dir: &Path, reps: usize) -> anyhow::Result<[ScopeCost; 2]> {
    let kernel = device.kernel("nothing", |_: InOut<f32>| {});
    let empty = scope_cost(device, dir, reps, ScopeContents::Empty)?;
    Ok([empty, scope_cost(device, dir, reps, ScopeContents::OfOneTask(&kernel))?])
}

fn scope_cost(device: &mut Device, dir: &Path, reps: usize, of: ScopeContents<'_>) -> anyhow::Result<ScopeCost> {
    const SCOPES: u64 = 100_000;
    let mut samples = [Vec::with_capacity(reps), Vec::with_capacity(reps)];
    for rep in 0..reps {
        for turn in 0..2 {
            let recorded = (rep + turn) % 2;
            samples[recorded].push(sample(device, dir, SCOPES, of, recorded == 1)?);
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
        bytes_per_scope: added(|s| s.bytes),
        submitter_ns_per_scope_added: added(|s| s.submitter),
        submitter_ns_per_scope_added_least: added_least(|s| s.submitter),
        cpu_ns_per_scope_added: added(|s| s.process),
        cpu_ns_per_scope_added_least: added_least(|s| s.process),
    })
}

fn sample(
    device: &mut Device,
    dir: &Path,
    scopes: u64,
    of: ScopeContents<'_>,
    recorded: bool,
) -> anyhow::Result<Sample> {
    let dir = tempfile::tempdir_in(dir)?;
    let run = dir.path().join("scopes");
    let record = recorded.then(|| RecordOptions::new(&run, Flags::SCOPE_STATS));
    let options = RunOptions { record, ..RunOptions::default() };
    // The process's time ends with the last scope too: what is not sealed by then is at most a buffer, and what follows it
    // (manifest, files of the reference's forms) is no cost of a scope.
    let mut sample = device.run_with(&options, |o| {
        let x = o.own(vec![0.0; 16], [16])?;
        let (process, submitter) = (cpu_at_rest(), thread_cpu_ns());
        match of {
            ScopeContents::Empty => (0..scopes).try_for_each(|_| o.scope(|_| Ok(())))?,
            ScopeContents::OfOneTask(kernel) => {
                (0..scopes).try_for_each(|_| o.scope(|o| o.submit(kernel, (inout(&x),)).map(|_| ())))?;
            }
        }
        let (submitter, process) = (thread_cpu_ns() - submitter, cpu_at_rest() - process);
        Ok(Sample { submitter: submitter as f64, process: process as f64, bytes: 0.0 })
    })?;
    if recorded {
        let lossless = device.report().ledger.as_ref().is_some_and(|ledger| ledger.lossless);
        anyhow::ensure!(lossless, "The recording of {scopes} scopes lost records.");
        sample.bytes = segment::path(&run).metadata()?.len() as f64;
    }
    Ok(sample)
}
