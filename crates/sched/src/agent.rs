//! An agent: takes ready tasks, executes them, releases those that waited for them.
//!
//! On an inline port the agent's thread is scheduler and core at once. The orchestrator owns an agent too and lends a
//! hand with it when it would wait.

use crate::execute::fail;
use crate::kernel::KernelEntry;
use crate::policy::grain::light_ticks;
use crate::shared::{ORCHESTRATOR, Shared};
use crate::slot::{Slot, SlotRef};
use crate::sync::{AtomicU32, Ordering};
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::{Platform, Work};
use plimsoll_probe::{Lane, PhaseSpan, TaskSpan};
use plimsoll_shm::World;

/// One agent of a run.
pub struct Agent<'r, P: Platform, L: Lane> {
    /// What it shares with the others.
    pub shared: &'r Shared,
    /// The world it runs in.
    pub platform: &'r P,
    /// Its record writer.
    pub lane: L,
    pub(crate) kernels: &'r [KernelEntry],
    pub(crate) world: P::World,
    /// Where it says which task it executes.
    running: &'r AtomicU32,
    pub(crate) id: AgentId,
    /// A task that this agent made ready and will run next, before anything from a queue.
    pub(crate) next: Option<SlotRef>,
    /// Kernels that take fewer ticks are light; 0 if nothing is.
    pub(crate) light: u32,
    /// Light tasks wait where nobody gets to them: they are taken, too.
    pub(crate) takes_light: bool,
    /// Dispatches so far: the last token.
    pub(crate) token: u32,
    loops: u32,
    pub(crate) pop_miss: u32,
    /// When the last phase ended, if phases are recorded.
    phase_end: L::Stamp,
    /// The phase since then completes a task, and goes on until the next task begins if that follows at once: one clock
    /// reading ends the one and begins the other.
    completing: bool,
    pub(crate) idle_ticks: u64,
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
            running: shared.running_word(id),
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
    #[cfg(not(loom))]
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

    /// Nothing follows the completed task at once.
    #[inline(always)]
    pub(crate) fn end_completing(&mut self) {
        if std::mem::take(&mut self.completing) {
            self.phase(SchedPhaseKind::Complete, 1, 0);
        }
    }

    /// Records a phase of the orchestrator's that began at `start` and ends now.
    #[cfg(not(loom))]
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
        self.running.store(at.0, Ordering::Relaxed);
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

    /// Takes note of a finished execution. The last one of a task completes it: every consumer that this makes ready is
    /// handed to `ready`, and the task is counted. With `goes_on` the agent takes the next task itself, and the phase ends
    /// where that begins.
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
        if slot.finish_execution() {
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
