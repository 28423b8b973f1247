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

/// How long a kernel takes, roughly: in ticks, of a sample of its calls. The least of the first few, which find nothing in
/// the caches, and a running mean from then on. Whoever measured last wins: nothing but where tasks run depends on it.
#[derive(Debug)]
pub struct Grain(AtomicU32);

/// Calls were measured, in the upper bits of the word; as many as it takes to be sure.
const SURE: u32 = 3;
const SEEN_SHIFT: u32 = 30;
/// The lower bits: the ticks, at first more than any kernel takes.
const TICKS: u32 = (1 << SEEN_SHIFT) - 1;

impl Default for Grain {
    fn default() -> Self {
        Self(AtomicU32::new(TICKS))
    }
}

impl Grain {
    /// A call took `ticks`. What is longer than twice `light` counts as no more, so that one call that was interrupted
    /// does not make a kernel heavy.
    pub fn note(&self, ticks: u64, light: u32) {
        let ticks = ticks.min(u64::from(light) * 2).min(u64::from(TICKS - 1)) as u32;
        let word = self.0.load(Ordering::Relaxed);
        let (seen, known) = (word >> SEEN_SHIFT, word & TICKS);
        let known = if seen < SURE { known.min(ticks) } else { known - known / 4 + ticks / 4 };
        self.0.store((seen + 1).min(SURE) << SEEN_SHIFT | known, Ordering::Relaxed);
    }

    /// Whether too few calls were measured.
    #[inline(always)]
    pub fn is_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) < SURE << SEEN_SHIFT
    }

    /// Whether it is known to take less than `light` ticks.
    #[inline(always)]
    pub fn is_light(&self, light: u32) -> bool {
        self.0.load(Ordering::Relaxed) & TICKS < light
    }
}

impl std::fmt::Debug for KernelEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelEntry({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIGHT: u32 = 1000;

    fn noted(calls: impl IntoIterator<Item = u64>) -> Grain {
        let grain = Grain::default();
        calls.into_iter().for_each(|ticks| grain.note(ticks, LIGHT));
        grain
    }

    #[test]
    fn a_light_kernel_stays_light_whatever_interrupts_a_call() {
        assert!(noted([]).is_unknown() && !noted([]).is_light(LIGHT));
        assert!(noted([50_000]).is_unknown(), "one call is not enough");
        let grain = noted([9_000, 60, 3_000]);
        assert!(!grain.is_unknown() && grain.is_light(LIGHT), "a cold call is forgotten");
        grain.note(u64::MAX, LIGHT);
        assert!(grain.is_light(LIGHT), "one interrupted call");
    }

    #[test]
    fn a_kernel_that_takes_long_is_soon_known_to() {
        assert!(!noted([5_000; 3]).is_light(LIGHT));
        let grain = noted([60; 100]);
        (0..4).for_each(|_| grain.note(5_000, LIGHT));
        assert!(!grain.is_light(LIGHT), "one that has come to take long");
        (0..4).for_each(|_| grain.note(60, LIGHT));
        assert!(grain.is_light(LIGHT), "and not any more");
    }
}
