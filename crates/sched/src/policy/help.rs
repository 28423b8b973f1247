//! When the orchestrator lends a hand: between submits, while it waits, before it would wait for room, and beside a graph that it
//! has launched.
//!
//! What is decided here needs no ring and no tensor: the submitter (`submit.rs`) says how many tasks it has submitted and whether
//! its window is half used. So the models of `tests/loom` run this code as it is.

use crate::Agent;
use crate::shared::ORCHESTRATOR;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;

/// Submits between two looks at whether help is wanted.
pub(crate) const EVERY: u64 = if cfg!(loom) { 2 } else { 64 };
/// Tasks that stay in flight, so that those of a chain are linked before their producers have finished.
const IN_FLIGHT: u64 = if cfg!(loom) { 1 } else { 128 };
/// Tasks between two looks at how many are in flight: a look after each would be felt.
const PORTION: u32 = if cfg!(loom) { 1 } else { 8 };

/// What the orchestrator executes while it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lend {
    /// Nothing.
    Nothing,
    /// Blocks of cohorts only, which count on its seat.
    Seats,
    /// Any task.
    Everything,
}

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// The orchestrator, which has submitted `submitted` tasks, executes some of them when enough are in flight that nobody will
    /// miss it for a moment.
    pub fn help(&mut self, submitted: u64, window_is_half_used: bool) {
        self.begin_phases();
        if self.shared.calls_cohort() {
            // Others wait in their seats meanwhile.
            self.step();
        }
        let done = &self.shared.done;
        let own = ORCHESTRATOR.index();
        if self.shared.agents() == 1 {
            while submitted - done.by(own) > IN_FLIGHT && self.steps(PORTION) {}
            return self.end_completing();
        }
        if self.has_light_work() {
            let by_others = done.total() - done.by(own);
            while submitted - by_others - done.by(own) > IN_FLIGHT && self.has_light_work() && self.steps(PORTION) {}
        }
        if window_is_half_used {
            self.steps(EVERY as u32);
        }
        self.lay_down();
    }

    /// The orchestrator has to wait: it executes a task that it may execute. If there is none, it sleeps until `wanted` tasks
    /// have completed in all.
    pub fn help_or_wait(&mut self, wanted: u64, lend: Lend) {
        self.begin_phases();
        self.beat();
        if self.lend_hand(lend, 1) {
            self.end_completing();
        } else {
            self.await_progress(wanted, lend);
        }
    }

    /// Executes tasks until `total` have completed, or the run has failed. For whoever launched a prebuilt graph.
    pub fn work_until(&mut self, total: u64, lend: Lend) {
        self.begin_phases();
        // A pulse is due after every task.
        let count = if self.pulse.is_some() { 1 } else { u32::MAX };
        loop {
            if self.shared.done.total() == total || self.shared.stopped() {
                return self.end_completing();
            }
            if self.lend_hand(lend, count) {
                self.beat();
            } else {
                self.await_progress(total, lend);
            }
        }
    }

    /// Executes what the orchestrator may execute, at most `count` tasks. Whether there were that many.
    fn lend_hand(&mut self, lend: Lend, count: u32) -> bool {
        match lend {
            Lend::Nothing => false,
            Lend::Seats => {
                let sat = self.shared.calls_cohort() && self.take_seat();
                // What the block's task was the last to hold up is for the others.
                self.lay_down();
                sat
            }
            Lend::Everything => self.steps(count),
        }
    }

    /// The orchestrator executes what no other agent would get to soon: everything if there is no other agent, light tasks
    /// otherwise.
    pub fn run_light_tasks(&mut self) {
        let alone = self.shared.agents() == 1;
        self.begin_phases();
        self.beat();
        while (alone || self.has_light_work()) && self.step() {}
        self.lay_down();
    }
}
