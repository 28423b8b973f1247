//! Functions that take turns on one thread: coroutines that are run together until all have returned.

#[cfg(feature = "coroutines")]
use corosensei::stack::DefaultStack;
#[cfg(feature = "coroutines")]
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a coroutine's stack. Untouched pages cost nothing.
#[cfg(feature = "coroutines")]
const STACK_BYTES: usize = 4 << 20;

/// One of several functions that take turns: it calls what it is given to let the others go on.
pub type TurnTaker<'a> = Box<dyn FnOnce(&dyn Fn()) + 'a>;

/// Runs the functions on this thread, each until it lets the others go on, until all have returned. They must not panic.
///
/// # Errors
/// Where there is no memory for a stack, or no coroutines in this build.
#[cfg(feature = "coroutines")]
pub fn take_turns(bodies: Vec<TurnTaker<'_>>) -> std::io::Result<()> {
    let mut fibers = Vec::with_capacity(bodies.len());
    for body in bodies {
        let stack = DefaultStack::new(STACK_BYTES)?;
        // SAFETY: what the body borrows outlives this function, which returns, or unwinds, only after the coroutine was run to
        // its end or dropped.
        let fiber: Coroutine<(), (), (), _> = unsafe {
            Coroutine::with_stack_unchecked(stack, move |yielder: &Yielder<(), ()>, ()| {
                body(&|| yielder.suspend(()));
            })
        };
        fibers.push(fiber);
    }
    while !fibers.is_empty() {
        fibers.retain_mut(|fiber| matches!(fiber.resume(()), CoroutineResult::Yield(())));
    }
    Ok(())
}

/// Stands for the function that runs bodies in turns, in a build without coroutines: it runs none.
///
/// # Errors
/// Always.
#[cfg(not(feature = "coroutines"))]
pub fn take_turns(_: Vec<TurnTaker<'_>>) -> std::io::Result<()> {
    Err(std::io::Error::other("this build has no coroutines; build it with the feature `coroutines`"))
}
