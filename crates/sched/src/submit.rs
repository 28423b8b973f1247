//! The orchestrator's half of the scheduler: rings, scopes, inference, hand-over to the agents.
//!
//! Everything here belongs to the one orchestrating thread. A submit makes sure that the ring has room ([`wait`]),
//! infers whom the task waits for, writes the slot, links it to its producers and publishes it if it waits for nobody.

mod arg;
mod books;
mod count;
mod guesses;
mod record;
mod rings;
mod scopes;
mod shape;
mod status;
mod wait;

pub use arg::{Demand, OutputPlace, OutputRequest, TaskArg, TensorCore, ViewPart};
pub use books::Books;
pub use guesses::Guesses;
pub use record::submit_records;
pub use rings::{PeakSites, Peaks, RunPeaks};
pub use scopes::ScopeView;
pub use shape::{CallShape, PredicateRequest, ShapeRequest};

use crate::agent::Agent;
use crate::failure::{Failure, FailureCause};
use crate::kernel::KernelEntry;
use crate::policy::Lend;
use crate::policy::help::EVERY;
use crate::shared::{ORCHESTRATOR, Shared};
use crate::site::Site;
use crate::slot::SlotRef;
use count::SubmitMode;
use plimsoll_abi::{Dtype, ErrorCode, Flags, KernelId, RINGS, SiteId, TaskId, Usage};
use plimsoll_graph::{BufferShape, Layout, Tensormap};
use plimsoll_platform::{Platform, Work};
use plimsoll_probe::Lane;
use rings::RingHeads;
use scopes::{Holding, InnermostScope, Scope};
use std::sync::atomic::Ordering;

/// The orchestrator of one run. In this order, because every submit looks into the books several times, and what is at the
/// front is found without an addition.
#[repr(C)]
pub struct Submitter<'r, P: Platform, L: Lane> {
    books: Books,
    /// Its agent, with which it lends a hand.
    pub agent: Agent<'r, P, L>,
    pub(crate) shared: &'r Shared,
    kernels: &'r [KernelEntry],
    scopes: Vec<Scope>,
    scopes_opened: u32,
    pub(crate) submitted: u64,
    host_buffers: u64,
    mode: SubmitMode,
    lend: Lend,
    /// The peaks of the scope closed last: at the end of the run, the root's.
    run_peaks: Peaks,
    guesses: Guesses,
    /// What the rings held when a capacity ran out. What is counted after that was never in use.
    frozen: Option<Box<[RingHeads; RINGS]>>,
    frozen_entries: u32,
    /// What open scopes hold now, and the most that they held at once.
    holding: Holding,
    held: Usage,
    peak_sites: PeakSites,
    /// What every submit wants to know of the innermost scope.
    innermost: InnermostScope,
    /// How many tasks are submitted when the orchestrator looks whether to lend a hand.
    help_at: u64,
    started: u64,
    /// Numbers of source sites, by address.
    sites: [(usize, SiteId); 64],
    wait_budget: Option<std::time::Duration>,
    /// Tasks that every submit waits for besides.
    after: Vec<TaskId>,
    /// The shape of the next submits.
    shape: CallShape,
    borrows: bool,
}

impl<'r, P: Platform, L: Lane> Submitter<'r, P, L> {
    /// The orchestrator of a run, with books of `Shared::capacities`. When it would wait, it executes what `lend` says.
    ///
    /// # Panics
    /// If the books are of rings of other sizes.
    pub fn new(mut agent: Agent<'r, P, L>, kernels: &'r [KernelEntry], books: Books, lend: Lend) -> Self {
        let shared = agent.shared;
        debug_assert_eq!(agent.id(), ORCHESTRATOR);
        assert!(books.are_of(shared), "the books are of rings of other sizes");
        shared.set_lends(lend == Lend::Everything);
        agent.weigh();
        let started = agent.ticks();
        Self {
            agent,
            shared,
            kernels,
            books,
            scopes: Vec::with_capacity(64),
            scopes_opened: 0,
            submitted: 0,
            host_buffers: 0,
            mode: SubmitMode::Running,
            lend,
            run_peaks: Peaks::default(),
            guesses: Guesses::default(),
            frozen: None,
            frozen_entries: 0,
            holding: Holding::default(),
            held: Usage::default(),
            peak_sites: PeakSites::default(),
            innermost: InnermostScope::default(),
            help_at: 1,
            started,
            sites: [(0, SiteId(0)); 64],
            wait_budget: None,
            after: Vec::with_capacity(256),
            shape: CallShape::ORDINARY,
            borrows: false,
        }
    }

    /// The books, for the next run; `None` after a run that failed.
    pub fn into_books(self) -> Option<Books> {
        let whole = matches!(self.mode, SubmitMode::Running) && !self.shared.stopped() && self.scopes.is_empty();
        if whole { self.books.closed(self.shared) } else { None }
    }

    /// Tasks accepted so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The tick at which the run began.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// The tensormap.
    pub fn map(&self) -> &Tensormap {
        &self.books.map
    }

