//! The writers of the device side.
//!
//! The scheduler and the orchestrator are generic over [`Probe`]. [`Off`] is the probe that does nothing: its calls
//! and its stamps compile away. A recording probe writes into pools of the region; one file per record kind.

mod off;
// Recording needs a mapped region, which there is none of under loom.
#[cfg(not(loom))]
mod recording;

pub use off::Off;
pub use plimsoll_shm::ReservedSlot;
#[cfg(not(loom))]
pub use recording::{AgentRecord, CounterStaging, Recording, RecordingLane, RecordingStamper};

use plimsoll_abi::record::{ArgDumpRecord, SchedPhaseKind, ScopePhase, SubmitRecord};
use plimsoll_abi::{AgentId, CoreId, Flags, Heads, KernelId, RINGS, SiteId, TaskId, Usage};

/// Where a run's agents get their lanes.
pub trait Probe: Sync {
    /// What one agent writes with.
    type Lane<'p>: Lane
    where
        Self: 'p;

    /// The lane of `agent`. Asked once per agent and run, from the agent's own thread.
    fn lane(&self, agent: AgentId) -> Self::Lane<'_>;

    /// What a core behind a mailbox writes with.
    type Stamper<'p>: Stamper
    where
        Self: 'p;

    /// What `core` writes with, which its scheduler reserves records for.
    fn stamper(&self, core: CoreId) -> Self::Stamper<'_>;
}

/// The writer of a core behind a mailbox: puts its records where its scheduler reserved them.
pub trait Stamper {
    /// Writes the record of an execution to `place` and stamps it with the execution's token.
    ///
    /// # Safety
    /// `place` is what [`Lane::reserve`] gave for this core and token, and this is the only call for it, made before the core's
    /// scheduler can see that the token has finished.
    unsafe fn stamp(&self, place: u64, span: &CoreSpan);

    /// Whether counters are recorded.
    #[inline]
    fn counts(&self) -> bool {
        false
    }

    /// Reads the counters before an execution, if they are recorded.
    #[inline]
    fn begin_counting(&self) {}

    /// Reads the counters after an execution and stages what they counted, if they are recorded, before the core's scheduler can
    /// see that the token has finished. `stamp` is the execution's token, but in tests of what becomes of a wrong one.
    #[inline]
    fn stage(&self, execution: &CountedExecution, stamp: u32, amounts: impl FnOnce() -> TaskAmounts) {
        let _ = (execution, stamp, amounts);
    }
}

/// What became of the reservation of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reserved {
    /// The place that goes with the token; [`ReservedSlot::NONE`] if the execution is not recorded.
    Place(u64),
    /// There is none until the core has finished something, or else until the host gives a buffer back.
    Later,
}

/// One agent's writer.
pub trait Lane {
    /// A reading of the clock; nothing at all when the probe is off.
    type Stamp: Copy + Default;

    /// Whether all of `flags` are recorded: one load and a branch at most.
    fn on(&self, flags: Flags) -> bool;

    /// Whether any of `flags` is recorded.
    fn meets(&self, flags: Flags) -> bool;

    /// Reads the clock. Neighbouring records share readings, so the caller takes them.
    fn stamp(&self) -> Self::Stamp;

    /// Reads the clock if any of `flags` is recorded: nobody pays for a reading that no record will hold.
    #[inline]
    fn stamp_for(&self, flags: Flags) -> Self::Stamp {
        if self.on(flags) { self.stamp() } else { Self::Stamp::default() }
    }

    /// The ticks of a reading; nothing when the probe is off.
    fn ticks(stamp: Self::Stamp) -> Option<u64>;

    /// A kernel on a core of this agent waited for its interpreter's lock between two ticks of the machine's clock.
    fn gil_wait(&mut self, core: CoreId, from: u64, until: u64);

    /// A task ran on this agent's own core: kinds 3 and 0, as far as they are on.
    fn task(&mut self, span: &TaskSpan<Self::Stamp>);

    /// Reads the counters before an execution on this agent's own core.
    fn begin_counting(&mut self) {}

