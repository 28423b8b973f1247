//! The seam between a device and what runs its tasks.
//!
//! An engine runs one round at a time: agent 0 is the caller and does what its [`Lead`] says, the other agents schedule and
//! execute until the round closes. Everything above a round, the program, rounds, launches and the recording, is the same
//! for all engines and is in `device.rs` and `conduct.rs`. A new engine is a file here and a row of [`EngineKind`].

mod build_watch;
mod chip;
mod emulated;
mod host;
mod isolated;
mod stall;
mod stalling;
pub(crate) mod timer;
mod virtual_options;
#[cfg(feature = "coroutines")]
mod virtual_time;
mod watchdog;
mod workers;

pub use crate::conduct::{AllSubmitted, Lead, LeadOutcome};
pub(crate) use build_watch::{BuildProgress, watch_building};
pub use emulated::EmulatedOptions;
pub use stalling::SchedulerStall;
pub(crate) use timer::{EndSignal, RunEnd};
pub use virtual_options::VirtualOptions;

use crate::error::{Error, Result};
use crate::isolate::Link;
use crate::options::{Capacities, RunOptions};
use crate::report::{RunReport, WorkerReport};
use crate::rescue::Rescue;
pub use crate::shape::{BlockRoom, ShapeLimits};
use plimsoll_abi::region::{ClockSource, INSTANCE_SLOTS};
use plimsoll_abi::{AgentId, ErrorCode, KernelId, RINGS, TaskId};
use plimsoll_collect::{Drive, Role, Session};
use plimsoll_platform::CoreClass;
use plimsoll_probe::{Lane, Probe};
use plimsoll_sched::pipe::MOST_PARTS;
use plimsoll_sched::policy::Lend;
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::site::Site;
use plimsoll_sched::{Failure, FailureCause, KernelEntry, Shared, panic_text};
use plimsoll_shm::Board;
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What runs a device's tasks.
#[derive(Clone, Debug, Default)]
pub enum EngineKind {
    /// Threads of this machine.
    #[default]
    Host,
    /// A chip made of threads: cores behind mailboxes.
    Emulated(Box<EmulatedOptions>),
    /// Virtual time.
    Virtual(Box<VirtualOptions>),
}

impl From<EmulatedOptions> for EngineKind {
    fn from(options: EmulatedOptions) -> Self {
        EngineKind::Emulated(Box::new(options))
    }
}

impl From<VirtualOptions> for EngineKind {
    fn from(options: VirtualOptions) -> Self {
        EngineKind::Virtual(Box::new(options))
    }
}

impl EngineKind {
    /// Opens an engine of this kind: the one place where engines are told apart.
    pub(crate) fn open(self, order: &EngineOrder) -> Result<Box<dyn Engine>> {
        Ok(match self {
            EngineKind::Host => Box::new(host::HostEngine::open(order)?),
            EngineKind::Emulated(options) if options.isolate => {
                Box::new(isolated::IsolatedEngine::open(&options, order)?)
            }
            EngineKind::Emulated(options) => Box::new(emulated::EmulatedEngine::open(*options, order)?),
            #[cfg(feature = "coroutines")]
            EngineKind::Virtual(options) => Box::new(virtual_time::VirtualEngine::open(*options, order)?),
            #[cfg(not(feature = "coroutines"))]
            EngineKind::Virtual(_) => return Err(not_built_in()),
        })
    }
}

/// The error of a build without virtual time.
#[cfg(not(feature = "coroutines"))]
fn not_built_in() -> Error {
    Error::invalid(
        "Virtual time is not built in. Its agents are coroutines, which this build of the library was made without. Build it with the feature `coroutines`, or choose another engine.",
    )
}

/// What a device wants of the engine that is opened for it.
#[derive(Clone, Copy, Debug)]
pub struct EngineOrder {
    /// Threads in all, if somebody said how many.
    pub workers: Option<usize>,
    /// Threads at least, on an engine that chooses their number by the machine.
    pub least_workers: usize,
    /// Whether the orchestrating thread executes tasks, too.
    pub lend: bool,
    /// Sizes of rings and tensormap.
    pub capacities: Capacities,
}

/// What can run the tasks of a device.
///
/// # Safety
/// When [`run`](Self::run) returns, no kernel of the round runs any more, but for those of the agents that it says were left
/// behind; and it leaves none behind if the lead says that the round borrows. A safe implementation does not compile:
///
/// ```compile_fail,E0200
/// # use plimsoll_runtime::Result;
/// # use plimsoll_runtime::engine::{Engine, EngineFacts, Lead, RoundOutcome, Round};
/// # use plimsoll_sched::{Shared, ring::Capacity};
/// struct Hasty;
/// impl Engine for Hasty {
///     fn run(&mut self, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome> {
///         unimplemented!("returns before its kernels do")
///     }
///     # fn facts(&self) -> EngineFacts {
///     #     unimplemented!()
///     # }
///     # fn workers(&self) -> usize {
///     #     1
///     # }
///     # fn share(&self, _: [Capacity; 4]) -> std::io::Result<Shared> {
///     #     unimplemented!()
///     # }
///     # fn drive(&self) -> plimsoll_collect::Drive {
///     #     plimsoll_collect::Drive::Thread
///     # }
///     # fn clock_pair(&self, _: u64) -> (u64, u64) {
///     #     (0, 0)
///     # }
/// }
/// ```
pub unsafe trait Engine: Send {
    /// What the engine is.
    fn facts(&self) -> EngineFacts;

