//! The parts of a manifest.

use plimsoll_abi::RINGS;
use serde::{Deserialize, Serialize};

use crate::CoreType;

/// Who wrote a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Producer {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Threads and cores of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Those that orchestrate or schedule, by number.
    pub agents: Vec<Agent>,
    /// Those that run kernels, by number.
    pub cores: Vec<CoreFacts>,
}

/// A thread, or coroutine, that orchestrates or schedules.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Agent {
    /// What people call it.
    pub name: String,
    /// Whether it may orchestrate.
    pub orchestrates: bool,
    /// Whether it may schedule.
    pub schedules: bool,
}

/// A compute core; on a CPU run, a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreFacts {
    /// What it can run.
    #[serde(rename = "type")]
    pub core_type: CoreType,
    /// The agent that hands it its tasks.
    pub agent: Option<u16>,
}

/// What the rings and the tensormap can hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Capacities {
    /// By ring.
    pub rings: [RingCapacity; RINGS],
    /// Entries of the tensormap.
    pub tensormap: u64,
}

/// What one ring can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RingCapacity {
    /// Task slots.
    pub task_window: u64,
    /// Bytes of heap.
    pub heap: u64,
    /// Dependency entries.
    pub dep_pool: u64,
}

/// The clock of a run's records.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockFacts {
    /// Ticks per second.
    pub hz: f64,
    /// Where the ticks come from: `tsc`, `cntvct`, `os`, `virtual`.
    pub source: String,
    /// Readings of both clocks, in order of time.
    pub pairs: Vec<ClockPair>,
}

/// The run's clock and the operating system's, read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockPair {
    /// The run's clock.
    pub tick: u64,
    /// The operating system's monotonic clock.
    pub ns: u64,
}

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorReport {
    /// The stable number.
    pub code: u32,
    /// The stable name.
    pub name: String,
    /// What, why, and what to do.
    pub explanation: String,
    /// The resource that ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The ring it ran out on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<u8>,
    /// The scope's site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// How much of the resource was in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// How much there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How much would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// Whether `needed` is only a lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_is_bound: Option<bool>,
    /// The task, as `r2t17`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The core it ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u16>,
}

/// The ledger of a run's records.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reconcile {
    /// Whether in every pool the parts sum up to the total.
    pub balanced: bool,
    /// Whether nothing was dropped or mismatched.
    pub lossless: bool,
    /// One row per pool.
    pub pools: Vec<Pool>,
}

/// One pool's row of the ledger. `collected + recovered + dropped + mismatch == total` if it balances.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// The record kind's name.
    pub kind: String,
    /// The core or agent.
    pub instance: u16,
    /// Records published by the producer.
    pub total: u64,
    /// Records drained while the run lived.
    pub collected: u64,
    /// Records read out of the region afterwards.
    pub recovered: u64,
    /// Records dropped for want of a buffer.
    pub dropped: u64,
    /// Records whose stamp was not the one asked for.
    pub mismatch: u64,
    /// Time the producer waited for the host.
    pub wait_ns: u64,
}

/// A registered kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFacts {
    /// The number that records carry.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// What it runs on.
    pub core_type: CoreType,
}

/// A place in a source file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteFacts {
    /// The number that records carry.
    pub id: u32,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl Pool {
    /// Whether the parts sum up to the total.
    pub fn is_balanced(&self) -> bool {
        let parts = [self.collected, self.recovered, self.dropped, self.mismatch];
        parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part)) == Some(self.total)
    }

    /// Whether nothing of it was lost.
    pub fn is_lossless(&self) -> bool {
        self.dropped == 0 && self.mismatch == 0
    }
}

impl Reconcile {
    /// The ledger of these pools, with its two verdicts drawn from them.
    pub fn of(pools: Vec<Pool>) -> Self {
        Self {
            balanced: pools.iter().all(Pool::is_balanced),
            lossless: pools.iter().all(|p| p.is_lossless() && p.is_balanced()),
            pools,
        }
    }
}
