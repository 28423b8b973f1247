//! A scheduler of cores behind mailboxes: hands ready tasks to the cores it owns and completes what they finish.
//!
//! The scheduler is an [`Agent`] that executes nothing itself. What a finished task sets off is the agent's own
//! [`finish`](Agent::finish); what is here is who runs next, and where. [`Runner`] is the core's half.
//!
//! ```text
//!   ready queues ──take──► dispatch to a core: an idle one, or behind a running task ──► receipt ──► finish
//! ```
//!
//! # Invariants
//! * M1: a scheduler sleeps only if no queue holds a task that one of its cores could take now and no receipt waits.
//!   What it says about its rooms is exact while it sleeps.
//! * M2: a task is put behind a running one only while no other scheduler has an idle core that could start it.
//! * M5: a task is not left in a queue while a sleeping scheduler has room for it. Whoever publishes wakes one that has an
//!   idle core, unless somebody awake has one; else one with room behind a running task. Whoever goes to sleep and
//!   leaves tasks behind that it has no room for does the same. A scheduler that is not woken is awake, and looks
//!   before it sleeps, or has no room, and so a task of its own whose receipt will wake it.
//! * M3: tasks are taken one at a time and from any queue, so none can hide with a scheduler that has no room.
//! * M4: a scheduler leaves only when its cores hold nothing, or nothing that will ever finish.

use crate::agent::Agent;
use crate::args::ArgWords;
use crate::execute::{arg_words, call, fail};
use crate::kernel::KernelEntry;
use crate::shared::Shared;
use crate::slot::SlotRef;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::ports::{CoreSide, ISSUE, Order, Ports, Receipt};
use plimsoll_platform::{CoreClass, Platform, Work};
use plimsoll_probe::{Lane, TaskSpan};
use std::sync::atomic::{AtomicU32, Ordering};

/// The classes that cores are of; a task may want either or any.
const CORE_CLASSES: [CoreClass; 2] = [CoreClass::Aic, CoreClass::Aiv];

/// What a scheduler lets the others know: by core class, its idle cores, and those with room behind a running task.
#[derive(Debug, Default)]
pub struct RoomHints([[AtomicU32; 2]; CORE_CLASSES.len()]);

/// Which of the two.
const IDLE: usize = 0;
const SINGLE: usize = 1;

impl RoomHints {
    /// Whether there is room of this kind for a task that wants `class`.
    fn has(&self, class: usize, kind: usize) -> bool {
        // Relaxed: for one who sleeps, its announcement came after and was seen through the barriers of `sleep`; for
        // one who does not, it is only a hint of where a task starts sooner.
        let room = |at: usize| self.0[at][kind].load(Ordering::Relaxed) > 0;
        match CORE_CLASSES.iter().position(|&c| c as usize == class) {
            Some(at) => room(at),
            None => (0..CORE_CLASSES.len()).any(room),
        }
    }
}

/// `own` published a task that wants `class`: wakes a scheduler for it if need be (M5).
pub(crate) fn published<P: Platform>(shared: &Shared, platform: &P, own: AgentId, class: usize, task: SlotRef) {
    platform.light_barrier();
    if !shared.sleep.anyone() {
        return;
    }
    // A scheduler with an idle core and nothing else to hand out takes it itself, sooner than anybody could be woken.
    let backlog = shared.class_queues(class)[own.index()].len();
    if backlog > 1 || !shared.rooms[own.index()].has(class, IDLE) {
        wake_for(shared, platform, class, task.0 as usize);
    }
}

/// Wakes one sleeper that has room for a task of the class; of several with the same kind of room, each in `turn`.
fn wake_for<P: Platform>(shared: &Shared, platform: &P, class: usize, turn: usize) {
    let schedulers = shared.agents() - 1;
    let agent = |at: usize| AgentId((1 + (turn + at) % schedulers) as u16);
    for kind in [IDLE, SINGLE] {
        let mut with_room = (0..schedulers).map(agent).filter(|a| shared.rooms[a.index()].has(class, kind)).peekable();
        if with_room.peek().is_some() {
            if let Some(sleeper) = with_room.find(|&agent| shared.sleep.sleeps(agent)) {
                shared.sleep.wake(platform, sleeper);
            }
            return;
        }
    }
}

/// A scheduler and the cores it owns.
pub struct Mailbox<'r, P: Ports, L: Lane> {
    /// Its agent.
    pub agent: Agent<'r, P, L>,
    ports: Vec<Port<L::Stamp>>,
    /// The place of a core among its ports, by core.
    places: Vec<usize>,
    /// By core class, without the class that is none.
    rooms: [Room; CORE_CLASSES.len()],
    /// Tasks that are with its cores.
    in_flight: u32,
}

