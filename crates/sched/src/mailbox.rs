//! A scheduler of cores behind mailboxes: hands ready tasks to the cores it owns and completes what they finish.
//!
//! The scheduler is an [`Agent`] that executes nothing itself. What a finished task sets off is the agent's own
//! [`finish`](Agent::finish); which core a task goes to is decided in [`policy::rooms`](crate::policy). [`Runner`] is the
//! core's half.
//!
//! ```text
//!   ready queues ──take──► reserve a record ──► dispatch to a core: an idle one, or behind a running task
//!                                                        ──► the core stamps ──► receipt ──► settle ──► finish
//! ```
//!
//! The record of an execution is reserved with its dispatch and settled with its receipt, so the scheduler owns count and
//! rotation of its cores' records. A core whose record finds no place is *withdrawn*: it gets nothing until its next receipt,
//! or, if it holds nothing, until the scheduler looks again. The task goes back to a queue.
//!
//! # Invariants
//! M1 to M4, which task a core is given and who sleeps, are those of `policy/rooms.rs`.
//! * M5: a scheduler leaves only when its cores hold nothing, or nothing that will ever finish.

use crate::agent::Agent;
use crate::args::ArgWords;
use crate::block;
use crate::counting::amounts;
use crate::execute::{KernelOutcome, arg_words, call, call_with, fail};
use crate::gather::Clusters;
use crate::handover::{HandedCluster, HandedCore, Leaving};
use crate::kernel::KernelEntry;
use crate::parts::call_parts;
use crate::policy::rooms::{self, CORE_CLASSES, Rooms, class_place};
use crate::seats::Seats;
use crate::shape::{Claim, ShapeWords};
use crate::shared::Shared;
use crate::slot::{Slot, SlotRef};
use crate::sync::Ordering;
use plimsoll_abi::board::Activity;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::ports::{CoreSide, ISSUE, Order, Ports, Receipt, Times};
use plimsoll_platform::{CoreClass, Platform, Work};
use plimsoll_probe::{CoreSpan, CountedExecution, DispatchSpan, Lane, Reserved, Stamper};
use plimsoll_shm::Board;

/// A scheduler and the cores it owns.
pub struct Mailbox<'a, 'r, P: Platform, C: Ports, L: Lane> {
    /// Its agent.
    pub agent: &'a mut Agent<'r, P, L>,
    /// The way to the cores.
    pub(crate) ports: &'a C,
    pub(crate) cores: Vec<OwnedCore<L::Stamp>>,
    /// The place of a core in `cores`, by core id.
    places: Vec<usize>,
    pub(crate) rooms: Rooms,
    /// Tasks that are with its cores.
    pub(crate) in_flight: u32,
    /// Cores that hold nothing and are withdrawn, by their place in `cores`: the host has the buffers of their records.
    starved: Vec<usize>,
    /// The cores of its clusters, and the mixed tasks for which some of them are kept.
    pub(crate) clusters: Clusters,
    /// The cores that wait for a cohort to start.
    pub(crate) seats: Seats,
    /// The clusters that it hands over.
    pub(crate) leaving: Leaving,
}

/// What a scheduler knows of one of its cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedCore<S> {
    pub(crate) core: CoreId,
    /// The place of its class among the core classes.
    pub(crate) class: usize,
    /// Tasks it holds, at most [`ISSUE`].
    pub(crate) held: u32,
    /// The token of the last dispatch.
    pub(crate) token: u32,
    /// Ticks that kernels ran.
    pub(crate) busy: u64,
    /// It has room and is given nothing, because its next record has no place.
    pub(crate) withdrawn: bool,
    /// It has room and is kept for a part of a mixed task, for a cohort, or because it leaves.
    pub(crate) kept: bool,
    /// It is about to leave this scheduler, or has left.
    pub(crate) is_leaving: bool,
    /// Another scheduler owns the core now.
    pub(crate) handed_over: bool,
    /// Its cluster, by its place among the scheduler's.
    pub(crate) cluster: usize,
    /// What it holds, by token.
    holds: [HeldOrder<S>; ISSUE as usize],
}

