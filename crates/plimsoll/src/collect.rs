//! The host's half of the recorder: the owner of a run's directory, and what makes a run whole whose process was killed.
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
//! // `dir` holds a run that has ended by itself, so there is nothing to do. Of a run that was killed, this appends what is still
//! // in its region to the records in `dir`.
//! let recovered = plimsoll::collect::recover(&dir)?;
//! assert!(!recovered.changed && recovered.damage.is_empty());
//! let ledger = recovered.manifest.reconcile.ok_or("a run that records has a ledger")?;
//! assert!(ledger.lossless);
//! # Ok(())
//! # }
//! ```

pub use plimsoll_collect::{
    Error, Ledger, Orphan, PoolLedger, Recovered, RegionError, RegionLook, look_at_region, orphans, prove_floors,
    recover, region_frames, regions_of_process,
};
// What the command measures the recorder by.
#[doc(hidden)]
pub use plimsoll_collect::{bench, segment};
