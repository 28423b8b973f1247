//! Regions, typed views, and the protocols that both sides speak over them: both halves of each in one file.

pub mod board;
pub mod error;
pub mod lane;
pub mod mapped;
pub mod queue;
pub mod rotation;
pub mod shadow;
pub mod sync;
pub mod words;
pub mod world;

#[cfg(not(loom))]
mod backing;
#[cfg(not(loom))]
pub mod doorbell;
#[cfg(not(loom))]
pub mod image;
#[cfg(not(loom))]
pub mod plan;
#[cfg(not(loom))]
pub mod region;
#[cfg(not(loom))]
mod tables;

pub use board::{Board, BoardLook, Execution, StatusLine};
pub use error::Error;
pub use lane::{LaneContext, Patience, Policy};
pub use rotation::{
    Counters, Drainer, HostMemory, PoolMemory, Reservation, ReservedSlot, Reserver, SharedPart, StagingRing,
    StampMemory, Sweep, Taken, Unsealed, Writer, stamp,
};
pub use world::{CounterValues, ThreadCounters, World};

#[cfg(not(loom))]
pub use doorbell::Doorbell;
#[cfg(not(loom))]
pub use plan::{BufferSizes, RegionSpec, Role};
#[cfg(not(loom))]
pub use region::{Moved, Owner, PoolView, Region, Transport, TransportKind, remove_region};