/// A dispatch that a core holds.
#[derive(Clone, Copy, Debug, Default)]
struct HeldOrder<S> {
    /// When it was dispatched.
    dispatched: S,
    kernel: u32,
    /// The pipes that it uses.
    pipes: u32,
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

impl<'a, 'r, P: Platform, C: Ports, L: Lane> Mailbox<'a, 'r, P, C, L> {
    /// The scheduler `agent` of these cores, which it reaches through `ports`.
    pub fn new(
        agent: &'a mut Agent<'r, P, L>,
        ports: &'a C,
        owned: impl IntoIterator<Item = (CoreId, CoreClass)>,
    ) -> Self {
        let rooms = Rooms::new(agent.id());
        let (starved, clusters, seats, leaving) =
            (Vec::new(), Clusters::default(), Seats::default(), Leaving::default());
        let (cores, places, in_flight) = (Vec::new(), Vec::new(), 0);
        let mut scheduler = Self { agent, ports, cores, places, rooms, in_flight, starved, clusters, seats, leaving };
        for (core, class) in owned {
            scheduler.add(HandedCore { core, class: class_place(class), token: 0, busy: 0 });
        }
        scheduler.seats.make_room(scheduler.cores.len());
        scheduler
    }

    /// A core that holds nothing is this scheduler's from now on.
    fn add(&mut self, handed: HandedCore) {
        let (HandedCore { core, class, token, busy }, at) = (handed, self.cores.len());
        self.places.resize(self.places.len().max(core.index() + 1), 0);
        self.places[core.index()] = at;
        self.rooms.add(self.agent.shared, class, at);
        let holds = [HeldOrder::default(); ISSUE as usize];
        let (withdrawn, kept, is_leaving, handed_over, cluster) = (false, false, false, false, 0);
        self.cores.push(OwnedCore {
            core,
            class,
            held: 0,
            token,
            busy,
            withdrawn,
            kept,
            is_leaving,
            handed_over,
            cluster,
            holds,
        });
    }

    /// Clusters that others have handed over are this scheduler's from now on.
    pub(crate) fn adopt(&mut self, handed: Vec<HandedCluster>) {
        for HandedCluster { is_cluster, cores } in handed {
            let first = self.cores.len();
            for core in cores {
                self.ports.adopt(self.agent.id(), core.core);
                self.add(core);
            }
            if is_cluster {
                self.clusters.add(&mut self.cores, first);
            }
        }
        self.seats.make_room(self.cores.len());
    }

    /// Says in which cluster each core is, if there are clusters: parts of a mixed task go to cores of one cluster. Without,
    /// all of them go to one core.
    pub fn set_clusters(&mut self, cluster_of: impl Fn(CoreId) -> u32) {
        self.clusters = Clusters::new(&mut self.cores, cluster_of);
    }

    /// Goes on counting dispatches to each core from its last token: an earlier round of the same recording ended there.
    pub fn resume_tokens(&mut self, last: impl Fn(CoreId) -> u32) {
        self.cores.iter_mut().for_each(|owned| owned.token = last(owned.core));
    }

    /// What each of its cores did so far.
    pub fn totals(&self) -> impl Iterator<Item = CoreTotals> {
        let own = self.cores.iter().filter(|owned| !owned.handed_over);
        own.map(|owned| CoreTotals { core: owned.core, token: owned.token, busy: owned.busy })
    }

    /// Schedules until the run closes and its cores are empty, from the first handshake to the last farewell.
    pub fn work(&mut self) {
        let ports = self.ports;
        self.agent.begin_phases();
        while !ports.have_reported(self.agent.id()) {
            self.agent.idle_until(|agent, _| ports.have_reported(agent.id()));
        }
        ports.configure(self.agent.id(), |core| self.cores[self.places[core.index()]].token);
        let shared = self.agent.shared;
        self.schedule(|in_flight| may_leave(shared, ports, in_flight));
        ports.dismiss(self.agent.id());
        let gone = |agent: &Agent<'_, P, L>| ports.cores_lost() || ports.have_left(agent.id());
        while !gone(self.agent) {
            self.agent.idle_until(|agent, _| gone(agent));
        }
        self.agent.lane.flush();
        self.agent.set_activity(Activity::Away);
    }

