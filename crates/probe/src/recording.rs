//! The probe that records: an agent's lane writes into the pools of the region. One file per record kind.
//!
//! A lane copies the run's flags once, so a clear bit costs a load and a branch. It holds one writer per core and kind
//! from the start; a writer claims its pool with the first record, and from then on that core belongs to this agent.

mod core_task;
mod counter_reading;
mod orch_phase;
mod sched_phase;
mod scope_sample;
mod submit;
mod task;
mod writers;

pub use core_task::RecordingStamper;
pub use counter_reading::CounterStaging;
pub use writers::AgentRecord;

use crate::{
    CountedExecution, DispatchSpan, DumpPlan, DumpRules, Lane, PhaseSpan, Probe, Reserved, ScopeEvent, TaskAmounts,
    TaskSpan,
};
use core_task::CoreReserver;
use counter_reading::{CounterReader, LaneCounters};
use plimsoll_abi::record::{ArgDumpRecord, SubmitRecord};
use plimsoll_abi::{AgentId, CoreId, Flags, KernelId, SiteId, TaskId};
use plimsoll_shm::{LaneContext, PoolView, Region, World, Writer};
use std::sync::Arc;
use writers::{AgentWriters, CoreWriters};

/// The writer of one pool of the region.
type PoolWriter<'r, R> = Writer<'r, R, PoolView<'r, R>>;

/// Records into a region. It owns the region together with others, so that whoever has a lane may outlive the recording.
#[derive(Debug)]
pub struct Recording<W> {
    region: Arc<Region>,
    world: W,
    dump: Arc<DumpPlan>,
    /// What is counted; none if counters are not recorded.
    counters: Option<Arc<CounterStaging>>,
}

impl<W: World> Recording<W> {
    /// A probe that writes into `region`, with `world` as its clock and its way to wait.
    pub fn new(region: Arc<Region>, world: W) -> Self {
        Self { region, world, dump: Arc::default(), counters: None }
    }

    /// This probe, which captures arguments by a plan if tensor dumps are recorded.
    #[must_use]
    pub fn with_dump(mut self, dump: Arc<DumpPlan>) -> Self {
        self.dump = dump;
        self
    }

    /// This probe, which records what counters count if counters are recorded.
    #[must_use]
    pub fn with_counters(mut self, counters: Option<Arc<CounterStaging>>) -> Self {
        self.counters = counters.filter(|_| self.flags().has(Flags::PMU));
        self
    }

    /// What is recorded.
    pub fn flags(&self) -> Flags {
        self.region.flags()
    }

    /// The number of a source site. Allocates nothing.
    pub fn site(&self, file: &str, line: u32) -> SiteId {
        self.region.site(file, line)
    }
}

impl<W: World + Sync> Probe for Recording<W> {
    type Lane<'p>
        = RecordingLane<'p, W>
    where
        Self: 'p;

    fn lane(&self, agent: AgentId) -> RecordingLane<'_, W> {
        let counters = LaneCounters::new(self.counters.as_deref());
        RecordingLane::new(&self.region, self.world.clone(), agent, &self.dump, counters)
    }

    type Stamper<'p>
        = RecordingStamper<'p>
    where
        Self: 'p;

    fn stamper(&self, core: CoreId) -> RecordingStamper<'_> {
        let counters = self
            .counters
            .as_deref()
            .map(|staging| (staging.ring(core), CounterReader::open(staging.group(), &self.world).into()));
        RecordingStamper::new(&self.region, core, counters)
    }
}

