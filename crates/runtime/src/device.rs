//! A device: rings, workers and kernels; and the life of a run on it.

use crate::arg::Scratch;
use crate::conduct::Part;
use crate::crew::{Crew, Floor, Job};
use crate::error::{Error, Result};
use crate::kernel::{IntoKernel, Kernel};
use crate::options::{Capacities, RunOptions, check_rounds};
use crate::orchestrator::Orchestrator;
use crate::record::{RecordOptions, RecordWorld, Recorder, Setting, core_type, region_clock};
use crate::report::{RunReport, WorkerReport, load_of};
use crate::virtual_run::{EngineKind, VirtualMachine};
use plimsoll_abi::record::AicoreTask;
use plimsoll_abi::{AgentId, ErrorCode, KernelId};
use plimsoll_collect::{Drive, Role};
use plimsoll_platform::{CoreClass, Host};
use plimsoll_probe::{Lane, Off, Probe, Recording};
use plimsoll_sched::policy::Grain;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::{Agent, Books, Failure, KernelEntry, Shared, Submitter};
use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How a device is made.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    workers: Option<usize>,
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
    pub fn open(self) -> Result<Device> {
        let capacities = match self.capacities {
            Some(capacities) => capacities,
            None => Capacities::from_env()?,
        };
        capacities.validate()?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.unwrap_or(cpus);
        let is_host = matches!(self.engine, EngineKind::Host);
        if workers == 0 || workers > MOST_WORKERS {
            return Err(Error::invalid(format!(
                "A device cannot have {workers} workers. It needs at least one and has at most {MOST_WORKERS}. This machine has {cpus} CPUs."
            )));
        }
        if self.no_lend && (self.workers == Some(1) || (is_host && workers == 1)) {
            return Err(Error::invalid(
                "A device of one worker that does not lend a hand would never run a task. The one worker is the orchestrating thread. Use two workers, or let it lend.",
            ));
        }
        let mut books = None;
        let machine = match self.engine {
            EngineKind::Host => {
                books = Some(new_books(&capacities)?);
                let shared = Shared::new(workers, capacities.rings).map_err(|error| no_memory(&error))?;
                Machine::Threads(Crew::start(shared).map_err(|error| no_memory(&error))?)
            }
            EngineKind::Virtual(options) => {
                Machine::Virtual(Box::new(VirtualMachine::open(*options, self.workers, &capacities)?))
            }
        };
        static DEVICES: AtomicU64 = AtomicU64::new(1);
        Ok(Device {
            machine,
            kernels: Vec::new(),
            capacities,
            lend: !self.no_lend,
            number: DEVICES.fetch_add(1, Ordering::Relaxed),
            runs: 0,
            report: RunReport::default(),
            books,
        })
    }
}

fn new_books(capacities: &Capacities) -> Result<Books> {
    Books::new(&capacities.rings, capacities.tensormap).map_err(|error| no_memory(&error))
}

const MOST_WORKERS: usize = 1024;

pub(crate) fn no_memory(error: &std::io::Error) -> Error {
    let what = format!(
        "The system refused memory or threads: {error}. The rings and the workers' stacks need address space, and every worker is a thread. Use smaller rings or fewer workers, or raise the limits of the process."
    );
    Error::new(ErrorCode::SystemRefused, what)
}

/// Rings, workers and kernels. Runs come one after the other; several devices may live in one process.
pub struct Device {
    machine: Machine,
    kernels: Vec<KernelEntry>,
    capacities: Capacities,
    lend: bool,
    number: u64,
    runs: u64,
    report: RunReport,
    /// What a run on threads leaves to the next one, unless it failed.
    books: Option<Books>,
}

/// What a device runs its tasks on.
enum Machine {
    Threads(Crew),
    Virtual(Box<VirtualMachine>),
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({} workers, {} kernels)", self.workers(), self.kernels.len())
    }
}

/// What the workers of one run need.
pub(crate) struct Work<'r, B: Probe> {
    pub(crate) floor: &'r Floor,
    /// What the agents of this run share: the device's rings, or a graph's arena.
    pub(crate) shared: &'r Shared,
    pub(crate) kernels: &'r [KernelEntry],
    pub(crate) probe: &'r B,
    /// Ticks that each agent had something to do.
    pub(crate) busy: &'r [AtomicU64],
    pub(crate) round: Round<'r>,
}

/// Which round of a recording a run is.
#[derive(Clone, Copy)]
pub(crate) struct Round<'r> {
    pub(crate) number: u32,
    /// The last dispatch token of every agent, or core behind a mailbox: rounds of one recording go on counting.
    pub(crate) tokens: &'r [AtomicU32],
}

