//! Records whose slots a scheduler reserves and a core stamps, on a real region and with real threads: what was stamped
//! arrives, what was stamped wrongly is in `mismatch` alone, and what is in flight is in no sum.
#![allow(clippy::unwrap_used)]

use crate::harness::*;
use plimsoll_abi::record::{AicoreTask, Kind};
use plimsoll_abi::{AgentId, Flags};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{Ledger, Policy, Session, SessionConfig, recover_region};
use plimsoll_shm::{LaneContext, PoolView, Region, Reservation, Reserver, World, stamp};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A core that executes tokens in order: one runs, one may wait.
#[derive(Default)]
struct Core {
    /// Place + 1 of each dispatch, at `token % 2`; 0 if it has no record.
    sent: [AtomicU64; 2],
    dispatched: AtomicU32,
    finished: AtomicU32,
}

impl Core {
    fn execute(&self, view: PoolView<'_, AicoreTask>, tokens: u32, stamp_of: fn(u32) -> u32) {
        for token in 1..=tokens {
            while self.dispatched.load(Ordering::Acquire) < token {
                std::thread::yield_now();
            }
            let place = self.sent[token as usize % 2].load(Ordering::Relaxed);
            if place != 0 {
                let record = AicoreTask { start: token.into(), end: token.into(), ..AicoreTask::default() };
                // SAFETY: sent for this token, and stamped once, before the token is finished.
                unsafe { stamp(view, place - 1, stamp_of(token), record) };
            }
            self.finished.store(token, Ordering::Release);
        }
    }
}

fn lane<W: World>(region: &Region, world: W) -> LaneContext<'_, W> {
    let (control, ready) = (region.control(), region.ready_queue(AgentId(0)));
    LaneContext::new(world, control, ready, region.patience(), region.announce_every(), 0)
}

/// Dispatches two at a time until all have finished. Tokens that have a record.
fn schedule(session: &Session, core: &Core, tokens: u32) -> Vec<u32> {
    let region = session.region();
    let mut lane = lane(region, CounterWorld::new(session));
    let mut reserver = Reserver::new(region.pool::<AicoreTask>(0).unwrap());
    let (mut places, mut kept, mut next, mut done) = (VecDeque::new(), Vec::new(), 1, 0);
    while done < tokens {
        if next <= tokens && next - done <= 2 {
            let reserved = match reserver.reserve(next, &mut lane) {
                Reservation::Slot(place) => Some(Some(place)),
                Reservation::Dropped => Some(None),
                Reservation::Later => None,
            };
            if let Some(place) = reserved {
                core.sent[next as usize % 2].store(place.as_ref().map_or(0, |p| p.word() + 1), Ordering::Relaxed);
                core.dispatched.store(next, Ordering::Release);
                kept.extend(place.is_some().then_some(next));
                places.push_back(place);
                next += 1;
                continue;
            }
        }
        if core.finished.load(Ordering::Acquire) > done {
            done += 1;
            if let Some(place) = places.pop_front().unwrap() {
                reserver.settle(place, &mut lane);
            }
        } else {
            std::thread::yield_now();
        }
    }
    assert!(reserver.release(&mut lane));
    kept
}

/// Runs so many tokens through pools of a size, and gives the tokens that were kept, those in the file, and the ledger.
fn run(policy: Policy, buffers: (u32, u32), tokens: u32, stamp_of: fn(u32) -> u32) -> (Vec<u32>, Vec<u32>, Ledger) {
    let dir = tempfile::tempdir().unwrap();
    let base = config(dir.path(), Flags::CORE_TIMING, 1);
    let session = Session::start(SessionConfig { policy, sizes: sizes(buffers.0, buffers.1), ..base }).unwrap();
    let core = Core::default();
    let kept = std::thread::scope(|scope| {
        let view = session.region().pool::<AicoreTask>(0).unwrap();
        let core = &core;
        scope.spawn(move || core.execute(view, tokens, stamp_of));
        schedule(&session, core, tokens)
    });
    let ledger = session.finish().unwrap();
    (kept, crate::harness::tokens(dir.path()).remove(&0).unwrap_or_default(), ledger)
}