    /// Bounds every wait of a `read` from now on.
    pub fn set_wait_budget(&mut self, budget: Option<std::time::Duration>) {
        self.wait_budget = budget;
    }

    /// Kernels of this run may touch what somebody else owns.
    pub fn set_borrows(&mut self) {
        self.borrows = true;
    }

    /// Whether kernels of this run may touch what somebody else owns.
    pub fn borrows(&self) -> bool {
        self.borrows
    }

    /// Enters a host buffer. Its address is followed for tasks that are submitted with it, only, and that is `unsafe`:
    ///
    /// ```compile_fail,E0133
    /// # use plimsoll_abi::KernelId;
    /// # use plimsoll_sched::{Demand, Submitter, TaskArg};
    /// # fn any<P: plimsoll_platform::Platform, L: plimsoll_probe::Lane>(mut s: Submitter<'_, P, L>, args: &mut [TaskArg<'_>]) {
    /// s.submit(KernelId(0), args, Demand::default()); // call to unsafe function `submit` is unsafe
    /// # }
    /// ```
    pub fn add_buffer(&mut self, base: u64, layout: Layout, dtype: Dtype, elem_bytes: u32) -> TensorCore {
        let buffer = self.books.map.add_buffer(BufferShape::of(&layout));
        self.host_buffers += 1;
        let core = TensorCore::whole(OutputPlace { base, buffer }, layout, dtype, elem_bytes);
        if self.agent.lane.on(Flags::DEP_GEN) {
            self.record_buffer(&core);
        }
        core
    }

    /// Every submit waits for these tasks besides, until others are named or none. Not an argument of a submit, because few
    /// name any, and every one would hand it over.
    pub fn set_after(&mut self, deps: impl IntoIterator<Item = TaskId>) {
        self.after.clear();
        self.after.extend(deps);
    }

    /// Every submit has this shape, until another is named. Not an argument of a submit, for the same reason.
    pub fn set_shape(&mut self, shape: CallShape) {
        self.shape = shape;
    }

