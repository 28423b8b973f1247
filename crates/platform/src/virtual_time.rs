//! Virtual time: the agents of a run as coroutines of one event loop on one thread, with a clock that only events move.
//!
//! The orchestrator, the schedulers and the collector are the code of the real engines; every `park`, `unpark`,
//! `charge` and wait for the host is an event here. Cores are numbers ([`cores`]). Events at the same time come in an
//! order drawn from the seed, and so do drawn costs: the same seed and the same program give the same run, bit by bit.
//!
//! # Who may touch what
//! All of [`State`] belongs to the thread that is inside [`Virtual::run`], which [`VirtualMachine::state`] checks at every
//! access. The clock and the number of the running kernel are atomics, which any thread may read.
//!
//! # Invariants
//! * V1: at most one task is `Running`, and `current` names it; none while the loop itself or a kernel of a core runs.
//! * V2: no borrow of a `RefCell` is held where a task gives up the CPU, or while a kernel runs.
//! * V3: a task has at most one valid event, the one with its `turn`.

mod cores;
mod cost;
mod events;
mod fault;
mod looping;
mod ports;
mod random;
mod tasks;
mod world;

pub use cost::KernelCost;
pub use fault::{Faults, Hang, Pause, Who};
pub use looping::{Body, WatchReason};
pub use random::Random;
pub use world::VirtualWorld;

use crate::arch::{ArchSpec, Costs};
use cores::{Cores, Flight};
use events::{EventSubject, Events};
use plimsoll_abi::{AgentId, CoreId};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tasks::{VirtualTask, VirtualTaskStatus};

/// A chip, or this machine, in virtual time.
#[derive(Clone, Debug)]
pub struct Virtual {
    inner: Arc<VirtualMachine>,
}

/// What a core behind a mailbox executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnCore {
    /// The core.
    pub core: CoreId,
    /// The task, as its scheduler names it.
    pub word: u32,
    /// The token it was dispatched with.
    pub token: u32,
    /// When its kernel started, in ticks.
    pub since: u64,
}

/// What the clones of a [`Virtual`] share.
#[derive(Debug)]
struct VirtualMachine {
    /// Nanoseconds since the device was opened.
    now: AtomicU64,
    /// The kernel that runs now (low half, plus one; 0 = none) and how many have run (high half).
    kernel: AtomicU64,
    hz: u64,
    costs: Costs,
    faults: Faults,
    agents: usize,
    /// Marks the thread that is inside `run`; 0 if none is.
    thread: AtomicUsize,
    state: State,
}

/// What the loop's thread alone may touch.
#[derive(Debug)]
struct State {
    events: RefCell<Events>,
    random: RefCell<Random>,
    tasks: RefCell<Vec<VirtualTask>>,
    cores: RefCell<Cores>,
    kernel_costs: RefCell<Vec<KernelCost>>,
    /// Kernels that every agent has executed itself.
    executions: RefCell<Vec<u32>>,
    /// The task that runs.
    current: Cell<Option<usize>>,
    /// The task that drains the recorder, if there is one.
    collector: Cell<Option<usize>>,
    /// Tasks that wait for the collector.
    host_waiters: RefCell<Vec<usize>>,
    /// Whether kernels that do not end are not waited for any more.
    abandoned: Cell<bool>,
    /// Whether coroutines are being unwound after a defect: nobody can wait then.
    tearing_down: Cell<bool>,
    /// Steps since the loop last looked around.
    unwatched: Cell<u32>,
    /// Events since time last moved.
    standstill: Cell<u32>,
    /// Wake-ups so far, counted where one may get lost.
    wake_ups: Cell<u64>,
}

// SAFETY: `state` is reached through `VirtualMachine::state` alone, which panics on every thread but the one inside `run`, and
// only one can be: `bind` claims `thread` with a compare-exchange. The raw pointers in it are used by that thread only,
// while the coroutines they belong to live. All other fields are atomics or never change.
unsafe impl Sync for VirtualMachine {}
// SAFETY: as above; between runs nothing in it belongs to a thread.
unsafe impl Send for VirtualMachine {}

