//! Kind 1: a phase of a scheduler.

use super::RecordingLane;
use crate::PhaseSpan;
use plimsoll_abi::record::{SchedPhase, SchedPhaseKind};
use plimsoll_abi::{CoreId, Flags};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub(super) fn write_sched_phase(&mut self, phase: &PhaseSpan<u64>) {
        if !self.flags.has(Flags::SCHED_PHASES) {
            return;
        }
        let record = SchedPhase {
            start: phase.start,
            end: phase.end,
            loop_iter: phase.loop_iter,
            kind: phase.kind as u32,
            tasks_processed: phase.tasks_processed,
            pop_hit: phase.pop_hit,
            pop_miss: phase.pop_miss,
            pad: 0,
        };
        self.push(record);
        if self.context.has_waited() {
            self.write_waits();
        }
    }

    /// Records when a kernel on a core of this agent waited for the lock of its interpreter.
    pub(super) fn write_gil_wait(&mut self, core: CoreId, start: u64, end: u64) {
        if self.flags.has(Flags::SCHED_PHASES) {
            let (kind, loop_iter) = (SchedPhaseKind::GilWait as u32, core.0.into());
            self.push(SchedPhase { start, end, kind, loop_iter, ..SchedPhase::default() });
        }
    }

    /// Records when this agent waited for the recorder. Writing that may wait again, which is recorded the next time.
    #[cold]
    #[inline(never)]
    pub(super) fn write_waits(&mut self) {
        let waits = self.context.take_waits();
        if !self.agent.aicpu_sched_phase.is_allocated() {
            return;
        }
        for (start, end) in waits {
            self.push_wait(start, end);
        }
    }

    /// Records that this agent captured arguments from `start` until now. Waits for buffers meanwhile are part of that time, so
    /// only those from before are records of their own.
    #[cold]
    #[inline(never)]
    pub(super) fn write_capture(&mut self, start: u64) {
        if !self.flags.has(Flags::SCHED_PHASES) {
            return;
        }
        let end = self.context.world.ticks();
        for (from, until) in self.context.take_waits().filter(|(from, _)| *from < start) {
            self.push_wait(from, until);
        }
        // The virtual clock stands still while arguments are copied.
        if end > start {
            self.push_wait(start, end);
        }
    }

    fn push_wait(&mut self, start: u64, end: u64) {
        self.push(SchedPhase { start, end, kind: SchedPhaseKind::RecorderWait as u32, ..SchedPhase::default() });
    }
}
