//! What a session is started with.

use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{CounterGroup, Flags};
use plimsoll_probe::DumpPlan;
use plimsoll_shm::{BufferSizes, Policy, RegionSpec, Role, TransportKind};
use std::path::PathBuf;
use std::time::Duration;

/// Who drains the region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Drive {
    /// A thread of the session's own, which sleeps when there is nothing to do.
    #[default]
    Thread,
    /// The caller, with [`Session::drain_step`](crate::Session::drain_step): virtual time.
    Caller,
}

/// What a session is started with.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The run's directory; `records/` is made in it.
    pub dir: PathBuf,
    /// Where the region goes; `None` = /dev/shm if it has room, else the run's directory.
    pub region_dir: Option<PathBuf>,
    /// What is recorded.
    pub flags: Flags,
    /// Cores of the run.
    pub cores: u16,
    /// Agents of the run, by id.
    pub agents: Vec<Role>,
    /// What a producer does that finds no buffer.
    pub policy: Policy,
    /// How long a blocked producer waits before it takes the host for gone.
    pub host_gone: Duration,
    /// How long a producer with policy drop waits.
    pub drop_wait: Duration,
    /// The clock's ticks per second.
    pub clock_hz: u64,
    /// What the clock is.
    pub clock_source: ClockSource,
    /// The sizes of the pools.
    pub sizes: BufferSizes,
    /// Bytes of the names of all kernels that will be added.
    pub kernel_name_bytes: u64,
    /// Buffers after which the session's own thread stops to drain until the end, for tests of what happens then.
    pub collector_stops_after: Option<u64>,
    /// Who drains.
    pub drive: Drive,
    /// How whoever drains reaches the region.
    pub transport: TransportKind,
    /// What is captured of which tasks, if tensor dumps are recorded.
    pub dump: DumpPlan,
    /// What is counted while a task runs, if counters are recorded.
    pub counters: CounterGroup,
}

impl SessionConfig {
    /// A session with a collector thread that loses nothing, on a clock of nanoseconds.
    pub fn new(dir: impl Into<PathBuf>, flags: Flags, cores: u16, agents: Vec<Role>) -> Self {
        Self {
            dir: dir.into(),
            region_dir: None,
            flags,
            cores,
            agents,
            policy: Policy::Block,
            host_gone: Duration::from_secs(30),
            drop_wait: Duration::from_micros(100),
            clock_hz: 1_000_000_000,
            clock_source: ClockSource::Os,
            sizes: BufferSizes::default(),
            kernel_name_bytes: 0,
            collector_stops_after: None,
            drive: Drive::Thread,
            transport: TransportKind::Mapped,
            dump: DumpPlan::default(),
            counters: CounterGroup::default(),
        }
    }

    pub(crate) fn region_spec(&self) -> RegionSpec {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        RegionSpec {
            flags: self.flags,
            cores: self.cores,
            agents: self.agents.clone(),
            policy: self.policy,
            host_gone_ns: ns(self.host_gone),
            drop_wait_ns: ns(self.drop_wait),
            clock_hz: self.clock_hz,
            clock_source: self.clock_source,
            sizes: self.sizes,
            kernel_name_bytes: self.kernel_name_bytes,
        }
    }
}