impl Round<'_> {
    /// A lane that records this round.
    pub(crate) fn lane<'p, B: Probe>(&self, probe: &'p B, agent: AgentId) -> B::Lane<'p> {
        let mut lane = probe.lane(agent);
        lane.set_round(self.number);
        lane
    }

    pub(crate) fn first_token(&self, agent: AgentId) -> u32 {
        self.last_of(agent.index())
    }

    pub(crate) fn keep_token(&self, agent: AgentId, token: u32) {
        self.keep(agent.index(), token);
    }

    /// The last token of an earlier round for what executes tasks: an agent, or a core behind a mailbox.
    pub(crate) fn last_of(&self, at: usize) -> u32 {
        self.tokens.get(at).map_or(0, |token| token.load(Ordering::Relaxed))
    }

    pub(crate) fn keep(&self, at: usize, token: u32) {
        if let Some(kept) = self.tokens.get(at) {
            kept.store(token, Ordering::Relaxed);
        }
    }
}

impl<B: Probe> Work<'_, B> {
    /// # Safety
    /// `context` is a `Work<B>` that is valid for the call.
    pub(crate) unsafe fn call(context: *const (), agent: AgentId) {
        // SAFETY: the caller's promise.
        let work = unsafe { &*context.cast::<Work<'_, B>>() };
        let lane = work.round.lane(work.probe, agent);
        let mut worker = Agent::new(work.shared, &work.floor.platform, work.kernels, lane, agent);
        worker.resume_tokens(work.round.first_token(agent));
        let since = worker.ticks();
        worker.work();
        work.round.keep_token(agent, worker.dispatches());
        let busy = (worker.ticks() - since).saturating_sub(worker.idle_ticks());
        work.busy[agent.index()].fetch_add(busy, Ordering::Relaxed);
    }
}

impl Device {
    /// How a device is made.
    pub fn builder() -> Builder {
        Builder::default()
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
        if self.kernels.len() >= Self::MOST_KERNELS {
            return Kernel::none();
        }
        // SAFETY: the device calls it for tasks only that were submitted with the handle below, which carries the kinds.
        let (call, grain) = (unsafe { body.into_call() }, Grain::default());
        self.kernels.push(KernelEntry { name: name.to_owned(), class, call, grain });
        Kernel::new(KernelId(self.kernels.len() as u32 - 1), self.number)
    }

    /// Kernels that a device has room for: records have that many numbers.
    pub const MOST_KERNELS: usize = AicoreTask::KERNELS as usize;

