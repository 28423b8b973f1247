//! Slots that a scheduler reserves and its core stamps, in every order up to a bound of preemptions, or in as many as time allows
//! (`explore_for_a_while`): published in order, dropped, void or in flight.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-shm --release --test loom reserve`.

use crate::model::{BLOCK, Core, DROP, Memory, View, at_rest, explore, explore_for_a_while, stock};
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;
use plimsoll_shm::{Drainer, Patience, Reservation, Reserver, stamp};

/// A core that executes `tokens`. What it stamps each with, `stamp_of` says.
fn execute(memory: &Memory, core: &Core, tokens: u32, stamp_of: fn(u32) -> u32) {
    let view = View { pool: &memory.pools[0], index: 0 };
    for token in 1..=tokens {
        while core.dispatched.load(Ordering::Acquire) < token {
            thread::yield_now();
        }
        let place = core.sent[token as usize % 2].load(Ordering::Relaxed);
        if place != 0 {
            // SAFETY: sent for this token, and stamped once, before the token is finished.
            unsafe { stamp(view, place - 1, stamp_of(token), u64::from(token)) };
        }
        core.finished.store(token, Ordering::Release);
    }
}

/// A scheduler that dispatches `tokens` two at a time, settles what has finished, and lets go of the pool at the end.
/// Which tokens have a record.
fn schedule(memory: &Memory, core: &Core, tokens: u32, patience: Patience) -> Vec<u64> {
    let mut lane = memory.lane(0, patience).0;
    let mut reserver = Reserver::new(View { pool: &memory.pools[0], index: 0 });
    let (mut places, mut kept) = (std::collections::VecDeque::new(), Vec::new());
    let (mut next, mut done) = (1, 0);
    while done < tokens {
        if next <= tokens && next - done <= 2 {
            let reserved = match reserver.reserve(next, &mut lane) {
                Reservation::Slot(place) => Some(Some(place)),
                Reservation::Dropped => Some(None),
                Reservation::Later => None,
            };
            if let Some(place) = reserved {
                let word = place.as_ref().map_or(0, |place| place.word() + 1);
                core.sent[next as usize % 2].store(word, Ordering::Relaxed);
                core.dispatched.store(next, Ordering::Release);
                kept.extend(place.is_some().then_some(u64::from(next)));
                places.push_back(place);
                next += 1;
                continue;
            }
        }
        if core.finished.load(Ordering::Acquire) > done {
            done += 1;
            if let Some(place) = places.pop_front().expect("dispatched before it finished") {
                reserver.settle(place, &mut lane);
            }
        } else {
            thread::yield_now();
        }
    }
    assert!(reserver.release(&mut lane), "nothing is in flight");
    kept
}

/// Everything that is sealed, with the stamps that were void left out.
fn drain_good(memory: &Memory, drainer: &mut Drainer, seen: &mut Vec<u64>) -> bool {
    let Some(taken) = drainer.take(memory, 0).expect("the protocol holds") else { return false };
    let stamps = &memory.pools[0].buffers[taken.buffer as usize].stamps;
    let records = memory.read(taken.pool, taken.buffer, taken.count);
    let good = records.into_iter().zip(stamps).filter(|(_, stamp)| stamp.load(Ordering::Relaxed) != 0);
    let before = seen.len();
    seen.extend(good.map(|(record, _)| record));
    assert_eq!((seen.len() - before) as u32, taken.count - taken.void, "the header counts the void ones");
    drainer.give_back(memory, taken).expect("I1 holds");
    true
}

/// A scheduler with a core, and a host that drains at the end: there are buffers for everything.
#[test]
fn slots_of_two_tasks_at_a_time_are_published_in_order() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, 3, |token| token));
        assert_eq!(schedule(&memory, &core, 3, BLOCK), [1, 2, 3]);
        executor.join().expect("the core ends");
        let mut seen = Vec::new();
        while drain_good(&memory, &mut drainer, &mut seen) {}
        assert_eq!(seen, [1, 2, 3]);
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!((open, counters.published, counters.mismatch, counters.dropped), (None, 3, 0, 0));
    });
}

