//! Why a run failed: the values that the decision was made with. Words are made of them elsewhere.

use plimsoll_abi::{CoreId, ErrorCode, KernelId, Resource, TaskId};
use std::panic::Location;

/// The first failure of a run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind it is.
    pub code: ErrorCode,
    /// What happened, in one sentence.
    pub what: String,
    /// The task it happened to.
    pub task: Option<TaskId>,
    /// Its kernel.
    pub kernel: Option<KernelId>,
    /// Where it ran.
    pub core: Option<CoreId>,
    /// The scope it belonged to.
    pub site: Option<&'static Location<'static>>,
    /// The arguments of the task, as people read them.
    pub args: Option<String>,
    /// What ran out.
    pub shortage: Option<Shortage>,
}

/// A resource that ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// What ran out.
    pub resource: Resource,
    /// On which ring; none for the tensormap, which the rings share.
    pub ring: Option<u8>,
    /// In use when the submitter was blocked.
    pub used: u64,
    /// There is.
    pub capacity: u64,
    /// What the blocked submit asked for.
    pub asked: u64,
    /// The capacity with which the program passes this point; see `needed_is_bound`.
    pub needed: u64,
    /// True if the end of the scope was not seen, so that more may be needed.
    pub needed_is_bound: bool,
    /// The task at the head of the ring: the oldest that is held.
    pub pinned: Option<TaskId>,
}

impl Failure {
    /// A failure of this kind with nothing known but what happened.
    pub fn new(code: ErrorCode, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), task: None, kernel: None, core: None, site: None, args: None, shortage: None }
    }
}
