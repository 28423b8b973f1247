//! The orchestrator's books: what every ring holds, and for which task.
//!
//! Counters only grow; what is in use is the difference of two. A task's resources come back in order, when the scope
//! it belongs to has closed and every task that was submitted before the close has completed. So a completion needs
//! no look at who else reads what: the fence of the scope covers all readers.

use crate::ring::Capacity;
use crate::shared::Shared;
use crate::site::Site;
use crate::slot::SlotRef;
use bytemuck::Zeroable;
use plimsoll_abi::{RINGS, RingUse, TaskId, Usage};
use plimsoll_graph::{Mark, Tensormap};
use plimsoll_shm::mapped::{Mapped, Wheel};
use std::hint::cold_path;

/// No task of any open scope: every number is below it.
pub(super) const UNPINNED: u64 = u64::MAX;

/// What the orchestrator keeps of one task. What the task holds of the ring's resources follows from the heads at the end of its scope.
#[derive(Clone, Copy, Debug, Zeroable)]
pub(super) struct TaskAccount {
    /// Dependency entries that a task of an open scope is behind.
    dep_pinned: u32,
    /// The submit that noted this task as a producer last, or an earlier one of the same place: submits have numbers that
    /// grow, and where they begin again all marks are forgotten.
    mark: u32,
}

// SAFETY: an integer.
unsafe impl Zeroable for SlotRef {}

/// A closed scope: its tasks come back when everything submitted before its end has completed.
#[derive(Clone, Copy, Debug, Zeroable)]
struct Fence {
    end: u64,
    heads: [u64; RINGS],
    heap: u64,
    deps: u64,
    entries: u64,
    mark: Mark,
}

/// The books of one ring. A power of two in size, so that finding one takes a shift.
#[derive(Debug)]
#[repr(align(256))]
pub(super) struct RingState {
    pub(super) head: u64,
    pub(super) tail: u64,
    /// The next look for slots or for a reclaim is due when the head reaches this number.
    pub(super) look_at: u64,
    /// Every task below this number has completed.
    pub(super) done: u64,
    pub(super) heap_head: u64,
    pub(super) heap_tail: u64,
    /// Where the heap's head stood when it was at the front last.
    heap_front: u64,
    pub(super) dep_head: u64,
    pub(super) dep_tail: u64,
    /// Tensormap entries taken by the ring's tasks. Entries that the innermost scope took since it was settled last are not in it.
    pub(super) entry_head: u64,
    entry_tail: u64,
    /// First task of the outermost open scope on this ring, set by `set_pin`; [`UNPINNED`] if there is no such scope.
    pub(super) pin: u64,
    /// Every task below this number has completed and is held by no open scope, so nobody has to wait for it.
    spent: u64,
    /// Where the heap's head stood before the task `pin`; of no meaning while the ring is unpinned.
    pub(super) pin_heap: u64,
    /// Configured capacity: heap bytes. The capacity in slots is the length of `accounts`.
    pub(super) heap: u64,
    /// Configured capacity: dependency entries.
    pub(super) nodes: u64,
    accounts: Wheel<TaskAccount>,
    /// Closed scopes that have not been reclaimed. Each has at least one task, so there are never more of them than slots.
    fences: Wheel<Fence>,
    fence_head: u64,
    fence_tail: u64,
}

/// The counters of a ring at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingHeads {
    pub(super) window: (u64, u64),
    pub(super) heap: (u64, u64),
    pub(super) deps: (u64, u64),
}

impl RingHeads {
    /// What is in use.
    #[inline]
    pub(super) fn used(&self) -> RingUse {
        RingUse {
            window: (self.window.1 - self.window.0) as u32,
            dep_pool: (self.deps.1 - self.deps.0) as u32,
            heap: self.heap.1 - self.heap.0,
        }
    }
}

/// The largest usage seen, and the largest number of producers of one task.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Peaks {
    /// The largest usage, each resource by itself.
    pub usage: Usage,
    /// The largest number of producers of one task.
    pub fan_in: u32,
}

/// What a whole run used at most, and how much of it was beyond reach.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RunPeaks {
    /// The largest usage.
    pub usage: Usage,
    /// The largest number of producers of one task.
    pub fan_in: u32,
    /// The most that open scopes held at once: what is in use with every task completed and every closed scope
    /// reclaimed. With less than this the run deadlocks, with this much it does not.
    pub held: Usage,
}

