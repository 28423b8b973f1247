//! The loop: takes the next event and resumes the task or core that it concerns.

use super::cores::Flight;
use super::events::EventSubject;
use super::fault::{Pause, Who};
use super::tasks::{VirtualTask, VirtualTaskStatus};
use super::{State, Virtual, this_thread};
use crate::ports::{CoreSide, Order, Receipt, Times};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use plimsoll_abi::{AgentId, CoreId};
use std::sync::atomic::Ordering;

/// Events at one moment after which time is taken to stand still for ever.
const STANDSTILL: u32 = 10_000_000;

/// What a task of the loop does.
pub struct Body<'a> {
    /// Bytes of its stack. Untouched pages cost nothing.
    pub stack_bytes: usize,
    /// What it runs.
    pub run: Box<dyn FnOnce() + 'a>,
}

/// Why the event loop calls its watcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchReason {
    /// An event comes next.
    Event,
    /// Nothing can happen any more, and not everybody has returned.
    Stuck,
    /// The loop ends by a panic, a defect: whoever waits is about to be unwound, and must not wait again.
    Broken,
}

/// Undoes what `run` sets up, on every way out. Dropped before the coroutines are, so that those that are unwound
/// after a defect do not wait.
struct Bound<'v>(&'v Virtual);

impl<'v> Bound<'v> {
    fn new(platform: &'v Virtual) -> Self {
        // Acquire pairs(virtual.thread): what the run before left in the state.
        let claimed = platform.inner.thread.compare_exchange(0, this_thread(), Ordering::Acquire, Ordering::Relaxed);
        assert!(claimed.is_ok(), "a device in virtual time has one run at a time");
        platform.inner.state().tearing_down.set(false);
        Self(platform)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.0.inner.state().current.set(None);
        // Release pairs(virtual.thread).
        self.0.inner.thread.store(0, Ordering::Release);
    }
}

/// Marks that coroutines are unwound, and says so, if the loop ends by a panic.
struct TearDown<'v> {
    state: &'v State,
    watch: &'v dyn Fn(WatchReason),
}

impl Drop for TearDown<'_> {
    fn drop(&mut self) {
        self.state.tearing_down.set(true);
        if std::thread::panicking() {
            (self.watch)(WatchReason::Broken);
        }
    }
}

type Fiber = Coroutine<(), (), ()>;

impl Virtual {
    /// Runs the bodies to their ends: first the agents by number, then, if there is one, the collector, then others. `watch`
    /// is called before every event. It is also called when nothing can happen any more, and must then make something
    /// happen; and when a defect ends the loop, and must then end every wait.
    ///
    /// # Errors
    /// What the system says when it refuses a stack for a body.
    ///
    /// # Panics
    /// If nothing can happen although `watch` was told, which is a defect such as a lost wake-up; and with whatever a
    /// body panics with.
    pub fn run(
        &self,
        bodies: Vec<Body<'_>>,
        collector: Option<usize>,
        kernel_costs: Vec<super::KernelCost>,
        cores: &dyn CoreSide,
        watch: impl Fn(WatchReason),
    ) -> std::io::Result<()> {
        let bound = Bound::new(self);
        let state = self.inner.state();
        self.begin(state, bodies.len(), collector, kernel_costs);
        let mut fibers = Vec::with_capacity(bodies.len());
        for (at, body) in bodies.into_iter().enumerate() {
            fibers.push(self.fiber(at, body)?);
            self.inner.due(state, at, self.inner.now(), VirtualTaskStatus::Due);
        }
        let tear_down = TearDown { state, watch: &watch };
        let mut left = fibers.len();
        while left > 0 {
            left -= usize::from(self.step(state, &mut fibers, cores, &watch));
        }
        drop((tear_down, fibers, bound));
        Ok(())
    }

    fn begin(&self, state: &State, tasks: usize, collector: Option<usize>, costs: Vec<super::KernelCost>) {
        *state.tasks.borrow_mut() = (0..tasks).map(|_| VirtualTask::new()).collect();
        *state.kernel_costs.borrow_mut() = costs;
        state.host_waiters.borrow_mut().clear();
        // Events of an earlier run that hung are void: its tasks are gone and its cores are idle again.
        while state.events.borrow_mut().pop().is_some() {}
        state.cores.borrow_mut().reset(self.inner.now());
        state.collector.set(collector);
        state.abandoned.set(false);
    }

