//! A device in a process of its own: a crash there does not end this process.
//!
//! The process is this executable once more. [`device_main`], as the first thing in `main`, makes it a device; programs are
//! registered there by name, because a closure cannot cross into another process. The host buffers that a program declares are
//! copied in before a run and out after it.
//!
//! ```no_run
//! use plimsoll::isolate::{DeviceBuffer, DeviceProgram, ProgramCall, Registered};
//! use plimsoll::machine::EmulatedOptions;
//! use plimsoll::{ArchSpec, Device, InOut, Kernel, Orchestrator, Result, RunOptions, SharedBuffer, inout, kernel::ReadWrite};
//!
//! struct Doubling {
//!     double: Kernel<(ReadWrite<f32>,)>,
//!     x: SharedBuffer<f32>,
//! }
//!
//! impl Doubling {
//!     fn build(device: &mut Device) -> Self {
//!         let double = device.kernel("double", |mut x: InOut<f32>| (0..x.len()).for_each(|i| x[[i]] *= 2.0));
//!         Self { double, x: SharedBuffer::new(vec![0.0; 64]) }
//!     }
//! }
//!
//! impl DeviceProgram for Doubling {
//!     fn buffers(&self) -> Vec<&dyn DeviceBuffer> {
//!         vec![&self.x]
//!     }
//!
//!     fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
//!         let x = o.share(&self.x, [64])?;
//!         o.submit(&self.double, (inout(&x),)).map(drop)
//!     }
//! }
//!
//! fn main() -> Result<()> {
//!     plimsoll::device_main([Registered::new("doubling", |device, _| Ok(Box::new(Doubling::build(device))))]);
//!     let mut device = Device::builder().engine(EmulatedOptions::new(&ArchSpec::A5).isolated()).open()?;
//!     let here = Doubling::build(&mut device);
//!     here.x.with(|x| x.fill(21.0))?;
//!     device.run_program(&ProgramCall::new("doubling", &[]), &here, &RunOptions::default())?;
//!     assert_eq!(here.x.to_vec()?, vec![42.0; 64]);
//!     Ok(())
//! }
//! ```

pub use plimsoll_runtime::{DeviceBuffer, DeviceProgram, ProgramCall, Registered, device_main};