/// Where the largest usage of each resource was met: by ring window, heap and dependency pool, then the tensormap.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PeakSites {
    seen: [u64; 3 * RINGS + 1],
    sites: [Option<Site>; 3 * RINGS + 1],
}

impl PeakSites {
    /// Notes the peaks of a scope that closes. Inner scopes close first, so the innermost one is named.
    pub(super) fn note(&mut self, usage: &Usage, site: Site) {
        for ring in 0..RINGS {
            self.note_one(3 * ring, u64::from(usage.window[ring]), site);
            self.note_one(3 * ring + 1, usage.heap[ring], site);
            self.note_one(3 * ring + 2, u64::from(usage.dep_pool[ring]), site);
        }
        self.note_one(3 * RINGS, u64::from(usage.tensormap), site);
    }

    #[inline]
    fn note_one(&mut self, at: usize, value: u64, site: Site) {
        if value > self.seen[at] {
            (self.seen[at], self.sites[at]) = (value, Some(site));
        }
    }

    /// The sites, in the order of [`PeakSites`].
    pub fn sites(&self) -> &[Option<Site>] {
        &self.sites
    }
}

impl RingState {
    pub(super) fn new(capacity: &Capacity) -> std::io::Result<Self> {
        Ok(Self {
            head: 0,
            tail: 0,
            look_at: 0,
            done: 0,
            heap_head: 0,
            heap_tail: 0,
            heap_front: 0,
            dep_head: 0,
            dep_tail: 0,
            entry_head: 0,
            entry_tail: 0,
            pin: UNPINNED,
            spent: 0,
            pin_heap: 0,
            heap: capacity.heap,
            nodes: u64::from(capacity.dep_pool.max(1)),
            accounts: Wheel::zeroed(capacity.window)?,
            fences: Wheel::zeroed(capacity.window)?,
            fence_head: 0,
            fence_tail: 0,
        })
    }

    /// Begins anew. The ring must hold nothing.
    pub(super) fn restart(&mut self) {
        (self.head, self.tail, self.look_at, self.done) = (0, 0, 0, 0);
        (self.heap_head, self.heap_tail, self.heap_front) = (0, 0, 0);
        (self.dep_head, self.dep_tail) = (0, 0);
        (self.entry_head, self.entry_tail) = (0, 0);
        (self.pin, self.spent, self.pin_heap) = (UNPINNED, 0, 0);
        self.fence_tail = self.fence_head;
    }

    /// Tails and heads as they are.
    pub(super) fn heads(&self) -> RingHeads {
        RingHeads {
            window: (self.tail, self.head),
            heap: (self.heap_tail, self.heap_head),
            deps: (self.dep_tail, self.dep_head),
        }
    }

    #[inline]
    pub(super) fn used(&self) -> u64 {
        self.head - self.tail
    }

    /// The place of a task in the ring.
    pub(super) fn index(&self, task: u64) -> u32 {
        self.accounts.index(task)
    }

    /// Whether a slot is free.
    #[inline]
    pub(super) fn has_slot(&self) -> bool {
        self.head - self.tail <= self.accounts.mask()
    }

    /// Whether this many heap bytes are free.
    #[inline]
    pub(super) fn has_heap(&self, bytes: u64) -> bool {
        self.heap_head - self.heap_tail + bytes <= self.heap
    }

    /// Notes a look for what can be reclaimed: the next look is after `every` tasks, or when slots run out.
    pub(super) fn looked(&mut self, every: u64) {
        self.look_at = (self.head + 1).next_multiple_of(every).min(self.tail + self.accounts.mask() + 1);
    }

    /// The position that is at the front of the heap's memory.
    #[inline]
    pub(super) fn heap_front(&self) -> u64 {
        self.heap_front
    }

    /// Whether it is worth while to begin at the front of the heap again.
    #[inline]
    pub(super) fn wants_rewind(&self) -> bool {
        // As much as stays in a core's cache beside everything else.
        const FAR: u64 = 256 << 10;
        self.heap_head - self.heap_front > FAR && self.pin == UNPINNED
    }

    /// Begins at the front of the heap again, if nothing is in use.
    pub(super) fn rewind(&mut self) {
        if self.heap_head == self.heap_tail {
            self.heap_front = self.heap_head;
        }
    }

