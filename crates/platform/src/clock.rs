//! The clock of real engines: the CPU's counter where it can be trusted, else the operating system's.

use plimsoll_abi::region::ClockSource;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A clock. Every clock of a machine shows the same ticks, in whatever process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: ClockSource,
}

/// Ticks per second once measured; the counter's rate does not change while the machine is up.
static COUNTER_HZ: AtomicU64 = AtomicU64::new(0);

impl Clock {
    /// The best clock of this machine.
    pub fn new() -> Self {
        let source = if counter_is_invariant() { ClockSource::CpuCounter } else { ClockSource::Os };
        #[cfg(target_arch = "x86_64")]
        first_pair();
        Self { source }
    }

    /// Where its ticks come from: the CPU's counter or the operating system.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Now, in ticks.
    #[inline]
    pub fn ticks(&self) -> u64 {
        match self.source {
            ClockSource::CpuCounter => read_counter(),
            _ => self.system_ticks(),
        }
    }

    /// Out of line, so that the path with a counter keeps its registers.
    #[cold]
    #[inline(never)]
    fn system_ticks(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Ticks per second, measured by the first call: within two milliseconds of the first clock it waits for them to pass.
    pub fn hz(&self) -> u64 {
        if self.source == ClockSource::CpuCounter && COUNTER_HZ.load(Ordering::Relaxed) == 0 {
            wait_for_counter();
        }
        self.hz_by_now()
    }

    /// Ticks per second as far as can be told by now, without waiting: in the first two milliseconds of the first clock it may
    /// be off by 0.01 %.
    pub fn hz_by_now(&self) -> u64 {
        match (self.source, COUNTER_HZ.load(Ordering::Relaxed)) {
            (ClockSource::CpuCounter, 0) => {
                let (hz, exact) = measure_counter();
                if exact {
                    COUNTER_HZ.store(hz, Ordering::Relaxed);
                }
                hz
            }
            (ClockSource::CpuCounter, hz) => hz,
            _ => 1_000_000_000,
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction and Linux leaves it enabled for user code.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn read_counter() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter is readable from user code on Linux; reading it has no side effect.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Whether the counter runs at one rate whatever the power state.
#[cfg(target_arch = "x86_64")]
fn counter_is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    const INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & INVARIANT != 0
}

/// The architecture promises it.
#[cfg(target_arch = "aarch64")]
fn counter_is_invariant() -> bool {
    true
}

/// The counter's ticks per second, and whether that is exact.
#[cfg(target_arch = "aarch64")]
fn measure_counter() -> (u64, bool) {
    let hz: u64;
    // SAFETY: the counter's frequency register is readable from user code on Linux.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack)) };
    (hz, true)
}

#[cfg(target_arch = "aarch64")]
fn wait_for_counter() {}

/// How long the counter is compared with the operating system's clock, so that the reading of both does not matter.
#[cfg(target_arch = "x86_64")]
const SPAN: std::time::Duration = std::time::Duration::from_millis(2);

/// The counter's ticks per second by the operating system's clock since the first clock was made, and whether that is long
/// enough ago.
#[cfg(target_arch = "x86_64")]
fn measure_counter() -> (u64, bool) {
    let (ticks, at) = *first_pair();
    let (later_ticks, later) = read_pair();
    let span = later - at;
    // A counter that has not moved yet has no rate; nobody divides by it.
    let hz = u128::from(later_ticks - ticks) * 1_000_000_000 / span.as_nanos().max(1);
    ((hz as u64).max(1), span >= SPAN)
}

#[cfg(target_arch = "x86_64")]
fn wait_for_counter() {
    std::thread::sleep(SPAN.saturating_sub(first_pair().1.elapsed()));
}

/// What both clocks showed when the first [`Clock`] was made.
#[cfg(target_arch = "x86_64")]
fn first_pair() -> &'static (u64, Instant) {
    static FIRST: std::sync::OnceLock<(u64, Instant)> = std::sync::OnceLock::new();
    FIRST.get_or_init(read_pair)
}

/// Both clocks at one moment: the tightest of several readings, since a preemption in between would falsify the pair.
#[cfg(target_arch = "x86_64")]
fn read_pair() -> (u64, Instant) {
    (0..16)
        .map(|_| {
            let before = read_counter();
            let at = Instant::now();
            let after = read_counter();
            (after - before, before + (after - before) / 2, at)
        })
        .min_by_key(|&(width, ..)| width)
        .map_or_else(|| (read_counter(), Instant::now()), |(_, ticks, at)| (ticks, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told at once is what is told after waiting, nearly.
    #[test]
    fn the_rate_is_known_at_once() {
        let told = |_| {
            let clock = Clock::new();
            let (by_now, exact) = (clock.hz_by_now(), clock.hz());
            assert_eq!(clock.hz_by_now(), exact);
            (by_now, exact)
        };
        // Whoever is put off the CPU between a look at the clock and one at the counter tells less; not every time.
        let told: Vec<(u64, u64)> = (0..20).map(told).collect();
        assert!(told.iter().any(|(by_now, exact)| by_now.abs_diff(*exact) < exact / 20), "ticks per second: {told:?}");
    }
}
