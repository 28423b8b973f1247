//! What the device side needs of the world it runs in: a clock and a way to wait for the host.
//!
//! On a real engine that is the CPU's counter and the operating system; in virtual time it is the event loop. The
//! recorder reaches both through this trait alone, so its code is the same on every engine.

/// The world of one agent.
pub trait World: Clone {
    /// The run's clock, in ticks.
    fn ticks(&self) -> u64;

    /// One step of waiting for the host; `step` counts up from 0 since the wait began. A real thread spins, then yields,
    /// then sleeps as it grows.
    fn wait_for_host(&self, step: u32) {
        match step {
            0..64 => std::hint::spin_loop(),
            64..128 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }

    /// Wakes the host's collector if it sleeps: there is something to drain.
    fn notify_host(&self);
}
