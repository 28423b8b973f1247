//! The doorbell: how a producer wakes the collector when there is something to drain.
//!
//! ```text
//!   producer: rings += 1 ──► is somebody asleep? ──► wake          collector: seen = rings ──► drain ──► asleep = 1
//!                                                                             ──► sleep unless rings != seen
//! ```
//!
//! D1: all four accesses are sequentially consistent, so either the producer sees the sleeper or the sleeper sees the
//! ring; the kernel compares `rings` once more before it lets anybody sleep.

use crate::region::Region;
use crate::sync::Ordering;
use rustix::thread::futex;
use std::sync::Arc;
use std::time::Duration;

/// Not private to the process: the device may be a process of its own.
const SHARED: futex::Flags = futex::Flags::empty();

/// Both ends of the bell of one region.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Region>);

impl Doorbell {
    /// The bell of this region.
    pub fn new(region: Arc<Region>) -> Self {
        Self(region)
    }

    /// Wakes the collector if it sleeps.
    pub fn ring(&self) {
        let bell = &self.0.control().bell;
        // SeqCst, both (D1). pairs(bell.rings): `rings` and the kernel in `sleep`. pairs(bell.sleeping): `sleep`.
        bell.rings.fetch_add(1, Ordering::SeqCst);
        if bell.sleeping.load(Ordering::SeqCst) != 0 {
            // Whether anybody was woken does not matter: who is awake looks again by itself.
            let _ = futex::wake(&bell.rings, SHARED, 1);
        }
    }

    /// How often it was rung; read before looking for work.
    pub fn rings(&self) -> u32 {
        // SeqCst (D1): what was sealed before the ring is visible to who saw it. pairs(bell.rings): `ring`.
        self.0.control().bell.rings.load(Ordering::SeqCst)
    }

    /// Sleeps until the bell was rung more often than `seen`, or the time is over.
    pub fn sleep(&self, seen: u32, at_most: Duration) {
        let bell = &self.0.control().bell;
        // SeqCst (D1): either `ring` sees the sleeper, or the kernel sees the ring. pairs(bell.sleeping): `ring`.
        bell.sleeping.store(1, Ordering::SeqCst);
        let at_most =
            futex::Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: at_most.subsec_nanos().into() };
        // Every outcome (woken, changed, timed out, interrupted) means "look again".
        let _ = futex::wait(&bell.rings, SHARED, seen, Some(&at_most));
        // SeqCst pairs(bell.sleeping): a `ring` that still sees the sleeper wakes nobody, which costs a system call and no more.
        bell.sleeping.store(0, Ordering::SeqCst);
    }
}
