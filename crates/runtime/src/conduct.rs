//! A program from its first submit to its last completion, the same on every engine.

use crate::arg::Scratch;
use crate::error::{Error, Result};
use crate::orchestrator::Orchestrator;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;
use plimsoll_sched::{Failure, KernelEntry, Submitter};
use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::time::Duration;

/// What a program is given besides its submitter.
pub(crate) struct Part<'p> {
    /// What the kernels may touch: dropped after the last of them has returned.
    pub(crate) keep: &'p mut Vec<Box<dyn Any>>,
    pub(crate) scratch: &'p mut Scratch,
    pub(crate) run: u64,
    pub(crate) device: u64,
    pub(crate) site: &'static Location<'static>,
    pub(crate) read_timeout: Option<Duration>,
}

/// Runs the program and waits for its tasks. A panic of the program is handed on, after the kernels have ended.
pub(crate) fn conduct<'env, R, P: Platform, L: Lane>(
    submitter: &mut Submitter<'_, P, L>,
    part: &mut Part<'_>,
    kernels: &[KernelEntry],
    program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
) -> std::thread::Result<Result<R>> {
    let explain = |failure: &Failure| Error::from_failure(failure, |k| kernels[k as usize].name.clone());
    submitter.set_wait_budget(part.read_timeout);
    submitter.open_scope(part.site, false);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut orchestrator = Orchestrator::new(submitter, part.keep, kernels, part.scratch, part.run, part.device);
        program(&mut orchestrator)
    }));
    let closed = submitter.close_scopes();
    let drained = submitter.drain();
    let result = outcome?;
    Ok(match (closed, drained) {
        (Err(failure), _) | (_, Err(failure)) => Err(explain(&failure)),
        (Ok(()), Ok(())) => result,
    })
}
