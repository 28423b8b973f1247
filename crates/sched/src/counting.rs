//! Counters around kernels: what is read, outside of the kernel's start and end, and what a cost table counts.

use crate::agent::Agent;
use crate::args::ArgWords;
use crate::execute::arg_words;
use crate::kernel::KernelEntry;
use crate::shape::ShapeWords;
use crate::signature::element_bytes;
use crate::slot::{Slot, SlotRef};
use crate::sync::Ordering;
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{CoreId, Flags, KernelId, TaskId};
use plimsoll_platform::Platform;
use plimsoll_probe::{CountedExecution, Lane, TaskAmounts};

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Executes an ordinary task of which more is recorded than its times: its arguments, or counters.
    #[cold]
    #[inline(never)]
    pub(crate) fn execute_watched(&mut self, at: SlotRef) {
        let slot = self.shared.slot(at);
        if self.lane.on(Flags::TENSOR_DUMP) {
            self.dump(slot, false);
        }
        let kernel = slot.kernel();
        let start = self.begin_kernel::<true>(slot, kernel);
        let outcome = self.call(slot, kernel);
        self.end_kernel::<true>(slot, kernel, start);
        match outcome {
            Ok(Ok(())) => self.complete(at, slot),
            outcome => self.fail_kernel(slot, kernel, outcome),
        }
    }

    /// Reads the counters before an execution, if they are recorded.
    pub(crate) fn begin_counting(&mut self) {
        if self.lane.on(Flags::PMU) {
            self.lane.begin_counting();
        }
    }

    /// Reads the counters after an execution and records what they counted, if they are recorded.
    pub(crate) fn end_counting(&mut self, slot: &Slot, kernel: u32) {
        if self.lane.on(Flags::PMU) {
            let execution = CountedExecution {
                core: CoreId(self.id.0),
                task: TaskId::from_raw(slot.task.load(Ordering::Relaxed)),
                kernel: KernelId(kernel),
                token: self.status.begun(),
                round: 0,
            };
            let kernels = self.kernels;
            self.lane.end_counting(&execution, || amounts(slot, kernels, kernel));
        }
    }
}

/// What a cost table charges one execution of the task in `slot` by.
pub(crate) fn amounts(slot: &Slot, kernels: &[KernelEntry], kernel: u32) -> TaskAmounts {
    let signature = &kernels[kernel as usize].signature;
    let (words, blocks) = match slot.is_ordinary() {
        true => (arg_words(slot), 1),
        false => (ShapeWords::of(slot).kernel_words(), u64::from(slot.blocks().max(1))),
    };
    let (mut words, mut all) = (ArgWords::new(words), TaskAmounts::default());
    while let Some(arg) = words.next_arg() {
        if arg.mode != ArgMode::Scalar {
            let elements = arg.shape.iter().map(|&extent| u64::from(extent)).product::<u64>();
            all.elements += elements;
            all.bytes += elements * u64::from(element_bytes(arg.dtype, signature));
        }
    }
    TaskAmounts { elements: all.elements / blocks, bytes: all.bytes / blocks }
}
