//! What a kernel waited for before it began its own work: told by its body, taken by the agent or the core that called it.
//!
//! A body in a language with a lock of its own waits for that lock inside the call. The note lies with the thread, and is taken
//! only where times are recorded: whoever records nothing pays nothing.

use std::cell::Cell;

thread_local! {
    static NOTE: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// The kernel that runs on this thread waited between two ticks of the machine's [clock](plimsoll_platform::Clock).
pub fn note(from: u64, until: u64) {
    NOTE.set(Some((from, until)));
}

/// What the kernel that has just returned noted.
pub(crate) fn take() -> Option<(u64, u64)> {
    NOTE.take()
}
