//! Cores that are threads of this process: the ports of the `emulated` engine.
//!
//! Every core has a [`CoreLine`] and sleeps by the protocol of [`policy::sleep`](crate::policy::sleep) when no order comes.
//! A scheduler polls the lines of the cores it owns; a core that has finished an order wakes its scheduler if that sleeps.

use crate::core_line::{CoreLine, Mail};
use crate::policy::sleep::Sleep;
use crate::sync::{AtomicBool, AtomicU32, Ordering, Padded};
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_platform::ports::{CoreSide, Order, Ports, Receipt, Times};
use plimsoll_platform::{Platform, WaitAdvice};
use plimsoll_shm::World;

/// The cores of one device.
#[derive(Debug)]
pub struct CoreThreads<P: Platform> {
    cores: Box<[ThreadCore]>,
    /// The cores that each agent owns, and where its last look ended.
    owned: Box<[Padded<Owned>]>,
    /// Which cores sleep.
    sleep: Sleep,
    /// Where cores sleep: a place for each of them.
    platform: P,
    /// Whether tasks that are with cores will never be finished.
    lost: AtomicBool,
}

/// One core: its line, and what lies beside it.
#[derive(Debug)]
struct ThreadCore {
    line: CoreLine,
    /// The newest token whose receipt was collected; the owner's.
    collected: Padded<AtomicU32>,
    owner: AgentId,
}

#[derive(Debug, Default)]
struct Owned {
    cores: Vec<CoreId>,
    next: AtomicU32,
}

impl<P: Platform> CoreThreads<P> {
    /// Cores that are owned by these agents, core by core, and sleep in `platform`, which has a place for each.
    pub fn new(platform: P, owners: &[AgentId], agents: usize) -> Self {
        let mut owned: Vec<Padded<Owned>> = (0..agents).map(|_| Padded::default()).collect();
        for (core, owner) in owners.iter().enumerate() {
            owned[owner.index()].0.cores.push(CoreId(core as u16));
        }
        let core = |&owner: &AgentId| ThreadCore { line: CoreLine::default(), collected: Padded::default(), owner };
        Self {
            cores: owners.iter().map(core).collect(),
            owned: owned.into(),
            sleep: Sleep::new(owners.len()),
            platform,
            lost: AtomicBool::new(false),
        }
    }

    /// What the thread of `core` does in a run: it reports, executes its orders from the one after `token` on, and leaves
    /// when it is dismissed. Returns the ticks that it waited for orders.
    pub fn serve(&self, core: CoreId, token: u32, side: &impl CoreSide) -> u64 {
        let ThreadCore { line, owner, .. } = &self.cores[core.index()];
        let mut last = token;
        let mut waited = 0;
        line.report(token);
        side.report(*owner);
        loop {
            match line.mail(last) {
                Mail::Order(order) => {
                    self.execute(core, &order, side);
                    last = order.token;
                    side.report(*owner);
                }
                Mail::Nothing => waited += self.wait(core, last),
                Mail::Dismissed => break,
            }
        }
        line.leave();
        side.report(*owner);
        waited
    }

    #[inline]
    fn execute(&self, core: CoreId, order: &Order, side: &impl CoreSide) {
        let line = &self.cores[core.index()].line;
        let world = self.platform.world(sleeper(core));
        // Nobody pays for a reading that no record will hold.
        let now = || if order.is_recorded() { world.ticks() } else { 0 };
        let receive = now();
        line.acknowledge(order.token);
        side.begin_counting(core);
        let start = now();
        if order.is_recorded() {
            side.begins(core, start);
        }
        // SAFETY: the order came through the line, which only the core's owner writes, and the line gives each once.
        let succeeded = unsafe { side.execute(core, order) };
        let end = now();
        side.stage(core, order);
        if order.is_recorded() {
            let times = Times { receive, start, end };
            // SAFETY: as above; the finish that the owner sees comes next.
            unsafe { side.stamp(core, order, &times) };
        }
        line.finish(order.token, succeeded);
    }

    /// Waits until there is mail after order `last`: a little busily, then asleep. Returns how long, in ticks.
    fn wait(&self, core: CoreId, last: u32) -> u64 {
        let line = &self.cores[core.index()].line;
        let world = self.platform.world(sleeper(core));
        let has_mail = || line.mail(last) != Mail::Nothing;
        let since = world.ticks();
        let mut step = 0;
        while !has_mail() {
            if self.platform.relax(sleeper(core), step) == WaitAdvice::Park {
                self.sleep.sleep(&self.platform, sleeper(core), has_mail);
                break;
            }
            step += 1;
        }
        world.ticks() - since
    }

    fn wake(&self, core: CoreId) {
        self.platform.light_barrier();
        self.sleep.wake(&self.platform, sleeper(core));
    }

    fn owned_by(&self, agent: AgentId) -> impl Iterator<Item = &ThreadCore> {
        self.owned[agent.index()].cores.iter().map(|core| &self.cores[core.index()])
    }
}

/// A core's place to sleep has the core's number.
fn sleeper(core: CoreId) -> AgentId {
    AgentId(core.0)
}

impl ThreadCore {
    /// Whether the core has finished an order whose receipt was not collected.
    #[inline]
    fn has_receipt(&self) -> bool {
        self.line.finished() != self.collected.load(Ordering::Relaxed)
    }

    fn take_receipt(&self, core: CoreId) -> Receipt {
        let token = self.collected.load(Ordering::Relaxed).wrapping_add(1);
        self.collected.store(token, Ordering::Relaxed);
        let (word, succeeded) = self.line.outcome(token);
        Receipt { core, token, word, succeeded, busy: 0 }
    }
}

impl<P: Platform> Ports for CoreThreads<P> {
    #[inline]
    fn dispatch(&self, core: CoreId, order: Order, _: u32, _: impl FnOnce() -> u64) {
        self.cores[core.index()].line.send(&order);
        self.wake(core);
    }

    fn collect(&self, agent: AgentId) -> Option<Receipt> {
        let Owned { cores, next } = &*self.owned[agent.index()];
        let first = next.load(Ordering::Relaxed) as usize;
        let turns = (0..cores.len()).map(|turn| (first + turn) % cores.len());
        let found = turns.into_iter().find(|&at| self.cores[cores[at].index()].has_receipt())?;
        // The next look begins behind this core, so that none is heard twice before the others were.
        next.store(found as u32 + 1, Ordering::Relaxed);
        Some(self.cores[cores[found].index()].take_receipt(cores[found]))
    }

    fn has_receipt(&self, agent: AgentId) -> bool {
        self.owned_by(agent).any(ThreadCore::has_receipt)
    }

    fn have_reported(&self, agent: AgentId) -> bool {
        self.owned_by(agent).all(|core| core.line.has_reported())
    }

    fn configure(&self, agent: AgentId, last: impl Fn(CoreId) -> u32) {
        for &core in &self.owned[agent.index()].cores {
            let at = &self.cores[core.index()];
            at.collected.store(last(core), Ordering::Relaxed);
            at.line.configure();
        }
    }

    fn dismiss(&self, agent: AgentId) {
        for &core in &self.owned[agent.index()].cores {
            self.cores[core.index()].line.dismiss();
            self.wake(core);
        }
    }

    fn have_left(&self, agent: AgentId) -> bool {
        self.owned_by(agent).all(|core| core.line.has_left())
    }

    fn cores_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}
