//! Rotation: how records travel from a producer to the host through a pool's few buffers, without loss.
//!
//! One engine serves every kind of record; what a kind adds is its record type. Both halves are here: the device side, one
//! per pool, used by the one agent that owns the pool, and the host side ([`Drainer`]), one per region.
//!
//! ```text
//!                Writer::take                     Writer::seal                  Drainer::take
//!     ┌───────┐ (free queue)   ┌─────────┐ (owner's ready queue) ┌───────┐                  ┌──────────┐
//!     │ Free  ├───────────────►│ Writing ├──────────────────────►│ Ready ├─────────────────►│ Draining │
//!     └───▲───┘                └─────────┘                       └───────┘                  └────┬─────┘
//!         └──────────────────── Drainer::give_back (free queue) ─────────────────────────────────┘
//! ```
//!
//! A record gets into a buffer that is Writing in one of two ways. An owner that executes itself *pushes* it ([`Writer`]).
//! An owner whose tasks are executed by a core of its own *reserves* its slot when it dispatches and sends the slot's
//! place along with the token ([`Reserver`]); the core writes exactly there and *stamps* the slot with the token
//! ([`stamp`]); when the owner sees that the core has finished, it *settles* the slot.
//!
//! ```text
//!                Reserver::reserve              stamp                       Reserver::settle
//!     ┌───────┐ (the owner)    ┌───────────┐ (the core)    ┌─────────┐ (the owner)  ┌───────────┐
//!     │ empty ├───────────────►│ in flight ├──────────────►│ stamped ├─────────────►│ published │
//!     └───────┘                └─────┬─────┘               └─────────┘              └───────────┘
//!                                    └───── settled without the right stamp ──────► void: keeps its place, counts in `mismatch`, is never exported
//! ```
//!
//! Where a core counts while it executes, its records are *staged* beside the pool and pushed by the owner ([`StagingRing`]).
//!
//! | state | records, buffer header | active head |
//! |---|---|---|
//! | Free | nobody | – |
//! | Writing | the owner writes; of a slot in flight, the core that was sent its place; anybody may read the records below the published count | owner writes |
//! | Ready, Draining | nobody writes; the host reads | – |
//!
//! Invariants:
//! - I1: a buffer is in exactly one state, and in a ready queue only while it is Ready; a ready queue has a slot for every
//!   buffer that can reach it, so sealing never waits.
//! - I2: the head's `published` covers a record only after its bytes are written.
//! - I3: a full buffer is sealed before a replacement is taken, so a pool of one buffer makes progress.
//! - I4: sealed buffers of a pool carry the sequence numbers 0, 1, 2, … without gaps, and the host sees them in order.
//! - I5: a buffer's header says `count > 0` exactly from its seal until it is taken again; between, while it is current,
//!   its count is `published - base`. So whoever finds a dead run's region knows every record without the queues.
//! - I6: one agent at a time owns a pool. One that lets go of it has sealed its buffer before.
//! - I7: slots are settled in the order in which they were reserved, which is that of the tokens, so what is published is a
//!   prefix of the buffer.
//! - I8: a buffer is sealed only when no slot of it is in flight, so a core never writes into a buffer of the host's.
//! - I9: a reservation never waits. It is refused while the buffer is full and not settled, or while there is none.
//!
//! Counted when it fails: `dropped` where a record finds no buffer (policy drop, a host that is gone, a recording that
//! has ended); `mismatch` where a slot was not stamped with its token,
//! or another token was staged, a defect of the device; `wait_ticks` for every wait.
//! The race that matters is a seal against the host: the host may drain and free a buffer before its owner has cleared
//! the active word. That is harmless, because the owner neither writes the buffer nor reads its header after the push,
//! and a reader of a dead region drops it by its sequence number.

mod memory;
mod reserve;
mod staging;

pub use memory::{Counters, HostMemory, PoolMemory, SharedPart, StampMemory, Taken, Unsealed};
pub use reserve::{Reservation, ReservedSlot, Reserver, stamp};
pub use staging::StagingRing;

use crate::error::Error;
use crate::lane::{LaneContext, Policy};
use crate::queue::{Consumer, Producer};
use crate::sync::{Ordering, RecordSlot};
use crate::words::ActiveHead;
use crate::world::World;
use plimsoll_abi::region::{COUNT_STEP, active_word, from_active_word, from_count_word, from_ready_word, ready_word};

