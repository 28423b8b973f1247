//! The pipes between the parts of a mixed task: how parts that run at the same time pass values to each other.
//!
//! Every ordered pair of parts has a pipe of a few values. A push into a full pipe and a pop from an empty one wait: a part that
//! is a thread of its own sleeps, one that is a coroutine lets the others go on. A wait ends with an error if it can never
//! be served: the other part has ended, or all parts that have not ended wait for each other.
//!
//! ```text
//!             begin (whoever dispatches)          enter                    leave
//!   (unused) ───────────────────────────► Coming ───────► Running ◄─────► Waiting ───────► Ended
//! ```
//!
//! # Invariants
//! * X1: a set of pipes serves one block at a time. Whoever dispatches begins it anew only when all parts of the block before
//!   have finished.
//! * X2: a part that is Coming will run whatever the others do, so nobody is stuck because of it.
//! * X3: a block that got stuck stays so: each of its parts is told that, whichever of them is told first.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;

/// Parts of a mixed task at most: one for a matrix core and two for vector cores.
pub const MOST_PARTS: usize = 3;

/// Values that a pipe holds; few in a model, so that it is full at times.
pub const PIPE_VALUES: usize = if cfg!(loom) { 2 } else { 64 };

/// Why a push or a pop failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeError {
    /// There is no such part, or it is the caller itself.
    NoPart(usize),
    /// The other part has ended.
    Ended(usize),
    /// Every part that has not ended waits for another one.
    Stuck,
}

impl std::fmt::Display for PipeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PipeError::NoPart(part) => write!(f, "there is no other part {part} of this task to exchange values with"),
            PipeError::Ended(part) => write!(f, "part {part} has ended, and what it would have exchanged never comes"),
            PipeError::Stuck => f.write_str("none of the task's parts can go on: each waits for values of another"),
        }
    }
}

impl std::error::Error for PipeError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PartState {
    #[default]
    Coming,
    Running,
    /// Waits until the pipe from the first part to the second has a value, or room for one.
    WaitingToPop(usize, usize),
    WaitingToPush(usize, usize),
    Ended,
}

#[derive(Debug, Default)]
struct PipeState {
    parts: usize,
    states: [PartState; MOST_PARTS],
    /// By sender and receiver.
    pipes: [[VecDeque<u64>; MOST_PARTS]; MOST_PARTS],
    stuck: bool,
    /// Values moved and parts ended so far.
    moves: u64,
}

impl PipeState {
    fn is_served(&self, state: PartState) -> bool {
        match state {
            PartState::WaitingToPop(from, to) => {
                !self.pipes[from][to].is_empty() || self.states[from] == PartState::Ended
            }
            PartState::WaitingToPush(from, to) => {
                self.pipes[from][to].len() < PIPE_VALUES || self.states[to] == PartState::Ended
            }
            PartState::Ended => false,
            PartState::Coming | PartState::Running => true,
        }
    }

    /// Whether no part will ever go on.
    fn is_stuck(&self) -> bool {
        let states = &self.states[..self.parts];
        states.iter().any(|state| *state != PartState::Ended) && !states.iter().any(|&state| self.is_served(state))
    }
}

/// The pipes of one block.
#[derive(Debug, Default)]
pub struct PipeSet {
    state: Mutex<PipeState>,
    changed: Condvar,
}