    /// Reads them after it and records what they counted: kind 8.
    fn end_counting(&mut self, execution: &CountedExecution, amounts: impl FnOnce() -> TaskAmounts) {
        let _ = (execution, amounts);
    }

    /// Reserves the record of a dispatch to a core behind a mailbox: kind 3, if it is on. Never waits.
    fn reserve(&mut self, core: CoreId, token: u32) -> Reserved;

    /// Gives back the newest reservation of a core: the dispatch does not take place.
    fn cancel(&mut self, core: CoreId, token: u32);

    /// Seals what was recorded of a core of which nothing is in flight: the core belongs to another agent from now on.
    fn let_go(&mut self, core: CoreId);

    /// Settles the record of a token that the core has finished, if one was reserved, and commits what the core staged: kind
    /// 8, if it is on. Called in the order of the tokens.
    fn settle(&mut self, core: CoreId, token: u32);

    /// A dispatch to a core behind a mailbox was seen to end: kind 0, if it is on.
    fn dispatched(&mut self, span: &DispatchSpan<Self::Stamp>);

    /// One step of waiting for the host, by an agent that found no place for a record; `step` counts up from 0.
    fn wait_for_host(&mut self, step: u32);

    /// A scheduler phase ended: kind 1.
    fn sched_phase(&mut self, phase: &PhaseSpan<Self::Stamp>);

    /// A submit ended: kind 2.
    fn orch_submit(&mut self, start: Self::Stamp, end: Self::Stamp, task: TaskId, submit_idx: u32);

    /// A scope began or ended: kinds 4 and 6. The lane reads the clock itself.
    fn scope(&mut self, event: &ScopeEvent<'_>);

    /// One record of a submit: kind 5.
    fn submit_record(&mut self, record: &SubmitRecord);

    /// What is to be captured of a task's arguments, if anything is.
    fn dumps(&self, task: TaskId, kernel: KernelId) -> Option<DumpRules> {
        let _ = (task, kernel);
        None
    }

    /// One line of a captured argument, which is numbered and given its round here: kind 7. Lines of an argument come one after
    /// the other, from the first.
    fn arg_dump(&mut self, record: &ArgDumpRecord) {
        let _ = record;
    }

    /// Arguments were captured from `start` until now: this agent waited for the recorder meanwhile. Kind 1, if it is on.
    fn captured(&mut self, start: Self::Stamp) {
        let _ = start;
    }

    /// The number of a source site in the run's table. Callers keep it: the look-up takes a lock.
    fn site(&mut self, file: &str, line: u32) -> SiteId {
        let _ = (file, line);
        SiteId(0)
    }

    /// Says which round the records that follow belong to.
    fn set_round(&mut self, round: u32);

    /// Seals what is unfinished, so that the host gets it: at the end of a run and before a long sleep.
    fn flush(&mut self);
}

/// What is captured of a task's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpRules {
    /// [`MARKED`](Self::MARKED), [`ALL`](Self::ALL) or [`SHAPES`](Self::SHAPES).
    pub level: u8,
    /// The most bytes of elements of one argument.
    pub bytes: u64,
}

impl DumpRules {
    /// Marked arguments only.
    pub const MARKED: u8 = 1;
    /// Everything, but for the elements of arguments that inference does not look at: another task may write them meanwhile.
    pub const ALL: u8 = 2;
    /// The shapes of all, and the elements of marked ones.
    pub const SHAPES: u8 = 3;
}

impl Default for DumpRules {
    fn default() -> Self {
        Self { level: Self::ALL, bytes: u64::MAX }
    }
}

/// What is captured, and of which tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DumpPlan {
    /// What is captured of each task.
    pub rules: DumpRules,
    /// The kernels whose tasks are captured. If neither kernels nor tasks are named, all tasks are captured.
    pub kernels: Vec<KernelId>,
    /// Tasks that are captured besides, in every round.
    pub tasks: Vec<TaskId>,
    /// Tasks that are captured besides, in one round each: words of a task and its round.
    pub in_rounds: Vec<u64>,
}

