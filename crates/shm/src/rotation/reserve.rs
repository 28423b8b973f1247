//! Reserve, stamp, settle: records of tasks that a core executes for the pool's owner. See [`super`] for the protocol.

use super::{StampMemory, Writer};
use crate::lane::{LaneContext, Policy};
use crate::sync::Ordering;
use crate::world::World;
use plimsoll_abi::region::COUNT_STEP;

/// A slot in flight, by the owner that reserved it. To be settled, in the order of the reservations.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a slot that is not settled keeps its buffer from being sealed"]
pub struct ReservedSlot {
    buffer: u32,
    slot: u32,
    token: u32,
}

impl ReservedSlot {
    /// The word of no place: the task runs without a record. No buffer has that number.
    pub const NONE: u64 = u64::MAX;

    /// As it is sent to the core: the buffer in the upper half, the slot in the lower.
    #[inline]
    pub fn word(&self) -> u64 {
        u64::from(self.buffer) << 32 | u64::from(self.slot)
    }

    /// The token that the slot is to be stamped with.
    #[inline]
    pub fn token(&self) -> u32 {
        self.token
    }
}

/// What became of a reservation.
#[derive(PartialEq, Eq, Debug)]
pub enum Reservation {
    /// The slot is the core's, from the dispatch until it has finished.
    Slot(ReservedSlot),
    /// There is no slot now. The task stays ready; the owner goes on completing others and tries again.
    Later,
    /// There will be none: the record is dropped and counted, and the task runs without one.
    Dropped,
}

/// Stamps a slot: writes the record of a task that this core executed, then the token. For the core that was sent `place`.
/// A place that does not exist is left alone; its owner finds the stamp missing.
///
/// # Safety
/// `place` is the word of a slot that the pool's owner reserved for this token, and this is the only call for it, made
/// before the owner can see that the token has finished.
#[inline]
pub unsafe fn stamp<'r, R: Copy + 'r>(memory: impl StampMemory<'r, R>, place: u64, token: u32, record: R) {
    let (buffer, slot) = ((place >> 32) as u32, place as u32);
    // SAFETY: the slot is in flight, so nobody but this core writes it (I8) and nobody reads it (I2).
    if unsafe { memory.write_unstamped(buffer, slot, record) }
        && let Some(word) = memory.stamp_word(buffer, slot)
    {
        // Release: the record's bytes become visible before its stamp.
        // pairs(slot.stamp): Acquire in `Reserver::settle`.
        word.store(token, Ordering::Release);
    }
}

/// The producer's half where cores execute: reserves the records of one pool and settles them.
pub struct Reserver<'r, R, M> {
    /// Its `next` is the next slot to reserve, its `published` covers those that are settled.
    writer: Writer<'r, R, M>,
    /// Slots of the current buffer that are settled, `0..=writer.next`.
    settled: usize,
    /// How many of them are void.
    void: u32,
    /// Since when there has been no buffer, in ticks, and for how many tries.
    refused: Option<(u64, u32)>,
}

impl<'r, R: Copy + 'r, M: StampMemory<'r, R>> Reserver<'r, R, M> {
    /// Reserves the slots of this pool, which must have been allocated.
    pub fn new(memory: M) -> Self {
        Self { writer: Writer::new(Some(memory)), settled: 0, void: 0, refused: None }
    }

