//! Why a run failed: the values that the decision was made with. Words are made of them elsewhere, but for what has its words already:
//! what a program says itself, and a call that is refused, whose explanation is the error that the call returns.

use crate::args::ArgView;
use crate::execute::drop_caught;
use crate::kernel::KernelError;
use crate::site::Site;
use plimsoll_abi::board::Activity;
use plimsoll_abi::{AgentId, CoreClass, CoreId, ErrorCode, KernelId, Resource, StallClass, TaskId};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The first failure of a run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind it is.
    pub code: ErrorCode,
    /// What happened.
    pub cause: FailureCause,
    /// The task it happened to.
    pub task: Option<TaskId>,
    /// Its kernel.
    pub kernel: Option<KernelId>,
    /// Where it ran.
    pub core: Option<CoreId>,
    /// The class of that core, which [`Shared::fail`](crate::Shared::fail) fills in.
    pub core_class: CoreClass,
    /// The scope it belonged to.
    pub site: Option<Site>,
    /// The arguments of the task, if its kernel was called.
    pub args: Vec<ArgView>,
    /// What ran out.
    pub shortage: Option<Shortage>,
    /// What kind of standstill it was.
    pub class: Option<StallClass>,
}

/// What happened to a run.
#[derive(Clone, Debug)]
pub enum FailureCause {
    /// The orchestration gave up, and says this.
    GaveUp(String),
    /// A call of the orchestration was refused with this explanation, which has no full stop at its end.
    Refused(String),
    /// The kernel returned this error.
    KernelFailed(KernelFault),
    /// The kernel panicked with this text.
    KernelPanicked(String),
    /// These two arguments of a task overlap, and one of them is written.
    ArgumentsOverlap(u16, u16),
    /// As [`ArgumentsOverlap`](Self::ArgumentsOverlap), of views that could only be compared by their first and last elements,
    /// so that they may share none.
    ArgumentsMayOverlap(u16, u16),
    /// An argument of a task that is written overlaps the task's predicate.
    PredicateOverlaps {
        /// The argument.
        arg: u16,
        /// Whether the two could only be compared by their first and last elements, so that they may share none.
        is_guess: bool,
    },
    /// The arguments of a task take more words than can be counted.
    TooManyArguments,
    /// A read waited longer than this for the task.
    ReadTimedOut(Duration),
    /// A resource ran out, and only the blocked submitter could free some of it: [`Failure::shortage`] has the numbers.
    Deadlock,
    /// The run was stopped, and nobody said why.
    Stopped,
    /// The run's cancel token was used.
    Cancelled,
    /// A signal asked for the end of the run.
    Interrupted,
    /// A scope was to be closed, and none is open.
    NoOpenScope,
    /// The run was still going at its deadline, which was this long after its start.
    DeadlinePassed(Duration),
    /// The run was still going at its deadline, which was so much virtual time after its start.
    VirtualDeadlinePassed(Duration),
    /// Virtual time came to the end of its clock, which has room for so much.
    VirtualClockEnded(Duration),
    /// A part of the runtime, named by the first text, panicked with the second.
    Panicked(&'static str, String),
    /// The loop of virtual time panicked.
    LoopPanicked,
    /// The loop of virtual time ended before its round had.
    LoopEndedEarly,
    /// The engine did not run the program that it was given.
    ProgramNotRun,
    /// A kernel has not returned.
    KernelRuns(RunningKernel),
    /// The run has made no progress for this long, which is the configured limit.
    NothingMoves(Duration, Standstill),
    /// Nothing can happen any more in virtual time.
    NothingCanHappen {
        /// The virtual time of the last event, in ns.
        now_ns: u64,
        /// Tasks that had completed by then.
        completed: u64,
        /// Why nothing moves.
        standstill: Standstill,
    },
    /// A kernel did not return at the end of the run, which a signal asked for, or a deadline.
    KernelsLeft {
        /// How many others did not return either.
        others: usize,
        /// The deadline, if it was not a signal.
        deadline: Option<Duration>,
    },
    /// The orchestration did not return at the end of the run, which a signal asked for, or a deadline.
    OrchestrationLeft {
        /// The deadline, if it was not a signal.
        deadline: Option<Duration>,
    },
    /// For the first time the orchestration has made no call; the second time is the configured limit.
    InOwnCode(Duration, Duration),
    /// The program that builds a graph has made no call and used no CPU for this long.
    BuildsNothing(Duration),
    /// One more task was submitted to a prebuilt graph that has this many, the most it may have.
    GraphIsFull(usize),
    /// The outputs of a prebuilt graph take more memory than can be mapped.
    GraphHeapTooLarge,
    /// A tensor was to be accessed while a prebuilt graph was built.
    AccessInGraph {
        /// Whether it was to be written, not read.
        writes: bool,
    },
}

/// Why nothing moves in a run. The task behind which everything stands is in [`Failure::task`], and the class in
/// [`Failure::class`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standstill {
    /// What it is put down to.
    pub reason: StandstillReason,
    /// What the orchestrator is in.
    pub orchestrator: Activity,
}