/// The producer's half: writes the records of one pool.
pub struct Writer<'r, R, M> {
    /// The current buffer; empty if there is none.
    slots: &'r [RecordSlot<R>],
    /// The next slot to write, `0..=slots.len()`.
    next: usize,
    /// What the head's `published` says, a count word.
    published: u64,
    /// The pool, or nothing if it was not allocated.
    memory: Option<M>,
    /// The current buffer's number; meaningless if there is none.
    buffer: u32,
    /// Whether this writer owns the pool.
    claimed: bool,
    /// Whether the last wait was in vain: then later records look for a buffer but do not wait for one.
    starved: bool,
    /// The consumer's end of the free queue.
    free: Option<Consumer>,
}

impl<'r, R: Copy + 'r, M: PoolMemory<'r, R>> Writer<'r, R, M> {
    /// A writer of this pool. It claims the pool with its first record, so many may be made for pools that are
    /// written by others.
    pub fn new(memory: Option<M>) -> Self {
        Self { slots: &[], next: 0, published: 0, memory, buffer: 0, claimed: false, starved: false, free: None }
    }

    /// Writes a record, or counts it as dropped. Whether it was kept.
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub fn push<W: World>(&mut self, record: R, lane: &mut LaneContext<'r, W>) -> bool {
        let (slot, head) = match (self.slots.get(self.next), self.memory) {
            (Some(slot), Some(memory)) => (slot, memory.head()),
            _ => match self.rotate(lane) {
                Some(found) => found,
                None => return false,
            },
        };
        // SAFETY: the slot is at or above the published count of the buffer this writer took from the free queue
        // (I1), so nobody reads it, and `&mut self` of the pool's only owner (I6) excludes other writes.
        unsafe { slot.write(record) };
        self.next += 1;
        self.published += COUNT_STEP;
        // Release: the record's bytes become visible before the count (I2).
        // pairs(head.published): Acquire in `Drainer::unsealed`.
        head.published.store(self.published, Ordering::Release);
        true
    }

    /// Whether the pool was allocated.
    pub fn is_allocated(&self) -> bool {
        self.memory.is_some()
    }

    /// Seals the current buffer if it holds anything, so that the host gets it with the next
    /// [`LaneContext::announce`].
    pub fn flush<W: World>(&mut self, lane: &mut LaneContext<'r, W>) {
        if let (true, Some(memory)) = (self.next > 0, self.memory) {
            self.seal(memory, lane);
        }
    }

    /// Flushes and lets go of the pool; another writer may claim it.
    pub fn release<W: World>(&mut self, lane: &mut LaneContext<'r, W>) {
        let Some(memory) = self.memory else { return };
        if self.claimed {
            // A buffer is taken only for a record, so after this there is no current one.
            self.flush(lane);
            self.claimed = false;
            self.free = None;
            // Release: all that this owner wrote is visible to the next one (I6).
            // pairs(head.owner): Acquire in `claim`.
            memory.head().owner.store(0, Ordering::Release);
        }
    }

    #[cold]
    #[inline(never)]
    fn rotate<W: World>(&mut self, lane: &mut LaneContext<'r, W>) -> Option<(&'r RecordSlot<R>, &'r ActiveHead)> {
        let memory = self.memory.expect(
            "I6: a record for a pool that was not allocated; the session's roles and cores must name its writer",
        );
        if !self.claimed {
            self.claim(memory, lane.owner);
        }
        if self.next == self.slots.len() {
            if self.next > 0 {
                self.seal(memory, lane);
            }
            if !self.take(memory, lane) {
                self.count_dropped(memory);
                return None;
            }
        }
        Some((&self.slots[self.next], memory.head()))
    }

