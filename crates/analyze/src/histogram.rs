//! How the times of a function's executions are distributed.

use std::collections::HashMap;

use plimsoll_trace::Trace;

use crate::stats::Stats;

/// How many executions of each function took how long, on one scale for all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histograms {
    /// The least time of any function.
    pub least_ns: u64,
    /// The most.
    pub most_ns: u64,
    /// Of every function, in the order of [`Stats::functions`]: executions by bin. Bins are equally wide on a logarithmic
    /// scale from the least to the most.
    pub functions: Vec<Vec<u64>>,
}

/// The histograms of all functions with this many bins.
pub fn histograms(trace: &Trace, stats: &Stats, bins: usize) -> Histograms {
    let (executions, functions) = (&trace.executions, &stats.functions);
    let least_ns = functions.iter().map(|f| f.exec_min_ns).min().unwrap_or(0);
    let most_ns = functions.iter().map(|f| f.exec_max_ns).max().unwrap_or(0);
    let place: HashMap<Option<u32>, usize> = functions.iter().enumerate().map(|(at, f)| (f.kernel, at)).collect();
    let mut counts = vec![vec![0; bins]; functions.len()];
    let edges = edges(least_ns, most_ns, bins);
    // Neighbours are mostly of one kernel: the last one's place is kept.
    let mut last = (None, place.get(&None).copied());
    for at in 0..executions.len() {
        let Some(ticks) = executions.exec(at) else { continue };
        let kernel = executions.kernel(at);
        if kernel != last.0 {
            last = (kernel, place.get(&kernel).copied());
        }
        let bin = edges.partition_point(|edge| *edge <= trace.clock.ns(ticks));
        if let Some(own) = last.1.and_then(|at| counts.get_mut(at)?.get_mut(bin.min(bins.saturating_sub(1)))) {
            *own += 1;
        }
    }
    Histograms { least_ns, most_ns, functions: counts }
}

/// Where each bin but the last ends.
fn edges(least_ns: u64, most_ns: u64, bins: usize) -> Vec<u64> {
    let (least, most) = (least_ns.max(1) as f64, most_ns.max(1) as f64);
    let ratio = (most / least).max(1.0);
    (1..bins).map(|bin| (least * ratio.powf(bin as f64 / bins as f64)).ceil() as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_grow_by_a_factor_and_hold_the_least_and_the_most() {
        assert_eq!(edges(1, 10_000, 4), [10, 100, 1000]);
        assert_eq!(edges(0, 0, 3), [1, 1], "of nothing");
    }

    #[test]
    fn every_execution_is_in_one_bin() {
        let dir = tempfile::tempdir().expect("temporary directory");
        plimsoll_trace::synthetic::Synthetic::default().write(dir.path()).expect("written");
        let trace = plimsoll_trace::open(dir.path()).expect("readable");
        let stats = crate::stats(&trace);
        let histograms = histograms(&trace, &stats, 24);
        for (function, bins) in stats.functions.iter().zip(&histograms.functions) {
            assert_eq!(bins.iter().sum::<u64>(), function.count, "{}", function.name);
        }
    }
}
