//! Kind 4: the begin or the end of a scope.

use super::RecordingLane;
use plimsoll_abi::Flags;
use plimsoll_abi::record::ScopeSample;
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    #[inline]
    pub(super) fn write_scope_sample(&mut self, sample: &ScopeSample) {
        if self.flags.has(Flags::SCOPE_STATS) {
            let record = ScopeSample { at: self.context.world.ticks(), ..*sample };
            self.scope_sample.push(record, &mut self.context);
        }
    }
}