    #[inline]
    pub(super) fn node_index(&self, position: u64) -> u32 {
        // As most pools are a power of two, most submits need no division.
        let mask = self.nodes - 1;
        if self.nodes & mask == 0 {
            return (position & mask) as u32;
        }
        cold_path();
        (position % self.nodes) as u32
    }

    /// The full number of the task whose low 32 bits are `local`: the latest one below the head.
    #[inline]
    pub(super) fn widen(&self, local: u32) -> u64 {
        self.head - u64::from((self.head as u32).wrapping_sub(local))
    }

    /// Whether an open scope holds `task`.
    #[inline]
    pub(super) fn holds(&self, task: TaskId) -> bool {
        self.widen(task.local()) >= self.pin
    }

    /// Whether `task` is in the ring.
    pub(super) fn is_in_flight(&self, task: TaskId) -> bool {
        (self.tail..self.head).contains(&self.widen(task.local()))
    }

    /// Whether nobody has to wait for `task` any more: it has completed, and no open scope holds it.
    #[inline]
    pub(super) fn is_spent(&self, task: TaskId) -> bool {
        self.widen(task.local()) < self.spent
    }

    /// Enters what the task at the head holds, and moves the head. Returns the task's place in the ring.
    #[inline]
    pub(super) fn enter(&mut self, heap: u64, deps: u32, dep_pinned: u32) -> u32 {
        self.heap_head += heap;
        self.dep_head += u64::from(deps);
        let index = self.accounts.index(self.head);
        self.accounts.at_mut(self.head).dep_pinned = dep_pinned;
        self.head += 1;
        index
    }

    /// No task has been noted by any submit: their numbers begin again.
    #[cold]
    pub(super) fn forget_marks(&mut self) {
        (0..=self.accounts.mask()).for_each(|task| self.accounts.at_mut(task).mark = 0);
    }

    /// A scope on this ring closed: its tasks come back when all that was submitted so far has completed.
    pub(super) fn fence(&mut self, heads: [u64; RINGS], mark: Mark) {
        let end = self.head;
        let newest = if self.has_fences() { self.fences.at(self.fence_head - 1).end } else { self.tail };
        if newest < end {
            let (heap, deps, entries) = (self.heap_head, self.dep_head, self.entry_head);
            *self.fences.at_mut(self.fence_head) = Fence { end, heads, heap, deps, entries, mark };
            self.fence_head += 1;
        }
    }

    /// Moves the watermark of completed tasks as far as the counts allow.
    pub(super) fn advance_done(&mut self, shared: &Shared, ring: usize) {
        let shift = shared.done.shift(ring);
        let mask = self.accounts.mask();
        let (laps, into_lap) = (self.head / (mask + 1), self.head & mask);
        while self.done < self.head {
            let chunk = (self.done & mask) >> shift;
            let upto = (((self.done >> shift) + 1) << shift).min(self.head);
            // D2: everything issued in this chunk since the start, the next lap included if the head has come round to
            // it: in front of the tail, a chunk may hold tasks of two laps.
            let issued = (laps << shift) + into_lap.saturating_sub(chunk << shift).min(1 << shift);
            if shared.done.in_chunk(ring, chunk as usize) != issued as u32 {
                break;
            }
            self.done = upto;
        }
        self.spent = self.pin.min(self.done);
    }

    /// Open scopes hold the tasks from `pin` on.
    #[inline]
    pub(super) fn set_pin(&mut self, pin: u64) {
        (self.pin, self.spent) = (pin, pin.min(self.done));
    }

    /// Gives back what the tasks of passed fences hold: they come back in order, so it is enough to know where they end.
    pub(super) fn reclaim(&mut self, ring: usize, done: &[u64; RINGS], map: &mut Tensormap) {
        while self.has_fences() {
            let fence = self.fences.at(self.fence_tail);
            if (0..RINGS).any(|ring| done[ring] < fence.heads[ring]) {
                return;
            }
            map.release(ring, fence.mark, (fence.entries - self.entry_tail) as u32);
            (self.tail, self.heap_tail, self.dep_tail) = (fence.end, fence.heap, fence.deps);
            self.entry_tail = fence.entries;
            self.fence_tail += 1;
        }
    }

    /// Whether closed scopes wait for tasks to complete.
    #[inline]
    pub(super) fn has_fences(&self) -> bool {
        self.fence_tail != self.fence_head
    }

