//! A kernel's worth of work: a fixed number of dependent multiply-adds, so that it does not shrink when the thread is
//! preempted, as a spin on the clock would.

use std::time::Instant;

/// Dependent multiply-adds, `iterations` of them.
#[inline(never)]
pub(super) fn grind(iterations: u32) {
    let mut x = u64::from(iterations);
    for _ in 0..iterations {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // SAFETY: no instruction. That the value is in a register keeps the chain as written; `black_box` would send it through
        // memory, and an iteration would be longer than that of the peers, who are given as many.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
    }
    let _ = x;
}

/// Iterations that take about `ns` on this machine, measured once.
pub(super) fn iterations_for(ns: u64) -> u32 {
    if ns == 0 {
        return 0;
    }
    const SAMPLE: u32 = 50_000;
    let best = (0..200)
        .map(|_| {
            let start = Instant::now();
            grind(SAMPLE);
            start.elapsed().as_nanos()
        })
        .min()
        .unwrap_or(1);
    (u128::from(ns) * u128::from(SAMPLE) / best.max(1)) as u32
}
