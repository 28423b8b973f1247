//! What inference works on, apart from everything else that the orchestrator has: so that its inner loop needs no more
//! than a pointer to it.

use super::arg::{Demand, OutputPlace, TaskArg, TensorCore, ViewPart, overflow_bytes};
use super::rings::{Fetch, RingState};
use crate::args::{write_scalar, write_tensor};
use crate::ring::{Capacity, Heap};
use crate::shared::Shared;
use crate::slot::{INLINE_WORDS, Slot};
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{RINGS, TaskId};
use plimsoll_graph::{BufferRef, BufferUse, Conflict, Dependency, Edges, Tensormap, User};
use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tensormap, the rings' books and the task at hand. They are large, so a device keeps them from run to run.
#[derive(Debug)]
pub struct Books {
    pub(super) map: Tensormap,
    pub(super) rings: [RingState; RINGS],
    /// Producers of the task at hand, each once.
    pub(super) fetch: Fetch,
    /// The heads of the rings at the last sweep of the tensormap.
    swept: [u64; RINGS],
    /// The rings that they are of.
    capacities: [Capacity; RINGS],
    /// Tasks that use a buffer without inference having been told, and whether they may write it: what `read` and `write`
    /// wait for besides.
    untracked: Vec<(BufferRef, TaskId, bool)>,
}

/// Untracked writes after which those that have come back are forgotten.
const UNTRACKED_AT_FIRST: usize = 256;

/// Tasks after which the tensormap is swept: their numbers begin again after four times as many.
const SWEEP_EVERY: u64 = 1 << 30;

/// Takes the producers of the task at hand.
struct Producers<'b> {
    rings: &'b mut [RingState; RINGS],
    fetch: &'b mut Fetch,
}

impl Edges for Producers<'_> {
    // Forced inline: left to the compiler, the loops over a submit's arguments are calls: 65 instructions more for one argument.
    #[inline(always)]
    fn meet(&mut self, edge: Dependency) -> bool {
        self.fetch.note(self.rings, edge.pred)
    }

    #[inline]
    fn is_spent(&self, task: TaskId) -> bool {
        self.rings[task.ring() as usize % RINGS].is_spent(task)
    }

    fn is_held(&self, task: TaskId) -> bool {
        self.rings[task.ring() as usize % RINGS].holds(task)
    }
}

impl Books {
    /// Books of rings and a tensormap of these sizes.
    ///
    /// # Errors
    /// What the system says when it refuses the memory.
    pub fn new(rings: &[Capacity; RINGS], tensormap: u32) -> std::io::Result<Self> {
        let [a, b, c, d] = rings;
        Ok(Self {
            map: Tensormap::bounded(tensormap)?,
            rings: [RingState::new(a)?, RingState::new(b)?, RingState::new(c)?, RingState::new(d)?],
            fetch: Fetch::new(rings.iter().map(|c| c.window as usize).sum())?,
            swept: [0; RINGS],
            capacities: *rings,
            untracked: Vec::new(),
        })
    }

    /// Whether they are of rings as large as those of `shared`. Books of larger ones would place arguments outside of them.
    pub(super) fn are_of(&self, shared: &Shared) -> bool {
        self.capacities == shared.capacities
    }

    /// The books of the next run, after one on `shared` whose every task has completed and whose every scope has closed;
    /// nothing after any other.
    pub(super) fn closed(mut self, shared: &Shared) -> Option<Self> {
        for (at, ring) in self.rings.iter_mut().enumerate() {
            ring.advance_done(shared, at);
        }
        let done = std::array::from_fn(|ring| self.rings[ring].done);
        let mut empty = true;
        for (at, ring) in self.rings.iter_mut().enumerate() {
            ring.reclaim(at, &done, &mut self.map);
            empty &= ring.used() == 0;
            ring.restart();
        }
        self.swept = [0; RINGS];
        self.untracked.clear();
        (empty && self.map.restart()).then_some(self)
    }

    /// Makes the tensormap forget numbers that are about to be given again.
    #[inline]
    pub(super) fn sweep_now_and_then(&mut self) {
        let due = |ring: usize| self.rings[ring].head - self.swept[ring] > SWEEP_EVERY;
        if (0..RINGS).any(due) || self.map.wants_sweep() {
            let rings = &self.rings;
            self.map.sweep(|task| rings[task.ring() as usize % RINGS].is_in_flight(task));
            self.swept = std::array::from_fn(|ring| self.rings[ring].head);
        }
    }

