//! The kernel every system runs: a fixed number of dependent multiply-adds.
//!
//! Work is counted, not timed: a kernel that watches the clock gets shorter when its thread is preempted.

use std::time::Instant;

pub(crate) fn kernel(iterations: u32) {
    let mut x = u64::from(iterations);
    for _ in 0..iterations {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // SAFETY: no instruction is emitted. The register constraint alone keeps the chain of operations as written;
        // `black_box` would send the value through memory and make an iteration longer than in the C++ peers.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
    }
    let _ = x;
}

/// The least of many trials: what an iteration costs when nobody interferes.
pub(crate) fn ns_per_iteration() -> f64 {
    const ITERATIONS: u32 = 50_000;
    let trial = || {
        let begin = Instant::now();
        kernel(ITERATIONS);
        begin.elapsed().as_nanos() as f64 / f64::from(ITERATIONS)
    };
    (0..400).map(|_| trial()).fold(f64::INFINITY, f64::min)
}
