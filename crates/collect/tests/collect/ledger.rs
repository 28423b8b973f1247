//! Each part of the ledger against numbers the test owns.
#![allow(clippy::unwrap_used)]

use crate::harness::*;
use plimsoll_abi::record::{Kind, SchedPhase, SchedPhaseKind, ScopePhase, SubmitRecord};
use plimsoll_abi::segment::FrameHeader;
use plimsoll_abi::{AgentId, Flags, Level, TaskId, Usage};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{Error, Ledger, Policy, PoolLedger, Session, SessionConfig, segment};
use plimsoll_probe::{Lane, Probe, ScopeEvent};
use std::time::Duration;

const LEVEL_1: Flags = Flags::CORE_TIMING;

fn everything() -> Flags {
    let flags = Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN);
    flags.with(Flags::TENSOR_DUMP).with(Flags::PMU)
}

fn parts(pool: &PoolLedger) -> [u64; 5] {
    [pool.total, pool.collected, pool.recovered, pool.dropped, pool.mismatch]
}

/// Every record is a rotation. One agent alone has a ready queue of one slot, which it needs again at once.
#[test]
fn buffers_of_one_record() {
    for (agents, count) in [(1, 50_000), (2, 5_000)] {
        let dir = tempfile::tempdir().unwrap();
        let config = SessionConfig { sizes: sizes(1, 1), ..config(dir.path(), LEVEL_1, agents) };
        let session = Session::start(config).unwrap();
        write_tasks(&session, agents, count);
        let ledger = session.finish().unwrap();
        assert!(ledger.balanced && ledger.lossless);
        let all = u64::from(count);
        assert_eq!(ledger.pools.iter().map(parts).collect::<Vec<_>>(), vec![[all, all, 0, 0, 0]; agents.into()]);
        let tokens = tokens(dir.path());
        (0..agents).for_each(|core| assert_tokens(&tokens, core, count));
    }
}

#[test]
fn a_collector_that_stops_for_a_second_loses_nothing_and_the_wait_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(driven_by_caller(dir.path(), LEVEL_1, 2, sizes(2, 4))).unwrap();
    std::thread::scope(|scope| {
        let writers = scope.spawn(|| write_tasks(&session, 2, 1_000));
        std::thread::sleep(Duration::from_secs(1));
        assert!(session.waiting() > 0, "pools of 8 records are full by now");
        while !writers.is_finished() {
            session.drain_step();
        }
    });
    let ledger = session.finish().unwrap();
    assert!(ledger.lossless);
    assert_eq!(ledger.pools.iter().map(parts).collect::<Vec<_>>(), [[1_000, 1_000, 0, 0, 0]; 2]);
    assert!(ledger.pools.iter().all(|pool| pool.wait_ns > 0), "{ledger:?}");
    let tokens = tokens(dir.path());
    (0..2).for_each(|core| assert_tokens(&tokens, core, 1_000));
}

/// Only a producer that waits in the recorder knows when it did; its phases say so.
#[test]
fn waits_for_the_recorder_are_phases_of_who_waited() {
    let dir = tempfile::tempdir().unwrap();
    let session =
        Session::start(driven_by_caller(dir.path(), Flags::NONE.with(Flags::SCHED_PHASES), 1, sizes(2, 4))).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut lane = probe.lane(AgentId(0));
            for token in 0..200 {
                lane.task(&span(0, token));
                lane.sched_phase(&phase(token));
            }
            lane.flush();
        });
        while !writer.is_finished() {
            if session.waiting() > 0 {
                session.drain_step();
            }
        }
    });
    drop(probe);
    let ledger = session.finish().unwrap();
    assert!(ledger.lossless);
    let (mut phases, mut waits, mut ticks) = (0, 0, 0);
    let scan = segment::scan(dir.path(), |frame: &FrameHeader, records| {
        if frame.kind == Kind::SchedPhase as u16 {
            for record in records.chunks_exact(size_of::<SchedPhase>()) {
                let record = bytemuck::pod_read_unaligned::<SchedPhase>(record);
                let waited = record.kind == SchedPhaseKind::RecorderWait as u32;
                (phases, waits) = (phases + u32::from(!waited), waits + u32::from(waited));
                ticks += if waited { record.end - record.start } else { 0 };
            }
        }
    });
    scan.unwrap();
    assert_eq!(phases, 200, "whatever was dispatched is there besides");
    assert!(waits > 10 && ticks > 0, "{waits} waits of {ticks} ticks: nobody drains unless somebody waits");
    assert!(ledger.pools.iter().map(|pool| pool.wait_ns).sum::<u64>() > 0, "{ledger:?}");
}

#[test]
fn a_collector_that_never_runs_drops_by_policy_and_counts_each_record() {
    let dir = tempfile::tempdir().unwrap();
    let config = SessionConfig { policy: Policy::Drop, ..driven_by_caller(dir.path(), LEVEL_1, 1, sizes(3, 5)) };
    let session = Session::start(config).unwrap();
    write_tasks(&session, 1, 100);
    let ledger = session.finish().unwrap();
    assert!(ledger.balanced && !ledger.lossless);
    assert_eq!(parts(&ledger.pools[0]), [100, 15, 0, 85, 0], "three buffers of five, the rest dropped");
    assert_tokens(&tokens(dir.path()), 0, 15);
}

