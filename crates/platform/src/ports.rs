//! Core ports of the mailbox kind: how a scheduler reaches cores that are not its own thread.
//!
//! ```text
//!   scheduler: dispatch ──► core: receive ──► execute ──► finish ──► report ──► scheduler: collect
//! ```
//! Before the first dispatch of a run a core *reports* and its scheduler *configures* it; after the last one it is
//! *dismissed* and leaves. Cores that are no threads are always there.
//!
//! A core has room for two tasks: one runs, one waits behind it (dual issue). Every hand-over carries a token that
//! counts up from 1 per core; core and scheduler name an execution by (core, token).
//!
//! # Invariants
//! * P1: one scheduler owns a core, and only the owner dispatches to it.
//! * P2: a core executes what it was given in the order of its tokens.
//! * P3: a receipt can be collected before `report` is called for it, so whoever sleeps unless there is a receipt, and
//!   is woken by `report`, misses none.

use plimsoll_abi::{AgentId, CoreId};

/// Tasks that a core holds at once: one runs, one waits.
pub const ISSUE: u32 = 2;

/// A task on its way to a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The core's dispatch token, from 1 upwards.
    pub token: u32,
    /// The task, as the scheduler names it; the core hands it to [`CoreSide::execute`].
    pub word: u32,
    /// Its kernel.
    pub kernel: u32,
}

/// A task that a core has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The core.
    pub core: CoreId,
    /// The token it was dispatched with.
    pub token: u32,
    /// The task, as it was dispatched.
    pub word: u32,
    /// Whether the kernel succeeded.
    pub succeeded: bool,
    /// When the core had it, in ticks.
    pub receive: u64,
    /// When the kernel started.
    pub start: u64,
    /// When the kernel ended.
    pub end: u64,
}

/// What a core does with a task: the same on every kind of core.
pub trait CoreSide {
    /// Runs the kernel of the task named by `word`. False: it failed, and the run knows.
    fn execute(&self, core: CoreId, word: u32) -> bool;

    /// A receipt waits for `owner`.
    fn report(&self, owner: AgentId);
}

/// The cores behind their ports. Apart from [`Platform`](crate::Platform): schedulers of one platform may reach cores of
/// different kinds.
pub trait Ports {
    /// Whether every core that `agent` owns is ready to be configured.
    fn have_reported(&self, agent: AgentId) -> bool {
        let _ = agent;
        true
    }

    /// Lets the cores that `agent` owns work. Each goes on counting tokens from its last one.
    fn configure(&self, agent: AgentId, last: impl Fn(CoreId) -> u32) {
        let _ = (agent, last);
    }

    /// Hands a task to a core that has room for it. How many elements its tensor arguments have is asked for where it
    /// matters.
    fn dispatch(&self, core: CoreId, order: Order, elements: impl FnOnce() -> u64);

    /// The oldest finished task of the cores that `agent` owns.
    fn collect(&self, agent: AgentId) -> Option<Receipt>;

    /// Whether there is one.
    fn has_receipt(&self, agent: AgentId) -> bool;

    /// Sends the cores that `agent` owns home, once they have finished what they hold.
    fn dismiss(&self, agent: AgentId) {
        let _ = agent;
    }

    /// Whether every core that `agent` owns has gone.
    fn have_left(&self, agent: AgentId) -> bool {
        let _ = agent;
        true
    }

    /// Whether tasks that are with cores will never be finished, so that nobody should wait for them.
    fn cores_lost(&self) -> bool;
}