#[test]
fn level_1_rows_equal_dispatches_whatever_the_buffer_sizes() {
    for buffers in [(1, 1), (1, 2), (2, 1), (2, 3), (3, 7), (4, 500)] {
        let (kept, found, ledger) = run(Policy::Block, buffers, 5000, |token| token);
        assert_eq!(kept, (1..=5000).collect::<Vec<_>>(), "{buffers:?}");
        assert_eq!(found, kept, "{buffers:?}");
        let pool = ledger.pool(Kind::AicoreTask, 0).unwrap();
        assert!(ledger.lossless && pool.total == 5000 && pool.collected == 5000, "{pool:?}");
    }
}

#[test]
fn a_wrong_stamp_ends_in_mismatch_and_not_in_the_data() {
    for buffers in [(1, 1), (2, 3), (3, 7), (4, 5000)] {
        let wrong = |token: u32| if token.is_multiple_of(10) { token + 1 } else { token };
        let (kept, found, ledger) = run(Policy::Block, buffers, 1000, wrong);
        assert_eq!(kept.len(), 1000);
        assert_eq!(found, (1..=1000).filter(|token| token % 10 != 0).collect::<Vec<_>>(), "{buffers:?}");
        let pool = ledger.pool(Kind::AicoreTask, 0).unwrap();
        assert_eq!((pool.total, pool.collected, pool.mismatch, pool.dropped), (1000, 900, 100, 0), "{buffers:?}");
        assert!(ledger.balanced && !ledger.lossless);
    }
}

#[test]
fn what_is_dropped_runs_without_a_record_and_is_counted() {
    let (kept, found, ledger) = run(Policy::Drop, (1, 2), 20_000, |token| token);
    let pool = ledger.pool(Kind::AicoreTask, 0).unwrap();
    assert_eq!(found, kept);
    assert_eq!((pool.collected + pool.recovered, pool.total), (kept.len() as u64, 20_000));
    assert_eq!(pool.dropped, 20_000 - kept.len() as u64);
}

/// A run that dies with a slot in flight: what was settled before it comes out, once void ones are left out.
#[test]
fn a_dead_run_gives_what_was_settled() {
    let dir = tempfile::tempdir().unwrap();
    let base = driven_by_caller(dir.path(), Flags::CORE_TIMING, 1, sizes(3, 4));
    let session = Session::start(base).unwrap();
    let region_file = session.region_path().to_path_buf();
    let region = session.region();
    let mut lane = lane(region, QuietWorld);
    let view = region.pool::<AicoreTask>(0).unwrap();
    let mut reserver = Reserver::new(view);
    for token in 1..=7 {
        let Reservation::Slot(place) = reserver.reserve(token, &mut lane) else { panic!("there are buffers") };
        // Token 2 and token 6 are stamped with what is not theirs; the last hangs.
        let stamped = if token % 4 == 2 { 99 } else { token };
        // SAFETY: reserved right here, and nobody else stamps it.
        unsafe { stamp(view, place.word(), stamped, AicoreTask::default()) };
        if token < 7 {
            assert_eq!(reserver.settle(place, &mut lane), stamped == token);
        }
    }
    assert!(!reserver.release(&mut lane), "a slot is in flight");
    drop(session);
    let recovery = recover_region(&region_file, dir.path()).unwrap();
    let pool = recovery.ledger.pool(Kind::AicoreTask, 0).unwrap();
    assert_eq!((pool.total, pool.recovered, pool.mismatch), (6, 4, 2), "{pool:?}");
    assert!(recovery.ledger.balanced);
    assert_eq!(tokens(dir.path())[&0], [1, 3, 4, 5]);
}
