//! The staging ring of two slots in every order up to a bound of preemptions: a core stages records, and its scheduler commits those whose token is right.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-shm --release --test loom staging`.

use crate::model::{BLOCK, Core, Memory, at_rest, explore, stock};
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;
use plimsoll_shm::{Counters, StagingRing};

/// A core that executes `tokens` and stages a record of each. What it stages each with, `stamp_of` says.
fn execute_staged(ring: &StagingRing, core: &Core, tokens: u32, stamp_of: fn(u32) -> u32) {
    for token in 1..=tokens {
        while core.dispatched.load(Ordering::Acquire) < token {
            thread::yield_now();
        }
        ring.stage(token, stamp_of(token), &(u64::from(token) * 10));
        core.finished.store(token, Ordering::Release);
    }
}

/// A scheduler that dispatches `tokens` two at a time (dual issue) and commits what was staged for each that has finished.
fn commit_staged(memory: &Memory, ring: &StagingRing, core: &Core, tokens: u32) -> Vec<bool> {
    let (mut lane, mut writer) = memory.lane(0, BLOCK);
    let (mut next, mut committed) = (1, Vec::new());
    while (committed.len() as u32) < tokens {
        let done = committed.len() as u32;
        if next <= tokens && next - done <= 2 {
            core.dispatched.store(next, Ordering::Release);
            next += 1;
        } else if core.finished.load(Ordering::Acquire) > done {
            committed.push(ring.commit(done + 1, &mut writer, &mut lane));
        } else {
            thread::yield_now();
        }
    }
    writer.release(&mut lane);
    committed
}

/// What is drained of three tokens that a core staged, the third in the slot of the first, with what was committed and the counters.
fn staged(stamp_of: fn(u32) -> u32, records: usize, check: fn(Vec<u64>, u32, Vec<bool>, Counters)) {
    explore(2, move || {
        let memory = Memory::new(1, 3, records);
        let mut drainer = stock(&memory, 1);
        let (ring, core) = (Arc::new(StagingRing::default()), Arc::new(Core::default()));
        let (own_ring, own_core) = (Arc::clone(&ring), Arc::clone(&core));
        let executor = thread::spawn(move || execute_staged(&own_ring, &own_core, 3, stamp_of));
        let committed = commit_staged(&memory, &ring, &core, 3);
        executor.join().expect("the core ends");
        let (mut seen, mut void) = (Vec::new(), 0);
        while let Some(taken) = drainer.take(&*memory, 0).expect("the protocol holds") {
            seen.extend(memory.read(taken.pool, taken.buffer, taken.count));
            void += taken.void;
            drainer.give_back(&*memory, taken).expect("I1 holds");
        }
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!(open, None, "the writer let go of its pool");
        check(seen, void, committed, counters);
    });
}

#[test]
fn what_a_core_stages_is_committed_with_its_own_token() {
    for records in [1, 3] {
        staged(
            |token| token,
            records,
            |seen, void, committed, counters| {
                assert_eq!((seen, void, committed), (vec![10, 20, 30], 0, vec![true; 3]));
                assert_eq!((counters.published, counters.mismatch, counters.dropped), (3, 0, 0));
            },
        );
    }
}

#[test]
fn a_wrong_token_in_the_ring_is_a_mismatch_and_not_in_the_data() {
    staged(
        |token| if token == 2 { 7 } else { token },
        2,
        |seen, void, committed, counters| {
            assert_eq!((seen, void), (vec![10, 0, 30], 1), "the void one keeps its place and is empty");
            assert_eq!(committed, [true, false, true]);
            assert_eq!((counters.published, counters.mismatch, counters.dropped), (2, 1, 0));
        },
    );
}
