//! The platform's half: what agents ask of virtual time, and the ports of its cores.

use super::cores::NEVER;
use super::events::EventSubject;
use super::tasks::VirtualTaskStatus;
use super::{Faults, Virtual, VirtualWorld};
use crate::ports::{Order, Ports, Receipt};
use crate::{Platform, WaitAdvice, Work};
use plimsoll_abi::{AgentId, CoreId};
use std::sync::atomic::Ordering;

impl Platform for Virtual {
    type World = VirtualWorld;
    const CLASSED: bool = true;

    fn world(&self, _: AgentId) -> VirtualWorld {
        self.recorder_world()
    }

    fn relax(&self, _: AgentId, _: u32) -> WaitAdvice {
        WaitAdvice::Park
    }

    fn park(&self, agent: AgentId) {
        self.inner.park(self.inner.state(), agent.index(), None);
    }

    fn unpark(&self, agent: AgentId) {
        self.inner.refuse_in_kernel();
        self.inner.unpark(self.inner.state(), agent.index());
    }

    fn heavy_barrier(&self) {
        self.inner.maybe_preempt();
    }

    #[inline]
    fn light_barrier(&self) {
        self.inner.maybe_preempt();
    }

    fn charge(&self, agent: AgentId, work: Work) {
        let Some(state) = self.inner.working(agent) else { return };
        let costs = &self.inner.costs;
        let ns = match work {
            Work::Submit => costs.submit_ns,
            Work::Dispatch => costs.dispatch_ns,
            Work::Complete => costs.complete_ns,
        };
        self.inner.spend(state, agent.index(), self.inner.shaken(state, ns));
    }

    fn charge_kernel(&self, agent: AgentId, kernel: u32, elements: impl FnOnce() -> u64) {
        let Some(state) = self.inner.working(agent) else { return };
        let task = agent.index();
        let execution = {
            let mut executions = state.executions.borrow_mut();
            executions[task] += 1;
            executions[task]
        };
        let drawn = self.inner.draw(state, kernel, elements());
        let ns = match drawn.filter(|_| !self.inner.hangs(agent.0, execution)) {
            Some(ns) => ns,
            None if state.abandoned.get() => 0,
            None => {
                state.tasks.borrow_mut()[task].status = VirtualTaskStatus::Hung;
                return self.inner.suspend(state, task);
            }
        };
        self.inner.spend(state, task, ns);
    }

    fn has_given_up(&self) -> bool {
        self.inner.state().abandoned.get()
    }

    fn nanos(&self) -> u64 {
        self.inner.now()
    }

    fn buffer_address(&self, number: u64, _: u64) -> u64 {
        // Addresses are far apart, so that buffers of any size do not seem to touch.
        number << 40
    }

    unsafe fn reclaimed(&self, memory: *mut u8, bytes: usize) {
        if self.inner.faults.poison {
            // SAFETY: as promised by the caller.
            unsafe { memory.write_bytes(Faults::POISON, bytes) };
        }
    }

    fn kernel_begins(&self, kernel: u32) {
        self.inner.refuse_in_kernel();
        let word = self.inner.kernel.load(Ordering::Relaxed);
        self.inner.kernel.store((word | u64::from(kernel + 1)).wrapping_add(1 << 32), Ordering::Relaxed);
    }

    fn kernel_ends(&self) {
        let word = self.inner.kernel.load(Ordering::Relaxed);
        self.inner.kernel.store(word >> 32 << 32, Ordering::Relaxed);
    }
}

impl Ports for Virtual {
    fn dispatch(&self, core: CoreId, order: Order, kernel: u32, elements: impl FnOnce() -> u64) {
        let state = self.inner.state();
        let receive = self.inner.now().saturating_add(self.inner.shaken(state, self.inner.costs.handover_ns));
        let cost = self.inner.draw(state, kernel, elements());
        let mut cores = state.cores.borrow_mut();
        let execution = cores.next_execution(core);
        let end = cores.take_in(core, order, receive, cost.filter(|_| !self.inner.hangs(core.0, execution)));
        if end != NEVER {
            let seen = end.saturating_add(self.inner.shaken(state, self.inner.costs.handover_ns));
            // Of two receipts of a core the older is seen first, whatever the jitter says (P2).
            let seen = cores.seen_after(core, seen);
            state.events.borrow_mut().push(seen, EventSubject::Core { core: u32::from(core.0) });
        }
    }

    fn collect(&self, agent: AgentId) -> Option<Receipt> {
        self.inner.state().cores.borrow_mut().receipt(agent)
    }

    fn has_receipt(&self, agent: AgentId) -> bool {
        self.inner.state().cores.borrow().has_receipt(agent)
    }

    fn adopt(&self, agent: AgentId, core: CoreId) {
        self.inner.state().cores.borrow_mut().set_owner(core, agent);
    }

    fn cores_lost(&self) -> bool {
        self.inner.state().abandoned.get()
    }
}