    /// Slots that are reserved and not settled.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.writer.next - self.settled
    }

    /// Reserves the slot of a token, which is larger than those before and not 0. Never waits (I9).
    #[inline]
    pub fn reserve<W: World>(&mut self, token: u32, lane: &mut LaneContext<'r, W>) -> Reservation {
        debug_assert!(token != 0, "0 is the stamp of a slot in flight");
        if self.writer.next == self.writer.slots.len() && !self.make_room(lane) {
            return self.refuse(lane);
        }
        let (Some(memory), buffer, slot) = (self.writer.memory, self.writer.buffer, self.writer.next as u32) else {
            return Reservation::Later;
        };
        if let Some(word) = memory.stamp_word(buffer, slot) {
            // Relaxed: whatever carries the token to the core orders this before the core's stamp.
            word.store(0, Ordering::Relaxed);
        }
        self.writer.next += 1;
        Reservation::Slot(ReservedSlot { buffer, slot, token })
    }

    /// Gives back the newest reservation, whose place was sent to nobody.
    ///
    /// # Panics
    /// If `place` is not the newest reservation (I7).
    pub fn cancel(&mut self, place: ReservedSlot) {
        assert!(
            place.buffer == self.writer.buffer && place.slot as usize + 1 == self.writer.next && self.in_flight() > 0,
            "I7: slot {} is given back, but slot {} is the next to be reserved",
            place.slot,
            self.writer.next
        );
        self.writer.next -= 1;
    }

    /// Whether there is a slot after all: seals the buffer if nothing of it is in flight, and takes another.
    #[cold]
    fn make_room<W: World>(&mut self, lane: &mut LaneContext<'r, W>) -> bool {
        let Some(memory) = self.writer.memory else { return false };
        if !self.writer.claimed {
            self.writer.claim(memory, lane.owner);
            self.settled = self.writer.next;
            self.void = 0;
            if self.writer.next < self.writer.slots.len() {
                return true;
            }
        }
        self.flush(lane);
        if self.in_flight() > 0 {
            return false;
        }
        let Some(buffer) = self.writer.pop_free(memory) else { return false };
        if let Some((since, _)) = self.refused.take() {
            let waited = lane.world.ticks().saturating_sub(since);
            self.writer.count_wait(memory, waited, lane);
        }
        self.writer.make_current(memory, buffer);
        (self.settled, self.void) = (0, 0);
        true
    }

    /// A reservation that found no slot: refused as long as tasks in flight will make room, or the host may.
    fn refuse<W: World>(&mut self, lane: &mut LaneContext<'r, W>) -> Reservation {
        if self.in_flight() > 0 {
            return Reservation::Later;
        }
        let Some(memory) = self.writer.memory else { return Reservation::Later };
        lane.announce();
        let (since, tries) = *self.refused.get_or_insert_with(|| (lane.world.ticks(), 0));
        if !self.writer.starved && !lane.gives_up(since, tries) {
            self.refused = Some((since, tries.saturating_add(1)));
            return Reservation::Later;
        }
        if !self.writer.starved {
            let waited = lane.world.ticks().saturating_sub(since);
            self.writer.count_wait(memory, waited, lane);
            if lane.patience.policy == Policy::Block && !lane.ended() {
                // Relaxed: the word is only a report.
                lane.control.waits.host_gone.store(1, Ordering::Relaxed);
            }
        }
        // Later records look for a buffer but do not wait for one, until there is one again.
        self.writer.starved = true;
        self.refused = None;
        self.writer.count_dropped(memory);
        Reservation::Dropped
    }

    /// The core has finished the token of the oldest slot in flight: publishes the slot if the core has stamped it, or
    /// makes it void. Whether it was stamped.
    ///
    /// # Panics
    /// If `place` is not the oldest slot in flight (I7).
    #[inline]
    pub fn settle<W: World>(&mut self, place: ReservedSlot, lane: &mut LaneContext<'r, W>) -> bool {
        let Some(memory) = self.writer.memory else { return false };
        assert!(
            place.buffer == self.writer.buffer && place.slot as usize == self.settled && self.in_flight() > 0,
            "I7: slot {} of token {} is settled, but slot {} is the oldest in flight",
            place.slot,
            place.token,
            self.settled
        );
        // Acquire: the record's bytes are visible. pairs(slot.stamp): Release in `stamp`.
        let word = memory.stamp_word(place.buffer, place.slot);
        let right = word.is_some_and(|word| word.load(Ordering::Acquire) == place.token);
        let head = memory.head();
        if !right {
            if let Some(word) = word {
                // Relaxed: `published` below publishes it.
                word.store(0, Ordering::Relaxed);
            }
            self.void += 1;
            head.mismatch.store(head.mismatch.load(Ordering::Relaxed).wrapping_add(COUNT_STEP), Ordering::Relaxed);
        }
        self.settled += 1;
        self.writer.published += COUNT_STEP;
        // Release: the record's bytes and its stamp become visible before the count (I2).
        // pairs(head.published): Acquire in `Drainer::unsealed`.
        head.published.store(self.writer.published, Ordering::Release);
        if self.settled == self.writer.slots.len() {
            self.flush(lane);
        }
        right
    }

    /// Seals the current buffer if it holds anything and nothing of it is in flight (I8).
    pub fn flush<W: World>(&mut self, lane: &mut LaneContext<'r, W>) {
        if self.in_flight() == 0 && self.settled > 0 {
            if let Some(memory) = self.writer.memory {
                // Relaxed: the push of the seal publishes it.
                memory.header(self.writer.buffer).void.store(u64::from(self.void), Ordering::Relaxed);
            }
            self.writer.flush(lane);
            (self.settled, self.void) = (0, 0);
        }
    }

    /// Flushes and lets go of the pool, unless slots of it are in flight: then it stays this owner's, because a core may
    /// still write there. Whether it was let go.
    pub fn release<W: World>(&mut self, lane: &mut LaneContext<'r, W>) -> bool {
        self.flush(lane);
        if self.in_flight() == 0 {
            self.writer.release(lane);
        }
        self.in_flight() == 0
    }
}
