//! The rotation protocol and its queues at capacities of one to three: in every order up to a bound of preemptions, or, where
//! `explore_for_a_while` says so, in as many as time allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-shm --release --test loom rotation`.

use crate::model::{BLOCK, DROP, Memory, Queue, at_rest, drain_one, explore, explore_for_a_while, stock};
use loom::sync::Arc;
use loom::thread;
use plimsoll_shm::queue::{Consumer, Producer};
use plimsoll_shm::{Sweep, Unsealed};

/// A producer that must lose nothing, and a host that drains until it has everything.
fn lossless(buffers: usize, records: usize, writes: u64) {
    explore(3, move || {
        let memory = Memory::new(1, buffers, records);
        let mut drainer = stock(&memory, 1);
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
        let (open, counters) = at_rest(&memory, &drainer);
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
        let mut drainer = stock(&memory, 1);
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
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!(open, None);
        assert_eq!(counters.published, seen.len() as u64, "what was published arrived");
        assert_eq!(counters.published + counters.dropped, 3, "the rest was counted");
        assert_eq!(seen, kept, "the producer knows which");
        assert!(seen.is_sorted() && seen.first() == Some(&0), "{seen:?}");
    });
}

#[test]
fn two_producers_that_both_wait_for_the_host() {
    const WRITES: [u64; 2] = [2, 1];
    explore_for_a_while(2, || {
        let memory = Memory::new(2, 1, 1);
        let mut drainer = stock(&memory, 2);
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
        let mut drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            (0..3).for_each(|record| assert!(writer.push(record, &mut lane)));
            // No release: the agent hangs with an unfinished buffer.
        });
        let mut seen = Vec::new();
        let (open, counters) = loop {
            while drain_one(&memory, &mut drainer, 0, &mut seen) {}
            match drainer.unsealed(&*memory, 0).expect("the host has the memory mapped") {
                Sweep::Settled(open, counters) => break (open, counters),
                Sweep::Busy(_) => thread::yield_now(),
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
        let drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            let kept = (0..3).filter(|&record| writer.push(record, &mut lane)).count();
            assert_eq!(kept, 1);
        });
        memory.control.end_recording();
        producer.join().expect("nobody waits for a host that takes nothing any more");
        let counters = match drainer.unsealed(&*memory, 0).expect("the host has the memory mapped") {
            Sweep::Settled(_, counters) | Sweep::Busy(counters) => counters,
        };
        assert_eq!((counters.published, counters.dropped), (1, 2));
    });
}

#[test]
fn a_pool_passes_from_one_owner_to_the_next() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = stock(&memory, 1);
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
