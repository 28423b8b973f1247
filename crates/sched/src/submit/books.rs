//! What inference works on, apart from everything else that the orchestrator has: so that its inner loop needs no more
//! than a pointer to it.

use super::arg::TensorCore;
use super::rings::{Fetch, RingState};
use plimsoll_abi::{RINGS, TaskId};
use plimsoll_graph::{Access, BufferRef, Conflict, Entries, Frame, Layout, Tensormap, User};

/// The tensormap, the rings' books and the task at hand.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) map: Tensormap,
    pub(super) rings: [RingState; RINGS],
    /// Producers of the task at hand, each once.
    pub(super) fetch: Fetch,
    /// Tensormap entries of the task at hand.
    pub(super) entries: Entries,
}

impl Books {
    /// A task is at hand.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.fetch.begin();
        self.entries = Entries::NONE;
    }

    /// Enters a use of a buffer by the task at hand and notes whom it has to wait for.
    #[inline(never)]
    pub(super) fn infer(&mut self, user: User, core: &TensorCore) -> Result<(), Conflict> {
        let Self { map, rings, fetch, entries } = self;
        let (buffer, region) = (core.buffer, &core.region(map));
        map.access(&Access { user, buffer, region }, entries, |edge| fetch.note(rings, edge.pred))
    }

    /// Enters a buffer that the task at hand makes.
    #[inline(always)]
    pub(super) fn add_output(&mut self, task: TaskId, arg: u16, layout: &Layout) -> BufferRef {
        self.map.add_output(task, arg, Frame::of(layout), &mut self.entries)
    }

    /// Notes a producer that was named, which may have been reclaimed long ago.
    pub(super) fn note_explicit(&mut self, pred: TaskId) {
        let ring = &self.rings[pred.ring() as usize % RINGS];
        if ring.widen(pred.local()) >= ring.tail {
            self.fetch.note(&mut self.rings, pred);
        }
    }
}
