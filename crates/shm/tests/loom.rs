//! Every interleaving of the rotation protocol and its queues, at capacities of one to three.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-shm --release --test loom`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use plimsoll_shm::queue::{Consumer, Producer, QueueView};
use plimsoll_shm::sync::Slot;
use plimsoll_shm::words::{ActiveHead, BufferHeader, Control, QueueHead};
use plimsoll_shm::{Drainer, HostMemory, LaneContext, Patience, Policy, PoolMemory, Taken, Unsealed, World, Writer};
use std::time::Duration;

const BLOCK: Patience = Patience { policy: Policy::Block, ticks: 1, steps: u32::MAX };
const DROP: Patience = Patience { policy: Policy::Drop, ticks: 1, steps: 1 };

struct Queue {
    words: QueueHead,
    slots: Vec<AtomicU64>,
}

impl Queue {
    fn new(slots: usize) -> Self {
        let slots = (0..slots.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
        Self { words: QueueHead::default(), slots }
    }

    fn view(&self) -> QueueView<'_> {
        QueueView::new(&self.words, &self.slots)
    }
}

struct Pool {
    head: ActiveHead,
    free: Queue,
    buffers: Vec<(BufferHeader, Vec<Slot<u64>>)>,
}

/// One pool and one ready queue per agent.
struct Memory {
    control: Control,
    pools: Vec<Pool>,
    ready: Vec<Queue>,
}

impl Memory {
    fn new(agents: usize, buffers: usize, records: usize) -> Arc<Self> {
        let buffer = |_| (BufferHeader::default(), (0..records).map(|_| Slot::new(0)).collect());
        let pool = |_| Pool {
            head: ActiveHead::default(),
            free: Queue::new(buffers),
            buffers: (0..buffers).map(buffer).collect(),
        };
        let ready = (0..agents).map(|_| Queue::new(buffers)).collect();
        Arc::new(Self { control: Control::default(), pools: (0..agents).map(pool).collect(), ready })
    }

    fn lane(&self, agent: usize, patience: Patience) -> (LaneContext<'_, Loom>, Writer<'_, u64, View<'_>>) {
        let context = LaneContext::new(Loom, &self.control, self.ready[agent].view(), patience, 1, agent as u16);
        (context, Writer::new(Some(View { pool: &self.pools[agent], index: agent as u32 })))
    }

    /// The records of a buffer that is the host's.
    fn read(&self, pool: u32, buffer: u32, count: u32) -> Vec<u64> {
        let slots = &self.pools[pool as usize].buffers[buffer as usize].1[..count as usize];
        // SAFETY: that nobody writes them meanwhile is what loom checks here.
        slots.iter().map(|slot| unsafe { slot.read() }).collect()
    }
}

#[derive(Clone, Copy)]
struct View<'r> {
    pool: &'r Pool,
    index: u32,
}

// SAFETY: every pool of the model has a head and slots of its own.
unsafe impl<'r> PoolMemory<'r, u64> for View<'r> {
    fn index(self) -> u32 {
        self.index
    }
    fn head(self) -> &'r ActiveHead {
        &self.pool.head
    }
    fn free(self) -> QueueView<'r> {
        self.pool.free.view()
    }
    fn buffers(self) -> u32 {
        self.pool.buffers.len() as u32
    }
    fn header(self, buffer: u32) -> &'r BufferHeader {
        &self.pool.buffers[buffer as usize].0
    }
    fn slots(self, buffer: u32) -> &'r [Slot<u64>] {
        &self.pool.buffers[buffer as usize].1
    }
}

