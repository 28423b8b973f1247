//! Runs: what one is driven with, what it can be told, and what it says afterwards.
//!
//! ```
//! use plimsoll::run::{CancelToken, RunOptions};
//! use plimsoll::{Device, InOut, inout};
//! use std::time::Duration;
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! let bump = device.kernel("bump", |mut x: InOut<i64>| x[[0]] += 1);
//! let token = CancelToken::new(); // whoever has a clone can end the run
//! let options =
//!     RunOptions { cancel: Some(token.clone()), deadline: Some(Duration::from_secs(60)), ..RunOptions::default() };
//! device.run_with(&options, |o| {
//!     let x = o.own(vec![0], [1])?;
//!     o.scope(|o| (0..100).try_for_each(|_| o.submit(&bump, (inout(&x),)).map(drop)))
//! })?;
//! assert_eq!(device.report().tasks, 100);
//! # Ok(())
//! # }
//! ```

// The type of a field of `RunOptions` that is for tests.
#[doc(hidden)]
pub use plimsoll_runtime::SchedulerStall;
pub use plimsoll_runtime::abi::{ErrorCode, Resource, StallClass, TaskId};
pub use plimsoll_runtime::{
    Builder, CancelToken, Capacities, Capacity, Dep, Device, Error, HungHook, Load, Orchestrator, ParseDurationError,
    ParseSizeError, Pulse, Result, RunOptions, RunReport, Site, StillNotice, Straggler, WorkerReport, parse_bytes,
    parse_duration, parse_per_ring,
};
