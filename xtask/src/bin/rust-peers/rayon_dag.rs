//! `rayon` and `rayon-inline`: a scope of spawned jobs over counters of our own.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::Scope;

use crate::bench::PeerBench;
use crate::kernel::kernel;
use crate::marks::{PeerTimes, Running};

/// What becomes of the first successor that a task makes ready. The others are always spawned.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FirstReady {
    Spawned,
    /// It runs on the same worker, in the same job.
    Inline,
}

#[derive(Clone, Copy)]
struct Dag<'s> {
    bench: &'s PeerBench,
    awaited: &'s [AtomicU32],
    first_ready: FirstReady,
}

impl<'s> Dag<'s> {
    fn spawn(self, scope: &Scope<'s>, task: u32) {
        scope.spawn(move |scope| self.run_from(scope, task));
    }

    fn run_from(self, scope: &Scope<'s>, task: u32) {
        let mut next = Some(task);
        while let Some(task) = next.take() {
            self.bench.body(task);
            for &successor in self.bench.graph.successors.of(task) {
                // AcqRel: the last of several predecessors sees what the others wrote.
                // pairs(peer.awaited): the same operation in the other predecessors' jobs.
                if self.awaited[successor as usize].fetch_sub(1, Ordering::AcqRel) != 1 {
                    continue;
                }
                if self.first_ready == FirstReady::Inline && next.is_none() {
                    next = Some(successor);
                } else {
                    self.spawn(scope, successor);
                }
            }
        }
    }
}

pub(crate) fn run(bench: &PeerBench, first_ready: FirstReady) -> Result<PeerTimes, String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(bench.workers).build().map_err(|e| e.to_string())?;
    // The workers are started before the clock.
    pool.scope(|scope| (0..64).for_each(|_| scope.spawn(|_| kernel(1000))));

    let running = Running::start();
    let awaited = bench.awaited();
    let built = running.graph_is_built();
    let dag = Dag { bench, awaited: &awaited, first_ready };
    pool.scope(|scope| bench.roots().for_each(|root| dag.spawn(scope, root)));
    Ok(built.stop())
}
