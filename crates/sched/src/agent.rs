//! An agent: takes ready tasks, executes them, releases those that waited for them.
//!
//! On an inline port the agent's thread is scheduler and core at once. The orchestrator owns an agent too and lends a
//! hand with it when it would wait.

use crate::args::ArgWords;
use crate::execute::{Outcome, arg_words, call, fail};
use crate::kernel::KernelEntry;
use crate::shared::{ORCHESTRATOR, Shared};
use crate::slot::{Slot, SlotRef};
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::{Patience, Platform, Work};
use plimsoll_probe::{Lane, PhaseSpan, TaskSpan};
use plimsoll_shm::World;
use std::sync::atomic::Ordering;

/// Ready tasks taken from another agent at once.
const STEAL: u64 = 32;

/// Every how many executions the kernel is timed.
const SAMPLED: u32 = 64;

/// One agent of a run.
pub struct Agent<'r, P: Platform, L: Lane> {
    /// What it shares with the others.
    pub shared: &'r Shared,
    /// The world it runs in.
    pub platform: &'r P,
    /// Its record writer.
    pub lane: L,
    kernels: &'r [KernelEntry],
    world: P::World,
    id: AgentId,
    /// A task that this agent made ready and will run next, before anything from a queue.
    next: Option<SlotRef>,
    /// Kernels that take fewer ticks are light; 0 if nothing is.
    light: u32,
    /// Light tasks wait where nobody gets to them: they are taken, too.
    takes_light: bool,
    /// Dispatches so far: the last token.
    token: u32,
    loops: u32,
    pop_miss: u32,
    /// When the last phase ended, if phases are recorded.
    phase_end: L::Stamp,
    /// The phase since then completes a task, and goes on until the next task begins if that follows at once: one clock
    /// reading ends the one and begins the other.
    completing: bool,
    idle_ticks: u64,
}

/// Kernels that take fewer ticks are light. Only if the orchestrator executes tasks, too: light ones are left to it.
fn light_ticks<P: Platform>(shared: &Shared, platform: &P) -> u32 {
    if P::WEIGHS && shared.agents() > 1 && shared.lends() { platform.light_ticks() } else { 0 }
}

/// Tasks that were ever taken from all queues and added to them, as far as can be told.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moved {
    taken: u64,
    added: u64,
}

impl<'r, P: Platform, L: Lane> Agent<'r, P, L> {
    /// Agent `id`.
    pub fn new(shared: &'r Shared, platform: &'r P, kernels: &'r [KernelEntry], lane: L, id: AgentId) -> Self {
        Self {
            shared,
            platform,
            lane,
            kernels,
            world: platform.world(id),
            id,
            next: None,
            light: light_ticks(shared, platform),
            takes_light: false,
            token: 0,
            loops: 0,
            pop_miss: 0,
            phase_end: L::Stamp::default(),
            completing: false,
            idle_ticks: 0,
        }
    }

    /// Takes note of whether the orchestrator lends a hand, which was not known before.
    pub(crate) fn weigh(&mut self) {
        self.light = light_ticks(self.shared, self.platform);
    }

    /// Goes on counting dispatches from `token`: an earlier round of the same recording ended there.
    pub fn resume_tokens(&mut self, token: u32) {
        self.token = token;
    }

