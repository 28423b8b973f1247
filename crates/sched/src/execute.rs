//! Calling the kernel of a task, and saying why it failed: the same on every kind of core.

use crate::args::ArgWords;
use crate::failure::Failure;
use crate::kernel::{KernelEntry, KernelError};
use crate::shared::Shared;
use crate::slot::Slot;
use crate::sync::{AtomicU64, Ordering};
use plimsoll_abi::{CoreId, ErrorCode, KernelId, TaskId};
use plimsoll_platform::Platform;
use std::any::Any;
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

/// How a kernel ended: well, with an error, or with a panic.
pub(crate) type Outcome = std::thread::Result<Result<(), KernelError>>;

/// Calls the kernel of the task in `slot`.
#[inline]
pub(crate) fn call<P: Platform>(platform: &P, entry: &KernelEntry, slot: &Slot, kernel: u32) -> Outcome {
    let words = ArgWords::new(arg_words(slot));
    platform.kernel_begins(kernel);
    let outcome = catch_unwind(AssertUnwindSafe(|| (entry.call)(words)));
    platform.kernel_ends();
    outcome
}

/// Ends the run because the kernel of the task in `slot` did not end well on `core`.
#[cold]
pub(crate) fn fail<P: Platform>(
    shared: &Shared,
    platform: &P,
    kernels: &[KernelEntry],
    slot: &Slot,
    core: CoreId,
    outcome: Outcome,
) {
    let Some((code, verb, why)) = describe(outcome) else { return };
    let kernel = KernelId(slot.kernel());
    let task = TaskId::from_raw(slot.task.load(Ordering::Relaxed));
    let name = &kernels[kernel.index()].name;
    let mut failure = Failure::new(code, format!("kernel {name} {verb} in task {task}: {why}"));
    failure.task = Some(task);
    failure.kernel = Some(kernel);
    failure.core = Some(core);
    failure.site = site_of(slot);
    failure.args = Some(ArgWords::new(arg_words(slot)).to_string());
    shared.fail(platform, failure);
}

/// What a kernel that did not end well has to say, which is dropped here. An error and a panic's payload are values of the
/// user's types: their `Display` and `Drop` may panic as the kernel may, and are caught as the kernel is.
fn describe(outcome: Outcome) -> Option<(ErrorCode, &'static str, String)> {
    let silent = || "an error that panicked when it was asked for its text".to_owned();
    let (code, verb, why) = match &outcome {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => (ErrorCode::KernelFailed, "failed", caught(|| error.to_string()).unwrap_or_else(silent)),
        Err(panic) => (ErrorCode::KernelPanicked, "panicked", panic_text(panic.as_ref()).to_owned()),
    };
    caught(|| drop(outcome));
    Some((code, verb, why))
}

/// What `body` returns, or nothing if it panics.
fn caught<R>(body: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(body)).map_err(drop_caught).ok()
}

/// Drops the payload of a panic, which may panic in turn. What comes of that is kept: whoever does such things pays for it.
fn drop_caught(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// The argument words of a task that has not been reclaimed.
#[inline(always)]
pub(crate) fn arg_words(slot: &Slot) -> &[AtomicU64] {
    let count = slot.word_count();
    if let Some(words) = slot.inline.get(..count) {
        return words;
    }
    cold_path();
    let at = slot.inline[0].load(Ordering::Relaxed) as *const AtomicU64;
    // SAFETY: the address of that many words in a heap was stored before the task could be reached, and they are not
    // used again before the task was counted as complete.
    unsafe { std::slice::from_raw_parts(at, count) }
}

fn site_of(slot: &Slot) -> Option<&'static Location<'static>> {
    let at = slot.site.load(Ordering::Relaxed) as *const Location<'static>;
    // SAFETY: zero, or the address of a `&'static Location` that the orchestrator stored.
    unsafe { at.as_ref() }
}

/// The text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}
