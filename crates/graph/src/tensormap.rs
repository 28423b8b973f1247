//! The table of who last used which part of which buffer, and the dependencies that follow from it.
//!
//! # Structure
//! Every buffer has an *anchor*: its frame, the task that created it, and a list of the accesses that later tasks may
//! have to wait for, newest first. A buffer that is used by tiles gets a grid besides: an access that lies in one cell
//! of the grid is kept in a hash bucket of that cell, so that tiles of one matrix do not meet each other; the anchor's
//! own list holds what is wider than a cell.
//!
//! # What is kept
//! An access is dropped from its list when a write that covers it is entered: whoever overlaps it later overlaps that
//! write too, and the write itself depends on it. So a list is the last write of each part and the reads since.
//!
//! # Accounting
//! Every tracked argument takes exactly one entry, from its submit until its task's slot is reclaimed, whether or not
//! it is still listed: usage is a property of the program, not of timing.

mod pool;

pub use pool::Entries;

use crate::{Frame, Region};
use plimsoll_abi::TaskId;
use plimsoll_abi::record::ArgMode;
use pool::{Anchor, Listed, NONE, Pool, Use, next_cell};

/// A buffer of the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BufferRef(pub(crate) u32);

impl BufferRef {
    /// Its number in the table. Numbers of outputs are used again after their release.
    pub fn index(self) -> u32 {
        self.0
    }
}

/// One use of a buffer by a task.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The task that is being submitted.
    pub task: TaskId,
    /// Which of its arguments this is.
    pub arg: u16,
    /// The buffer.
    pub buffer: BufferRef,
    /// The part of it.
    pub region: &'a Region,
    /// How it is used: input, inout or existing output.
    pub mode: ArgMode,
}

/// How a dependency was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// Named by the orchestration.
    Explicit,
    /// The producer made the buffer.
    Creator,
    /// The producer wrote an overlapping part.
    Tensormap,
    /// The other task only read it: write-after-read.
    Reader,
}

/// One dependency of the task that is being submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The task to wait for.
    pub pred: TaskId,
    /// Which of its arguments made the dependency.
    pub pred_arg: u16,
    /// How it was found.
    pub source: Source,
    /// Whether the other task's part covers this one.
    pub covered: bool,
    /// Whether the overlap may be a false one, because a span was compared.
    pub conservative: bool,
}

/// Two arguments of one task overlap and one of them is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The earlier of the two arguments.
    pub with: u16,
}

/// The table.
#[derive(Debug)]
pub struct Tensormap {
    pool: Pool,
}

impl Tensormap {
    /// A table of at most `entries`, all allocated now.
    pub fn bounded(entries: u32) -> Self {
        Self { pool: Pool::bounded(entries) }
    }

    /// A table that grows.
    pub fn unbounded() -> Self {
        Self { pool: Pool::unbounded() }
    }

    /// Entries in use.
    #[inline]
    pub fn used(&self) -> u32 {
        self.pool.used
    }

