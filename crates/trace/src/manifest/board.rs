//! What the status board of a run said last: who was running what, what the orchestrator waited for, how full the rings were.

use plimsoll_abi::board::Activity;
use plimsoll_abi::{RINGS, Resource, TaskId};
use serde::{Deserialize, Serialize};

/// A look at a run's status board, as `run.json` carries it of a run that did not end well.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BoardFacts {
    /// The orchestrator.
    pub orchestrator: OrchestratorFacts,
    /// Executions that had begun and not ended.
    pub running: Vec<RunningFacts>,
    /// The last executions of cores and workers that executed nothing.
    pub executed: Vec<ExecutedFacts>,
    /// Ready tasks in all queues, as those without work saw them last.
    pub ready: u32,
    /// Agents that schedule and had no work, besides the orchestrator.
    pub idle: u32,
    /// Agents that schedule, besides the orchestrator.
    pub schedulers: u32,
    /// The first of them that was between two tasks: it scheduled, and nothing ran on its own thread.
    pub between: Option<SchedulerFacts>,
    /// Those of them that waited for the recorder, and the orchestrator if it did.
    pub recorder_waits: u32,
    /// Executions begun so far.
    pub begun: u64,
    /// Executions ended so far.
    pub ended: u64,
    /// The rings, as the orchestrator noted them last.
    pub rings: [RingFacts; RINGS],
    /// Tensormap entries in use, and how many there are.
    pub tensormap: (u64, u64),
}

/// One execution that was under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunningFacts {
    /// The core, or worker.
    pub core: u16,
    /// The task as a number, without its round.
    pub task: u64,
    /// The kernel's number.
    pub kernel: u32,
    /// The core's dispatch token.
    pub token: u32,
    /// When the kernel was called, in ticks; 0 if that was not recorded.
    pub since: u64,
    /// The operating system's number of the thread.
    pub thread: u32,
}

/// The last execution of a core, or worker, that has ended. Its record may not be there yet: it counts once the scheduler of the core
/// has taken note of its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutedFacts {
    /// The core, or worker.
    pub core: u16,
    /// The task as a number, without its round.
    pub task: u64,
    /// The core's dispatch token.
    pub token: u32,
}

/// A scheduler or worker that was between two tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerFacts {
    /// The agent.
    pub agent: u16,
    /// The operating system's number of its thread.
    pub thread: u32,
}

/// What the orchestrator did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OrchestratorFacts {
    /// Its [`Activity`] by number.
    pub activity: u32,
    /// Submits begun.
    pub submits: u32,
    /// The resource that it waited for, by number, and the ring.
    pub wanted: Option<(u8, u8)>,
    /// How much of it.
    pub amount: u64,
    /// The task, as a number, that it waited for.
    pub awaited: Option<u64>,
    /// The site of its innermost scope; 0 if unknown.
    pub site: u32,
    /// The operating system's number of its thread.
    pub thread: u32,
}

/// How full a ring was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RingFacts {
    /// Slots taken since the run began.
    pub head: u64,
    /// Slots given back since the run began.
    pub tail: u64,
    /// The number below which all tasks had completed.
    pub watermark: u64,
    /// Heap bytes in use.
    pub heap: u64,
    /// Dependency entries in use.
    pub dep_pool: u64,
    /// The first task of the outermost open scope on this ring.
    pub pin: Option<u64>,
    /// That scope's site; 0 if unknown.
    pub site: u32,
}

impl BoardFacts {
    /// What the orchestrator did.
    pub fn activity(&self) -> Activity {
        Activity::from_number(self.orchestrator.activity)
    }

    /// The resource that the orchestrator waited for, and the ring.
    pub fn wanted(&self) -> Option<(Resource, u8)> {
        let (resource, ring) = self.orchestrator.wanted?;
        Some((*Resource::ALL.get(usize::from(resource))?, ring)).filter(|_| usize::from(ring) < RINGS)
    }

    /// The task that the orchestrator waited for in a read or write.
    pub fn awaited(&self) -> Option<TaskId> {
        self.orchestrator.awaited.map(TaskId::from_raw)
    }

    /// What grows with every step of the run: two looks that differ here saw it move.
    pub fn progress(&self) -> (u64, u64, u32) {
        (self.begun, self.ended, self.orchestrator.submits)
    }
}
