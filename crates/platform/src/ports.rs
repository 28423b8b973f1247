//! Core ports of the mailbox kind: how a scheduler reaches cores that are not its own thread.
//!
//! ```text
//!   scheduler: dispatch ──► core: receive ──► execute ──► finish ──► report ──► scheduler: collect
//! ```
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
    /// Elements of its tensor arguments.
    pub elements: u64,
}

/// A task that a core has finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The core.
    pub core: CoreId,
    /// As it was dispatched.
    pub order: Order,
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
    /// Hands a task to a core that has room for it.
    fn dispatch(&self, core: CoreId, order: Order);

    /// The oldest finished task of the cores that `agent` owns.
    fn collect(&self, agent: AgentId) -> Option<Receipt>;

    /// Whether there is one.
    fn has_receipt(&self, agent: AgentId) -> bool;

    /// Whether tasks that are with cores will never be finished, so that nobody should wait for them.
    fn cores_lost(&self) -> bool;
}
