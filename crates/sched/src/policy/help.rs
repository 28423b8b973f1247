//! When the orchestrator lends a hand: between submits, while it waits, and before it would wait for room.
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

    /// The orchestrator has to wait: if it `lends` a hand, it executes a ready task; if not, or if there is none, it sleeps until
    /// more than `seen` tasks have completed.
    pub fn help_or_wait(&mut self, seen: u64, lends: bool) {
        self.beat();
        if lends && self.step() {
            self.end_completing();
        } else {
            self.await_progress(seen, lends);
        }
    }

    /// The orchestrator executes what no other agent would get to soon: everything if there is no other agent, light tasks
    /// otherwise.
    pub fn run_light_tasks(&mut self) {
        let alone = self.shared.agents() == 1;
        self.beat();
        while (alone || self.has_light_work()) && self.step() {}
        self.lay_down();
    }
}
