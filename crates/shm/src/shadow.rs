//! A shadow: the host's copy of what it shares with the device, and how words move between the two.
//!
//! # Invariants
//! * T1: a range is copied word by word, the last word first, each load an Acquire: an active head has its words in the order in
//!   which they are to be believed, the last first.
//! * T2: of a ready queue, the index is copied before the slots that it covers; of a free queue, the slots are stored before the
//!   index that covers them.
//! * T3: only words that the host owns are stored: where it has read to in a ready queue, and its free queues.

use crate::error::Error;
use crate::sync::{AtomicU64, Ordering};
use plimsoll_abi::region::LINE;

/// The words of both sides, by their offsets in the region.
pub trait ShadowWords {
    /// A word where the device has it.
    fn device(&self, offset: u64) -> &AtomicU64;

    /// The host's copy of it.
    fn copy(&self, offset: u64) -> &AtomicU64;

    /// Copies ranges from the device, in this order: word by word where its memory can be loaded from.
    ///
    /// # Errors
    /// If the device's memory cannot be read.
    fn fetch(&self, ranges: &[(u64, usize)]) -> Result<(), Error> {
        ranges.iter().for_each(|&(offset, bytes)| copy_words(self, offset, bytes));
        Ok(())
    }
}

/// A queue in the region: where it begins, and how many slots it has.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlace {
    /// Offset of the producer's index. The consumer's index is one line behind it, and the slots are two lines behind it.
    pub offset: u64,
    /// Number of slots, a power of two.
    pub slots: u64,
}

impl QueuePlace {
    fn consumer(self) -> u64 {
        self.offset + LINE as u64
    }

    /// The ranges of those slots that `from..to` covers.
    fn covered(self, from: u64, to: u64) -> impl Iterator<Item = (u64, usize)> {
        let first = self.offset + 2 * LINE as u64;
        let (count, at) = (to.wrapping_sub(from).min(self.slots), from & (self.slots - 1));
        let before = count.min(self.slots - at);
        let ranges = [(first + at * 8, before as usize * 8), (first, (count - before) as usize * 8)];
        ranges.into_iter().filter(|(_, bytes)| *bytes > 0)
    }
}

/// Copies a range from memory that can be loaded from (T1).
pub fn copy_words<W: ShadowWords + ?Sized>(words: &W, offset: u64, bytes: usize) {
    debug_assert!(offset.is_multiple_of(8) && bytes.is_multiple_of(8), "ranges are made of words");
    for word in (0..bytes as u64 / 8).rev() {
        let at = offset + 8 * word;
        // Acquire: what was stored before this word is seen by whoever copies after it.
        // pairs(queue.head), pairs(queue.tail), pairs(head.active), pairs(head.base), pairs(head.published).
        let value = words.device(at).load(Ordering::Acquire);
        words.copy(at).store(value, Ordering::Relaxed);
    }
}

/// Copies what the device has put into a ready queue (T2).
///
/// # Errors
/// What [`ShadowWords::fetch`] fails with.
pub fn refresh_ready(words: &impl ShadowWords, queue: QueuePlace) -> Result<(), Error> {
    words.fetch(&[(queue.offset, 8)])?;
    let [from, to] = [queue.consumer(), queue.offset].map(|at| words.copy(at).load(Ordering::Relaxed));
    words.fetch(&queue.covered(from, to).collect::<Vec<_>>())
}

/// Copies how far the device has emptied a free queue.
///
/// # Errors
/// What [`ShadowWords::fetch`] fails with.
pub fn refresh_free(words: &impl ShadowWords, queue: QueuePlace) -> Result<(), Error> {
    words.fetch(&[(queue.consumer(), 8)])
}

/// Stores how far the host has emptied a ready queue. How many bytes that are.
pub fn write_back_ready(words: &impl ShadowWords, queue: QueuePlace) -> u64 {
    store(words, queue.consumer())
}

/// Stores what the host has put into a free queue (T2). How many bytes that are.
pub fn write_back_free(words: &impl ShadowWords, queue: QueuePlace) -> u64 {
    // The index as the device has it is what the host stored last.
    let known = words.device(queue.offset).load(Ordering::Relaxed);
    let head = words.copy(queue.offset).load(Ordering::Relaxed);
    let slots = queue.covered(known, head).flat_map(|(at, bytes)| (at..at + bytes as u64).step_by(8));
    let stored: u64 = slots.map(|at| store(words, at)).sum();
    stored + store(words, queue.offset)
}

/// Stores a word that the host owns where the device sees it (T3).
fn store(words: &impl ShadowWords, offset: u64) -> u64 {
    let word = words.copy(offset).load(Ordering::Relaxed);
    // Release: what was stored or read before is over before the device sees this. pairs(queue.head), pairs(queue.tail).
    words.device(offset).store(word, Ordering::Release);
    8
}

