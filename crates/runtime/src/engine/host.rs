//! The engine `host`: threads of this machine, each of which schedules and executes.

use super::timer::with_timer;
use super::workers::{Job, OpenGate, WorkerHub, Workers};
use super::{
    Closing, Engine, EngineFacts, EngineOrder, Lead, Round, RoundCount, RoundOutcome, check_workers, no_memory,
};
use crate::error::Result;
use crate::record::RecordWorld;
use crate::report::WorkerReport;
use crate::shape::{BlockRoom, ShapeLimits};
use plimsoll_abi::{AgentId, RINGS};
use plimsoll_collect::Drive;
use plimsoll_platform::CoreClass;
use plimsoll_probe::{Off, Probe};
use plimsoll_sched::pipe::MOST_PARTS;
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::{Agent, Books, KernelEntry, Shared};
use plimsoll_shm::Board;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of this machine.
pub(super) struct HostEngine {
    workers: Workers,
    /// What a run leaves to the next one, unless it failed.
    books: Option<Books>,
    /// Whether the orchestrating thread executes tasks, too.
    lend: bool,
}

impl HostEngine {
    pub(super) fn open(order: &EngineOrder) -> Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = order.workers.unwrap_or(cpus.max(order.least_workers));
        check_workers(workers, order.lend)?;
        let capacities = &order.capacities;
        let books = Books::new(&capacities.rings, capacities.tensormap).map_err(|error| no_memory(&error))?;
        let shared = Shared::new(workers, capacities.rings).map_err(|error| no_memory(&error))?;
        let workers = Workers::start(shared).map_err(|error| no_memory(&error))?;
        Ok(Self { workers, books: Some(books), lend: order.lend })
    }

    fn round<B: Probe + Send + Sync + 'static>(
        &mut self,
        probe: B,
        round: &Round<'_>,
        lead: Lead<'_>,
    ) -> Result<RoundOutcome> {
        super::stalling::refuse(round.options)?;
        let hub = Arc::clone(&self.workers.hub);
        let (shared, launched) = (Arc::clone(lead.open(&hub.shared)), lead.launched());
        let context = Arc::new(RunContext {
            hub: Arc::clone(&hub),
            shared: Arc::clone(&shared),
            kernels: Arc::clone(round.kernels),
            probe,
            board: Arc::clone(round.board),
            busy: (0..shared.agents()).map(|_| AtomicU64::new(0)).collect(),
            count: round.count.clone(),
        });
        let first: Vec<u32> = (0..shared.agents()).map(|agent| round.count.last_token(agent)).collect();
        let agent = context.agent(ORCHESTRATOR);
        // Closes the gate also when a panic passes, and then waits for everybody.
        let mut gate = OpenGate::new(&hub, &shared);
        let books = &mut self.books;
        let (mut led, closing) = with_timer(&hub, &shared, (round, launched), || -> Result<_> {
            let begin = |everyone| {
                let job: Arc<dyn Job> = Arc::<RunContext<B>>::clone(&context);
                hub.open(job, everyone);
            };
            let led = lead.run(agent, round, books, begin, |_, _| ())?;
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
        round.count.keep_token(ORCHESTRATOR.index(), led.token);
        context.busy[ORCHESTRATOR.index()].store(led.busy_ticks, Ordering::Relaxed);
        // The rate as far as it is known: a short first run must not wait until it is exact.
        let hz = u128::from(hub.platform.clock().hz_by_now());
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / hz) as u64;
        let (done, span) = (&shared.done, led.span_ticks);
        // An agent that was left behind has not reported how often it executed something.
        let behind = |at: usize| match &closing {
            Closing::AllLeft => false,
            Closing::LeftBehind(stragglers) => stragglers.iter().any(|straggler| straggler.agent.index() == at),
        };
        let executions = |at: usize| match behind(at) {
            true => done.by(at),
            false => u64::from(round.count.last_token(at).wrapping_sub(first[at])),
        };
        let worker = |(at, busy): (usize, &AtomicU64)| WorkerReport {
            tasks: executions(at),
            busy_ns: ns(busy.load(Ordering::Relaxed).min(span)),
        };
        let workers: Vec<WorkerReport> = context.busy.iter().enumerate().map(worker).collect();
        let dispatches = workers.iter().map(|worker| worker.tasks).sum();
        Ok(RoundOutcome { closing, ..RoundOutcome::new(led, workers, dispatches, ns) })
    }
}

// SAFETY: `round` closes the gate on every way out, which returns when every worker has left, or names those that have not;
// and it waits for all of them if the round borrows.
unsafe impl Engine for HostEngine {
    fn facts(&self) -> EngineFacts {
        let (workers, clock) = (self.workers(), self.workers.hub.platform.clock());
        EngineFacts {
            engine: "host",
            arch: "host",
            virtual_time: false,
            emulated: false,
            agents: EngineFacts::agents(workers, "worker"),
            cores: (0..workers).map(|at| (CoreClass::Any, at as u16)).collect(),
            clock_hz: clock.hz(),
            host_mapped: true,
            clock_source: clock.source(),
        }
    }

    fn workers(&self) -> usize {
        self.workers.hub.shared.agents()
    }

    fn limits(&self) -> ShapeLimits {
        let blocks = BlockRoom::Workers(self.workers() - usize::from(!self.lend));
        ShapeLimits { parts: MOST_PARTS, blocks }
    }

    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        Shared::new(self.workers(), rings)
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

/// One run, as its workers see it. It owns, by counts, all that they touch.
struct RunContext<B> {
    hub: Arc<WorkerHub>,
    /// The device's rings, or a graph's arena.
    shared: Arc<Shared>,
    kernels: Arc<Vec<KernelEntry>>,
    probe: B,
    board: Arc<Board>,
    /// Ticks that each agent had something to do.
    busy: Box<[AtomicU64]>,
    count: RoundCount,
}

impl<B: Probe> RunContext<B> {
    fn agent(&self, agent: AgentId) -> Agent<'_, plimsoll_platform::Host, B::Lane<'_>> {
        let lane = self.count.lane(&self.probe, agent);
        let mut out = Agent::new(&self.shared, &*self.hub.platform, &self.kernels, &self.board, lane, agent);
        out.resume_tokens(self.count.last_token(agent.index()));
        out
    }
}

impl<B: Probe + Send + Sync> Job for RunContext<B> {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn work(&self, agent: AgentId) {
        let mut worker = self.agent(agent);
        let since = worker.ticks();
        worker.work();
        self.count.keep_token(agent.index(), worker.dispatches());
        let busy = (worker.ticks() - since).saturating_sub(worker.idle_ticks());
        self.busy[agent.index()].fetch_add(busy, Ordering::Relaxed);
    }
}
