//! The orchestrator's half of the scheduler: rings, scopes, inference, hand-over to the agents.
//!
//! Everything here belongs to the one orchestrating thread. A submit makes sure that the ring has room ([`wait`]),
//! infers whom the task waits for, writes the slot, links it to its producers and publishes it if it waits for nobody.

mod count;
mod record;
mod rings;
mod scopes;
mod wait;

pub use record::submit_records;
pub use rings::{PeakSites, Peaks, RunPeaks, Usage};
pub use scopes::ScopeView;

use crate::agent::Agent;
use crate::args::{SCALAR_WORDS, tensor_words, write_scalar, write_tensor};
use crate::failure::Failure;
use crate::kernel::KernelEntry;
use crate::ring::HEAP_ALIGN;
use crate::shared::{ORCHESTRATOR, Shared};
use crate::slot::{INLINE_WORDS, Slot, SlotRef};
use count::Mode;
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, ErrorCode, Flags, KernelId, RINGS, SiteId, TaskId};
use plimsoll_graph::{Access, BufferRef, Entries, Frame, Layout, Region, Tensormap};
use plimsoll_platform::{Platform, Work};
use plimsoll_probe::Lane;
use rings::{Fetch, RingHeads, RingState};
use scopes::Scope;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

/// A tensor as the runtime carries it around: where it is and which part of its buffer it is.
#[derive(Clone, Copy, Debug)]
pub struct TensorCore {
    /// Address of the buffer's first element.
    pub base: u64,
    /// The buffer in the tensormap.
    pub buffer: BufferRef,
    /// The buffer's number in records, unique in the run.
    pub id: u64,
    /// The type of the elements.
    pub dtype: Dtype,
    /// Their size.
    pub elem_bytes: u32,
    /// The elements.
    pub layout: Layout,
    /// The part of the buffer that they lie in.
    pub region: Region,
}

impl TensorCore {
    /// Address of the first element.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.base + self.layout.offset() * u64::from(self.elem_bytes)
    }

    /// Another view of the same buffer.
    pub fn with_layout(&self, frame: &Frame, layout: Layout) -> Self {
        Self { layout, region: Region::of(frame, &layout), ..*self }
    }
}

/// One argument of a submit.
#[derive(Debug)]
pub enum Arg<'t> {
    /// A tensor that exists.
    Tensor {
        /// The tensor.
        core: &'t TensorCore,
        /// Input, inout, existing output or no-dep.
        mode: ArgMode,
    },
    /// A tensor that the task makes; the submit fills in `made`.
    Output {
        /// Its shape.
        layout: &'t Layout,
        /// The type of its elements.
        dtype: Dtype,
        /// Their size.
        elem_bytes: u32,
        /// Where the tensor is put.
        made: &'t mut Option<TensorCore>,
    },
    /// A plain value.
    Scalar {
        /// Its bits.
        value: u64,
        /// Its type.
        dtype: Dtype,
    },
}

/// What one submit asks of its ring.
#[derive(Clone, Copy, Default, Debug)]
struct Demand {
    words: usize,
    heap: u64,
    entries: u32,
    elements: u64,
}

/// The orchestrator of one run.
pub struct Submitter<'r, P: Platform, L: Lane> {
    /// Its agent, with which it lends a hand.
    pub agent: Agent<'r, P, L>,
    shared: &'r Shared,
    kernels: &'r [KernelEntry],
    map: Tensormap,
    rings: [RingState; RINGS],
    scopes: Vec<Scope>,
    scopes_opened: u32,
    /// Producers of the task at hand, each once.
    fetch: Fetch,
    submitted: u64,
    host_buffers: u64,
    mode: Mode,
    lend: bool,
    /// The peaks of the scope closed last: at the end of the run, the root's.
    run_peaks: Peaks,
    /// What the rings held when a capacity ran out: what is counted after that was never in use.
    frozen: Option<Box<[RingHeads; RINGS]>>,
    frozen_entries: u32,
    /// The most that open scopes held at once.
    held: Usage,
    peak_sites: PeakSites,
    started: u64,
    /// Numbers of source sites, by address.
    sites: [(usize, SiteId); 64],
    wait_budget: Option<std::time::Duration>,
}