    fn claim(&mut self, memory: M, owner: u32) {
        let head = memory.head();
        // Acquire: what the last owner wrote is visible here.
        // pairs(head.owner): Release in `release`.
        let claimed = head.owner.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed);
        assert!(
            claimed.is_ok() || claimed == Err(owner),
            "I6: agent {} writes records of pool {}, which belongs to agent {}",
            owner - 1,
            memory.index(),
            head.owner.load(Ordering::Relaxed).wrapping_sub(1)
        );
        self.claimed = true;
        self.published = head.published.load(Ordering::Relaxed);
        self.free = Some(Consumer::attach(memory.free()));
        let (_, current) = from_active_word(head.active.load(Ordering::Relaxed));
        if let Some(buffer) = current.filter(|&buffer| buffer < memory.buffers()) {
            self.buffer = buffer;
            self.slots = memory.slots(buffer);
            let used = self.published.wrapping_sub(head.base.load(Ordering::Relaxed)) / COUNT_STEP;
            self.next = (used as usize).min(self.slots.len());
        }
    }

    /// Writing → Ready.
    fn seal<W: World>(&mut self, memory: M, lane: &mut LaneContext<'r, W>) {
        let head = memory.head();
        // Relaxed: the push below publishes it.
        memory.header(self.buffer).count.store(self.next as u64, Ordering::Relaxed);
        let pushed = lane.sealed.push(lane.ready, ready_word(memory.index(), self.buffer));
        assert!(pushed.is_ok(), "I1: the ready queue of agent {} is full", lane.owner - 1);
        self.slots = &[];
        self.next = 0;
        let (sequence, _) = from_active_word(head.active.load(Ordering::Relaxed));
        // Release: a reader of a dead region must not find the head cleared before the buffer is ready (I5).
        // pairs(head.active): Acquire in `Drainer::unsealed`.
        head.active.store(active_word(sequence + 1, None), Ordering::Release);
        lane.note_sealed();
    }

    /// Free → Writing. Waits for the host as long as the policy says; `false` if there is no buffer.
    fn take<W: World>(&mut self, memory: M, lane: &mut LaneContext<'r, W>) -> bool {
        let mut waited = lane.wait_with_others();
        let mut found = self.pop_free(memory);
        if found.is_none() && !self.starved {
            let (buffer, ticks) = self.wait(memory, lane);
            found = buffer;
            waited += ticks;
        }
        self.count_wait(memory, waited, lane);
        self.starved = found.is_none();
        let Some(buffer) = found else { return false };
        self.make_current(memory, buffer);
        true
    }

    /// A buffer from the free queue becomes the current one.
    fn make_current(&mut self, memory: M, buffer: u32) {
        let (head, header) = (memory.head(), memory.header(buffer));
        self.starved = false;
        let (sequence, _) = from_active_word(head.active.load(Ordering::Relaxed));
        // The order matters to a reader of a dead region (I5): first the buffer is unsealed, then it has its new
        // number, then it is current. Each Release keeps the stores above it above it. pairs(region.image): readers of
        // the dead region's file in `image.rs`. A reader of a live region gets the number through the ready queue.
        header.count.store(0, Ordering::Relaxed);
        header.void.store(0, Ordering::Relaxed);
        header.sequence_plus_1.store(sequence + 1, Ordering::Release);
        // pairs(head.base), pairs(head.active): Acquire in `Drainer::unsealed`.
        head.base.store(self.published, Ordering::Release);
        head.active.store(active_word(sequence, Some(buffer)), Ordering::Release);
        self.buffer = buffer;
        self.slots = memory.slots(buffer);
        self.next = 0;
    }

    fn count_dropped(&self, memory: M) {
        let dropped = &memory.head().dropped;
        // Relaxed, load and store: the owner is the only writer (I6).
        dropped.store(dropped.load(Ordering::Relaxed).wrapping_add(COUNT_STEP), Ordering::Relaxed);
    }

    fn count_wait<W: World>(&self, memory: M, ticks: u64, lane: &mut LaneContext<'r, W>) {
        let waited = &memory.head().wait_ticks;
        if ticks > 0 {
            waited.store(waited.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
            lane.note_wait(ticks);
        }
    }

    fn pop_free(&mut self, memory: M) -> Option<u32> {
        let free = self.free.as_mut()?;
        // A damaged queue or index is as good as an empty queue: the record is dropped and counted.
        let word = free.take(memory.free()).ok().flatten()?;
        u32::try_from(word).ok().filter(|&buffer| buffer < memory.buffers())
    }

    fn wait<W: World>(&mut self, memory: M, lane: &mut LaneContext<'r, W>) -> (Option<u32>, u64) {
        lane.announce();
        let _waits = lane.begin_wait();
        let waits = &lane.control.waits;
        // Relaxed: the two words only time the waits of others.
        waits.blocked.fetch_add(1, Ordering::Relaxed);
        let since = lane.world.ticks();
        let mut step = 0;
        let found = loop {
            if let Some(buffer) = self.pop_free(memory) {
                break Some(buffer);
            }
            if lane.gives_up(since, step) {
                break None;
            }
            lane.world.wait_for_host(step);
            step = step.saturating_add(1);
        };
        waits.releases.fetch_add(1, Ordering::Relaxed);
        waits.blocked.fetch_sub(1, Ordering::Relaxed);
        if found.is_none() && lane.patience.policy == Policy::Block && !lane.ended() {
            waits.host_gone.store(1, Ordering::Relaxed);
        }
        (found, lane.world.ticks().saturating_sub(since))
    }
}