    fn fiber(&self, at: usize, body: Body<'_>) -> std::io::Result<Fiber> {
        let stack = DefaultStack::new(body.stack_bytes)?;
        let inner = &*self.inner;
        // SAFETY: what the body borrows outlives `run`, and `run` drops every coroutine, which ends or unwinds it,
        // before it returns or unwinds itself.
        let fiber = unsafe {
            Fiber::with_stack_unchecked(stack, move |yielder, ()| {
                inner.state().tasks.borrow_mut()[at].yielder = yielder;
                (body.run)();
            })
        };
        Ok(fiber)
    }

    /// Deals with one event. True: a task has returned.
    fn step(&self, state: &State, fibers: &mut [Fiber], cores: &dyn CoreSide, watch: &impl Fn(WatchReason)) -> bool {
        watch(WatchReason::Event);
        let next = state.events.borrow_mut().pop();
        let Some(event) = next else {
            watch(WatchReason::Stuck);
            assert!(state.events.borrow().any(), "nothing can happen any more: {}", describe(state));
            return false;
        };
        self.tell_standstill(state, event.at);
        match event.what {
            EventSubject::Core { core } => self.finish_on(state, CoreId(core as u16), event.at, cores),
            EventSubject::Task { task, turn } => {
                let task = task as usize;
                if state.tasks.borrow()[task].turn != turn {
                    return false;
                }
                if let Some(end) = self.pause_of(state, task, event.at) {
                    if end == Pause::FOR_GOOD {
                        state.tasks.borrow_mut()[task].status = VirtualTaskStatus::Stopped;
                        return false;
                    }
                    let status = state.tasks.borrow()[task].status;
                    self.inner.due(state, task, end, status);
                    return false;
                }
                self.inner.set_now(event.at);
                return self.resume(state, task, &mut fibers[task]);
            }
        }
        false
    }

    fn tell_standstill(&self, state: &State, at: u64) {
        let count = if at == self.inner.now() { state.standstill.get() + 1 } else { 0 };
        assert!(count < STANDSTILL, "virtual time stands still at {at} ns: {}", describe(state));
        state.standstill.set(count);
    }

    fn resume(&self, state: &State, task: usize, fiber: &mut Fiber) -> bool {
        state.tasks.borrow_mut()[task].status = VirtualTaskStatus::Running;
        state.unwatched.set(0);
        state.current.set(Some(task));
        let result = fiber.resume(());
        state.current.set(None);
        if matches!(result, CoroutineResult::Yield(())) {
            return false;
        }
        state.tasks.borrow_mut()[task].status = VirtualTaskStatus::Done;
        if self.agents_done() {
            // The collector and the timer have nothing to wait for.
            let tasks = state.tasks.borrow().len();
            (self.inner.agents..tasks).for_each(|helper| self.inner.unpark(state, helper));
        }
        true
    }

    /// A core's oldest task ends, and its scheduler can see that.
    fn finish_on(&self, state: &State, core: CoreId, now: u64, cores: &dyn CoreSide) {
        self.inner.set_now(now);
        let ended = state.cores.borrow_mut().end_oldest(core);
        let Some((owner, Flight { order, receive, start, end })) = ended else { return };
        let [receive, start, end] = [receive, start, end].map(|ns| self.inner.ticks(ns));
        if order.is_recorded() {
            cores.begins(core, start);
        }
        // SAFETY: the core's owner dispatched it, and it was just taken out of the core's flight.
        let succeeded = unsafe { cores.execute(core, &order) };
        cores.stage(core, &order);
        if order.is_recorded() {
            // SAFETY: as above; the owner sees the receipt below.
            unsafe { cores.stamp(core, &order, &Times { receive, start, end }) };
        }
        let Order { token, word, .. } = order;
        let receipt = Receipt { core, token, word, succeeded, busy: end - start, waited: None };
        state.cores.borrow_mut().leave_receipt(owner, receipt);
        cores.report(owner);
    }

    /// The end of the pause that `task` is in at `now`.
    fn pause_of(&self, state: &State, task: usize, now: u64) -> Option<u64> {
        if state.abandoned.get() {
            return None;
        }
        let is = |who| match who {
            Who::Agent(agent) => AgentId(agent).index() == task,
            Who::Collector => state.collector.get() == Some(task),
        };
        let pauses = self.inner.faults.pauses.iter();
        pauses.filter(|pause| is(pause.who) && (pause.from_ns..pause.to_ns).contains(&now)).map(|p| p.to_ns).max()
    }
}

/// Who does what, for messages about defects.
fn describe(state: &State) -> String {
    let tasks = state.tasks.borrow();
    let parts = tasks.iter().enumerate().map(|(at, task)| format!("task {at} is {:?}", task.status));
    parts.collect::<Vec<_>>().join(", ")
}
