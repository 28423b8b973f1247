//! Calling the kernel of a task, and saying why it failed: the same on every kind of core.

use crate::args::ArgWords;
use crate::failure::{Failure, FailureCause, KernelFault};
use crate::kernel::{KernelEntry, KernelError};
use crate::shape::ShapeWords;
use crate::shared::Shared;
use crate::site::Site;
use crate::slot::Slot;
use crate::sync::{AtomicU64, Ordering};
use plimsoll_abi::{CoreId, ErrorCode, KernelId, TaskId};
use plimsoll_platform::Platform;
use std::any::Any;
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a kernel ended: well, with an error, or with a panic.
pub(crate) type KernelOutcome = std::thread::Result<Result<(), KernelError>>;

/// Calls the kernel of the task in `slot`.
#[inline]
pub(crate) fn call<P: Platform>(platform: &P, entry: &KernelEntry, slot: &Slot, kernel: u32) -> KernelOutcome {
    call_with(platform, entry, ArgWords::new(arg_words(slot)), kernel)
}

/// Calls a kernel with these words.
// Forced inline: the way of every task to its kernel, of which `agent.rs` says what it saves.
#[inline(always)]
pub(crate) fn call_with<P: Platform>(
    platform: &P,
    entry: &KernelEntry,
    words: ArgWords<'_>,
    kernel: u32,
) -> KernelOutcome {
    platform.kernel_begins(kernel);
    let outcome = call_caught(entry, words);
    platform.kernel_ends();
    outcome
}

/// Calls a kernel with these words, of whose begin and end the platform is told elsewhere.
#[inline(always)]
pub(crate) fn call_caught(entry: &KernelEntry, words: ArgWords<'_>) -> KernelOutcome {
    catch_unwind(AssertUnwindSafe(|| (entry.call)(words)))
}

/// Ends the run because a kernel of the task in `slot` did not end well on `core`.
#[cold]
pub(crate) fn fail<P: Platform>(
    shared: &Shared,
    platform: &P,
    slot: &Slot,
    kernel: u32,
    core: Option<CoreId>,
    outcome: KernelOutcome,
) {
    let Some((code, cause)) = cause_of(outcome) else { return };
    let mut failure = Failure::new(code, cause);
    failure.task = Some(TaskId::from_raw(slot.task.load(Ordering::Relaxed)));
    failure.kernel = Some(KernelId(kernel));
    failure.core = core;
    failure.site = site_of(slot);
    let words = if slot.is_ordinary() { arg_words(slot) } else { ShapeWords::of(slot).kernel_words() };
    failure.args = ArgWords::new(words).views();
    failure.args.retain(|arg| !arg.is_note());
    shared.fail(platform, failure);
}

/// Why a kernel did not end well. The payload of a panic is a value of the user's, whose `Drop` may panic as the kernel may:
/// its text is taken, and it is dropped as the kernel was called.
fn cause_of(outcome: KernelOutcome) -> Option<(ErrorCode, FailureCause)> {
    match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some((ErrorCode::KernelFailed, FailureCause::KernelFailed(KernelFault::new(error)))),
        Err(panic) => {
            let text = panic_text(panic.as_ref()).to_owned();
            drop_caught(panic);
            Some((ErrorCode::KernelPanicked, FailureCause::KernelPanicked(text)))
        }
    }
}

/// Drops the payload of a panic, which may panic in turn, and then the payload of that panic. If that drop panics as well,
/// its payload is leaked.
pub(crate) fn drop_caught(panic: Box<dyn Any + Send>) {
    let dropped = |panic| catch_unwind(AssertUnwindSafe(|| drop::<Box<dyn Any + Send>>(panic)));
    if let Err(again) = dropped(panic).or_else(dropped) {
        std::mem::forget(again);
    }
}

/// The argument words of a task that has not been reclaimed.
#[inline]
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

/// Where the scope of a slot's task was opened.
pub(crate) fn site_of(slot: &Slot) -> Option<Site> {
    // SAFETY: zero, or the word of a site that the orchestrator stored.
    unsafe { Site::from_word(slot.site.load(Ordering::Relaxed)) }
}

/// The text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text")
}
