//! Reading runs: every form that a run or one of the reference's captures has on disk becomes one [`Trace`].
//!
//! ```
//! # use plimsoll::record::{Flags, RecordOptions};
//! # use plimsoll::{Device, InOut, RunOptions, inout};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir().expect("a temporary directory");
//! # let dir = place.path().join("run");
//! # let mut device = Device::builder().workers(2).open()?;
//! # let bump = device.kernel("bump", |mut x: InOut<i64>| x[[0]] += 1);
//! # let record = RecordOptions::new(&dir, Flags::CORE_TIMING);
//! # device.run_with(&RunOptions { record: Some(record), ..RunOptions::default() }, |o| {
//! #     let x = o.own(vec![0], [1])?;
//! #     (0..100).try_for_each(|_| o.submit(&bump, (inout(&x),)).map(drop))
//! # })?;
//! // `dir` holds a run of 100 tasks that recorded times.
//! let trace = plimsoll::trace::open(&dir)?;
//! assert_eq!(trace.executions.len(), 100);
//! assert_eq!(trace.kernels.values().collect::<Vec<_>>(), ["bump"]);
//! // What a reader could not make sense of is part of what it returns.
//! assert!(trace.quality.is_sound());
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use plimsoll_trace::*;
