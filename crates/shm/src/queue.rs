//! A bounded queue with one producer and one consumer; both halves are here.
//!
//! ```text
//!   producer: push ──► slots[head & mask], head += 1 ──► consumer: take ──► tail += 1
//! ```
//!
//! Owners: `head` and the slots in `tail..head + free` belong to the producer, `tail` to the consumer. A half keeps its
//! own index as a private cursor, so it never trusts what the other side could write there.
//!
//! Invariants:
//! - Q1: `0 <= head - tail <= slots`, both only grow.
//! - Q2: a slot is written only while it is outside `tail..head`.

use crate::error::Error;
use crate::sync::{AtomicU64, Ordering};
use crate::words::QueueHead;

/// The shared part of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueView<'r> {
    words: &'r QueueHead,
    /// The slots, a power of two of them.
    slots: &'r [AtomicU64],
}

/// The value that found no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full(pub u64);

/// The producer's cursor: values pushed so far.
#[derive(Debug)]
pub struct Producer {
    head: u64,
}

/// The consumer's cursor: values taken so far.
#[derive(Debug)]
pub struct Consumer {
    taken: u64,
}

impl<'r> QueueView<'r> {
    /// A queue over these words.
    ///
    /// # Panics
    /// If the number of slots is no power of two.
    pub fn new(words: &'r QueueHead, slots: &'r [AtomicU64]) -> Self {
        assert!(slots.len().is_power_of_two(), "Q1: a queue has a power of two of slots, not {}", slots.len());
        Self { words, slots }
    }

    fn slot(&self, index: u64) -> &'r AtomicU64 {
        &self.slots[(index & (self.slots.len() as u64 - 1)) as usize]
    }
}

impl Producer {
    /// Goes on where the last producer of this queue stopped.
    pub fn attach(queue: QueueView<'_>) -> Self {
        // Relaxed: whoever handed the producer's role to this thread ordered the two.
        Self { head: queue.words.head.0.load(Ordering::Relaxed) }
    }

    /// Appends a value, or hands it back if there is no room.
    ///
    /// # Errors
    /// [`Full`] with the value.
    pub fn push(&mut self, queue: QueueView<'_>, value: u64) -> Result<(), Full> {
        // Acquire: the consumer is done with the slot before it is written again (Q2).
        // pairs(queue.tail): Release in `Consumer::take`.
        let tail = queue.words.tail.0.load(Ordering::Acquire);
        if self.head.wrapping_sub(tail) >= queue.slots.len() as u64 {
            return Err(Full(value));
        }
        queue.slot(self.head).store(value, Ordering::Relaxed);
        self.head += 1;
        // Release: the slot, and all that the value stands for, become visible before the index.
        // pairs(queue.head): Acquire in `Consumer::take`.
        queue.words.head.0.store(self.head, Ordering::Release);
        Ok(())
    }
}

impl Consumer {
    /// Goes on where the last consumer of this queue stopped.
    pub fn attach(queue: QueueView<'_>) -> Self {
        // Relaxed: whoever handed the consumer's role to this thread ordered the two.
        Self { taken: queue.words.tail.0.load(Ordering::Relaxed) }
    }

    /// The next value, if there is one, which stays in the queue.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the producer's index is further ahead than the queue is long.
    pub fn peek(&self, queue: QueueView<'_>) -> Result<Option<u64>, Error> {
        // Acquire: what the producer wrote before it pushed is visible here.
        // pairs(queue.head): Release in `Producer::push`.
        let head = queue.words.head.0.load(Ordering::Acquire);
        let waiting = head.wrapping_sub(self.taken);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > queue.slots.len() as u64 {
            return Err(Error::Corrupt { what: "queue length (Q1)", value: waiting, limit: queue.slots.len() as u64 });
        }
        Ok(Some(queue.slot(self.taken).load(Ordering::Relaxed)))
    }

    /// The next value, if there is one. Its slot is the producer's again at once, so a value may come back to the queue
    /// as soon as it was taken.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the producer's index is further ahead than the queue is long.
    pub fn take(&mut self, queue: QueueView<'_>) -> Result<Option<u64>, Error> {
        let Some(value) = self.peek(queue)? else { return Ok(None) };
        self.taken += 1;
        // Release: the load above happens before the producer writes this slot again.
        // pairs(queue.tail): Acquire in `Producer::push`.
        queue.words.tail.0.store(self.taken, Ordering::Release);
        Ok(Some(value))
    }
}