#[test]
fn a_host_that_is_gone_is_not_waited_for_twice() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        SessionConfig { host_gone: Duration::from_millis(50), ..driven_by_caller(dir.path(), LEVEL_1, 1, sizes(1, 2)) };
    let session = Session::start(config).unwrap();
    // One wait of 50 ms; a wait per record would take 50 s.
    write_tasks(&session, 1, 1_000);
    assert!(session.host_gone());
    let error = session.finish().unwrap_err();
    assert!(matches!(error, Error::HostGone { .. }), "{error}");
    let ledger = error.ledger().unwrap();
    assert!(ledger.balanced && !ledger.lossless);
    assert_eq!(parts(&ledger.pools[0]), [1_000, 2, 0, 998, 0]);
    assert!(ledger.pools[0].wait_ns >= 10_000_000, "the wait is recorded: {}", ledger.pools[0].wait_ns);
}

#[test]
fn a_host_that_comes_back_is_written_to_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = SessionConfig { policy: Policy::Drop, ..driven_by_caller(dir.path(), LEVEL_1, 1, sizes(1, 2)) };
    let session = Session::start(config).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    let mut lane = probe.lane(AgentId(0));
    (0..5).for_each(|token| lane.task(&span(0, token)));
    session.drain_step();
    (5..7).for_each(|token| lane.task(&span(0, token)));
    drop(lane);
    drop(probe);
    let ledger = session.finish().unwrap();
    assert_eq!(parts(&ledger.pools[0]), [7, 4, 0, 3, 0]);
    assert_eq!(tokens(dir.path())[&0], [0, 1, 5, 6]);
}

#[test]
fn ten_million_records_block_and_nothing_is_lost_or_doubled() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(config(dir.path(), LEVEL_1, 2)).unwrap();
    write_tasks(&session, 2, 5_000_000);
    let ledger = session.finish().unwrap();
    assert!(ledger.lossless);
    assert_eq!(ledger.pools.iter().map(parts).collect::<Vec<_>>(), [[5_000_000, 5_000_000, 0, 0, 0]; 2]);
    let tokens = tokens(dir.path());
    (0..2).for_each(|core| assert_tokens(&tokens, core, 5_000_000));
}

#[test]
fn what_an_agent_did_not_flush_is_recovered_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(SessionConfig { sizes: sizes(2, 8), ..config(dir.path(), LEVEL_1, 1) }).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    let mut lane = probe.lane(AgentId(0));
    (0..13).for_each(|token| lane.task(&span(0, token)));
    std::mem::forget(lane);
    drop(probe);
    let ledger = session.finish().unwrap();
    assert!(ledger.lossless);
    assert_eq!(parts(&ledger.pools[0]), [13, 8, 5, 0, 0]);
    assert_tokens(&tokens(dir.path()), 0, 13);
}

#[test]
fn a_lane_that_is_dropped_in_a_panic_is_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(config(dir.path(), LEVEL_1, 1)).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut lane = probe.lane(AgentId(0));
        lane.task(&span(0, 0));
        panic!("a kernel panics");
    }));
    assert!(ended.is_err());
    drop(probe);
    assert_eq!(parts(&session.finish().unwrap().pools[0]), [1, 1, 0, 0, 0]);
}

