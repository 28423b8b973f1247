//! A scheduler of cores behind mailboxes: hands ready tasks to the cores it owns and completes what they finish.
//!
//! The scheduler is an [`Agent`] that executes nothing itself. What a finished task sets off is the agent's own
//! [`finish`](Agent::finish); which core a task goes to is decided in [`policy::rooms`](crate::policy). [`Runner`] is the
//! core's half.
//!
//! ```text
//!   ready queues ──take──► dispatch to a core: an idle one, or behind a running task ──► receipt ──► finish
//! ```
//!
//! # Invariants
//! * M1: a scheduler sleeps only if no queue holds a task that one of its cores could take now and no receipt waits. The
//!   room that it has published is exact while it sleeps.
//! * M2: a task is put behind a running one only while no other scheduler has an idle core that could start it.
//! * M3: no task stays in a queue while a sleeping scheduler has room for it. Whoever publishes a task, and whoever goes to
//!   sleep beside tasks that it has no room for, wakes a scheduler that has room, unless one that is awake has it.
//! * M4: tasks are taken one at a time and from any queue, so none can hide with a scheduler that has no room.
//! * M5: a scheduler leaves only when its cores hold nothing, or nothing that will ever finish.

use crate::agent::Agent;
use crate::args::ArgWords;
use crate::execute::{arg_words, call, fail};
use crate::kernel::KernelEntry;
use crate::policy::rooms::{self, CORE_CLASSES, Rooms, class_place};
use crate::shared::Shared;
use crate::slot::SlotRef;
use crate::sync::Ordering;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::ports::{CoreSide, ISSUE, Order, Ports, Receipt};
use plimsoll_platform::{CoreClass, Platform, Work};
use plimsoll_probe::{Lane, TaskSpan};

/// A scheduler and the cores it owns.
pub struct Mailbox<'r, P: Platform, C: Ports, L: Lane> {
    /// Its agent.
    pub agent: Agent<'r, P, L>,
    /// The way to the cores.
    ports: &'r C,
    cores: Vec<CoreLedger<L::Stamp>>,
    /// The place of a core in `cores`, by core id.
    places: Vec<usize>,
    rooms: Rooms,
    /// Tasks that are with its cores.
    in_flight: u32,
}

/// What a scheduler knows of one of its cores.
#[derive(Clone, Copy, Debug)]
struct CoreLedger<S> {
    core: CoreId,
    /// The place of its class among the core classes.
    class: usize,
    /// Tasks it holds, at most [`ISSUE`].
    held: u32,
    /// The token of the last dispatch.
    token: u32,
    /// Ticks that kernels ran.
    busy: u64,
    /// When each of the tasks it holds was dispatched, by token.
    dispatched: [S; ISSUE as usize],
}

/// What one core did in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreTotals {
    /// The core.
    pub core: CoreId,
    /// The token of its last dispatch.
    pub token: u32,
    /// Ticks that kernels ran on it.
    pub busy: u64,
}

impl<'r, P: Platform, C: Ports, L: Lane> Mailbox<'r, P, C, L> {
    /// The scheduler `agent` of these cores, which it reaches through `ports`.
    pub fn new(agent: Agent<'r, P, L>, ports: &'r C, owned: impl IntoIterator<Item = (CoreId, CoreClass)>) -> Self {
        let mut rooms = Rooms::new(agent.id());
        let (mut cores, mut places) = (Vec::new(), Vec::new());
        for (core, class) in owned {
            places.resize(places.len().max(core.index() + 1), 0);
            places[core.index()] = cores.len();
            let class = class_place(class);
            rooms.add(agent.shared, class, cores.len());
            let dispatched = [L::Stamp::default(); ISSUE as usize];
            cores.push(CoreLedger { core, class, held: 0, token: 0, busy: 0, dispatched });
        }
        Self { agent, ports, cores, places, rooms, in_flight: 0 }
    }

    /// Goes on counting dispatches to each core from its last token: an earlier round of the same recording ended there.
    pub fn resume_tokens(&mut self, last: impl Fn(CoreId) -> u32) {
        self.cores.iter_mut().for_each(|ledger| ledger.token = last(ledger.core));
    }

    /// What each of its cores did so far.
    pub fn totals(&self) -> impl Iterator<Item = CoreTotals> {
        self.cores.iter().map(|ledger| CoreTotals { core: ledger.core, token: ledger.token, busy: ledger.busy })
    }

    /// Schedules until the run closes and its cores are empty, from the first handshake to the last farewell.
    pub fn work(&mut self) {
        let ports = self.ports;
        while !ports.have_reported(self.agent.id()) {
            self.agent.idle_until(|agent, _| ports.have_reported(agent.id()));
        }
        ports.configure(self.agent.id(), |core| self.cores[self.places[core.index()]].token);
        self.schedule();
        ports.dismiss(self.agent.id());
        let gone = |agent: &Agent<'_, P, L>| ports.cores_lost() || ports.have_left(agent.id());
        while !gone(&self.agent) {
            self.agent.idle_until(|agent, _| gone(agent));
        }
        self.agent.lane.flush();
    }