/// The host's half: takes sealed buffers and gives them back.
#[derive(Debug)]
pub struct Drainer {
    ready: Vec<Consumer>,
    pools: Vec<PoolCursor>,
    /// Whether a buffer was left in its queue, since one before it is in another (I4).
    postponed: bool,
}

#[derive(Debug)]
struct PoolCursor {
    free: Option<Producer>,
    next_sequence: u64,
}

impl Drainer {
    /// The drainer of a fresh region with `agents` ready queues and a directory of `pools` entries: gives every buffer
    /// to its pool's free queue.
    ///
    /// # Errors
    /// What [`HostMemory::write_back`] fails with.
    ///
    /// # Panics
    /// If a free queue has fewer slots than its pool has buffers (I1).
    pub fn stock(memory: &impl HostMemory, agents: usize, pools: usize) -> Result<Self, Error> {
        let ready = (0..agents).map(|agent| Consumer::attach(memory.ready(agent))).collect();
        let cursor = |pool: u32| {
            let Some((buffers, _)) = memory.geometry(pool) else { return Ok(None) };
            let mut free = Producer::attach(memory.free(pool));
            for buffer in 0..buffers {
                let pushed = free.push(memory.free(pool), u64::from(buffer));
                assert!(pushed.is_ok(), "I1: the free queue of pool {pool} has no slot for buffer {buffer}");
            }
            memory.write_back(SharedPart::Free(pool))?;
            Ok(Some(free))
        };
        let cursors = (0..pools as u32).map(|pool| Ok(PoolCursor { free: cursor(pool)?, next_sequence: 0 }));
        Ok(Self { ready, pools: cursors.collect::<Result<_, Error>>()?, postponed: false })
    }

    /// Whether a buffer was left in its queue since this was asked last, because one before it is in another agent's: whoever has
    /// looked at all queues looks again.
    pub fn has_postponed(&mut self) -> bool {
        std::mem::take(&mut self.postponed)
    }

    /// Ready → Draining: the next sealed buffer of an agent's queue. Everything the other side wrote is checked.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a word of the other side is outside its range; else what [`HostMemory`] fails with when it moves words.
    pub fn take(&mut self, memory: &impl HostMemory, agent: usize) -> Result<Option<Taken>, Error> {
        memory.refresh(SharedPart::Ready(agent))?;
        // The queue's Acquire makes the records and the header visible.
        let Some(word) = self.ready[agent].peek(memory.ready(agent))? else { return Ok(None) };
        let looked = self.look(memory, word);
        if let Ok(taken) = &looked
            && taken.sequence > self.pools[taken.pool as usize].next_sequence
            && self.others_wait(memory, agent)?
        {
            self.postponed = true;
            return Ok(None);
        }
        self.ready[agent].take(memory.ready(agent))?;
        memory.write_back(SharedPart::Ready(agent))?;
        let taken = looked?;
        let cursor = &mut self.pools[taken.pool as usize];
        if taken.sequence != cursor.next_sequence {
            return Err(Error::corrupt("sequence (I4)", taken.sequence, cursor.next_sequence));
        }
        cursor.next_sequence += 1;
        memory.refresh(SharedPart::Records(taken.pool, taken.buffer, taken.count))?;
        Ok(Some(taken))
    }