#[test]
fn every_kind_is_accounted_for_by_its_own_pool() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(config(dir.path(), everything(), 2)).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    for agent in 0..2 {
        let mut lane = probe.lane(AgentId(agent));
        lane.set_round(3);
        (0..10).for_each(|token| lane.task(&span(agent, token)));
        (0..20).for_each(|loop_iter| lane.sched_phase(&phase(loop_iter)));
        (0..30).for_each(|submit| lane.orch_submit(1, 2, TaskId::new(0, submit), submit));
        let peaks = Usage { tensormap: 1, ..Usage::NONE };
        let end = ScopeEvent { phase: ScopePhase::End, peaks: Some(&peaks), ..ScopeEvent::default() };
        (0..4).for_each(|_| lane.scope(&end));
        // Of an inner scope, where no other ring has changed and the peaks are what is in use, nothing more is written.
        let inner = ScopeEvent { depth: 1, changed: 0, ..end };
        lane.scope(&ScopeEvent { phase: ScopePhase::Begin, ..inner });
        lane.scope(&ScopeEvent { used: &peaks, ..inner });
        (0..50).for_each(|_| lane.submit_record(&SubmitRecord::default()));
    }
    drop(probe);
    let ledger = session.finish().unwrap();
    assert!(ledger.lossless);
    let expected = [
        (Kind::AicpuTask, 10),
        (Kind::SchedPhase, 20),
        (Kind::OrchPhase, 30),
        (Kind::AicoreTask, 10),
        (Kind::ScopeSample, 6),
        (Kind::Submit, 50),
        (Kind::ScopeRings, 4),
    ];
    for (kind, count) in expected {
        for instance in 0..2 {
            let pool = ledger.pool(kind, instance).expect("the pool exists");
            assert_eq!(parts(pool), [count, count, 0, 0, 0], "{} {instance}", kind.name());
        }
    }
    let text = serde_json::to_string(&ledger).unwrap();
    assert!(text.contains(r#""kind":"aicpu_sched_phase""#), "{text}");
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
}

#[test]
fn one_agent_may_write_the_records_of_many_cores() {
    let dir = tempfile::tempdir().unwrap();
    let base = driven_by_caller(dir.path(), Level::new(2).unwrap().flags(), 1, sizes(2, 4));
    let session = Session::start(SessionConfig { cores: 72, ..base }).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    let mut lane = probe.lane(AgentId(0));
    for token in 0..25 {
        (0..72).for_each(|core| lane.task(&span(core, token)));
        session.drain_step();
    }
    drop(lane);
    drop(probe);
    let ledger = session.finish().unwrap();
    assert!(ledger.lossless && ledger.pools.len() == 2 * 72);
    let tokens = tokens(dir.path());
    (0..72).for_each(|core| assert_tokens(&tokens, core, 25));
}

#[test]
fn a_core_belongs_to_one_agent() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(config(dir.path(), LEVEL_1, 2)).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    let (mut first, mut second) = (probe.lane(AgentId(0)), probe.lane(AgentId(1)));
    first.task(&span(0, 0));
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| second.task(&span(0, 1))));
    let message = *refused.expect_err("I6").downcast::<String>().unwrap();
    assert!(message.contains("belongs to agent 0"), "{message}");
}

#[test]
fn a_level_1_region_holds_no_phase_buffers() {
    let (one, four) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let small = Session::start(config(one.path(), LEVEL_1, 4)).unwrap();
    let large = Session::start(config(four.path(), everything(), 4)).unwrap();
    for kind in Kind::ALL {
        let (off, on) = (small.region().kind_layout(kind), large.region().kind_layout(kind));
        assert!(on.instances == 4 && on.buffers > 0, "{}", kind.name());
        assert_eq!(off.instances > 0, kind == Kind::AicoreTask, "{}", kind.name());
    }
    assert_eq!(small.region().pools().count(), 4);
    let buffers = |session: &Session| -> u64 {
        let bytes = |kind| {
            let layout = session.region().kind_layout(kind);
            u64::from(layout.instances * layout.buffers) * u64::from(layout.buffer_stride)
        };
        Kind::ALL.into_iter().map(bytes).sum()
    };
    assert!(small.region().len_bytes() < buffers(&small) + (2 << 20), "buffers of core timing and the tables, no more");
    assert!(large.region().len_bytes() > buffers(&large));
    small.finish().unwrap();
    large.finish().unwrap();
}

#[test]
fn sessions_with_different_flags_in_every_order_leave_nothing_to_each_other() {
    let levels: Vec<Flags> = [4, 1, 2, 3].iter().map(|&level| Level::new(level).unwrap().flags()).collect();
    for first in &levels {
        for second in [Flags::NONE, Flags::SCOPE_STATS].iter().chain(&levels) {
            for &flags in [first, second, first] {
                let dir = tempfile::tempdir().unwrap();
                let session = Session::start(SessionConfig { sizes: sizes(2, 3), ..config(dir.path(), flags, 2) });
                let session = session.unwrap();
                let path = session.region_path().to_path_buf();
                write_tasks(&session, 2, 20);
                let ledger = session.finish().unwrap();
                let expected = u64::from(flags.has(LEVEL_1)) * 20;
                assert!(ledger.lossless);
                assert_eq!(ledger.pool(Kind::AicoreTask, 1).map_or(0, |pool| pool.total), expected);
                assert_eq!(ledger.pool(Kind::SchedPhase, 0).is_some(), flags.has(Flags::SCHED_PHASES));
                assert!(!path.exists(), "a clean end leaves no region");
            }
        }
    }
}

#[test]
fn sites_and_kernels_are_numbered_once() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(config(dir.path(), Flags::SCOPE_STATS, 1)).unwrap();
    let first = session.site("src/main.rs", 7);
    assert_eq!(session.site("src/main.rs", 7), first);
    assert_ne!(session.site("src/main.rs", 8), first);
    assert_ne!(session.site("src/other.rs", 7), first);
    session.add_kernel(plimsoll_abi::KernelId(1), "gemm").unwrap();
    for line in 0..10_000 {
        session.site("src/many.rs", line);
    }
    assert_eq!(session.site("src/many.rs", 9_999).0, 0, "a full table gives the unknown site");
    assert_eq!(session.site("src/main.rs", 7), first);
    session.finish().unwrap();
}

#[test]
fn a_second_session_in_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::start(config(dir.path(), LEVEL_1, 1)).unwrap();
    let error = Session::start(config(dir.path(), LEVEL_1, 1)).expect_err("the segment file exists");
    assert!(error.to_string().contains("not another run's"), "{error}");
    session.finish().unwrap();
}
