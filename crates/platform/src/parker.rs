//! One thread's place to sleep: a futex word with a token, so that a wake-up before the sleep is not lost.
//!
//! Own code because `std::thread::park` shares its token with whatever a kernel calls on the same thread.

use crate::futex::Futex;
use std::sync::atomic::Ordering;

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

/// A place for one thread to sleep.
#[derive(Debug, Default)]
pub struct Parker {
    state: Futex,
}

impl Parker {
    /// Sleeps until the token is there, and takes it. Only the owning thread may call this.
    pub fn park(&self) {
        // Acquire pairs(parker.state): the Release swap in `unpark`.
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok() {
            while self.state.load(Ordering::Acquire) == PARKED {
                self.state.wait(PARKED, None);
            }
        }
        // A swap and not a store: a token that came since the look above is taken with it, and whatever its waker did
        // before is seen from here on. A store would erase the token while its sleeper still reads what was before.
        // Acquire pairs(parker.state): the Release swap in `unpark`.
        self.state.swap(EMPTY, Ordering::Acquire);
    }

    /// As `park`, for about `micros` at most. Returns without the token if it did not come.
    pub fn park_for(&self, micros: u32) {
        // Acquire pairs(parker.state).
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok() {
            self.state.wait(PARKED, Some(micros));
        }
        // Takes the token, or the announcement back: whoever unparks now leaves a token for the next time.
        // Acquire pairs(parker.state): the Release swap in `unpark`.
        self.state.swap(EMPTY, Ordering::Acquire);
    }

    /// Leaves the token and wakes the sleeper, if there is one.
    pub fn unpark(&self) {
        // Release pairs(parker.state): the Acquire in `park`.
        if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            self.state.wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_before_the_sleep_is_kept_and_one_during_it_ends_it() {
        let parker = Parker::default();
        parker.unpark();
        parker.park();
        std::thread::scope(|s| {
            let sleeper = s.spawn(|| parker.park());
            parker.unpark();
            sleeper.join().expect("woken");
        });
    }
}
