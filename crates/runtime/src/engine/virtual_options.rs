//! What a device in virtual time is made of, as data: it can be said where virtual time is not built in, too.

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
}

impl VirtualOptions {
    /// A device of this arch with its usual costs.
    pub fn new(arch: &ArchSpec, seed: u64) -> Self {
        Self { arch: arch.clone(), seed, costs: CostTable::default(), faults: Faults::default() }
    }
}