impl<'r, P: Platform, L: Lane> Submitter<'r, P, L> {
    /// The orchestrator of a run that was opened on `shared`. With `lend`, it executes tasks when it would wait.
    pub fn new(
        agent: Agent<'r, P, L>,
        kernels: &'r [KernelEntry],
        map: Tensormap,
        lend: bool,
    ) -> std::io::Result<Self> {
        let shared = agent.shared;
        debug_assert_eq!(agent.id(), ORCHESTRATOR);
        let [a, b, c, d] = &shared.capacities;
        let started = agent.ticks();
        Ok(Self {
            agent,
            shared,
            kernels,
            map,
            rings: [RingState::new(a)?, RingState::new(b)?, RingState::new(c)?, RingState::new(d)?],
            scopes: Vec::with_capacity(64),
            scopes_opened: 0,
            fetch: Fetch::new(shared.capacities.iter().map(|c| c.window as usize).sum()),
            submitted: 0,
            host_buffers: 0,
            mode: Mode::Running,
            lend,
            run_peaks: Peaks::default(),
            frozen: None,
            frozen_entries: 0,
            held: Usage::default(),
            peak_sites: PeakSites::default(),
            started,
            sites: [(0, SiteId(0)); 64],
            wait_budget: None,
        })
    }

    /// Tasks accepted so far.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Ticks since the run began.
    pub fn span_ticks(&self) -> u64 {
        self.agent.ticks() - self.started
    }

    /// The tensormap.
    pub fn map(&self) -> &Tensormap {
        &self.map
    }

    /// Bounds every wait of a `read` from now on.
    pub fn set_wait_budget(&mut self, budget: Option<std::time::Duration>) {
        self.wait_budget = budget;
    }

    /// Enters a host buffer.
    pub fn add_buffer(&mut self, base: u64, layout: Layout, dtype: Dtype, elem_bytes: u32) -> TensorCore {
        let buffer = self.map.add_buffer(Frame::of(&layout));
        self.host_buffers += 1;
        let id = 1 << 63 | self.host_buffers;
        let core = TensorCore { base, buffer, id, dtype, elem_bytes, layout, region: Region::WHOLE };
        if self.agent.lane.on(Flags::DEP_GEN) {
            self.record_buffer(&core);
        }
        core
    }

