//! The engine `host`: threads of this machine, each of which schedules and executes.

use super::crew::{Crew, Floor, Job, OpenGate};
use super::timer::with_timer;
use super::{Closing, Engine, EngineFacts, EngineOrder, Lead, Ran, Round, RoundCount, check_workers, no_memory};
use crate::error::Result;
use crate::record::{RecordWorld, region_clock};
use crate::report::WorkerReport;
use plimsoll_abi::{AgentId, RINGS};
use plimsoll_collect::Drive;
use plimsoll_platform::CoreClass;
use plimsoll_probe::{Off, Probe};
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::{Agent, Books, KernelEntry, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads of this machine.
pub(super) struct HostEngine {
    crew: Crew,
    /// What a run leaves to the next one, unless it failed.
    books: Option<Books>,
}

impl HostEngine {
    pub(super) fn open(order: &EngineOrder) -> Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = order.workers.unwrap_or(cpus);
        check_workers(workers, order.lend)?;
        let capacities = &order.capacities;
        let books = Books::new(&capacities.rings, capacities.tensormap).map_err(|error| no_memory(&error))?;
        let shared = Shared::new(workers, capacities.rings).map_err(|error| no_memory(&error))?;
        let crew = Crew::start(shared).map_err(|error| no_memory(&error))?;
        Ok(Self { crew, books: Some(books) })
    }

    fn round<B: Probe + Send + Sync + 'static>(&mut self, probe: B, round: &Round<'_>, lead: Lead<'_>) -> Result<Ran> {
        let floor = Arc::clone(&self.crew.floor);
        let shared = Arc::clone(lead.open(&floor.shared));
        let context = Arc::new(RunContext {
            floor: Arc::clone(&floor),
            shared: Arc::clone(&shared),
            kernels: Arc::clone(round.kernels),
            probe,
            busy: (0..shared.agents()).map(|_| AtomicU64::new(0)).collect(),
            count: round.count.clone(),
        });
        let agent = context.agent(ORCHESTRATOR);
        // Closes the gate also when a panic passes, and then waits for everybody.
        let mut gate = OpenGate::new(&floor, &shared);
        let books = &mut self.books;
        let (led, closing) = with_timer(&floor, &shared, round.options, || -> Result<_> {
            let led = lead.run(agent, round, books, |everyone| {
                let job: Arc<dyn Job> = Arc::<RunContext<B>>::clone(&context);
                floor.open(job, everyone);
            })?;
            let closing = gate.close(led.borrows);
            Ok((led, closing))
        })?;
        if let Closing::LeftBehind(stragglers) = &closing {
            self.crew.leave_behind(stragglers);
            self.books = None;
        }
        round.count.keep_token(ORCHESTRATOR.index(), led.token);
        context.busy[ORCHESTRATOR.index()].store(led.busy_ticks, Ordering::Relaxed);
        // A short first run must not wait for its report to be exact.
        let hz = u128::from(floor.platform.clock().hz_by_now());
        let ns = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / hz) as u64;
        let (done, span) = (&shared.done, led.span_ticks);
        let worker = |(at, busy): (usize, &AtomicU64)| WorkerReport {
            tasks: done.by(at),
            busy_ns: ns(busy.load(Ordering::Relaxed).min(span)),
        };
        let workers = context.busy.iter().enumerate().map(worker).collect();
        Ok(Ran { closing, ..Ran::new(led, workers, done.total(), ns) })
    }
}

// SAFETY: `round` closes the gate on every way out, which returns when every worker has left, or names those that have not;
// and it waits for all of them if the round borrows.
unsafe impl Engine for HostEngine {
    fn facts(&self) -> EngineFacts {
        let (workers, clock) = (self.workers(), self.crew.floor.platform.clock());
        EngineFacts {
            engine: "host",
            arch: "host",
            virtual_time: false,
            emulated: false,
            agents: EngineFacts::agents(workers, "worker"),
            cores: (0..workers).map(|at| (CoreClass::Any, at as u16)).collect(),
            clock_hz: clock.hz(),
            clock_source: region_clock(&clock),
        }
    }

    fn workers(&self) -> usize {
        self.crew.floor.shared.agents()
    }

    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        Shared::new(self.workers(), rings)
    }

    fn drive(&self) -> Drive {
        Drive::Thread
    }

    fn clock_pair(&self, elapsed_ns: u64) -> (u64, u64) {
        (self.crew.floor.platform.clock().ticks(), elapsed_ns)
    }

    fn run(&mut self, round: &Round<'_>, lead: Lead<'_>) -> Result<Ran> {
        let Some(session) = round.session else { return self.round(Off, round, lead) };
        let world = RecordWorld { clock: self.crew.floor.platform.clock(), bell: session.doorbell() };
        self.round(session.probe(world), round, lead)
    }
}

/// One run, as its workers see it. It owns, by counts, all that they touch.
struct RunContext<B> {
    floor: Arc<Floor>,
    /// The device's rings, or a graph's arena.
    shared: Arc<Shared>,
    kernels: Arc<Vec<KernelEntry>>,
    probe: B,
    /// Ticks that each agent had something to do.
    busy: Box<[AtomicU64]>,
    count: RoundCount,
}

impl<B: Probe> RunContext<B> {
    fn agent(&self, agent: AgentId) -> Agent<'_, plimsoll_platform::Host, B::Lane<'_>> {
        let lane = self.count.lane(&self.probe, agent);
        let mut out = Agent::new(&self.shared, &*self.floor.platform, &self.kernels, lane, agent);
        out.resume_tokens(self.count.last_token(agent.index()));
        out
    }
}

impl<B: Probe + Send + Sync> Job for RunContext<B> {
    fn work(&self, agent: AgentId) {
        let mut worker = self.agent(agent);
        let since = worker.ticks();
        worker.work();
        self.count.keep_token(agent.index(), worker.dispatches());
        let busy = (worker.ticks() - since).saturating_sub(worker.idle_ticks());
        self.busy[agent.index()].fetch_add(busy, Ordering::Relaxed);
    }
}
