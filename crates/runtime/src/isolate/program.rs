//! Programs that a device in a process of its own can be asked for by name.

use crate::buffer::SharedBuffer;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::options::RunOptions;
use crate::orchestrator::Orchestrator;
use std::fmt;

/// A program with its kernels and data on one device, ready to run any number of times.
pub trait DeviceProgram {
    /// What its runs are to be given. A caller may tighten it, for example by a cancel token.
    fn options(&self) -> RunOptions {
        RunOptions::default()
    }

    /// The host buffers that it reads or writes, always in the same order. A device in a process of its own gets their content
    /// before a run and gives it back after it; what is not declared here stays as the program was built.
    fn buffers(&self) -> Vec<&dyn DeviceBuffer>;

    /// Submits the tasks. Output goes to buffers that outlive the run.
    ///
    /// # Errors
    /// What makes the program give up, usually the error of a call of `o`; the run then fails with it.
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()>;

    /// Puts the data back to what it was before the first run; called between rounds.
    ///
    /// # Errors
    /// If the data cannot be put back, as while a run uses it; the rounds end there.
    fn reset(&self) -> Result<()> {
        Ok(())
    }
}

/// The bytes of a host buffer, whatever its elements are.
pub trait DeviceBuffer {
    /// How many bytes it has.
    fn len_bytes(&self) -> usize;

    /// Appends its content.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) while a run uses the buffer.
    fn append_to(&self, bytes: &mut Vec<u8>) -> Result<()>;

    /// Replaces its content with as many bytes.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) while a run uses the buffer, or if it has more or fewer bytes.
    fn fill_from(&self, bytes: &[u8]) -> Result<()>;
}

impl<T: Element> DeviceBuffer for SharedBuffer<T> {
    fn len_bytes(&self) -> usize {
        self.extent().1 as usize * size_of::<T>()
    }

    fn append_to(&self, bytes: &mut Vec<u8>) -> Result<()> {
        self.with(|data| {
            // SAFETY: an element is a `Pod`: it has no padding, so all of its bytes are initialised.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data))
            });
        })
    }

    fn fill_from(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != self.len_bytes() {
            return Err(Error::invalid(format!(
                "A buffer of {} bytes cannot be filled from {}. Both processes must build the program alike. Give it the same settings in both.",
                self.len_bytes(),
                bytes.len()
            )));
        }
        self.with(|data| {
            // SAFETY: as many bytes as checked; an element is a `Pod`, for which every pattern of bytes is a value.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_mut_ptr().cast::<u8>(), bytes.len()) }
        })
    }
}

/// How a program is built on a device, from its settings.
type Build = dyn Fn(&mut Device, &[String]) -> Result<Box<dyn DeviceProgram>>;

/// A program with its name, for [`device_main`](super::device_main).
pub struct Registered {
    name: String,
    build: Box<Build>,
}

impl Registered {
    /// A program of this name that `build` builds on a device: registers its kernels and makes its buffers. The settings are
    /// those of [`ProgramCall`].
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(&mut Device, &[String]) -> Result<Box<dyn DeviceProgram>> + 'static,
    ) -> Self {
        Self { name: name.into(), build: Box::new(build) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn build(&self, device: &mut Device, settings: &[String]) -> Result<Box<dyn DeviceProgram>> {
        (self.build)(device, settings)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({})", self.name)
    }
}

/// A call of a program by name.
#[derive(Clone, Copy, Debug)]
pub struct ProgramCall<'p> {
    /// The name that it was registered by.
    pub name: &'p str,
    /// The program's settings, in the form that the program itself defines.
    pub settings: &'p [String],
    /// How many times it runs.
    pub rounds: u32,
    /// Builds the graph once, of at most this many tasks, and launches it.
    pub prebuilt: Option<usize>,
}

impl<'p> ProgramCall<'p> {
    /// One streamed round of a program with these settings.
    pub fn new(name: &'p str, settings: &'p [String]) -> Self {
        Self { name, settings, rounds: 1, prebuilt: None }
    }
}
