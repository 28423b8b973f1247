//! What has not completed in a run that stands still, and who waits for whom: a look from outside, which changes nothing.
//!
//! A task waits as long as it is in the fan-out list of a task that has not completed. So whoever has not completed and is in no
//! such list waits for nobody: it runs, it is ready, or it was forgotten.
//!
//! The look takes slots as it finds them. While tasks move it may find a task in no list that has just been entered, so only what
//! two looks agree on is certain.

use crate::shared::Shared;
use crate::slot::SlotRef;
use crate::sync::Ordering;
use plimsoll_abi::{KernelId, RINGS, TaskId};
use std::collections::HashSet;
use std::ops::Range;

/// A task that has not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenTask {
    /// The task.
    pub task: TaskId,
    /// Its kernel.
    pub kernel: KernelId,
}

/// What has not completed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenTasks {
    /// Tasks that wait for others.
    pub waiting: u64,
    /// Tasks that wait for nobody, by ring and number.
    pub roots: Vec<OpenTask>,
}

impl Shared {
    /// What has not completed of the tasks with these numbers, ring by ring: those that were submitted in this run and not
    /// reclaimed.
    pub fn unfinished(&self, numbers: [Range<u64>; RINGS]) -> OpenTasks {
        let mut open = Vec::new();
        for (ring, numbers) in numbers.into_iter().enumerate() {
            let slots = &self.rings[ring].slots;
            let places = numbers.take(self.capacities[ring].window as usize).map(|number| slots.index(number));
            let places = places.map(|index| SlotRef::new(ring as u8, index));
            open.extend(places.filter(|&at| !self.slot(at).fan_out.is_closed()));
        }
        let mut waits = HashSet::new();
        for &at in &open {
            let most = open.len();
            let node = |node: SlotRef| self.rings.get(node.ring()).and_then(|ring| ring.nodes.get(node.index()));
            self.slot(at).fan_out.peek(node, most, |consumer| {
                waits.insert(consumer);
            });
        }
        let task = |at: &SlotRef| {
            let slot = self.slot(*at);
            let task = TaskId::from_raw(slot.task.load(Ordering::Relaxed));
            OpenTask { task, kernel: KernelId(slot.kernel()) }
        };
        let roots: Vec<OpenTask> = open.iter().filter(|at| !waits.contains(at)).map(task).collect();
        OpenTasks { waiting: (open.len() - roots.len()) as u64, roots }
    }
}
