//! Errors for people: what happened, why, and what to do; with the values the decision was made with.

mod words;

use plimsoll_abi::{ErrorCode, Resource, StallClass, TaskId};
use plimsoll_sched::failure::{KernelBudget, KernelFault, RunningKernel, Shortage};
use plimsoll_sched::shape::NO_KERNEL;
use plimsoll_sched::{Failure, FailureCause};
use plimsoll_trace::manifest::BudgetFacts;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
pub(crate) use words::{core_name, not_returned, why_it_stands};

/// Why a run, or a call, failed.
///
/// Both of its forms are for people: what a program that ends with it prints is the explanation, not the fields. Advice is
/// given in calls of this library. [`source`](StdError::source) leads to the error that caused it, if there is one: what a
/// kernel returned, or what the system or the recorder said.
#[derive(Clone)]
pub struct Error {
    inner: Box<ErrorFacts>,
}

/// What an error tells. Boxed, so that a result is no larger for it.
#[derive(Clone)]
struct ErrorFacts {
    code: ErrorCode,
    explanation: String,
    site: Option<String>,
    task: Option<TaskId>,
    kernel: Option<String>,
    worker: Option<u16>,
    shortage: Option<Shortage>,
    class: Option<StallClass>,
    budget: Option<BudgetFacts>,
    source: Option<Source>,
}

/// An error that caused another.
#[derive(Clone)]
enum Source {
    Kernel(KernelFault),
    Other(Arc<dyn StdError + Send + Sync>),
}

/// What calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the given kind.
    pub fn new(code: ErrorCode, explanation: impl Into<String>) -> Self {
        let explanation = explanation.into();
        Self {
            inner: Box::new(ErrorFacts {
                code,
                explanation,
                site: None,
                task: None,
                kernel: None,
                worker: None,
                shortage: None,
                class: None,
                budget: None,
                source: None,
            }),
        }
    }

    /// This error, with `source` as its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.inner.source = Some(Source::Other(Arc::new(source)));
        self
    }

    /// An [`ErrorCode::InvalidArgs`].
    pub fn invalid(explanation: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgs, explanation)
    }

    /// An [`ErrorCode::OrchestrationPanicked`], of which `panic` is the payload.
    pub fn orchestration_panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::new(
            ErrorCode::OrchestrationPanicked,
            format!(
                "The orchestration panicked: {}. The tasks that it had submitted by then have run. Mend the program that submits them.",
                plimsoll_sched::panic_text(panic)
            ),
        )
    }

    pub(crate) fn from_failure(failure: &Failure, kernel_name: impl Fn(u32) -> String) -> Self {
        let site = failure.site.map(|site| site.to_string());
        let kernel = failure.kernel.filter(|kernel| kernel.0 != NO_KERNEL).map(|kernel| kernel_name(kernel.0));
        let mut inner = ErrorFacts {
            code: failure.code,
            explanation: String::new(),
            site,
            task: failure.task,
            kernel,
            worker: failure.core.map(|core| core.0),
            shortage: failure.shortage,
            class: failure.class,
            budget: used_budget(&failure.cause),
            source: match &failure.cause {
                FailureCause::KernelFailed(error) => Some(Source::Kernel(error.clone())),
                _ => None,
            },
        };
        inner.explanation = words::explain(&inner, failure);
        Self { inner: Box::new(inner) }
    }

    /// An error that another process has sent.
    pub(crate) fn from_parts(parts: ErrorParts) -> Self {
        let task = |raw: Option<u64>| raw.map(TaskId::from_raw);
        let shortage = parts.shortage.and_then(|short| {
            Some(Shortage {
                resource: Resource::ALL.get(usize::from(short.resource)).copied()?,
                ring: short.ring,
                used: short.used,
                capacity: short.capacity,
                asked: short.asked,
                needed: short.needed,
                needed_is_bound: short.needed_is_bound,
                pinned: task(short.pinned),
            })
        });
        let inner = ErrorFacts {
            code: ErrorCode::from_number(parts.code).unwrap_or(ErrorCode::Defect),
            explanation: parts.explanation,
            site: parts.site,
            task: task(parts.task),
            kernel: parts.kernel,
            worker: parts.worker,
            shortage,
            class: parts.class.and_then(|class| StallClass::ALL.get(usize::from(class)).copied()),
            budget: parts.budget,
            // The cause stayed in the other process; its text is part of the explanation.
            source: None,
        };
        Self { inner: Box::new(inner) }
    }

    /// Its stable code.
    pub fn code(&self) -> ErrorCode {
        self.inner.code
    }

    /// What happened, why, and what to do.
    pub fn explanation(&self) -> &str {
        &self.inner.explanation
    }

    /// The source location of the scope it happened in, as `file:line`.
    pub fn site(&self) -> Option<&str> {
        self.inner.site.as_deref()
    }

    /// The task it happened to; for a capacity error, the oldest task that is held.
    pub fn task(&self) -> Option<TaskId> {
        self.inner.task
    }

    /// The kernel, by name.
    pub fn kernel(&self) -> Option<&str> {
        self.inner.kernel.as_deref()
    }

    /// The worker it happened on.
    pub fn worker(&self) -> Option<u16> {
        self.inner.worker
    }

    /// What kind of standstill ended the run, if one did.
    pub fn stall_class(&self) -> Option<StallClass> {
        self.inner.class
    }

    /// The budget that was used up, if one ended the run.
    pub(crate) fn budget(&self) -> Option<&BudgetFacts> {
        self.inner.budget.as_ref()
    }

    /// The resource that ran out.
    pub fn resource(&self) -> Option<Resource> {
        self.inner.shortage.map(|s| s.resource)
    }

    /// The ring it ran out on.
    pub fn ring(&self) -> Option<u8> {
        self.inner.shortage.and_then(|s| s.ring)
    }

    /// What was in use when the submitter was blocked.
    pub fn used(&self) -> Option<u64> {
        self.inner.shortage.map(|s| s.used)
    }

    /// The configured capacity of that resource.
    pub fn capacity(&self) -> Option<u64> {
        self.inner.shortage.map(|s| s.capacity)
    }

    /// The smallest capacity that gets the program past this point.
    pub fn needed(&self) -> Option<u64> {
        self.inner.shortage.map(|s| s.needed)
    }

    /// Whether `needed` is only a lower bound, because the end of the scope was not seen.
    pub fn needed_is_bound(&self) -> Option<bool> {
        self.inner.shortage.map(|s| s.needed_is_bound)
    }
}

