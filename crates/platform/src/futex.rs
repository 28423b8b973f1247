//! A word that a thread can wait on.

#[cfg(not(loom))]
pub(crate) use real::Futex;

#[cfg(loom)]
pub(crate) use model::Futex;

#[cfg(not(loom))]
mod real {
    use rustix::fs::Timespec;
    use rustix::thread::futex::{self, Flags};
    use std::sync::atomic::AtomicU32;

    /// The kernel's: a wait returns when it is woken, when the word is not what was expected, or for no reason.
    #[derive(Debug, Default)]
    pub(crate) struct Futex(AtomicU32);

    impl std::ops::Deref for Futex {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.0
        }
    }

    impl Futex {
        /// Waits while the word is `expected`, for about `micros` at most.
        pub(crate) fn wait(&self, expected: u32, micros: Option<u32>) {
            let limit = micros.map(|micros| Timespec {
                tv_sec: (micros / 1_000_000).into(),
                tv_nsec: (micros % 1_000_000 * 1000).into(),
            });
            // Whatever it returns for, the caller looks at the word again.
            let _ = futex::wait(&self.0, Flags::PRIVATE, expected, limit.as_ref());
        }

        /// Wakes a thread that waits.
        pub(crate) fn wake(&self) {
            // The word is ours, so there is nothing that could be wrong with the call.
            let _ = futex::wake(&self.0, Flags::PRIVATE, 1);
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// A futex for a model checker: whoever waits without end is reported.
    #[derive(Debug, Default)]
    pub(crate) struct Futex {
        word: AtomicU32,
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl std::ops::Deref for Futex {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.word
        }
    }

    impl Futex {
        /// A wait with a limit is one whose time is over.
        pub(crate) fn wait(&self, expected: u32, micros: Option<u32>) {
            let queue = self.queue.lock().expect("nobody panics with it");
            // The kernel looks at the word with its queue locked, in the order of all such looks. SeqCst
            // pairs(parker.state).
            if self.word.fetch_add(0, Ordering::SeqCst) == expected && micros.is_none() {
                drop(self.woken.wait(queue).expect("nobody panics with it"));
            }
        }

        pub(crate) fn wake(&self) {
            let queue = self.queue.lock().expect("nobody panics with it");
            self.woken.notify_one();
            drop(queue);
        }
    }
}
