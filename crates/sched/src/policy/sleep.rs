//! Sleeping without missing work, and waking without a fence on the hot path.
//!
//! # Protocol
//! A sleeper announces itself (`asleep`, `sleepers`), passes the heavy barrier, looks for work once more and then
//! parks. Whoever publishes work passes the light barrier and then looks at `sleepers`. The two barriers together give
//! what two full fences would: either the sleeper's last look sees the work, or the publisher sees the sleeper. Where
//! the kernel offers it, the heavy barrier interrupts the other threads and the light one costs nothing.
//!
//! An agent that waits busily, or dozes, is on the *lookout*. Light work is published without a wake-up while one is:
//! the lookout finds it if whoever published it does not get to it. The last lookout goes to sleep like everybody else:
//! it stops being one, announces itself, passes the heavy barrier and looks once more.
//!
//! # Invariants
//! * S1: whoever changes `asleep` from true to false takes 1 off `sleepers`, and it is done once.
//! * S2: a waker unparks whom it took out of `asleep`, so no announced sleeper is left parked beside work.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, Padded, fence};
use plimsoll_abi::AgentId;
use plimsoll_platform::Platform;

/// Which agents sleep, and which are on the lookout.
#[derive(Debug)]
pub struct Sleep {
    sleepers: Padded<AtomicU32>,
    asleep: Box<[Padded<AtomicBool>]>,
    /// Agents that are on the lookout.
    lookouts: Padded<AtomicU32>,
    /// How many tasks are to have completed in all when the orchestrator, which waits for that, is woken; [`NOT_WATCHING`] if it does not
    /// wait for completions.
    watching: Padded<AtomicU64>,
}

/// More tasks than a run can have.
const NOT_WATCHING: u64 = u64::MAX;

impl Sleep {
    /// A state for this many agents, all of them awake.
    pub fn new(agents: usize) -> Self {
        Self {
            sleepers: Padded(AtomicU32::new(0)),
            lookouts: Padded(AtomicU32::new(0)),
            asleep: (0..agents).map(|_| Padded(AtomicBool::new(false))).collect(),
            watching: Padded(AtomicU64::new(NOT_WATCHING)),
        }
    }

    /// How many can sleep here.
    pub fn places(&self) -> usize {
        self.asleep.len()
    }

    /// Sleeps unless `work` is seen after the announcement; `work` is asked once.
    pub fn sleep<P: Platform>(&self, platform: &P, agent: AgentId, work: impl FnOnce() -> bool) {
        let asleep = &self.asleep[agent.index()];
        // A swap and not a store: so it has its place among the swaps of wakers for a model checker, too.
        // SeqCst pairs(sleep.announced): the barrier below, and the light one of whoever publishes.
        asleep.swap(true, Ordering::SeqCst);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        platform.heavy_barrier();
        if work() {
            self.rouse(agent);
            return;
        }
        // Acquire pairs(sleep.roused): what the waker did before.
        while asleep.load(Ordering::Acquire) {
            platform.park(agent);
        }
    }

    /// Sleeps for a moment unless `work` is seen after the announcement. A wake-up ends it.
    pub fn doze<P: Platform>(&self, platform: &P, agent: AgentId, micros: u32, work: impl FnOnce() -> bool) {
        let asleep = &self.asleep[agent.index()];
        // SeqCst pairs(sleep.announced).
        asleep.swap(true, Ordering::SeqCst);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        platform.heavy_barrier();
        // Acquire pairs(sleep.roused).
        if !work() && asleep.load(Ordering::Acquire) {
            platform.doze(agent, micros);
        }
        self.rouse(agent);
    }

    /// An agent is on the lookout from now on.
    pub fn begin_lookout(&self) {
        // SeqCst pairs(sleep.lookouts): lookouts agree on who is the last; publishers look behind the light barrier.
        self.lookouts.fetch_add(1, Ordering::SeqCst);
    }