thread_local! {
    static HERE: u8 = const { 0 };
}

/// A number of this thread that no other living thread has.
fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

impl VirtualMachine {
    #[inline]
    fn state(&self) -> &State {
        assert_eq!(
            self.thread.load(Ordering::Relaxed),
            this_thread(),
            "virtual time was reached from a thread that does not drive it"
        );
        &self.state
    }

    #[inline]
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_now(&self, now: u64) {
        self.now.store(now, Ordering::Relaxed);
    }

    #[inline]
    fn ticks(&self, ns: u64) -> u64 {
        match self.hz {
            1_000_000_000 => ns,
            50_000_000 => ns / 20,
            hz => u64::try_from(u128::from(ns) * u128::from(hz) / 1_000_000_000).unwrap_or(u64::MAX),
        }
    }

    /// A cost, changed by the jitter of the plan of faults.
    fn shaken(&self, state: &State, ns: u64) -> u64 {
        let off = ns.saturating_mul(self.faults.jitter_percent) / 100;
        if off == 0 { ns } else { ns - off.min(ns) + state.random.borrow_mut().below(2 * off + 1) }
    }

    /// Refuses what would wait inside a kernel: nothing else can run until the kernel has returned.
    #[inline]
    fn refuse_in_kernel(&self) {
        assert!(
            self.kernel.load(Ordering::Relaxed) as u32 == 0,
            "a kernel waits for the runtime. In virtual time kernels run to completion one at a time, so what it waits \
             for cannot happen. Let it return, and make the other task a dependency"
        );
    }

    /// The state of the loop, if this agent is the one that runs.
    fn working(&self, agent: AgentId) -> Option<&State> {
        self.refuse_in_kernel();
        let state = self.state();
        (state.current.get() == Some(agent.index())).then_some(state)
    }

    fn draw(&self, state: &State, kernel: u32, elements: u64) -> Option<u64> {
        let cost = state.kernel_costs.borrow().get(kernel as usize).copied();
        let default = KernelCost::PerElement { ns: self.costs.kernel_ns, element_ps: self.costs.element_ps };
        let ns = cost.unwrap_or(default).draw(elements, &mut state.random.borrow_mut())?;
        Some(self.shaken(state, ns))
    }

    /// Whether this execution is the one that hangs.
    fn hangs(&self, core: u16, execution: u32) -> bool {
        self.faults.hang.is_some_and(|hang| hang.core == core && hang.execution == execution)
    }

    /// Spends virtual time of the task that runs.
    #[inline]
    fn spend(&self, state: &State, task: usize, ns: u64) {
        if ns == 0 {
            return;
        }
        let at = self.now().saturating_add(ns);
        let turn = {
            let mut tasks = state.tasks.borrow_mut();
            let next = tasks[task].turn.wrapping_add(1);
            let what = EventSubject::Task { task: task as u32, turn: next };
            // A task that would be the next to go on does so without a turn of the loop. But the loop must look around now
            // and then.
            const UNWATCHED: u32 = 64;
            let straight = state.unwatched.get() < UNWATCHED && self.faults.pauses.is_empty();
            if straight && state.events.borrow_mut().first_or_push(at, what) {
                state.unwatched.set(state.unwatched.get() + 1);
                self.set_now(at);
                return;
            }
            if !straight {
                state.events.borrow_mut().push(at, what);
            }
            tasks[task].status = VirtualTaskStatus::Due;
            next
        };
        state.tasks.borrow_mut()[task].turn = turn;
        self.suspend(state, task);
    }

