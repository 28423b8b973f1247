//! The cohort that assembles, as somebody who only looks sees it.

use super::Assembly;
use crate::shared::Shared;
use crate::sync::Ordering;
use crate::unfinished::OpenTask;
use plimsoll_abi::{KernelId, TaskId};

/// A cohort that assembles, as somebody who only looks sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssemblingCohort {
    /// The task whose blocks are to start together.
    pub task: OpenTask,
    /// Seats that are taken.
    pub taken: u32,
    /// Seats that it needs.
    pub blocks: u32,
}

impl Shared {
    /// The cohort that assembles: a look from outside, which waits for nobody. `None` also if somebody is changing it.
    pub fn assembling_cohort(&self) -> Option<AssemblingCohort> {
        let Assembly { task, taken } = self.cohorts.state.try_lock().ok()?.assembling?;
        let slot = self.slot(task);
        let id = TaskId::from_raw(slot.task.load(Ordering::Relaxed));
        Some(AssemblingCohort {
            task: OpenTask { task: id, kernel: KernelId(slot.kernel()) },
            taken,
            blocks: slot.blocks(),
        })
    }
}
