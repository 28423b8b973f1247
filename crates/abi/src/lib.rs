//! Every byte that both sides of the runtime see.
//!
//! Data only: ids, classes of cores, groups of counters, element types, flags, error codes, record layouts, what rings have in
//! use, the region's layout, the status board, classes of standstills and the frames of a segment file.
//! Nothing here waits, allocates or does I/O, so the device side, the host side and the readers can all
//! depend on it. Every layout carries compile-time proofs of its size and of having no hidden padding, and
//! zeroed memory is a valid value of each.
#![no_std]
#![forbid(unsafe_code)]

pub mod board;
pub mod core_class;
pub mod counter_group;
pub mod dtype;
pub mod error;
pub mod flags;
pub mod ids;
pub mod record;
pub mod region;
pub mod segment;
pub mod stall;
pub mod usage;

pub use core_class::CoreClass;
pub use counter_group::CounterGroup;
pub use dtype::Dtype;
pub use error::{ErrorCode, Resource};
pub use flags::{Flags, Level};
pub use ids::{AgentId, BufferId, CoreId, KernelId, Nanos, SiteId, TaskId, Ticks};
pub use stall::{StallCause, StallClass, StallFacts};
pub use usage::{Heads, RingUse, Usage};

/// How many rings there are; scope depth `d` uses ring `min(d, RINGS - 1)`.
pub const RINGS: usize = 4;
/// Largest number of dimensions of a tensor.
pub const MAX_DIMS: usize = 5;
