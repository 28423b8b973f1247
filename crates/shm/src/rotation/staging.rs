//! The staging ring: how a core hands a record to its scheduler, which alone may commit it.
//!
//! Records of a core's counters belong to a pool that the core's scheduler writes. A core therefore writes what it counted into
//! a ring of two slots of its own, and its scheduler commits the slot when it sees that the core has finished. The ring's
//! address is given to the core once, before the core reports for the first time, and never changes.
//!
//! ```text
//!            StagingRing::stage              StagingRing::commit
//!   ┌─────┐ (the core, token t)  ┌─────────┐ (the scheduler: t has finished)  ┌───────────┐
//!   │ old ├─────────────────────►│ holds t ├────────────────────────────────►│ committed │
//!   └─────┘    slot t % 2        └─────────┘                                  └───────────┘
//!                                     └── it holds another token ──► void: counted as a mismatch, never exported
//! ```
//!
//! | field of slot t % 2 | core | scheduler |
//! |---|---|---|
//! | `words`, `token` | writes, from the dispatch of t until it says that t has finished | reads, from then until it dispatches t + 2 |
//!
//! Invariants:
//! - G1: at most two tokens of a core are in flight (dual issue), and t + 2 is dispatched only after t was committed. So the two
//!   in flight have a slot each, and nobody writes a slot that is being read.
//! - G2: what carries "t has finished" from core to scheduler orders the slot's words before it, and what carries the dispatch
//!   of t + 2 orders the reads of t before the writes of t + 2.
//! - G3: a slot is committed only with the token that is expected.
//!
//! Counted when it fails: `mismatch`, a defect of the device. The race it prevents: a core that has gone on to its next task
//! overwrites what its scheduler has not read yet.

use super::{PoolMemory, Writer};
use crate::lane::LaneContext;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::world::World;
use bytemuck::{Pod, Zeroable};
use plimsoll_abi::region::COUNT_STEP;

/// Slots of a ring: as many as a core holds dispatches.
const SLOTS: usize = 2;
/// Words of a slot: with its token they fill a cache line.
const WORDS: usize = 7;

/// What one core stages its records in.
#[derive(Debug, Default)]
pub struct StagingRing {
    slots: [StagingSlot; SLOTS],
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct StagingSlot {
    /// The token that the words belong to.
    token: AtomicU32,
    words: [AtomicU64; WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<StagingSlot>() == 64);

impl StagingRing {
    /// The core has executed `token`: stages its record. `stamp` is the token, but in tests of what becomes of a wrong one.
    #[inline]
    pub fn stage<R: Pod>(&self, token: u32, stamp: u32, record: &R) {
        const { assert!(size_of::<R>() <= WORDS * 8, "a slot has room for seven words") };
        let slot = &self.slots[token as usize % SLOTS];
        let mut words = [0u64; WORDS];
        bytemuck::bytes_of_mut(&mut words)[..size_of::<R>()].copy_from_slice(bytemuck::bytes_of(record));
        for (word, value) in slot.words[..size_of::<R>().div_ceil(8)].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        // Release: the words come before. pairs(staging.token): Acquire in `staged`.
        slot.token.store(stamp, Ordering::Release);
    }

    /// What was staged for `token`, which has finished; none if the slot holds another one.
    #[inline]
    pub fn staged<R: Pod>(&self, token: u32) -> Option<R> {
        let slot = &self.slots[token as usize % SLOTS];
        // Acquire: the words are visible. pairs(staging.token): Release in `stage`.
        if slot.token.load(Ordering::Acquire) != token {
            return None;
        }
        let mut words = [0u64; WORDS];
        for (value, word) in words.iter_mut().zip(&slot.words[..size_of::<R>().div_ceil(8)]) {
            *value = word.load(Ordering::Relaxed);
        }
        Some(bytemuck::pod_read_unaligned(&bytemuck::bytes_of(&words)[..size_of::<R>()]))
    }

    /// Commits what was staged for `token`, which has finished, with the pool's writer; or counts a mismatch (G3). Whether it was
    /// there.
    #[inline]
    pub fn commit<'r, R: Pod + 'r, M: PoolMemory<'r, R>, W: World>(
        &self,
        token: u32,
        writer: &mut Writer<'r, R, M>,
        lane: &mut LaneContext<'r, W>,
    ) -> bool {
        match self.staged(token) {
            Some(record) => {
                writer.push(record, lane);
                true
            }
            None => {
                writer.push_void(R::zeroed(), lane);
                false
            }
        }
    }
}

impl<'r, R: Zeroable + Copy + 'r, M: PoolMemory<'r, R>> Writer<'r, R, M> {
    /// Takes a slot for a record that is not what it should be: `void`, whose stamp is 0. It keeps its place, is counted as a
    /// mismatch and never exported; or it is counted as dropped, if there is no buffer.
    #[cold]
    fn push_void<W: World>(&mut self, void: R, lane: &mut LaneContext<'r, W>) {
        if self.slots.get(self.next).is_none() && self.rotate(lane).is_none() {
            return;
        }
        let Some(memory) = self.memory else { return };
        let (head, header) = (memory.head(), memory.header(self.buffer));
        // Relaxed, loads and stores: the owner is the only writer (I6), and `published` in `push` publishes them.
        header.void.store(header.void.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        head.mismatch.store(head.mismatch.load(Ordering::Relaxed).wrapping_add(COUNT_STEP), Ordering::Relaxed);
        self.push(void, lane);
    }
}
