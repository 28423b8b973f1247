//! Kernels as the scheduler sees them: a name, a core class and something to call with argument words.

use crate::args::ArgWords;
use crate::policy::Grain;
use crate::signature::Signature;
use plimsoll_platform::CoreClass;

/// What a kernel says when it fails.
pub type KernelError = Box<dyn std::error::Error + Send + Sync>;

/// What an agent calls.
pub type KernelCall = Box<dyn Fn(ArgWords<'_>) -> Result<(), KernelError> + Send + Sync>;

/// A registered kernel.
pub struct KernelEntry {
    /// Its name.
    pub name: String,
    /// The cores it may run on.
    pub class: CoreClass,
    /// What it takes.
    pub signature: Signature,
    /// Whether several calls with the same arguments may run at the same time: what blocks of one task do.
    pub in_blocks: bool,
    /// Its body.
    pub call: KernelCall,
    /// How long it takes, roughly.
    pub grain: Grain,
}

impl std::fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelEntry({})", self.name)
    }
}