    /// Back to the loop, until the loop goes on with this task.
    fn suspend(&self, state: &State, task: usize) {
        let yielder = state.tasks.borrow()[task].yielder;
        assert!(!yielder.is_null(), "V1: a task gave up the CPU that never had it");
        // SAFETY: the task set the pointer in its own coroutine, in which this code runs (V1: it is `current`), so
        // the coroutine is alive and the call is made from inside it.
        unsafe { (*yielder).suspend(()) };
    }

    /// The task goes on at `at` instead of whenever it would have.
    fn due(&self, state: &State, task: usize, at: u64, status: VirtualTaskStatus) {
        let mut tasks = state.tasks.borrow_mut();
        tasks[task].status = status;
        let turn = tasks[task].next_turn();
        state.events.borrow_mut().push(at, EventSubject::Task { task: task as u32, turn });
    }

    fn park(&self, state: &State, task: usize, until: Option<u64>) {
        self.refuse_in_kernel();
        if state.tearing_down.get() {
            return;
        }
        assert_eq!(state.current.get(), Some(task), "V1: only the task that runs can park");
        if std::mem::take(&mut state.tasks.borrow_mut()[task].token) {
            return;
        }
        match until {
            Some(at) => self.due(state, task, at.max(self.now()), VirtualTaskStatus::Napping),
            None => state.tasks.borrow_mut()[task].status = VirtualTaskStatus::Parked,
        }
        self.suspend(state, task);
    }

    fn unpark(&self, state: &State, task: usize) {
        if let Some(after) = self.faults.lose_wake_up {
            state.wake_ups.set(state.wake_ups.get() + 1);
            if state.wake_ups.get() == after + 1 {
                return;
            }
        }
        // A receipt of a core is charged its hand-over already. A wake-up by another agent costs `wake_ns`.
        let delay = if state.current.get().is_some() { self.shaken(state, self.costs.wake_ns) } else { 0 };
        let status = state.tasks.borrow()[task].status;
        match status {
            VirtualTaskStatus::Parked | VirtualTaskStatus::Napping => {
                self.due(state, task, self.now().saturating_add(delay), VirtualTaskStatus::Waking)
            }
            VirtualTaskStatus::Running
            | VirtualTaskStatus::Due
            | VirtualTaskStatus::Hung
            | VirtualTaskStatus::Stopped => state.tasks.borrow_mut()[task].token = true,
            VirtualTaskStatus::Waking | VirtualTaskStatus::Done => {}
        }
    }

    /// A place where an agent may lose the CPU.
    fn maybe_preempt(&self) {
        if self.faults.preempt_ns == 0 {
            return;
        }
        let state = self.state();
        let Some(task) = state.current.get() else { return };
        if state.tearing_down.get() {
            return;
        }
        let ns = {
            let mut random = state.random.borrow_mut();
            if random.once_in(4) { random.between(1, self.faults.preempt_ns) } else { 0 }
        };
        self.spend(state, task, ns);
    }
}

