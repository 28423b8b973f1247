//! What an execution of a task knows of itself: which of its task's blocks it is, which part of it, and its way to the others.
//!
//! Kernels are called with argument words only, which all executions of a task share. Which one a call is lies beside them, with
//! the thread that makes the call.

use crate::pipe::{PipeError, PipeSet};
use std::cell::Cell;

/// One execution among those of its task.
#[derive(Clone, Copy, Debug)]
pub struct BlockContext {
    /// The number of its block, from 0.
    pub index: u32,
    /// How many blocks the task has.
    pub count: u32,
    /// Which part of a mixed task it is, from 0.
    pub part: u32,
    /// How many parts the task has.
    pub parts: u32,
}

impl BlockContext {
    /// An ordinary task is one block of one part.
    pub const ONLY: Self = Self { index: 0, count: 1, part: 0, parts: 1 };
}

/// A part's way to the others. The pointers are good for as long as the call lasts, and reached through [`CURRENT`] only, which
/// is put back when the call ends.
#[derive(Clone, Copy)]
struct Exchange {
    pipes: *const PipeSet,
    /// Lets other coroutines of this thread go on; nothing if parts are threads.
    switch: Option<*const dyn Fn()>,
}

/// What the thread executes.
type Current = (BlockContext, Option<Exchange>);

#[cfg(not(loom))]
thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new((BlockContext::ONLY, None)) };
}

// Under loom: the threads of a model share one thread of the system.
#[cfg(loom)]
loom::thread_local! {
    static CURRENT: Cell<Current> = Cell::new((BlockContext::ONLY, None));
}

#[inline]
fn get() -> Current {
    CURRENT.with(Cell::get)
}

#[inline]
fn replace(current: Current) -> Current {
    CURRENT.with(|cell| cell.replace(current))
}

/// Which execution the kernel is that runs on this thread.
#[inline]
pub fn current() -> BlockContext {
    CURRENT.with(|cell| cell.get().0)
}

/// Puts back the execution that the thread was in before, also when a panic passes.
struct Outer(Current);

impl Drop for Outer {
    fn drop(&mut self) {
        replace(self.0);
    }
}

/// Makes a call that is no execution: a run, which a kernel of another device may have asked for on this thread.
pub fn outside<R>(call: impl FnOnce() -> R) -> R {
    enter(BlockContext::ONLY, call)
}

/// Makes a call as this execution.
pub(crate) fn enter<R>(context: BlockContext, call: impl FnOnce() -> R) -> R {
    let _outer = Outer(replace((context, None)));
    call()
}

/// Makes a call as this part of a mixed task. `switch` lets the other parts go on where they are coroutines of this thread: while
/// they do, the thread is in what it was in before this part, because parts end in another order than they began.
pub(crate) fn enter_part<R>(
    context: BlockContext,
    pipes: &PipeSet,
    switch: Option<&dyn Fn()>,
    call: impl FnOnce() -> R,
) -> R {
    let before = get();
    let switch_out = |switch: &dyn Fn()| {
        let own = replace(before);
        switch();
        replace(own);
    };
    let switch = switch.map(|switch| move || switch_out(switch));
    let erased = switch.as_ref().map(|switch| {
        let switch: *const (dyn Fn() + '_) = switch;
        // SAFETY: the two types differ by a lifetime only; the pointer is followed while this function runs only.
        unsafe { std::mem::transmute::<*const (dyn Fn() + '_), *const (dyn Fn() + 'static)>(switch) }
    });
    pipes.enter(context.part as usize);
    let outer = Outer(replace((context, Some(Exchange { pipes, switch: erased }))));
    let result = call();
    drop(outer);
    pipes.leave(context.part as usize);
    result
}

/// Gives `value` to part `to` of the same block. Waits while the pipe is full.
///
/// # Errors
/// If it can never be taken, or there is no such part.
pub fn push(to: usize, value: u64) -> Result<(), PipeError> {
    let (context, exchange) = get();
    let Exchange { pipes, switch } = exchange.ok_or(PipeError::NoPart(to))?;
    // SAFETY: `CURRENT` holds them while the call lasts that they belong to, and this is in it.
    let (pipes, switch) = unsafe { (&*pipes, switch.map(|switch| &*switch)) };
    pipes.push([context.part as usize, to], value, switch)
}

/// Takes the next value from part `from` of the same block. Waits until there is one.
///
/// # Errors
/// If none will ever come, or there is no such part.
pub fn pop(from: usize) -> Result<u64, PipeError> {
    let (context, exchange) = get();
    let Exchange { pipes, switch } = exchange.ok_or(PipeError::NoPart(from))?;
    // SAFETY: as in `push`.
    let (pipes, switch) = unsafe { (&*pipes, switch.map(|switch| &*switch)) };
    pipes.pop([from, context.part as usize], switch)
}
