//! A device: rings, workers and kernels; and the life of a run on it.

use crate::arg::Scratch;
use crate::engine::{Closing, Engine, EngineFacts, EngineKind, EngineOrder, Lead, Round, RoundCount, Straggler};
use crate::error::{Error, Result};
use crate::isolate::{Link, refuse_closure};
use crate::kernel::{IntoKernel, Kernel};
use crate::options::{Capacities, RunOptions, check_rounds};
use crate::orchestrator::Orchestrator;
use crate::record::{Recorder, RunFacts};
use crate::record_options::RecordOptions;
use crate::report::RunReport;
use crate::rescue::Rescue;
use crate::shape::ShapeLimits;
use crate::sink::SubmitSink;
use plimsoll_abi::record::AicoreTask;
use plimsoll_abi::{ErrorCode, KernelId, RINGS};
use plimsoll_collect::Session;
use plimsoll_platform::CoreClass;
use plimsoll_sched::block;
use plimsoll_sched::kernel::KernelCall;
use plimsoll_sched::policy::{Grain, Lend};
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::signature::Signature;
use plimsoll_sched::site::Site;
use plimsoll_sched::{Failure, FailureCause, KernelEntry, Shared};
use plimsoll_shm::Board;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a device is made.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    workers: Option<usize>,
    least_workers: usize,
    capacities: Option<Capacities>,
    no_lend: bool,
    engine: EngineKind,
}

impl Builder {
    /// What runs the tasks: threads of this machine unless told otherwise.
    pub fn engine(mut self, engine: impl Into<EngineKind>) -> Self {
        self.engine = engine.into();
        self
    }

    /// Threads in all, the one that calls `run` included. The default is one per CPU; four in virtual time.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// At least this many threads, where their number is left to the machine: the engine on this machine's threads has one per
    /// CPU otherwise. With two of them, a kernel that does not return never hangs the thread that calls `run`.
    pub fn at_least_workers(mut self, workers: usize) -> Self {
        self.least_workers = workers;
        self
    }

    /// Sizes of rings and tensormap. The default is what the environment says, or the built-in sizes.
    pub fn capacities(mut self, capacities: Capacities) -> Self {
        self.capacities = Some(capacities);
        self
    }

    /// Whether the orchestrating thread executes tasks when it would wait. On by default.
    pub fn lend(mut self, lend: bool) -> Self {
        self.no_lend = !lend;
        self
    }

    /// Opens the device: maps the rings and starts the workers.
    ///
    /// # Errors
    /// [`InvalidArgs`](ErrorCode::InvalidArgs) if sizes, workers, the arch or a variable of the environment make no sense;
    /// [`SystemRefused`](ErrorCode::SystemRefused) if the system has no memory or threads for the device.
    pub fn open(self) -> Result<Device> {
        let capacities = match self.capacities {
            Some(capacities) => capacities,
            None => Capacities::from_env()?,
        };
        capacities.validate()?;
        let order = self.order(capacities);
        let recording = RecordOptions::from_env()?;
        Ok(Device { recording, ..Device::new(self.engine.open(&order)?, &order) })
    }

    fn order(&self, capacities: Capacities) -> EngineOrder {
        let (workers, least_workers) = (self.workers, self.least_workers);
        EngineOrder { workers, least_workers, lend: !self.no_lend, capacities }
    }

    /// As [`open`](Self::open), on an engine that `open` makes.
    #[doc(hidden)]
    pub fn open_on(self, open: impl FnOnce(&EngineOrder) -> Result<Box<dyn Engine>>) -> Result<Device> {
        let capacities = self.capacities.unwrap_or_default();
        capacities.validate()?;
        let order = self.order(capacities);
        Ok(Device::new(open(&order)?, &order))
    }
}