/// The budget that a cause is about.
fn used_budget(cause: &FailureCause) -> Option<BudgetFacts> {
    let (option, budget) = match *cause {
        FailureCause::KernelRuns(RunningKernel { budget: KernelBudget::Op(budget), .. }) => ("op_timeout", budget),
        FailureCause::KernelRuns(RunningKernel { budget: KernelBudget::Stall(budget), .. })
        | FailureCause::NothingMoves(budget, _)
        | FailureCause::BuildsNothing(budget) => ("stall_timeout", budget),
        FailureCause::InOwnCode(_, budget) => ("orch_timeout", budget),
        _ => return None,
    };
    Some(BudgetFacts { option: option.to_owned(), ms: budget.as_millis() as u64 })
}

/// An error as one process sends it to another.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct ErrorParts {
    code: u32,
    explanation: String,
    site: Option<String>,
    task: Option<u64>,
    kernel: Option<String>,
    worker: Option<u16>,
    shortage: Option<ShortageParts>,
    class: Option<u8>,
    budget: Option<BudgetFacts>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct ShortageParts {
    resource: u8,
    ring: Option<u8>,
    used: u64,
    capacity: u64,
    asked: u64,
    needed: u64,
    needed_is_bound: bool,
    pinned: Option<u64>,
}

impl ErrorParts {
    pub(crate) fn new(error: &Error) -> Self {
        let inner = &error.inner;
        let shortage = inner.shortage.map(|short| ShortageParts {
            resource: short.resource as u8,
            ring: short.ring,
            used: short.used,
            capacity: short.capacity,
            asked: short.asked,
            needed: short.needed,
            needed_is_bound: short.needed_is_bound,
            pinned: short.pinned.map(TaskId::raw),
        });
        Self {
            code: inner.code.number(),
            explanation: inner.explanation.clone(),
            site: inner.site.clone(),
            task: inner.task.map(TaskId::raw),
            kernel: inner.kernel.clone(),
            worker: inner.worker,
            shortage,
            class: inner.class.map(|class| class as u8),
            budget: inner.budget.clone(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.inner.code, self.inner.code.number(), self.inner.explanation)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self.inner.source.as_ref()? {
            Source::Kernel(fault) => Some(fault.error()),
            Source::Other(source) => Some(&**source),
        }
    }
}
