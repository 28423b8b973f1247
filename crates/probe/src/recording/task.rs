//! Kinds 3 and 0 of an agent that is its own core: a task as its core and as its scheduler saw it.

use super::RecordingLane;
use crate::TaskSpan;
use plimsoll_abi::Flags;
use plimsoll_abi::record::{AicoreTask, AicpuTask};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub(super) fn write_task(&mut self, span: &TaskSpan<u64>) {
        if !self.flags.has(Flags::CORE_TIMING) {
            return;
        }
        let core = &mut self.cores[span.core.index()];
        let task = span.task.with_round(self.round);
        let record = AicoreTask {
            start: span.start,
            end: span.end,
            task,
            token: span.token,
            receive_and_kernel: AicoreTask::pack(span.start.saturating_sub(span.receive), span.kernel.0),
        };
        core.aicore_task.push(record, &mut self.context);
        if self.flags.has(Flags::TASK_LIFECYCLE) {
            let record = AicpuTask {
                dispatch: span.dispatch,
                finish: span.finish,
                task,
                token: span.token,
                kernel: span.kernel.0,
            };
            core.aicpu_task.push(record, &mut self.context);
        }
    }
}
