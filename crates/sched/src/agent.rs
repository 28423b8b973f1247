//! An agent: takes ready tasks, executes them, releases those that waited for them.
//!
//! On an inline port the agent's thread is scheduler and core at once. The orchestrator owns an agent too and lends a
//! hand with it when it would wait.

use crate::execute::{KernelOutcome, fail};
use crate::kernel::KernelEntry;
use crate::policy::grain::light_ticks;
use crate::shared::{ORCHESTRATOR, Shared};
use crate::slot::{Slot, SlotRef};
use crate::sync::Ordering;
use plimsoll_abi::board::Activity;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::{Platform, Work};
use plimsoll_probe::{Lane, PhaseSpan, TaskSpan};
use plimsoll_shm::{Board, StatusLine, World};

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
    /// Its line of the status board.
    pub(crate) status: &'r StatusLine,
    /// The board.
    pub(crate) board: &'r Board,
    pub(crate) id: AgentId,
    /// A task that this agent made ready and will run next, before anything from a queue.
    pub(crate) next: Option<SlotRef>,
    /// Kernels that take fewer ticks are light; 0 if nothing is.
    pub(crate) light: u32,
    /// Light tasks wait where nobody gets to them: they are taken, too.
    pub(crate) takes_light: bool,
    loops: u32,
    pub(crate) pop_miss: u32,
    /// When the last phase ended, if phases are recorded.
    phase_end: L::Stamp,
    /// The phase since then completes a task, and goes on until the next task begins if that follows at once: one clock
    /// reading ends the one and begins the other.
    completing: bool,
    pub(crate) idle_ticks: u64,
    /// What the orchestrator calls now and then while it waits or lends a hand.
    pub pulse: Option<std::sync::Arc<Pulse>>,
}

/// What makes an agent look closer at the tasks that it executes: their arguments, or counters.
const WATCHED: Flags = Flags::TENSOR_DUMP.with(Flags::PMU);

/// What an orchestrator's thread has to do besides, such as looking for signals: called before it waits or executes tasks,
/// before each further task that it executes while it would wait, and every few milliseconds of a sleep.
pub type Pulse = dyn Fn() + Send + Sync;

impl<'r, P: Platform, L: Lane> Agent<'r, P, L> {
    /// Agent `id`.
    pub fn new(
        shared: &'r Shared,
        platform: &'r P,
        kernels: &'r [KernelEntry],
        board: &'r Board,
        lane: L,
        id: AgentId,
    ) -> Self {
        let status = board.agent(id);
        status.enter(0);
        Self {
            shared,
            platform,
            lane,
            kernels,
            world: platform.world(id),
            status,
            board,
            id,
            next: None,
            light: light_ticks(shared, platform),
            takes_light: false,
            loops: 0,
            pop_miss: 0,
            phase_end: L::Stamp::default(),
            completing: false,
            idle_ticks: 0,
            pulse: None,
        }
    }

    /// Takes note of whether the orchestrator lends a hand, which was not known before.
    #[cfg(not(loom))]
    pub(crate) fn weigh(&mut self) {
        self.light = light_ticks(self.shared, self.platform);
    }

    /// Goes on counting dispatches from `token`: an earlier round of the same recording ended there.
    pub fn resume_tokens(&mut self, token: u32) {
        self.status.resume(token);
    }

    /// Executes tasks until `total` have completed, or the run has failed. For whoever launched a prebuilt graph.
    pub fn work_until(&mut self, total: u64, lend: bool) {
        loop {
            let seen = self.shared.done.total();
            if seen == total || self.shared.stopped() {
                return self.end_completing();
            }
            if lend && self.step() {
                self.beat();
            } else {
                self.await_progress(seen, lend);
            }
        }
    }

    /// Calls the pulse, if there is one.
    #[inline(always)]
    pub(crate) fn beat(&self) {
        if let Some(pulse) = &self.pulse {
            pulse();
        }
    }

    /// Its number.
    pub fn id(&self) -> AgentId {
        self.id
    }

