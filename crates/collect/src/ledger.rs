//! The account of a run's records.

use plimsoll_abi::record::Kind;
use plimsoll_trace::{Pool, Reconcile};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The account of all pools.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Whether every pool's parts add up to its total.
    pub balanced: bool,
    /// Whether, besides, nothing was dropped and nothing mismatched.
    pub lossless: bool,
    /// By kind and instance.
    pub pools: Vec<PoolLedger>,
}

/// The account of one pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolLedger {
    /// The kind of its records.
    #[serde(serialize_with = "kind_to_name", deserialize_with = "kind_from_name")]
    pub kind: Kind,
    /// The core or agent it belongs to.
    pub instance: u16,
    /// Records its producer made, by the producer's own count.
    pub total: u64,
    /// Records drained while the run lived, by the collector's own count.
    pub collected: u64,
    /// Records read out of unfinished buffers afterwards.
    pub recovered: u64,
    /// Records dropped, counted where they were dropped.
    pub dropped: u64,
    /// Records whose stamp did not match.
    pub mismatch: u64,
    /// How long its producer waited for the host.
    pub wait_ns: u64,
}

impl PoolLedger {
    /// Whether the parts add up.
    pub fn balanced(&self) -> bool {
        let parts = [self.collected, self.recovered, self.dropped, self.mismatch];
        parts.iter().try_fold(0u64, |sum, &part| sum.checked_add(part)) == Some(self.total)
    }
}

impl Ledger {
    /// The account of these pools.
    pub fn new(pools: Vec<PoolLedger>) -> Self {
        let balanced = pools.iter().all(PoolLedger::balanced);
        let lossless = balanced && pools.iter().all(|pool| pool.dropped == 0 && pool.mismatch == 0);
        Self { balanced, lossless, pools }
    }

    /// The account of one pool.
    pub fn pool(&self, kind: Kind, instance: u16) -> Option<&PoolLedger> {
        self.pools.iter().find(|pool| pool.kind == kind && pool.instance == instance)
    }
}

impl From<&Ledger> for Reconcile {
    /// The account as the manifest carries it.
    fn from(ledger: &Ledger) -> Self {
        let pools = ledger.pools.iter().map(|pool| Pool {
            kind: pool.kind.name().to_owned(),
            instance: pool.instance,
            total: pool.total,
            collected: pool.collected,
            recovered: pool.recovered,
            dropped: pool.dropped,
            mismatch: pool.mismatch,
            wait_ns: pool.wait_ns,
        });
        Reconcile::of(pools.collect())
    }
}

fn kind_to_name<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn kind_from_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
    let name = String::deserialize(deserializer)?;
    Kind::from_name(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no record kind {name}")))
}
