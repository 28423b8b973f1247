//! Signals belong to Python's main thread: threads that are started here take none.
//!
//! CPython looks for signals when the thread that handled one was its main thread. A worker that is given one would keep it from
//! Python until something else happens. Faults are the exception: they are the thread's own, and one that is held ends the process
//! before any handler, such as that of `faulthandler`, has been called.

use std::cell::Cell;

/// What a thread is given for what it did itself.
const FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// No signal but those of faults is taken on this thread, nor on those that it starts, until this is released or dropped.
pub(crate) struct HeldSignals(Cell<Option<libc::sigset_t>>);

impl HeldSignals {
    pub(crate) fn hold() -> Self {
        // SAFETY: plain sets of signals, filled by the calls; a failed call changes nothing.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            for fault in FAULTS {
                libc::sigdelset(&raw mut all, fault);
            }
            let held = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            Self(Cell::new((held == 0).then_some(before)))
        }
    }

    /// Takes signals as before, those included that came meanwhile.
    pub(crate) fn release(&self) {
        if let Some(before) = self.0.take() {
            // SAFETY: the set is the one that this thread had.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        self.release();
    }
}