    fn schedule(&mut self) {
        self.agent.begin_phases();
        loop {
            self.agent.next_loop();
            if self.complete_finished() + self.dispatch_ready() > 0 {
                continue;
            }
            if may_leave(self.agent.shared, self.ports, self.in_flight) {
                break;
            }
            rooms::pass_on(self.agent.shared, self.agent.platform, self.agent.id());
            let (ports, rooms, in_flight) = (self.ports, &self.rooms, self.in_flight);
            self.agent.idle_until(|agent, _| {
                ports.has_receipt(agent.id())
                    || may_leave(agent.shared, ports, in_flight)
                    || rooms.has_work(agent.shared)
            });
        }
    }

    fn complete_finished(&mut self) -> u32 {
        let mut count = 0;
        while let Some(receipt) = self.ports.collect(self.agent.id()) {
            self.complete(&receipt);
            count += 1;
        }
        count
    }

    fn complete(&mut self, receipt: &Receipt) {
        let at = SlotRef(receipt.word);
        let slot = self.agent.shared.slot(at);
        let finish = self.agent.lane.stamp();
        let dispatch = self.take_back(receipt);
        let stamp = |ticks| self.agent.lane.stamp_at(ticks);
        let span = TaskSpan {
            core: receipt.core,
            task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
            kernel: KernelId(slot.kernel()),
            token: receipt.token,
            dispatch,
            receive: stamp(receipt.receive),
            start: stamp(receipt.start),
            end: stamp(receipt.end),
            finish,
        };
        self.agent.lane.task(&span);
        if receipt.succeeded {
            self.agent.finish(at, slot, false, |agent, consumer| agent.publish(consumer));
        }
    }

    /// The core has room again. Tells when the task was dispatched.
    fn take_back(&mut self, receipt: &Receipt) -> L::Stamp {
        let at = self.places[receipt.core.index()];
        let ledger = &mut self.cores[at];
        let (class, dispatched) = (ledger.class, ledger.dispatched[(receipt.token % ISSUE) as usize]);
        ledger.held -= 1;
        ledger.busy += receipt.end - receipt.start;
        self.in_flight -= 1;
        self.rooms.vacate(self.agent.shared, class, at, ledger.held);
        dispatched
    }

    fn dispatch_ready(&mut self) -> u32 {
        let mut count = 0;
        for class in 0..CORE_CLASSES.len() {
            while let Some((core, task)) = self.next_for(class) {
                self.dispatch(core, task);
                count += 1;
            }
        }
        if count > 0 && self.agent.lane.on(Flags::SCHED_PHASES) {
            self.agent.phase(SchedPhaseKind::Dispatch, count, count);
        }
        count
    }

    /// A core of the class with room, and a task for it.
    fn next_for(&mut self, class: usize) -> Option<(usize, SlotRef)> {
        let shared = self.agent.shared;
        if shared.stopped() || !self.rooms.has(shared, class) {
            return None;
        }
        let Some(task) = rooms::take(shared, self.agent.id(), class) else {
            self.agent.missed();
            return None;
        };
        self.rooms.occupy(shared, class).map(|core| (core, task))
    }

    fn dispatch(&mut self, at: usize, task: SlotRef) {
        self.agent.platform.charge(self.agent.id(), Work::Dispatch);
        let slot = self.agent.shared.slot(task);
        let ledger = &mut self.cores[at];
        ledger.held += 1;
        ledger.token += 1;
        ledger.dispatched[(ledger.token % ISSUE) as usize] = self.agent.lane.stamp();
        self.in_flight += 1;
        let order = Order { token: ledger.token, word: task.0, kernel: slot.kernel() };
        self.ports.dispatch(ledger.core, order, || ArgWords::new(arg_words(slot)).elements());
    }
}

/// Whether a scheduler whose cores hold `in_flight` tasks may leave the run (M5).
fn may_leave<C: Ports>(shared: &Shared, ports: &C, in_flight: u32) -> bool {
    shared.closing() && (in_flight == 0 || ports.cores_lost())
}

/// The core's half: what every core does with a task, whatever it is made of.
pub struct Runner<'r, P: Platform> {
    /// What it shares with the schedulers.
    pub shared: &'r Shared,
    /// The world it runs in.
    pub platform: &'r P,
    /// The device's kernels.
    pub kernels: &'r [KernelEntry],
}

impl<P: Platform> CoreSide for Runner<'_, P> {
    fn execute(&self, core: CoreId, word: u32) -> bool {
        let slot = self.shared.slot(SlotRef(word));
        let kernel = slot.kernel();
        let outcome = call(self.platform, &self.kernels[kernel as usize], slot, kernel);
        let succeeded = matches!(outcome, Ok(Ok(())));
        if !succeeded {
            fail(self.shared, self.platform, self.kernels, slot, core, outcome);
        }
        succeeded
    }

    fn report(&self, owner: AgentId) {
        // P3: the receipt is there before the look for a sleeper.
        self.platform.light_barrier();
        self.shared.sleep.wake(self.platform, owner);
    }
}