impl PipeSet {
    /// Empty pipes with memory for all that they hold.
    pub(crate) fn with_room() -> Self {
        let pipes = Self::default();
        pipes.lock().pipes.iter_mut().flatten().for_each(|pipe| pipe.reserve_exact(PIPE_VALUES));
        pipes
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        // Nothing in here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Empties the pipes for a block of this many parts (X1).
    pub(crate) fn begin(&self, parts: usize) {
        let mut state = self.lock();
        state.parts = parts.min(MOST_PARTS);
        (state.states, state.stuck) = (Default::default(), false);
        state.pipes.iter_mut().flatten().for_each(VecDeque::clear);
    }

    pub(crate) fn enter(&self, part: usize) {
        self.lock().states[part] = PartState::Running;
    }

    pub(crate) fn leave(&self, part: usize) {
        let mut state = self.lock();
        state.states[part] = PartState::Ended;
        state.moves += 1;
        self.note(&mut state);
    }

    /// Something changed: whoever waits looks again.
    fn note(&self, state: &mut PipeState) {
        state.stuck |= state.is_stuck();
        self.changed.notify_all();
    }

    /// Puts a value into the pipe from one part to another. `switch` lets other coroutines go on; without, a thread sleeps.
    pub(crate) fn push(&self, [from, to]: [usize; 2], value: u64, switch: Option<&dyn Fn()>) -> Result<(), PipeError> {
        let mut state = self.wait([from, to], to, PartState::WaitingToPush(from, to), switch)?;
        if state.states[to] == PartState::Ended {
            return Err(PipeError::Ended(to));
        }
        state.pipes[from][to].push_back(value);
        state.moves += 1;
        self.note(&mut state);
        Ok(())
    }

    /// Takes a value out of the pipe from one part to another.
    pub(crate) fn pop(&self, [from, to]: [usize; 2], switch: Option<&dyn Fn()>) -> Result<u64, PipeError> {
        let mut state = self.wait([from, to], from, PartState::WaitingToPop(from, to), switch)?;
        let value = state.pipes[from][to].pop_front().ok_or(PipeError::Ended(from))?;
        state.moves += 1;
        self.note(&mut state);
        Ok(value)
    }

    fn wait(
        &self,
        [from, to]: [usize; 2],
        other: usize,
        waiting: PartState,
        switch: Option<&dyn Fn()>,
    ) -> Result<MutexGuard<'_, PipeState>, PipeError> {
        let mut state = self.lock();
        if other >= state.parts || from == to {
            return Err(PipeError::NoPart(other));
        }
        let own = if other == to { from } else { to };
        loop {
            // X3: before the look at the pipe, because a part that learnt of it first may have ended since.
            if state.stuck {
                state.states[own] = PartState::Running;
                return Err(PipeError::Stuck);
            }
            if state.is_served(waiting) {
                break;
            }
            state.states[own] = waiting;
            if state.is_stuck() {
                state.stuck = true;
                self.changed.notify_all();
                continue;
            }
            state = match switch {
                Some(switch) => {
                    drop(state);
                    switch();
                    self.lock()
                }
                None => self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
        state.states[own] = PartState::Running;
        Ok(state)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The part that is told second finds the other one ended, and is told the reason all the same (X3).
    #[test]
    fn every_part_of_a_stuck_block_is_told_that_it_is_stuck() {
        let pipes = PipeSet::default();
        pipes.begin(2);
        pipes.enter(0);
        pipes.enter(1);
        let other = || {
            assert_eq!(pipes.pop([0, 1], Some(&|| panic!("nobody else can go on"))), Err(PipeError::Stuck));
            pipes.leave(1);
        };
        assert_eq!(pipes.pop([1, 0], Some(&other)), Err(PipeError::Stuck));
    }
}

/// Interleavings, up to a bound of preemptions, of parts that are threads. A lost wake-up is a deadlock, which loom reports.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Runs the parts at the same time, each as a core does.
    fn run<const N: usize>(preemptions: usize, parts: [fn(&PipeSet); N]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(preemptions);
        builder.check(move || {
            let pipes = Arc::new(PipeSet::default());
            pipes.begin(N);
            let part = |(part, body): (usize, fn(&PipeSet))| {
                let pipes = Arc::clone(&pipes);
                thread::spawn(move || {
                    pipes.enter(part);
                    body(&pipes);
                    pipes.leave(part);
                })
            };
            let threads: Vec<_> = parts.into_iter().enumerate().map(part).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(pipes.lock().states[..N].iter().all(|state| *state == PartState::Ended));
        });
    }

    #[test]
    fn values_arrive_in_order_through_a_pipe_that_is_full_at_times() {
        let sender = |pipes: &PipeSet| (0..4).for_each(|value| pipes.push([0, 1], value, None).unwrap());
        let receiver = |pipes: &PipeSet| {
            (0..4).for_each(|value| assert_eq!(pipes.pop([0, 1], None), Ok(value)));
            assert_eq!(pipes.pop([0, 1], None), Err(PipeError::Ended(0)), "the sender ends without another one");
        };
        run(3, [sender, receiver]);
    }

    #[test]
    fn parts_that_wait_for_each_other_are_all_told_that_they_are_stuck() {
        let other = |pipes: &PipeSet| {
            pipes.push([1, 0], 7, None).unwrap();
            assert_eq!(pipes.pop([0, 1], None), Err(PipeError::Stuck));
        };
        let taker = |pipes: &PipeSet| {
            assert_eq!(pipes.pop([1, 0], None), Ok(7));
            assert_eq!(pipes.pop([1, 0], None), Err(PipeError::Stuck));
        };
        run(3, [taker, other]);
    }

    #[test]
    fn a_value_goes_round_three_parts() {
        let first = |pipes: &PipeSet| {
            pipes.push([0, 1], 1, None).unwrap();
            assert_eq!(pipes.pop([2, 0], None), Ok(3));
        };
        let second = |pipes: &PipeSet| pipes.push([1, 2], pipes.pop([0, 1], None).unwrap() + 1, None).unwrap();
        let third = |pipes: &PipeSet| pipes.push([2, 0], pipes.pop([1, 2], None).unwrap() + 1, None).unwrap();
        run(2, [first, second, third]);
    }
}
