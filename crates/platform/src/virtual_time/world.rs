//! The recorder's half: its clock, and its waits for the host.

use super::VirtualMachine;
use plimsoll_shm::World;
use std::sync::Arc;

/// What the recorder sees of virtual time.
#[derive(Clone, Debug)]
pub struct VirtualWorld {
    pub(super) inner: Arc<VirtualMachine>,
}

impl World for VirtualWorld {
    #[inline]
    fn ticks(&self) -> u64 {
        self.inner.ticks(self.inner.now())
    }

    fn wait_for_host(&self, step: u32) {
        /// The first look again comes after this long, each later one after twice as long, up to 1024 times.
        const LOOK_NS: u64 = 1_000;
        let state = self.inner.state();
        match state.current.get() {
            Some(task) if !state.tearing_down.get() => {
                state.host_waiters.borrow_mut().push(task);
                self.inner.park(state, task, Some(self.inner.now().saturating_add(LOOK_NS << step.min(10))));
                state.host_waiters.borrow_mut().retain(|&waiter| waiter != task);
            }
            // Nobody else can run, so the host will not come; time passes until the recorder gives up.
            _ => self.inner.set_now(self.inner.now().saturating_add(1_000_000_000)),
        }
    }

    fn notify_host(&self) {
        let state = self.inner.state();
        if let Some(collector) = state.collector.get() {
            self.inner.unpark(state, collector);
        }
    }
}
