//! The engine `virtual`: a run as coroutines of one event loop.
//!
//! The orchestrator, the agents, the probe and the collector are those of the other engines. Here they are only put
//! together: agents that are their own cores on arch `host`, schedulers with cores behind mailboxes on a chip.

use crate::arg::Scratch;
use crate::cancel::CancelToken;
use crate::conduct::{Part, conduct};
use crate::costs::CostTable;
use crate::crew::defect;
use crate::device::{Device, Round};
use crate::error::{Error, Result};
use crate::guard::KernelGuard;
use crate::options::{Capacities, RunOptions};
use crate::orchestrator::Orchestrator;
use crate::prebuilt::Prebuilt;
use crate::record::{RecordOptions, Recorder, Setting, core_type};
use crate::report::{RunReport, WorkerReport, load_of};
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{AgentId, CoreId, ErrorCode, RINGS};
use plimsoll_collect::{Drive, Role};
use plimsoll_platform::virtual_time::{Body, Faults, KernelCost, Moment};
use plimsoll_platform::{ArchSpec, CoreClass, Virtual, VirtualWorld};
use plimsoll_probe::{Lane, Off, Probe, Recording};
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::{Agent, Books, Failure, KernelEntry, Mailbox, Runner, Shared, Submitter};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU32;

/// Stacks: the orchestrator's holds the user's code, and a worker's its kernels; a scheduler runs only ours.
const PROGRAM_STACK: usize = 16 << 20;
const WORKER_STACK: usize = 4 << 20;
const SCHEDULER_STACK: usize = 256 << 10;

/// Workers of arch `host` unless told otherwise: the same on every machine, so that runs are.
const HOST_WORKERS: usize = 4;

/// What runs a device's tasks.
#[derive(Clone, Debug, Default)]
pub enum EngineKind {
    /// Threads of this machine.
    #[default]
    Host,
    /// Virtual time.
    Virtual(Box<VirtualOptions>),
}

impl From<VirtualOptions> for EngineKind {
    fn from(options: VirtualOptions) -> Self {
        EngineKind::Virtual(Box::new(options))
    }
}

/// A device in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualOptions {
    /// The chip, or this machine; every number of it may be changed.
    pub arch: ArchSpec,
    /// Decides ties, interleavings and drawn costs: the same seed, the same run.
    pub seed: u64,
    /// What kernels cost.
    pub costs: CostTable,
    /// What goes wrong, for tests.
    pub faults: Faults,
}

impl VirtualOptions {
    /// A device of this arch with its usual costs.
    pub fn new(arch: &ArchSpec, seed: u64) -> Self {
        Self { arch: arch.clone(), seed, costs: CostTable::default(), faults: Faults::default() }
    }
}

/// The rings and the world of a device in virtual time.
#[derive(Debug)]
pub(crate) struct VirtualMachine {
    pub(crate) shared: Shared,
    pub(crate) platform: Virtual,
    pub(crate) options: VirtualOptions,
}

impl VirtualMachine {
    pub(crate) fn open(mut options: VirtualOptions, workers: Option<usize>, capacities: &Capacities) -> Result<Self> {
        options.costs.check()?;
        options.costs.apply(&mut options.arch);
        let arch = &options.arch;
        arch.check()
            .map_err(|too_large| Error::invalid(format!("The arch {} cannot be used. {too_large}.", arch.name)))?;
        if let Some(fault) = options.faults.fault() {
            return Err(Error::invalid(format!("The faults cannot be used. {fault}. Give smaller ones.")));
        }
        let cores = arch.cores();
        if cores > 0 && workers.is_some() {
            return Err(Error::invalid(format!(
                "The arch {} has {cores} cores, not workers. Workers are the threads of arch host. Change its clusters instead.",
                arch.name
            )));
        }
        if cores == 0 && arch.sched_threads > 0 {
            return Err(Error::invalid(format!(
                "The arch {} has {} scheduler threads and no cores. There is nothing for them to schedule. Give it at least one cluster, with at least one core.",
                arch.name, arch.sched_threads
            )));
        }
        if cores > 0 && (arch.sched_threads == 0 || cores > MOST_CORES || arch.sched_threads > MOST_CORES) {
            return Err(Error::invalid(format!(
                "An arch cannot have {cores} cores and {} scheduler threads. It needs at least one scheduler, and at most {MOST_CORES} of each. Change its clusters or scheduler threads.",
                arch.sched_threads
            )));
        }
        let agents = if cores > 0 { 1 + arch.sched_threads as usize } else { workers.unwrap_or(HOST_WORKERS) };
        let shared = share(arch, agents, capacities.rings).map_err(|error| crate::device::no_memory(&error))?;
        let platform = Virtual::new(arch, agents, options.seed, options.faults.clone());
        Ok(Self { shared, platform, options })
    }

