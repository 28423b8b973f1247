//! The status board: what every agent and core of a run is doing, and how full the rings are. Images of its bytes.
//!
//! ```text
//! BoardHead │ RingStatus × RINGS │ AgentStatus × agents │ AgentStatus × cores
//! ```
//!
//! It lies in the region when a run records, in plain memory otherwise. Where an agent is its own core, the agent's line
//! tells what is executed and the core's line stays zero. Zeroed memory is a board on which nobody has written yet.

use crate::error::Resource;
use crate::record::proven_layout;
use crate::{RINGS, TaskId};
use bytemuck::{Pod, Zeroable};

/// What concerns all lines; written by the orchestrator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct BoardHead {
    /// Lines of agents.
    pub agents: u32,
    /// Lines of cores.
    pub cores: u32,
    /// Tensormap entries in use when the rings were noted last.
    pub tensormap: u64,
    /// Configured capacity of the tensormap.
    pub tensormap_capacity: u64,
    /// Zero.
    pub pad: [u64; 5],
}
proven_layout!(BoardHead, 64, { agents: u32, cores: u32, tensormap: u64, tensormap_capacity: u64, pad: [u64; 5] });

/// The line of one agent or core; written by its own thread alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct AgentStatus {
    /// The task that it executes, or executed last ([`TaskId`] as a number).
    pub task: u64,
    /// The kernel of that task.
    pub kernel: u32,
    /// Executions begun: the last dispatch token.
    pub begun: u32,
    /// Executions ended. A task is being executed while this is not `begun`.
    pub ended: u32,
    /// What it does when it executes nothing: an [`Activity`] by number.
    pub activity: u32,
    /// The thread's number in the operating system; 0 before anybody is there.
    pub thread: u32,
    /// Ready tasks in all queues when it last ran out of work.
    pub ready: u32,
    /// The orchestrator's: submits begun.
    pub submits_begun: u32,
    /// The orchestrator's: submits ended. It is in a submit while this is not `submits_begun`.
    pub submits_ended: u32,
    /// The orchestrator's: the resource and ring that it waits for ([`wanted_word`]), while it waits for room.
    pub wanted: u32,
    /// The orchestrator's: the innermost scope's source site ([`SiteId`](crate::SiteId)), noted with the rings.
    pub site: u32,
    /// The orchestrator's: how much of the resource it asked for, or the number of the buffer that it reads.
    pub amount: u64,
    /// The orchestrator's: the task that it waits for + 1, while it reads.
    pub awaited: u64,
    /// When the kernel of `task` was called, in ticks; 0 if times of tasks are not recorded.
    pub since: u64,
    /// Zero.
    pub pad: [u64; 7],
}
proven_layout!(AgentStatus, 128, {
    task: u64, kernel: u32, begun: u32, ended: u32, activity: u32, thread: u32, ready: u32,
    submits_begun: u32, submits_ended: u32, wanted: u32, site: u32, amount: u64, awaited: u64, since: u64, pad: [u64; 7],
});

impl AgentStatus {
    /// The task and the kernel that it is executing, and the token of that dispatch.
    pub fn running(&self) -> Option<(TaskId, u32, u32)> {
        is_ahead(self.begun, self.ended).then_some((TaskId::from_raw(self.task), self.kernel, self.begun))
    }

    /// What it does when it executes nothing.
    pub fn activity(&self) -> Activity {
        match Activity::from_number(self.activity) {
            Activity::UserCode if is_ahead(self.submits_begun, self.submits_ended) => Activity::Submit,
            activity => activity,
        }
    }

    /// The resource that it waits for, and on which ring.
    pub fn wanted(&self) -> Option<(Resource, u8)> {
        let resource = *Resource::ALL.get((self.wanted & 0xff) as usize)?;
        (self.activity() == Activity::WaitRoom).then_some((resource, (self.wanted >> 8) as u8))
    }

    /// The task that a read waits for.
    pub fn awaited(&self) -> Option<TaskId> {
        let waits = self.activity() == Activity::WaitTensor;
        self.awaited.checked_sub(1).filter(|_| waits).map(TaskId::from_raw)
    }
}

/// Whether more has begun than has ended. What ended was read later, so it may be ahead itself.
fn is_ahead(begun: u32, ended: u32) -> bool {
    begun.wrapping_sub(ended).cast_signed() > 0
}

/// A resource and a ring as [`AgentStatus::wanted`] holds them.
pub const fn wanted_word(resource: Resource, ring: u8) -> u32 {
    resource as u32 | (ring as u32) << 8
}