/// What a standstill is put down to, with the counts that show it: a variant for each
/// [`StallCause`](plimsoll_abi::StallCause).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandstillReason {
    /// A kernel of the task does not end.
    Running,
    /// The blocks of the task are to start together, and not all of them have a place to run.
    Assembling {
        /// Blocks that have a place.
        taken: u32,
        /// Blocks of the task.
        blocks: u32,
    },
    /// This many tasks are ready, and no agent takes one of them.
    Ready(u64),
    /// This many tasks are ready in the orchestrator's queue, and it has woken no other agent for them.
    Kept(u64),
    /// This scheduler or worker makes no progress although it executes no kernel.
    StalledOutsideKernel(AgentId),
    /// This many tasks wait for others, and no task runs or is ready. [`Failure::task`] is the first one that waits for no other,
    /// if there is one.
    Waiting(u64),
    /// All submitted tasks have completed, and the orchestrator makes no progress.
    Orchestrator,
    /// All tasks have completed, and no orchestration is going on.
    Nobody,
}

/// A kernel that was given up because a budget was used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningKernel {
    /// How long it has not returned.
    pub age: Duration,
    /// Whether its thread uses the CPU.
    pub spins: bool,
    /// The budget that was used up.
    pub budget: KernelBudget,
}

/// What bounds how long a kernel may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelBudget {
    /// The time that one kernel may take.
    Op(Duration),
    /// The time for which nothing may move.
    Stall(Duration),
}

/// The error that a kernel returned: a value of the user's, whose `Display` and `Drop` may panic as the kernel may.
#[derive(Clone)]
pub struct KernelFault(Arc<Returned>);

struct Returned(ManuallyDrop<KernelError>);

impl KernelFault {
    pub(crate) fn new(error: KernelError) -> Self {
        Self(Arc::new(Returned(ManuallyDrop::new(error))))
    }

    /// The error itself.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &**self.0.0
    }
}

/// The error's own text, or that it has none to give.
impl std::fmt::Display for KernelFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match catch_unwind(AssertUnwindSafe(|| self.error().to_string())) {
            Ok(text) => f.write_str(&text),
            Err(panic) => {
                drop_caught(panic);
                f.write_str("an error that panicked when it was asked for its text")
            }
        }
    }
}

impl std::fmt::Debug for KernelFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        // SAFETY: the value is not used again.
        let error = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(error))) {
            drop_caught(panic);
        }
    }
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
    /// Configured capacity.
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
    pub fn new(code: ErrorCode, cause: FailureCause) -> Self {
        Self {
            code,
            cause,
            task: None,
            kernel: None,
            core: None,
            core_class: CoreClass::default(),
            site: None,
            args: Vec::new(),
            shortage: None,
            class: None,
        }
    }

    /// Takes back that a kernel or the orchestration had not returned at the end of the run: all have left it since.
    pub fn all_have_left(&mut self) {
        let (FailureCause::KernelsLeft { deadline, .. } | FailureCause::OrchestrationLeft { deadline }) = self.cause
        else {
            return;
        };
        let cause = deadline.map_or(FailureCause::Interrupted, FailureCause::DeadlinePassed);
        *self = Self::new(self.code, cause);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_has_left_after_all_is_not_told_to_be_left() {
        let second = Duration::from_secs(1);
        let mut told = Failure::new(ErrorCode::Interrupted, FailureCause::KernelsLeft { others: 1, deadline: None });
        told.task = Some(TaskId::new(1, 7));
        told.all_have_left();
        assert!(matches!(
            (told.code, &told.cause, told.task),
            (ErrorCode::Interrupted, FailureCause::Interrupted, None)
        ));
        let cause = FailureCause::OrchestrationLeft { deadline: Some(second) };
        let mut told = Failure::new(ErrorCode::DeadlineExceeded, cause);
        told.all_have_left();
        assert!(matches!(told.cause, FailureCause::DeadlinePassed(at) if at == second));
        let mut other = Failure::new(ErrorCode::Cancelled, FailureCause::Cancelled);
        other.task = Some(TaskId::new(1, 7));
        other.all_have_left();
        assert!(matches!((&other.cause, other.task), (FailureCause::Cancelled, Some(_))));
    }
}
