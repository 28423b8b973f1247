//! The options of a device in virtual time. They are plain data, so that a build without virtual time has them, too.

use crate::costs::CostTable;
use plimsoll_platform::ArchSpec;
use plimsoll_platform::virtual_time::Faults;

/// A device in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualOptions {
    /// The chip, or this machine; every number of it may be changed.
    pub arch: ArchSpec,
    /// Decides ties, interleavings and drawn costs: the same seed, the same run.
    pub seed: u64,
    /// What kernels cost.
    pub costs: CostTable,
    /// What goes wrong, for tests.
    pub faults: Faults,
    /// Whether the orchestrator becomes a scheduler when it has submitted all. Only on chips: elsewhere it executes tasks itself.
    pub orch_to_sched: bool,
}

impl VirtualOptions {
    /// A device of this arch with its usual costs.
    pub fn new(arch: &ArchSpec, seed: u64) -> Self {
        let (costs, faults) = (CostTable::default(), Faults::default());
        Self { arch: arch.clone(), seed, costs, faults, orch_to_sched: false }
    }
}