    /// Executes tasks until `total` have completed, or the run has failed. For whoever launched a prebuilt graph.
    pub fn work_until(&mut self, total: u64, lend: bool) {
        loop {
            let seen = self.shared.done.total();
            if seen == total || self.shared.stopped() {
                return self.end_completing();
            }
            if !(lend && self.step()) {
                self.await_progress(seen, lend);
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> AgentId {
        self.id
    }

    /// Executions so far.
    pub fn dispatches(&self) -> u32 {
        self.token
    }

    /// Time spent without work, in ticks.
    pub fn idle_ticks(&self) -> u64 {
        self.idle_ticks
    }

    /// The clock of its world.
    pub fn ticks(&self) -> u64 {
        self.world.ticks()
    }

    /// Executes tasks until the run closes.
    pub fn work(&mut self) {
        self.phase_end = self.lane.stamp();
        loop {
            if self.step() {
                continue;
            }
            if self.shared.closing() {
                break;
            }
            self.idle();
        }
        self.end_completing();
        self.lane.flush();
    }

    /// Executes one ready task, if there is one.
    #[inline]
    pub fn step(&mut self) -> bool {
        match self.take() {
            Some(task) => {
                self.execute(task);
                true
            }
            None => false,
        }
    }

    /// Tasks that wait in its own queue.
    #[inline(always)]
    pub fn backlog(&self) -> u64 {
        self.shared.queues[self.id.index()].len()
    }

    /// Makes a ready task known to all agents.
    #[inline(always)]
    pub fn publish(&mut self, task: SlotRef) {
        if P::CLASSED {
            return self.publish_by_class(task);
        }
        let queue = &self.shared.queues[self.id.index()];
        queue.push(task.0);
        if P::WEIGHS && self.light > 0 {
            let kernel = self.shared.slot(task).kernel();
            if self.kernels[kernel as usize].grain.is_light(self.light) {
                return self.shared.sleep.published_light(self.platform);
            }
        }
        queue.call();
        self.shared.sleep.published(self.platform);
    }

    /// Before a kernel that may take long: what waits behind it is for others to take.
    #[inline(never)]
    fn call_thieves(&self) {
        let queue = &self.shared.queues[self.id.index()];
        if !queue.is_empty() {
            queue.call();
            self.shared.sleep.published(self.platform);
        }
    }

    /// Whether there is something that it should rather do itself.
    #[inline(always)]
    pub fn has_light_work(&self) -> bool {
        let queue = &self.shared.queues[self.id.index()];
        self.light > 0 && (self.next.is_some() || (!queue.is_empty() && !queue.calls()))
    }

    /// It has other things to do now: what it would run next is for whoever comes first.
    #[inline(always)]
    pub fn lay_down(&mut self) {
        if let Some(task) = self.next.take() {
            self.publish(task);
        }
        self.end_completing();
    }

    /// Nothing follows the completed task at once.
    #[inline(always)]
    pub(crate) fn end_completing(&mut self) {
        if std::mem::take(&mut self.completing) {
            self.phase(SchedPhaseKind::Complete, 1, 0);
        }
    }

    /// As `publish`, where a task may want a core of one class.
    fn publish_by_class(&mut self, task: SlotRef) {
        if !self.shared.is_classed() {
            self.shared.queues[self.id.index()].push(task.0);
            self.shared.queues[self.id.index()].call();
            return self.shared.sleep.published(self.platform);
        }
        let kernel = self.shared.slot(task).kernel();
        let class = self.kernels[kernel as usize].class as usize;
        self.shared.class_queues(class)[self.id.index()].push(task.0);
        crate::mailbox::published(self.shared, self.platform, self.id, class, task);
    }

    #[inline]
    fn take(&mut self) -> Option<SlotRef> {
        if self.shared.stopped() {
            return None;
        }
        if let Some(task) = self.next.take() {
            return Some(task);
        }
        match self.shared.queues[self.id.index()].take() {
            Some(item) => Some(SlotRef(item)),
            None => self.steal(),
        }
    }

    #[inline(never)]
    fn steal(&mut self) -> Option<SlotRef> {
        self.end_completing();
        let agents = self.shared.agents();
        let own = &self.shared.queues[self.id.index()];
        for turn in 1..agents {
            let victim = &self.shared.queues[(self.id.index() + turn) % agents];
            if victim.is_empty() || !(self.takes_light || victim.calls()) {
                continue;
            }
            if let Some(item) = victim.take_half(STEAL, |item| own.push(item)) {
                // What was taken besides waits behind the first one here, unless a sleeper comes for it.
                if !own.is_empty() && !self.takes_light {
                    own.call();
                    self.shared.sleep.published(self.platform);
                }
                self.takes_light = false;
                if self.lane.on(Flags::SCHED_PHASES) {
                    self.phase(SchedPhaseKind::Steal, 1, 1);
                }
                return Some(SlotRef(item));
            }
        }
        self.takes_light = false;
        self.pop_miss += 1;
        None
    }

    /// Whether there is anything to do, as far as can be told.
    fn has_work(&self) -> bool {
        let own = &self.shared.queues[self.id.index()];
        self.shared.closing()
            || (!self.shared.stopped() && (!own.is_empty() || self.shared.queues.iter().any(|queue| queue.calls())))
    }

    /// Whether there is enough to take, or little but for long enough. A thief that takes every task as it is published
    /// fights for the very lines that the orchestrator is writing; a few tasks behind, it does not meet it.
    fn is_ripe(&self, step: u32) -> bool {
        const BATCH: u64 = 8;
        const PATIENCE: u32 = 12;
        let enough = if step < PATIENCE { BATCH } else { 1 };
        self.shared.closing()
            || (!self.shared.stopped() && self.shared.queues.iter().any(|queue| queue.len() >= enough && queue.calls()))
    }

    /// Waits for work: a little busily, then asleep.
    fn idle(&mut self) {
        if self.light == 0 {
            return self.idle_until(Self::is_ripe);
        }
        let since = self.world.ticks();
        self.shared.sleep.begin_lookout();
        let mut before = self.moved();
        let mut step = 0;
        let mut nap = 100;
        loop {
            if self.is_ripe(step) {
                break;
            }
            if self.platform.relax(self.id, step) == Patience::Again {
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
    /// busily, then asleep.
    #[inline(always)]
    pub(crate) fn idle_until(&mut self, ripe: impl Fn(&Self, u32) -> bool) {
        let since = self.world.ticks();
        let mut step = 0;
        while !ripe(self, step) {
            if self.platform.relax(self.id, step) == Patience::Park {
                self.shared.sleep.sleep(self.platform, self.id, || ripe(self, u32::MAX));
                break;
            }
            step += 1;
        }
        self.idle_ticks += self.world.ticks() - since;
        if self.lane.on(Flags::SCHED_PHASES) {
            self.phase(SchedPhaseKind::Park, 0, 0);
        }
    }

    /// The orchestrator has nothing to do: waits until more than `seen` tasks have completed or, if it lends a hand, one
    /// is ready. `seen` was read before whatever made the orchestrator wait, so that no completion falls in between.
    pub fn await_progress(&mut self, seen: u64, lend: bool) {
        self.end_completing();
        let since = self.world.ticks();
        let moved =
            |agent: &Self| agent.shared.done.total() != seen || agent.shared.stopped() || (lend && agent.has_work());
        let mut step = 0;
        while !moved(self) {
            if self.platform.relax(self.id, step) == Patience::Park {
                self.shared.sleep.watch(true);
                self.shared.sleep.sleep(self.platform, self.id, || moved(self));
                self.shared.sleep.watch(false);
                break;
            }
            step += 1;
        }
        self.idle_ticks += self.world.ticks() - since;
    }

    /// Records a phase of the orchestrator's that began at `start` and ends now.
    pub(crate) fn release_phase(&mut self, start: L::Stamp, kind: SchedPhaseKind) {
        let end = self.lane.stamp();
        self.lane.sched_phase(&PhaseSpan {
            kind,
            start,
            end,
            loop_iter: self.loops,
            tasks_processed: 0,
            pop_hit: 0,
            pop_miss: 0,
        });
    }

    /// The first phase begins now.
    pub(crate) fn begin_phases(&mut self) {
        if self.lane.on(Flags::SCHED_PHASES) {
            self.phase_end = self.lane.stamp();
        }
    }

    /// A loop of the scheduler begins.
    pub(crate) fn next_loop(&mut self) {
        self.loops = self.loops.wrapping_add(1);
    }

    /// A look into the ready queues found nothing.
    pub(crate) fn missed(&mut self) {
        self.pop_miss += 1;
    }

    /// Records that a phase ended now and the next begins.
    pub(crate) fn phase(&mut self, kind: SchedPhaseKind, tasks: u32, pop_hit: u32) {
        let end = self.lane.stamp();
        self.lane.sched_phase(&PhaseSpan {
            kind,
            start: self.phase_end,
            end,
            loop_iter: self.loops,
            tasks_processed: tasks,
            pop_hit,
            pop_miss: std::mem::take(&mut self.pop_miss),
        });
        self.phase_end = end;
    }

    #[inline]
    fn execute(&mut self, at: SlotRef) {
        let slot = self.shared.slot(at);
        let kernel = slot.kernel();
        self.platform.charge(self.id, Work::Dispatch);
        let start = self.lane.stamp_for(Flags::CORE_TIMING);
        let outcome = self.call(slot, kernel);
        let end = self.lane.stamp_for(Flags::CORE_TIMING);
        self.token += 1;
        self.loops = self.loops.wrapping_add(1);
        if self.lane.on(Flags::CORE_TIMING) {
            self.lane.task(&TaskSpan {
                core: CoreId(self.id.0),
                task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
                kernel: KernelId(kernel),
                token: self.token,
                dispatch: start,
                receive: start,
                start,
                end,
                finish: end,
            });
        }
        if self.lane.on(Flags::SCHED_PHASES) {
            self.record_dispatch(start, end);
        }
        match outcome {
            Ok(Ok(())) => self.complete(at, slot),
            outcome => fail(self.shared, self.platform, self.kernels, slot, CoreId(self.id.0), outcome),
        }
    }

    #[inline]
    fn call(&mut self, slot: &Slot, kernel: u32) -> Outcome {
        let entry = &self.kernels[kernel as usize];
        if P::WEIGHS && self.light > 0 {
            if !entry.grain.is_light(self.light) {
                self.call_thieves();
            }
            if self.token.is_multiple_of(SAMPLED) || entry.grain.is_unknown() {
                return self.call_timed(slot, entry);
            }
        }
        let outcome = call(self.platform, entry, slot, kernel);
        self.platform.charge_kernel(self.id, kernel, || ArgWords::new(arg_words(slot)).elements());
        outcome
    }

    /// As `call`, and notes how long it took.
    #[inline(never)]
    fn call_timed(&mut self, slot: &Slot, entry: &KernelEntry) -> Outcome {
        let kernel = slot.kernel();
        let start = self.world.ticks();
        let outcome = call(self.platform, entry, slot, kernel);
        entry.grain.note(self.world.ticks() - start, self.light);
        outcome
    }

    fn record_dispatch(&mut self, start: L::Stamp, end: L::Stamp) {
        // A task that followed at once was not looked for: completing the last one took until now.
        let completing = std::mem::take(&mut self.completing);
        self.lane.sched_phase(&PhaseSpan {
            kind: if completing { SchedPhaseKind::Complete } else { SchedPhaseKind::Dispatch },
            start: self.phase_end,
            end: start,
            loop_iter: self.loops,
            tasks_processed: 1,
            pop_hit: u32::from(!completing),
            pop_miss: std::mem::take(&mut self.pop_miss),
        });
        self.phase_end = end;
    }

    #[inline]
    fn complete(&mut self, at: SlotRef, slot: &Slot) {
        self.finish(at, slot, true, |agent, consumer| {
            // The first one runs here, while what it reads is still in this core's cache.
            if let Some(other) = agent.next.replace(consumer) {
                agent.publish(other);
            }
        });
    }

    /// Takes note of a finished task: hands every consumer that it made ready to `ready` and counts it. With `goes_on` the
    /// agent takes the next task itself, and the phase ends where that begins.
    #[inline(always)]
    pub(crate) fn finish(
        &mut self,
        at: SlotRef,
        slot: &Slot,
        goes_on: bool,
        mut ready: impl FnMut(&mut Self, SlotRef),
    ) {
        let shared = self.shared;
        self.platform.charge(self.id, Work::Complete);
        let mut released = 0;
        slot.fan_out.close(
            |node| shared.node(node),
            |consumer| {
                released += 1;
                if shared.slot(consumer).release_one() {
                    ready(self, consumer);
                }
            },
        );
        let follows = self.next.is_some();
        if released > u32::from(follows) && self.lane.on(Flags::SCHED_PHASES) {
            self.phase(SchedPhaseKind::Resolve, released, 0);
        }
        shared.done.count(self.id.index(), at.ring(), at.index());
        if self.id != ORCHESTRATOR {
            shared.sleep.completed(self.platform, ORCHESTRATOR);
        }
        if self.lane.on(Flags::SCHED_PHASES) {
            if goes_on {
                self.completing = true;
            } else {
                self.phase(SchedPhaseKind::Complete, 1, 0);
            }
        }
    }
}
