//! Agents that are their own cores, and tasks that are not ordinary: dummies, tasks in blocks, predicated tasks.

use crate::agent::Agent;
use crate::args::ArgWords;
use crate::block;
use crate::execute::{KernelOutcome, call_with};
use crate::parts::call_parts;
use crate::shape::{Claim, ShapeWords};
use crate::slot::{Slot, SlotRef};
use plimsoll_abi::Flags;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_platform::{Platform, Work};
use plimsoll_probe::Lane;
use plimsoll_shm::World;

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Deals with a task that is not ordinary, as its holder: skips it, or executes its next block after it has made the
    /// others known.
    #[cold]
    #[inline(never)]
    pub(crate) fn execute_shaped(&mut self, at: SlotRef) {
        let slot = self.shared.slot(at);
        let shape = ShapeWords::of(slot);
        if let Claim::Nothing { skipped } = shape.look() {
            self.end_completing();
            self.note_skipped(skipped);
            return self.complete(at, slot);
        }
        if self.call_cohort(at, 1) {
            return self.end_completing();
        }
        let (index, more) = shape.claim(1);
        if index == 0 && self.lane.on(Flags::TENSOR_DUMP) {
            self.dump(slot, false);
        }
        if more {
            self.publish(at);
        }
        self.execute_block(at, index);
    }

    /// Executes a block that this agent has claimed.
    pub(crate) fn execute_block(&mut self, at: SlotRef, index: u32) {
        let slot = self.shared.slot(at);
        let shape = ShapeWords::of(slot);
        let kernel = slot.kernel();
        let start = self.begin_kernel::<true>(slot, kernel);
        let (called, outcome) = self.call_block(&shape, index);
        self.end_kernel::<true>(slot, kernel, start);
        match outcome {
            Ok(Ok(())) => self.finish_block(at, slot),
            outcome => self.fail_kernel(slot, called, outcome),
        }
    }

    /// Calls the kernel of a block, or those of all its parts. Tells whose outcome it is.
    fn call_block(&mut self, shape: &ShapeWords<'_>, index: u32) -> (u32, KernelOutcome) {
        let kernel = shape.part_kernel(0);
        let entry = &self.kernels[kernel as usize];
        let start = self.world.ticks();
        let outcome = match shape.parts() {
            1 => {
                let words = ArgWords::new(shape.kernel_words());
                let call = || call_with(self.platform, entry, words, kernel);
                (kernel, block::enter(shape.context(index, 0), call))
            }
            _ => {
                let (part, outcome) = call_parts(self.platform, self.kernels, self.status, shape, index);
                (shape.part_kernel(part), outcome)
            }
        };
        if P::WEIGHS && self.light > 0 {
            entry.grain.note(self.world.ticks() - start, self.light);
        }
        for part in 0..shape.parts() {
            self.platform.charge_kernel(self.id, shape.part_kernel(part), || shape.elements());
        }
        outcome
    }

    fn finish_block(&mut self, at: SlotRef, slot: &Slot) {
        if slot.finish_execution() {
            return self.complete(at, slot);
        }
        self.platform.charge(self.id, Work::Complete);
        self.note_finished(true);
    }

    /// Records that a predicate kept a task from being executed.
    pub(crate) fn note_skipped(&mut self, skipped: bool) {
        if skipped && self.lane.on(Flags::SCHED_PHASES) {
            self.phase(SchedPhaseKind::PredicatedSkip, 1, 1);
        }
    }
}
