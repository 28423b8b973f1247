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
                futex_wait(&self.state, PARKED);
            }
        }
        self.state.store(EMPTY, Ordering::Relaxed);
    }

    /// Leaves the token and wakes the sleeper, if there is one.
    pub fn unpark(&self) {
        // Release pairs(parker.state): the Acquire in `park`.
        if self.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            futex_wake(&self.state);
        }
    }
}

fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word is valid for the call; the kernel only compares it. No time-out is given. A spurious return or
    // an interrupted call is handled by the caller's loop.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
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
