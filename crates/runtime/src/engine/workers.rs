//! The worker threads of a device: they outlive runs and sleep between them.
//!
//! A run is a job behind a [`Gate`]. Workers that are woken by published work enter through the gate, which counts them;
//! the run closes the gate and waits until all have left. A run that publishes nothing wakes nobody.
//!
//! A job owns, by counts, all that workers touch: rings, kernels, the recording. So a worker that never leaves can be left
//! behind, and what it may touch is never freed: its own count keeps it.

use super::{Closing, Straggler, defect};
use plimsoll_abi::{AgentId, KernelId};
use plimsoll_platform::Host;
use plimsoll_sched::{Gate, Shared};
use plimsoll_shm::Board;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// What workers do for one run.
pub(crate) trait Job: Send + Sync {
    /// The rings of the run: the device's, or a graph's arena.
    fn shared(&self) -> &Shared;
    /// Works as `agent` until the run closes.
    fn work(&self, agent: AgentId);
}

/// What workers and the device share.
pub(crate) struct WorkerHub {
    pub(crate) shared: Arc<Shared>,
    pub(crate) platform: Arc<Host>,
    gate: Gate<Arc<dyn Job>>,
    exit: AtomicBool,
    /// Whether a job is there, for a look without the lock.
    open: AtomicBool,
    /// Whether the job wants every worker at once, and not only when work is published.
    everyone: AtomicBool,
}

impl WorkerHub {
    /// Lets workers in to `job`: when work is published, or `everyone` at once.
    pub(crate) fn open(&self, job: Arc<dyn Job>, everyone: bool) {
        // Release pairs(workers.open): whoever sees the flag finds the job behind the gate.
        self.everyone.store(everyone, Ordering::Release);
        self.gate.open(job);
        self.open.store(true, Ordering::Release);
        if everyone {
            self.shared.sleep.wake_all(&*self.platform);
        }
    }

    /// Lets everybody in to `job` at once, and returns when all are inside.
    pub(crate) fn muster(&self, job: Arc<dyn Job>, threads: usize) {
        self.open(job, true);
        self.gate.await_inside(threads);
    }

    /// Lets nobody in any more, and asks those inside to leave the run on `shared`.
    pub(crate) fn send_home(&self, shared: &Shared) {
        // Release pairs(workers.open).
        self.open.store(false, Ordering::Release);
        self.everyone.store(false, Ordering::Release);
        self.gate.close();
        shared.close(&*self.platform);
    }

    /// Sends the workers home from a run on `shared`, and returns when all have left; or, if somebody gave up and the run
    /// borrows nothing, with those that have not.
    pub(crate) fn close(&self, shared: &Shared, borrows: bool, board: Option<&Board>) -> Closing {
        self.send_home(shared);
        let since = Instant::now();
        let behind = self.gate.wait(!borrows);
        let straggler = |agent: AgentId| {
            // Cores' threads have numbers behind the agents', as their lines have.
            let running = board.and_then(|board| board.agent(agent).look().running());
            let (task, kernel) = (running.map(|r| r.0), running.map(|r| KernelId(r.1)));
            Straggler { agent, task, kernel, since }
        };
        match behind.is_empty() {
            true => Closing::AllLeft,
            false => Closing::LeftBehind(behind.into_iter().map(straggler).collect()),
        }
    }

    /// Whoever has not left the run is not waited for.
    pub(crate) fn give_up(&self, shared: &Shared) {
        self.gate.give_up();
        // An orchestrator that schedules may wait for a core.
        shared.sleep.wake_all(&*self.platform);
    }

    /// Whether whoever has not left the run is not waited for.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gate.has_given_up()
    }

    fn has_work(&self) -> bool {
        // Acquire pairs(workers.open), and pairs(workers.exit).
        self.exit.load(Ordering::Acquire)
            || (self.open.load(Ordering::Acquire)
                && (self.everyone.load(Ordering::Acquire) || self.shared.calls_cohort() || self.shared.has_ready()))
    }

    fn work(&self, agent: AgentId) {
        // Acquire pairs(workers.exit).
        while !self.exit.load(Ordering::Acquire) {
            if let Some(job) = self.gate.enter(agent) {
                let done = catch_unwind(AssertUnwindSafe(|| job.work(agent)));
                if let Err(panic) = done {
                    // The worker goes on, for the runs that follow; this one has failed.
                    job.shared().fail(&*self.platform, defect("a worker", panic.as_ref()));
                }
                // G2: the job is dropped before the worker leaves the gate.
                drop(job);
                self.gate.leave(agent);
            }
            self.shared.sleep.sleep(&*self.platform, agent, || self.has_work());
        }
    }
}

/// A gate that a run may have opened. Dropping it closes it.
pub(crate) struct OpenGate<'r> {
    hub: &'r WorkerHub,
    shared: &'r Shared,
    closed: bool,
}

impl<'r> OpenGate<'r> {
    pub(crate) fn new(hub: &'r WorkerHub, shared: &'r Shared) -> Self {
        Self { hub, shared, closed: false }
    }

    pub(crate) fn close(&mut self, borrows: bool, board: &Board) -> Closing {
        self.closed = true;
        self.hub.close(self.shared, borrows, Some(board))
    }
}

impl Drop for OpenGate<'_> {
    fn drop(&mut self) {
        if !self.closed {
            self.hub.close(self.shared, true, None);
        }
    }
}

/// The worker threads.
pub(crate) struct Workers {
    pub(crate) hub: Arc<WorkerHub>,
    /// By agent, from 1; none for those that were left behind.
    threads: Vec<Option<JoinHandle<()>>>,
}

impl Workers {
    /// Starts the workers: agents 1 and up, and the threads of cores behind them, as many as can sleep in `shared`. Agent 0
    /// is whoever calls `run`.
    pub(crate) fn start(shared: Shared) -> std::io::Result<Self> {
        let agents = shared.sleep.places();
        let hub = Arc::new(WorkerHub {
            platform: Arc::new(Host::new(agents)),
            shared: Arc::new(shared),
            gate: Gate::default(),
            exit: AtomicBool::new(false),
            open: AtomicBool::new(false),
            everyone: AtomicBool::new(false),
        });
        let mut workers = Self { hub, threads: Vec::with_capacity(agents - 1) };
        for agent in 1..agents {
            let hub = Arc::clone(&workers.hub);
            let thread = std::thread::Builder::new().name(format!("plimsoll-{agent}"));
            workers.threads.push(Some(thread.spawn(move || hub.work(AgentId(agent as u16)))?));
        }
        Ok(workers)
    }

    /// Threads that it started.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// These workers are not waited for any more, not even when the device goes.
    pub(crate) fn leave_behind(&mut self, stragglers: &[Straggler]) {
        for straggler in stragglers {
            if let Some(thread) = straggler.agent.index().checked_sub(1).and_then(|at| self.threads.get_mut(at)) {
                *thread = None;
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // SeqCst pairs(workers.exit): before the look for sleepers.
        self.hub.exit.store(true, Ordering::SeqCst);
        self.hub.shared.sleep.wake_all(&*self.hub.platform);
        for thread in self.threads.drain(..).flatten() {
            // A worker that panicked has said so on its own; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
