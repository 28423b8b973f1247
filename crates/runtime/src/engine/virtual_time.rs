//! The engine `virtual`: a run as coroutines of one event loop.
//!
//! The orchestrator, the agents, the probe and the collector are those of the other engines. Here they are only put
//! together: agents that are their own cores on arch `host`, schedulers with cores behind mailboxes on a chip.

use super::{
    Engine, EngineFacts, EngineOrder, Lead, LeadOutcome, Round, RoundCount, RoundOutcome, VirtualOptions,
    check_workers, chip, defect, no_memory,
};
use crate::cancel::CancelToken;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::report::WorkerReport;
use crate::shape::ShapeLimits;
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{AgentId, CoreId, ErrorCode, RINGS};
use plimsoll_collect::Drive;
use plimsoll_platform::virtual_time::{Body, KernelCost, OnCore, WatchReason};
use plimsoll_platform::{ArchSpec, CoreClass, Virtual};
use plimsoll_probe::{Off, Probe};
use plimsoll_sched::policy::Lend;
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::slot::SlotRef;
use plimsoll_sched::{Agent, Failure, FailureCause, KernelEntry, Mailbox, Runner, Shared};
use plimsoll_shm::{Board, BoardLook};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Stacks: the orchestrator's holds the user's code, and a worker's its kernels; a scheduler runs only ours.
const PROGRAM_STACK: usize = 16 << 20;
const WORKER_STACK: usize = 4 << 20;
const SCHEDULER_STACK: usize = 256 << 10;

/// Workers of arch `host` unless told otherwise: the same on every machine, so that runs are.
const HOST_WORKERS: usize = 4;

/// The rings and the world of a device in virtual time.
#[derive(Debug)]
pub(super) struct VirtualEngine {
    shared: Arc<Shared>,
    platform: Virtual,
    options: VirtualOptions,
    /// Class and owner of every core behind a mailbox; none on arch host.
    cores: Vec<(CoreClass, AgentId)>,
    /// Whether the orchestrating agent executes tasks, too, where agents do.
    lend: bool,
}

impl VirtualEngine {
    pub(super) fn open(mut options: VirtualOptions, order: &EngineOrder) -> Result<Self> {
        let workers = order.workers;
        if let Some(workers) = workers {
            check_workers(workers, order.lend)?;
        }
        options.costs.check()?;
        options.costs.apply(&mut options.arch);
        let arch = &options.arch;
        chip::check_arch(arch)?;
        check_orch_to_sched(arch, options.orch_to_sched)?;
        if let Some(fault) = options.faults.fault() {
            return Err(Error::invalid(format!("The faults cannot be used. {fault}. Give smaller ones.")));
        }
        let cores = arch.cores();
        if cores > 0 && workers.is_some() {
            return Err(chip::refuse_workers(arch));
        }
        let agents = if cores > 0 { 1 + arch.sched_threads as usize } else { workers.unwrap_or(HOST_WORKERS) };
        let shared = share(arch, agents, order.capacities.rings).map_err(|error| no_memory(&error))?;
        let platform = Virtual::new(arch, agents, options.seed, options.faults.clone());
        let cores = chip::cores(arch);
        Ok(Self { shared: Arc::new(shared), platform, options, cores, lend: order.lend })
    }

    /// Whether cores stand behind mailboxes.
    fn is_chip(&self) -> bool {
        self.options.arch.cores() > 0
    }

    /// Ends the run at its deadline, unless it ends before.
    fn keep_time(&self, shared: &Shared, count: &RoundCount, deadline: std::time::Duration) {
        let at = count.virtual_end(deadline, self.platform.now_ns());
        self.platform.nap_until(at);
        if !self.platform.agents_done() {
            let cause = FailureCause::VirtualDeadlinePassed(deadline);
            shared.fail(&self.platform, Failure::new(ErrorCode::DeadlineExceeded, cause));
        }
    }