    /// What executes tasks: threads, or the cores of a chip.
    fn workers(&self) -> usize;

    /// What it can place together. One worker takes turns at the parts of a mixed task, and every worker executes tasks, unless
    /// the engine says otherwise.
    fn limits(&self) -> ShapeLimits {
        ShapeLimits { parts: MOST_PARTS, blocks: BlockRoom::Workers(self.workers()) }
    }

    /// Refuses kernels that no core could ever run.
    fn check_kernels(&self, kernels: &[KernelEntry]) -> Result<()> {
        let _ = kernels;
        Ok(())
    }

    /// Kernels that the engine was told costs of, by name.
    fn costed_kernels(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Maps what the agents of a prebuilt graph share.
    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared>;

    /// Who drains a recording: a thread of its own, or the engine while it runs a round.
    fn drive(&self) -> Drive;

    /// A reading of the run's clock, and the nanoseconds that go with it: `elapsed_ns` since the recording started, or those of
    /// a virtual clock.
    fn clock_pair(&self, elapsed_ns: u64) -> (u64, u64);

    /// Runs one round to its end: `lead` on this thread, the other agents wherever they live.
    fn run(&mut self, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome>;

    /// The process that the device is, if it is one of its own.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "only this crate's engine has one")]
    fn link(&self) -> Option<&Link> {
        None
    }
}

/// What an engine is, for manifest and readers.
#[derive(Clone, Debug)]
pub struct EngineFacts {
    /// Its name.
    pub engine: &'static str,
    /// The chip, or this machine.
    pub arch: &'static str,
    /// Whether its clock is a virtual one.
    pub virtual_time: bool,
    /// Whether it stands for a chip that is made of threads here.
    pub emulated: bool,
    /// The agents, by number.
    pub agents: Vec<(String, Role)>,
    /// Class and owning agent of every core.
    pub cores: Vec<(CoreClass, u16)>,
    /// Ticks per second.
    pub clock_hz: u64,
    /// Whether the host can read device memory in place.
    pub host_mapped: bool,
    /// What counts the ticks.
    pub clock_source: ClockSource,
}

impl EngineFacts {
    /// The usual agents: the orchestrator, and `role`s with a number. The orchestrator has the pools of both roles also where it
    /// dispatches nothing: its waits for rings and its reclaims are phases of a scheduler.
    pub fn agents(count: usize, role: &str) -> Vec<(String, Role)> {
        let agent = |at: usize| match at {
            0 => ("orchestrator".to_owned(), Role::BOTH),
            _ => (format!("{role} {at}"), Role::SCHEDULER),
        };
        (0..count).map(agent).collect()
    }

    /// The agents of a chip whose orchestrator becomes a scheduler: every one has the pools of both roles.
    pub(crate) fn agents_of_both_roles(count: usize) -> Vec<(String, Role)> {
        Self::agents(count, "scheduler").into_iter().map(|(name, _)| (name, Role::BOTH)).collect()
    }
}

/// One round, as its engine is told of it.
#[derive(Clone, Copy)]
pub struct Round<'r> {
    /// The device's kernels.
    pub kernels: &'r Arc<Vec<KernelEntry>>,
    /// Sizes of rings and tensormap.
    pub capacities: &'r Capacities,
    /// What the run was told.
    pub options: &'r RunOptions,
    /// The recording, if there is one.
    pub session: Option<&'r Session>,
    /// Its number in the recording, and the dispatch tokens that rounds go on counting.
    pub count: &'r RoundCount,
    /// The status board: in the region of the recording, if there is one.
    pub board: &'r Arc<Board>,
    /// What the orchestrating thread executes while it waits.
    pub lend: Lend,
    /// What gets the records out of a run that cannot return.
    #[allow(private_interfaces, reason = "only this crate's engines watch their runs")]
    #[doc(hidden)]
    pub rescue: Option<&'r Rescue>,
    /// Where the run was called.
    pub site: Site,
}

/// Which round of a recording a run is.
#[derive(Clone, Debug)]
pub struct RoundCount {
    pub(crate) number: u32,
    /// Accepted submits of the rounds before.
    pub(crate) tasks_before: u64,
    /// The last dispatch token of every agent, or core behind a mailbox: rounds of one recording go on counting.
    tokens: Arc<[AtomicU32]>,
    /// The tick at which the first round began.
    began: OnceLock<u64>,
    /// When the first round began, on this machine and in virtual time: a deadline is one of all rounds.
    first: (Instant, OnceLock<u64>),
}

impl RoundCount {
    /// The first round of a recording on an engine with this many workers.
    pub(crate) fn first(workers: usize) -> Self {
        Self {
            number: 0,
            tasks_before: 0,
            tokens: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            began: OnceLock::new(),
            first: (Instant::now(), OnceLock::new()),
        }
    }