    /// Whether cores stand behind mailboxes.
    fn is_chip(&self) -> bool {
        self.options.arch.cores() > 0
    }

    /// What executes tasks: cores, or workers.
    pub(crate) fn workers(&self) -> usize {
        if self.is_chip() { self.options.arch.cores() as usize } else { self.shared.agents() }
    }

    fn cores_of(&self, agent: AgentId) -> impl Iterator<Item = (CoreId, CoreClass)> + '_ {
        let arch = &self.options.arch;
        let owned = (0..arch.cores()).filter(move |&core| arch.owner(core) == agent);
        owned.map(|core| (CoreId(core as u16), arch.class_of(core)))
    }

    pub(crate) fn setting<'a>(&'a self, capacities: &'a Capacities, kernels: &'a [KernelEntry]) -> Setting<'a> {
        let arch = &self.options.arch;
        let role = if self.is_chip() { "scheduler" } else { "worker" };
        let agent = |at: usize| match at {
            0 => ("orchestrator".to_owned(), Role::BOTH),
            _ => (format!("{role} {at}"), Role::SCHEDULER),
        };
        let cores = match self.is_chip() {
            true => (0..arch.cores()).map(|core| (core_type(arch.class_of(core)), arch.owner(core).0)).collect(),
            false => (0..self.shared.agents()).map(|at| (core_type(CoreClass::Any), at as u16)).collect(),
        };
        Setting {
            engine: "virtual",
            arch: arch.name,
            virtual_time: true,
            agents: (0..self.shared.agents()).map(agent).collect(),
            cores,
            capacities,
            kernels,
            clock_hz: self.platform.hz(),
            clock_source: ClockSource::Virtual,
        }
    }

    /// Ends the run at its deadline, unless it ends before.
    fn keep_time(&self, shared: &Shared, deadline: std::time::Duration) {
        let at = self.platform.now_ns().saturating_add(deadline.as_nanos().try_into().unwrap_or(u64::MAX));
        self.platform.nap_until(at);
        if !self.platform.agents_done() {
            let what = format!("the run was still going at its deadline of {deadline:?} of virtual time");
            shared.fail(&self.platform, Failure::new(ErrorCode::DeadlineExceeded, what));
        }
    }

    /// Looks around before every event, and makes something happen when nothing can.
    fn watch(&self, shared: &Shared, options: &RunOptions, moment: Moment) {
        match moment {
            Moment::Stuck => {
                self.platform.abandon();
                let (now, done) = (self.platform.now_ns(), shared.done.total());
                let what = format!(
                    "at {now} ns of virtual time nothing can happen any more; {done} tasks have completed and the others \
                     wait for a kernel that does not end"
                );
                shared.fail(&self.platform, Failure::new(ErrorCode::SchedulerTimeout, what));
            }
            Moment::Broken => {
                let what = "the loop of virtual time panicked";
                shared.fail(&self.platform, Failure::new(ErrorCode::Defect, what));
            }
            Moment::Event => {
                let token = options.cancel.as_ref().filter(|_| !shared.stopped());
                if let Some(failure) = token.and_then(CancelToken::failure) {
                    shared.fail(&self.platform, failure);
                }
            }
        }
    }

    /// What the agents share: the device's rings, or a graph's arena.
    pub(crate) fn share(&self, capacities: [Capacity; RINGS]) -> std::io::Result<Shared> {
        share(&self.options.arch, self.shared.agents(), capacities)
    }

    /// Refuses kernels that no core of the arch could ever run.
    fn check_classes(&self, kernels: &[KernelEntry]) -> Result<()> {
        let arch = &self.options.arch;
        let missing = |class| self.is_chip() && !(0..arch.cores()).any(|core| arch.class_of(core) == class);
        for class in [CoreClass::Aic, CoreClass::Aiv].into_iter().filter(|&class| missing(class)) {
            if let Some(kernel) = kernels.iter().find(|kernel| kernel.class == class) {
                let (name, class) = (&kernel.name, class.name());
                return Err(Error::invalid(format!(
                    "Kernel {name} wants a core of class {class}, and this arch has none. Its tasks would wait for ever. Give every cluster at least one {class} core."
                )));
            }
        }
        Ok(())
    }
}

