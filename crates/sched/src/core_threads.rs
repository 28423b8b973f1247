//! Cores that are threads of this process: the ports of the `emulated` engine.
//!
//! Every core has a [`CoreLine`] and sleeps by the protocol of [`policy::sleep`](crate::policy::sleep) when no order comes.
//! A scheduler polls the lines of the cores it owns; a core that has finished an order wakes its scheduler if that sleeps.

use crate::core_line::{CoreLine, Mail, OrderOutcome, place};
use crate::kernel_wait;
use crate::policy::sleep::Sleep;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, Padded};
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_platform::ports::{CoreSide, ISSUE, Order, Ports, Receipt, Times};
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
    /// From when to when the kernel of the order at each place waited before its own work. Who touches it when is as for the line's
    /// outcomes, which say whether there is anything.
    waits: [[AtomicU64; 2]; ISSUE as usize],
    /// The newest token whose receipt was collected; the owner's.
    collected: Padded<AtomicU32>,
    /// The owner's number. The owner writes it before it sends its first order.
    owner: AtomicU32,
}

/// The cores of one agent, which alone uses the list while a run lasts.
#[derive(Debug, Default)]
struct Owned {
    /// A place for every core of the device, of which the first `count` are in use.
    cores: Box<[AtomicU32]>,
    count: AtomicU32,
    next: AtomicU32,
}

impl Owned {
    #[inline]
    fn len(&self) -> usize {
        // Relaxed, as all in here: one agent uses it.
        (self.count.load(Ordering::Relaxed) as usize).min(self.cores.len())
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = CoreId> {
        self.cores[..self.len()].iter().map(|core| CoreId(core.load(Ordering::Relaxed) as u16))
    }

    fn add(&self, core: CoreId) {
        let count = self.len();
        self.cores[count].store(core.0.into(), Ordering::Relaxed);
        self.count.store(count as u32 + 1, Ordering::Relaxed);
    }

    fn remove(&self, core: CoreId) {
        if let Some(at) = self.iter().position(|own| own == core) {
            let last = self.cores[self.len() - 1].load(Ordering::Relaxed);
            self.cores[at].store(last, Ordering::Relaxed);
            self.count.store(self.len() as u32 - 1, Ordering::Relaxed);
        }
    }
}

impl<P: Platform> CoreThreads<P> {
    /// Cores that are owned by these agents, core by core, and sleep in `platform`, which has a place for each.
    pub fn new(platform: P, owners: &[AgentId], agents: usize) -> Self {
        let places = || owners.iter().map(|_| AtomicU32::new(0)).collect();
        let list = |_| Padded(Owned { cores: places(), ..Owned::default() });
        let core = |_| ThreadCore {
            line: CoreLine::default(),
            waits: Default::default(),
            collected: Padded::default(),
            owner: AtomicU32::new(0),
        };
        let cores = Self {
            cores: owners.iter().map(core).collect(),
            owned: (0..agents).map(list).collect(),
            sleep: Sleep::new(owners.len()),
            platform,
            lost: AtomicBool::new(false),
        };
        cores.assign(owners);
        cores
    }

    /// Gives every core to this owner. Only between two runs.
    pub fn assign(&self, owners: &[AgentId]) {
        self.owned.iter().for_each(|owned| owned.count.store(0, Ordering::Relaxed));
        (0..).map(CoreId).zip(owners).for_each(|(core, &owner)| self.adopt(owner, core));
    }

    /// What the thread of `core` does in a run: it reports, executes its orders from the one after `token` on, and leaves
    /// when it is dismissed. Returns the ticks that it waited for orders.
    pub fn serve(&self, core: CoreId, token: u32, side: &impl CoreSide) -> u64 {
        let ThreadCore { line, owner, .. } = &self.cores[core.index()];
        // Relaxed: whoever sent the last order, or dismissed the core, wrote it before. A core whose owner changes meanwhile holds
        // nothing that anybody waits for, and wakes somebody for nothing at most.
        let owner = || AgentId(owner.load(Ordering::Relaxed) as u16);
        let mut last = token;
        let mut waited = 0;
        // What an execution noted that nobody recorded is none of this run's.
        kernel_wait::take();
        line.report(token);
        side.report(owner());
        loop {
            match line.mail(last) {
                Mail::Order(order) => {
                    self.execute(core, &order, side);
                    last = order.token;
                    side.report(owner());
                }
                Mail::Nothing => waited += self.wait(core, last),
                Mail::Dismissed => break,
            }
        }
        line.leave();
        side.report(owner());
        waited
    }