/// Rings, workers and kernels. Runs come one after the other; several devices may live in one process.
pub struct Device {
    engine: Box<dyn Engine>,
    /// Counted, because an agent that was left behind may be executing one of them.
    kernels: Arc<Vec<KernelEntry>>,
    /// The status board of runs that are not recorded.
    board: Arc<Board>,
    capacities: Capacities,
    lend: bool,
    number: u64,
    runs: u64,
    /// Runs so far as users count them, the one under way included; rounds are parts of one.
    run_count: u64,
    report: RunReport,
    /// Agents that did not leave an earlier run.
    lost: Vec<Straggler>,
    /// What the environment asked to record when the device was opened.
    recording: Option<RecordOptions>,
    /// Only in a device's own process: the session that the next run records into, opened by its host.
    attached: Option<Session>,
    /// Gets the records out of the run under way, should it not return.
    rescue: Option<Arc<Rescue>>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({} workers, {} kernels)", self.workers(), self.kernels.len())
    }
}

impl Device {
    /// How a device is made.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn new(engine: Box<dyn Engine>, order: &EngineOrder) -> Self {
        static DEVICES: AtomicU64 = AtomicU64::new(1);
        let facts = engine.facts();
        Self {
            board: Arc::new(Board::new(facts.agents.len(), facts.cores.len())),
            engine,
            kernels: Arc::default(),
            capacities: order.capacities,
            lend: order.lend,
            number: DEVICES.fetch_add(1, Ordering::Relaxed),
            runs: 0,
            run_count: 0,
            report: RunReport::default(),
            lost: Vec::new(),
            recording: None,
            attached: None,
            rescue: None,
        }
    }

    /// Registers a function or closure as a kernel that may run on any core.
    ///
    /// A device has room for [`MOST_KERNELS`](Self::MOST_KERNELS). Submits of kernels past them are refused with
    /// [`InvalidArgs`](ErrorCode::InvalidArgs).
    pub fn kernel<M, F: IntoKernel<M>>(&mut self, name: &str, body: F) -> Kernel<F::Kinds> {
        self.kernel_on(CoreClass::Any, name, body)
    }

    /// Registers a function or closure as a kernel for one class of cores.
    pub fn kernel_on<M, F: IntoKernel<M>>(&mut self, class: CoreClass, name: &str, body: F) -> Kernel<F::Kinds> {
        // SAFETY: the device calls it for tasks only that were checked against what it takes: by the compiler, with the
        // handle below, which carries the kinds, or by the untyped tier, with the signature.
        let call = unsafe { body.into_call() };
        match self.enter_kernel(class, name, F::signature(), false, call) {
            Some(id) => Kernel::new(id, self.number),
            None => Kernel::none(),
        }
    }

    /// Registers a kernel, if there is room.
    pub(crate) fn enter_kernel(
        &mut self,
        class: CoreClass,
        name: &str,
        signature: Signature,
        in_blocks: bool,
        call: KernelCall,
    ) -> Option<KernelId> {
        let id = KernelId(self.kernels.len() as u32);
        if id.index() >= Self::MOST_KERNELS {
            return None;
        }
        // Between runs nobody else counts the kernels, unless the device has lost an agent: then nothing runs on it any
        // more.
        let kernels = Arc::get_mut(&mut self.kernels)?;
        kernels.push(KernelEntry { name: name.to_owned(), class, signature, in_blocks, call, grain: Grain::default() });
        Some(id)
    }

    /// Tells it from every other device of this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Kernels that a device has room for: records have that many numbers.
    pub const MOST_KERNELS: usize = AicoreTask::KERNELS as usize;

    /// Runs a program and returns when every task has completed.
    ///
    /// # Errors
    /// What `body` returns, or the run's first failure: a kernel that failed or panicked, a ring that is too small, a refused
    /// call. [`DeviceLost`](ErrorCode::DeviceLost) if an earlier run left workers behind.
    #[track_caller]
    pub fn run<'env, R>(
        &mut self,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.run_with(&RunOptions::default(), program)
    }

    /// As [`run`](Self::run), with options.
    ///
    /// # Errors
    /// As [`run`](Self::run); and [`Cancelled`](ErrorCode::Cancelled), [`DeadlineExceeded`](ErrorCode::DeadlineExceeded) or
    /// [`RecordingFailed`](ErrorCode::RecordingFailed) where the options ask for that.
    #[track_caller]
    pub fn run_with<'env, R>(
        &mut self,
        options: &RunOptions,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let (site, count) = (Site::caller(), RoundCount::first(self.workers()));
        self.recorded(options, |device, session| device.run_round(options, session, &count, site, program))
    }

    /// Runs a program several times, one after the other, in one recording; records carry the round.
    ///
    /// The report afterwards is that of all rounds together.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with). Rounds after the one that failed are not run.
    #[track_caller]
    pub fn run_rounds<'env>(
        &mut self,
        options: &RunOptions,
        rounds: u32,
        mut program: impl for<'s> FnMut(u32, &mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<()> {
        check_rounds(rounds)?;
        let site = Site::caller();
        self.recorded(options, |device, session| {
            device.rounds(rounds, |device, count| {
                device.run_round(options, session, count, site, |o| program(count.number, o))
            })
        })
    }

    /// Calls `run` for every round and adds up the reports.
    pub(crate) fn rounds(
        &mut self,
        rounds: u32,
        mut run: impl FnMut(&mut Self, &RoundCount) -> Result<()>,
    ) -> Result<()> {
        let mut total = RunReport::default();
        let mut outcome = Ok(());
        let mut count = RoundCount::first(self.workers());
        for round in 0..rounds.max(1) {
            (count.number, count.tasks_before) = (round, total.tasks);
            outcome = run(self, &count);
            total.add(&self.report);
            if outcome.is_err() {
                break;
            }
        }
        self.report = total;
        outcome
    }

    /// Calls `run` inside the recording that was asked for, if any. The recording is ended however `run` ends, also by a
    /// panic.
    pub(crate) fn recorded<R>(
        &mut self,
        options: &RunOptions,
        run: impl FnOnce(&mut Self, Option<&Session>) -> Result<R>,
    ) -> Result<R> {
        self.check_whole()?;
        if self.is_isolated() {
            return Err(refuse_closure());
        }
        self.engine.check_kernels(&self.kernels)?;
        self.count_run();
        if let Some(session) = self.attached.take() {
            // The host process gets the records out, so there is no recorder to rescue here.
            self.rescue = options.on_hung.as_ref().map(|hook| Arc::new(Rescue::new(None, Some(hook))));
            let outcome = run(self, Some(&session));
            self.rescue = None;
            return outcome;
        }
        let Some(record) = self.recording_of(options) else {
            self.rescue = options.on_hung.as_ref().map(|hook| Arc::new(Rescue::new(None, Some(hook))));
            let outcome = run(self, None);
            self.rescue = None;
            return outcome;
        };
        let mut recorder = self.start_recording(&record, self.engine.drive(), None)?;
        let (tick, ns) = self.engine.clock_pair(recorder.elapsed_ns());
        recorder.clock_pair(tick, ns);
        let session = recorder.session().handle();
        let rescue = Arc::new(Rescue::new(Some(recorder), options.on_hung.as_ref()));
        self.rescue = Some(Arc::clone(&rescue));
        let outcome = catch_unwind(AssertUnwindSafe(|| run(self, Some(&session))));
        self.rescue = None;
        let mut recorder = match rescue.take() {
            Ok(recorder) => recorder,
            Err(rescued) => {
                (self.report.dir, self.report.ledger) = (rescued.dir, rescued.ledger);
                return outcome.unwrap_or_else(|panic| resume_unwind(panic));
            }
        };
        let (tick, ns) = self.engine.clock_pair(recorder.elapsed_ns());
        recorder.clock_pair(tick, ns);
        self.conclude(recorder, outcome)
    }

    /// Runs one round of a program.
    fn run_round<'env, R>(
        &mut self,
        options: &RunOptions,
        session: Option<&Session>,
        count: &RoundCount,
        site: Site,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let (run, device) = self.next_run();
        let limits = self.limits();
        let kernels = Arc::clone(&self.kernels);
        // What the kernels may touch: dropped after the last of them has returned.
        let mut keep: Vec<Box<dyn Any>> = Vec::new();
        let (mut program, mut outcome) = (Some(program), None);
        let mut call = |sink: &mut dyn SubmitSink| {
            let Some(program) = program.take() else { return };
            let mut scratch = Scratch::new();
            outcome = Some(catch_unwind(AssertUnwindSafe(|| {
                program(&mut Orchestrator::new(sink, &mut keep, &kernels, &mut scratch, (run, device), limits))
            })));
        };
        let failure = self.run_led(options, session, count, site, Lead::program(&mut call));
        if !self.lost.is_empty() {
            // Whoever was left behind may use it for ever.
            std::mem::forget(keep);
        }
        match (outcome, failure?) {
            (Some(Err(panic)), _) => resume_unwind(panic),
            (_, Some(failure)) => Err(self.explain(&failure)),
            (Some(Ok(result)), None) => result,
            (None, None) => Err(self.explain(&Failure::new(ErrorCode::Defect, FailureCause::ProgramNotRun))),
        }
    }

    /// Runs one round that is led by `lead`. Returns its first failure.
    pub(crate) fn run_led(
        &mut self,
        options: &RunOptions,
        session: Option<&Session>,
        count: &RoundCount,
        site: Site,
        lead: Lead<'_>,
    ) -> Result<Option<Failure>> {
        // A thread that executes a kernel which never returns should be one that can be left behind. But a cohort of as many blocks
        // as there are workers needs every one of them.
        let spares = options.gives_up_kernels() && self.workers() > 1;
        let lend = match self.lend {
            true if spares => Lend::Seats,
            true => Lend::Everything,
            false => Lend::Nothing,
        };
        let (kernels, capacities) = (&self.kernels, &self.capacities);
        let rescue = self.rescue.clone();
        let site = options.site.unwrap_or(site);
        let board = self.board(session);
        let round = Round {
            kernels,
            capacities,
            options,
            session,
            count,
            board: &board,
            lend,
            rescue: rescue.as_deref(),
            site,
        };
        let ran = block::outside(|| self.engine.run(&round, lead))?;
        self.report = ran.report;
        if let Closing::LeftBehind(stragglers) = ran.closing {
            self.report.left_behind = stragglers.len() as u32;
            self.lost = stragglers;
        }
        Ok(ran.failure)
    }

    /// The status board of a round: the recording's, or one of this device's own.
    fn board(&self, session: Option<&Session>) -> Arc<Board> {
        match session {
            Some(session) => session.board(),
            None => Arc::clone(&self.board),
        }
    }

    /// Refuses to run on a device that has lost somebody.
    fn check_whole(&self) -> Result<()> {
        let Some(first) = self.lost.first() else { return Ok(()) };
        let kernel = first.kernel.and_then(|kernel| self.kernels.get(kernel.index()));
        let doing = match (first.task, kernel) {
            (Some(task), Some(kernel)) => {
                let (name, seconds) = (&kernel.name, first.since.elapsed().as_secs());
                format!(
                    " The first of them has not returned from kernel {name} of task {task} for {seconds} s or longer."
                )
            }
            _ => String::new(),
        };
        let (lost, s) = (self.lost.len(), if self.lost.len() == 1 { "" } else { "s" });
        Err(Error::new(
            ErrorCode::DeviceLost,
            format!("The device has lost {lost} thread{s} in an earlier run.{doing} Open another device."),
        ))
    }

    /// The threads that did not leave an earlier run: what each of them is in, and since when. A device that has lost any runs
    /// nothing any more.
    pub fn lost(&self) -> &[Straggler] {
        &self.lost
    }

    /// A failure in words.
    pub(crate) fn explain(&self, failure: &Failure) -> Error {
        Error::from_failure(failure, |kernel| self.kernels[kernel as usize].name.clone())
    }

    /// Ends the recording of a run that ended with `outcome`.
    pub(crate) fn conclude<R>(&mut self, recorder: Recorder, outcome: std::thread::Result<Result<R>>) -> Result<R> {
        let panicked = outcome.as_ref().err().map(|panic| Error::orchestration_panicked(panic.as_ref()));
        let error = outcome.as_ref().ok().and_then(|result| result.as_ref().err()).or(panicked.as_ref());
        self.report.dir = Some(recorder.path().to_path_buf());
        if !self.lost.is_empty() {
            // Whoever was left behind may be in the middle of a record.
            recorder.session().device_lost();
        }
        let ledger = recorder.finish(&self.report, error);
        match outcome {
            Ok(Err(error)) => {
                self.report.ledger = ledger.ok();
                Err(error)
            }
            Ok(Ok(value)) => {
                self.report.ledger = Some(ledger?);
                Ok(value)
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    pub(crate) fn run_facts(&self) -> RunFacts<'_> {
        let facts = self.engine.facts();
        RunFacts {
            engine: facts.engine,
            arch: facts.arch,
            virtual_time: facts.virtual_time,
            emulated: facts.emulated,
            device_pid: self.device_pid(),
            device_run: self.run_count,
            agents: facts.agents,
            cores: facts.cores,
            capacities: &self.capacities,
            kernels: self.kernels.iter().map(|kernel| (kernel.name.clone(), kernel.class)).collect(),
            clock_hz: facts.clock_hz,
            host_mapped: facts.host_mapped,
            clock_source: facts.clock_source,
        }
    }

    /// Whether the device is a process of its own.
    pub fn is_isolated(&self) -> bool {
        self.engine.link().is_some()
    }

    /// The process that the device is, if it is one of its own.
    pub fn device_pid(&self) -> Option<u32> {
        self.engine.link().map(Link::pid)
    }

    pub(crate) fn link(&self) -> Result<&Link> {
        let none = || {
            Error::new(
                ErrorCode::Defect,
                "The device is no process of its own. That is a defect of the runtime, not of the program; please report it.",
            )
        };
        self.engine.link().ok_or_else(none)
    }

    pub(crate) fn engine_facts(&self) -> EngineFacts {
        self.engine.facts()
    }

    pub(crate) fn clock_pair(&self, elapsed_ns: u64) -> (u64, u64) {
        self.engine.clock_pair(elapsed_ns)
    }

    /// Counts another run. Its rounds are not counted apart.
    pub(crate) fn count_run(&mut self) {
        self.run_count += 1;
    }

    /// Makes the next run record into `session`, whatever its options say.
    pub(crate) fn attach(&mut self, session: Session) {
        self.attached = Some(session);
    }

    /// Undoes [`attach`](Self::attach).
    pub(crate) fn detach(&mut self) {
        self.attached = None;
    }

    /// Gives the device other kernels; returns those it had.
    pub(crate) fn swap_kernels(&mut self, kernels: Arc<Vec<KernelEntry>>) -> Arc<Vec<KernelEntry>> {
        std::mem::replace(&mut self.kernels, kernels)
    }

    /// What the last run did.
    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// What executes tasks: threads, or the cores of a chip.
    pub fn workers(&self) -> usize {
        self.engine.workers()
    }

    /// The cost table's kernels that this device does not have: likely misspelt, or of another program.
    pub fn unused_costs(&self) -> Vec<&str> {
        let named = self.engine.costed_kernels().into_iter();
        named.filter(|name| !self.kernel_names().any(|kernel| kernel == *name)).collect()
    }

    /// Maps what the agents of a prebuilt graph share.
    pub(crate) fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        self.engine.share(rings)
    }

    /// What the device can place together: parts of a mixed task, blocks that start together.
    pub fn limits(&self) -> ShapeLimits {
        self.engine.limits()
    }

    pub(crate) fn kernels(&self) -> &[KernelEntry] {
        &self.kernels
    }

    pub(crate) fn kernels_mut(&mut self) -> &mut Arc<Vec<KernelEntry>> {
        &mut self.kernels
    }

    /// Numbers of the next run and of this device.
    pub(crate) fn next_run(&mut self) -> (u64, u64) {
        self.runs += 1;
        (self.number << 32 | self.runs, self.number)
    }

    pub(crate) fn environment_recording(&self) -> Option<&RecordOptions> {
        self.recording.as_ref()
    }

    pub(crate) fn set_report(&mut self, report: RunReport) {
        self.report = report;
    }

    /// Sizes of rings and tensormap.
    pub fn capacities(&self) -> &Capacities {
        &self.capacities
    }

    /// The names of the kernels, by number.
    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.name.as_str())
    }
}