    /// What is left of a deadline, which began with the first round.
    pub(crate) fn left_of(&self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.first.0.elapsed())
    }

    /// When a deadline is in virtual time, which is `now` where the round begins.
    #[cfg(feature = "coroutines")]
    pub(crate) fn virtual_end(&self, deadline: Duration, now: u64) -> u64 {
        self.first.1.get_or_init(|| now).saturating_add(deadline.as_nanos().try_into().unwrap_or(u64::MAX))
    }

    /// A lane that records this round.
    pub fn lane<'p, B: Probe>(&self, probe: &'p B, agent: AgentId) -> B::Lane<'p> {
        let mut lane = probe.lane(agent);
        lane.set_round(self.number);
        lane
    }

    /// Ticks from the beginning of the first round to `now`, in the round that began at tick `start`.
    pub(crate) fn ticks_since_first(&self, start: u64, now: u64) -> u64 {
        now.saturating_sub(*self.began.get_or_init(|| start))
    }

    /// The last token of an earlier round for what executes tasks: an agent, or a core behind a mailbox.
    pub fn last_token(&self, at: usize) -> u32 {
        self.tokens.get(at).map_or(0, |token| token.load(Ordering::Relaxed))
    }

    /// Keeps the last token of this round.
    pub fn keep_token(&self, at: usize, token: u32) {
        if let Some(kept) = self.tokens.get(at) {
            kept.store(token, Ordering::Relaxed);
        }
    }
}

/// How a round went.
#[derive(Debug)]
pub struct RoundOutcome {
    /// What was done.
    pub report: RunReport,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Whether every agent has left the round.
    pub closing: Closing,
}

impl RoundOutcome {
    /// The result of a round, from the outcome of its lead, the work of each worker and the number of executions. `ns`
    /// converts ticks to nanoseconds.
    pub fn new(led: LeadOutcome, workers: Vec<WorkerReport>, dispatches: u64, ns: impl Fn(u64) -> u64) -> Self {
        let report = RunReport {
            rounds: 1,
            tasks: led.tasks,
            dispatches,
            elapsed_ns: ns(led.run_ticks),
            workers,
            load: led.load,
            conservative_overlaps: led.conservative_overlaps,
            conservative_sites: led.conservative_sites,
            ..RunReport::default()
        };
        Self { report, failure: led.failure, closing: Closing::AllLeft }
    }
}

/// How a round closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Every agent has left it.
    AllLeft,
    /// These agents have not left it, and are not waited for. What they may touch is never freed or used again.
    LeftBehind(Vec<Straggler>),
}

/// An agent that did not leave its round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Straggler {
    /// Its number.
    pub agent: AgentId,
    /// The task that it executes, if it has executed any.
    pub task: Option<TaskId>,
    /// The kernel of that task.
    pub kernel: Option<KernelId>,
    /// When the round closed, and it was in that task already.
    pub since: Instant,
}

/// Workers, or cores of a chip, that a device has at most: what the directory of a recording has room for. The limit is the
/// same for runs that are not recorded, so that every device can be recorded.
const MOST_WORKERS: usize = INSTANCE_SLOTS;

/// Refuses numbers of workers with which nothing would run.
fn check_workers(workers: usize, lend: bool) -> Result<()> {
    if workers == 0 || workers > MOST_WORKERS {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        return Err(Error::invalid(format!(
            "A device cannot have {workers} workers. It needs at least one, and has at most {MOST_WORKERS}, which is what a recording has room for. This machine has {cpus} CPUs; use at most that many."
        )));
    }
    if workers == 1 && !lend {
        return Err(Error::invalid(
            "A device of one worker that does not lend a hand would never run a task. The one worker is the orchestrating thread. Use two workers, or let it lend.",
        ));
    }
    Ok(())
}

/// The error of a system that refuses memory or threads. The heap of a ring is a file in memory, which limits of file sizes hold for.
pub(crate) fn no_memory(error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let source = error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error);
    if matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull) {
        let what = format!(
            "The rings cannot be made: {error}. The heap of a ring is a file in memory, and a limit on the size of files was met, or the memory for files is full. Raise the limit (ulimit -f), or use smaller heaps with `Capacities::set_heap`."
        );
        return Error::new(ErrorCode::DiskFull, what).caused_by(source);
    }
    let what = format!(
        "The system refused memory or threads: {error}. The rings and the workers' stacks need address space, and every worker is a thread. Use smaller rings or fewer workers, or raise the limits of the process."
    );
    Error::new(ErrorCode::SystemRefused, what).caused_by(source)
}

/// The failure of a run in which `who`, a part of the runtime, panicked.
pub(crate) fn defect(who: &'static str, panic: &(dyn Any + Send)) -> Failure {
    Failure::new(ErrorCode::Defect, FailureCause::Panicked(who, panic_text(panic).to_owned()))
}