/// One agent's writer. Dropping it flushes it, also when the agent panics.
pub struct RecordingLane<'r, W: World> {
    flags: Flags,
    region: &'r Region,
    dump: &'r DumpPlan,
    /// Arguments that were captured so far.
    dumped: u32,
    round: u32,
    context: LaneContext<'r, W>,
    /// Whether the record with what the rings held was dropped: the next sample writes one again.
    rings_lost: bool,
    cores: Box<[CoreWriters<'r>]>,
    /// Where this agent reserves records for cores behind mailboxes.
    reservers: Box<[CoreReserver<'r>]>,
    agent: AgentWriters<'r>,
    counters: LaneCounters<'r>,
}

impl<'r, W: World> RecordingLane<'r, W> {
    fn new(region: &'r Region, world: W, agent: AgentId, dump: &'r DumpPlan, counters: LaneCounters<'r>) -> Self {
        let cores = (0..region.cores()).map(|core| CoreWriters::new(region, core));
        let (control, ready) = (region.control(), region.ready_queue(agent));
        let context = LaneContext::new(world, control, ready, region.patience(), region.announce_every(), agent.0)
            .with_status(region.status_line(agent));
        Self {
            flags: region.flags(),
            region,
            dump,
            dumped: 0,
            round: 0,
            context,
            rings_lost: false,
            cores: cores.collect(),
            reservers: (0..region.cores()).map(|core| CoreReserver::new(region, core)).collect(),
            agent: AgentWriters::new(region, agent),
            counters,
        }
    }

    /// Writes a record of a kind that agents write and whose flag is on; whether it was kept.
    // Forced inline: a task of a recorded chain takes 38 to 71 instructions more where a record is not written in place.
    #[inline(always)]
    pub fn push(&mut self, record: impl AgentRecord) -> bool {
        record.push(self)
    }
}

impl<W: World> Lane for RecordingLane<'_, W> {
    type Stamp = u64;

    #[inline]
    fn on(&self, flags: Flags) -> bool {
        self.flags.has(flags)
    }

    #[inline]
    fn meets(&self, flags: Flags) -> bool {
        self.flags.meets(flags)
    }

    #[inline]
    fn stamp(&self) -> u64 {
        self.context.world.ticks()
    }

    #[inline]
    fn ticks(stamp: u64) -> Option<u64> {
        Some(stamp)
    }

    #[inline(always)]
    fn task(&mut self, span: &TaskSpan<u64>) {
        self.write_task(span);
    }

    fn begin_counting(&mut self) {
        self.read_counters();
    }

    fn end_counting(&mut self, execution: &CountedExecution, amounts: impl FnOnce() -> TaskAmounts) {
        self.write_reading(execution, amounts);
    }

    #[inline]
    fn reserve(&mut self, core: CoreId, token: u32) -> Reserved {
        self.reserve_task(core, token)
    }

    fn cancel(&mut self, core: CoreId, token: u32) {
        self.cancel_task(core, token);
    }

    fn let_go(&mut self, core: CoreId) {
        self.cores[core.index()].release(&mut self.context);
        self.reservers[core.index()].release(&mut self.context);
        self.context.announce();
    }

    #[inline]
    fn settle(&mut self, core: CoreId, token: u32) {
        self.settle_task(core, token);
        self.commit_reading(core, token);
    }

    #[inline]
    fn dispatched(&mut self, span: &DispatchSpan<u64>) {
        self.write_dispatch(span);
    }

    fn wait_for_host(&mut self, step: u32) {
        self.context.announce();
        self.context.world.wait_for_host(step);
    }

    fn gil_wait(&mut self, core: CoreId, from: u64, until: u64) {
        self.write_gil_wait(core, from, until);
    }

    #[inline(always)]
    fn sched_phase(&mut self, phase: &PhaseSpan<u64>) {
        self.write_sched_phase(phase);
    }

    #[inline(always)]
    fn orch_submit(&mut self, start: u64, end: u64, task: TaskId, submit_idx: u32) {
        self.write_orch_phase(start, end, task, submit_idx);
    }

    #[inline(always)]
    fn scope(&mut self, event: &ScopeEvent<'_>) {
        self.write_scope(event);
    }

    #[inline]
    fn submit_record(&mut self, record: &SubmitRecord) {
        self.write_submit(record);
    }

    fn dumps(&self, task: TaskId, kernel: KernelId) -> Option<DumpRules> {
        self.dump.of(task, self.round, kernel)
    }

    fn arg_dump(&mut self, record: &ArgDumpRecord) {
        if !self.flags.has(Flags::TENSOR_DUMP) {
            return;
        }
        let mut line = *record;
        if let Some(head) = record.head() {
            self.dumped = self.dumped.wrapping_add(1);
            line.set_task(TaskId::from_raw(head.task).with_round(self.round));
        }
        line.serial = self.dumped;
        self.push(line);
    }

    fn captured(&mut self, start: u64) {
        self.write_capture(start);
    }

    fn site(&mut self, file: &str, line: u32) -> SiteId {
        self.region.site(file, line)
    }

    fn set_round(&mut self, round: u32) {
        self.round = round;
    }

    fn flush(&mut self) {
        if self.context.has_waited() {
            self.write_waits();
        }
        self.cores.iter_mut().for_each(|core| core.flush(&mut self.context));
        self.reservers.iter_mut().for_each(|core| core.flush(&mut self.context));
        self.agent.flush(&mut self.context);
        self.context.announce();
    }
}

impl<W: World> Drop for RecordingLane<'_, W> {
    fn drop(&mut self) {
        self.cores.iter_mut().for_each(|core| core.release(&mut self.context));
        self.reservers.iter_mut().for_each(|core| core.release(&mut self.context));
        self.agent.release(&mut self.context);
        self.context.announce();
    }
}