impl Virtual {
    /// A device of `arch` with this many agents, the orchestrator included.
    pub fn new(arch: &ArchSpec, agents: usize, seed: u64, faults: Faults) -> Self {
        // Two sequences from one seed: one for lots, one for everything else.
        let mut seeds = Random::new(seed);
        let (lots, other) = (seeds.bits(), seeds.bits());
        let state = State {
            events: RefCell::new(Events::new(lots)),
            random: RefCell::new(Random::new(other)),
            tasks: RefCell::default(),
            cores: RefCell::new(Cores::new(arch, agents)),
            kernel_costs: RefCell::default(),
            executions: RefCell::new(vec![0; agents]),
            current: Cell::new(None),
            collector: Cell::new(None),
            host_waiters: RefCell::default(),
            abandoned: Cell::new(false),
            tearing_down: Cell::new(false),
            unwatched: Cell::new(0),
            standstill: Cell::new(0),
            wake_ups: Cell::new(0),
        };
        let inner = VirtualMachine {
            now: AtomicU64::new(0),
            kernel: AtomicU64::new(0),
            hz: if arch.counter_hz == 0 { 1_000_000_000 } else { arch.counter_hz },
            costs: arch.costs,
            faults,
            agents,
            thread: AtomicUsize::new(0),
            state,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Ticks per second.
    pub fn hz(&self) -> u64 {
        self.inner.hz
    }

    /// What the arch's counter says at a virtual time.
    pub fn ticks_at(&self, ns: u64) -> u64 {
        self.inner.ticks(ns)
    }

    /// Virtual time since the device was opened, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.inner.now()
    }

    /// The end of the clock, in nanoseconds: later than this neither they nor ticks fit their words.
    pub fn end_ns(&self) -> u64 {
        let ticks_fit = u128::from(u64::MAX) * 1_000_000_000 / u128::from(self.inner.hz);
        u64::try_from(ticks_fit).unwrap_or(u64::MAX).min(u64::MAX / 4)
    }

    /// The kernel that runs now, if one does, and how many have run: for a look from another thread.
    pub fn running_kernel(&self) -> (Option<u32>, u32) {
        let word = self.inner.kernel.load(Ordering::Relaxed);
        ((word as u32).checked_sub(1), (word >> 32) as u32)
    }

    /// The world of all agents.
    pub fn recorder_world(&self) -> VirtualWorld {
        VirtualWorld { inner: Arc::clone(&self.inner) }
    }

    /// Whether every agent has returned: what is left are the collector and the timer.
    pub fn agents_done(&self) -> bool {
        let tasks = self.inner.state().tasks.borrow();
        tasks.iter().take(self.inner.agents).all(|task| task.status == VirtualTaskStatus::Done)
    }

    /// The body of the collector: drains whenever there is something, until every agent has returned.
    pub fn serve_recorder(&self, drain: impl Fn() -> usize) {
        let state = self.inner.state();
        let Some(task) = state.current.get() else { return };
        loop {
            let buffers = drain() as u64;
            if buffers > 0 {
                let ns = self.inner.shaken(state, buffers * self.inner.costs.collect_ns);
                self.inner.spend(state, task, ns);
                let waiters = std::mem::take(&mut *state.host_waiters.borrow_mut());
                waiters.into_iter().for_each(|waiter| self.inner.unpark(state, waiter));
            } else if self.agents_done() {
                return;
            } else {
                self.inner.park(state, task, None);
            }
        }
    }

    /// The task that runs sleeps until this time, or until every agent has returned.
    pub fn nap_until(&self, at_ns: u64) {
        let state = self.inner.state();
        let Some(task) = state.current.get() else { return };
        while self.inner.now() < at_ns && !self.agents_done() {
            self.inner.park(state, task, Some(at_ns));
        }
    }

    /// What the cores behind mailboxes execute, by core.
    pub fn on_cores(&self) -> Vec<OnCore> {
        let cores = self.inner.state().cores.borrow();
        let what = |(core, Flight { order, start, .. }): (CoreId, Flight)| OnCore {
            core,
            word: order.word,
            token: order.token,
            since: self.inner.ticks(start),
        };
        cores.oldest().map(what).collect()
    }

    /// Kernels that do not end, and whoever stands still for good, are not waited for from now on.
    pub fn abandon(&self) {
        let state = self.inner.state();
        state.abandoned.set(true);
        // An agent whose wake-up was lost is in no list of sleepers any more.
        let lost = self.inner.faults.lose_wake_up.is_some();
        let hung = |task: &VirtualTask| match task.status {
            VirtualTaskStatus::Hung | VirtualTaskStatus::Stopped => true,
            VirtualTaskStatus::Parked => lost,
            _ => false,
        };
        let all: Vec<usize> =
            (0..).zip(state.tasks.borrow().iter()).filter(|(_, t)| hung(t)).map(|(at, _)| at).collect();
        all.into_iter().for_each(|task| self.inner.due(state, task, self.inner.now(), VirtualTaskStatus::Due));
    }
}

#[cfg(test)]
mod tests;