/// One buffer, which is full before the host has had it: the scheduler goes on completing, and nothing is lost.
fn one_buffer(records: usize, tokens: u32) {
    explore_for_a_while(2, move || {
        let memory = Memory::new(1, 1, records);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, tokens, |token| token));
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let scheduler = thread::spawn(move || schedule(&device, &other, tokens, BLOCK));
        let mut seen = Vec::new();
        while seen.len() < tokens as usize {
            if !drain_good(&memory, &mut drainer, &mut seen) {
                thread::yield_now();
            }
        }
        let all: Vec<u64> = (1..=tokens.into()).collect();
        assert_eq!(scheduler.join().expect("the scheduler ends"), all);
        executor.join().expect("the core ends");
        assert_eq!(seen, all);
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!((open, counters.published, counters.dropped), (None, u64::from(tokens), 0));
    });
}

#[test]
fn one_buffer_of_one_slot_is_reserved_again_and_again() {
    one_buffer(1, 2);
}

#[test]
fn one_buffer_of_two_slots_is_reserved_by_two_tasks_at_a_time() {
    one_buffer(2, 3);
}

#[test]
fn a_reservation_under_policy_drop_is_dropped_and_counted_and_its_task_runs() {
    explore(3, || {
        let memory = Memory::new(1, 1, 1);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, 3, |token| token));
        let kept = schedule(&memory, &core, 3, DROP);
        executor.join().expect("the core ends");
        let mut seen = Vec::new();
        while drain_good(&memory, &mut drainer, &mut seen) {}
        let (_, counters) = at_rest(&memory, &drainer);
        assert_eq!((seen, kept.clone()), (vec![1], kept));
        assert_eq!((counters.published, counters.dropped, counters.mismatch), (1, 2, 0));
    });
}

#[test]
fn a_slot_with_a_wrong_stamp_keeps_its_place_and_is_void() {
    explore(3, || {
        let memory = Memory::new(1, 1, 3);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let wrong = |token| if token == 2 { 7 } else { token };
        let executor = thread::spawn(move || execute(&device, &other, 3, wrong));
        schedule(&memory, &core, 3, BLOCK);
        executor.join().expect("the core ends");
        let mut seen = Vec::new();
        while drain_good(&memory, &mut drainer, &mut seen) {}
        let (_, counters) = at_rest(&memory, &drainer);
        assert_eq!((seen, counters.published, counters.mismatch), (vec![1, 3], 2, 1));
    });
}

/// A core hangs: its slot is in flight for ever. What was published before it can be read, and the pool stays its owner's.
#[test]
fn a_slot_in_flight_is_neither_sealed_nor_read() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, 1, |token| token));
        let mut lane = memory.lane(0, BLOCK).0;
        let mut reserver = Reserver::new(View { pool: &memory.pools[0], index: 0 });
        let mut reserve = |token, lane: &mut _| match reserver.reserve(token, lane) {
            Reservation::Slot(place) => place,
            other => panic!("{other:?}"),
        };
        let (first, _second) = (reserve(1, &mut lane), reserve(2, &mut lane));
        assert_eq!(reserver.reserve(3, &mut lane), Reservation::Later, "full, and not settled");
        core.sent[1].store(first.word() + 1, Ordering::Relaxed);
        core.dispatched.store(1, Ordering::Release);
        while core.finished.load(Ordering::Acquire) < 1 {
            thread::yield_now();
        }
        assert!(reserver.settle(first, &mut lane));
        assert!(!reserver.release(&mut lane) && reserver.in_flight() == 1);
        executor.join().expect("the core ends");
        let (open, counters) = at_rest(&memory, &drainer);
        let open = open.expect("one record is published");
        assert_eq!((memory.read(0, open.buffer, open.count), counters.published), (vec![1], 1));
    });
}
