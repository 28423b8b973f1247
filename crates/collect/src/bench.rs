//! What recording costs on this machine: the numbers behind `plimsoll bench recorder`.
//!
//! The parts are measured in turns and the least of many turns counts, because noise only ever adds time. A turn's time is
//! the CPU time of its thread: on a machine whose cores are busy the collector, which has a thread of its own, would be
//! counted to the producer whenever it runs on the producer's core.

use crate::config::SessionConfig;
use crate::error::Error;
use crate::session::Session;
use plimsoll_abi::record::AicoreTask;
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::Clock;
use plimsoll_probe::{Lane, Probe, TaskSpan};
use plimsoll_shm::{Doorbell, Role, World};
use plimsoll_trace::Ledger;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const TURNS: usize = 40;
const SPANS_PER_TURN: u32 = 100_000;
const CHECKS_PER_TURN: u32 = 1_000_000;
const CHECKS_PER_LOOP: u32 = 16;

/// What recording costs.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct RecorderCost {
    /// Two readings of the clock and a store of 32 bytes: the least a span can cost.
    pub floor_ns: f64,
    /// A span, recorded, with the collector draining to files.
    pub on_ns: f64,
    /// A recorded span by the wall clock: with the collector's share, where the two had to share a core.
    pub on_wall_ns: f64,
    /// A probe whose bit is clear, with its share of the loop that asks it: an upper bound. The difference to an empty
    /// loop would be no figure, because a processor does a load and a predicted branch beside the loop's own work.
    pub off_ns: f64,
    /// Records per second that two producers sustain into files, losing nothing.
    pub records_per_s: f64,
    /// Whether that is true: the ledgers of the measured sessions balance and nothing was dropped.
    pub lossless: bool,
}

/// Measures the recorder. `dir` is an empty directory on the file system in question; `records` is how many records the two
/// producers write.
///
/// # Errors
/// As [`Session::start`] and [`Session::finish`], of the sessions that are measured.
pub fn bench_recorder(dir: &Path, records: u64) -> Result<RecorderCost, Error> {
    let clock = Clock::new();
    let start = |name: &str, flags| {
        let mut config = SessionConfig::new(dir.join(name), flags, 2, vec![Role::SCHEDULER; 2]);
        (config.clock_hz, config.clock_source) = (clock.hz(), clock.source());
        Session::start(config)
    };
    let on = start("on", Flags::CORE_TIMING)?;
    let off = start("off", Flags::SCOPE_STATS)?;
    let (on_probe, off_probe) = (on.probe(CounterWorld::new(&on)), off.probe(CounterWorld::new(&off)));
    let (mut on_lane, mut off_lane) = (on_probe.lane(AgentId(0)), off_probe.lane(AgentId(0)));
    let mut buffer = vec![AicoreTask::default(); 2048];
    let mut least = [[f64::INFINITY; 2]; 3];
    for _ in 0..TURNS {
        let turns = [
            per_call(SPANS_PER_TURN, || floor_turn(&clock, &mut buffer)),
            per_call(SPANS_PER_TURN, || span_turn(&mut on_lane)),
            per_call(CHECKS_PER_TURN, || check_turn(&mut off_lane)),
        ];
        for (least, turn) in least.as_flattened_mut().iter_mut().zip(turns.as_flattened()) {
            *least = least.min(*turn);
        }
    }
    drop((on_lane, off_lane));
    drop((on_probe, off_probe));
    let spans = on.finish()?;
    off.finish()?;
    let (records_per_s, stream) = throughput(start("throughput", Flags::CORE_TIMING)?, records)?;
    let [[floor_ns, _], [on_ns, on_wall_ns], [off_ns, _]] = least;
    let lossless = spans.lossless && stream.lossless;
    Ok(RecorderCost { floor_ns, on_ns, on_wall_ns, off_ns, records_per_s, lossless })
}

/// Two producers write `records` between them; returns records per second until the last is in its file.
fn throughput(session: Session, records: u64) -> Result<(f64, Ledger), Error> {
    let began = Instant::now();
    let probe = session.probe(CounterWorld::new(&session));
    std::thread::scope(|scope| {
        for agent in 0..2 {
            let probe = &probe;
            scope.spawn(move || {
                let mut lane = probe.lane(AgentId(agent));
                let mut before = lane.stamp();
                for token in 0..records / 2 {
                    // Neighbouring records share a reading, as a busy core's do.
                    let now = lane.stamp();
                    lane.task(&span(agent, token as u32, before, now));
                    before = now;
                }
            });
        }
    });
    drop(probe);
    let ledger = session.finish()?;
    Ok(((records / 2 * 2) as f64 / began.elapsed().as_secs_f64(), ledger))
}

/// CPU time of this thread per call, and the time on the wall.
fn per_call(calls: u32, turn: impl FnOnce()) -> [f64; 2] {
    let (wall, cpu) = (Instant::now(), thread_ns());
    turn();
    [(thread_ns() - cpu) / f64::from(calls), wall.elapsed().as_nanos() as f64 / f64::from(calls)]
}

/// CPU time of this thread.
fn thread_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn floor_turn(clock: &Clock, buffer: &mut [AicoreTask]) {
    for token in 0..SPANS_PER_TURN {
        let (start, end) = (clock.ticks(), clock.ticks());
        let slot = token as usize % buffer.len();
        buffer[slot] = AicoreTask { start, end, task: token.into(), token, receive_and_kernel: 0 };
        black_box(&mut buffer[slot]);
    }
}

fn span_turn(lane: &mut impl Lane<Stamp = u64>) {
    for token in 0..SPANS_PER_TURN {
        let start = lane.stamp();
        let end = lane.stamp();
        lane.task(&span(0, token, start, end));
    }
}

fn check_turn(lane: &mut impl Lane<Stamp = u64>) {
    // Several checks per turn of the loop, so that the loop's own share of each is small.
    for token in 0..CHECKS_PER_TURN / CHECKS_PER_LOOP {
        for _ in 0..CHECKS_PER_LOOP {
            // The compiler must take the lane for changed, and so load the word of flags again.
            let lane = black_box(&mut *lane);
            if lane.on(Flags::CORE_TIMING) {
                lane.task(&span(0, token, 0, 0));
            }
        }
    }
}

fn span(core: u16, token: u32, start: u64, end: u64) -> TaskSpan<u64> {
    TaskSpan {
        core: CoreId(core),
        task: TaskId::new(0, token),
        kernel: KernelId(0),
        token,
        dispatch: start,
        receive: start,
        start,
        end,
        finish: end,
    }
}

/// A world on this machine's clock, for benches and tests.
#[derive(Clone, Debug)]
pub struct CounterWorld {
    clock: Clock,
    doorbell: Doorbell,
}

impl CounterWorld {
    /// The world of a session whose clock is this machine's.
    pub fn new(session: &Session) -> Self {
        Self { clock: Clock::new(), doorbell: session.doorbell() }
    }
}

impl World for CounterWorld {
    #[inline]
    fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    fn notify_host(&self) {
        self.doorbell.ring();
    }
}
