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
use crate::sync::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

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
        bell.rings.fetch_add(1, Ordering::SeqCst);
        if bell.sleeping.load(Ordering::SeqCst) != 0 {
            futex(&bell.rings, libc::FUTEX_WAKE, 1, None);
        }
    }

    /// How often it was rung; read before looking for work.
    pub fn rings(&self) -> u32 {
        self.0.control().bell.rings.load(Ordering::SeqCst)
    }

    /// Sleeps until the bell was rung more often than `seen`, or the time is over.
    pub fn sleep(&self, seen: u32, at_most: Duration) {
        let bell = &self.0.control().bell;
        bell.sleeping.store(1, Ordering::SeqCst);
        futex(&bell.rings, libc::FUTEX_WAIT, seen, Some(at_most));
        bell.sleeping.store(0, Ordering::SeqCst);
    }
}

/// Waits or wakes. Not private to the process: the device may be a process of its own.
fn futex(word: &AtomicU32, operation: i32, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    });
    let timeout: *const libc::timespec = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word lives through the call, the timeout is null or points to a live value, and these two
    // operations use no other argument. Every outcome (woken, changed, timed out, interrupted) means "look again".
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) };
}