    /// Gives dead dependency entries back. Every task must have completed: then only entries to producers that open scopes hold count.
    pub(super) fn compact_deps(&mut self) {
        self.dep_tail = self.dep_head - self.dep_pinned(self.tail..self.head);
        let (mut task, mut end) = (self.tail, self.dep_tail);
        for at in self.fence_tail..self.fence_head {
            let fence_end = self.fences.at(at).end;
            end += self.dep_pinned(task..fence_end);
            (self.fences.at_mut(at).deps, task) = (end, fence_end);
        }
    }

    /// Entries of these tasks to producers that open scopes hold.
    fn dep_pinned(&self, tasks: std::ops::Range<u64>) -> u64 {
        tasks.map(|task| u64::from(self.accounts.at(task).dep_pinned)).sum()
    }
}

/// The producers of the task at hand.
#[derive(Debug)]
pub(super) struct Fetch {
    /// The number of the submit at hand, from 1 upwards.
    serial: u32,
    /// Producers of open scopes that have completed: they take an entry all the same, so that usage does not depend
    /// on timing.
    finished: u32,
    /// How many of `producers` there are (low half), and how many producers open scopes hold (high half): one word, because
    /// a store costs more than a shift.
    counts: u64,
    /// Producers that have not completed. Room for every task that can be in flight, of which each comes once.
    producers: Mapped<SlotRef>,
}

const PINNED: u64 = 1 << 32;

impl Fetch {
    pub(super) fn new(most: usize) -> std::io::Result<Self> {
        Ok(Self { serial: 0, finished: 0, counts: 0, producers: Mapped::zeroed(most)? })
    }

    /// Begins the producers of another task. Returns whether the numbers of submits begin again: then marks are to be
    /// forgotten.
    #[inline]
    pub(super) fn begin(&mut self) -> bool {
        self.counts = 0;
        if self.finished != 0 {
            cold_path();
            self.finished = 0;
        }
        self.serial = self.serial.wrapping_add(1);
        let again = self.serial == 0;
        if again {
            cold_path();
            self.serial = 1;
        }
        again
    }

    /// The numbers begin again with the next submit.
    #[cfg(all(test, not(loom)))]
    pub(super) fn age(&mut self) {
        self.serial = u32::MAX;
    }

    /// Producers that have not completed.
    #[inline]
    fn count(&self) -> u32 {
        self.counts as u32
    }

    /// Producers that have not completed, as far as the watermark tells.
    #[inline]
    pub(super) fn live(&self) -> &[SlotRef] {
        &self.producers[..self.count() as usize]
    }

    /// Dependency entries that the task takes.
    #[inline]
    pub(super) fn entries(&self) -> u32 {
        self.count() + self.finished
    }

    /// Producers that open scopes hold.
    #[inline]
    pub(super) fn pinned(&self) -> u32 {
        (self.counts >> PINNED.trailing_zeros()) as u32
    }

    /// Notes a producer. Whether an open scope holds it.
    #[inline]
    pub(super) fn note(&mut self, rings: &mut [RingState; RINGS], pred: TaskId) -> bool {
        let ring = &mut rings[pred.ring() as usize % RINGS];
        let task = ring.widen(pred.local());
        if task < ring.spent {
            // Nobody waits for a spent task. It may have been reclaimed, so that its place in the accounts is another
            // task's.
            return false;
        }
        let (pinned, live) = (task >= ring.pin, task >= ring.done);
        let index = ring.accounts.index(task);
        let account = ring.accounts.at_mut(task);
        if account.mark == self.serial {
            return pinned;
        }
        account.mark = self.serial;
        let counts = self.counts + if pinned { PINNED } else { 0 };
        if live {
            self.producers[counts as u32 as usize] = SlotRef::new(pred.ring(), index);
            self.counts = counts + 1;
        } else {
            cold_path();
            self.counts = counts;
            self.finished += 1;
        }
        pinned
    }

    /// Forgets those that have completed since, unless an open scope holds them.
    pub(super) fn refresh(&mut self, shared: &Shared, rings: &[RingState; RINGS]) {
        let known = self.count();
        self.counts -= u64::from(known);
        for k in 0..known as usize {
            let at = self.producers[k];
            let slot = shared.slot(at);
            if slot.fan_out.is_closed() {
                let task = TaskId::from_raw(slot.task.load(std::sync::atomic::Ordering::Relaxed));
                self.finished += u32::from(rings[at.ring()].holds(task));
            } else {
                let next = self.count() as usize;
                self.producers[next] = at;
                self.counts += 1;
            }
        }
    }
}