    #[inline]
    fn execute(&self, core: CoreId, order: &Order, side: &impl CoreSide) {
        let ThreadCore { line, waits, .. } = &self.cores[core.index()];
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
        let mut waited = false;
        if order.is_recorded() {
            if let Some((from, until)) = kernel_wait::take() {
                // Relaxed: the finish below says that they are there.
                waits[place(order.token)][0].store(from, Ordering::Relaxed);
                waits[place(order.token)][1].store(until, Ordering::Relaxed);
                waited = true;
            }
            let times = Times { receive, start, end };
            // SAFETY: as above; the finish that the owner sees comes next.
            unsafe { side.stamp(core, order, &times) };
        }
        line.finish(order.token, OrderOutcome { succeeded, waited });
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
        self.owned[agent.index()].iter().map(|core| &self.cores[core.index()])
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
        let (word, OrderOutcome { succeeded, waited }) = self.line.outcome(token);
        let [from, until] = &self.waits[place(token)];
        let waited = waited.then(|| (from.load(Ordering::Relaxed), until.load(Ordering::Relaxed)));
        Receipt { core, token, word, succeeded, busy: 0, waited }
    }
}

impl<P: Platform> Ports for CoreThreads<P> {
    #[inline]
    fn dispatch(&self, core: CoreId, order: Order, _: u32, _: impl FnOnce() -> u64) {
        self.cores[core.index()].line.send(&order);
        self.wake(core);
    }

    fn collect(&self, agent: AgentId) -> Option<Receipt> {
        let owned = &*self.owned[agent.index()];
        let (first, count) = (owned.next.load(Ordering::Relaxed) as usize, owned.len());
        let core = |at: usize| CoreId(owned.cores[at].load(Ordering::Relaxed) as u16);
        let mut turns = (0..count).map(|turn| (first + turn) % count);
        let found = turns.find(|&at| self.cores[core(at).index()].has_receipt())?;
        // The next look begins behind this core, so that no core is served twice before the others.
        owned.next.store(found as u32 + 1, Ordering::Relaxed);
        Some(self.cores[core(found).index()].take_receipt(core(found)))
    }

    fn has_receipt(&self, agent: AgentId) -> bool {
        self.owned_by(agent).any(ThreadCore::has_receipt)
    }

    fn have_reported(&self, agent: AgentId) -> bool {
        self.owned_by(agent).all(|core| core.line.has_reported())
    }

    fn configure(&self, agent: AgentId, last: impl Fn(CoreId) -> u32) {
        for core in self.owned[agent.index()].iter() {
            let at = &self.cores[core.index()];
            at.collected.store(last(core), Ordering::Relaxed);
            at.line.configure();
        }
    }

    fn dismiss(&self, agent: AgentId) {
        for core in self.owned[agent.index()].iter() {
            self.cores[core.index()].line.dismiss();
            self.wake(core);
        }
    }

    fn have_left(&self, agent: AgentId) -> bool {
        self.owned_by(agent).all(|core| core.line.has_left())
    }

    fn part_with(&self, agent: AgentId, core: CoreId) {
        self.owned[agent.index()].remove(core);
    }

    fn adopt(&self, agent: AgentId, core: CoreId) {
        // Relaxed: the core reads it after the next order that it is sent, or its dismissal.
        self.cores[core.index()].owner.store(agent.0.into(), Ordering::Relaxed);
        self.owned[agent.index()].add(core);
    }

    fn cores_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}
