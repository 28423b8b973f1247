//! Recording: what a run records, where, and what became of the records.
//!
//! ```
//! use plimsoll::record::{Flags, RecordOptions};
//! use plimsoll::{Device, InOut, RunOptions, inout};
//!
//! # fn main() -> plimsoll::Result<()> {
//! # let place = tempfile::tempdir().expect("a temporary directory");
//! # let dir = place.path().join("run");
//! let mut device = Device::builder().workers(2).open()?;
//! let bump = device.kernel("bump", |mut x: InOut<i64>| x[[0]] += 1);
//! let record = RecordOptions::new(&dir, Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS));
//! device.run_with(&RunOptions { record: Some(record), ..RunOptions::default() }, |o| {
//!     let x = o.own(vec![0], [1])?;
//!     (0..100).try_for_each(|_| o.submit(&bump, (inout(&x),)).map(drop))
//! })?;
//! let ledger = device.report().ledger.as_ref().expect("a run that records has one");
//! assert!(ledger.lossless);
//! let trace = plimsoll::trace::open(&dir).expect("the run can be read");
//! assert_eq!(trace.manifest.expect("and has a manifest").tasks, 100);
//! # Ok(())
//! # }
//! ```

pub use crate::export::{EXPORT_LIMIT, ExportError, export_run};
pub use plimsoll_runtime::abi::{CounterGroup, Flags, Level};
pub use plimsoll_runtime::{
    BufferSizes, CounterChoice, DumpRules, Ledger, Policy, RecordOptions, RunPlace, TransportKind,
    counter_reading_cost_ns, error_report, explain_run,
};