fn share(arch: &ArchSpec, agents: usize, capacities: [Capacity; RINGS]) -> std::io::Result<Shared> {
    if arch.cores() > 0 { Shared::classed(agents, capacities) } else { Shared::new(agents, capacities) }
}

const MOST_CORES: u32 = 1024;

/// What the agents of a run leave behind.
#[derive(Default)]
struct Deeds {
    workers: Vec<WorkerReport>,
}

impl Deeds {
    fn add(&mut self, at: usize, tasks: u64, busy_ns: u64) {
        if self.workers.len() <= at {
            self.workers.resize(at + 1, WorkerReport::default());
        }
        self.workers[at].tasks += tasks;
        self.workers[at].busy_ns += busy_ns;
    }
}

/// One round in virtual time, as all its agents see it.
struct Stage<'r, B: Probe> {
    machine: &'r VirtualMachine,
    /// The device's rings, or a graph's arena.
    shared: &'r Shared,
    kernels: &'r [KernelEntry],
    probe: &'r B,
    round: Round<'r>,
    deeds: RefCell<Deeds>,
}

impl<'r, B: Probe> Stage<'r, B> {
    fn agent(&self, agent: AgentId) -> Agent<'r, Virtual, B::Lane<'r>> {
        let lane = self.round.lane(self.probe, agent);
        let mut out = Agent::new(self.shared, &self.machine.platform, self.kernels, lane, agent);
        if !self.machine.is_chip() {
            out.resume_tokens(self.round.first_token(agent));
        }
        out
    }

    fn ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.machine.platform.hz())) as u64
    }

    fn schedule(&self, agent: AgentId) {
        if !self.machine.is_chip() {
            let mut worker = self.agent(agent);
            let since = worker.ticks();
            worker.work();
            return self.note_worker(&worker, worker.ticks() - since);
        }
        let mut scheduler = Mailbox::new(self.agent(agent), &self.machine.platform, self.machine.cores_of(agent));
        scheduler.resume_tokens(|core| self.round.last_of(core.index()));
        scheduler.work();
        for done in scheduler.totals() {
            let core = done.core.index();
            let tasks = u64::from(done.token - self.round.last_of(core));
            self.round.keep(core, done.token);
            self.deeds.borrow_mut().add(core, tasks, self.ns(done.busy));
        }
    }

    /// What an agent that is its own core did in `span` ticks.
    fn note_worker(&self, worker: &Agent<'_, Virtual, B::Lane<'_>>, span: u64) {
        let busy = self.ns(span.saturating_sub(worker.idle_ticks()));
        let tasks = u64::from(worker.dispatches() - self.round.first_token(worker.id()));
        self.round.keep_token(worker.id(), worker.dispatches());
        self.deeds.borrow_mut().add(worker.id().index(), tasks, busy);
    }

    /// The orchestrator's part: the program, from its first submit to the last completion, then the end of the run.
    fn orchestrate<'env, R>(
        &self,
        part: &mut Part<'_>,
        lend: bool,
        capacities: &Capacities,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> (std::thread::Result<Result<R>>, RunReport) {
        let books = match Books::new(&capacities.rings, capacities.tensormap) {
            Ok(books) => books,
            Err(error) => return (Ok(Err(crate::device::no_memory(&error))), RunReport::default()),
        };
        let lend = lend && !self.machine.is_chip();
        let mut submitter = Submitter::new(self.agent(ORCHESTRATOR), self.kernels, books, lend);
        let outcome = conduct(&mut submitter, part, self.kernels, program);
        let span = submitter.span_ticks();
        submitter.agent.lane.flush();
        if !self.machine.is_chip() {
            self.note_worker(&submitter.agent, span);
        }
        let report = RunReport {
            rounds: 1,
            tasks: submitter.submitted(),
            elapsed_ns: self.ns(span),
            load: load_of(&submitter.peaks(), submitter.peak_sites(), capacities),
            conservative_overlaps: submitter.map().conservative_overlaps(),
            ..RunReport::default()
        };
        (outcome, report)
    }

    /// The orchestrator's part of a launch: it publishes the tasks that wait for nobody, which costs no virtual time
    /// beyond the wake-ups, and waits for the last completion.
    fn launch(&self, prebuilt: &Prebuilt<'_>, lend: bool) -> RunReport {
        let mut agent = self.agent(ORCHESTRATOR);
        prebuilt.record_submits(&mut agent);
        let start = agent.ticks();
        prebuilt.graph.roots().iter().for_each(|&root| agent.publish(root));
        agent.work_until(prebuilt.tasks() as u64, lend && !self.machine.is_chip());
        let span = agent.ticks() - start;
        agent.lane.flush();
        if !self.machine.is_chip() {
            self.note_worker(&agent, span);
        }
        RunReport { rounds: 1, tasks: prebuilt.tasks() as u64, elapsed_ns: self.ns(span), ..RunReport::default() }
    }
}

