//! The engine `emulated`: a chip made of threads of this machine. The caller orchestrates, scheduler threads hand tasks to
//! cores, and every core is a thread behind a mailbox.
//!
//! Schedulers, orchestrator, probe and collector are those of the other engines; the scheduler code is the same as in
//! virtual time. There may be far more threads than CPUs: every wait spins a little, yields, then sleeps.

use super::stalling::{SchedulerStall, StallingPorts};
use super::timer::with_timer;
use super::workers::{Job, OpenGate, WorkerHub, Workers};
use super::{
    AllSubmitted, Closing, Engine, EngineFacts, EngineOrder, Lead, Round, RoundCount, RoundOutcome, chip, no_memory,
};
use crate::error::{Error, Result};
use crate::record::RecordWorld;
use crate::report::WorkerReport;
use crate::shape::ShapeLimits;
use plimsoll_abi::{AgentId, CoreId, RINGS};
use plimsoll_collect::Drive;
use plimsoll_platform::{ArchSpec, CoreClass, DeviceThreads, Host};
use plimsoll_probe::{Off, Probe};
use plimsoll_sched::policy::Lend;
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::{Agent, Books, CoreThreads, KernelEntry, Mailbox, Runner, Shared, WrongStamp};
use plimsoll_shm::Board;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device of threads.
#[derive(Clone, Debug)]
pub struct EmulatedOptions {
    /// The chip; every number of it may be changed. On arch `host` one scheduler owns as many cores as the device has
    /// workers, and each of them takes every class.
    pub arch: ArchSpec,
    /// The execution whose record gets a wrong stamp, for tests of the recorder.
    pub wrong_stamp: Option<WrongStamp>,
    /// Whether the orchestrator thread becomes a scheduler when it has submitted all: the others hand it a share of their clusters,
    /// or of their cores on arch `host`.
    pub orch_to_sched: bool,
    /// Whether the whole device is a process of its own, which [`device_main`](crate::device_main) makes of this executable.
    /// It runs programs by name ([`Device::run_program`](crate::Device::run_program)) and no closures.
    pub isolate: bool,
}

impl EmulatedOptions {
    /// A device of this arch.
    pub fn new(arch: &ArchSpec) -> Self {
        Self { arch: arch.clone(), wrong_stamp: None, orch_to_sched: false, isolate: false }
    }

    /// Puts the device into a process of its own.
    #[must_use]
    pub fn isolated(mut self) -> Self {
        self.isolate = true;
        self
    }
}

/// The threads of an emulated chip.
pub(super) struct EmulatedEngine {
    arch: ArchSpec,
    cores: Arc<[(CoreClass, AgentId)]>,
    workers: Workers,
    core_threads: Arc<CoreThreads<Host>>,
    wrong_stamp: Option<WrongStamp>,
    orch_to_sched: bool,
    /// What a run leaves to the next one, unless it failed.
    books: Option<Books>,
}

impl EmulatedEngine {
    pub(super) fn open(options: EmulatedOptions, order: &EngineOrder) -> Result<Self> {
        let EmulatedOptions { arch, wrong_stamp, orch_to_sched, isolate: _ } = options;
        chip::check_arch(&arch)?;
        chip::refuse_virtual_numbers(&arch)?;
        let cores = match arch.cores() {
            0 => host_cores(order.workers)?,
            _ if order.workers.is_some() => return Err(chip::refuse_workers(&arch)),
            _ => chip::cores(&arch),
        };
        let agents = 1 + arch.sched_threads.max(1) as usize;
        let capacities = &order.capacities;
        let books = Books::new(&capacities.rings, capacities.tensormap).map_err(|error| no_memory(&error))?;
        let shared = Shared::with_cores(agents, cores.len(), capacities.rings).map_err(|error| no_memory(&error))?;
        let shared = shared.of_cores(cores.iter().map(|&(class, _)| class));
        let workers = Workers::start(shared).map_err(|error| no_memory(&error))?;
        let owners: Vec<AgentId> = cores.iter().map(|&(_, owner)| owner).collect();
        let core_platform = Host::among(agents + cores.len(), cores.len());
        let core_threads = Arc::new(CoreThreads::new(core_platform, &owners, agents));
        let books = Some(books);
        Ok(Self { arch, cores: cores.into(), workers, core_threads, wrong_stamp, orch_to_sched, books })
    }

