//! The worker threads of a device: they outlive runs and sleep between them.
//!
//! A run is a job behind a gate. Workers that are woken by published work enter through the gate, which counts them;
//! the run closes the gate and waits until all have left. A run that publishes nothing wakes nobody.
//!
//! # Invariants
//! * C1: a worker touches a job only between its `enter` and its `leave`, and `enter` succeeds only while the gate is
//!   open. So once the gate is closed and the count is zero, what the job borrows is the run's alone again.

use plimsoll_abi::{AgentId, ErrorCode};
use plimsoll_platform::Host;
use plimsoll_sched::{Failure, Shared, panic_text};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// What workers do for one run: `call(context, agent)`.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) call: unsafe fn(*const (), AgentId),
    pub(crate) context: *const (),
}

// SAFETY: the context is shared by all workers of a run; whoever makes a job vouches for that.
unsafe impl Send for Job {}

/// What workers and the device share.
pub(crate) struct Floor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) platform: Host,
    gate: Mutex<Gate>,
    left: Condvar,
    exit: AtomicBool,
    /// Whether a job is there, for a look without the lock.
    open: AtomicBool,
    /// Whether the job wants every worker at once, and not only when work is published.
    everyone: AtomicBool,
}

#[derive(Default)]
struct Gate {
    job: Option<Job>,
    inside: usize,
}

/// What a run fails with in which `who`, a part of the runtime, panicked.
pub(crate) fn defect(who: &str, panic: &(dyn Any + Send)) -> Failure {
    Failure::new(ErrorCode::Defect, format!("{who} panicked outside of kernels: {}", panic_text(panic)))
}

/// The worker threads.
pub(crate) struct Crew {
    pub(crate) floor: Arc<Floor>,
    threads: Vec<JoinHandle<()>>,
}

impl Floor {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        // A worker that panics outside of kernels is a defect; the gate's own state is always whole.
        self.gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enter(&self) -> Option<Job> {
        let mut gate = self.gate();
        let job = gate.job?;
        gate.inside += 1;
        Some(job)
    }

    fn leave(&self) {
        self.gate().inside -= 1;
        self.left.notify_all();
    }

    /// Opens the gate to `job`.
    ///
    /// # Safety
    /// The job's call and context stay valid until [`Floor::close`] has returned.
    pub(crate) unsafe fn open(&self, job: Job) {
        self.gate().job = Some(job);
        self.open.store(true, Ordering::Release);
    }

    /// As [`Floor::open`], and calls every worker in.
    ///
    /// # Safety
    /// As for [`Floor::open`].
    pub(crate) unsafe fn open_to_all(&self, job: Job) {
        self.everyone.store(true, Ordering::Release);
        // SAFETY: the caller's promise.
        unsafe { self.open(job) };
        self.shared.sleep.wake_all(&self.platform);
    }

    /// Closes the gate and returns when every worker has left what they share in this run.
    pub(crate) fn close(&self, shared: &Shared) {
        self.open.store(false, Ordering::Release);
        self.everyone.store(false, Ordering::Release);
        self.gate().job = None;
        shared.close(&self.platform);
        let mut gate = self.gate();
        while gate.inside > 0 {
            gate = self.left.wait(gate).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// A worker panicked outside of kernels. It goes on, for the runs that follow; this one has failed.
    #[cold]
    fn fail_by_defect(&self, panic: &(dyn Any + Send)) {
        self.shared.fail(&self.platform, defect("a worker", panic));
    }

    fn has_work(&self) -> bool {
        self.exit.load(Ordering::Acquire)
            || (self.open.load(Ordering::Acquire)
                && (self.everyone.load(Ordering::Acquire) || self.shared.queues.iter().any(|queue| !queue.is_empty())))
    }

    fn work(&self, agent: AgentId) {
        while !self.exit.load(Ordering::Acquire) {
            if let Some(job) = self.enter() {
                // SAFETY: C1: the gate is open and counts this worker until it leaves.
                let done = catch_unwind(AssertUnwindSafe(|| unsafe { (job.call)(job.context, agent) }));
                if let Err(panic) = done {
                    self.fail_by_defect(&panic);
                }
                self.leave();
            }
            self.shared.sleep.sleep(&self.platform, agent, || self.has_work());
        }
    }
}

impl Crew {
    /// Starts the workers: agents 1 and up. Agent 0 is whoever calls `run`.
    pub(crate) fn start(shared: Shared) -> std::io::Result<Self> {
        let agents = shared.agents();
        let floor = Arc::new(Floor {
            platform: Host::new(agents),
            shared: Arc::new(shared),
            gate: Mutex::default(),
            left: Condvar::new(),
            exit: AtomicBool::new(false),
            open: AtomicBool::new(false),
            everyone: AtomicBool::new(false),
        });
        let mut crew = Self { floor, threads: Vec::with_capacity(agents - 1) };
        for agent in 1..agents {
            let floor = Arc::clone(&crew.floor);
            let thread = std::thread::Builder::new().name(format!("plimsoll-{agent}"));
            crew.threads.push(thread.spawn(move || floor.work(AgentId(agent as u16)))?);
        }
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.floor.exit.store(true, Ordering::SeqCst);
        self.floor.shared.sleep.wake_all(&self.floor.platform);
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so on its own; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
