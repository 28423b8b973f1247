//! One thread's place to sleep: a futex word with a token, so that a wake-up before the sleep is not lost.
//!
//! Own code because `std::thread::park` shares its token with whatever a kernel calls on the same thread.

use std::sync::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

/// A place for one thread to sleep.
#[derive(Debug, Default)]
pub struct Parker {
    state: AtomicU32,
}

impl Parker {
    /// Sleeps until the token is there, and takes it. Only the owning thread may call this.
    pub fn park(&self) {
        // Acquire pairs(parker.state): the Release swap in `unpark`.
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok() {
            while self.state.load(Ordering::Acquire) == PARKED {
                futex_wait(&self.state, PARKED, None);
            }
        }
        self.state.store(EMPTY, Ordering::Relaxed);
    }

    /// As `park`, for about `micros` at most. Returns without the token if it did not come.
    pub fn park_for(&self, micros: u32) {
        // Acquire pairs(parker.state).
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok() {
            futex_wait(&self.state, PARKED, Some(micros));
        }
        // Takes the token, or the announcement back: whoever unparks now leaves a token for the next time.
        self.state.swap(EMPTY, Ordering::Acquire);
    }

    /// Leaves the token and wakes the sleeper, if there is one.
    pub fn unpark(&self) {
        // Release pairs(parker.state): the Acquire in `park`.
        if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            futex_wake(&self.state);
        }
    }
}

fn futex_wait(word: &AtomicU32, expected: u32, micros: Option<u32>) {
    let limit = micros.map(|micros| libc::timespec {
        tv_sec: libc::time_t::from(micros / 1_000_000),
        tv_nsec: libc::c_long::from(micros % 1_000_000) * 1000,
    });
    // SAFETY: the word and the time are valid for the call; the kernel only reads them. A spurious return or an
    // interrupted call is handled by the caller.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        );
    }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid for the call; the kernel uses its address only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}

#[cfg(test)]
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