    /// Runs a program and returns when every task has completed.
    #[track_caller]
    pub fn run<'env, R>(
        &mut self,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.run_with(&RunOptions::default(), program)
    }

    /// As [`run`](Self::run), with options.
    #[track_caller]
    pub fn run_with<'env, R>(
        &mut self,
        options: &RunOptions,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let site = Location::caller();
        if matches!(self.machine, Machine::Virtual(_)) {
            return self.run_virtual(options, site, program);
        }
        let alone = Round { number: 0, tokens: &[] };
        match &options.record {
            Some(record) if !record.flags.is_empty() => {
                self.recorded(record, |device, probe| device.run_probed(options, probe, alone, site, program))
            }
            _ => self.run_probed(options, &Off, alone, site, program),
        }
    }

    /// Runs a program several times, one after the other, in one recording; records carry the round.
    ///
    /// The report afterwards is that of all rounds together.
    #[track_caller]
    pub fn run_rounds<'env>(
        &mut self,
        options: &RunOptions,
        rounds: u32,
        mut program: impl for<'s> FnMut(u32, &mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<()> {
        check_rounds(rounds)?;
        let site = Location::caller();
        if matches!(self.machine, Machine::Virtual(_)) {
            return self.run_virtual_rounds(options, rounds, site, program);
        }
        let tokens: Vec<AtomicU32> = (0..self.workers()).map(|_| AtomicU32::new(0)).collect();
        match &options.record {
            Some(record) if !record.flags.is_empty() => self.recorded(record, |device, probe| {
                device.rounds(rounds, |device, number| {
                    let round = Round { number, tokens: &tokens };
                    device.run_probed(options, probe, round, site, |o| program(number, o))
                })
            }),
            _ => self.rounds(rounds, |device, number| {
                let round = Round { number, tokens: &tokens };
                device.run_probed(options, &Off, round, site, |o| program(number, o))
            }),
        }
    }

    /// Calls `run` for every round and adds up the reports.
    pub(crate) fn rounds(&mut self, rounds: u32, mut run: impl FnMut(&mut Self, u32) -> Result<()>) -> Result<()> {
        let mut total = RunReport::default();
        let mut outcome = Ok(());
        for round in 0..rounds.max(1) {
            outcome = run(self, round);
            total.add(&self.report);
            if outcome.is_err() {
                break;
            }
        }
        self.report = total;
        outcome
    }

    /// Runs with a recording; the export is on the way out, whatever the way.
    pub(crate) fn recorded<R>(
        &mut self,
        record: &RecordOptions,
        run: impl FnOnce(&mut Self, &Recording<'_, RecordWorld>) -> Result<R>,
    ) -> Result<R> {
        let clock = self.crew().floor.platform.clock();
        let mut recorder = self.start_recording(record, Drive::Thread)?;
        let world = RecordWorld { clock, bell: recorder.session().doorbell() };
        recorder.clock_pair(clock.ticks(), recorder.elapsed_ns());
        let outcome = {
            let probe = recorder.session().probe(world);
            catch_unwind(AssertUnwindSafe(|| run(self, &probe)))
        };
        recorder.clock_pair(clock.ticks(), recorder.elapsed_ns());
        self.conclude(recorder, outcome)
    }

    /// Ends the recording of a run that ended with `outcome`.
    pub(crate) fn conclude<R>(&mut self, recorder: Recorder, outcome: std::thread::Result<Result<R>>) -> Result<R> {
        let panicked = outcome.as_ref().err().map(|panic| Error::orchestration_panicked(panic.as_ref()));
        let error = outcome.as_ref().ok().and_then(|result| result.as_ref().err()).or(panicked.as_ref());
        self.report.dir = Some(recorder.path().to_path_buf());
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

    pub(crate) fn setting(&self) -> Setting<'_> {
        let crew = match &self.machine {
            Machine::Threads(crew) => crew,
            Machine::Virtual(machine) => return machine.setting(&self.capacities, &self.kernels),
        };
        let workers = self.workers();
        let clock = crew.floor.platform.clock();
        let agent = |at: usize| match at {
            0 => ("orchestrator".to_owned(), Role::BOTH),
            _ => (format!("worker {at}"), Role::SCHEDULER),
        };
        Setting {
            engine: "host",
            arch: "host",
            virtual_time: false,
            agents: (0..workers).map(agent).collect(),
            cores: (0..workers).map(|at| (core_type(CoreClass::Any), at as u16)).collect(),
            capacities: &self.capacities,
            kernels: &self.kernels,
            clock_hz: clock.hz(),
            clock_source: region_clock(&clock),
        }
    }

    /// What the last run did.
    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// What executes tasks: threads, or the cores of a chip.
    pub fn workers(&self) -> usize {
        match &self.machine {
            Machine::Threads(crew) => crew.floor.shared.agents(),
            Machine::Virtual(machine) => machine.workers(),
        }
    }

    /// The cost table's kernels that this device does not have: likely misspelt, or of another program.
    pub fn unused_costs(&self) -> Vec<&str> {
        match &self.machine {
            Machine::Threads(_) => Vec::new(),
            Machine::Virtual(machine) => {
                machine.options.costs.names().filter(|name| !self.kernel_names().any(|k| k == *name)).collect()
            }
        }
    }

    pub(crate) fn crew(&self) -> &Crew {
        match &self.machine {
            Machine::Threads(crew) => crew,
            Machine::Virtual(_) => unreachable!("a device in virtual time runs by `run_virtual`"),
        }
    }

    pub(crate) fn virtual_machine(&self) -> &VirtualMachine {
        match &self.machine {
            Machine::Virtual(machine) => machine,
            Machine::Threads(_) => unreachable!("only `run_virtual` asks"),
        }
    }

    /// Whether it runs in virtual time.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self.machine, Machine::Virtual(_))
    }

    /// Whether the orchestrating thread executes tasks when it would wait.
    pub(crate) fn lends(&self) -> bool {
        self.lend
    }

    pub(crate) fn kernels(&self) -> &[KernelEntry] {
        &self.kernels
    }

    /// Numbers of the next run and of this device, and whether the orchestrator lends a hand.
    pub(crate) fn next_run(&mut self) -> (u64, u64, bool) {
        self.runs += 1;
        (self.number << 32 | self.runs, self.number, self.lend)
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

    pub(crate) fn run_probed<'env, R, B: Probe>(
        &mut self,
        options: &RunOptions,
        probe: &B,
        round: Round<'_>,
        site: &'static Location<'static>,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let (run, device, lend) = self.next_run();
        let books = match self.books.take() {
            Some(books) => books,
            None => new_books(&self.capacities)?,
        };
        let floor = &self.crew().floor;
        floor.shared.open();
        let busy: Vec<AtomicU64> = (0..floor.shared.agents()).map(|_| AtomicU64::new(0)).collect();
        let work = Work { floor, shared: &floor.shared, kernels: &self.kernels, probe, busy: &busy, round };
        let lane = round.lane(probe, ORCHESTRATOR);
        let mut agent = Agent::new(&floor.shared, &floor.platform, &self.kernels, lane, ORCHESTRATOR);
        agent.resume_tokens(round.first_token(ORCHESTRATOR));
        let submitter = Submitter::new(agent, &self.kernels, books, lend);
        // SAFETY: `Conduct` closes the gate before `work` goes away, on every way out.
        unsafe { floor.open(Job { call: Work::<B>::call, context: (&raw const work).cast() }) };
        let mut conduct = Conduct { floor: OpenFloor(floor), submitter, keep: Vec::new(), scratch: Scratch::new() };
        let outcome = with_timer(floor, &floor.shared, options, || {
            let Conduct { submitter, keep, scratch, .. } = &mut conduct;
            let mut part = Part { keep, scratch, run, device, site, read_timeout: options.read_timeout };
            crate::conduct::conduct(submitter, &mut part, &self.kernels, program)
        });
        round.keep_token(ORCHESTRATOR, conduct.submitter.agent.dispatches());
        (self.report, self.books) = conduct.end(&busy, &self.capacities);
        match outcome {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// One run while it lasts.
struct Conduct<'r, L: Lane> {
    /// First, so that the workers are gone before anything that they use.
    floor: OpenFloor<'r>,
    submitter: Submitter<'r, Host, L>,
    /// What the kernels may touch: dropped after the last of them has returned.
    keep: Vec<Box<dyn Any>>,
    scratch: Scratch,
}

impl<L: Lane> Conduct<'_, L> {
    /// Sends the workers home and adds up what was done. The books serve the next run, if this one went well.
    fn end(self, busy: &[AtomicU64], capacities: &Capacities) -> (RunReport, Option<Books>) {
        let Self { floor: open, mut submitter, keep, .. } = self;
        let floor = open.0;
        let span = submitter.span_ticks();
        submitter.agent.lane.flush();
        drop(open);
        drop(keep);
        // A short first run must not wait for its report to be exact.
        let hz = u128::from(floor.platform.clock().hz_by_now());
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / hz) as u64;
        busy[0].fetch_add(span.saturating_sub(submitter.agent.idle_ticks()), Ordering::Relaxed);
        let done = &floor.shared.done;
        let workers = busy
            .iter()
            .enumerate()
            .map(|(at, busy)| WorkerReport { tasks: done.by(at), busy_ns: ns(busy.load(Ordering::Relaxed).min(span)) })
            .collect();
        let report = RunReport {
            rounds: 1,
            tasks: submitter.submitted(),
            dispatches: done.total(),
            elapsed_ns: ns(span),
            workers,
            load: load_of(&submitter.peaks(), submitter.peak_sites(), capacities),
            conservative_overlaps: submitter.map().conservative_overlaps(),
            ledger: None,
            dir: None,
        };
        (report, submitter.into_books())
    }
}

