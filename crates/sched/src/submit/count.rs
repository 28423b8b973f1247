//! After a capacity deadlock: the rest of the scope is counted, not run, so that the error can say what is needed.
//!
//! Counted submits go through inference with a table that may grow, because what a task takes of the dependency pool
//! depends on it. Nothing is executed and no slot is written. The count is exact when the scope that holds the
//! resource is seen to close; a `read`, whose data will never come, ends it early and leaves a lower bound.

use super::books::Books;
use super::rings::{RingState, UNPINNED};
use super::scopes::Scope;
use super::wait::smallest_capacity;
use super::{Demand, OutputPlace, Submitter, TaskArg, TensorCore};
use crate::failure::{Failure, Shortage};
use plimsoll_abi::{KernelId, RINGS, Resource, TaskId};
use plimsoll_graph::{BufferUse, Dependency, Edges, User};
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use std::collections::HashSet;

/// Whether submits run, are only counted after a capacity deadlock, or are refused.
#[derive(Debug)]
pub(super) enum SubmitMode {
    /// Tasks are submitted.
    Running,
    /// Tasks are only counted: the run has failed, and what it would have needed is found out.
    Counting(Count),
    /// Every call returns the first failure.
    Failed,
}

/// The count since a capacity deadlock.
#[derive(Debug)]
pub(super) struct Count {
    resource: Resource,
    /// The ring counted; all of them for the tensormap.
    ring: Option<u8>,
    /// Place of the scope that holds the resource in the stack of scopes.
    holder: usize,
    used: u64,
    most: u64,
    preds: HashSet<TaskId>,
}

/// Takes the producers of a task that is counted.
struct CountedProducers<'c> {
    preds: &'c mut HashSet<TaskId>,
    rings: &'c [RingState; RINGS],
}

