//! An agent: takes ready tasks, executes them, releases those that waited for them.
//!
//! On an inline port the agent's thread is scheduler and core at once. The orchestrator owns an agent too and lends a
//! hand with it when it would wait.

use crate::done::DoneLane;
use crate::execute::{KernelOutcome, fail};
use crate::kernel::KernelEntry;
use crate::policy::grain::light_ticks;
use crate::ready::ReadyQueue;
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
    /// The queue that it fills.
    pub(crate) queue: &'r ReadyQueue,
    /// Where it counts the tasks that it completed.
    counted: &'r DoneLane,
    /// A task that this agent made ready and will run next, before anything from a queue.
    pub(crate) next: Option<SlotRef>,
    /// Kernels that take fewer ticks are light; 0 if nothing is.
    pub(crate) light: u32,
    /// Whether light tasks of other agents are taken, too, because their owners do not get to them.
    pub(crate) takes_light: bool,
    loops: u32,
    pub(crate) pop_miss: u32,
    /// When the last phase ended, if phases are recorded.
    phase_end: L::Stamp,
    /// Whether the present phase completes a task. If the next task follows at once, the phase lasts until that begins, so
    /// that one clock reading ends the one and begins the other.
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
        // What a kernel of an earlier run on this thread noted, which recorded no phases, is not this run's.
        crate::kernel_wait::take();
        Self {
            shared,
            platform,
            lane,
            kernels,
            world: platform.world(id),
            status,
            board,
            id,
            queue: &shared.queues[id.index()],
            counted: shared.done.lane(id.index()),
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

    /// Calls the pulse, if there is one.
    #[inline]
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
            if self.steps(u32::MAX) {
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
    pub fn step(&mut self) -> bool {
        self.steps(1)
    }

    /// Executes ready tasks, at most `count` of them. Whether there were that many.
    // Its own function: what it takes to enter one, some sixteen instructions, is paid once for all of them.
    #[inline(never)]
    pub fn steps(&mut self, count: u32) -> bool {
        (0..count).all(|_| if self.shared.has_notice() { self.heed() } else { self.execute_next() })
    }

    /// Executes the next ready task, if there is one.
    // Forced inline: left to the compiler, `steps` makes two calls for every task, which takes 27 instructions more.
    #[inline(always)]
    pub(crate) fn execute_next(&mut self) -> bool {
        match self.take() {
            Some(task) => {
                self.execute(task);
                true
            }
            None => false,
        }
    }

    /// Ends the phase that completed a task, because no task follows at once.
    #[inline]
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

    /// Begins the first phase.
    pub(crate) fn begin_phases(&mut self) {
        if self.lane.on(Flags::SCHED_PHASES) {
            self.phase_end = self.lane.stamp();
        }
    }

    /// Counts another loop of the scheduler.
    pub(crate) fn next_loop(&mut self) {
        self.loops = self.loops.wrapping_add(1);
    }

    /// Counts a look into the ready queues that found nothing.
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

    #[inline(always)]
    fn execute(&mut self, at: SlotRef) {
        let slot = self.shared.slot(at);
        if !slot.is_ordinary() {
            return self.execute_shaped(at);
        }
        if self.lane.meets(WATCHED) {
            return self.execute_watched(at);
        }
        let kernel = slot.kernel();
        let start = self.begin_kernel::<false>(slot, kernel);
        let outcome = self.call(slot, kernel);
        self.end_kernel::<false>(slot, kernel, start);
        match outcome {
            Ok(Ok(())) => self.complete(at, slot),
            outcome => self.fail_kernel(slot, kernel, outcome),
        }
    }

    /// Fails the run because a kernel of the task did not end well on this core.
    #[cold]
    pub(crate) fn fail_kernel(&self, slot: &Slot, kernel: u32, outcome: KernelOutcome) {
        fail(self.shared, self.platform, slot, kernel, Some(CoreId(self.id.0)), outcome);
    }

    /// An execution of the task on this agent's own core begins: its start. Counters are read if it is `WATCHED`.
    #[inline(always)]
    pub(crate) fn begin_kernel<const WATCHED: bool>(&mut self, slot: &Slot, kernel: u32) -> L::Stamp {
        self.status.begin(slot.task.load(Ordering::Relaxed), kernel);
        self.platform.charge(self.id, Work::Dispatch);
        if WATCHED {
            self.begin_counting();
        }
        let start = self.lane.stamp_for(Flags::CORE_TIMING);
        if let Some(tick) = L::ticks(start) {
            self.status.note_since(tick);
        }
        start
    }

    /// The execution that began at `start` has ended, and is recorded.
    #[inline(always)]
    pub(crate) fn end_kernel<const WATCHED: bool>(&mut self, slot: &Slot, kernel: u32, start: L::Stamp) {
        let end = self.lane.stamp_for(Flags::CORE_TIMING);
        if WATCHED {
            self.end_counting(slot, kernel);
        }
        self.status.end();
        self.loops = self.loops.wrapping_add(1);
        if self.lane.on(Flags::CORE_TIMING) {
            // The record of a kernel that never ended has no end.
            let ended = if self.platform.has_given_up() { L::Stamp::default() } else { end };
            self.lane.task(&TaskSpan {
                core: CoreId(self.id.0),
                task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
                kernel: KernelId(kernel),
                token: self.status.begun(),
                dispatch: start,
                receive: start,
                start,
                end: ended,
                finish: ended,
            });
        }
        if self.lane.on(Flags::SCHED_PHASES) {
            if let Some((from, until)) = crate::kernel_wait::take() {
                self.lane.gil_wait(CoreId(self.id.0), from, until);
            }
            self.record_dispatch(start, end);
        }
    }

    fn record_dispatch(&mut self, start: L::Stamp, end: L::Stamp) {
        // If this task followed the last one at once, the phase that completed the last one lasted until now.
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
        self.counted.count(at.ring(), at.index());
        if self.id != ORCHESTRATOR {
            shared.sleep.completed(self.platform, ORCHESTRATOR, || shared.done.total());
        }
        self.note_finished(goes_on);
    }

    /// Ends the phase that took note of a finished execution, unless it goes on until the next task begins.
    #[inline]
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
