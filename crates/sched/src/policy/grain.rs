//! How long a kernel takes, and what that decides: a task of a *light* kernel runs where it became ready.

use crate::agent::Agent;
use crate::args::ArgWords;
use crate::execute::{KernelOutcome, arg_words, call};
use crate::kernel::KernelEntry;
use crate::shared::Shared;
use crate::slot::Slot;
use crate::sync::{AtomicU32, Ordering};
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use plimsoll_shm::World;

/// Every how many executions the kernel is timed.
const SAMPLED: u32 = 64;

/// Kernels that take fewer ticks are light. Only if the orchestrator executes tasks, too: light ones are left to it.
pub(crate) fn light_ticks<P: Platform>(shared: &Shared, platform: &P) -> u32 {
    if P::WEIGHS && shared.agents() > 1 && shared.lends() { platform.light_ticks() } else { 0 }
}

/// How long a kernel takes, roughly: in ticks, of a sample of its calls. The least of the first few, which find nothing in
/// the caches, and a running mean from then on. Whoever measured last wins: nothing but where tasks run depends on it.
#[derive(Debug)]
pub struct Grain(AtomicU32);

/// How many calls were measured, in the upper bits of the word; no more than it takes to be sure.
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
    #[inline]
    pub fn is_unknown(&self) -> bool {
        self.0.load(Ordering::Relaxed) < SURE << SEEN_SHIFT
    }

    /// Whether it is known to take less than `light` ticks.
    #[inline]
    pub fn is_light(&self, light: u32) -> bool {
        self.0.load(Ordering::Relaxed) & TICKS < light
    }
}

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    // Forced inline: the way of every task to its kernel, of which `agent.rs` says what it saves.
    #[inline(always)]
    pub(crate) fn call(&mut self, slot: &Slot, kernel: u32) -> KernelOutcome {
        let entry = &self.kernels[kernel as usize];
        if P::WEIGHS && self.light > 0 {
            if !entry.grain.is_light(self.light) {
                self.call_thieves();
            }
            if self.status.begun().is_multiple_of(SAMPLED) || entry.grain.is_unknown() {
                return self.call_timed(slot, entry);
            }
        }
        let outcome = call(self.platform, entry, slot, kernel);
        self.platform.charge_kernel(self.id, kernel, || ArgWords::new(arg_words(slot)).elements());
        outcome
    }

    /// As `call`, and notes how long it took.
    #[inline(never)]
    fn call_timed(&mut self, slot: &Slot, entry: &KernelEntry) -> KernelOutcome {
        let kernel = slot.kernel();
        let start = self.world.ticks();
        let outcome = call(self.platform, entry, slot, kernel);
        entry.grain.note(self.world.ticks() - start, self.light);
        outcome
    }
}

#[cfg(all(test, not(loom)))]
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