impl HostMemory for Memory {
    fn ready(&self, agent: usize) -> QueueView<'_> {
        self.ready[agent].view()
    }
    fn geometry(&self, pool: u32) -> Option<(u32, u32)> {
        let pool = self.pools.get(pool as usize)?;
        Some((pool.buffers.len() as u32, pool.buffers[0].1.len() as u32))
    }
    fn head(&self, pool: u32) -> &ActiveHead {
        &self.pools[pool as usize].head
    }
    fn free(&self, pool: u32) -> QueueView<'_> {
        self.pools[pool as usize].free.view()
    }
    fn header(&self, pool: u32, buffer: u32) -> &BufferHeader {
        &self.pools[pool as usize].buffers[buffer as usize].0
    }
}

/// A world whose clock stands still and whose waits let the others run.
#[derive(Clone)]
struct Loom;

impl World for Loom {
    fn ticks(&self) -> u64 {
        0
    }
    fn wait_for_host(&self, _: u32) {
        thread::yield_now();
    }
    fn notify_host(&self) {}
}

/// Explores every execution with at most `preemptions` forced switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 100_000;
    builder.max_duration = Some(Duration::from_secs(60));
    builder.check(model);
}

/// Drains one buffer of an agent into `seen`; whether there was one.
fn drain_one(memory: &Memory, drainer: &mut Drainer, agent: usize, seen: &mut Vec<u64>) -> bool {
    let taken: Option<Taken> = drainer.take(memory, agent).expect("the protocol holds");
    let Some(taken) = taken else { return false };
    seen.extend(memory.read(taken.pool, taken.buffer, taken.count));
    drainer.give_back(memory, taken).expect("I1 holds");
    true
}

/// A producer that must lose nothing, and a host that drains until it has everything.
fn lossless(buffers: usize, records: usize, writes: u64) {
    explore(3, move || {
        let memory = Memory::new(1, buffers, records);
        let mut drainer = Drainer::stock(&*memory, 1, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            (0..writes).for_each(|record| assert!(writer.push(record, &mut lane)));
            writer.release(&mut lane);
        });
        let mut seen = Vec::new();
        while (seen.len() as u64) < writes {
            if !drain_one(&memory, &mut drainer, 0, &mut seen) {
                thread::yield_now();
            }
        }
        producer.join().expect("the producer ends");
        assert_eq!(seen, (0..writes).collect::<Vec<_>>(), "nothing lost, nothing twice, in order");
        let (open, counters) = drainer.unsealed(&*memory, 0).expect("the producer has ended");
        assert_eq!((open, counters.published, counters.dropped), (None, writes, 0));
    });
}

#[test]
fn a_pool_of_one_buffer_of_one_record_makes_progress() {
    lossless(1, 1, 3);
}

#[test]
fn two_buffers_of_one_record_rotate() {
    lossless(2, 1, 3);
}

#[test]
fn buffers_of_two_records_and_a_partial_last_one() {
    lossless(2, 2, 5);
}

#[test]
fn one_buffer_of_two_records() {
    lossless(1, 2, 4);
}

#[test]
fn a_queue_hands_over_in_order() {
    explore(3, || {
        let queue = Arc::new(Queue::new(2));
        let other = Arc::clone(&queue);
        let producer = thread::spawn(move || {
            let mut end = Producer::attach(other.view());
            for value in 0..4 {
                while end.push(other.view(), value).is_err() {
                    thread::yield_now();
                }
            }
        });
        let mut end = Consumer::attach(queue.view());
        for expected in 0..4 {
            let value = loop {
                match end.take(queue.view()).expect("Q1 holds") {
                    Some(value) => break value,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(value, expected);
        }
        producer.join().expect("the producer ends");
    });
}

#[test]
fn policy_drop_counts_every_record_it_cannot_keep() {
    explore(3, || {
        let memory = Memory::new(1, 1, 1);
        let mut drainer = Drainer::stock(&*memory, 1, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, DROP);
            let kept: Vec<u64> = (0..3).filter(|&record| writer.push(record, &mut lane)).collect();
            writer.release(&mut lane);
            kept
        });
        let mut seen = Vec::new();
        drain_one(&memory, &mut drainer, 0, &mut seen);
        let kept = producer.join().expect("the producer ends");
        while drain_one(&memory, &mut drainer, 0, &mut seen) {}
        let (open, counters) = drainer.unsealed(&*memory, 0).expect("the producer has ended");
        assert_eq!(open, None);
        assert_eq!(counters.published, seen.len() as u64, "what was published arrived");
        assert_eq!(counters.published + counters.dropped, 3, "the rest was counted");
        assert_eq!(seen, kept, "the producer knows which");
        assert!(seen.is_sorted() && seen.first() == Some(&0), "{seen:?}");
    });
}

