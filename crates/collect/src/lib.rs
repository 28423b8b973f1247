//! The host's half of the recorder: a [`Session`] holds the region, drains it into segment files while the run lives,
//! and accounts for every record at the end. [`recover`] does the same for a run that was killed.
//!
//! Order of a run: start → run → finish (stop, drain, reconcile). The [`Ledger`] is built from counters that are
//! kept apart: the producer's own, the collector's own, and the drops where they happen.

pub mod bench;
mod collector;
mod config;
mod error;
mod ledger;
mod recover;
pub mod segment;
mod session;

pub use config::{Drive, SessionConfig};
pub use error::Error;
pub use ledger::{Ledger, PoolLedger};
pub use plimsoll_shm::{BufferSizes, Doorbell, Policy, Role};
pub use recover::{Recovery, recover};
pub use session::Session;
