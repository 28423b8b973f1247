//! What a program is: kernels on a device, an orchestration, and a check of its result.

use crate::settings::{Param, Settings};
use crate::verdict::Verdict;
use plimsoll_runtime::{Device, Orchestrator, Result, RunOptions};

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

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({})", self.name)
    }
}

/// A program with its kernels and data, ready to run any number of times.
pub trait Instance {
    /// What its runs are to be given. A caller may tighten it, for example by a cancel token.
    fn options(&self) -> RunOptions {
        RunOptions::default()
    }

    /// Submits the tasks. Output goes to buffers that outlive the run.
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()>;

    /// Puts the data back to what it was before the first run.
    fn reset(&self) -> Result<()>;

    /// Compares the result with one that was computed the obvious way.
    fn verify(&self) -> Result<Verdict>;

    /// Spoils one element of the result by a little more than `verify` tolerates: the canary that shows that the
    /// check can fail.
    fn spoil(&self) -> Result<()>;
}
