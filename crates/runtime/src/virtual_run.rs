//! The engine `virtual`: a run as coroutines of one event loop.
//!
//! The orchestrator, the agents, the probe and the collector are those of the other engines. Here they are only put
//! together: agents that are their own cores on arch `host`, schedulers with cores behind mailboxes on a chip.

use crate::arg::Scratch;
use crate::conduct::{Part, conduct};
use crate::costs::CostTable;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::guard::KernelGuard;
use crate::options::{Capacities, RunOptions};
use crate::orchestrator::Orchestrator;
use crate::record::{Recorder, Setting, core_type};
use crate::report::{RunReport, WorkerReport, load_of};
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{AgentId, CoreId, ErrorCode};
use plimsoll_collect::{Drive, Role};
use plimsoll_graph::Tensormap;
use plimsoll_platform::virtual_time::{Body, Faults, KernelCost, Moment};
use plimsoll_platform::{ArchSpec, CoreClass, Virtual};
use plimsoll_probe::{Lane, Off, Probe};
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::{Agent, Failure, KernelEntry, Mailbox, Runner, Shared, Submitter};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

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
        let mut costs = options.arch.costs;
        options.costs.apply(&mut costs);
        options.arch.costs = costs;
        let arch = &options.arch;
        let cores = arch.cores();
        if cores > 0 && workers.is_some() {
            return Err(Error::invalid(format!(
                "The arch {} has {cores} cores, not workers. Workers are the threads of arch host. Change its clusters instead.",
                arch.name
            )));
        }
        if cores > 0 && (arch.sched_threads == 0 || cores > MOST_CORES || arch.sched_threads > MOST_CORES) {
            return Err(Error::invalid(format!(
                "An arch cannot have {cores} cores and {} scheduler threads. It needs at least one scheduler, and at most {MOST_CORES} of each. Change its clusters or scheduler threads.",
                arch.sched_threads
            )));
        }
        let agents = if cores > 0 { 1 + arch.sched_threads as usize } else { workers.unwrap_or(HOST_WORKERS) };
        let rings = capacities.rings;
        let shared = if cores > 0 { Shared::classed(agents, rings) } else { Shared::new(agents, rings) };
        let shared = shared.map_err(|error| crate::device::no_memory(&error))?;
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

    fn fail(&self, code: ErrorCode, what: String) {
        self.shared.fail(&self.platform, Failure::new(code, what));
    }

    /// Ends the run at its deadline, unless it ends before.
    fn keep_time(&self, deadline: std::time::Duration) {
        let at = self.platform.now_ns().saturating_add(deadline.as_nanos().try_into().unwrap_or(u64::MAX));
        self.platform.nap_until(at);
        if !self.platform.agents_done() {
            self.fail(
                ErrorCode::DeadlineExceeded,
                format!("the run was still going at its deadline of {deadline:?} of virtual time"),
            );
        }
    }

    /// Looks around before every event, and makes something happen when nothing can.
    fn watch(&self, options: &RunOptions, moment: Moment) {
        let cancelled = || options.cancel.as_ref().is_some_and(|token| token.is_cancelled());
        if moment == Moment::Stuck {
            self.platform.abandon();
            let (now, done) = (self.platform.now_ns(), self.shared.done.total());
            self.fail(
                ErrorCode::SchedulerTimeout,
                format!(
                    "at {now} ns of virtual time nothing can happen any more; {done} tasks have completed and the others \
                     wait for a kernel that does not end"
                ),
            );
        } else if !self.shared.stopped() && cancelled() {
            self.fail(ErrorCode::Cancelled, "the run was cancelled".to_owned());
        }
    }
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

/// One run in virtual time, as all its agents see it.
struct Stage<'r, B: Probe> {
    machine: &'r VirtualMachine,
    kernels: &'r [KernelEntry],
    probe: &'r B,
    deeds: RefCell<Deeds>,
}

impl<'r, B: Probe> Stage<'r, B> {
    fn agent(&self, agent: AgentId) -> Agent<'r, Virtual, B::Lane<'r>> {
        Agent::new(&self.machine.shared, &self.machine.platform, self.kernels, self.probe.lane(agent), agent)
    }

