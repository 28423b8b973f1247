//! What a program is: kernels on a device, an orchestration, and a check of its result.

use crate::settings::{Param, Settings};
use plimsoll_runtime::{Device, Orchestrator, Result};

/// A built-in program.
#[derive(Clone, Copy)]
pub struct Program {
    /// As the command line spells it.
    pub name: &'static str,
    /// What it computes, in one line.
    pub about: &'static str,
    /// What `--set` can change.
    pub params: &'static [Param],
    /// Whether it goes wrong on purpose.
    pub fault: bool,
    /// Registers its kernels and makes its input.
    pub build: fn(&mut Device, &Settings) -> Result<Box<dyn Instance>>,
}

/// A program with its kernels and data, ready to run any number of times.
pub trait Instance {
    /// Submits the tasks. Output goes to buffers that outlive the run.
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()>;

    /// Puts the data back to what it was before the first run.
    fn reset(&self) -> Result<()>;

    /// Compares the result with one that was computed the obvious way.
    fn verify(&self) -> Result<Verdict>;
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether the result is right.
    pub verified: bool,
    /// How it was compared and what was found, in one line.
    pub detail: String,
}
