//! Where an agent's next task comes from, and who is told of a task that became ready.

use crate::agent::Agent;
use crate::slot::SlotRef;
use plimsoll_abi::Flags;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;

/// Ready tasks taken from another agent at once.
const STEAL: u64 = 32;

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Makes a ready task known to all agents.
    #[inline]
    pub fn publish(&mut self, task: SlotRef) {
        if P::CLASSED {
            return self.publish_by_class(task);
        }
        let queue = self.queue;
        queue.push(task.0);
        if P::WEIGHS && self.light > 0 {
            let kernel = self.shared.slot(task).kernel();
            // A dummy has no kernel, and is as light as can be.
            if self.kernels.get(kernel as usize).is_none_or(|entry| entry.grain.is_light(self.light)) {
                return self.shared.sleep.published_light(self.platform);
            }
        }
        queue.call();
        self.shared.sleep.published(self.platform);
    }

    /// Before a kernel that may take long: what waits behind it is for others to take.
    #[inline(never)]
    pub(crate) fn call_thieves(&self) {
        let queue = self.queue;
        if !queue.is_empty() {
            queue.call();
            self.shared.sleep.published(self.platform);
        }
    }

    /// Whether its queue holds light tasks, which it should run itself.
    #[inline]
    pub fn has_light_work(&self) -> bool {
        let queue = self.queue;
        self.light > 0 && (self.next.is_some() || (!queue.is_empty() && !queue.calls()))
    }

    /// Gives up the task that this agent would run next, because it has other things to do: whoever comes first takes it.
    #[inline]
    pub fn lay_down(&mut self) {
        if let Some(task) = self.next.take() {
            self.publish(task);
        }
        self.end_completing();
    }

    /// As `publish`, where a task may want a core of one class.
    fn publish_by_class(&mut self, task: SlotRef) {
        if !self.shared.is_classed() {
            self.queue.push(task.0);
            self.queue.call();
            return self.shared.sleep.published(self.platform);
        }
        let kernel = self.shared.slot(task).kernel();
        let class = super::rooms::class_of(self.kernels, kernel);
        self.shared.class_queues(class)[self.id.index()].push(task.0);
        super::rooms::published(self.shared, self.platform, self.id, class, task);
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<SlotRef> {
        if let Some(task) = self.next.take() {
            return Some(task);
        }
        match self.queue.take() {
            Some(item) => Some(SlotRef(item)),
            None => self.steal(),
        }
    }

    #[inline(never)]
    fn steal(&mut self) -> Option<SlotRef> {
        self.end_completing();
        let agents = self.shared.agents();
        let own = self.queue;
        for turn in 1..agents {
            let victim = &self.shared.queues[(self.id.index() + turn) % agents];
            if victim.is_empty() || !(self.takes_light || victim.calls()) {
                continue;
            }
            if let Some(item) = victim.take_half(STEAL, |item| own.push(item)) {
                // The other stolen tasks wait behind the first one in this agent's queue, unless a sleeper comes for them.
                if !own.is_empty() && !self.takes_light {
                    own.call();
                    self.shared.sleep.published(self.platform);
                }
                self.takes_light = false;
                if self.lane.on(Flags::SCHED_PHASES) {
                    self.phase(SchedPhaseKind::Steal, 1, 1);
                }
                return Some(SlotRef(item));
            }
        }
        self.takes_light = false;
        self.pop_miss += 1;
        None
    }
}
