//! Kind 5: a record of a submit, stored as it is.

use super::RecordingLane;
use plimsoll_abi::Flags;
use plimsoll_abi::record::SubmitRecord;
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    #[inline]
    pub(super) fn write_submit(&mut self, record: &SubmitRecord) {
        if self.flags.has(Flags::DEP_GEN) {
            self.submit.push(*record, &mut self.context);
        }
    }
}
