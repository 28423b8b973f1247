//! Task slots, ready queues, dispatch, completion and reclaim; generic over platform and probe.
//!
//! One orchestrator submits tasks ([`submit`]); agents execute them ([`agent`]) or hand them to cores ([`mailbox`]). What
//! they share is in [`shared`], and each protocol between them has a file of its own: the hand-over from a producer to
//! its consumers ([`slot`]), the queue of ready tasks ([`ready`]), the watermark of completed ones ([`done`]) and sleeping
//! ([`policy::sleep`]). Who runs what, and where, is decided in [`policy`]. A graph that is built once and launched often is
//! in [`prebuilt`].

pub mod agent;
pub mod args;
#[cfg(not(loom))]
pub mod bench;
pub mod block;
pub mod cohort;
pub mod core_line;
pub mod core_threads;
mod counting;
pub mod done;
mod dump;
mod execute;
pub mod failure;
pub mod gate;
mod gather;
mod handover;
pub mod kernel;
pub mod kernel_wait;
pub mod mailbox;
mod parts;
pub mod pipe;
pub mod policy;
pub mod ready;
pub mod ring;
mod seats;
pub mod shape;
mod shaped;
pub mod shared;
pub mod site;
pub mod slot;
mod sync;

// The orchestrator's half and prebuilt graphs belong to one thread: there is nothing in them for a model checker.
#[cfg(not(loom))]
pub mod prebuilt;
pub mod signature;
#[cfg(not(loom))]
pub mod submit;
#[cfg(not(loom))]
pub mod unfinished;

pub use agent::Agent;
pub use core_threads::CoreThreads;
pub use execute::panic_text;
pub use failure::{Failure, FailureCause};
pub use gate::Gate;
pub use kernel::{KernelEntry, KernelError};
pub use mailbox::{Mailbox, Runner, WrongStamp};
pub use shared::Shared;
#[cfg(not(loom))]
pub use submit::{Books, CallShape, Demand, OutputPlace, OutputRequest, Submitter, TaskArg, TensorCore, ViewPart};