/// What drains the recorder, if there is one.
type Drain<'d> = Option<&'d dyn Fn() -> usize>;

impl Device {
    /// Runs a program in virtual time, recorded or not.
    pub(crate) fn run_virtual<'env, R>(
        &mut self,
        options: &RunOptions,
        site: &'static Location<'static>,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let alone = Round { number: 0, tokens: &[] };
        match options.record.as_ref().filter(|record| !record.flags.is_empty()) {
            Some(record) => self.recorded_virtual(record, |device, probe, drain| {
                device.run_virtual_probed(options, probe, Some(drain), alone, site, program)
            }),
            None => self.run_virtual_probed(options, &Off, None, alone, site, program),
        }
    }

    /// Runs a program several times in virtual time, one after the other, in one recording. Time goes on.
    pub(crate) fn run_virtual_rounds<'env>(
        &mut self,
        options: &RunOptions,
        rounds: u32,
        site: &'static Location<'static>,
        mut program: impl for<'s> FnMut(u32, &mut Orchestrator<'s, 'env>) -> Result<()>,
    ) -> Result<()> {
        let tokens: Vec<AtomicU32> = (0..self.workers()).map(|_| AtomicU32::new(0)).collect();
        let tokens = &tokens[..];
        match options.record.as_ref().filter(|record| !record.flags.is_empty()) {
            Some(record) => self.recorded_virtual(record, |device, probe, drain| {
                device.rounds(rounds, |device, number| {
                    let round = Round { number, tokens };
                    device.run_virtual_probed(options, probe, Some(drain), round, site, |o| program(number, o))
                })
            }),
            None => self.rounds(rounds, |device, number| {
                let round = Round { number, tokens };
                device.run_virtual_probed(options, &Off, None, round, site, |o| program(number, o))
            }),
        }
    }

    /// Runs with a recording that the loop itself drains; the export is on the way out, whatever the way.
    pub(crate) fn recorded_virtual<R>(
        &mut self,
        record: &RecordOptions,
        run: impl FnOnce(&mut Self, &Recording<'_, VirtualWorld>, &dyn Fn() -> usize) -> Result<R>,
    ) -> Result<R> {
        let mut recorder = self.start_recording(record, Drive::Caller)?;
        let platform = self.virtual_machine().platform.clone();
        let world = platform.recorder_world();
        let pair = |recorder: &mut Recorder| {
            let now = platform.now_ns();
            recorder.clock_pair(platform.ticks_at(now), now);
        };
        pair(&mut recorder);
        let outcome = {
            let probe = recorder.session().probe(world);
            let drain = || recorder.session().drain_step();
            catch_unwind(AssertUnwindSafe(|| run(self, &probe, &drain)))
        };
        pair(&mut recorder);
        self.conclude(recorder, outcome)
    }

    fn run_virtual_probed<'env, R, B: Probe>(
        &mut self,
        options: &RunOptions,
        probe: &B,
        drain: Drain<'_>,
        round: Round<'_>,
        site: &'static Location<'static>,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let (run, device, lend) = self.next_run();
        let (machine, capacities) = (self.virtual_machine(), self.capacities());
        machine.shared.open();
        // Dropped after the loop: what the kernels may touch outlives the last of them.
        let mut keep: Vec<Box<dyn Any>> = Vec::new();
        let mut scratch = Scratch::new();
        let ((outcome, report), deeds) =
            self.virtual_round(options, probe, drain, round, &machine.shared, |stage| {
                let (keep, scratch) = (&mut keep, &mut scratch);
                let mut part = Part { keep, scratch, run, device, site, read_timeout: options.read_timeout };
                stage.orchestrate(&mut part, lend, capacities, program)
            })?;
        let dispatches = machine.shared.done.total();
        self.set_report(RunReport { dispatches, workers: deeds.workers, ..report });
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Launches a graph once in virtual time.
    pub(crate) fn launch_virtual<B: Probe>(
        &mut self,
        prebuilt: &Prebuilt<'_>,
        options: &RunOptions,
        probe: &B,
        drain: Drain<'_>,
        round: Round<'_>,
    ) -> Result<()> {
        let (lend, shared) = (self.lends(), &prebuilt.graph.shared);
        prebuilt.graph.reset();
        let lead = |stage: &Stage<'_, B>| stage.launch(prebuilt, lend);
        let (report, deeds) = self.virtual_round(options, probe, drain, round, shared, lead)?;
        self.set_report(RunReport { dispatches: shared.done.total(), workers: deeds.workers, ..report });
        match shared.failure() {
            Some(failure) => Err(Error::from_failure(&failure, |kernel| self.kernels()[kernel as usize].name.clone())),
            None => Ok(()),
        }
    }

    /// One round: the orchestrator does `lead`, the other agents schedule, the collector drains and the timer waits, until
    /// all have returned.
    fn virtual_round<R, B: Probe>(
        &self,
        options: &RunOptions,
        probe: &B,
        drain: Drain<'_>,
        round: Round<'_>,
        shared: &Shared,
        lead: impl FnOnce(&Stage<'_, B>) -> R,
    ) -> Result<(R, Deeds)> {
        let (machine, kernels) = (self.virtual_machine(), self.kernels());
        machine.check_classes(kernels)?;
        let stage = Stage { machine, shared, kernels, probe, round, deeds: RefCell::default() };
        let mut outcome = None;
        let mut bodies: Vec<Body<'_>> = Vec::new();
        {
            let (outcome, stage) = (&mut outcome, &stage);
            bodies.push(body(PROGRAM_STACK, move || {
                *outcome = Some(lead(stage));
                shared.close(&machine.platform);
            }));
        }
        let stack = if machine.is_chip() { SCHEDULER_STACK } else { WORKER_STACK };
        for agent in 1..shared.agents() {
            let stage = &stage;
            bodies.push(body(stack, move || stage.schedule(AgentId(agent as u16))));
        }
        let collector = drain.map(|drain| {
            bodies.push(body(SCHEDULER_STACK, move || machine.platform.serve_recorder(drain)));
            bodies.len() - 1
        });
        if let Some(deadline) = options.deadline {
            bodies.push(body(SCHEDULER_STACK, move || machine.keep_time(shared, deadline)));
        }
        let costs: Vec<KernelCost> =
            kernels.iter().map(|k| machine.options.costs.cost_of(&k.name, &machine.options.arch.costs)).collect();
        let runner = Runner { shared, platform: &machine.platform, kernels };
        let guard = KernelGuard::start(&machine.platform, kernels);
        let watch = |moment| machine.watch(shared, options, moment);
        // The program's panics and those of kernels are caught where they happen: what arrives here is a defect.
        let run = AssertUnwindSafe(|| machine.platform.run(bodies, collector, costs, &runner, watch));
        let ran = catch_unwind(run).map_err(|panic| defect("virtual time", panic.as_ref()));
        drop(guard);
        let explained =
            |failure: Failure| Error::from_failure(&failure, |kernel| kernels[kernel as usize].name.clone());
        ran.map_err(explained)?.map_err(|error| crate::device::no_memory(&error))?;
        match outcome {
            Some(outcome) => Ok((outcome, stage.deeds.into_inner())),
            None => unreachable!("the loop ends when the orchestrator has"),
        }
    }
}

fn body<'a>(stack_bytes: usize, run: impl FnOnce() + 'a) -> Body<'a> {
    Body { stack_bytes, run: Box::new(run) }
}