/// A core as its scheduler sees it.
#[derive(Clone, Copy, Debug)]
struct Port<S> {
    core: CoreId,
    class: usize,
    /// Tasks it holds, at most [`ISSUE`].
    held: u32,
    /// The last token.
    token: u32,
    /// Ticks that kernels ran.
    busy: u64,
    /// When each of the tasks it holds was dispatched, by token.
    dispatched: [S; ISSUE as usize],
}

/// Where there is room among the cores of one class: one bit per port.
#[derive(Debug, Default)]
struct Room {
    idle: Ports64,
    /// One task runs, none waits behind it.
    single: Ports64,
}

/// A set of ports, taken from in turn so that the one waiting longest comes first.
#[derive(Debug, Default)]
struct Ports64 {
    words: Vec<u64>,
    count: u32,
    next: usize,
}

impl Ports64 {
    fn insert(&mut self, port: usize) {
        if self.words.len() <= port / 64 {
            self.words.resize(port / 64 + 1, 0);
        }
        self.words[port / 64] |= 1 << (port % 64);
        self.count += 1;
    }

    fn remove(&mut self, port: usize) {
        self.words[port / 64] &= !(1 << (port % 64));
        self.count -= 1;
    }

    /// The next member at or after where the last one was found.
    fn peek(&self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let (word, bit) = (self.next / 64 % self.words.len(), self.next % 64);
        let rest = self.words[word] & (u64::MAX << bit);
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let turns = (1..=self.words.len()).map(|turn| (word + turn) % self.words.len());
        turns.filter(|&at| self.words[at] != 0).map(|at| at * 64 + self.words[at].trailing_zeros() as usize).next()
    }

    fn take(&mut self) -> Option<usize> {
        let port = self.peek()?;
        self.remove(port);
        self.next = port + 1;
        Some(port)
    }
}

impl<'r, P: Ports, L: Lane> Mailbox<'r, P, L> {
    /// The scheduler `agent` of these cores.
    pub fn new(agent: Agent<'r, P, L>, cores: impl IntoIterator<Item = (CoreId, CoreClass)>) -> Self {
        let mut rooms: [Room; CORE_CLASSES.len()] = Default::default();
        let (mut ports, mut places) = (Vec::new(), Vec::new());
        for (core, class) in cores {
            places.resize(places.len().max(core.index() + 1), 0);
            places[core.index()] = ports.len();
            let class = CORE_CLASSES.iter().position(|&c| c == class).unwrap_or(CORE_CLASSES.len() - 1);
            rooms[class].idle.insert(ports.len());
            ports.push(Port {
                core,
                class,
                held: 0,
                token: 0,
                busy: 0,
                dispatched: [L::Stamp::default(); ISSUE as usize],
            });
        }
        let mailbox = Self { agent, ports, places, rooms, in_flight: 0 };
        (0..CORE_CLASSES.len()).for_each(|class| mailbox.tell_room(class));
        mailbox
    }

    /// Goes on counting dispatches to each core from its last token: an earlier round of the same recording ended there.
    pub fn resume_tokens(&mut self, last: impl Fn(CoreId) -> u32) {
        self.ports.iter_mut().for_each(|port| port.token = last(port.core));
    }

    /// What its cores did so far: the last token of each, and the ticks that kernels ran on it.
    pub fn deeds(&self) -> impl Iterator<Item = (CoreId, u32, u64)> {
        self.ports.iter().map(|port| (port.core, port.token, port.busy))
    }

    /// Schedules until the run closes and its cores are empty.
    pub fn work(&mut self) {
        self.agent.begin_phases();
        loop {
            self.agent.next_loop();
            if self.complete_finished() + self.dispatch_ready() > 0 {
                continue;
            }
            // M4.
            if self.agent.shared.closing() && (self.in_flight == 0 || self.agent.platform.cores_lost()) {
                break;
            }
            self.pass_on();
            let (rooms, in_flight) = (&self.rooms, self.in_flight);
            self.agent.idle_until(|agent, _| has_work(agent, rooms, in_flight));
        }
        self.agent.lane.flush();
    }

    /// Leaves tasks that it has no room for to a scheduler that has (M5).
    fn pass_on(&self) {
        let (shared, platform) = (self.agent.shared, self.agent.platform);
        if shared.stopped() || !shared.sleep.anyone() {
            return;
        }
        for class in CoreClass::ALL {
            if any_ready(shared, class) {
                wake_for(shared, platform, class as usize, self.agent.id().index());
            }
        }
    }

    fn complete_finished(&mut self) -> u32 {
        let mut count = 0;
        while let Some(receipt) = self.agent.platform.collect(self.agent.id()) {
            self.complete(&receipt);
            count += 1;
        }
        count
    }

