//! Task slots, ready queues, dispatch, completion and reclaim; generic over platform and probe.
//!
//! One orchestrator submits tasks ([`submit`]); agents execute them ([`agent`]) or hand them to cores ([`mailbox`]). What
//! they share is in [`shared`], and each protocol between them has a file of its own: the hand-over from a producer to
//! its consumers ([`slot`]), the queue of ready tasks ([`ready`]), the watermark of completed ones ([`done`]) and sleeping
//! ([`sleep`]). A graph that is built once and launched often is in [`prebuilt`].

pub mod done;
pub mod ready;
pub mod sleep;
pub mod slot;
mod sync;

// Only the protocols above are model-checked; what drives them needs mapped memory and real threads.
#[cfg(not(loom))]
pub mod agent;
#[cfg(not(loom))]
pub mod args;
#[cfg(not(loom))]
mod execute;
#[cfg(not(loom))]
pub mod failure;
#[cfg(not(loom))]
pub mod kernel;
#[cfg(not(loom))]
pub mod mailbox;
#[cfg(not(loom))]
pub mod prebuilt;
#[cfg(not(loom))]
pub mod ring;
#[cfg(not(loom))]
pub mod shared;
#[cfg(not(loom))]
pub mod submit;

#[cfg(not(loom))]
pub use agent::Agent;
#[cfg(not(loom))]
pub use failure::Failure;
#[cfg(not(loom))]
pub use kernel::{KernelEntry, KernelError};
#[cfg(not(loom))]
pub use mailbox::{Mailbox, Runner};
#[cfg(not(loom))]
pub use shared::Shared;
#[cfg(not(loom))]
pub use submit::{Arg, Books, Demand, Made, Part, Submitter, TensorCore, Wanted};
