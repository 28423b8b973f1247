//! The compute cores of a chip in virtual time: no code of their own runs, so a core is a few numbers.
//!
//! When a task is dispatched, its cost is drawn and all its times are known. The kernel itself is called when its scheduler
//! can see the end. That is the latest moment that is right, so a run that takes memory back too early is found out.

use crate::arch::ArchSpec;
use crate::ports::{ISSUE, Order, Receipt};
use plimsoll_abi::{AgentId, CoreId};
use std::collections::VecDeque;

/// The time at which a core that hangs is free: never.
pub(super) const NEVER: u64 = u64::MAX;

/// One core.
#[derive(Debug)]
struct VirtualCore {
    /// Who owns it when a run begins.
    first_owner: AgentId,
    owner: AgentId,
    /// When the last task that it was given ends, in nanoseconds.
    free_at: u64,
    /// When its owner sees the latest of its receipts.
    seen_at: u64,
    executions: u32,
    flight: VecDeque<Flight>,
}

/// A task with its core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) order: Order,
    pub(super) receive: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// All cores, and what their owners have not collected yet.
#[derive(Debug)]
pub(super) struct Cores {
    cores: Vec<VirtualCore>,
    /// Receipts that wait to be collected, by agent.
    receipts: Vec<VecDeque<Receipt>>,
}

impl Cores {
    pub(super) fn new(arch: &ArchSpec, agents: usize) -> Self {
        let core = |at: u32| VirtualCore {
            first_owner: arch.owner(at),
            owner: arch.owner(at),
            free_at: 0,
            seen_at: 0,
            executions: 0,
            flight: VecDeque::with_capacity(ISSUE as usize),
        };
        Self {
            cores: (0..arch.cores()).map(core).collect(),
            receipts: (0..agents).map(|_| VecDeque::with_capacity(64)).collect(),
        }
    }

    /// Executions of a core so far, this one included.
    pub(super) fn next_execution(&mut self, core: CoreId) -> u32 {
        let executions = &mut self.cores[core.index()].executions;
        *executions += 1;
        *executions
    }

    /// Takes in a task that arrives at `receive` and costs `cost`; tells when it ends.
    pub(super) fn take_in(&mut self, core: CoreId, order: Order, receive: u64, cost: Option<u64>) -> u64 {
        let core = &mut self.cores[core.index()];
        assert!(core.flight.len() < ISSUE as usize, "P1: a core was given more than it has room for");
        let start = receive.max(core.free_at);
        core.free_at = cost.map_or(NEVER, |cost| start.saturating_add(cost));
        core.flight.push_back(Flight { order, receive, start, end: core.free_at });
        core.free_at
    }

    /// When the owner sees the receipt of the newest task: at `at`, but not before that of the one in front of it.
    pub(super) fn seen_after(&mut self, core: CoreId, at: u64) -> u64 {
        let seen = &mut self.cores[core.index()].seen_at;
        *seen = at.max(*seen);
        *seen
    }

    /// The core's oldest task ends.
    pub(super) fn end_oldest(&mut self, core: CoreId) -> Option<(AgentId, Flight)> {
        let core = &mut self.cores[core.index()];
        core.flight.pop_front().map(|flight| (core.owner, flight))
    }

    /// What every core holds first, by core: it runs, or it is about to.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (CoreId, Flight)> + '_ {
        let first = |(at, core): (usize, &VirtualCore)| core.flight.front().map(|&flight| (CoreId(at as u16), flight));
        self.cores.iter().enumerate().filter_map(first)
    }

    pub(super) fn leave_receipt(&mut self, owner: AgentId, receipt: Receipt) {
        self.receipts[owner.index()].push_back(receipt);
    }

    pub(super) fn receipt(&mut self, agent: AgentId) -> Option<Receipt> {
        self.receipts[agent.index()].pop_front()
    }

    pub(super) fn has_receipt(&self, agent: AgentId) -> bool {
        !self.receipts[agent.index()].is_empty()
    }

    /// The core, which holds nothing, changes its owner.
    pub(super) fn set_owner(&mut self, core: CoreId, owner: AgentId) {
        self.cores[core.index()].owner = owner;
    }

    /// Forgets what never ended: cores are idle again from `now` on, and with their first owners.
    pub(super) fn reset(&mut self, now: u64) {
        for core in &mut self.cores {
            core.owner = core.first_owner;
            core.flight.clear();
            core.free_at = now;
        }
        self.receipts.iter_mut().for_each(VecDeque::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_task_starts_when_the_running_one_ends() {
        let mut cores = Cores::new(&ArchSpec::A2A3, 4);
        let order = |token| Order {
            token,
            word: 0,
            execution: 0,
            pipes: Order::NO_PIPES,
            place: plimsoll_shm::ReservedSlot::NONE,
        };
        assert_eq!(cores.take_in(CoreId(3), order(1), 100, Some(50)), 150);
        assert_eq!(cores.take_in(CoreId(3), order(2), 110, Some(7)), 157);
        let (_, first) = cores.end_oldest(CoreId(3)).expect("two are there");
        assert_eq!((first.receive, first.start, first.end), (100, 100, 150));
        assert_eq!(cores.take_in(CoreId(3), order(3), 1000, None), NEVER);
        let (_, second) = cores.end_oldest(CoreId(3)).expect("two are there");
        assert_eq!((second.receive, second.start, second.end), (110, 150, 157));
    }
}
