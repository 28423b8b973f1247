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
//! * P1: one scheduler at a time owns a core, and only the owner dispatches to it. A core that holds nothing may change its owner:
//!   the old one parts with it before the new one adopts it.
//! * P2: a core executes what it was given in the order of its tokens.
//! * P3: a receipt can be collected before `report` is called for it, so whoever sleeps unless there is a receipt, and
//!   is woken by `report`, misses none.

use plimsoll_abi::{AgentId, CoreId};
use plimsoll_shm::ReservedSlot;

/// Tasks that a core holds at once: one runs, one waits.
pub const ISSUE: u32 = 2;

/// A task on its way to a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The core's dispatch token, from 1 upwards.
    pub token: u32,
    /// The task, as the scheduler names it.
    pub word: u32,
    /// Which of the task's executions it is, from 0.
    pub execution: u32,
    /// The pipes through which it exchanges values with other parts of its block, by number; or [`Order::NO_PIPES`],
    /// [`Order::PARTS_TOGETHER`].
    pub pipes: u32,
    /// Where the core puts its record, as the scheduler reserved it; [`ReservedSlot::NONE`] if there is none.
    pub place: u64,
}

impl Order {
    /// The execution is a whole block.
    pub const NO_PIPES: u32 = u32::MAX;
    /// The execution is a part of a block whose parts are all executed together with the first one, because the cores are no
    /// threads.
    pub const PARTS_TOGETHER: u32 = u32::MAX - 1;

    /// Whether the core has a record to write.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.place != ReservedSlot::NONE
    }
}

/// When a core had an order and ran its kernel, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// When the core had the order.
    pub receive: u64,
    /// When the kernel started.
    pub start: u64,
    /// When the kernel ended.
    pub end: u64,
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
    /// Ticks that the kernel ran, of a core that cannot count them itself; 0 of others.
    pub busy: u64,
    /// What the kernel waited for before its own work, from one tick to another, if it noted that.
    pub waited: Option<(u64, u64)>,
}

/// What a core does with a task: the same on every kind of core.
pub trait CoreSide {
    /// Runs the kernel of an order's task. False: it failed, and the run knows.
    ///
    /// # Safety
    /// The owner of `core` has dispatched the order to it, and this is the only call for it.
    unsafe fn execute(&self, core: CoreId, order: &Order) -> bool;

    /// `core` calls the kernel of its next order at this tick; told only where times are recorded.
    fn begins(&self, core: CoreId, tick: u64) {
        let _ = (core, tick);
    }

    /// Writes the record of an order that was executed, before the owner can see that it has finished.
    ///
    /// # Safety
    /// As [`execute`](Self::execute), which comes before it; and the order has a place for the record.
    unsafe fn stamp(&self, core: CoreId, order: &Order, times: &Times);

    /// Reads the counters of the core before an order is executed, if they are recorded.
    fn begin_counting(&self, core: CoreId) {
        let _ = core;
    }

    /// Stages what the counters of the core counted while it executed an order, if they are recorded, before the owner can see
    /// that it has finished.
    fn stage(&self, core: CoreId, order: &Order) {
        let _ = (core, order);
    }

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

    /// Hands a task of `kernel` to a core that has room for it. How many elements its tensor arguments have is asked for
    /// where it matters.
    fn dispatch(&self, core: CoreId, order: Order, kernel: u32, elements: impl FnOnce() -> u64);

    /// The oldest finished task of the cores that `agent` owns.
    fn collect(&self, agent: AgentId) -> Option<Receipt>;

    /// Whether a finished task of those cores can be collected.
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

    /// `agent` does not own the core any more, which holds nothing.
    fn part_with(&self, agent: AgentId, core: CoreId) {
        let _ = (agent, core);
    }

    /// `agent` owns the core from now on, which holds nothing.
    fn adopt(&self, agent: AgentId, core: CoreId) {
        let _ = (agent, core);
    }

    /// Whether tasks that are with cores will never be finished, so that nobody should wait for them.
    fn cores_lost(&self) -> bool;
}
