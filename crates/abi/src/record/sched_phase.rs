//! Kind 1: one phase of a scheduler loop, or of a batch of loops.

use super::proven_layout;
use bytemuck::{Pod, Zeroable};

/// What a scheduler was doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum SchedPhaseKind {
    /// Taking note of finished tasks.
    Complete = 0,
    /// Handing ready tasks to cores.
    Dispatch = 1,
    /// Releasing the tasks that waited for a finished one.
    Resolve = 2,
    /// Giving back what finished tasks held.
    Release = 3,
    /// Taking ready tasks from another agent.
    Steal = 4,
    /// Asleep: nothing to do.
    Park = 5,
    /// Completing a task that its predicate kept from being executed.
    PredicatedSkip = 6,
    /// The submitter waits until a ring has room. It may reclaim, run tasks and sleep meanwhile, which are phases of their
    /// own inside this one.
    RingWait = 7,
    /// Waits until the recorder has a buffer, inside or between other phases.
    RecorderWait = 8,
    /// A kernel waits for the lock of its language's interpreter before it begins, inside its own time.
    GilWait = 9,
}

impl SchedPhaseKind {
    /// All phases, by number.
    pub const ALL: [SchedPhaseKind; 10] = [
        SchedPhaseKind::Complete,
        SchedPhaseKind::Dispatch,
        SchedPhaseKind::Resolve,
        SchedPhaseKind::Release,
        SchedPhaseKind::Steal,
        SchedPhaseKind::Park,
        SchedPhaseKind::PredicatedSkip,
        SchedPhaseKind::RingWait,
        SchedPhaseKind::RecorderWait,
        SchedPhaseKind::GilWait,
    ];

    /// As files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            SchedPhaseKind::Complete => "complete",
            SchedPhaseKind::Dispatch => "dispatch",
            SchedPhaseKind::Resolve => "resolve",
            SchedPhaseKind::Release => "release",
            SchedPhaseKind::Steal => "steal",
            SchedPhaseKind::Park => "park",
            SchedPhaseKind::PredicatedSkip => "predicated_skip",
            SchedPhaseKind::RingWait => "ring_wait",
            SchedPhaseKind::RecorderWait => "recorder_wait",
            SchedPhaseKind::GilWait => "gil_wait",
        }
    }
}

/// One phase of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct SchedPhase {
    /// When it began, in ticks.
    pub start: u64,
    /// When it ended, in ticks.
    pub end: u64,
    /// The scheduler's loop count at its begin; of a [`GilWait`](SchedPhaseKind::GilWait) the core that the kernel is on.
    pub loop_iter: u32,
    /// A [`SchedPhaseKind`] by number.
    pub kind: u32,
    /// Tasks it dealt with.
    pub tasks_processed: u32,
    /// Looks into a ready queue that found a task.
    pub pop_hit: u32,
    /// Looks that found none.
    pub pop_miss: u32,
    /// Zero.
    pub pad: u32,
}
proven_layout!(SchedPhase, 40, {
    start: u64, end: u64, loop_iter: u32, kind: u32, tasks_processed: u32, pop_hit: u32, pop_miss: u32, pad: u32,
});