/// Three threads are more than can be explored to the end, so this one stops after a minute.
#[test]
fn two_producers_that_both_wait_for_the_host() {
    const WRITES: [u64; 2] = [2, 1];
    explore(2, || {
        let memory = Memory::new(2, 1, 1);
        let mut drainer = Drainer::stock(&*memory, 2, 2);
        let produce = |agent: usize| {
            let device = Arc::clone(&memory);
            thread::spawn(move || {
                let (mut lane, mut writer) = device.lane(agent, BLOCK);
                (0..WRITES[agent]).for_each(|record| assert!(writer.push(record, &mut lane)));
                writer.release(&mut lane);
            })
        };
        let producers = [produce(0), produce(1)];
        let mut seen = [Vec::new(), Vec::new()];
        while seen[0].len() < 2 || seen[1].is_empty() {
            let any = (0..2).filter(|&agent| drain_one(&memory, &mut drainer, agent, &mut seen[agent])).count();
            if any == 0 {
                thread::yield_now();
            }
        }
        producers.into_iter().for_each(|producer| producer.join().expect("the producer ends"));
        assert_eq!(seen, [vec![0, 1], vec![0]]);
    });
}

#[test]
fn a_buffer_can_be_read_up_to_its_count_while_it_is_written() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = Drainer::stock(&*memory, 1, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            (0..3).for_each(|record| assert!(writer.push(record, &mut lane)));
            // No release: the agent hangs with an unfinished buffer.
        });
        let mut seen = Vec::new();
        let (open, counters) = loop {
            while drain_one(&memory, &mut drainer, 0, &mut seen) {}
            match drainer.unsealed(&*memory, 0) {
                Ok(account) => break account,
                Err(_) => thread::yield_now(),
            }
        };
        if let Some(Unsealed { buffer, count, .. }) = open {
            seen.extend(memory.read(0, buffer, count));
        }
        assert_eq!(seen, (0..counters.published).collect::<Vec<_>>(), "every published record, once");
        producer.join().expect("the producer ends");
    });
}

#[test]
fn the_end_of_the_recording_ends_every_wait() {
    explore(3, || {
        let memory = Memory::new(1, 1, 1);
        let drainer = Drainer::stock(&*memory, 1, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            let kept = (0..3).filter(|&record| writer.push(record, &mut lane)).count();
            assert_eq!(kept, 1);
        });
        memory.control.end_recording();
        producer.join().expect("nobody waits for a host that takes nothing any more");
        let (_, counters) = match drainer.unsealed(&*memory, 0) {
            Ok(account) => account,
            Err(plimsoll_shm::Busy(counters)) => (None, counters),
        };
        assert_eq!((counters.published, counters.dropped), (1, 2));
    });
}

#[test]
fn a_pool_passes_from_one_owner_to_the_next() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = Drainer::stock(&*memory, 1, 1);
        let device = Arc::clone(&memory);
        thread::spawn(move || {
            for owner in 0..2 {
                let (mut lane, mut writer) = device.lane(0, BLOCK);
                writer.push(owner, &mut lane);
                writer.release(&mut lane);
            }
        })
        .join()
        .expect("both owners end");
        let mut seen = Vec::new();
        while drain_one(&memory, &mut drainer, 0, &mut seen) {}
        assert_eq!(seen, [0, 1]);
    });
}
