//! The gate of a run: workers enter while it is open, and whoever closes it learns whether all of them have left.
//!
//! ```text
//!   closed ──open: the run──► open ──close: the run──► closing ──wait: the run──► closed, all left
//!                              │                          │
//!               enter: a worker┘        leave: a worker   └─give_up: anybody──► closed, some left behind
//! ```
//!
//! A job is counted: whoever is inside has a count of its own, so that what the job owns outlives the one who never leaves.
//!
//! # Invariants
//! * G1: a worker touches a job only between `enter` and `leave`, and `enter` succeeds only while the gate is open.
//! * G2: when `wait` returns with nobody inside, no worker touches the job any more, nor any other of this gate.
//! * G3: who was left behind is named, and `wait` leaves nobody behind unless somebody gave up.
//!
//! The race it prevents: a run that frees what a worker still uses.

use crate::sync::{Condvar, Mutex, MutexGuard};
use plimsoll_abi::AgentId;

/// The gate of one device's workers. `J` is a handle to the run that a worker gets when it enters; all clones of it refer to the
/// same run, which lives as long as one of them.
#[derive(Debug)]
pub struct Gate<J> {
    state: Mutex<State<J>>,
    /// Somebody entered, left or gave up.
    changed: Condvar,
}

#[derive(Debug)]
struct State<J> {
    job: Option<J>,
    /// Who is inside.
    inside: Vec<AgentId>,
    /// `wait` waits for nobody: workers that are inside are left behind.
    given_up: bool,
}

impl<J> Default for Gate<J> {
    fn default() -> Self {
        let state = State { job: None, inside: Vec::new(), given_up: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<J: Clone> Gate<J> {
    fn state(&self) -> MutexGuard<'_, State<J>> {
        // Every change of the state is made in one step, so a panic leaves it whole.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets workers in to `job`.
    pub fn open(&self, job: J) {
        let mut state = self.state();
        debug_assert!(state.inside.is_empty(), "G2: somebody is still inside");
        (state.job, state.given_up) = (Some(job), false);
    }

    /// `agent` goes in, if the gate is open. It must [`leave`](Self::leave).
    pub fn enter(&self, agent: AgentId) -> Option<J> {
        let mut state = self.state();
        let job = state.job.clone()?;
        state.inside.push(agent);
        self.changed.notify_all();
        Some(job)
    }

    /// Waits until `count` workers are inside an open gate, where a run needs all of them before it begins.
    pub fn await_inside(&self, count: usize) {
        let mut state = self.state();
        while state.inside.len() < count {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// `agent` has dropped its job and leaves.
    pub fn leave(&self, agent: AgentId) {
        self.state().inside.retain(|inside| *inside != agent);
        self.changed.notify_all();
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        let job = self.state().job.take();
        // Outside of the lock: dropping it may take its time.
        drop(job);
    }

    /// From now on, whoever is inside is not waited for.
    pub fn give_up(&self) {
        self.state().given_up = true;
        self.changed.notify_all();
    }

    /// Whether somebody gave up.
    pub fn has_given_up(&self) -> bool {
        self.state().given_up
    }

    /// Waits until nobody is inside a gate that was closed. Tells who was left behind, which is nobody unless somebody gave
    /// up and `may_leave` allows it.
    pub fn wait(&self, may_leave: bool) -> Vec<AgentId> {
        let mut state = self.state();
        while !(state.inside.is_empty() || (may_leave && state.given_up)) {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.inside.clone()
    }
}
