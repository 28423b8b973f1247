//! The parts of a mixed task on one core: coroutines that take turns where they exchange values.

use crate::args::ArgWords;
use crate::block::{BlockContext, enter_part};
use crate::execute::{KernelOutcome, call_caught};
use crate::kernel::KernelEntry;
use crate::pipe::PipeSet;
use crate::shape::ShapeWords;
use plimsoll_platform::{Platform, TurnTaker, take_turns};
use plimsoll_shm::StatusLine;
use std::cell::RefCell;

/// Calls all parts of a block on this thread, whose status line names the part that has the turn. The outcome is that of the
/// first part that did not end well, with that part's number.
pub(crate) fn call_parts<P: Platform>(
    platform: &P,
    kernels: &[KernelEntry],
    status: &StatusLine,
    shape: &ShapeWords<'_>,
    index: u32,
) -> (usize, KernelOutcome) {
    let (parts, pipes) = (shape.parts(), PipeSet::default());
    pipes.begin(parts);
    let failed: RefCell<Option<(usize, KernelOutcome)>> = RefCell::new(None);
    let part = |part: usize| -> TurnTaker<'_> {
        let (kernel, pipes, failed) = (shape.part_kernel(part), &pipes, &failed);
        let context = shape.context(index, part);
        let words = ArgWords::new(shape.kernel_words());
        Box::new(move |switch| {
            let entry = &kernels[kernel as usize];
            let switch = || {
                switch();
                status.note_kernel(kernel);
            };
            status.note_kernel(kernel);
            let outcome = enter_part(context, pipes, Some(&switch), || call_caught(entry, words));
            if !matches!(outcome, Ok(Ok(()))) {
                failed.borrow_mut().get_or_insert((part, outcome));
            }
        })
    };
    platform.kernel_begins(shape.part_kernel(0));
    let ran = take_turns((0..parts).map(part).collect());
    platform.kernel_ends();
    match (failed.into_inner(), ran) {
        (Some(failed), _) => failed,
        (None, Ok(())) => (0, Ok(Ok(()))),
        (None, Err(error)) => (0, Ok(Err(error.into()))),
    }
}

impl ShapeWords<'_> {
    /// What part `part` of block `index` knows of itself.
    pub(crate) fn context(&self, index: u32, part: usize) -> BlockContext {
        BlockContext { index, count: self.blocks(), part: part as u32, parts: self.parts() as u32 }
    }
}
