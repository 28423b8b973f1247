//! The host is killed at random moments, and every record it had published comes out.
//!
//! The test starts its own executable again as the victim. The two share a file of counters that the victim raises before
//! and after every record, so what was published is known to the test and not taken from the recorder.
#![allow(clippy::unwrap_used)]

use crate::harness::*;
use plimsoll_abi::record::{
    ArgDumpHead, ArgDumpRecord, Kind, Record, SchedPhase, SchedPhaseKind, ScopePhase, ScopeRecord, ScopeRingsRecord,
    SubmitRecord,
};
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, Level, TaskId, Usage};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{Error, Recovery, Session, SessionConfig, recover_region, segment};
use plimsoll_probe::{CountedExecution, Lane, Probe, ScopeEvent, TaskAmounts};
use plimsoll_trace::{Quality, ScopeJoin};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const AGENTS: u16 = 2;
const KILLS: u64 = 20;
/// The peaks of every scope.
const PEAKS: Usage = Usage { tensormap: 1, ..Usage::NONE };
const VICTIM: &str = "PLIMSOLL_TEST_VICTIM_DIR";

/// Counters in a file that outlives the victim.
struct Counters(&'static [AtomicU64; 2 * AGENTS as usize]);

impl Counters {
    fn map(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        file.set_len(4096).unwrap();
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        // SAFETY: a new shared mapping of a file of 4096 bytes, never unmapped; atomics may be shared.
        unsafe {
            let base = libc::mmap(std::ptr::null_mut(), 4096, read | write, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(base, libc::MAP_FAILED);
            Self(&*base.cast())
        }
    }

    fn begun(&self, agent: u16) -> &AtomicU64 {
        &self.0[usize::from(agent)]
    }

    fn published(&self, agent: u16) -> &AtomicU64 {
        &self.0[usize::from(AGENTS + agent)]
    }
}

/// What the victim does: records without end. As a test of its own it does nothing.
#[test]
fn victim() {
    let Some(dir) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let counters = Counters::map(&dir.join("counters"));
    let level = Level::new(4).unwrap().flags();
    let flags = level.with(Flags::SCOPE_STATS).with(Flags::DEP_GEN).with(Flags::TENSOR_DUMP).with(Flags::PMU);
    let config = SessionConfig { sizes: sizes(3, 50), ..config(&dir, flags, AGENTS) };
    let session = Session::start(config).unwrap();
    session.add_kernel(KernelId(7), "victim-kernel").unwrap();
    session.clock_pair(1, 2);
    assert_eq!(session.site("victim.rs", 99).0, 1);
    std::fs::write(dir.join("region.new"), session.region_path().as_os_str().as_encoded_bytes()).unwrap();
    std::fs::rename(dir.join("region.new"), dir.join("region")).unwrap();
    let probe = session.probe(CounterWorld::new(&session));
    std::thread::scope(|scope| {
        for agent in 0..AGENTS {
            let (probe, counters) = (&probe, &counters);
            scope.spawn(move || {
                let mut lane = probe.lane(AgentId(agent));
                for token in 0..u32::MAX {
                    counters.begun(agent).store(u64::from(token) + 1, Ordering::SeqCst);
                    lane.task(&span(agent, token));
                    lane.orch_submit(1, 2, TaskId::new(0, token), token);
                    lane.sched_phase(&phase(token));
                    lane.scope(&ScopeEvent {
                        scope: token,
                        phase: ScopePhase::End,
                        peaks: Some(&PEAKS),
                        ..ScopeEvent::default()
                    });
                    lane.submit_record(&SubmitRecord { id: u64::from(token), ..SubmitRecord::default() });
                    lane.arg_dump(&ArgDumpRecord::opening(&ArgDumpHead {
                        task: u64::from(token),
                        ..ArgDumpHead::default()
                    }));
                    lane.begin_counting();
                    lane.end_counting(&counted(agent, token + 1), TaskAmounts::default);
                    counters.published(agent).store(u64::from(token) + 1, Ordering::SeqCst);
                    if token % 1000 == 999 {
                        lane.flush();
                    }
                }
            });
        }
    });
}

fn counted(agent: u16, token: u32) -> CountedExecution {
    let (core, task) = (CoreId(agent), TaskId::new(0, token));
    CountedExecution { core, task, kernel: KernelId(7), token, round: 0 }
}

fn start_victim(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::victim"]).env(VICTIM, dir).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until the victim records; its region.
fn region_of(dir: &Path, counters: &Counters) -> PathBuf {
    let began = Instant::now();
    while counters.published(0).load(Ordering::SeqCst) == 0 || counters.published(1).load(Ordering::SeqCst) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the victim does not start");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::read_to_string(dir.join("region")).unwrap().into()
}

fn check(recovery: &Recovery, dir: &Path, counters: &Counters) {
    assert!(recovery.ledger.balanced && recovery.ledger.lossless, "{:#?}", recovery.ledger);
    assert_eq!(recovery.damage, Vec::<String>::new());
    assert_eq!(recovery.kernels, [(7, "victim-kernel".to_string())]);
    assert_eq!(recovery.sites, [(1, "victim.rs".to_string(), 99)]);
    assert_eq!(recovery.clock_pairs, [(1, 2)]);
    let tokens = tokens(dir);
    for agent in 0..AGENTS {
        let begun = counters.begun(agent).load(Ordering::SeqCst);
        let published = counters.published(agent).load(Ordering::SeqCst);
        assert!((published..=published + 1).contains(&begun), "one record of each kind is in the making at most");
        for kind in Kind::ALL {
            let pool = recovery.ledger.pool(kind, agent).expect("the pool exists");
            // What the victim waited for the recorder is in phases that it did not count.
            let waits = if kind == Kind::SchedPhase { recorder_waits(dir, agent) } else { 0 };
            let out = pool.collected + pool.recovered - waits;
            assert!((published..=begun).contains(&out), "{published} <= {out} <= {begun} of {}", kind.name());
        }
        check_scopes(dir, agent);
        let cores = recovery.ledger.pool(Kind::AicoreTask, agent).expect("the pool exists");
        assert_tokens(&tokens, agent, (cores.collected + cores.recovered) as u32);
    }
}

fn recorder_waits(dir: &Path, agent: u16) -> u64 {
    let mut waits = 0;
    let scan = segment::scan(dir, |frame, bytes| {
        if frame.kind == Kind::SchedPhase as u16 && frame.instance == agent {
            let phases = cast::<SchedPhase>(bytes);
            waits += phases.filter(|phase| phase.kind == SchedPhaseKind::RecorderWait as u32).count() as u64;
        }
    });
    scan.expect("the segments can be read");
    waits
}

/// Checks that of the scopes that came out none is missing or out of order, and that the peaks of all are there.
fn check_scopes(dir: &Path, agent: u16) {
    let (mut samples, mut join, mut quality) = (Vec::new(), ScopeJoin::default(), Quality::default());
    let scan = segment::scan(dir, |frame, bytes| match (Kind::from_number(frame.kind), frame.instance == agent) {
        (Some(Kind::ScopeSample), true) => samples.extend(cast::<ScopeRecord>(bytes)),
        (Some(Kind::ScopeRings), true) => {
            cast::<ScopeRingsRecord>(bytes).for_each(|record| join.add_rings(agent, record));
        }
        _ => {}
    });
    scan.expect("the segments can be read");
    for (number, record) in samples.iter().enumerate() {
        assert_eq!(record.scope as usize, number);
        assert_eq!(join.full_sample(agent, record, &mut quality).peaks, PEAKS);
    }
    assert!(quality.findings().is_empty(), "{quality:?}");
}

fn cast<R: Record>(bytes: &[u8]) -> impl Iterator<Item = R> {
    bytes.chunks_exact(size_of::<R>()).map(bytemuck::pod_read_unaligned)
}

fn kill_and_recover(dir: &Path, delay: Duration) -> Recovery {
    let counters = Counters::map(&dir.join("counters"));
    let mut victim = start_victim(dir);
    let region = region_of(dir, &counters);
    let refused = recover_region(&region, dir);
    std::thread::sleep(delay);
    // SIGKILL: nothing of the victim runs any more.
    victim.kill().unwrap();
    victim.wait().unwrap();
    let refused = refused.expect_err("a live run is refused");
    assert!(matches!(refused, Error::Region(plimsoll_shm::Error::Live { .. })), "{refused}");
    assert!(refused.to_string().contains("still alive"), "{refused}");
    let first = recover_region(&region, dir).unwrap();
    check(&first, dir, &counters);
    let second = recover_region(&region, dir).unwrap();
    check(&second, dir, &counters);
    assert_eq!(first, second, "recovering twice is harmless");
    first
}

#[test]
fn a_host_that_is_killed_loses_no_published_record() {
    // `PLIMSOLL_KILLS=500` for a long run by hand.
    let kills = std::env::var("PLIMSOLL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let mut random = u64::from(std::process::id()) << 20 | 1;
    let mut recovered = 0;
    for _ in 0..kills {
        let dir = tempfile::tempdir().unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let recovery = kill_and_recover(dir.path(), Duration::from_micros((random >> 33) % 20_000));
        recovered += recovery.ledger.pools.iter().map(|pool| pool.recovered).sum::<u64>();
    }
    assert!(recovered > 0, "some buffer was unfinished in {kills} kills");
}

#[test]
fn a_torn_last_frame_is_replaced_by_what_the_region_holds() {
    let flags = Level::new(1).unwrap().flags();
    // A header, the first record, the widths of eight columns, and a byte for each of the four that change.
    for cut in 1..=(32 + 32 + 8 + 2 * 4) {
        let dir = tempfile::tempdir().unwrap();
        let session = Session::start(driven_by_caller(dir.path(), flags, 1, sizes(4, 3))).unwrap();
        let region = session.region_path().to_path_buf();
        let probe = session.probe(QuietWorld);
        let mut lane = probe.lane(AgentId(0));
        (0..8).for_each(|token| lane.task(&span(0, token)));
        assert_eq!(session.drain_step(), 2);
        std::mem::forget(lane);
        drop((probe, session));
        let path = plimsoll_collect::segment::path(dir.path());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - cut).unwrap();
        let recovery = recover_region(&region, dir.path()).unwrap();
        let pool = &recovery.ledger.pools[0];
        assert_eq!((pool.total, pool.collected, pool.recovered), (8, 3, 5), "cut {cut}");
        assert!(recovery.ledger.lossless);
        assert_tokens(&tokens(dir.path()), 0, 8);
    }
}
