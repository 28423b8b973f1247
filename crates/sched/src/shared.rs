//! What the orchestrator and the agents of one device share.

use crate::cohort::Cohorts;
use crate::done::Done;
use crate::execute::site_of;
use crate::failure::Failure;
use crate::handover::Desk;
use crate::pipe::PipeSet;
use crate::policy::rooms::RoomHints;
use crate::policy::sleep::Sleep;
use crate::ready::ReadyQueue;
use crate::ring::{Capacity, RingMem};
use crate::site::Site;
use crate::slot::{DepNode, Slot, SlotRef};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, Padded};
use plimsoll_abi::{AgentId, CoreId, RINGS, TaskId};
use plimsoll_platform::{CoreClass, Platform};
use std::io;
use std::sync::Mutex;

/// Sets of pipes that a cluster of cores can have in use: two blocks that its matrix core holds, and two more that only its
/// second vector core still holds.
pub(crate) const PIPE_SETS: usize = 4;

/// Notices: nothing more may be dispatched; a cohort assembles.
const STOPPED: u32 = 1;
const COHORT: u32 = 2;

/// The orchestrating agent.
pub const ORCHESTRATOR: AgentId = AgentId(0);

/// Rings, queues and counters of a device. Agent 0 is the orchestrator.
///
/// Its rings are as large as it says, because nobody outside can change either:
///
/// ```compile_fail,E0616
/// # use plimsoll_sched::{Shared, ring::Capacity};
/// let small = Capacity { heap: 4096, ..Capacity::default() };
/// let mut shared = Shared::new(1, [small; 4]).unwrap();
/// shared.capacities = [Capacity::default(); 4]; // field `capacities` of struct `Shared` is private
/// ```
#[derive(Debug)]
pub struct Shared {
    /// The rings' memory.
    pub(crate) rings: [RingMem; RINGS],
    /// Their sizes. Nobody outside can change them: [`Books`](crate::Books) of other sizes are refused by them.
    pub(crate) capacities: [Capacity; RINGS],
    /// Who completed what.
    pub done: Done,
    /// A queue of ready tasks for every agent; where cores are of several classes, class by class.
    pub(crate) queues: Box<[ReadyQueue]>,
    /// Where there is room among cores behind mailboxes, by agent; empty where an agent is its own core.
    pub(crate) rooms: Box<[Padded<RoomHints>]>,
    /// Pipes between parts of mixed tasks whose cores are threads: [`PIPE_SETS`] for each core.
    pub(crate) pipes: Box<[PipeSet]>,
    /// Tasks whose blocks start together.
    pub(crate) cohorts: Cohorts,
    /// Where cores change their scheduler.
    pub(crate) desk: Desk,
    /// Who sleeps.
    pub sleep: Sleep,
    agents: usize,
    /// Whether the orchestrator executes tasks, too.
    lends: AtomicBool,
    /// What every agent should know before it begins something.
    notice: AtomicU32,
    closing: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// The orchestrator's innermost scope, as [`Site`] has it in a word.
    scope: AtomicU64,
    /// The class of every core of a chip; empty if workers take every class.
    core_classes: Vec<CoreClass>,
}

impl Shared {
    /// Maps everything, for agents that are their own cores.
    ///
    /// # Errors
    /// What the system says when it refuses the memory.
    pub fn new(agents: usize, capacities: [Capacity; RINGS]) -> io::Result<Self> {
        Self::with_classes(agents, agents, 1, capacities)
    }

    /// Maps everything, for agents that own cores of several classes.
    ///
    /// # Errors
    /// What the system says when it refuses the memory.
    pub fn classed(agents: usize, capacities: [Capacity; RINGS]) -> io::Result<Self> {
        Self::with_classes(agents, agents, CoreClass::ALL.len(), capacities)
    }

    /// As [`classed`](Self::classed), with places for the threads of `cores` cores to sleep, too, numbered behind the agents.
    ///
    /// # Errors
    /// What the system says when it refuses the memory.
    pub fn with_cores(agents: usize, cores: usize, capacities: [Capacity; RINGS]) -> io::Result<Self> {
        Self::with_classes(agents, agents + cores, CoreClass::ALL.len(), capacities)
    }

    fn with_classes(agents: usize, sleepers: usize, classes: usize, capacities: [Capacity; RINGS]) -> io::Result<Self> {
        let windows = capacities.map(|c| c.window as usize);
        let [a, b, c, d] = &capacities;
        Ok(Self {
            rings: [RingMem::new(a)?, RingMem::new(b)?, RingMem::new(c)?, RingMem::new(d)?],
            capacities,
            done: Done::new(agents, &windows),
            queues: (0..agents * classes).map(|_| ReadyQueue::new(windows.iter().sum())).collect::<io::Result<_>>()?,
            rooms: (0..if classes > 1 { agents } else { 0 }).map(|_| Padded::default()).collect(),
            pipes: (0..(sleepers - agents) * PIPE_SETS).map(|_| PipeSet::with_room()).collect(),
            cohorts: Cohorts::default(),
            desk: Desk::default(),
            sleep: Sleep::new(sleepers),
            agents,
            lends: AtomicBool::new(false),
            notice: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            failure: Mutex::new(None),
            scope: AtomicU64::new(0),
            core_classes: Vec::new(),
        })
    }

    /// The same memory, with the class of every core, by number: failures say on what kind of core they happened.
    #[must_use]
    pub fn of_cores(mut self, classes: impl IntoIterator<Item = CoreClass>) -> Self {
        self.core_classes = classes.into_iter().collect();
        self
    }

