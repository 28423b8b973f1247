//! Errors for people: what happened, why, and what to do; with the values the decision was made with.

use plimsoll_abi::{CoreClass, ErrorCode, Resource, StallClass, TaskId};
use plimsoll_sched::failure::{KernelBudget, KernelFault, Shortage};
use plimsoll_sched::shape::NO_KERNEL;
use plimsoll_sched::{Failure, FailureCause};
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a run, or a call, failed.
///
/// Both of its forms are for people: what a program that ends with it prints is the explanation, not the fields. Advice is
/// given in calls of this library. [`source`](StdError::source) leads to the error that caused it, if there is one: what a
/// kernel returned, or what the system or the recorder said.
#[derive(Clone)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    code: ErrorCode,
    explanation: String,
    site: Option<String>,
    task: Option<TaskId>,
    kernel: Option<String>,
    worker: Option<u16>,
    shortage: Option<Shortage>,
    class: Option<StallClass>,
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
            inner: Box::new(Inner {
                code,
                explanation,
                site: None,
                task: None,
                kernel: None,
                worker: None,
                shortage: None,
                class: None,
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
        let site = failure.site.map(|site| format!("{}:{}", site.file(), site.line()));
        let kernel = failure.kernel.filter(|kernel| kernel.0 != NO_KERNEL).map(|kernel| kernel_name(kernel.0));
        let mut inner = Inner {
            code: failure.code,
            explanation: String::new(),
            site,
            task: failure.task,
            kernel,
            worker: failure.core.map(|core| core.0),
            shortage: failure.shortage,
            class: failure.class,
            source: match &failure.cause {
                FailureCause::KernelFailed(error) => Some(Source::Kernel(error.clone())),
                _ => None,
            },
        };
        inner.explanation = explain(&inner, failure);
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
        let inner = Inner {
            code: ErrorCode::from_number(parts.code).unwrap_or(ErrorCode::Defect),
            explanation: parts.explanation,
            site: parts.site,
            task: task(parts.task),
            kernel: parts.kernel,
            worker: parts.worker,
            shortage,
            class: parts.class.and_then(|class| StallClass::ALL.get(usize::from(class)).copied()),
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

fn explain(inner: &Inner, failure: &Failure) -> String {
    if let Some(shortage) = &inner.shortage {
        return explain_shortage(inner, shortage);
    }
    let mut text = format!("{}.", what_happened(inner, &failure.cause));
    if let Some(worker) = inner.worker {
        text += &format!(" It ran on {}", core_name(failure.core_class, worker));
        if let Some(site) = &inner.site {
            text += &format!(", in the scope opened at {site}");
        }
        if !failure.args.is_empty() {
            let args: Vec<String> = failure.args.iter().map(ToString::to_string).collect();
            text += &format!(", with {}", args.join(", "));
        }
        text += ".";
    } else if let Some(site) = &inner.site {
        text += &format!(" The scope was opened at {site}.");
    }
    text + what_to_do(inner.code)
}

/// What happened, as one sentence without its full stop.
fn what_happened(inner: &Inner, cause: &FailureCause) -> String {
    let kernel = inner.kernel.as_deref().unwrap_or("of an unknown name");
    let task = inner.task.map_or_else(|| "an unknown task".to_owned(), |task| format!("task {task}"));
    let class = inner.class.map_or(String::new(), |class| format!("{class}: "));
    match cause {
        FailureCause::Message(message) => message.clone(),
        FailureCause::KernelFailed(error) => format!("kernel {kernel} failed in {task}: {error}"),
        FailureCause::KernelPanicked(text) => format!("kernel {kernel} panicked in {task}: {text}"),
        FailureCause::ArgumentsOverlap(one, other) => {
            format!("arguments {one} and {other} overlap and one of them is written")
        }
        FailureCause::TooManyArguments => format!("a task has room for {} argument words", u16::MAX),
        FailureCause::ReadTimedOut(budget) => {
            format!("a read waited longer than {budget:?} for {task} (kernel {kernel})")
        }
        FailureCause::Deadlock => "the submitter waits for what only it could free".to_owned(),
        FailureCause::Stopped => "the run was stopped".to_owned(),
        FailureCause::NoOpenScope => "there is no open scope to close".to_owned(),
        FailureCause::DeadlinePassed(deadline) => why_it_ends(Some(*deadline)),
        FailureCause::Panicked(who, text) => format!("{who} panicked outside of kernels: {text}"),
        FailureCause::KernelRuns(of) => {
            let runs = not_returned(&format!("kernel {kernel} of {task}"), of.age, of.spins);
            match of.budget {
                KernelBudget::Op(budget) => format!("{runs}, and one may take {budget:?}"),
                KernelBudget::Stall(budget) => {
                    format!("nothing has moved for {budget:?} (`RunOptions::stall_timeout`): {class}{runs}")
                }
            }
        }
        FailureCause::KernelsLeft { others, deadline } => {
            let others = if *others == 0 { String::new() } else { format!(", nor have {others} others") };
            let why = why_it_ends(*deadline);
            format!("{why}; kernel {kernel} of {task} has not returned{others}, and was not waited for")
        }
        FailureCause::OrchestrationLeft { deadline } => {
            format!("{}; the orchestration has not returned, and was not waited for", why_it_ends(*deadline))
        }
        FailureCause::InOwnCode(time, budget) => format!(
            "{class}the orchestration has been in its own code for {time:.1?} without a call, and may be for {budget:?} (`RunOptions::orch_timeout`)"
        ),
        FailureCause::BuildsNothing(budget) => format!(
            "{class}the program that builds the graph has made no call and used no CPU for {budget:?} (`RunOptions::stall_timeout`)"
        ),
    }
}

/// Why a run ends that a deadline ended, or without one a signal.
fn why_it_ends(deadline: Option<Duration>) -> String {
    match deadline {
        Some(deadline) => format!("the run was still going at its deadline of {deadline:?}"),
        None => "a signal asked for the end of the run".to_owned(),
    }
}

/// What people call a core of this class: a worker, if it runs any kernel.
pub(crate) fn core_name(class: CoreClass, core: u16) -> String {
    match class {
        CoreClass::Any => format!("worker {core}"),
        class => format!("{} core {core}", class.name()),
    }
}

/// A sentence: for how long `what`, a kernel, has not returned, and whether it uses the CPU.
pub(crate) fn not_returned(what: &str, age: Duration, spins: bool) -> String {
    let does = if spins { "spinning: it uses the CPU" } else { "frozen: it uses no CPU" };
    format!("{what} has not returned for {age:.1?}; its thread is {does}")
}

fn what_to_do(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidArgs => " Change the arguments or the setting named above.",
        ErrorCode::InvalidSyncStart => " Nothing of that task was started.",
        ErrorCode::KernelFailed => {
            " What was running has finished and nothing more was started; mend the kernel or its input."
        }
        ErrorCode::KernelPanicked => {
            " The panic was caught and nothing more was started; mend the kernel or its input."
        }
        ErrorCode::Interrupted => " Nothing more was started; run again to get a result.",
        ErrorCode::Defect => " That is a defect of the runtime, not of the program; please report it.",
        ErrorCode::Cancelled => " Whoever holds the cancel token asked for it; run again to get a result.",
        ErrorCode::DeadlineExceeded => " Give it a later deadline, or find with a recording where the time goes.",
        ErrorCode::TensorWaitTimeout => " Allow a longer wait, or look at why that task takes so long.",
        ErrorCode::OpTimeout => {
            " It was given up, and nothing more was started. Look at what the kernel waits for, or allow more with `RunOptions::op_timeout`."
        }
        ErrorCode::SchedulerTimeout => " Look at what was running and why it does not end.",
        ErrorCode::ScopeTasksOverflow => {
            " Allow more, split the graph, or stream it: rings bound what is in flight then."
        }
        ErrorCode::ExplicitFatal => " The orchestration decided this itself; see its own message above.",
        _ => "",
    }
}

/// The setter of [`Capacities`](crate::Capacities) and the environment's variable for a resource.
fn setting(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::TaskWindow => ("set_task_window", "PLIMSOLL_RING_TASK_WINDOW"),
        Resource::Heap => ("set_heap", "PLIMSOLL_RING_HEAP"),
        Resource::DepPool => ("set_dep_pool", "PLIMSOLL_RING_DEP_POOL"),
        Resource::Tensormap => ("set_tensormap", "PLIMSOLL_TENSORMAP"),
    }
}

fn unit(resource: Resource) -> &'static str {
    match resource {
        Resource::TaskWindow => "task slots",
        Resource::Heap => "heap bytes",
        Resource::DepPool => "dependency entries",
        Resource::Tensormap => "tensormap entries",
    }
}