    fn complete(&mut self, receipt: &Receipt) {
        let at = SlotRef(receipt.order.word);
        let slot = self.agent.shared.slot(at);
        let finish = self.agent.lane.stamp();
        let dispatch = self.take_back(receipt);
        let stamp = |ticks| self.agent.lane.stamp_at(ticks);
        let span = TaskSpan {
            core: receipt.core,
            task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
            kernel: KernelId(receipt.order.kernel),
            token: receipt.order.token,
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
        let port = &mut self.ports[at];
        let (class, dispatched) = (port.class, port.dispatched[(receipt.order.token % ISSUE) as usize]);
        port.held -= 1;
        port.busy += receipt.end - receipt.start;
        let held = port.held;
        self.in_flight -= 1;
        let room = &mut self.rooms[class];
        if held == 0 {
            room.single.remove(at);
            room.idle.insert(at);
        } else {
            room.single.insert(at);
        }
        self.tell_room(class);
        dispatched
    }

    fn dispatch_ready(&mut self) -> u32 {
        let mut count = 0;
        for class in 0..CORE_CLASSES.len() {
            while let Some((port, task)) = self.next_for(class) {
                self.dispatch(port, task);
                count += 1;
            }
        }
        if count > 0 && self.agent.lane.on(Flags::SCHED_PHASES) {
            self.agent.phase(SchedPhaseKind::Dispatch, count, count);
        }
        count
    }

    /// A port of the class with room, and a task for it.
    fn next_for(&mut self, class: usize) -> Option<(usize, SlotRef)> {
        if self.agent.shared.stopped() || !has_room(&self.agent, &self.rooms, class) {
            return None;
        }
        let Some(task) = take(self.agent.shared, self.agent.id(), class) else {
            self.agent.missed();
            return None;
        };
        let room = &mut self.rooms[class];
        let port = match room.idle.take() {
            Some(port) => {
                room.single.insert(port);
                Some(port)
            }
            None => room.single.take(),
        };
        port.map(|port| (port, task))
    }

    fn dispatch(&mut self, at: usize, task: SlotRef) {
        self.tell_room(self.ports[at].class);
        self.agent.platform.charge(self.agent.id(), Work::Dispatch);
        let slot = self.agent.shared.slot(task);
        let port = &mut self.ports[at];
        port.held += 1;
        port.token += 1;
        port.dispatched[(port.token % ISSUE) as usize] = self.agent.lane.stamp();
        self.in_flight += 1;
        let order = Order {
            token: port.token,
            word: task.0,
            kernel: slot.kernel(),
            elements: ArgWords::new(arg_words(slot)).elements(),
        };
        self.agent.platform.dispatch(port.core, order);
    }

    /// Lets the others know where there is room.
    fn tell_room(&self, class: usize) {
        let hint = &self.agent.shared.rooms[self.agent.id().index()].0.0[class];
        hint[IDLE].store(self.rooms[class].idle.count, Ordering::Relaxed);
        hint[SINGLE].store(self.rooms[class].single.count, Ordering::Relaxed);
    }
}

/// Whether a core of the class could take a task now (M2).
fn has_room<P: Ports, L: Lane>(agent: &Agent<'_, P, L>, rooms: &[Room], class: usize) -> bool {
    rooms[class].idle.count > 0 || (rooms[class].single.count > 0 && !others_idle(agent.shared, agent.id(), class))
}

fn others_idle(shared: &Shared, own: AgentId, class: usize) -> bool {
    let wanted = CORE_CLASSES[class] as usize;
    shared.rooms.iter().enumerate().any(|(agent, hints)| agent != own.index() && hints.has(wanted, IDLE))
}

/// A ready task that a core of the class can run: of that class before any other, own before others' (M3).
fn take(shared: &Shared, own: AgentId, class: usize) -> Option<SlotRef> {
    [CORE_CLASSES[class], CoreClass::Any].into_iter().find_map(|wanted| {
        let queues = shared.class_queues(wanted as usize);
        let others = || queues.iter().filter(|queue| !queue.is_empty()).find_map(|queue| queue.take());
        queues[own.index()].take().or_else(others).map(SlotRef)
    })
}

fn any_ready(shared: &Shared, class: CoreClass) -> bool {
    shared.class_queues(class as usize).iter().any(|queue| !queue.is_empty())
}

/// Whether there is anything to do (M1).
fn has_work<P: Ports, L: Lane>(agent: &Agent<'_, P, L>, rooms: &[Room], in_flight: u32) -> bool {
    if agent.platform.has_receipt(agent.id()) {
        return true;
    }
    if agent.shared.closing() && (in_flight == 0 || agent.platform.cores_lost()) {
        return true;
    }
    let ready = |class: usize| any_ready(agent.shared, CORE_CLASSES[class]) || any_ready(agent.shared, CoreClass::Any);
    !agent.shared.stopped() && (0..rooms.len()).any(|class| has_room(agent, rooms, class) && ready(class))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_taken_in_turn() {
        let mut ports = Ports64::default();
        [3, 70, 5].into_iter().for_each(|port| ports.insert(port));
        assert_eq!([ports.take(), ports.take()], [Some(3), Some(5)]);
        ports.insert(3);
        assert_eq!([ports.take(), ports.take(), ports.take()], [Some(70), Some(3), None]);
    }
}
