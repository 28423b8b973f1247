//! The host's half of the recorder, and the owner of a run's directory.
//!
//! A [`Session`] holds the region, drains it into segment files while the run lives, and accounts for every record at the
//! end. The [`Ledger`] is built from counters that are kept apart: the producer's own, the collector's own, and the drops
//! where they happen. A [`RunDir`] is a session with its directory and manifest: it starts and finishes a run such that at
//! every instant a kill leaves what [`recover`] can make whole.

pub mod bench;
mod collector;
mod config;
mod error;
mod look;
mod recover;
mod run_dir;
pub mod segment;
mod session;

pub use config::{Drive, SessionConfig};
pub use error::Error;
pub use look::{RegionLook, board_facts, look_at_region, region_frames, regions_of_process};
pub use plimsoll_probe::{DumpPlan, Recording};
pub use plimsoll_shm::{
    Board, BoardLook, BufferSizes, Doorbell, Error as RegionError, Moved, Policy, Region, Role, TransportKind, World,
};
pub use plimsoll_trace::{Ledger, PoolLedger};
pub use recover::{Recovery, recover_region};
pub use run_dir::{Ending, Orphan, Recovered, RunDir, add_explanation, add_files, orphans, prove_floors, recover};
pub use session::Session;
