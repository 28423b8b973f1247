//! Who runs what, and where. `policy/README.md` has the states, the races and why nothing is left behind.
//!
//! | question | file |
//! |---|---|
//! | is a kernel light, so that its tasks run where they became ready? | [`grain`] |
//! | where does an agent's next task come from, and who is told of a ready one? | `seek` |
//! | what does an agent without work do? | `idle` |
//! | when does the orchestrator execute tasks? | `help` |
//! | which core behind a mailbox gets a task? | [`rooms`] |
//! | how does an agent sleep without missing work? | [`sleep`] |

pub mod grain;
pub(crate) mod help;
mod idle;
pub mod rooms;
mod seek;
pub mod sleep;

pub use grain::Grain;
pub use help::Lend;