    /// Whether other agents' queues hold something. A pool that has changed its owner has buffers in two queues; what the old owner
    /// sealed was there before the new one sealed anything, so whoever sees the second finds the first.
    fn others_wait(&self, memory: &impl HostMemory, agent: usize) -> Result<bool, Error> {
        for other in (0..self.ready.len()).filter(|other| *other != agent) {
            memory.refresh(SharedPart::Ready(other))?;
            if self.ready[other].peek(memory.ready(other))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The sealed buffer that a word of a ready queue names.
    fn look(&self, memory: &impl HostMemory, word: u64) -> Result<Taken, Error> {
        let (pool, buffer) = from_ready_word(word);
        let (buffers, records) =
            memory.geometry(pool).ok_or_else(|| Error::corrupt("ready pool", pool, self.pools.len() as u64))?;
        if buffer >= buffers {
            return Err(Error::corrupt("ready buffer", buffer, buffers - 1));
        }
        memory.refresh(SharedPart::Header(pool, buffer))?;
        let header = memory.header(pool, buffer);
        let count = header.count.load(Ordering::Relaxed);
        if count == 0 || count > u64::from(records) {
            return Err(Error::corrupt("sealed count (I5)", count, records));
        }
        let void = header.void.load(Ordering::Relaxed);
        if void > count {
            return Err(Error::corrupt("void records", void, count));
        }
        let sequence = header.sequence_plus_1.load(Ordering::Relaxed).wrapping_sub(1);
        Ok(Taken { pool, buffer, sequence, count: count as u32, void: void as u32 })
    }

    /// Draining → Free.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the producer's end of the free queue is damaged; else what [`HostMemory`] fails with when it moves
    /// words. The buffer is not given back.
    ///
    /// # Panics
    /// If `taken` comes from a drainer of another region, which has such a pool (I1).
    pub fn give_back(&mut self, memory: &impl HostMemory, taken: Taken) -> Result<(), Error> {
        let Taken { pool, buffer, .. } = taken;
        let free = self.pools[pool as usize].free.as_mut().expect("I1: a taken buffer has a pool");
        memory.refresh(SharedPart::Free(pool))?;
        let pushed = free.push(memory.free(pool), u64::from(buffer));
        pushed.map_err(|_| Error::corrupt("length of a free queue (I1)", buffer, 0u32))?;
        memory.write_back(SharedPart::Free(pool))
    }

    /// What is published in the pool's current buffer but not sealed, with the producer's counters of that moment.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a count of the other side is damaged; else what [`HostMemory::refresh`] fails with.
    pub fn unsealed(&self, memory: &impl HostMemory, pool: u32) -> Result<Sweep, Error> {
        memory.refresh(SharedPart::Head(pool))?;
        let head = memory.head(pool);
        // Acquire, both. pairs(head.active), pairs(head.base): Release in `Writer::seal` and `Writer::make_current`.
        let active = head.active.load(Ordering::Acquire);
        let base = counted("base", head.base.load(Ordering::Acquire))?;
        // Acquire: the records below this count are visible (I2).
        // pairs(head.published): Release in `Writer::push` and `Reserver::settle`.
        let published = counted("published", head.published.load(Ordering::Acquire))?;
        let mismatch = counted("mismatch", head.mismatch.load(Ordering::Relaxed))?;
        let counters = Counters {
            published: published.saturating_sub(mismatch),
            dropped: counted("dropped", head.dropped.load(Ordering::Relaxed))?,
            mismatch,
            wait_ticks: head.wait_ticks.load(Ordering::Relaxed),
        };
        let (sequence, current) = from_active_word(active);
        let next = self.pools[pool as usize].next_sequence;
        let (buffers, records) = memory.geometry(pool).unwrap_or((0, 0));
        let count = published.saturating_sub(base).min(u64::from(records)) as u32;
        // A buffer that was drained before its owner has cleared the active word is not unsealed.
        let open = current.filter(|&buffer| buffer < buffers && count > 0 && next == sequence);
        if let Some(buffer) = open {
            memory.refresh(SharedPart::Records(pool, buffer, count))?;
        }
        memory.refresh(SharedPart::Head(pool))?;
        // The active word never takes an earlier value again, so an equal one means that nothing moved in between.
        // pairs(head.active): Release in `Writer::seal` and `Writer::make_current`.
        if head.active.load(Ordering::Acquire) != active || next < sequence {
            return Ok(Sweep::Busy(counters));
        }
        Ok(Sweep::Settled(open.map(|buffer| Unsealed { buffer, sequence, count }), counters))
    }
}

/// The count that a word of an active head holds.
fn counted(what: &'static str, word: u64) -> Result<u64, Error> {
    from_count_word(word).ok_or_else(|| Error::corrupt(what, word, word - word % COUNT_STEP))
}

/// What a look at a pool's current buffer found.
#[derive(PartialEq, Eq, Debug)]
pub enum Sweep {
    /// Nothing moved meanwhile: what is published and not sealed, if anything is, and the producer's counters.
    Settled(Option<Unsealed>, Counters),
    /// Sealed buffers wait, or the producer sealed one meanwhile: drain, and look again. The counters are true all the
    /// same.
    Busy(Counters),
}
