//! A queue of ready tasks: one agent fills it, every agent may empty it.
//!
//! First in, first out: the oldest task is the one whose slot is reclaimed first, so running it first keeps the rings
//! moving. The queue has room for every task that can be in flight, so a push never fails.
//!
//! # Invariants
//! * R1: only the owner moves `tail`, and it never passes `head` + capacity.
//! * R2: an item belongs to whoever moves `head` past it. An item that was read before a failed move is forgotten.
//! * R3: `called` is a hint. Thieves come for tasks in front of it; behind it lie light ones, which the owner runs sooner
//!   than another agent could fetch them.
//!
//! The race it prevents: two takers of one item. Both may read it, one of them moves `head`.

use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, Wheel};
use std::io;

/// A queue of slots, by number.
#[derive(Debug)]
pub struct ReadyQueue {
    head: Padded<AtomicU64>,
    tail: Padded<Tail>,
    items: Wheel<AtomicU32>,
}

/// What the owner writes.
#[derive(Debug, Default)]
struct Tail {
    tail: AtomicU64,
    /// R3: thieves are called to what lies in front of this.
    called: AtomicU64,
}

/// Light tasks that are so many that thieves come for them.
const MANY: u64 = 4096;

impl ReadyQueue {
    /// A queue with room for `capacity` tasks.
    ///
    /// # Errors
    /// What the system says when it refuses the memory.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let room = u32::try_from(capacity.next_power_of_two()).map_err(too_large)?;
        Ok(Self { head: Padded(AtomicU64::new(0)), tail: Padded(Tail::default()), items: Wheel::zeroed(room)? })
    }

    #[inline]
    fn item(&self, at: u64) -> &AtomicU32 {
        self.items.at(at)
    }

    /// Adds a task at the end. Only the owner may call this.
    #[inline]
    pub fn push(&self, item: u32) {
        let tail = self.tail.tail.load(Ordering::Relaxed);
        self.item(tail).store(item, Ordering::Relaxed);
        // Release pairs(ready.pushed): the item, and the slot that it names, come before.
        self.tail.tail.store(tail + 1, Ordering::Release);
    }

    /// Calls thieves to all that waits. Only the owner may call this.
    #[inline]
    pub fn call(&self) {
        self.tail.called.store(self.tail.tail.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether thieves are called to what waits here, as far as can be told, or there is plenty of it.
    #[inline]
    pub fn calls(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        self.tail.called.load(Ordering::Relaxed) > head || self.tail.tail.load(Ordering::Relaxed) > head + MANY
    }

    /// How many tasks were taken and added so far, as far as can be told.
    pub fn moved(&self) -> (u64, u64) {
        (self.head.load(Ordering::Relaxed), self.tail.tail.load(Ordering::Relaxed))
    }

    /// Takes the oldest task.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Acquire pairs(ready.pushed).
            if head >= self.tail.tail.load(Ordering::Acquire) {
                return None;
            }
            let item = self.item(head).load(Ordering::Relaxed);
            // R2. Relaxed is enough: the slot was made visible by `tail`, and the owner overwrites the item only after
            // the task has finished, which it learns by other means.
            match self.head.compare_exchange_weak(head, head + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(item),
                Err(now) => head = now,
            }
        }
    }

    /// Takes up to half of the tasks, at most `most`, giving all but the oldest to `keep`.
    #[inline]
    pub fn take_half(&self, most: u64, mut keep: impl FnMut(u32)) -> Option<u32> {
        const BATCH: usize = 64;
        let mut batch = [0; BATCH];
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Acquire pairs(ready.pushed).
            let waiting = self.tail.tail.load(Ordering::Acquire).saturating_sub(head);
            if waiting == 0 {
                return None;
            }
            let count = waiting.div_ceil(2).min(most).min(BATCH as u64) as usize;
            for (at, item) in batch[..count].iter_mut().enumerate() {
                *item = self.item(head + at as u64).load(Ordering::Relaxed);
            }
            match self.head.compare_exchange_weak(head, head + count as u64, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    batch[1..count].iter().for_each(|&item| keep(item));
                    return Some(batch[0]);
                }
                Err(now) => head = now,
            }
        }
    }

    /// How many tasks wait, as far as can be told.
    #[inline]
    pub fn len(&self) -> u64 {
        // Acquire pairs(ready.pushed).
        self.tail.tail.load(Ordering::Acquire).saturating_sub(self.head.load(Ordering::Relaxed))
    }

    /// Whether none waits, as far as can be told.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything. Only while no agent is at work.
    pub fn reset(&self) {
        self.head.store(self.tail.tail.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