    /// Submits a task. Outputs are filled into `args`, of which `demand` is the sum.
    ///
    /// # Errors
    /// The run's first failure, if it has failed, or if this task fails it: it has too many arguments, two of them overlap and one is
    /// written, or the rings have no room for it and never will.
    ///
    /// # Safety
    /// Until the task has ended, tasks that inference orders by them may use the elements of the arguments, as the arguments say: those of
    /// a buffer lie at the address that it was entered with ([`add_buffer`](Self::add_buffer)). The kernel may be called with these arguments.
    #[inline]
    pub unsafe fn submit(
        &mut self,
        kernel: KernelId,
        args: &mut [TaskArg<'_>],
        demand: Demand,
    ) -> Result<TaskId, Box<Failure>> {
        self.agent.status.begin_submit();
        let task = if self.agent.lane.on(Flags::ORCH_PHASES) || self.agent.lane.on(Flags::DEP_GEN) {
            self.submit_recorded(kernel, args, demand)
        } else {
            self.submit_unrecorded::<true>(kernel, args, demand)
        };
        self.agent.status.end_submit();
        task
    }

    /// Submits as [`submit`](Self::submit) does, and records it. A function of its own, so that a submit that is not recorded keeps its registers.
    #[inline(never)]
    fn submit_recorded(
        &mut self,
        kernel: KernelId,
        args: &mut [TaskArg<'_>],
        demand: Demand,
    ) -> Result<TaskId, Box<Failure>> {
        let start = self.agent.lane.stamp_for(Flags::ORCH_PHASES);
        let number = self.submitted as u32;
        let task = self.submit_unrecorded::<false>(kernel, args, demand)?;
        if !matches!(self.mode, SubmitMode::Running) {
            // The task was only counted, so there is no submit to record.
            return Ok(task);
        }
        if self.agent.lane.on(Flags::ORCH_PHASES) {
            let end = self.agent.lane.stamp();
            self.agent.lane.orch_submit(start, end, task, number);
        }
        if self.agent.lane.on(Flags::DEP_GEN) {
            self.record_submit(task, kernel, args);
        }
        self.help_now_and_then();
        Ok(task)
    }

    /// Lends a hand afterwards, if it `HELPS`.
    #[inline]
    fn submit_unrecorded<const HELPS: bool>(
        &mut self,
        kernel: KernelId,
        args: &mut [TaskArg<'_>],
        demand: Demand,
    ) -> Result<TaskId, Box<Failure>> {
        if !matches!(self.mode, SubmitMode::Running) {
            return self.submit_after_failure(kernel, args);
        }
        let demand = demand.complete();
        let ring = self.innermost.ring();
        if demand.has_too_many_words() {
            return Err(self.invalid(kernel, FailureCause::TooManyArguments));
        }
        if let Err(failure) = self.reserve(ring, demand, kernel) {
            return self.or_count(failure, kernel, args);
        }
        let shared = self.shared;
        let state = &self.books.rings[ring];
        let task = TaskId::new(ring as u8, state.head as u32);
        let slots = &shared.rings[ring].slots;
        let slot = slots.at(state.head);
        slot.fan_out.open();
        slot.set_call(kernel.0, demand.words(), self.shape.executions);
        slot.task.store(task.raw(), Ordering::Relaxed);
        slot.site.store(self.innermost.site, Ordering::Relaxed);
        self.books.write_args(&shared.rings[ring].heap, slot, task, demand, args);
        self.books.begin();
        let mut held = demand.entries();
        if self.innermost.infers {
            if let Err([one, other]) = self.books.infer_args(task, args) {
                let cause = TensorCore::overlap(&self.books.map, args, self.shape, one, other);
                return Err(self.invalid(self.kernel_at_hand(ring), cause));
            }
        } else {
            held = outputs_of(args);
            self.books.note_untracked(task, args);
            self.note_asked(demand.entries());
        }
        self.books.map.hold(held);
        self.allocated();
        if !self.after.is_empty() {
            self.note_explicit();
        }
        if let Err(failure) = self.reserve_deps(ring, held) {
            return self.or_count_deps(failure, task, demand);
        }
        let at = self.enter(ring, demand);
        self.allocated();
        self.agent.platform.charge(ORCHESTRATOR, Work::Submit);
        self.link(ring, at);
        self.submitted += 1;
        if HELPS {
            self.help_now_and_then();
        }
        Ok(task)
    }

    /// Notes the producers that are named.
    #[cold]
    #[inline(never)]
    fn note_explicit(&mut self) {
        self.after.iter().for_each(|&dep| self.books.note_explicit(dep));
    }

    /// Links the task to its producers, or publishes it.
    // Forced inline: left to the compiler, a submit that is recorded calls it, which takes 26 instructions more.
    #[inline(always)]
    fn link(&mut self, ring: usize, at: SlotRef) {
        let shared = self.shared;
        let producers = self.books.fetch.live();
        if producers.is_empty() {
            self.agent.publish(at);
            return;
        }
        let slot = shared.slot(at);
        slot.pending.store(producers.len() as u32, Ordering::Relaxed);
        let mut refused = 0;
        // The entries end where the head is now; those of finished producers lie in front and stay unused.
        let first_node = self.books.rings[ring].dep_head - producers.len() as u64;
        for (k, &producer) in producers.iter().enumerate() {
            let pushed = shared.slot(producer).fan_out.push(at, || {
                let node = SlotRef::new(ring as u8, self.books.rings[ring].node_index(first_node + k as u64));
                (node, shared.node(node))
            });
            refused += u32::from(!pushed);
        }
        if refused > 0 && slot.take_back(refused) {
            self.agent.publish(at);
        }
    }

    /// Looks every [`EVERY`] submits how full the ring is, and whether to lend a hand.
    #[inline]
    fn help_now_and_then(&mut self) {
        if self.submitted == self.help_at {
            self.look_after_submits();
        }
    }

    #[cold]
    #[inline(never)]
    fn look_after_submits(&mut self) {
        self.help_at = self.submitted + EVERY;
        self.note_current_ring();
        if self.lend == Lend::Everything {
            let window_is_half_used = self.window_is_half_used();
            self.agent.help(self.submitted, window_is_half_used);
        }
    }

    /// Whether more than half of the slots of the innermost scope's ring are used.
    fn window_is_half_used(&self) -> bool {
        let ring = self.innermost.ring();
        self.books.rings[ring].used() > u64::from(self.shared.capacities[ring].window / 2)
    }

    fn scope(&self) -> &Scope {
        &self.scopes[self.scopes.len() - 1]
    }

    /// The kernel of the task at hand, once it is in its slot.
    #[cold]
    fn kernel_at_hand(&self, ring: usize) -> KernelId {
        KernelId(self.shared.rings[ring].slots.at(self.books.rings[ring].head).kernel())
    }

    #[cold]
    fn invalid(&mut self, kernel: KernelId, cause: FailureCause) -> Box<Failure> {
        let mut failure = Failure::new(ErrorCode::InvalidArgs, cause);
        failure.kernel = Some(kernel);
        failure.site = Some(self.scope().site);
        self.raise(failure)
    }

    /// Ends the run with this failure, unless it failed before; the first failure is returned.
    #[cold]
    pub fn raise(&mut self, failure: Failure) -> Box<Failure> {
        self.shared.fail(self.agent.platform, failure.clone());
        self.mode = SubmitMode::Failed;
        Box::new(self.shared.failure().unwrap_or(failure))
    }

    /// The run's first failure; `None` while it is running or still counting what it needs.
    pub fn failure(&mut self) -> Option<Box<Failure>> {
        match self.mode {
            SubmitMode::Running if self.shared.stopped() => Some(self.first_failure()),
            SubmitMode::Failed => Some(self.first_failure()),
            SubmitMode::Running | SubmitMode::Counting(_) => None,
        }
    }

    /// The source location of the innermost scope.
    pub fn site(&self) -> Site {
        self.scope().site
    }
}

/// Outputs take an entry of the tensormap also where nothing is inferred.
#[cold]
fn outputs_of(args: &[TaskArg<'_>]) -> u32 {
    args.iter().filter(|arg| matches!(arg, TaskArg::Output { .. })).count() as u32
}
