//! Task slots, ready queues, dispatch, completion and reclaim; generic over platform and probe.
//!
//! One orchestrator submits tasks ([`submit`]); agents execute them ([`agent`]). What they share is in [`shared`], and
//! each protocol between them has a file of its own: the hand-over from a producer to its consumers ([`slot`]), the
//! queue of ready tasks ([`ready`]), the watermark of completed ones ([`done`]) and sleeping ([`sleep`]).

pub mod agent;
pub mod args;
pub mod done;
pub mod failure;
pub mod kernel;
pub mod ready;
pub mod ring;
pub mod shared;
pub mod sleep;
pub mod slot;
pub mod submit;
mod sync;

pub use agent::Agent;
pub use failure::Failure;
pub use kernel::{KernelEntry, KernelError};
pub use shared::Shared;
pub use submit::{Arg, Submitter, TensorCore};
