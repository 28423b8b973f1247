//! What the device side needs of the world it runs in: a clock, a way to wait for the host, counters of its threads.
//!
//! On a real engine that is the CPU's counter and the operating system; in virtual time it is the event loop. The
//! recorder reaches both through this trait alone, so its code is the same on every engine.

use plimsoll_abi::CounterGroup;

/// Counters of one thread, which count up from the moment they were opened.
pub trait ThreadCounters: Send {
    /// What they have counted so far; none if they cannot be read. Allocates nothing.
    fn read(&mut self) -> Option<CounterValues>;
}

/// What the counters of a thread have counted so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterValues {
    /// In the order of the group's counters.
    pub counts: [u64; CounterGroup::MOST],
    /// How long the counters were wanted, in nanoseconds.
    pub wanted_ns: u64,
    /// How long they did count: less, if others used them meanwhile.
    pub counted_ns: u64,
}

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

    /// Counters of the calling thread; none if the system does not give them.
    fn thread_counters(&self, group: CounterGroup) -> Option<Box<dyn ThreadCounters>> {
        let _ = group;
        None
    }
}
