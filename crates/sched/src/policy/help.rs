//! When the orchestrator lends a hand: between submits, while it waits, and before it would wait for room.

use crate::submit::Submitter;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;

/// Submits between two looks at whether help is wanted.
const EVERY: u64 = 64;
/// Tasks that stay in flight, so that those of a chain are linked before their producers have finished.
const IN_FLIGHT: u64 = 128;
/// Tasks between two looks at how many are in flight: a look after each would be felt.
const PORTION: u32 = 8;

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    #[inline]
    pub(crate) fn help_now_and_then(&mut self) {
        if self.submitted == self.help_at {
            self.help();
        }
    }

    /// Executes tasks here when enough of them are in flight that nobody will miss the orchestrator for a moment.
    #[cold]
    #[inline(never)]
    fn help(&mut self) {
        self.help_at = self.submitted + EVERY;
        self.note_current_ring();
        if !self.lend {
            return;
        }
        self.agent.begin_phases();
        if self.shared.calls_cohort() {
            // Others wait in their seats meanwhile.
            self.agent.step();
        }
        let done = &self.shared.done;
        if self.shared.agents() == 1 {
            while self.submitted - done.by(0) > IN_FLIGHT && self.agent.steps(PORTION) {}
            return self.agent.end_completing();
        }
        if self.agent.has_light_work() {
            let by_others = done.total() - done.by(0);
            while self.submitted - by_others - done.by(0) > IN_FLIGHT
                && self.agent.has_light_work()
                && self.agent.steps(PORTION)
            {}
        }
        if self.window_is_half_used() {
            self.agent.steps(EVERY as u32);
        }
        self.agent.lay_down();
    }

    /// Executes a ready task, or sleeps until more than `seen` tasks have completed.
    pub(crate) fn help_or_wait(&mut self, seen: u64) {
        self.agent.beat();
        if self.lend && self.agent.step() {
            self.agent.end_completing();
        } else {
            self.agent.await_progress(seen, self.lend);
        }
    }

    /// Executes what no other agent would get to soon: everything if there is no other agent, light tasks otherwise.
    pub(crate) fn run_light_tasks(&mut self) {
        let alone = self.shared.agents() == 1;
        self.agent.beat();
        while (alone || self.agent.has_light_work()) && self.agent.step() {}
        self.agent.lay_down();
    }
}
