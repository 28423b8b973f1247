//! The parts of a manifest.

use plimsoll_abi::RINGS;
use serde::{Deserialize, Serialize};

use plimsoll_abi::CoreClass;
use plimsoll_abi::record::Kind;

/// Who wrote a file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileProducer {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How the host reached the region of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportFacts {
    /// `mapped` or `shadow`.
    pub kind: String,
    /// How a shadow was filled: `memcpy`, `process_vm_readv` or `file`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub way: String,
    /// Bytes that were copied from the device.
    pub bytes_read: u64,
    /// Bytes that were stored for the device.
    pub bytes_written: u64,
    /// Why the way is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a run counted while its tasks ran.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterFacts {
    /// The group that was asked for.
    pub asked: String,
    /// The group that was counted.
    pub group: String,
    /// Whether the counts are a cost table's and not a machine's.
    #[serde(rename = "virtual")]
    pub virtual_counts: bool,
    /// Why it is not the group that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Threads and cores of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Those that orchestrate or schedule, by number.
    pub agents: Vec<AgentFacts>,
    /// Those that run kernels, by number.
    pub cores: Vec<CoreFacts>,
}

/// A thread, or coroutine, that orchestrates or schedules.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentFacts {
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
    #[serde(with = "core_class")]
    pub core_type: CoreClass,
    /// The agent that hands it its tasks.
    pub agent: Option<u16>,
}

/// What the rings and the tensormap can hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CapacityFacts {
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
    /// Where the ticks come from: a [`ClockSource`](plimsoll_abi::region::ClockSource) by its name.
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
    /// Configured capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// Capacity with which the program gets past this point.
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
    /// What kind of standstill it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The budget that was used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetFacts>,
}

/// A budget of a run that was used up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetFacts {
    /// The option that sets it: `op_timeout`, `stall_timeout` or `orch_timeout`.
    pub option: String,
    /// What it allowed, in milliseconds.
    pub ms: u64,
}

/// The ledger of a run's records.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Whether in every pool the parts sum up to the total.
    pub balanced: bool,
    /// Whether nothing was dropped or mismatched.
    pub lossless: bool,
    /// One row per pool.
    pub pools: Vec<PoolLedger>,
    /// What made no sense in the region that the rows come from, one line each. Then it is not balanced, whatever the rows say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}

/// One pool's row of the ledger. `collected + recovered + dropped + mismatch == total` if it balances.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolLedger {
    /// The record kind's name: a reader may not know the kind.
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
    #[serde(with = "core_class")]
    pub core_type: CoreClass,
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

impl PoolLedger {
    /// The kind of its records; `None` if this build does not know it.
    pub fn record_kind(&self) -> Option<Kind> {
        Kind::from_name(&self.kind)
    }

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

impl Ledger {
    /// The ledger of these pools, with its two verdicts drawn from them.
    pub fn of(pools: Vec<PoolLedger>) -> Self {
        Self {
            balanced: pools.iter().all(PoolLedger::is_balanced),
            lossless: pools.iter().all(|p| p.is_lossless() && p.is_balanced()),
            pools,
            damage: Vec::new(),
        }
    }

    /// The ledger of these pools of a region, in which so much made no sense.
    pub fn of_region(pools: Vec<PoolLedger>, damage: Vec<String>) -> Self {
        let of_pools = Self::of(pools);
        let sound = damage.is_empty();
        Self { balanced: of_pools.balanced && sound, lossless: of_pools.lossless && sound, damage, ..of_pools }
    }

    /// Records of these kinds that were dropped or mismatched.
    pub fn lost(&self, of: impl Fn(Kind) -> bool) -> u64 {
        let pools = self.pools.iter().filter(|pool| pool.record_kind().is_some_and(&of));
        pools.fold(0, |sum, pool| sum.saturating_add(pool.dropped).saturating_add(pool.mismatch))
    }

    /// The account of one pool.
    pub fn pool(&self, kind: Kind, instance: u16) -> Option<&PoolLedger> {
        self.pools.iter().find(|pool| pool.record_kind() == Some(kind) && pool.instance == instance)
    }
}

/// A class of cores as files spell it.
mod core_class {
    use plimsoll_abi::CoreClass;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(class: &CoreClass, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(class.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CoreClass, D::Error> {
        Ok(CoreClass::from_name(&String::deserialize(deserializer)?))
    }
}