    /// Schedules until it may leave, which it asks with the number of tasks that its cores hold.
    pub(crate) fn schedule(&mut self, may_leave: impl Fn(u32) -> bool) {
        self.agent.begin_phases();
        let mut host_waits = 0;
        loop {
            self.agent.next_loop();
            self.agent.beat();
            self.readmit_starved();
            self.serve_desk();
            let begun = self.complete_finished() + self.dispatch_ready() + self.start_gathered();
            if begun + self.serve_cohorts() > 0 {
                host_waits = 0;
                continue;
            }
            if may_leave(self.in_flight) {
                break;
            }
            if !self.starved.is_empty() || self.clusters.any_starved() || self.seats.is_starved() {
                self.agent.lane.wait_for_host(host_waits);
                host_waits = host_waits.saturating_add(1);
                continue;
            }
            rooms::pass_on(self.agent.shared, self.agent.platform, self.agent.id());
            let (ports, rooms, seats, in_flight) = (self.ports, &self.rooms, &self.seats, self.in_flight);
            let (gathers, leaving) = (self.clusters.any_gathering(), &self.leaving);
            self.agent.idle_until(|agent, _| {
                ports.has_receipt(agent.id())
                    || (gathers && agent.shared.stopped())
                    || may_leave(in_flight)
                    || seats.has_news(agent.shared)
                    || leaving.has_news(agent.shared)
                    || agent.shared.desk.is_laden_for(agent.id())
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
        let finish = self.agent.lane.stamp_for(Flags::TASK_LIFECYCLE);
        self.agent.lane.settle(receipt.core, receipt.token);
        let HeldOrder { dispatched: dispatch, kernel, pipes } = self.take_back(receipt);
        self.clusters.give_back(pipes);
        self.agent.lane.dispatched(&DispatchSpan {
            core: receipt.core,
            task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
            kernel: KernelId(kernel),
            token: receipt.token,
            dispatch,
            finish,
        });
        if let Some((from, until)) = receipt.waited {
            self.agent.lane.gil_wait(receipt.core, from, until);
        }
        if !receipt.succeeded {
            return;
        }
        if slot.is_ordinary() || slot.finish_execution() {
            return self.finish(at);
        }
        self.agent.platform.charge(self.agent.id(), Work::Complete);
        self.agent.note_finished(false);
    }

    /// The task has completed.
    fn finish(&mut self, at: SlotRef) {
        let slot = self.agent.shared.slot(at);
        self.agent.finish(at, slot, false, |agent, consumer| agent.publish(consumer));
    }

    /// The core has room again. Tells what it held.
    fn take_back(&mut self, receipt: &Receipt) -> HeldOrder<L::Stamp> {
        let at = self.places[receipt.core.index()];
        let owned = &mut self.cores[at];
        let (class, held) = (owned.class, owned.holds[(receipt.token % ISSUE) as usize]);
        owned.held -= 1;
        owned.busy += receipt.busy;
        self.in_flight -= 1;
        let cluster = owned.cluster;
        match (owned.kept, std::mem::take(&mut owned.withdrawn)) {
            (true, _) => {}
            (false, true) => self.rooms.readmit(self.agent.shared, class, at, owned.held),
            (false, false) => self.rooms.vacate(self.agent.shared, class, at, owned.held),
        }
        self.keep_leaving(at);
        self.keep_cores(cluster);
        held
    }

    /// Cores that were withdrawn while they held nothing are tried again: the host may have given buffers back.
    fn readmit_starved(&mut self) {
        for at in self.starved.drain(..) {
            let owned = &mut self.cores[at];
            owned.withdrawn = false;
            self.rooms.readmit(self.agent.shared, owned.class, at, owned.held);
        }
    }

    fn dispatch_ready(&mut self) -> u32 {
        let mut count = 0;
        for class in 0..CORE_CLASSES.len() {
            while let Some((core, task, place)) = self.next_for(class) {
                let execution = self.claim(task, 1);
                let kernel = self.agent.shared.slot(task).kernel();
                self.dispatch(core, task, Errand { execution, kernel, pipes: Order::NO_PIPES, place });
                count += 1;
            }
        }
        if count > 0 && self.agent.lane.on(Flags::SCHED_PHASES) {
            self.agent.phase(SchedPhaseKind::Dispatch, count, count);
        }
        count
    }

    /// A core of the class with room, a task for it, and the place of its record.
    fn next_for(&mut self, class: usize) -> Option<(usize, SlotRef, u64)> {
        let shared = self.agent.shared;
        while !shared.has_notice() && self.rooms.has(shared, class) {
            let Some(task) = rooms::take(shared, self.agent.id(), class) else {
                self.agent.missed();
                return None;
            };
            if self.is_skipped(task) {
                continue;
            }
            if self.call_cohort(task) {
                continue;
            }
            let at = self.rooms.occupy(shared, class)?;
            if self.gather(at, task) {
                continue;
            }
            let owned = &self.cores[at];
            match self.agent.lane.reserve(owned.core, owned.token + 1) {
                Reserved::Place(place) => return Some((at, task, place)),
                Reserved::Later => {
                    self.withdraw(at);
                    rooms::put_back(shared, self.agent.kernels, self.agent.id(), task);
                }
            }
        }
        None
    }

    /// Completes a task of which nothing is executed.
    #[inline]
    fn is_skipped(&mut self, task: SlotRef) -> bool {
        let slot = self.agent.shared.slot(task);
        if slot.is_ordinary() {
            return false;
        }
        let Claim::Nothing { skipped } = ShapeWords::of(slot).look() else { return false };
        self.agent.note_skipped(skipped);
        self.finish(task);
        true
    }

    /// Which block of the task comes next, each of which is executed `times`. If more are left, the task is made known again.
    #[inline]
    pub(crate) fn claim(&mut self, task: SlotRef, times: usize) -> u32 {
        let slot = self.agent.shared.slot(task);
        if slot.is_ordinary() {
            if self.agent.lane.on(Flags::TENSOR_DUMP) {
                self.agent.dump(slot, false);
            }
            return 0;
        }
        let (execution, more) = ShapeWords::of(slot).claim(times);
        if execution == 0 && self.agent.lane.on(Flags::TENSOR_DUMP) {
            // Captured before others can execute a block of the task.
            self.agent.dump(slot, false);
        }
        if more {
            self.agent.publish(task);
        }
        execution
    }

    /// Withdraws the core that was just occupied: there is no place for its record.
    pub(crate) fn withdraw(&mut self, at: usize) {
        let owned = &mut self.cores[at];
        owned.withdrawn = true;
        self.rooms.withdraw(self.agent.shared, owned.class, at, owned.held);
        if owned.held == 0 {
            self.starved.push(at);
        }
    }

    fn dispatch(&mut self, at: usize, task: SlotRef, errand: Errand) {
        self.charge_dispatches(1);
        self.send(at, task, errand);
    }

    /// Gives a core its order.
    pub(crate) fn send(&mut self, at: usize, task: SlotRef, errand: Errand) {
        let Errand { execution, kernel, pipes, place } = errand;
        let slot = self.agent.shared.slot(task);
        let owned = &mut self.cores[at];
        owned.held += 1;
        owned.token += 1;
        let dispatched = self.agent.lane.stamp_for(Flags::TASK_LIFECYCLE);
        owned.holds[(owned.token % ISSUE) as usize] = HeldOrder { dispatched, kernel, pipes };
        self.in_flight += 1;
        let order = Order { token: owned.token, word: task.0, execution, pipes, place };
        self.ports.dispatch(owned.core, order, kernel, || match slot.is_ordinary() {
            true => ArgWords::new(arg_words(slot)).elements(),
            false => ShapeWords::of(slot).elements(),
        });
    }
}

/// What a core is told besides its task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errand {
    pub(crate) execution: u32,
    pub(crate) kernel: u32,
    pub(crate) pipes: u32,
    pub(crate) place: u64,
}

/// Whether a scheduler whose cores hold `in_flight` tasks may leave the run (M5).
fn may_leave<C: Ports>(shared: &Shared, ports: &C, in_flight: u32) -> bool {
    shared.closing() && (in_flight == 0 || ports.cores_lost())
}

/// The core's half: what every core does with a task, whatever it is made of.
pub struct Runner<'r, P: Platform, S: Stamper> {
    /// What it shares with the schedulers.
    pub shared: &'r Shared,
    /// The world it runs in.
    pub platform: &'r P,
    /// The device's kernels.
    pub kernels: &'r [KernelEntry],
    /// The status board, with a line for every core.
    pub board: &'r Board,
    /// What its cores write their records with: core `first` and those after it.
    pub stampers: &'r [S],
    /// The first of its cores.
    pub first: CoreId,
    /// Which round of the recording it works in.
    pub round: u32,
    /// The execution whose record gets a wrong stamp, for tests.
    pub wrong_stamp: Option<WrongStamp>,
}

/// An execution whose record gets a wrong stamp: what must end as a mismatch, and never in the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongStamp {
    /// Where it runs.
    pub core: CoreId,
    /// Its dispatch token there.
    pub token: u32,
}

impl<P: Platform, S: Stamper> CoreSide for Runner<'_, P, S> {
    unsafe fn execute(&self, core: CoreId, order: &Order) -> bool {
        let slot = self.shared.slot(SlotRef(order.word));
        let status = self.board.core(core);
        status.begin(slot.task.load(Ordering::Relaxed), kernel_of(slot, order));
        let succeeded = match slot.is_ordinary() {
            true => {
                let kernel = slot.kernel();
                self.judge(Some(core), slot, kernel, call(self.platform, &self.kernels[kernel as usize], slot, kernel))
            }
            false => self.execute_shaped(core, slot, order),
        };
        status.end();
        succeeded
    }