impl Edges for CountedProducers<'_> {
    fn meet(&mut self, edge: Dependency) -> bool {
        self.preds.insert(edge.pred);
        self.rings[edge.pred.ring() as usize % RINGS].holds(edge.pred)
    }

    fn is_spent(&self, task: TaskId) -> bool {
        self.rings[task.ring() as usize % RINGS].is_spent(task)
    }

    fn is_held(&self, task: TaskId) -> bool {
        self.rings[task.ring() as usize % RINGS].holds(task)
    }
}

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    pub(super) fn begin_counting(&mut self, holder: usize, shortage: &Shortage) {
        self.frozen = Some(Box::new(std::array::from_fn(|ring| self.books.rings[ring].heads())));
        self.frozen_entries = self.books.map.used();
        self.books.map.lift_limit();
        self.mode = SubmitMode::Counting(Count {
            resource: shortage.resource,
            ring: shortage.ring,
            holder,
            used: shortage.used,
            most: shortage.used,
            preds: HashSet::new(),
        });
    }

    /// The submit that met the deadlock is the first that is counted.
    #[cold]
    pub(super) fn or_count(
        &mut self,
        failure: Box<Failure>,
        kernel: KernelId,
        args: &mut [TaskArg<'_>],
    ) -> Result<TaskId, Box<Failure>> {
        match self.mode {
            SubmitMode::Counting(_) => self.submit_after_failure(kernel, args),
            _ => Err(failure),
        }
    }

    /// Does what `or_count` does, for a submit whose dependencies were inferred already.
    #[cold]
    pub(super) fn or_count_deps(
        &mut self,
        failure: Box<Failure>,
        task: TaskId,
        demand: Demand,
    ) -> Result<TaskId, Box<Failure>> {
        if !matches!(self.mode, SubmitMode::Counting(_)) {
            return Err(failure);
        }
        let pinned = self.books.fetch.pinned();
        self.count(task, demand, u64::from(pinned));
        Ok(task)
    }

    #[cold]
    pub(super) fn submit_after_failure(
        &mut self,
        kernel: KernelId,
        args: &mut [TaskArg<'_>],
    ) -> Result<TaskId, Box<Failure>> {
        let SubmitMode::Counting(count) = &mut self.mode else { return Err(self.first_failure()) };
        let mut preds = std::mem::take(&mut count.preds);
        preds.clear();
        let demand = Demand::of(args).complete();
        let ring = self.scope().ring;
        let task = TaskId::new(ring, self.books.rings[ring as usize].head as u32);
        let infers = !self.scope().manual;
        for index in 0..args.len() {
            match &mut args[index] {
                TaskArg::Tensor { core, mode } if infers && mode.is_inferred() => {
                    let user = User::new(task, index as u16, mode.writes());
                    let Books { map, rings, .. } = &mut self.books;
                    let access = BufferUse { user, buffer: core.buffer, footprint: &core.footprint(map) };
                    let met = map.access(&access, CountedProducers { preds: &mut preds, rings });
                    if let Err(conflict) = met {
                        let cause = TensorCore::overlap(&self.books.map, args, self.shape, conflict.with, index as u16);
                        return Err(self.invalid(kernel, cause));
                    }
                }
                TaskArg::Output { request } => {
                    let buffer = self.books.map.add_output(task, index as u16, &request.buffer_shape);
                    request.place = OutputPlace { base: 0, buffer };
                }
                _ => {}
            }
        }
        preds.extend(&self.after);
        let held = preds.iter().filter(|pred| self.is_held(**pred)).count() as u64;
        if let SubmitMode::Counting(count) = &mut self.mode {
            count.preds = preds;
        }
        self.count(task, demand, held);
        Ok(task)
    }

    /// Whether an open scope holds `task`.
    fn is_held(&self, task: TaskId) -> bool {
        self.books.rings[task.ring() as usize].holds(task)
    }

    fn count(&mut self, task: TaskId, demand: Demand, deps: u64) {
        let ring = task.ring() as usize;
        let head = self.books.rings[ring].head;
        self.books.rings[ring].head += 1;
        let last = self.scopes.len() - 1;
        if self.books.rings[ring].pin == UNPINNED {
            self.books.rings[ring].set_pin(head);
            self.holding.set_holder(ring, last);
        }
        self.scopes[last].first = self.scopes[last].first.min(head);
        self.scopes[last].entries += u64::from(demand.entries());
        self.holding.add_entries(u64::from(demand.entries()));
        let SubmitMode::Counting(count) = &mut self.mode else { return };
        if count.ring.is_some_and(|counted| counted as usize != ring) {
            return;
        }
        count.used += match count.resource {
            Resource::TaskWindow => 1,
            Resource::Heap => demand.heap,
            Resource::DepPool => deps,
            Resource::Tensormap => u64::from(demand.entries()),
        };
        count.most = count.most.max(count.used);
    }

    /// A scope closed while submits are counted, or after the run failed.
    #[cold]
    pub(super) fn close_after_failure(&mut self, scope: &Scope, depth: usize) -> Result<(), Box<Failure>> {
        let taken_over = self.hand_over(scope);
        let SubmitMode::Counting(count) = &mut self.mode else { return Err(self.first_failure()) };
        if depth == count.holder {
            let needed = smallest_capacity(count.resource, count.most);
            self.mode = SubmitMode::Failed;
            self.amend_needed(needed, false);
            return Err(self.first_failure());
        }
        if !taken_over && count.resource == Resource::Tensormap {
            count.used -= scope.entries.min(count.used);
        }
        Ok(())
    }

    /// Counting ends before the scope does: what was seen is a lower bound.
    #[cold]
    pub(super) fn end_of_counting(&mut self) -> Box<Failure> {
        if let SubmitMode::Counting(count) = &self.mode {
            let needed = smallest_capacity(count.resource, count.most);
            self.mode = SubmitMode::Failed;
            self.amend_needed(needed, true);
        }
        self.first_failure()
    }

    fn amend_needed(&mut self, needed: u64, bound: bool) {
        self.shared.amend_failure(|failure| {
            if let Some(shortage) = &mut failure.shortage {
                (shortage.needed, shortage.needed_is_bound) = (needed, bound);
            }
        });
    }
}
