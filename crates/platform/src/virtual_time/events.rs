//! What happens next: events in the order of their time, ties by lot.

use super::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum EventSubject {
    /// A task goes on, if it is still the task's `turn`.
    Task { task: u32, turn: u32 },
    /// A core's oldest task has finished, and its scheduler can see that.
    Core { core: u32 },
}

/// One event. Of two at the same time the one with the lower lot comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Event {
    pub(super) at: u64,
    lot: u64,
    pub(super) what: EventSubject,
}

/// The events to come.
#[derive(Debug)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    lots: Random,
}

impl Events {
    pub(super) fn new(seed: u64) -> Self {
        Self { heap: BinaryHeap::with_capacity(256), lots: Random::new(seed) }
    }

    pub(super) fn push(&mut self, at: u64, what: EventSubject) {
        let lot = self.lots.bits();
        self.heap.push(Reverse(Event { at, lot, what }));
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(event)| event)
    }

    pub(super) fn any(&self) -> bool {
        !self.heap.is_empty()
    }

    /// Whether an event at `at` would come before all others, so that it need not be entered. Else it is entered.
    #[inline]
    pub(super) fn first_or_push(&mut self, at: u64, what: EventSubject) -> bool {
        let event = Event { at, lot: self.lots.bits(), what };
        if self.heap.peek().is_none_or(|Reverse(next)| event < *next) {
            return true;
        }
        self.heap.push(Reverse(event));
        false
    }
}