    /// Executions so far.
    pub fn dispatches(&self) -> u32 {
        self.status.begun()
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
        self.status.leave();
    }

    /// Says on the status board what it does.
    pub fn set_activity(&self, activity: Activity) {
        self.status.set(activity);
    }

    /// Executes one ready task, if there is one.
    #[inline]
    pub fn step(&mut self) -> bool {
        if self.shared.has_notice() {
            return self.heed();
        }
        self.execute_next()
    }

    /// Executes the next ready task, if there is one.
    #[inline]
    pub(crate) fn execute_next(&mut self) -> bool {
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
        if !slot.is_ordinary() {
            return self.execute_shaped(at);
        }
        if self.lane.meets(WATCHED) {
            return self.execute_watched(at);
        }
        match self.run_kernel::<false>(slot, |agent, kernel| agent.call(slot, kernel)) {
            Ok(Ok(())) => self.complete(at, slot),
            outcome => self.fail_kernel(slot, slot.kernel(), outcome),
        }
    }

    /// A kernel of the task did not end well here.
    #[cold]
    pub(crate) fn fail_kernel(&self, slot: &Slot, kernel: u32, outcome: KernelOutcome) {
        fail(self.shared, self.platform, slot, kernel, CoreId(self.id.0), outcome);
    }

    /// One execution of the task on this agent's own core, by `call`, with its record. Counters are read if it is `WATCHED`.
    #[inline(always)]
    pub(crate) fn run_kernel<const WATCHED: bool>(
        &mut self,
        slot: &Slot,
        call: impl FnOnce(&mut Self, u32) -> KernelOutcome,
    ) -> KernelOutcome {
        let kernel = slot.kernel();
        self.status.begin(slot.task.load(Ordering::Relaxed), kernel);
        self.platform.charge(self.id, Work::Dispatch);
        if WATCHED {
            self.begin_counting();
        }
        let start = self.lane.stamp_for(Flags::CORE_TIMING);
        if let Some(tick) = L::ticks(start) {
            self.status.note_since(tick);
        }
        let outcome = call(self, kernel);
        let end = self.lane.stamp_for(Flags::CORE_TIMING);
        if WATCHED {
            self.end_counting(slot, kernel);
        }
        self.status.end();
        self.loops = self.loops.wrapping_add(1);
        if self.lane.on(Flags::CORE_TIMING) {
            self.lane.task(&TaskSpan {
                core: CoreId(self.id.0),
                task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
                kernel: KernelId(kernel),
                token: self.status.begun(),
                dispatch: start,
                receive: start,
                start,
                end,
                finish: end,
            });
        }
        if self.lane.on(Flags::SCHED_PHASES) {
            if let Some((from, until)) = crate::kernel_wait::take() {
                self.lane.gil_wait(from, until);
            }
            self.record_dispatch(start, end);
        }
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
    pub(crate) fn complete(&mut self, at: SlotRef, slot: &Slot) {
        self.finish(at, slot, true, |agent, consumer| {
            // The first one runs here, while what it reads is still in this core's cache.
            if let Some(other) = agent.next.replace(consumer) {
                agent.publish(other);
            }
        });
    }

    /// The task has completed: every consumer that this makes ready is handed to `ready`, and the task is counted. With
    /// `goes_on` the agent takes the next task itself, and the phase ends where that begins.
    #[inline(always)]
    pub(crate) fn finish(
        &mut self,
        at: SlotRef,
        slot: &Slot,
        goes_on: bool,
        mut ready: impl FnMut(&mut Self, SlotRef),
    ) {
        let shared = self.shared;
        if self.lane.on(Flags::TENSOR_DUMP) {
            self.dump(slot, true);
        }
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
        self.note_finished(goes_on);
    }

    /// Ends the phase that took note of a finished execution, unless it goes on until the next task begins.
    #[inline(always)]
    pub(crate) fn note_finished(&mut self, goes_on: bool) {
        if self.lane.on(Flags::SCHED_PHASES) {
            if goes_on {
                self.completing = true;
            } else {
                self.phase(SchedPhaseKind::Complete, 1, 0);
            }
        }
    }
}
