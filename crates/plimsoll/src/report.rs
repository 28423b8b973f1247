//! Output forms, one module each: a page for browsers, files for trace viewers, the reference's files, tables of text.
//!
//! ```
//! # use plimsoll::record::{Flags, RecordOptions};
//! # use plimsoll::{Device, InOut, RunOptions, inout};
//! use plimsoll::report::Flows;
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
//! let mut file = Vec::new();
//! let drawn = plimsoll::report::perfetto::write_perfetto(&trace, Flows::Critical, &mut file)?;
//! assert!(drawn.lanes > 0 && !file.is_empty());
//! let table = plimsoll::report::text::stats(&plimsoll::analyze::stats(&trace));
//! assert!(table.contains("bump"));
//! # Ok(())
//! # }
//! ```

#[doc(inline)]
pub use plimsoll_report::*;