    fn ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.machine.platform.hz())) as u64
    }

    fn schedule(&self, agent: AgentId) {
        if !self.machine.is_chip() {
            let mut worker = self.agent(agent);
            let since = worker.ticks();
            worker.work();
            let busy = (worker.ticks() - since).saturating_sub(worker.idle_ticks());
            let tasks = u64::from(worker.dispatches());
            return self.deeds.borrow_mut().add(agent.index(), tasks, self.ns(busy));
        }
        let mut scheduler = Mailbox::new(self.agent(agent), self.machine.cores_of(agent));
        scheduler.work();
        for (core, tasks, busy) in scheduler.deeds() {
            self.deeds.borrow_mut().add(core.index(), tasks, self.ns(busy));
        }
    }

    /// The orchestrator's part: the program, from its first submit to the last completion, then the end of the run.
    fn orchestrate<'env, R>(
        &self,
        part: &mut Part<'_>,
        lend: bool,
        capacities: &Capacities,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> std::thread::Result<(Result<R>, RunReport)> {
        let map = Tensormap::bounded(capacities.tensormap);
        let lend = lend && !self.machine.is_chip();
        let submitter = Submitter::new(self.agent(ORCHESTRATOR), self.kernels, map, lend);
        let mut submitter = match submitter {
            Ok(submitter) => submitter,
            Err(error) => return Ok((Err(crate::device::no_memory(&error)), RunReport::default())),
        };
        let outcome = conduct(&mut submitter, part, self.kernels, program);
        let span = submitter.span_ticks();
        submitter.agent.lane.flush();
        if !self.machine.is_chip() {
            let busy = span.saturating_sub(submitter.agent.idle_ticks());
            self.deeds.borrow_mut().add(0, u64::from(submitter.agent.dispatches()), self.ns(busy));
        }
        let report = RunReport {
            tasks: submitter.submitted(),
            makespan_ns: self.ns(span),
            load: load_of(&submitter.peaks(), submitter.peak_sites(), capacities),
            conservative_overlaps: submitter.map().conservative_overlaps(),
            ..RunReport::default()
        };
        outcome.map(|result| (result, report))
    }
}

impl Device {
    /// Runs a program in virtual time, recorded or not.
    pub(crate) fn run_virtual<'env, R>(
        &mut self,
        options: &RunOptions,
        site: &'static Location<'static>,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let Some(record) = options.record.as_ref().filter(|record| !record.flags.is_empty()) else {
            return self.run_virtual_probed(options, &Off, None, site, program);
        };
        let mut recorder = Recorder::start(record, &self.setting(), Drive::Caller)?;
        let platform = self.virtual_machine().platform.clone();
        let world = platform.recorder_world();
        let pair = |recorder: &mut Recorder| {
            let now = platform.now_ns();
            recorder.clock_pair(platform.ticks_at(now), now);
        };
        pair(&mut recorder);
        let outcome = {
            let probe = recorder.session.probe(world);
            let drain = || recorder.session.drain_step();
            catch_unwind(AssertUnwindSafe(|| self.run_virtual_probed(options, &probe, Some(&drain), site, program)))
        };
        pair(&mut recorder);
        self.conclude(recorder, outcome)
    }

    fn run_virtual_probed<'env, R, B: Probe>(
        &mut self,
        options: &RunOptions,
        probe: &B,
        drain: Option<&dyn Fn() -> usize>,
        site: &'static Location<'static>,
        program: impl for<'s> FnOnce(&mut Orchestrator<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        let (run, device, lend) = self.next_run();
        let (machine, kernels, capacities) = (self.virtual_machine(), self.kernels(), self.capacities());
        machine.shared.open();
        let stage = Stage { machine, kernels, probe, deeds: RefCell::default() };
        // Dropped after the loop: what the kernels may touch outlives the last of them.
        let mut keep: Vec<Box<dyn Any>> = Vec::new();
        let mut scratch = Scratch::new();
        let mut outcome = None;
        let mut bodies: Vec<Body<'_>> = Vec::new();
        {
            let (outcome, keep, scratch, stage) = (&mut outcome, &mut keep, &mut scratch, &stage);
            bodies.push(body(PROGRAM_STACK, move || {
                let mut part = Part { keep, scratch, run, device, site, read_timeout: options.read_timeout };
                *outcome = Some(stage.orchestrate(&mut part, lend, capacities, program));
                machine.shared.close(&machine.platform);
            }));
        }
        let stack = if machine.is_chip() { SCHEDULER_STACK } else { WORKER_STACK };
        for agent in 1..machine.shared.agents() {
            let stage = &stage;
            bodies.push(body(stack, move || stage.schedule(AgentId(agent as u16))));
        }
        let collector = drain.map(|drain| {
            bodies.push(body(SCHEDULER_STACK, move || machine.platform.serve_recorder(drain)));
            bodies.len() - 1
        });
        if let Some(deadline) = options.deadline {
            bodies.push(body(SCHEDULER_STACK, move || machine.keep_time(deadline)));
        }
        let costs: Vec<KernelCost> =
            kernels.iter().map(|k| machine.options.costs.cost_of(&k.name, &machine.options.arch.costs)).collect();
        let runner = Runner { shared: &machine.shared, platform: &machine.platform, kernels };
        let guard = KernelGuard::start(&machine.platform, kernels);
        let ran = machine.platform.run(bodies, collector, costs, &runner, |moment| machine.watch(options, moment));
        drop(guard);
        ran.map_err(|error| crate::device::no_memory(&error))?;
        let dispatches = machine.shared.done.total();
        let workers = stage.deeds.into_inner().workers;
        match outcome {
            Some(Ok((result, report))) => {
                self.set_report(RunReport { dispatches, workers, ..report });
                result
            }
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("the loop ends when the orchestrator has"),
        }
    }
}

fn body<'a>(stack_bytes: usize, run: impl FnOnce() + 'a) -> Body<'a> {
    Body { stack_bytes, run: Box::new(run) }
}