fn explain_shortage(inner: &Inner, s: &Shortage) -> String {
    let place = s.ring.map_or("the tensormap".to_owned(), |ring| format!("ring {ring}"));
    let site = inner.site.as_deref().unwrap_or("an unknown place");
    let (unit, (setter, variable)) = (unit(s.resource), setting(s.resource));
    let (used, capacity, asked) = (s.used, s.capacity, s.asked);
    let mut text = format!(
        "{place} ran out of {unit}: {used} of {capacity} are held and the next task needs {asked} more. \
         All submitted tasks have completed, so nothing can free any"
    );
    match s.pinned {
        Some(task) => {
            text += &format!(
                "; the oldest held task is {task}, which only the end of the scope opened at {site} lets go of."
            )
        }
        None => text += &format!("; a single task of the scope opened at {site} asks for more than there is."),
    }
    let needed = s.needed;
    let value = s.ring.map_or(needed.to_string(), |ring| per_ring_value(ring, needed));
    let call = format!("`Capacities::{setter}({value:?})`");
    if s.needed_is_bound {
        text += &format!(
            " The end of the scope was not seen, so at least {needed} are needed: use {call} (or {variable}), or close the scope earlier."
        );
    } else {
        text += &format!(" To its end the scope needs {needed}: use {call} (or {variable}), or split the scope.");
    }
    if would_fit_by_iterations(s) {
        text +=
            " If the scope repeats an iteration, open a scope per iteration: what one holds comes back when it ends.";
    }
    text
}

/// Whether smaller scopes inside the full one would help. They do if several tasks together fill the ring, and if inner
/// scopes use another ring.
fn would_fit_by_iterations(s: &Shortage) -> bool {
    let has_inner_ring = s.ring.is_none_or(|ring| usize::from(ring) + 1 < plimsoll_abi::RINGS);
    s.pinned.is_some() && has_inner_ring && s.asked.saturating_mul(2) <= s.capacity
}

/// A value for one ring that leaves the others as they are.
fn per_ring_value(ring: u8, value: u64) -> String {
    (0..plimsoll_abi::RINGS as u8)
        .map(|r| if r == ring { value.to_string() } else { "-".to_owned() })
        .collect::<Vec<_>>()
        .join(",")
}
