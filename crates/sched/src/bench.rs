//! The least that a round trip between two threads can take: what `plimsoll bench mailbox` holds a dispatch against.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Looks after which whoever waits lets others have the CPU: there may be only one.
const LOOKS: u32 = 1 << 14;

/// Two words of one cache line.
#[repr(align(64))]
#[derive(Default)]
struct PingPong {
    ping: AtomicU32,
    pong: AtomicU32,
}

/// Nanoseconds of a round trip between two threads that answer each other over one cache line, both of them busily: the average
/// of `trips`.
pub fn ping_pong_ns(trips: u32) -> f64 {
    let line = PingPong::default();
    let mut ns = 0.0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 1..=trips + 1 {
                // Acquire pairs(bench.ping): the other thread's store.
                wait_until(|| line.ping.load(Ordering::Acquire) == trip);
                // Release pairs(bench.pong).
                line.pong.store(trip, Ordering::Release);
            }
        });
        let play = |trip: u32| {
            // Release pairs(bench.ping).
            line.ping.store(trip, Ordering::Release);
            // Acquire pairs(bench.pong): the other thread's store.
            wait_until(|| line.pong.load(Ordering::Acquire) == trip);
        };
        // The first one waits for the thread to start.
        play(1);
        let began = Instant::now();
        (2..=trips + 1).for_each(play);
        ns = began.elapsed().as_nanos() as f64 / f64::from(trips.max(1));
    });
    ns
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let mut looks = 0u32;
    while !done() {
        looks += 1;
        if looks.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