    /// What the board says, with what cores behind mailboxes execute: here they are no threads, and write no lines meanwhile.
    fn look(&self, shared: &Shared, board: &Board) -> BoardLook {
        let mut look = board.look();
        for OnCore { core, word, token, since } in self.platform.on_cores() {
            let slot = shared.slot(SlotRef(word));
            if let Some(line) = look.cores.get_mut(core.index()) {
                (line.task, line.kernel) = (slot.task.load(Ordering::Relaxed), slot.kernel());
                (line.begun, line.ended, line.since) = (token, token.wrapping_sub(1), since);
            }
        }
        look
    }

    /// Called before every event, and when nothing can happen any more: then it ends the run. Between events it ends a run
    /// whose token was used, or whose clock has come to its end.
    fn watch(&self, shared: &Shared, round: &Round<'_>, reason: WatchReason) {
        match reason {
            WatchReason::Stuck => {
                let look = self.look(shared, round.board);
                round.board.keep(look.clone());
                let (now_ns, completed) = (self.platform.now_ns(), shared.done.total());
                let stall = super::stall::diagnose(&look, shared);
                self.platform.abandon();
                let cause = FailureCause::NothingCanHappen { now_ns, completed, standstill: stall.standstill };
                shared.fail(&self.platform, stall.failure(cause));
            }
            WatchReason::Broken => {
                shared.fail(&self.platform, Failure::new(ErrorCode::Defect, FailureCause::LoopPanicked));
            }
            WatchReason::Event if self.platform.now_ns() >= self.platform.end_ns() && !shared.stopped() => {
                let room = std::time::Duration::from_nanos(self.platform.end_ns());
                shared
                    .fail(&self.platform, Failure::new(ErrorCode::InvalidArgs, FailureCause::VirtualClockEnded(room)));
            }
            WatchReason::Event => {
                let token = round.options.cancel.as_ref().filter(|_| !shared.stopped());
                if let Some(failure) = token.and_then(CancelToken::failure) {
                    shared.fail(&self.platform, failure);
                }
            }
        }
    }

    /// One round: agent 0 does `lead`, the other agents schedule, the collector drains and the timer waits, until all have
    /// returned.
    fn round<B: Probe>(&self, probe: &B, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome> {
        super::stalling::refuse(round.options)?;
        let (shared, launched) = (Arc::clone(lead.open(&self.shared)), lead.launched());
        let (shared, kernels, platform) = (&*shared, &round.kernels[..], &self.platform);
        let stage = VirtualRound { engine: self, shared, kernels, probe, round, work: RefCell::default() };
        let mut led = None;
        let collecting = AtomicBool::new(false);
        let mut bodies: Vec<Body<'_>> = Vec::new();
        {
            let (led, stage) = (&mut led, &stage);
            bodies.push(body(PROGRAM_STACK, move || {
                *led = Some(stage.lead(lead));
                shared.close(platform);
            }));
        }
        let stack = if self.is_chip() { SCHEDULER_STACK } else { WORKER_STACK };
        for agent in 1..shared.agents() {
            let stage = &stage;
            bodies.push(body(stack, move || stage.schedule(AgentId(agent as u16))));
        }
        let collector = round.session.map(|session| {
            let collecting = &collecting;
            let drain = move || {
                // Relaxed: one thread writes it, and who reads it looks again.
                collecting.store(true, Ordering::Relaxed);
                let drained = session.drain_step();
                collecting.store(false, Ordering::Relaxed);
                drained
            };
            bodies.push(body(SCHEDULER_STACK, move || platform.serve_recorder(drain)));
            bodies.len() - 1
        });
        if let Some(deadline) = round.options.deadline {
            bodies.push(body(SCHEDULER_STACK, move || self.keep_time(shared, round.count, deadline)));
        }
        let cost = |kernel: &KernelEntry| self.options.costs.cost_of(&kernel.name, &self.options.arch.costs);
        let costs: Vec<KernelCost> = kernels.iter().map(cost).collect();
        let stampers: Vec<_> = (0..self.cores.len()).map(|core| probe.stamper(CoreId(core as u16))).collect();
        let runner = Runner {
            shared,
            platform,
            kernels,
            board: round.board,
            stampers: &stampers,
            first: CoreId(0),
            round: round.count.number,
            wrong_stamp: None,
        };
        for core in (0..self.cores.len()).map(|core| CoreId(core as u16)) {
            round.board.core(core).enter(round.count.last_token(core.index()));
        }
        let turns = AtomicU64::new(0);
        let watch = |reason| {
            // Relaxed: a count that is looked at again. One thread writes it.
            turns.store(turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.watch(shared, round, reason);
        };
        // The program's panics and those of kernels are caught where they happen: what arrives here is a defect.
        let run = AssertUnwindSafe(|| platform.run(bodies, collector, costs, &runner, watch));
        let guard = Guard {
            platform,
            shared,
            round,
            turns: &turns,
            collecting: &collecting,
            launched,
            since_ns: platform.now_ns(),
        };
        let ran = guard.beside(|| catch_unwind(run)).map_err(|panic| defect("virtual time", panic.as_ref()));
        let explained =
            |failure: Failure| Error::from_failure(&failure, |kernel| kernels[kernel as usize].name.clone());
        ran.map_err(explained)?.map_err(|error| no_memory(&error))?;
        // The loop ends when everybody has returned, agent 0 included.
        let ended = || Err(explained(Failure::new(ErrorCode::Defect, FailureCause::LoopEndedEarly)));
        let led = led.unwrap_or_else(ended)?;
        let work = stage.work.into_inner();
        let dispatches = work.iter().map(|worker| worker.tasks).sum();
        Ok(RoundOutcome::new(led, work, dispatches, |ticks| self.ns(ticks)))
    }

    fn ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.platform.hz())) as u64
    }
}

