//! What runs tasks: this machine's threads, or a chip in virtual time, and what work costs there.
//!
//! ```
//! use plimsoll::machine::{ArchSpec, CoreClass, KernelCost, VirtualOptions};
//! use plimsoll::{Device, InOut, inout};
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut options = VirtualOptions::new(&ArchSpec::A5, 1);
//! options.costs.set("gemm", KernelCost::Fixed { ns: 15_000 });
//! let mut device = Device::builder().engine(options).open()?;
//! let gemm = device.kernel_on(CoreClass::Aic, "gemm", |_: InOut<f32>| {});
//! device.run(|o| {
//!     let x = o.own(vec![0.0; 16], [16])?;
//!     o.submit(&gemm, (inout(&x),)).map(drop)
//! })?;
//! assert!(device.report().elapsed_ns >= 15_000);
//! # Ok(())
//! # }
//! ```

#[doc(hidden)]
pub use plimsoll_runtime::mailbox_round_trips;
pub use plimsoll_runtime::{
    ArchSpec, CoreClass, CostTable, Costs, EmulatedOptions, EngineKind, Faults, Hang, KernelCost, Number, Pause,
    Random, TooLarge, VirtualOptions, Who, WrongStamp,
};