/// Interleavings, up to a bound of preemptions, of a device with a host that has a shadow.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::queue::{Consumer, Producer, QueueView};
    use crate::words::{ActiveHead, QueueHead};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    const QUEUE: QueuePlace = QueuePlace { offset: 0, slots: 2 };
    const HEAD: u64 = 4 * LINE as u64;

    /// A queue of two slots and an active head.
    struct Half {
        words: QueueHead,
        slots: [AtomicU64; 2],
        head: ActiveHead,
    }

    impl Half {
        fn new() -> Self {
            let slots = [AtomicU64::new(0), AtomicU64::new(0)];
            Self { words: QueueHead::default(), slots, head: ActiveHead::default() }
        }

        fn queue(&self) -> QueueView<'_> {
            QueueView::new(&self.words, &self.slots)
        }

        fn word(&self, offset: u64) -> &AtomicU64 {
            let (line, word) = (offset as usize / LINE, offset as usize % LINE / 8);
            match line {
                0 => &self.words.head.0,
                1 => &self.words.tail.0,
                2 => &self.slots[word],
                _ => [&self.head.published, &self.head.base, &self.head.active][word],
            }
        }
    }

    /// Both sides, and what is handed over by number; loom reports accesses that are not ordered.
    struct Both {
        device: Half,
        copy: Half,
        data: [UnsafeCell<u64>; 2],
    }

    impl ShadowWords for Both {
        fn device(&self, offset: u64) -> &AtomicU64 {
            self.device.word(offset)
        }
        fn copy(&self, offset: u64) -> &AtomicU64 {
            self.copy.word(offset)
        }
    }

    impl Both {
        fn write(&self, at: u64, value: u64) {
            // SAFETY: that nobody else accesses it meanwhile is what loom checks here.
            self.data[at as usize % 2].with_mut(|datum| unsafe { *datum = value });
        }

        fn read(&self, at: u64) -> u64 {
            // SAFETY: as above.
            self.data[at as usize % 2].with(|datum| unsafe { *datum })
        }
    }

    fn explore(model: impl Fn(Arc<Both>) + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(move || {
            let data = [UnsafeCell::new(0), UnsafeCell::new(0)];
            model(Arc::new(Both { device: Half::new(), copy: Half::new(), data }));
        });
    }

    /// Three buffers through a ready queue of two slots: each is read after it was written, and written again only after that.
    #[test]
    fn what_the_device_hands_over_is_whole_in_the_copy() {
        explore(|both| {
            let device = {
                let both = Arc::clone(&both);
                thread::spawn(move || {
                    let mut ready = Producer::attach(both.device.queue());
                    for value in 0..3 {
                        while value >= 2 + both.device.words.tail.0.load(Ordering::Acquire) {
                            thread::yield_now();
                        }
                        both.write(value, 10 + value);
                        ready.push(both.device.queue(), value).expect("there is room");
                    }
                })
            };
            let mut ready = Consumer::attach(both.copy.queue());
            for expected in 0..3 {
                let value = loop {
                    refresh_ready(&*both, QUEUE).expect("memory");
                    if let Some(value) = ready.take(both.copy.queue()).expect("the protocol holds") {
                        break value;
                    }
                    thread::yield_now();
                };
                assert_eq!((value, both.read(value)), (expected, 10 + expected));
                write_back_ready(&*both, QUEUE);
            }
            device.join().unwrap();
        });
    }

    /// Three buffers back through a free queue of two slots: the device sees a slot only after what stands in it.
    #[test]
    fn what_the_host_gives_back_is_whole_where_the_device_sees_it() {
        explore(|both| {
            let device = {
                let both = Arc::clone(&both);
                thread::spawn(move || {
                    let mut free = Consumer::attach(both.device.queue());
                    for expected in 0..3 {
                        let value = loop {
                            match free.take(both.device.queue()).expect("the protocol holds") {
                                Some(value) => break value,
                                None => thread::yield_now(),
                            }
                        };
                        assert_eq!(value, 20 + expected, "never a slot that was not stored yet");
                    }
                })
            };
            let mut free = Producer::attach(both.copy.queue());
            for value in 20..23 {
                refresh_free(&*both, QUEUE).expect("memory");
                while free.push(both.copy.queue(), value).is_err() {
                    thread::yield_now();
                    refresh_free(&*both, QUEUE).expect("memory");
                }
                write_back_free(&*both, QUEUE);
            }
            device.join().unwrap();
        });
    }

    /// A copy of an active head never has a word that is newer than those to be believed after it.
    #[test]
    fn a_copied_head_is_to_be_believed_from_its_last_word_on() {
        explore(|both| {
            let device = {
                let both = Arc::clone(&both);
                thread::spawn(move || {
                    let head = &both.device.head;
                    for value in 1..3 {
                        head.published.store(value, Ordering::Release);
                        head.base.store(value, Ordering::Release);
                        head.active.store(value, Ordering::Release);
                    }
                })
            };
            both.fetch(&[(HEAD, 24)]).expect("memory");
            let [published, base, active] = [0, 8, 16].map(|at| both.copy(HEAD + at).load(Ordering::Relaxed));
            assert!(published >= base && base >= active, "{published} {base} {active}");
            device.join().unwrap();
        });
    }
}