    /// An agent ends its lookout. Returns whether it was the last on the lookout.
    pub fn end_lookout(&self) -> bool {
        // SeqCst pairs(sleep.lookouts).
        self.lookouts.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// An agent ends its lookout, unless it is the last on the lookout. Returns whether it ended it.
    pub fn leave_lookout_to_others(&self) -> bool {
        let others = |lookouts| (lookouts > 1).then(|| lookouts - 1);
        // SeqCst pairs(sleep.lookouts).
        self.lookouts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, others).is_ok()
    }

    /// Takes `agent` out of the sleepers. True: it was one.
    fn rouse(&self, agent: AgentId) -> bool {
        // S1. AcqRel pairs(sleep.roused), and pairs(sleep.announced).
        let was = self.asleep[agent.index()].swap(false, Ordering::AcqRel);
        if was {
            self.sleepers.fetch_sub(1, Ordering::AcqRel);
        }
        was
    }

    /// Work was published: wakes a sleeper if there is one.
    #[inline]
    pub fn published<P: Platform>(&self, platform: &P) {
        platform.light_barrier();
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake_one(platform);
        }
    }

    /// Light work was published: wakes a sleeper if there is one and nobody is on the lookout.
    #[inline]
    pub fn published_light<P: Platform>(&self, platform: &P) {
        platform.light_barrier();
        if self.lookouts.load(Ordering::Relaxed) == 0 && self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake_one(platform);
        }
    }

    #[cold]
    fn wake_one<P: Platform>(&self, platform: &P) {
        // From the back: the orchestrator is agent 0 and has better things to do.
        for agent in (0..self.asleep.len()).rev() {
            if self.wake(platform, AgentId(agent as u16)) {
                return;
            }
        }
    }

    /// Whether `agent` sleeps, as far as can be told.
    #[inline]
    pub fn sleeps(&self, agent: AgentId) -> bool {
        self.asleep[agent.index()].load(Ordering::Relaxed)
    }

    /// Wakes `agent` if it sleeps.
    pub fn wake<P: Platform>(&self, platform: &P, agent: AgentId) -> bool {
        let was = self.asleep[agent.index()].load(Ordering::Relaxed) && self.rouse(agent);
        if was {
            // S2.
            platform.unpark(agent);
        }
        was
    }

    /// Wakes everybody: the run ends.
    pub fn wake_all<P: Platform>(&self, platform: &P) {
        platform.heavy_barrier();
        for agent in 0..self.asleep.len() {
            self.wake(platform, AgentId(agent as u16));
        }
    }

    /// Says how many tasks are to have completed in all when the orchestrator is woken; `None` if it waits for none.
    pub fn watch(&self, wanted: Option<u64>) {
        // SeqCst pairs(sleep.watching): the heavy barrier that follows, and the light one of `completed`.
        self.watching.store(wanted.unwrap_or(NOT_WATCHING), Ordering::SeqCst);
    }

    /// A task was counted as complete: wakes the orchestrator if it waits for so many. `total` is asked for how many there are.
    #[inline]
    pub fn completed<P: Platform>(&self, platform: &P, orchestrator: AgentId, total: impl FnOnce() -> u64) {
        // pairs(sleep.watching).
        platform.light_barrier();
        let wanted = self.watching.load(Ordering::Relaxed);
        if wanted != NOT_WATCHING {
            self.wake_at(platform, orchestrator, wanted, total);
        }
    }

    #[cold]
    fn wake_at<P: Platform>(&self, platform: &P, orchestrator: AgentId, wanted: u64, total: impl FnOnce() -> u64) {
        // SeqCst pairs(sleep.totals): of two agents that count the last two tasks, one sees both.
        fence(Ordering::SeqCst);
        if total() >= wanted {
            self.wake(platform, orchestrator);
        }
    }

    /// Whether somebody sleeps, as far as can be told.
    #[inline]
    pub fn anyone(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
    }
}
