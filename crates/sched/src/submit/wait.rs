//! Waiting for room, and telling back-pressure from deadlock.
//!
//! A full resource blocks the submitter, who reclaims, lends a hand and sleeps in turn. Everything that was submitted
//! can run without the submitter, so once all of it has completed and been reclaimed, what is still in use is held by
//! open scopes, which only the submitter can close: that, and only that, is a deadlock. No timer is involved.

use super::books::Books;
use super::{Demand, Submitter};
use crate::failure::{Failure, FailureCause, Shortage};
use crate::policy::Lend;
use crate::slot::SlotRef;
use plimsoll_abi::board::Activity;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_abi::{ErrorCode, Flags, KernelId, RINGS, Resource, TaskId};
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use std::hint::cold_path;

/// Reclaim is looked at this often even while there is room, so that it is done in small portions.
const RECLAIM_EVERY: u64 = 64;

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    /// Returns when the ring has room for a task that asks for `demand`, dependency entries apart.
    #[inline]
    pub(super) fn reserve(&mut self, ring: usize, demand: Demand, kernel: KernelId) -> Result<(), Box<Failure>> {
        let state = &self.books.rings[ring];
        if state.head >= state.look_at && !self.look_for_slots(ring) {
            return self.reserve_slowly(ring, demand, kernel);
        }
        let state = &self.books.rings[ring];
        if state.has_heap(demand.heap) && self.books.map.has_room(demand.entries()) && !self.shared.stopped() {
            return Ok(());
        }
        self.reserve_slowly(ring, demand, kernel)
    }

    /// Reclaims what can be, and tells whether the ring has a slot.
    #[cold]
    #[inline(never)]
    fn look_for_slots(&mut self, ring: usize) -> bool {
        self.reclaim();
        self.books.rings[ring].looked(RECLAIM_EVERY);
        self.books.rings[ring].has_slot()
    }

    /// Whether the ring has all that `demand` asks for.
    fn has_room(&self, ring: usize, demand: Demand) -> bool {
        let state = &self.books.rings[ring];
        state.has_slot() && state.has_heap(demand.heap) && self.books.map.has_room(demand.entries())
    }

    /// What the ring lacks for `demand`.
    fn lacks(&self, ring: usize, demand: Demand) -> Option<Shortage> {
        let (state, capacity) = (&self.books.rings[ring], &self.shared.capacities[ring]);
        let heap = state.heap_head - state.heap_tail;
        if self.has_room(ring, demand) {
            return None;
        }
        Some(if state.used() >= u64::from(capacity.window) {
            self.shortage(Resource::TaskWindow, ring, state.used(), u64::from(capacity.window), 1)
        } else if heap + demand.heap > capacity.heap {
            self.shortage(Resource::Heap, ring, heap, capacity.heap, demand.heap)
        } else {
            let (used, capacity) = (u64::from(self.books.map.used()), u64::from(self.books.map.capacity()));
            self.shortage(Resource::Tensormap, ring, used, capacity, u64::from(demand.entries()))
        })
    }

    fn shortage(&self, resource: Resource, ring: usize, used: u64, capacity: u64, asked: u64) -> Shortage {
        let pinned = self.books.rings[ring].pin.max(self.books.rings[ring].tail);
        Shortage {
            resource,
            ring: (resource != Resource::Tensormap).then_some(ring as u8),
            used,
            capacity,
            asked,
            needed: smallest_capacity(resource, used + asked),
            needed_is_bound: true,
            pinned: (pinned < self.books.rings[ring].head).then(|| TaskId::new(ring as u8, pinned as u32)),
        }
    }

    #[cold]
    #[inline(never)]
    fn reserve_slowly(&mut self, ring: usize, demand: Demand, kernel: KernelId) -> Result<(), Box<Failure>> {
        let mut since = None;
        let room = self.wait_for_room(ring, demand, kernel, &mut since);
        self.note_ring_wait(since);
        room
    }

    /// `since` becomes when it began to wait, if it does.
    fn wait_for_room(
        &mut self,
        ring: usize,
        demand: Demand,
        kernel: KernelId,
        since: &mut Option<L::Stamp>,
    ) -> Result<(), Box<Failure>> {
        loop {
            let seen = self.shared.done.total();
            if self.shared.stopped() {
                return Err(self.first_failure());
            }
            self.reclaim();
            let Some(shortage) = self.lacks(ring, demand) else {
                self.set_activity(Activity::UserCode);
                return Ok(());
            };
            self.note_shortage(ring, &shortage);
            if self.all_done() {
                self.reclaim();
                // Everything that can come back has come back: what is still missing decides and explains the deadlock.
                return match self.lacks(ring, demand) {
                    Some(shortage) => Err(self.deadlock(ring, shortage, kernel)),
                    None => Ok(()),
                };
            }
            since.get_or_insert_with(|| self.agent.lane.stamp_for(Flags::SCHED_PHASES));
            self.agent.help_or_wait(seen + 1, self.lend);
        }
    }

    /// Returns when the ring has dependency entries for the producers at hand, of a task that holds `held` entries of the
    /// tensormap already.
    #[inline]
    pub(super) fn reserve_deps(&mut self, ring: usize, held: u32) -> Result<(), Box<Failure>> {
        if !self.lacks_deps(ring) {
            return Ok(());
        }
        cold_path();
        // The entries are not the scope's before the task is. If the task is never submitted, its entries are counted with
        // those of the tasks that would have followed.
        self.innermost.entries_before += u64::from(held);
        self.reserve_deps_slowly(ring)?;
        self.innermost.entries_before -= u64::from(held);
        Ok(())
    }

    #[inline]
    fn lacks_deps(&self, ring: usize) -> bool {
        let state = &self.books.rings[ring];
        let used = state.dep_head - state.dep_tail;
        used + u64::from(self.books.fetch.entries()) > state.nodes
    }

    #[cold]
    #[inline(never)]
    fn reserve_deps_slowly(&mut self, ring: usize) -> Result<(), Box<Failure>> {
        let mut since = None;
        let room = self.wait_for_deps(ring, &mut since);
        self.note_ring_wait(since);
        room
    }

    /// Records how long the submitter waited for a ring, if it did.
    fn note_ring_wait(&mut self, since: Option<L::Stamp>) {
        if let Some(since) = since.filter(|_| self.agent.lane.on(Flags::SCHED_PHASES)) {
            self.agent.release_phase(since, SchedPhaseKind::RingWait);
        }
    }

    /// `since` becomes when it began to wait, if it does.
    fn wait_for_deps(&mut self, ring: usize, since: &mut Option<L::Stamp>) -> Result<(), Box<Failure>> {
        loop {
            let seen = self.shared.done.total();
            if self.shared.stopped() {
                return Err(self.first_failure());
            }
            self.reclaim();
            self.books.fetch.refresh(self.shared, &self.books.rings);
            if !self.lacks_deps(ring) {
                self.set_activity(Activity::UserCode);
                return Ok(());
            }
            let shortage = self.dep_shortage(ring);
            self.note_shortage(ring, &shortage);
            if self.all_done() {
                self.reclaim();
                self.note_peaks();
                self.books.rings[ring].compact_deps();
                self.books.fetch.refresh(self.shared, &self.books.rings);
                if !self.lacks_deps(ring) {
                    return Ok(());
                }
                let shortage = self.dep_shortage(ring);
                return Err(self.deadlock(ring, shortage, self.kernel_at_hand(ring)));
            }
            since.get_or_insert_with(|| self.agent.lane.stamp_for(Flags::SCHED_PHASES));
            self.agent.help_or_wait(seen + 1, self.lend);
        }
    }

    /// What the ring lacks of dependency entries.
    fn dep_shortage(&self, ring: usize) -> Shortage {
        let state = &self.books.rings[ring];
        let (used, capacity) = (state.dep_head - state.dep_tail, self.shared.capacities[ring].dep_pool);
        let asked = u64::from(self.books.fetch.entries());
        self.shortage(Resource::DepPool, ring, used, u64::from(capacity), asked)
    }

    /// Whether every submitted task has completed.
    pub(super) fn all_done(&self) -> bool {
        self.shared.done.total() == self.submitted
    }

    /// Where the rings are: every task that was submitted so far is below these numbers.
    pub fn marks(&self) -> [u64; RINGS] {
        std::array::from_fn(|ring| self.books.rings[ring].head)
    }

    /// Whether every task below these numbers has completed. Not after the run has failed: tasks are not followed then.
    pub fn have_completed(&mut self, marks: &[u64; RINGS]) -> bool {
        if !matches!(self.mode, super::SubmitMode::Running) || self.shared.stopped() {
            return false;
        }
        let (rings, shared) = (&mut self.books.rings, self.shared);
        marks.iter().zip(rings).enumerate().all(|(ring, (mark, state))| {
            state.advance_done(shared, ring);
            // The watermark moves by chunks. Slots above it are those of their tasks: none of them has come back.
            let mut above = state.done..*mark;
            above.all(|task| shared.slot(SlotRef::new(ring as u8, state.index(task))).fan_out.is_closed())
        })
    }

    /// Takes back what completed tasks of closed scopes held.
    pub(super) fn reclaim(&mut self) {
        self.books.sweep_now_and_then();
        if !self.books.rings.iter().any(|ring| ring.has_fences()) {
            return;
        }
        let start = self.agent.lane.stamp_for(Flags::SCHED_PHASES);
        self.note_peaks();
        for ring in 0..RINGS {
            self.books.rings[ring].advance_done(self.shared, ring);
        }
        let done = std::array::from_fn(|ring| self.books.rings[ring].done);
        for ring in 0..RINGS {
            self.reclaim_ring(ring, done);
        }
        if self.agent.lane.on(Flags::SCHED_PHASES) {
            self.agent.release_phase(start, SchedPhaseKind::Release);
        }
    }

    #[inline]
    fn reclaim_ring(&mut self, ring: usize, done: [u64; RINGS]) {
        // The bug that the simulator must find: readers on other rings are not waited for.
        #[cfg(feature = "planted-bug")]
        let done = std::array::from_fn(|other| if other == ring { done[other] } else { u64::MAX });
        let state = &mut self.books.rings[ring];
        let (from, front) = (state.heap_tail, state.heap_front());
        state.reclaim(ring, &done, &mut self.books.map);
        let bytes = state.heap_tail - from;
        // SAFETY: the bytes lie in the ring's heap, in which every range up to its size is contiguous, and belonged to
        // tasks that have completed and whose readers have too.
        unsafe { self.agent.platform.reclaimed(self.shared.rings[ring].heap.address(from - front), bytes as usize) };
    }

    /// Begins at the front of a ring's heap again where that costs no waiting: what is used again soon is still in the
    /// cache, and memory that a run does not need at once is never touched.
    pub(super) fn rewind_heap(&mut self, ring: usize) {
        if self.lend != Lend::Everything || !self.books.rings[ring].wants_rewind() {
            return;
        }
        self.agent.run_light_tasks();
        if self.all_done() {
            self.reclaim();
            self.books.rings[ring].rewind();
        }
    }

    /// Waits until every submitted task has completed, or the run has failed and nothing runs here any more.
    ///
    /// # Errors
    /// The run's first failure.
    pub fn drain(&mut self) -> Result<(), Box<Failure>> {
        self.note_rings();
        self.set_activity(Activity::Drain);
        loop {
            if self.shared.stopped() {
                return Err(self.first_failure());
            }
            if self.all_done() {
                return Ok(());
            }
            self.agent.help_or_wait(self.submitted, self.lend);
        }
    }

    /// Waits until `tensor` holds what the tasks submitted so far write to it; and if it `writes` what they read, until they
    /// have read it.
    ///
    /// # Errors
    /// The run's first failure.
    pub fn wait_for(&mut self, tensor: &super::TensorCore, writes: bool) -> Result<(), Box<Failure>> {
        if !matches!(self.mode, super::SubmitMode::Running) {
            return Err(self.end_of_counting());
        }
        self.books.begin();
        let Books { map, rings, fetch, .. } = &mut self.books;
        let footprint = tensor.footprint(map);
        map.producers(tensor.buffer, &footprint, writes, |task| {
            fetch.note(rings, task);
        });
        self.books.note_untracked_users(tensor.buffer, writes);
        let since = self.agent.platform.nanos();
        let mut noted = false;
        loop {
            let seen = self.shared.done.total();
            self.books.fetch.refresh(self.shared, &self.books.rings);
            if self.shared.stopped() {
                return Err(self.first_failure());
            }
            let Some(&producer) = self.books.fetch.live().first() else {
                self.set_activity(Activity::UserCode);
                return Ok(());
            };
            if !std::mem::replace(&mut noted, true) {
                self.note_rings();
            }
            self.note_awaited(self.books.map.number(tensor.buffer), producer);
            if let Some(budget) = self.wait_budget.filter(|budget| self.waited(since) > *budget) {
                return Err(self.wait_failure(producer, budget));
            }
            self.agent.help_or_wait(seen + 1, self.lend);
        }
    }

    fn waited(&self, since: u64) -> std::time::Duration {
        std::time::Duration::from_nanos(self.agent.platform.nanos().saturating_sub(since))
    }

    #[cold]
    fn wait_failure(&mut self, producer: crate::slot::SlotRef, budget: std::time::Duration) -> Box<Failure> {
        let slot = self.shared.slot(producer);
        let task = TaskId::from_raw(slot.task.load(std::sync::atomic::Ordering::Relaxed));
        let kernel = KernelId(slot.kernel());
        let mut failure = Failure::new(ErrorCode::TensorWaitTimeout, FailureCause::ReadTimedOut(budget));
        (failure.task, failure.kernel, failure.site) = (Some(task), Some(kernel), Some(self.site()));
        self.raise(failure)
    }

    /// The failure that ended the run.
    pub(super) fn first_failure(&mut self) -> Box<Failure> {
        if matches!(self.mode, super::SubmitMode::Running) {
            self.mode = super::SubmitMode::Failed;
        }
        let unknown = || Failure::new(ErrorCode::Cancelled, FailureCause::Stopped);
        Box::new(self.shared.failure().unwrap_or_else(unknown))
    }

    #[cold]
    fn deadlock(&mut self, ring: usize, shortage: Shortage, kernel: KernelId) -> Box<Failure> {
        self.settle();
        let nested = ring == RINGS - 1 && self.scopes.iter().filter(|scope| scope.ring as usize == ring).count() > 1;
        let code = match shortage.resource {
            Resource::TaskWindow if nested => ErrorCode::FlowControlDeadlock,
            Resource::TaskWindow => ErrorCode::ScopeDeadlock,
            Resource::Heap => ErrorCode::HeapRingDeadlock,
            Resource::DepPool => ErrorCode::DepPoolOverflow,
            Resource::Tensormap => ErrorCode::TensormapOverflow,
        };
        let holder = self.holder(&shortage);
        let mut failure = Failure::new(code, FailureCause::Deadlock);
        failure.kernel = Some(kernel);
        failure.site = Some(self.scopes[holder].site);
        failure.task = shortage.pinned;
        failure.shortage = Some(shortage);
        self.shared.fail(self.agent.platform, failure.clone());
        self.begin_counting(holder, &shortage);
        Box::new(failure)
    }

    /// The scope that holds what ran out: the outermost open one with tasks on the ring, or on any for the tensormap.
    fn holder(&self, shortage: &Shortage) -> usize {
        self.scopes
            .iter()
            .position(|scope| match shortage.ring {
                Some(ring) => scope.ring == ring && scope.first != super::rings::UNPINNED,
                None => scope.entries > 0,
            })
            .unwrap_or(self.scopes.len() - 1)
    }
}

/// The smallest valid capacity that is at least `amount`.
pub(super) fn smallest_capacity(resource: Resource, amount: u64) -> u64 {
    match resource {
        Resource::TaskWindow => amount.next_power_of_two(),
        _ => amount,
    }
}