// SAFETY: the loop returns when every coroutine has ended or was unwound, and kernels run on its thread only.
unsafe impl Engine for VirtualEngine {
    fn facts(&self) -> EngineFacts {
        let arch = &self.options.arch;
        let cores = match self.is_chip() {
            true => self.cores.iter().map(|&(class, owner)| (class, owner.0)).collect(),
            false => (0..self.shared.agents()).map(|at| (CoreClass::Any, at as u16)).collect(),
        };
        let role = if self.is_chip() { "scheduler" } else { "worker" };
        EngineFacts {
            engine: "virtual",
            arch: arch.name,
            virtual_time: true,
            emulated: false,
            agents: match self.options.orch_to_sched {
                true => EngineFacts::agents_of_both_roles(self.shared.agents()),
                false => EngineFacts::agents(self.shared.agents(), role),
            },
            cores,
            clock_hz: self.platform.hz(),
            host_mapped: self.options.arch.host_mapped,
            clock_source: ClockSource::Virtual,
        }
    }

    fn workers(&self) -> usize {
        if self.is_chip() { self.options.arch.cores() as usize } else { self.shared.agents() }
    }

    fn limits(&self) -> ShapeLimits {
        chip::limits(&self.options.arch, self.workers() - usize::from(!self.lend))
    }

    fn check_kernels(&self, kernels: &[KernelEntry]) -> Result<()> {
        if self.is_chip() { chip::check_kernels(&self.cores, kernels) } else { Ok(()) }
    }

    fn costed_kernels(&self) -> Vec<&str> {
        self.options.costs.names().collect()
    }

    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        share(&self.options.arch, self.shared.agents(), rings)
    }

    fn drive(&self) -> Drive {
        Drive::Caller
    }

    fn clock_pair(&self, _: u64) -> (u64, u64) {
        let now = self.platform.now_ns();
        (self.platform.ticks_at(now), now)
    }

    fn run(&mut self, round: &Round<'_>, lead: Lead<'_>) -> Result<RoundOutcome> {
        match round.session {
            Some(session) => self.round(&session.probe(self.platform.recorder_world()), round, lead),
            None => self.round(&Off, round, lead),
        }
    }
}

fn share(arch: &ArchSpec, agents: usize, capacities: [Capacity; RINGS]) -> std::io::Result<Shared> {
    if arch.cores() == 0 {
        return Shared::new(agents, capacities);
    }
    Ok(Shared::classed(agents, capacities)?.of_cores((0..arch.cores()).map(|core| arch.class_of(core))))
}

