//! What an agent without work does: it looks around for a while, keeps a lookout for light tasks, and sleeps.

use crate::agent::Agent;
use crate::cohort::Seat;
use crate::policy::Lend;
use crate::shared::ORCHESTRATOR;
use plimsoll_abi::Flags;
use plimsoll_abi::board::Activity;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_platform::{Platform, WaitAdvice};
use plimsoll_probe::Lane;
use plimsoll_shm::World;

/// How long an orchestrator with a pulse sleeps at most.
const PULSE_MICROS: u32 = 10_000;

/// Tasks that were ever taken from all queues and added to them, as far as can be told.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moved {
    taken: u64,
    added: u64,
}

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Whether there is anything to do, as far as can be told.
    fn has_work(&self) -> bool {
        let own = self.queue;
        self.shared.closing()
            || (!self.shared.stopped()
                && (!own.is_empty()
                    || self.shared.calls_cohort()
                    || self.shared.queues.iter().any(|queue| queue.calls())))
    }

    /// Whether there is enough to take, or little but for long enough. A thief that takes every task as it is published
    /// fights for the very lines that the orchestrator is writing; a few tasks behind, it does not meet it.
    fn is_ripe(&self, step: u32) -> bool {
        const BATCH: u64 = 8;
        const PATIENCE: u32 = 12;
        let enough = if step < PATIENCE { BATCH } else { 1 };
        self.shared.closing()
            || (!self.shared.stopped()
                && (self.shared.calls_cohort()
                    || self.shared.queues.iter().any(|queue| queue.len() >= enough && queue.calls())))
    }

    /// Waits for work: a little busily, then asleep.
    pub(crate) fn idle(&mut self) {
        if self.light == 0 {
            return self.idle_until(Self::is_ripe);
        }
        self.begin_idle();
        let since = self.world.ticks();
        self.shared.sleep.begin_lookout();
        let mut before = self.moved();
        let mut step = 0;
        let mut nap = 100;
        loop {
            if self.is_ripe(step) {
                break;
            }
            if self.platform.relax(self.id, step) == WaitAdvice::Again {
                step += 1;
                continue;
            }
            let now = self.moved();
            let waits = self.leaves_something(now);
            if before == now && waits {
                // Somebody has had light tasks for a while and does not get to them.
                self.takes_light = true;
                break;
            }
            if self.shared.sleep.leave_lookout_to_others() {
                self.shared.sleep.sleep(self.platform, self.id, || self.is_ripe(u32::MAX));
                self.shared.sleep.begin_lookout();
                break;
            }
            if before == now {
                // Nothing moves and nothing waits: the last lookout goes to sleep as well.
                self.shared.sleep.end_lookout();
                let look = || self.is_ripe(u32::MAX) || self.leaves_something(self.moved());
                self.shared.sleep.sleep(self.platform, self.id, look);
                self.shared.sleep.begin_lookout();
                break;
            }
            before = now;
            self.shared.sleep.doze(self.platform, self.id, nap, || self.is_ripe(u32::MAX));
            nap = (2 * nap).min(1000);
        }
        // Whoever was the only one to look leaves that to a sleeper, if something is left to look for.
        if self.shared.sleep.end_lookout() && self.leaves_something(self.moved()) {
            self.shared.sleep.published(self.platform);
        }
        self.end_idle(since);
    }

    /// Says that there is no work.
    fn begin_idle(&self) {
        self.status.note_ready(self.shared.backlog() as u32);
        self.status.set(Activity::Idle);
    }

    /// Accounts for a time without work that began at `since`.
    fn end_idle(&mut self, since: u64) {
        self.status.set(Activity::Schedule);
        self.idle_ticks += self.world.ticks() - since;
        if self.lane.on(Flags::SCHED_PHASES) {
            self.phase(SchedPhaseKind::Park, 0, 0);
        }
    }

    /// Whether tasks wait that may still run: after a failure those that are left never do.
    fn leaves_something(&self, moved: Moved) -> bool {
        moved.taken < moved.added && !self.shared.stopped()
    }

    /// How far all queues have moved.
    fn moved(&self) -> Moved {
        let mut moved = Moved { taken: 0, added: 0 };
        for (head, tail) in self.shared.queues.iter().map(|queue| queue.moved()) {
            moved.taken += head;
            moved.added += tail;
        }
        moved
    }

    /// Waits until there is work by the measure of `ripe`, which is asked with the number of looks so far: a little
    /// busily, then asleep. A wake-up that was meant for other work ends the wait, too.
    #[inline]
    pub(crate) fn idle_until(&mut self, ripe: impl Fn(&Self, u32) -> bool) {
        self.begin_idle();
        let since = self.world.ticks();
        let mut step = 0;
        while !ripe(self, step) {
            if self.platform.relax(self.id, step) == WaitAdvice::Park {
                match self.id == ORCHESTRATOR {
                    true => self.watch_until(0, || ripe(self, u32::MAX)),
                    false => self.shared.sleep.sleep(self.platform, self.id, || ripe(self, u32::MAX)),
                }
                break;
            }
            step += 1;
        }
        self.end_idle(since);
    }

    /// The orchestrator sleeps: a completion with which there are `wanted` in all ends it, too, and so does its pulse.
    fn watch_until(&self, wanted: u64, over: impl Fn() -> bool) {
        self.shared.sleep.watch(Some(wanted));
        match &self.pulse {
            None => self.shared.sleep.sleep(self.platform, self.id, over),
            Some(pulse) => {
                self.shared.sleep.doze(self.platform, self.id, PULSE_MICROS, over);
                pulse();
            }
        }
        self.shared.sleep.watch(None);
    }

    /// Waits in a seat for a while: until its cohort has started, or the run has failed.
    pub(crate) fn await_start(&mut self, seat: &Seat) {
        let since = self.world.ticks();
        let over = |agent: &Self| agent.shared.cohorts.has_started(seat) || agent.shared.stopped();
        let mut step = 0;
        while !over(self) {
            if self.platform.relax(self.id, step) == WaitAdvice::Park {
                match &self.pulse {
                    None => self.shared.sleep.sleep(self.platform, self.id, || over(self)),
                    Some(pulse) => {
                        self.shared.sleep.doze(self.platform, self.id, PULSE_MICROS, || over(self));
                        pulse();
                    }
                }
                break;
            }
            step += 1;
        }
        self.idle_ticks += self.world.ticks() - since;
    }

    /// The orchestrator has nothing to do: waits until `wanted` tasks have completed in all, or there is something that it may
    /// execute. How many had completed was read before whatever made the orchestrator wait, so that no completion falls in between.
    pub fn await_progress(&mut self, wanted: u64, lend: Lend) {
        self.end_completing();
        self.status.note_ready(self.shared.backlog() as u32);
        let since = self.world.ticks();
        let may_execute = |agent: &Self| match lend {
            Lend::Nothing => false,
            Lend::Seats => agent.shared.calls_cohort(),
            Lend::Everything => agent.has_work(),
        };
        let moved = |agent: &Self| agent.shared.done.total() >= wanted || agent.shared.stopped() || may_execute(agent);
        let mut step = 0;
        while !moved(self) {
            if self.platform.relax(self.id, step) == WaitAdvice::Park {
                self.watch_until(wanted, || moved(self));
                break;
            }
            step += 1;
        }
        self.idle_ticks += self.world.ticks() - since;
    }
}
