//! What a program is: kernels on a device, an orchestration, and a check of its result.

use crate::settings::{ProgramSetting, Settings};
use crate::verdict::Verdict;
use plimsoll_runtime::{Device, DeviceBuffer, DeviceProgram, Error, Orchestrator, Registered, Result, RunOptions};

/// A built-in program.
#[derive(Clone, Copy)]
pub struct Program {
    /// As the command line spells it.
    pub name: &'static str,
    /// What it computes, in one line.
    pub about: &'static str,
    /// What `--set` can change.
    pub params: &'static [ProgramSetting],
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

/// Host buffers of a program, always in the same order.
pub type Buffers<'b> = Vec<&'b dyn DeviceBuffer>;

/// A program with its kernels and data, ready to run any number of times.
pub trait Instance {
    /// What its runs are to be given. A caller may tighten it, for example by a cancel token.
    fn options(&self) -> RunOptions {
        RunOptions::default()
    }

    /// The host buffers that it reads or writes: what a device in a process of its own gets and gives back.
    fn buffers(&self) -> Buffers<'_>;

    /// Submits the tasks. Output goes to buffers that outlive the run.
    ///
    /// # Errors
    /// That of the first call of `o` that fails.
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()>;

    /// Puts the data back to what it was before the first run.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_runtime::abi::ErrorCode::InvalidArgs) while a run uses the buffers.
    fn reset(&self) -> Result<()>;

    /// Whether [`verify`](Self::verify) can say anything.
    fn is_verifiable(&self) -> bool {
        true
    }

    /// Compares the result with one that was computed the obvious way.
    ///
    /// # Errors
    /// As [`reset`](Self::reset). A wrong result is no error but a verdict.
    fn verify(&self) -> Result<Verdict>;

    /// Spoils one element of the result by a little more than `verify` tolerates: the canary that shows that the
    /// check can fail.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    fn spoil(&self) -> Result<()>;
}

/// An instance as devices run it.
pub struct Hosted(pub Box<dyn Instance>);

impl DeviceProgram for Hosted {
    fn options(&self) -> RunOptions {
        self.0.options()
    }

    fn buffers(&self) -> Buffers<'_> {
        self.0.buffers()
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        self.0.orchestrate(o)
    }

    fn reset(&self) -> Result<()> {
        self.0.reset()
    }
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hosted")
    }
}

impl Program {
    /// The program, for devices in processes of their own.
    pub fn registered(&'static self) -> Registered {
        Registered::new(self.name, |device, settings| {
            let settings = Settings::new(self.params, settings.iter().map(String::as_str));
            let settings = settings.map_err(|error| Error::invalid(error.to_string()))?;
            Ok(Box::new(Hosted((self.build)(device, &settings)?)))
        })
    }
}