    fn round<B: Probe + Send + Sync + 'static>(
        &mut self,
        probe: B,
        round: &Round<'_>,
        lead: Lead<'_>,
    ) -> Result<RoundOutcome> {
        let hub = Arc::clone(&self.workers.hub);
        let (shared, launched) = (Arc::clone(lead.open(&hub.shared)), lead.launched());
        let context = Arc::new(DeviceRun {
            platform: DeviceThreads(Arc::clone(&hub.platform)),
            shared: Arc::clone(&shared),
            kernels: Arc::clone(round.kernels),
            probe,
            board: Arc::clone(round.board),
            cores: Arc::clone(&self.cores),
            core_threads: Arc::clone(&self.core_threads),
            wrong_stamp: self.wrong_stamp,
            clusters: (self.arch.cores() > 0).then(|| self.arch.clone()),
            busy: self.cores.iter().map(|_| AtomicU64::new(0)).collect(),
            count: round.count.clone(),
            stall: round.options.scheduler_stall,
        });
        let owners: Vec<AgentId> = self.cores.iter().map(|&(_, owner)| owner).collect();
        self.core_threads.assign(&owners);
        let first: Vec<u32> = (0..self.cores.len()).map(|core| round.count.last_token(core)).collect();
        let agent = context.agent(ORCHESTRATOR);
        // The orchestrating thread is no core, and executes nothing.
        let round = Round { lend: Lend::Nothing, ..*round };
        // Closes the gate also when a panic passes, and then waits for everybody.
        let mut gate = OpenGate::new(&hub, &shared);
        let (books, threads, joins_in) = (&mut self.books, self.workers.threads(), self.orch_to_sched);
        let (mut led, closing) = with_timer(&hub, &shared, (&round, launched), || -> Result<_> {
            let begin = |_| hub.muster(Arc::<DeviceRun<B>>::clone(&context), threads);
            let led = lead.run(agent, &round, books, begin, |agent, all| {
                if joins_in {
                    context.join_in(agent, all, &hub);
                }
            })?;
            let closing = gate.close(led.borrows, &context.board);
            Ok((led, closing))
        })?;
        if let Closing::LeftBehind(stragglers) = &closing {
            self.workers.leave_behind(stragglers);
            self.books = None;
            // The failure may have been told by now who was left behind.
            led.failure = shared.failure();
        } else if let Some(failure) = &mut led.failure {
            failure.all_have_left();
        }
        let hz = u128::from(hub.platform.clock().hz_by_now());
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / hz) as u64;
        // A scheduler that was left behind has not kept the tokens of its cores; their lines on the board count what ended.
        let executions = |core: usize, first: u32| {
            let kept = context.count.last_token(core).wrapping_sub(first);
            match closing {
                Closing::AllLeft => kept,
                Closing::LeftBehind(_) => kept.max(context.board.core(CoreId(core as u16)).ended().wrapping_sub(first)),
            }
        };
        let worker = |(core, first): (usize, &u32)| WorkerReport {
            tasks: executions(core, *first).into(),
            busy_ns: ns(context.busy[core].load(Ordering::Relaxed).min(led.span_ticks)),
        };
        let workers: Vec<WorkerReport> = first.iter().enumerate().map(worker).collect();
        let dispatches = workers.iter().map(|worker| worker.tasks).sum();
        Ok(RoundOutcome { closing, ..RoundOutcome::new(led, workers, dispatches, ns) })
    }
}

/// The cores of arch host: every one takes every class, and one scheduler owns them all.
fn host_cores(workers: Option<usize>) -> Result<Vec<(CoreClass, AgentId)>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = workers.unwrap_or(cpus);
    if workers == 0 || workers > super::MOST_WORKERS {
        return Err(Error::invalid(format!(
            "An emulated device cannot have {workers} cores. It needs at least one, and has at most {}, which is what a recording has room for. Use fewer workers; this machine has {cpus} CPUs.",
            super::MOST_WORKERS
        )));
    }
    Ok(vec![(CoreClass::Any, AgentId(1)); workers])
}

// SAFETY: `round` closes the gate on every way out, which returns when every scheduler and core has left, or names those that
// have not; and it waits for all of them if the round borrows.
unsafe impl Engine for EmulatedEngine {
    fn facts(&self) -> EngineFacts {
        let clock = self.workers.hub.platform.clock();
        EngineFacts {
            engine: "emulated",
            arch: self.arch.name,
            virtual_time: false,
            emulated: true,
            agents: match self.orch_to_sched {
                true => EngineFacts::agents_of_both_roles(self.workers.hub.shared.agents()),
                false => EngineFacts::agents(self.workers.hub.shared.agents(), "scheduler"),
            },
            cores: self.cores.iter().map(|&(class, owner)| (class, owner.0)).collect(),
            clock_hz: clock.hz(),
            host_mapped: self.arch.host_mapped,
            clock_source: clock.source(),
        }
    }