    fn begins(&self, core: CoreId, tick: u64) {
        self.board.core(core).note_since(tick);
    }

    unsafe fn stamp(&self, core: CoreId, order: &Order, times: &Times) {
        let slot = self.shared.slot(SlotRef(order.word));
        let wrong = self.wrong_stamp == Some(WrongStamp { core, token: order.token });
        let span = CoreSpan {
            task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
            kernel: KernelId(kernel_of(slot, order)),
            token: order.token.wrapping_add(u32::from(wrong)),
            round: self.round,
            receive: times.receive,
            start: times.start,
            end: times.end,
        };
        // SAFETY: the caller's promise: the owner of the core reserved the place with this order and waits for its finish.
        unsafe { self.stampers[core.index() - self.first.index()].stamp(order.place, &span) };
    }

    #[inline]
    fn begin_counting(&self, core: CoreId) {
        self.stampers[core.index() - self.first.index()].begin_counting();
    }

    #[inline]
    fn stage(&self, core: CoreId, order: &Order) {
        let stamper = &self.stampers[core.index() - self.first.index()];
        if !stamper.counts() {
            return;
        }
        let slot = self.shared.slot(SlotRef(order.word));
        let execution = CountedExecution {
            core,
            task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
            kernel: KernelId(kernel_of(slot, order)),
            token: order.token,
            round: self.round,
        };
        let wrong = self.wrong_stamp == Some(WrongStamp { core, token: order.token });
        let stamp = order.token.wrapping_add(u32::from(wrong));
        stamper.stage(&execution, stamp, || amounts(slot, self.kernels, execution.kernel.0));
    }

