//! Answers about a run: pure functions over a [`Trace`](crate::trace::Trace), whose values serialise to the `--json` of the
//! command that prints them.
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
//! // `dir` holds a run of 100 tasks, each of which follows the one before.
//! let trace = plimsoll::trace::open(&dir)?;
//! let stats = plimsoll::analyze::stats(&trace);
//! assert_eq!((stats.tasks, stats.executions), (100, 100));
//! let critical = plimsoll::analyze::critical_path(&trace).ok_or("the run executed tasks")?;
//! assert_eq!(Some(critical.summary.makespan_ns), stats.makespan_ns);
//! assert_eq!(critical.path.last().map(|hop| hop.func.as_str()), Some("bump"));
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use plimsoll_analyze::*;
