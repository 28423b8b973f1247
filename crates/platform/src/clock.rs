//! The clock of real engines: the CPU's counter where it can be trusted, else the operating system's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where ticks come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockSource {
    /// The CPU's time-stamp counter, which runs at one rate on all cores.
    Counter,
    /// The operating system's monotonic clock, in nanoseconds.
    System,
}

impl ClockSource {
    /// As reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            ClockSource::Counter if cfg!(target_arch = "aarch64") => "cntvct",
            ClockSource::Counter => "tsc",
            ClockSource::System => "monotonic",
        }
    }
}

/// A clock. Copies read the same one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: ClockSource,
    origin: Instant,
}

/// Ticks per second once measured; the counter's rate does not change while the machine is up.
static COUNTER_HZ: AtomicU64 = AtomicU64::new(0);

impl Clock {
    /// The best clock of this machine.
    pub fn new() -> Self {
        let source = if counter_is_invariant() { ClockSource::Counter } else { ClockSource::System };
        #[cfg(target_arch = "x86_64")]
        first_pair();
        Self { source, origin: Instant::now() }
    }

    /// Where its ticks come from.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Now, in ticks.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self.source {
            ClockSource::Counter => read_counter(),
            ClockSource::System => self.system_ticks(),
        }
    }

    /// Out of line, so that who has a counter keeps its registers.
    #[cold]
    #[inline(never)]
    fn system_ticks(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Ticks per second, measured by the first call: within two milliseconds of the first clock it waits for them to pass.
    pub fn hz(&self) -> u64 {
        match self.source {
            ClockSource::System => 1_000_000_000,
            ClockSource::Counter => match COUNTER_HZ.load(Ordering::Relaxed) {
                0 => {
                    let hz = measure_counter();
                    COUNTER_HZ.store(hz, Ordering::Relaxed);
                    hz
                }
                hz => hz,
            },
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read_counter() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction and Linux leaves it enabled for user code.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
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

#[cfg(target_arch = "aarch64")]
fn measure_counter() -> u64 {
    let hz: u64;
    // SAFETY: the counter's frequency register is readable from user code on Linux.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack)) };
    hz
}

/// Compares the counter with the operating system's clock since the first clock was made, which is two milliseconds ago at
/// least: it waits for what is missing.
#[cfg(target_arch = "x86_64")]
fn measure_counter() -> u64 {
    const SPAN: std::time::Duration = std::time::Duration::from_millis(2);
    let (ticks, at) = *first_pair();
    std::thread::sleep(SPAN.saturating_sub(at.elapsed()));
    let (later_ticks, later) = read_pair();
    let ns = (later - at).as_nanos().max(1);
    (u128::from(later_ticks - ticks) * 1_000_000_000 / ns) as u64
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
