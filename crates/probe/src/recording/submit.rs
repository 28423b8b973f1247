//! Kind 5: a record of a submit, stored as it is but for the round of its task ids.

use super::RecordingLane;
use plimsoll_abi::record::{SubmitRecord, SubmitTag};
use plimsoll_abi::{Flags, TaskId};
use plimsoll_shm::World;

impl<W: World> RecordingLane<'_, W> {
    #[inline]
    pub(super) fn write_submit(&mut self, record: &SubmitRecord) {
        if self.flags.has(Flags::DEP_GEN) {
            let mut record = *record;
            // Task ids get their round, too: records are joined by task, and those of all rounds would be joined with the
            // first.
            if record.tag == SubmitTag::Task as u8 || record.tag == SubmitTag::Dep as u8 {
                record.id = TaskId::from_raw(record.id).with_round(self.round);
            }
            self.push(record);
        }
    }
}
