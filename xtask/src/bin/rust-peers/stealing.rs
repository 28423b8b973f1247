//! `stealing`: bare work stealing over `crossbeam-deque`, the first ready successor inline. No inference, no tensors, no
//! memory management: what a graph executor can do at best, and with the time of inference added, our floor.

use std::iter::repeat_with;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::Backoff;

use crate::bench::PeerBench;
use crate::marks::{PeerTimes, Running};

struct Shared<'a> {
    bench: &'a PeerBench,
    awaited: Vec<AtomicU32>,
    roots: Injector<u32>,
    stealers: Vec<Stealer<u32>>,
    /// Tasks not yet accounted for by the worker that ran them.
    remaining: AtomicUsize,
}

impl Shared<'_> {
    fn work(&self, me: usize, own: &Worker<u32>) {
        let backoff = Backoff::new();
        let mut ran = 0; // accounted for only when there is nothing to do, to spare the shared counter
        loop {
            if let Some(task) = own.pop().or_else(|| self.find(me, own)) {
                backoff.reset();
                ran += self.run_from(task, own);
                continue;
            }
            if self.remaining_after(std::mem::take(&mut ran)) == 0 {
                return;
            }
            if backoff.is_completed() { thread::yield_now() } else { backoff.snooze() }
        }
    }

    /// Accounts for `ran` tasks. An idle worker only reads, so that it does not take the line from a busy one.
    fn remaining_after(&self, ran: usize) -> usize {
        // Acquire: who sees 0 may return, and everything the tasks wrote happens before that.
        // pairs(peer.remaining): Release in the same line, on the other workers.
        if ran == 0 {
            self.remaining.load(Ordering::Acquire)
        } else {
            self.remaining.fetch_sub(ran, Ordering::AcqRel) - ran
        }
    }

    fn find(&self, me: usize, own: &Worker<u32>) -> Option<u32> {
        let others = self.stealers.iter().enumerate().filter(|&(k, _)| k != me);
        until_decided(|| self.roots.steal_batch_and_pop(own))
            .or_else(|| others.map(|(_, other)| other).find_map(|other| until_decided(|| other.steal())))
    }

    /// Runs `task` and, on the same worker, the first successor of each that becomes ready; returns how many ran.
    fn run_from(&self, task: u32, own: &Worker<u32>) -> usize {
        let mut ran = 0;
        let mut next = Some(task);
        while let Some(task) = next.take() {
            self.bench.body(task);
            ran += 1;
            for &successor in self.bench.graph.successors.of(task) {
                // AcqRel: the last of several predecessors sees what the others wrote.
                // pairs(peer.awaited): the same operation in the other workers.
                if self.awaited[successor as usize].fetch_sub(1, Ordering::AcqRel) != 1 {
                    continue;
                }
                if next.is_none() {
                    next = Some(successor);
                } else {
                    own.push(successor);
                }
            }
        }
        ran
    }
}

/// Repeats a steal that lost a race; none if there was nothing to steal.
fn until_decided(steal: impl Fn() -> Steal<u32>) -> Option<u32> {
    repeat_with(steal).find(|outcome| !outcome.is_retry()).and_then(Steal::success)
}

pub(crate) fn run(bench: &PeerBench) -> PeerTimes {
    let own: Vec<Worker<u32>> = (0..bench.workers).map(|_| Worker::new_lifo()).collect();
    let stealers: Vec<_> = own.iter().map(Worker::stealer).collect();
    let shared = std::sync::OnceLock::new();
    let go = Barrier::new(bench.workers + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = own
            .into_iter()
            .enumerate()
            .map(|(me, own)| {
                let (shared, go) = (&shared, &go);
                scope.spawn(move || {
                    go.wait(); // the workers are started before the clock
                    go.wait();
                    let shared: &Shared = shared.get().expect("set before the second wait");
                    shared.work(me, &own);
                })
            })
            .collect();
        go.wait();
        let running = Running::start();
        let remaining = AtomicUsize::new(bench.program.tasks() as usize);
        let ready = Shared { bench, awaited: bench.awaited(), roots: Injector::new(), stealers, remaining };
        bench.roots().for_each(|root| ready.roots.push(root));
        assert!(shared.set(ready).is_ok(), "set once");
        let built = running.graph_is_built();
        go.wait();
        for worker in workers {
            assert!(worker.join().is_ok(), "a worker does not panic");
        }
        built.stop()
    })
}