/// One round in virtual time, as all its agents see it.
struct VirtualRound<'r, B: Probe> {
    engine: &'r VirtualEngine,
    /// The device's rings, or a graph's arena.
    shared: &'r Shared,
    kernels: &'r [KernelEntry],
    probe: &'r B,
    round: &'r Round<'r>,
    /// What each worker or core did.
    work: RefCell<Vec<WorkerReport>>,
}

impl<'r, B: Probe> VirtualRound<'r, B> {
    fn agent(&self, agent: AgentId) -> Agent<'r, Virtual, B::Lane<'r>> {
        let lane = self.round.count.lane(self.probe, agent);
        let mut out = Agent::new(self.shared, &self.engine.platform, self.kernels, self.round.board, lane, agent);
        if !self.engine.is_chip() {
            out.resume_tokens(self.round.count.last_token(agent.index()));
        }
        out
    }

    fn schedule(&self, agent: AgentId) {
        if !self.engine.is_chip() {
            let mut worker = self.agent(agent);
            let since = worker.ticks();
            worker.work();
            let busy = (worker.ticks() - since).saturating_sub(worker.idle_ticks());
            return self.note(agent.index(), worker.dispatches(), busy);
        }
        let (platform, mut own) = (&self.engine.platform, self.agent(agent));
        let mut scheduler = Mailbox::new(&mut own, platform, chip::owned(&self.engine.cores, agent));
        scheduler.set_clusters(|core| self.engine.options.arch.cluster_of(core.0.into()));
        scheduler.resume_tokens(|core| self.round.count.last_token(core.index()));
        scheduler.work();
        self.note_cores(&scheduler);
    }

    /// Notes what the cores of a scheduler did.
    fn note_cores(&self, scheduler: &Mailbox<'_, '_, Virtual, Virtual, B::Lane<'_>>) {
        for done in scheduler.totals() {
            self.note(done.core.index(), done.token, done.busy);
        }
    }

    /// Agent 0's part. On a chip the orchestrating thread is no core, and executes nothing.
    fn lead(&self, lead: Lead<'_>) -> Result<LeadOutcome> {
        let lend = if self.engine.is_chip() { Lend::Nothing } else { self.round.lend };
        let round = Round { lend, ..*self.round };
        // Nothing of an earlier run is reused: a run must not depend on those before it.
        let led = lead.run(
            self.agent(ORCHESTRATOR),
            &round,
            &mut None,
            |_| (),
            |agent, all| {
                if self.engine.options.orch_to_sched {
                    let mut scheduler = Mailbox::new(agent, &self.engine.platform, []);
                    scheduler.join_in(all.tasks, || false, || ());
                    self.note_cores(&scheduler);
                }
            },
        )?;
        if !self.engine.is_chip() {
            self.note(ORCHESTRATOR.index(), led.token, led.busy_ticks);
        }
        Ok(led)
    }

    /// Notes what a worker or core did: its last token, and the ticks that it had something to do.
    fn note(&self, at: usize, token: u32, busy_ticks: u64) {
        let mut work = self.work.borrow_mut();
        if work.len() <= at {
            work.resize(at + 1, WorkerReport::default());
        }
        work[at].tasks += u64::from(token - self.round.count.last_token(at));
        work[at].busy_ns += self.engine.ns(busy_ticks);
        self.round.count.keep_token(at, token);
    }
}

fn body<'a>(stack_bytes: usize, run: impl FnOnce() + 'a) -> Body<'a> {
    Body { stack_bytes, run: Box::new(run) }
}

/// Refuses an orchestrator that becomes a scheduler where there are no cores behind mailboxes to schedule.
fn check_orch_to_sched(arch: &ArchSpec, wanted: bool) -> Result<()> {
    match wanted && arch.cores() == 0 {
        false => Ok(()),
        true => Err(Error::invalid(format!(
            "The orchestrator cannot become a scheduler on arch {} in virtual time. Its workers are scheduler and core at once, and the orchestrator is one of them. Choose a chip, or an emulated device.",
            arch.name
        ))),
    }
}