impl DumpPlan {
    /// What is captured of a task in a round, if anything is.
    pub fn of(&self, task: TaskId, round: u32, kernel: KernelId) -> Option<DumpRules> {
        let all = self.kernels.is_empty() && self.tasks.is_empty() && self.in_rounds.is_empty();
        let is_named = || self.tasks.contains(&task) || self.in_rounds.contains(&task.with_round(round));
        (all || self.kernels.contains(&kernel) || is_named()).then_some(self.rules)
    }
}

/// One execution of a task on the agent's own core.
#[derive(Clone, Copy, Debug)]
pub struct TaskSpan<S> {
    /// The core it ran on.
    pub core: CoreId,
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: KernelId,
    /// The core's dispatch token, from 1 upwards.
    pub token: u32,
    /// When the scheduler handed it over.
    pub dispatch: S,
    /// When the core had it.
    pub receive: S,
    /// When the kernel started.
    pub start: S,
    /// When the kernel ended.
    pub end: S,
    /// When the scheduler saw that the kernel had ended.
    pub finish: S,
}

/// One execution of a task as the scheduler of its core saw it.
#[derive(Clone, Copy, Debug)]
pub struct DispatchSpan<S> {
    /// The core it ran on.
    pub core: CoreId,
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: KernelId,
    /// The core's dispatch token.
    pub token: u32,
    /// When the scheduler handed it over.
    pub dispatch: S,
    /// When the scheduler saw that it had ended.
    pub finish: S,
}

/// One execution of a task as a core behind a mailbox saw it, in ticks of the run's clock.
#[derive(Clone, Copy, Debug)]
pub struct CoreSpan {
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: KernelId,
    /// The core's dispatch token.
    pub token: u32,
    /// Which round of the recording it belongs to.
    pub round: u32,
    /// When the core had it.
    pub receive: u64,
    /// When the kernel started.
    pub start: u64,
    /// When the kernel ended.
    pub end: u64,
}

/// An execution during which counters count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountedExecution {
    /// The core.
    pub core: CoreId,
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: KernelId,
    /// The core's dispatch token.
    pub token: u32,
    /// Which round of the recording it belongs to, as far as its core knows.
    pub round: u32,
}

/// What a cost table charges an execution by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskAmounts {
    /// Elements of the tensors among its arguments.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One phase of a scheduler, or of a batch of its loops.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSpan<S> {
    /// What it did.
    pub kind: SchedPhaseKind,
    /// When it began.
    pub start: S,
    /// When it ended.
    pub end: S,
    /// The loop count at its begin.
    pub loop_iter: u32,
    /// Tasks it dealt with.
    pub tasks_processed: u32,
    /// Looks into a ready queue that found a task.
    pub pop_hit: u32,
    /// Looks that found none.
    pub pop_miss: u32,
}

/// A scope that begins or ends, with what the rings hold.
#[derive(Clone, Copy, Debug)]
pub struct ScopeEvent<'s> {
    /// Whether it begins or ends.
    pub phase: ScopePhase,
    /// Where the scope was opened.
    pub site: SiteId,
    /// Its depth; the root's is 0.
    pub depth: u16,
    /// Its number in order of opening.
    pub scope: u32,
    /// Whether the run failed.
    pub fatal: bool,
    /// The heads of its ring.
    pub heads: Heads,
    /// What is in use.
    pub used: &'s Usage,
    /// Rings other than the scope's own whose use may have changed since the lane's event before, as a mask.
    pub changed: u8,
    /// The most that was in use inside it, at its end. `None` if nothing was given back since it began: then that is what
    /// is in use.
    pub peaks: Option<&'s Usage>,
    /// The largest number of producers of one task inside it; 0 at its begin.
    pub peak_fanin: u32,
}

impl ScopeEvent<'_> {
    /// The value of `changed` if the use of any ring may have changed.
    pub const ANY_RING: u8 = (1 << RINGS) - 1;
}

impl Default for ScopeEvent<'_> {
    fn default() -> Self {
        Self {
            phase: ScopePhase::Begin,
            site: SiteId(0),
            depth: 0,
            scope: 0,
            fatal: false,
            heads: Heads::default(),
            used: &Usage::NONE,
            changed: Self::ANY_RING,
            peaks: None,
            peak_fanin: 0,
        }
    }
}
