//! What the tests share: sessions with small pools, spans with known tokens, and what came out.
#![allow(dead_code, reason = "each test file uses a part of it")]

use plimsoll_abi::record::{AicoreTask, Kind, SchedPhaseKind};
use plimsoll_abi::segment::FrameHeader;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_collect::bench::CounterWorld;
use plimsoll_collect::{BufferSizes, Drive, Session, SessionConfig, segment};
use plimsoll_probe::{Lane, PhaseSpan, Probe, TaskSpan};
use plimsoll_shm::{Role, World};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A session of `agents` agents with a core each. Its region goes where the test's other files are, so that a test that
/// fails leaves nothing on /dev/shm.
pub(crate) fn config(dir: &Path, flags: Flags, agents: u16) -> SessionConfig {
    let config = SessionConfig::new(dir, flags, agents, vec![Role::BOTH; agents.into()]);
    SessionConfig { region_dir: Some(dir.to_path_buf()), ..config }
}

/// Pools of so many buffers of so many records.
pub(crate) fn sizes(buffers: u32, records: u32) -> BufferSizes {
    BufferSizes { buffers: Some(buffers), records: Some(records) }
}

/// A session whose caller drains it.
pub(crate) fn driven_by_caller(dir: &Path, flags: Flags, agents: u16, sizes: BufferSizes) -> SessionConfig {
    SessionConfig { sizes, drive: Drive::Caller, ..config(dir, flags, agents) }
}

/// Symbolic links on shared memory that lead to a region, or to a run.
pub(crate) fn pointers_to(target: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").expect("shared memory").flatten().map(|entry| entry.path());
    entries.filter(|path| std::fs::read_link(path).is_ok_and(|found| found == target)).collect()
}

/// The span of a task with this token.
pub(crate) fn span(core: u16, token: u32) -> TaskSpan<u64> {
    let at = u64::from(token);
    TaskSpan {
        core: CoreId(core),
        task: TaskId::new(0, token),
        kernel: KernelId(7),
        token,
        dispatch: at,
        receive: at + 1,
        start: at + 2,
        end: at + 3,
        finish: at + 4,
    }
}

/// A dispatch phase with this loop count.
pub(crate) fn phase(loop_iter: u32) -> PhaseSpan<u64> {
    let kind = SchedPhaseKind::Dispatch;
    PhaseSpan { kind, start: 1, end: 2, loop_iter, tasks_processed: 1, pop_hit: 1, pop_miss: 0 }
}

/// Writes the tokens `0..count` on every agent's own core, each agent on a thread of its own.
pub(crate) fn write_tasks(session: &Session, agents: u16, count: u32) {
    let probe = session.probe(CounterWorld::new(session));
    std::thread::scope(|scope| {
        for agent in 0..agents {
            let probe = &probe;
            scope.spawn(move || {
                let mut lane = probe.lane(AgentId(agent));
                (0..count).for_each(|token| lane.task(&span(agent, token)));
            });
        }
    });
}

/// The tokens of every core's records, in file order, after checking that each pool's sequence numbers have no gap.
pub(crate) fn tokens(dir: &Path) -> BTreeMap<u16, Vec<u32>> {
    let mut tokens: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    let mut next: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    let scan = segment::scan(dir, |frame: &FrameHeader, records| {
        let next = next.entry((frame.kind, frame.instance)).or_default();
        assert_eq!(frame.sequence, *next, "sequence numbers have no gap");
        *next += 1;
        if frame.kind == Kind::AicoreTask as u16 {
            let records = records.chunks_exact(size_of::<AicoreTask>());
            let token = |record| bytemuck::pod_read_unaligned::<AicoreTask>(record).token;
            tokens.entry(frame.instance).or_default().extend(records.map(token));
        }
    })
    .expect("the segments can be read");
    assert_eq!((scan.torn_bytes, scan.damaged_bytes, scan.duplicates), (0, 0, 0));
    tokens
}

/// Asserts that a core's tokens are `0..count`, each once and in order.
pub(crate) fn assert_tokens(tokens: &BTreeMap<u16, Vec<u32>>, core: u16, count: u32) {
    let found = tokens.get(&core).map(Vec::as_slice).unwrap_or_default();
    assert_eq!(found.len(), count as usize, "core {core}");
    for (expected, &token) in (0..).zip(found) {
        assert_eq!(token, expected, "core {core}");
    }
}

/// A world without a doorbell, for sessions that their caller drains. A lane in it can be leaked without keeping the
/// region: a dead run, as far as one process can play it.
#[derive(Clone, Copy)]
pub(crate) struct QuietWorld;

impl World for QuietWorld {
    fn ticks(&self) -> u64 {
        0
    }
    fn wait_for_host(&self, _: u32) {
        panic!("nobody drains");
    }
    fn notify_host(&self) {}
}