    /// The producers of another task are noted from now on.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.fetch.begin() {
            self.rings.iter_mut().for_each(RingState::forget_marks);
        }
    }

    /// Writes the arguments of `task` into a slot that nobody can reach yet, and allocates outputs.
    #[inline(always)]
    pub(super) fn write_args(
        &mut self,
        heap: &Heap,
        slot: &Slot,
        task: TaskId,
        demand: Demand,
        args: &mut [TaskArg<'_>],
    ) {
        let word_count = demand.words();
        let ring = &self.rings[task.ring() as usize % RINGS];
        // From here on, as much as was reserved is contiguous.
        let mut free = if demand.heap == 0 { 0 } else { heap.address(ring.heap_head - ring.heap_front()) as u64 };
        let mut words: &[AtomicU64] = &slot.inline;
        if word_count > INLINE_WORDS {
            cold_path();
            let room = free as *const AtomicU64;
            free += overflow_bytes(word_count);
            // SAFETY: the range was reserved in the ring's heap for this task alone, is aligned to HEAP_ALIGN, and
            // zeroed or older bytes are valid words.
            words = unsafe { std::slice::from_raw_parts(room, word_count) };
            slot.inline[0].store(room.addr() as u64, Ordering::Relaxed);
        }
        for (index, arg) in args.iter_mut().enumerate() {
            words = match arg {
                TaskArg::Tensor { core, mode } => write_tensor(words, core.address(), core.word, &core.layout, *mode),
                TaskArg::Output { request } => {
                    // What follows from the task would otherwise be worked out before the loop by every submit, for the few that
                    // make outputs.
                    let (task, base) = (std::hint::black_box(task), free);
                    free += request.bytes;
                    request.place =
                        OutputPlace { base, buffer: self.map.add_output(task, index as u16, &request.buffer_shape) };
                    write_tensor(words, base, request.word, &request.buffer_shape, ArgMode::Output)
                }
                TaskArg::Scalar { value, dtype } => write_scalar(words, *value, *dtype),
            };
        }
    }

    /// Finds whom `task` has to wait for on account of its arguments. An error names two of them that overlap.
    #[inline(always)]
    pub(super) fn infer_args(&mut self, task: TaskId, args: &[TaskArg<'_>]) -> Result<(), [u16; 2]> {
        let mut user = User::new(task, 0, false);
        for arg in args {
            let inferred = match arg {
                TaskArg::Tensor { core, mode } if mode.only_reads() => self.infer::<false>(user, core),
                TaskArg::Tensor { core, mode } if mode.writes() => self.infer::<true>(user.writing(true), core),
                TaskArg::Tensor { core, mode } => {
                    self.note_untracked_use(task, core.buffer, mode.may_write());
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(conflict) = inferred {
                return Err([conflict.with, user.arg()]);
            }
            user = user.next();
        }
        Ok(())
    }

    /// Enters a use of a buffer by the task at hand and notes whom it has to wait for.
    #[inline(always)]
    fn infer<const WRITES: bool>(&mut self, user: User, core: &TensorCore) -> Result<(), Conflict> {
        let Self { map, rings, fetch, .. } = self;
        let edges = &mut Producers { rings, fetch };
        let done = if core.part == ViewPart::Whole {
            map.access_whole::<WRITES>(user, core.buffer, edges)
        } else if core.part == ViewPart::Tile {
            map.access_tile::<WRITES, false>(user, core.buffer, &core.start, core.layout.padded_shape(), edges)
        } else {
            None
        };
        done.unwrap_or_else(|| self.infer_any(user, core))
    }

    /// Notes a use of a tensor, and finds its dependencies, where a home has to be searched for or parts have to be compared.
    #[inline(never)]
    fn infer_any(&mut self, user: User, core: &TensorCore) -> Result<(), Conflict> {
        match core.part {
            ViewPart::Box if user.writes() => self.infer_box::<true>(user, core),
            ViewPart::Box => self.infer_box::<false>(user, core),
            _ => self.infer_other(user, core),
        }
    }

    /// Notes a use of a box, and finds its dependencies. The box is a cell or lies in one if it is a tile behind a border, or a
    /// strip of a halo.
    #[inline(never)]
    fn infer_box<const WRITES: bool>(&mut self, user: User, core: &TensorCore) -> Result<(), Conflict> {
        let Self { map, rings, fetch, .. } = self;
        let (buffer, shape) = (core.buffer, core.layout.padded_shape());
        let done = map.access_box::<WRITES>(user, buffer, &core.start, shape, &mut Producers { rings, fetch });
        done.unwrap_or_else(|| self.infer_long(user, core))
    }

    /// Notes a use of a tile whose home another cell may have, or of any view, and finds its dependencies.
    #[inline(never)]
    fn infer_other(&mut self, user: User, core: &TensorCore) -> Result<(), Conflict> {
        let Self { map, rings, fetch, .. } = self;
        let (buffer, start, shape) = (core.buffer, &core.start, core.layout.padded_shape());
        if core.part == ViewPart::Tile {
            let edges = &mut Producers { rings, fetch };
            let claimed = if user.writes() {
                map.access_tile::<true, true>(user, buffer, start, shape, edges)
            } else {
                map.access_tile::<false, true>(user, buffer, start, shape, edges)
            };
            if let Some(done) = claimed {
                return done;
            }
        }
        let footprint = &core.footprint(map);
        map.access(&BufferUse { user, buffer, footprint }, Producers { rings, fetch })
    }

    /// Notes a use of a box that is no cell and lies in none, and finds its dependencies.
    #[inline(never)]
    fn infer_long(&mut self, user: User, core: &TensorCore) -> Result<(), Conflict> {
        let Self { map, rings, fetch, .. } = self;
        let footprint = &core.footprint(map);
        map.access_long(&BufferUse { user, buffer: core.buffer, footprint }, &mut Producers { rings, fetch })
    }

    /// Notes what `task` uses, of whose arguments nothing is inferred.
    #[cold]
    pub(super) fn note_untracked(&mut self, task: TaskId, args: &[TaskArg<'_>]) {
        for arg in args {
            if let TaskArg::Tensor { core, mode } = arg {
                self.note_untracked_use(task, core.buffer, mode.may_write());
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn note_untracked_use(&mut self, task: TaskId, buffer: BufferRef, may_write: bool) {
        if self.untracked.len() == self.untracked.capacity() {
            let rings = &self.rings;
            self.untracked.retain(|(_, task, _)| rings[task.ring() as usize % RINGS].is_in_flight(*task));
            self.untracked.reserve(self.untracked.len().max(UNTRACKED_AT_FIRST));
        }
        self.untracked.push((buffer, task, may_write));
    }

    /// Notes the tasks that may write `buffer`, or with `readers` use it, without inference having been told.
    pub(super) fn note_untracked_users(&mut self, buffer: BufferRef, readers: bool) {
        let Self { untracked, rings, fetch, .. } = self;
        for (_, task, _) in untracked.iter().filter(|(used, _, may_write)| *used == buffer && (*may_write || readers)) {
            fetch.note(rings, *task);
        }
    }

    /// Notes a producer that was named, which may have been reclaimed long ago.
    pub(super) fn note_explicit(&mut self, pred: TaskId) {
        let ring = &self.rings[pred.ring() as usize % RINGS];
        if ring.widen(pred.local()) >= ring.tail {
            self.fetch.note(&mut self.rings, pred);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Numbers of submits begin again after 2^32: what was noted by the submit that had the same number is noted again.
    #[test]
    fn a_mark_of_long_ago_hides_no_producer() {
        let capacity = Capacity { window: 8, heap: 64, dep_pool: 8 };
        let mut books = Books::new(&[capacity; RINGS], 8).expect("memory");
        let task = TaskId::new(1, books.rings[1].enter(0, 0, 0));
        for lap in 0..3 {
            books.begin();
            books.fetch.note(&mut books.rings, task);
            books.fetch.note(&mut books.rings, task);
            assert_eq!(books.fetch.live().len(), 1, "lap {lap}");
            books.fetch.age();
        }
    }
}
