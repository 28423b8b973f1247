//! Kind 2: a submit, as long as it took.

use super::RecordingLane;
use plimsoll_abi::record::OrchPhase;
use plimsoll_abi::{Flags, TaskId};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub(super) fn write_orch_phase(&mut self, start: u64, end: u64, task: TaskId, submit_idx: u32) {
        if self.flags.has(Flags::ORCH_PHASES) {
            let record = OrchPhase { start, end, task: task.with_round(self.round), submit_idx, pad: 0 };
            self.push(record);
            if self.context.has_waited() {
                self.write_waits();
            }
        }
    }
}