/// How full a ring is, as the orchestrator noted it last: when it blocked, when a scope ended, and every 64 submits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct RingStatus {
    /// Slots taken since the run began.
    pub head: u64,
    /// Slots given back since the run began.
    pub tail: u64,
    /// The number below which all tasks have completed.
    pub watermark: u64,
    /// Heap bytes taken.
    pub heap_head: u64,
    /// Heap bytes given back.
    pub heap_tail: u64,
    /// Dependency entries taken.
    pub dep_head: u64,
    /// Dependency entries given back.
    pub dep_tail: u64,
    /// The first task of the outermost open scope on this ring + 1: nothing from it on can be given back. 0 = none.
    pub pin: u64,
    /// Configured slots.
    pub window: u64,
    /// Configured heap bytes.
    pub heap: u64,
    /// Configured dependency entries.
    pub dep_pool: u64,
    /// The source site of the scope that pins the ring; 0 = unknown.
    pub site: u32,
    /// Zero.
    pub pad: [u32; 9],
}
proven_layout!(RingStatus, 128, {
    head: u64, tail: u64, watermark: u64, heap_head: u64, heap_tail: u64, dep_head: u64, dep_tail: u64, pin: u64,
    window: u64, heap: u64, dep_pool: u64, site: u32, pad: [u32; 9],
});

/// What an agent does when it executes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum Activity {
    /// It is in no run.
    #[default]
    Away = 0,
    /// It takes, dispatches and completes tasks.
    Schedule = 1,
    /// It has no work: it looks around, or sleeps.
    Idle = 2,
    /// It waits for the collector, or for others that do.
    Recorder = 3,
    /// The orchestrator is in the user's code.
    UserCode = 4,
    /// The orchestrator submits a task. No line says it: it follows from the submits begun and ended.
    Submit = 5,
    /// The orchestrator waits for room in a ring or in the tensormap.
    WaitRoom = 6,
    /// The orchestrator waits for a tensor that it reads or writes.
    WaitTensor = 7,
    /// The orchestration has ended, or a graph was launched: all tasks are waited for.
    Drain = 8,
}

impl Activity {
    /// All of them, by number.
    pub const ALL: [Activity; 9] = [
        Activity::Away,
        Activity::Schedule,
        Activity::Idle,
        Activity::Recorder,
        Activity::UserCode,
        Activity::Submit,
        Activity::WaitRoom,
        Activity::WaitTensor,
        Activity::Drain,
    ];

    /// The one with this number; an unknown one is taken for [`Away`](Activity::Away).
    pub fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or_default()
    }

    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Activity::Away => "is in no run",
            Activity::Schedule => "schedules",
            Activity::Idle => "has no work",
            Activity::Recorder => "waits for the recorder",
            Activity::UserCode => "is in the orchestration's own code",
            Activity::Submit => "submits a task",
            Activity::WaitRoom => "waits for room",
            Activity::WaitTensor => "waits for a tensor",
            Activity::Drain => "waits for all tasks to complete",
        }
    }
}

/// Bytes of a board with this many lines.
pub const fn board_bytes(agents: usize, cores: usize) -> usize {
    rings_offset() + RINGS * size_of::<RingStatus>() + (agents + cores) * size_of::<AgentStatus>()
}

/// Where the rings begin on a board.
pub const fn rings_offset() -> usize {
    size_of::<BoardHead>()
}

/// Where the line with this number is on a board: agents first, then cores.
pub const fn line_offset(line: usize) -> usize {
    board_bytes(line, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_found_by_their_numbers() {
        for (number, activity) in Activity::ALL.into_iter().enumerate() {
            assert_eq!((activity as usize, Activity::from_number(number as u32)), (number, activity));
        }
        assert_eq!(Activity::from_number(77), Activity::Away);
    }

    #[test]
    fn a_line_says_what_it_executes_and_what_it_waits_for() {
        let mut line =
            AgentStatus { task: TaskId::new(2, 17).raw(), kernel: 3, begun: 5, ended: 4, ..Default::default() };
        assert_eq!(line.running(), Some((TaskId::new(2, 17), 3, 5)));
        line.ended = 5;
        assert_eq!((line.running(), line.wanted(), line.awaited()), (None, None, None));
        (line.activity, line.wanted) = (Activity::WaitRoom as u32, wanted_word(Resource::Heap, 3));
        assert_eq!(line.wanted(), Some((Resource::Heap, 3)));
        (line.activity, line.awaited) = (Activity::WaitTensor as u32, TaskId::new(0, 0).raw() + 1);
        assert_eq!((line.wanted(), line.awaited()), (None, Some(TaskId::new(0, 0))));
    }
}