    /// Entries there are.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.pool.capacity
    }

    /// Lets the table grow from now on: for counting what a failed run would have needed.
    pub fn lift_limit(&mut self) {
        self.pool.lift_limit();
    }

    /// Overlaps by comparison of spans so far, each of which may be a false one.
    #[inline]
    pub fn conservative_overlaps(&self) -> u64 {
        self.pool.conservative
    }

    /// Enters a buffer that no task made. It stays for the life of the table.
    pub fn add_buffer(&mut self, frame: Frame) -> BufferRef {
        self.pool.add_host_anchor(Anchor::new(frame, None))
    }

    /// Enters a buffer that `task` makes, as one entry of that task's.
    ///
    /// The caller has made sure that an entry is free.
    #[inline]
    pub fn add_output(&mut self, task: TaskId, arg: u16, frame: Frame, entries: &mut Entries) -> BufferRef {
        self.pool.add_output_anchor(Anchor::new(frame, Some((task, arg))), entries)
    }

    /// The frame of a buffer.
    #[inline]
    pub fn frame(&self, buffer: BufferRef) -> &Frame {
        &self.pool.anchors[buffer.0 as usize].frame
    }

    /// Looks up whom a use of a buffer has to wait for, hands each to `edge`, and enters the use as one entry of the
    /// task's. The same task may be handed over more than once.
    ///
    /// The caller has made sure that an entry is free. After a conflict the table is of no further use to inference.
    #[inline]
    pub fn access(
        &mut self,
        access: &Access<'_>,
        entries: &mut Entries,
        mut edge: impl FnMut(Edge),
    ) -> Result<(), Conflict> {
        if let Some(with) = self.look(access, &mut edge) {
            return Err(Conflict { with });
        }
        let list = self.pool.home_of(access.buffer.0, access.region);
        self.pool.insert(access, list, entries);
        Ok(())
    }

    /// Hands every task that a read of `region` has to wait for to `each`.
    pub fn producers(&mut self, buffer: BufferRef, region: &Region, mut each: impl FnMut(TaskId)) {
        // No task has this id: a ring's number has 32 bits at most.
        let nobody = TaskId::from_raw((1 << 40) - 1);
        let access = Access { task: nobody, arg: 0, buffer, region, mode: ArgMode::Input };
        self.look(&access, &mut |edge: Edge| each(edge.pred));
    }

    /// Hands the dependencies of an access to `edge`; an argument of the same task that it conflicts with is returned.
    #[inline]
    fn look(&mut self, access: &Access<'_>, edge: &mut impl FnMut(Edge)) -> Option<u16> {
        let anchor = &self.pool.anchors[access.buffer.0 as usize];
        let (creator, has_grid) = (anchor.creator, anchor.has_grid());
        let mut search = Search { access, conflict: None, conservative: 0 };
        let mut shadowed = search.list(&mut self.pool, Listed::Anchor(access.buffer.0), edge);
        if has_grid {
            shadowed |= self.search_cells(access, &mut search, edge);
        }
        if let (Some((pred, pred_arg)), false) = (creator, shadowed) {
            if pred == access.task {
                search.conflict = Some(pred_arg);
            } else {
                edge(Edge { pred, pred_arg, source: Source::Creator, covered: true, conservative: false });
            }
        }
        self.pool.conservative += search.conservative;
        search.conflict
    }

    /// Whether a write in a cell covers the whole access.
    fn search_cells(&mut self, access: &Access<'_>, search: &mut Search<'_>, edge: &mut impl FnMut(Edge)) -> bool {
        let Some(range) = self.pool.cells(access.buffer.0, access.region) else { return false };
        let mut cell = Some(range.0);
        let mut shadowed = false;
        while let Some(here) = cell {
            let bucket = self.pool.bucket(access.buffer.0, &here);
            shadowed |= search.list(&mut self.pool, Listed::Bucket(bucket), edge);
            cell = next_cell(&here, &range);
        }
        shadowed
    }

    /// Gives the entries of a reclaimed task back.
    #[inline]
    pub fn release(&mut self, entries: Entries) {
        self.pool.release(entries);
    }
}

/// One look-up: walks lists newest first.
struct Search<'a> {
    access: &'a Access<'a>,
    conflict: Option<u16>,
    conservative: u64,
}

impl Search<'_> {
    /// Whether it ended at a write that covers the whole access, so that nothing older matters.
    #[inline]
    fn list(&mut self, pool: &mut Pool, list: Listed, edge: &mut impl FnMut(Edge)) -> bool {
        let writes = self.access.mode.writes();
        let mut at = pool.head(list);
        while at != NONE {
            let other = pool.uses[at as usize];
            let region = other.region();
            if other.buffer == self.access.buffer.0
                && region.overlaps(self.access.region, &pool.anchors[other.buffer as usize].frame)
            {
                let covered = region.covers(self.access.region);
                self.meet(&other, covered, edge);
                // What this write covers can never matter again.
                if writes && self.conflict.is_none() && self.access.region.covers(&region) {
                    pool.unlist(at);
                }
                if covered && other.writes() {
                    return true;
                }
            }
            at = other.next;
        }
        false
    }

    #[inline]
    fn meet(&mut self, other: &Use, covered: bool, edge: &mut impl FnMut(Edge)) {
        if !other.writes() && !self.access.mode.writes() {
            return;
        }
        if other.task() == self.access.task {
            self.conflict = Some(other.arg());
            return;
        }
        let conservative = other.region().is_span() || self.access.region.is_span();
        self.conservative += u64::from(conservative);
        edge(Edge {
            pred: other.task(),
            pred_arg: other.arg(),
            source: if other.writes() { Source::Tensormap } else { Source::Reader },
            covered,
            conservative,
        });
    }
}
