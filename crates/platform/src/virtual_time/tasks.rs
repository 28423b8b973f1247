//! The tasks of the event loop: who runs, who waits, and what for.
//!
//! ```text
//!            resume (loop)                  suspend: spend (task)
//!   Due ────────────────────► Running ──────────────────────────────► Due
//!    ▲                           │ park, nap, hang (task)
//!    │ unpark, time (loop)       ▼
//!    └──────────────────── Parked, Napping, Hung, Stopped
//! ```
//! A task is a coroutine. It gives up the CPU only where its code says so, so between two such places nobody else runs.

use corosensei::Yielder;

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VirtualTaskStatus {
    /// It is the one that runs.
    Running,
    /// An event says when it goes on. A wake-up is kept for its next park.
    Due,
    /// It sleeps until somebody wakes it.
    Parked,
    /// It sleeps until somebody wakes it or its time has come.
    Napping,
    /// It was woken, and an event says when it goes on.
    Waking,
    /// It waits for a kernel that does not end.
    Hung,
    /// It stands still for good.
    Stopped,
    /// It has returned.
    Done,
}

/// One task.
#[derive(Debug)]
pub(super) struct VirtualTask {
    pub(super) status: VirtualTaskStatus,
    /// Which of its events is the valid one: earlier ones were overtaken by a wake-up.
    pub(super) turn: u32,
    /// Whether it was woken while it did not sleep.
    pub(super) token: bool,
    /// The way back to the loop; set from the task's first step to its last.
    pub(super) yielder: *const Yielder<(), ()>,
}

impl VirtualTask {
    pub(super) fn new() -> Self {
        Self { status: VirtualTaskStatus::Due, turn: 0, token: false, yielder: std::ptr::null() }
    }

    /// Makes earlier events of the task void and returns the number of the next one.
    pub(super) fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }
}
