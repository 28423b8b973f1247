//! What the orchestrator says on the status board: what it waits for, and how full the rings are.

use super::Submitter;
use super::record::site_number;
use super::rings::UNPINNED;
use crate::failure::Shortage;
use crate::site::Site;
use crate::slot::SlotRef;
use crate::sync::Ordering;
use plimsoll_abi::board::{Activity, RingStatus};
use plimsoll_abi::{RINGS, SiteId, TaskId};
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    /// Says what the orchestrator does from now on.
    #[inline]
    pub fn set_activity(&mut self, activity: Activity) {
        self.agent.status.set(activity);
    }

    /// Notes how full all rings are, and which scopes pin them.
    #[inline(never)]
    pub fn note_rings(&mut self) {
        for ring in 0..RINGS {
            let site = self.pin_site(ring);
            self.note_ring_of(ring, site);
        }
        let (used, capacity) = (self.books.map.used(), self.books.map.capacity());
        self.agent.board.head().note_tensormap(used.into(), capacity.into());
    }

    /// Notes where the innermost scope was opened, for those who look from outside and for failures.
    #[inline]
    pub(super) fn note_scope(&mut self, site: Site) {
        self.shared.note_scope(site);
        self.agent.status.note_site(site_number(&mut self.sites, site, &mut self.agent.lane));
    }

    /// Notes how full the ring is that tasks go to.
    pub(crate) fn note_current_ring(&mut self) {
        self.note_ring(self.innermost.ring());
    }

    /// Notes how full one ring is: that of a scope that has just ended, or the one that tasks go to. The others change
    /// only when something is given back.
    #[inline(never)]
    pub(super) fn note_ring(&mut self, ring: usize) {
        let site = self.pin_site(ring);
        self.note_ring_of(ring, site);
    }

    fn note_ring_of(&self, ring: usize, site: SiteId) {
        let (state, capacity) = (&self.books.rings[ring], &self.shared.capacities[ring]);
        self.agent.board.rings()[ring].note(&RingStatus {
            head: state.head,
            tail: state.tail,
            watermark: state.done,
            heap_head: state.heap_head,
            heap_tail: state.heap_tail,
            dep_head: state.dep_head,
            dep_tail: state.dep_tail,
            // Every number is below the one that stands for no task, so that becomes 0.
            pin: state.pin.wrapping_add(1),
            window: capacity.window.into(),
            heap: capacity.heap,
            dep_pool: capacity.dep_pool.into(),
            site: site.0,
            ..RingStatus::default()
        });
    }

    /// Where the scope was opened that pins a ring.
    fn pin_site(&mut self, ring: usize) -> SiteId {
        if self.books.rings[ring].pin == UNPINNED {
            return SiteId(0);
        }
        match self.scopes.get(self.holding.holder(ring)) {
            Some(scope) => site_number(&mut self.sites, scope.site, &mut self.agent.lane),
            None => SiteId(0),
        }
    }

    /// The orchestrator has to wait for what it is short of.
    #[cold]
    #[inline(never)]
    pub(super) fn note_shortage(&mut self, ring: usize, shortage: &Shortage) {
        self.note_rings();
        self.agent.status.want(shortage.resource, ring as u8, shortage.asked);
        self.set_activity(Activity::WaitRoom);
    }

    /// The orchestrator has to wait for the task of a tensor.
    pub(super) fn note_awaited(&mut self, buffer: u64, producer: SlotRef) {
        let task = TaskId::from_raw(self.shared.slot(producer).task.load(Ordering::Relaxed));
        self.agent.status.await_task(buffer, task);
        self.set_activity(Activity::WaitTensor);
    }
}