    fn report(&self, owner: AgentId) {
        // P3: the receipt is there before the look for a sleeper.
        self.platform.light_barrier();
        self.shared.sleep.wake(self.platform, owner);
    }
}

/// The kernel of an order: that of its task, or of the part of it that the order is.
fn kernel_of(slot: &Slot, order: &Order) -> u32 {
    if slot.is_ordinary() || order.pipes == Order::NO_PIPES {
        return slot.kernel();
    }
    let shape = ShapeWords::of(slot);
    shape.part_kernel(order.execution as usize % shape.parts())
}

impl<P: Platform, S: Stamper> Runner<'_, P, S> {
    /// Executes a block, or a part of one. Whether it succeeded.
    fn execute_shaped(&self, core: CoreId, slot: &Slot, order: &Order) -> bool {
        let shape = &ShapeWords::of(slot);
        let (parts, words) = (shape.parts() as u32, ArgWords::new(shape.kernel_words()));
        let (index, part) = match order.pipes {
            Order::NO_PIPES => (order.execution, 0),
            _ => (order.execution / parts, (order.execution % parts) as usize),
        };
        let kernel = shape.part_kernel(part);
        let call = || call_with(self.platform, &self.kernels[kernel as usize], words, kernel);
        match order.pipes {
            Order::NO_PIPES if parts == 1 => {
                self.judge(Some(core), slot, kernel, block::enter(shape.context(index, 0), call))
            }
            // All parts are executed where the first one is.
            Order::PARTS_TOGETHER if part > 0 => true,
            Order::NO_PIPES | Order::PARTS_TOGETHER => {
                let (part, outcome) = call_parts(self.platform, self.kernels, self.board.core(core), shape, index);
                // Which cores the other parts of a cluster's task were given is not known here.
                let at = (part == 0 || order.pipes == Order::NO_PIPES).then_some(core);
                self.judge(at, slot, shape.part_kernel(part), outcome)
            }
            pipes => {
                let pipes = &self.shared.pipes[pipes as usize];
                // The failure is the run's before the other parts can learn that this one has ended: theirs follows from it.
                let judged = || self.judge(Some(core), slot, kernel, call());
                block::enter_part(shape.context(index, part), pipes, None, judged)
            }
        }
    }

    /// Whether the kernel ended well. If not, the run has failed.
    #[inline]
    fn judge(&self, core: Option<CoreId>, slot: &Slot, kernel: u32, outcome: KernelOutcome) -> bool {
        let succeeded = matches!(outcome, Ok(Ok(())));
        if !succeeded {
            fail(self.shared, self.platform, slot, kernel, core, outcome);
        }
        succeeded
    }
}