/// A floor that a job was let in to. Dropping it sends the workers home and returns when all have left.
struct OpenFloor<'r>(&'r Floor);

impl Drop for OpenFloor<'_> {
    fn drop(&mut self) {
        self.0.close(&self.0.shared);
    }
}

/// Runs `body` while its token may end the run, beside a thread that ends it at its deadline, if either was asked for.
pub(crate) fn with_timer<R>(
    floor: &Arc<Floor>,
    shared: &Arc<Shared>,
    options: &RunOptions,
    body: impl FnOnce() -> R,
) -> R {
    let _word = options.cancel.as_ref().map(|token| {
        let (floor, shared) = (Arc::clone(floor), Arc::clone(shared));
        token.subscribe(move |failure| shared.fail(&floor.platform, failure))
    });
    let Some(deadline) = options.deadline else { return body() };
    let over = (Mutex::new(false), Condvar::new());
    std::thread::scope(|s| {
        s.spawn(|| {
            if !ends_within(&over, deadline) {
                let what = format!("the run was still going at its deadline of {deadline:?}");
                shared.fail(&floor.platform, Failure::new(ErrorCode::DeadlineExceeded, what));
            }
        });
        // On every way out of the body, a panic included: the thread would wait for ever otherwise.
        let _end = Ending(&over);
        body()
    })
}

/// Tells whoever waits for a run's end that it has come.
struct Ending<'w>(&'w (Mutex<bool>, Condvar));

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Waits for the end of a run, for as long as the deadline allows. Whether it came.
fn ends_within(over: &(Mutex<bool>, Condvar), deadline: Duration) -> bool {
    let ended = over.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = over.1.wait_timeout_while(ended, deadline, |ended| !*ended);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}