    /// Submits a task. Outputs are filled into `args`.
    #[inline]
    pub fn submit(&mut self, kernel: KernelId, args: &mut [Arg<'_>], deps: &[TaskId]) -> Result<TaskId, Box<Failure>> {
        if !matches!(self.mode, Mode::Running) {
            return self.submit_after_failure(kernel, args, deps);
        }
        let start = self.agent.lane.stamp_for(Flags::ORCH_PHASES);
        let demand = demand(args);
        let scope = self.scope();
        let (ring, infers, site) = (scope.ring as usize, !scope.manual, std::ptr::from_ref(scope.site) as u64);
        if demand.words > u16::MAX as usize {
            return Err(self.invalid(kernel, format!("a task has room for {} argument words", u16::MAX)));
        }
        if let Err(failure) = self.reserve(ring, &demand, kernel) {
            return self.or_count(failure, kernel, args, deps);
        }
        let head = self.rings[ring].head;
        let task = TaskId::new(ring as u8, head as u32);
        let at = SlotRef::new(ring as u8, self.rings[ring].index(head) as u32);
        let slot = self.shared.slot(at);
        slot.fan_out.open();
        slot.kernel.store(kernel.0, Ordering::Relaxed);
        slot.task.store(task.raw(), Ordering::Relaxed);
        slot.site.store(site, Ordering::Relaxed);
        slot.elements.store(demand.elements, Ordering::Relaxed);
        let entries = match self.enter_args(slot, task, &demand, infers, args) {
            Ok(entries) => entries,
            Err(what) => return Err(self.invalid(kernel, what)),
        };
        self.allocated();
        for &dep in deps {
            self.fetch.note_explicit(&mut self.rings, dep);
        }
        if let Err(failure) = self.reserve_deps(ring, kernel) {
            return self.or_count_deps(failure, task, &demand);
        }
        self.enter(ring, &demand, entries);
        self.allocated();
        self.agent.platform.charge(ORCHESTRATOR, Work::Submit);
        self.link(ring, at);
        if self.agent.lane.on(Flags::ORCH_PHASES) {
            let end = self.agent.lane.stamp();
            self.agent.lane.orch_submit(start, end, task, self.submitted as u32);
        }
        if self.agent.lane.on(Flags::DEP_GEN) {
            self.record_submit(task, kernel, args, deps);
        }
        self.submitted += 1;
        self.lend_a_hand(ring);
        Ok(task)
    }

    /// Writes the arguments into a slot that nobody can reach yet, allocates outputs and finds the producers.
    #[inline(always)]
    fn enter_args(
        &mut self,
        slot: &Slot,
        task: TaskId,
        demand: &Demand,
        infers: bool,
        args: &mut [Arg<'_>],
    ) -> Result<Entries, String> {
        let ring = task.ring() as usize;
        let heap = &self.shared.rings[ring].heap;
        let mut free = self.rings[ring].heap_head;
        let mut words: &[AtomicU64] = &slot.inline;
        if demand.words > INLINE_WORDS {
            let room = heap.address(free).cast::<AtomicU64>();
            free += overflow_bytes(demand.words);
            // SAFETY: the range was reserved in the ring's heap for this task alone, is aligned to HEAP_ALIGN, and
            // zeroed or older bytes are valid words.
            words = unsafe { std::slice::from_raw_parts(room, demand.words) };
        }
        slot.args.store(words.as_ptr() as u64, Ordering::Relaxed);
        slot.arg_counts.store(demand.words as u32 | (args.len() as u32) << 16, Ordering::Relaxed);
        self.fetch.begin();
        let mut entries = Entries::NONE;
        for (index, arg) in args.iter_mut().enumerate() {
            let used = match arg {
                Arg::Tensor { core, mode } => {
                    if infers && *mode != ArgMode::NoDep {
                        let access = Access {
                            task,
                            arg: index as u16,
                            buffer: core.buffer,
                            region: &core.region,
                            writes: mode.writes(),
                        };
                        let (rings, fetch) = (&mut self.rings, &mut self.fetch);
                        let met = self.map.access(&access, &mut entries, |edge| fetch.note(rings, edge.pred));
                        if let Err(conflict) = met {
                            return Err(overlap_text(conflict.with, index));
                        }
                    }
                    write_tensor(words, core.address(), &core.layout, *mode, core.dtype)
                }
                Arg::Output { layout, dtype, elem_bytes, made } => {
                    let base = heap.address(free) as u64;
                    free += output_bytes(layout, *elem_bytes);
                    let buffer = self.map.add_output(task, index as u16, Frame::of(layout), &mut entries);
                    **made = Some(TensorCore {
                        base,
                        buffer,
                        id: task.raw() << 12 | index as u64,
                        dtype: *dtype,
                        elem_bytes: *elem_bytes,
                        layout: **layout,
                        region: Region::WHOLE,
                    });
                    write_tensor(words, base, layout, ArgMode::Output, *dtype)
                }
                Arg::Scalar { value, dtype } => write_scalar(words, *value, *dtype),
            };
            words = &words[used..];
        }
        Ok(entries)
    }

    /// Links the task to its producers, or publishes it.
    #[inline]
    fn link(&mut self, ring: usize, at: SlotRef) {
        let shared = self.shared;
        let slot = shared.slot(at);
        let producers = self.fetch.live();
        if producers.is_empty() {
            self.agent.publish(at);
            return;
        }
        slot.pending.store(producers.len() as u32, Ordering::Relaxed);
        let mut refused = 0;
        // The entries end where the head is now; those of finished producers lie in front and stay unused.
        let first_node = self.rings[ring].dep_head - producers.len() as u64;
        for (k, &producer) in producers.iter().enumerate() {
            let pushed = shared.slot(producer).fan_out.push(at, || {
                let node = SlotRef::new(ring as u8, self.rings[ring].node_index(first_node + k as u64));
                (node, shared.node(node))
            });
            refused += u32::from(!pushed);
        }
        if refused > 0 && slot.take_back(refused) {
            self.agent.publish(at);
        }
    }

    /// Executes tasks here when enough of them are in flight that nobody will miss the orchestrator for a moment.
    #[inline(always)]
    fn lend_a_hand(&mut self, ring: usize) {
        const ALONE: u64 = 256;
        if !self.lend {
            return;
        }
        if self.shared.agents() == 1 {
            if self.submitted - self.shared.done.by(0) >= ALONE {
                self.drain_alone(ALONE / 2);
            }
        } else if self.rings[ring].used() > u64::from(self.shared.capacities[ring].window / 2) {
            self.agent.step();
        }
    }

    #[inline(never)]
    fn drain_alone(&mut self, leave: u64) {
        while self.submitted - self.shared.done.by(0) > leave && self.agent.step() {}
    }

    fn scope(&self) -> &Scope {
        &self.scopes[self.scopes.len() - 1]
    }

    #[cold]
    fn invalid(&mut self, kernel: KernelId, what: String) -> Box<Failure> {
        let mut failure = Failure::new(ErrorCode::InvalidArgs, what);
        failure.kernel = Some(kernel);
        failure.site = Some(self.scope().site);
        self.raise(failure)
    }

    /// Ends the run with this failure, unless it failed before; the first failure is returned.
    #[cold]
    pub fn raise(&mut self, failure: Failure) -> Box<Failure> {
        self.shared.fail(self.agent.platform, failure.clone());
        self.mode = Mode::Failed;
        Box::new(self.shared.failure().unwrap_or(failure))
    }

    /// The source location of the innermost scope.
    pub fn site(&self) -> &'static Location<'static> {
        self.scope().site
    }
}

#[cold]
fn overlap_text(one: u16, other: usize) -> String {
    format!("arguments {one} and {other} overlap and one of them is written")
}

/// What a submit with these arguments asks for.
#[inline]
fn demand(args: &[Arg<'_>]) -> Demand {
    let mut demand = Demand::default();
    for arg in args {
        match arg {
            Arg::Tensor { core, mode } => {
                demand.words += tensor_words(&core.layout);
                demand.entries += u32::from(*mode != ArgMode::NoDep);
                demand.elements += core.layout.len();
            }
            Arg::Output { layout, elem_bytes, .. } => {
                demand.words += tensor_words(layout);
                demand.entries += 1;
                demand.elements += layout.len();
                demand.heap += output_bytes(layout, *elem_bytes);
            }
            Arg::Scalar { .. } => demand.words += SCALAR_WORDS,
        }
    }
    demand.heap += overflow_bytes(demand.words);
    demand
}

#[inline(always)]
fn output_bytes(layout: &Layout, elem_bytes: u32) -> u64 {
    (layout.len() * u64::from(elem_bytes)).next_multiple_of(HEAP_ALIGN)
}

/// Argument words that do not fit the slot lie in the heap, in front of the outputs.
#[inline(always)]
fn overflow_bytes(words: usize) -> u64 {
    if words <= INLINE_WORDS { 0 } else { (words as u64 * 8).next_multiple_of(HEAP_ALIGN) }
}