    /// The class of a core.
    pub fn class_of(&self, core: CoreId) -> CoreClass {
        self.core_classes.get(core.index()).copied().unwrap_or_default()
    }

    /// How large the rings are.
    pub fn capacities(&self) -> &[Capacity; RINGS] {
        &self.capacities
    }

    /// Whether a ready task waits in a queue.
    pub fn has_ready(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// How many agents there are.
    #[inline]
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// Whether ready tasks are kept apart by the class of cores they want.
    #[inline]
    pub fn is_classed(&self) -> bool {
        self.queues.len() > self.agents
    }

    /// The queues of ready tasks of a class, by agent.
    #[inline]
    pub fn class_queues(&self, class: CoreClass) -> &[ReadyQueue] {
        &self.queues[class as usize * self.agents..][..self.agents]
    }

    /// A slot.
    #[inline]
    pub fn slot(&self, at: SlotRef) -> &Slot {
        // The ring's number is above the place of any slot.
        self.rings[at.ring()].slots.at(at.0.into())
    }

    /// A dependency entry.
    #[inline]
    pub fn node(&self, at: SlotRef) -> &DepNode {
        &self.rings[at.ring()].nodes[at.index()]
    }

    /// Ready tasks that wait in all queues, as far as can be told.
    pub fn backlog(&self) -> u64 {
        let waiting = |queue: &ReadyQueue| {
            let (taken, added) = queue.moved();
            added.saturating_sub(taken)
        };
        self.queues.iter().map(waiting).sum()
    }

    /// Ready tasks in the orchestrator's own queues.
    pub fn own_backlog(&self) -> u64 {
        let waiting = |queue: &ReadyQueue| {
            let (taken, added) = queue.moved();
            added.saturating_sub(taken)
        };
        self.queues.iter().step_by(self.agents).map(waiting).sum()
    }

    /// Where the scope of a task was opened, if the task has not been reclaimed.
    pub fn scope_of(&self, task: TaskId) -> Option<Site> {
        let ring = self.rings.get(usize::from(task.ring()))?;
        let slot = ring.slots.at(task.local().into());
        (slot.task.load(Ordering::Relaxed) == task.raw()).then(|| site_of(slot)).flatten()
    }

    /// Notes the orchestrator's innermost scope.
    #[inline]
    pub(crate) fn note_scope(&self, site: Site) {
        self.scope.store(site.to_word(), Ordering::Relaxed);
    }

    /// Where the orchestrator's innermost scope was opened.
    pub fn scope(&self) -> Option<Site> {
        // SAFETY: zero, or the word of a site.
        unsafe { Site::from_word(self.scope.load(Ordering::Relaxed)) }
    }

    /// Whether the orchestrator executes tasks, too.
    #[inline]
    pub fn lends(&self) -> bool {
        self.lends.load(Ordering::Relaxed)
    }

    /// Says whether the orchestrator executes tasks, too.
    pub fn set_lends(&self, lends: bool) {
        self.lends.store(lends, Ordering::Relaxed);
    }

    /// Whether nothing more may be dispatched.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.notice.load(Ordering::Relaxed) & STOPPED != 0
    }

    /// Whether a cohort assembles that has seats left.
    #[inline]
    pub fn calls_cohort(&self) -> bool {
        self.notice.load(Ordering::Relaxed) & COHORT != 0
    }

    /// Whether an agent should look at what there is before it begins something: dispatch has stopped, or a cohort assembles.
    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        self.notice.load(Ordering::Relaxed) != 0
    }

    /// Says whether a cohort assembles. Under the lock of cohorts.
    pub(crate) fn notice_cohort(&self, assembles: bool) {
        // SeqCst pairs(sleep.announced): before the look for sleepers.
        match assembles {
            true => self.notice.fetch_or(COHORT, Ordering::SeqCst),
            false => self.notice.fetch_and(!COHORT, Ordering::SeqCst),
        };
    }

    /// Whether agents should leave the run.
    #[inline]
    pub fn closing(&self) -> bool {
        // Acquire pairs(run.closing).
        self.closing.load(Ordering::Acquire)
    }

    /// The first failure wins; nothing is dispatched after it.
    pub fn fail<P: Platform>(&self, platform: &P, mut failure: Failure) {
        failure.core_class = failure.core.map(|core| self.class_of(core)).unwrap_or_default();
        self.lock_failure().get_or_insert(failure);
        // SeqCst pairs(sleep.announced): before the look for sleepers.
        self.notice.fetch_or(STOPPED, Ordering::SeqCst);
        self.sleep.wake_all(platform);
    }

    /// Why the run failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.lock_failure().clone()
    }

    /// Changes the failure, if there is one: more may be known about it later.
    pub fn amend_failure(&self, amend: impl FnOnce(&mut Failure)) {
        if let Some(failure) = self.lock_failure().as_mut() {
            amend(failure);
        }
    }

    fn lock_failure(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        // A panic while the lock is held leaves a whole value behind: it is only ever replaced.
        self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets agents into the next run. Only while none is at work.
    pub fn open(&self) {
        self.done.reset();
        self.queues.iter().for_each(ReadyQueue::reset);
        *self.lock_failure() = None;
        self.cohorts.reset();
        self.desk.reset();
        self.notice.store(0, Ordering::Relaxed);
        // Release pairs(run.closing): who is let in finds everything reset.
        self.closing.store(false, Ordering::Release);
    }

    /// Asks agents to leave the run.
    pub fn close<P: Platform>(&self, platform: &P) {
        // SeqCst pairs(run.closing), and pairs(sleep.announced): before the look for sleepers.
        self.closing.store(true, Ordering::SeqCst);
        self.sleep.wake_all(platform);
    }
}
