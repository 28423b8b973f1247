//! Kernels as the scheduler sees them: a name, a core class and something to call with argument words.

use crate::args::ArgWords;
use plimsoll_platform::CoreClass;
use std::sync::atomic::{AtomicU32, Ordering};

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
    /// Its body.
    pub call: KernelCall,
    /// How long it takes, roughly.
    pub grain: Grain,
}

/// How long a kernel takes, roughly: a running mean of a sample of its calls, in ticks, and one more; 0 is not known yet.
/// Whoever measured last wins: nothing but where tasks run depends on it.
#[derive(Debug, Default)]
pub struct Grain(AtomicU32);

impl Grain {
    /// A call took `ticks`. What is far longer than `light` counts as little longer, so that one call that was
    /// interrupted is soon forgotten.
    pub fn note(&self, ticks: u64, light: u32) {
        let ticks = ticks.min(u64::from(light) * 4) as u32;
        let known = self.0.load(Ordering::Relaxed);
        let mean = if known == 0 { ticks } else { (known - 1) - (known - 1) / 4 + ticks / 4 };
        self.0.store(mean + 1, Ordering::Relaxed);
    }

    /// Whether no call was measured.
    #[inline(always)]
    pub fn is_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Whether it is known to take less than `light` ticks.
    #[inline(always)]
    pub fn is_light(&self, light: u32) -> bool {
        self.0.load(Ordering::Relaxed).wrapping_sub(1) < light
    }
}

impl std::fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelEntry({})", self.name)
    }
}