    fn workers(&self) -> usize {
        self.cores.len()
    }

    fn limits(&self) -> ShapeLimits {
        chip::limits(&self.arch, self.cores.len())
    }

    fn check_kernels(&self, kernels: &[KernelEntry]) -> Result<()> {
        chip::check_kernels(&self.cores, kernels)
    }

    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        let shared = Shared::with_cores(self.workers.hub.shared.agents(), self.cores.len(), rings)?;
        Ok(shared.of_cores(self.cores.iter().map(|&(class, _)| class)))
    }

    fn drive(&self) -> Drive {
        Drive::Thread
    }

    fn clock_pair(&self, elapsed_ns: u64) -> (u64, u64) {
        (self.workers.hub.platform.clock().ticks(), elapsed_ns)
    }

    fn run(&mut self, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome> {
        let Some(session) = round.session else { return self.round(Off, round, lead) };
        let world = RecordWorld { clock: self.workers.hub.platform.clock(), bell: session.doorbell() };
        self.round(session.probe(world), round, lead)
    }
}

/// One run, as the threads of the device see it. It owns, by counts, all that they touch.
struct DeviceRun<B> {
    platform: DeviceThreads,
    /// The device's rings, or a graph's arena.
    shared: Arc<Shared>,
    kernels: Arc<Vec<KernelEntry>>,
    probe: B,
    board: Arc<Board>,
    cores: Arc<[(CoreClass, AgentId)]>,
    core_threads: Arc<CoreThreads<Host>>,
    wrong_stamp: Option<WrongStamp>,
    /// The chip, if cores are in clusters.
    clusters: Option<ArchSpec>,
    /// Ticks that each core did not wait.
    busy: Box<[AtomicU64]>,
    count: RoundCount,
    /// The scheduler that stands still.
    stall: Option<SchedulerStall>,
}

impl<B: Probe> DeviceRun<B> {
    fn agent(&self, agent: AgentId) -> Agent<'_, DeviceThreads, B::Lane<'_>> {
        let lane = self.count.lane(&self.probe, agent);
        Agent::new(&self.shared, &self.platform, &self.kernels, &self.board, lane, agent)
    }

    fn schedule(&self, agent: AgentId) {
        let owned = chip::owned(&self.cores, agent);
        let ports = StallingPorts::new(&self.core_threads, agent, self.stall);
        let mut own = self.agent(agent);
        let mut scheduler = Mailbox::new(&mut own, &ports, owned);
        if let Some(arch) = &self.clusters {
            scheduler.set_clusters(|core| arch.cluster_of(core.0.into()));
        }
        scheduler.resume_tokens(|core| self.count.last_token(core.index()));
        scheduler.work();
        scheduler.totals().for_each(|done| self.count.keep_token(done.core.index(), done.token));
    }

    /// The orchestrator has submitted all, and schedules what the others hand it.
    fn join_in(&self, agent: &mut Agent<'_, DeviceThreads, B::Lane<'_>>, all: AllSubmitted, hub: &WorkerHub) {
        let ports = StallingPorts::new(&self.core_threads, agent.id(), self.stall);
        let mut scheduler = Mailbox::new(agent, &ports, []);
        scheduler.join_in(all.tasks, || !all.borrows && hub.has_given_up(), || hub.send_home(&self.shared));
        scheduler.totals().for_each(|done| self.count.keep_token(done.core.index(), done.token));
    }

    fn serve(&self, core: CoreId) {
        let clock = self.platform.0.clock();
        let since = clock.ticks();
        let runner = Runner {
            shared: &self.shared,
            platform: &self.platform,
            kernels: &self.kernels,
            board: &self.board,
            stampers: &[self.probe.stamper(core)],
            first: core,
            round: self.count.number,
            wrong_stamp: self.wrong_stamp,
        };
        let token = self.count.last_token(core.index());
        self.board.core(core).enter(token);
        let waited = self.core_threads.serve(core, token, &runner);
        self.board.core(core).leave();
        let busy = (clock.ticks() - since).saturating_sub(waited);
        self.busy[core.index()].store(busy, Ordering::Relaxed);
    }
}

impl<B: Probe + Send + Sync> Job for DeviceRun<B> {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Agents schedule; the threads behind them are the cores.
    fn work(&self, agent: AgentId) {
        match agent.index().checked_sub(self.shared.agents()) {
            None => self.schedule(agent),
            Some(core) => self.serve(CoreId(core as u16)),
        }
    }
}
