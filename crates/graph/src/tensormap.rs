//! The table of who last used which part of which buffer, and the dependencies that follow from it.
//!
//! # Structure
//! Every buffer has an *anchor*: its frame, the task that created it, and two lists of the accesses that later tasks may
//! have to wait for, the reads and the writes, newest first. A read looks at the writes only. A buffer that is used by tiles gets a grid besides: an access that lies in one cell
//! of the grid is kept in a hash bucket of that cell, so that tiles of one matrix do not meet each other; the anchor's
//! own list holds what is wider than a cell.
//!
//! # What is kept
//! An access is dropped from its list when a write that covers it is entered: whoever overlaps it later overlaps that
//! write too, and the write itself depends on it. So the lists hold the last write of each part and the reads since.
//!
//! # Accounting
//! Every tracked argument takes exactly one entry, from its submit until its task's slot is reclaimed, whether or not
//! it is still listed: usage is a property of the program, not of timing.

mod pool;

pub use pool::Entries;

use crate::{Frame, Region};
use plimsoll_abi::TaskId;
use pool::{Anchor, Cells, Home, NONE, Pool, Use, next_cell};

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
    /// Whether it is written; it may be read besides.
    pub writes: bool,
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

    /// Whether this many entries are free.
    #[inline(always)]
    pub fn has_room(&self, entries: u32) -> bool {
        self.pool.capacity - self.pool.used >= entries
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
    /// `edge` says whether the task may stand for those that it waits for itself. A caller that counts some producers
    /// says so only of tasks that stay in the table as long as those do: else what is found would depend on when a task
    /// in between is reclaimed.
    ///
    /// The caller has made sure that an entry is free. After a conflict the table is of no further use to inference.
    #[inline]
    pub fn access(
        &mut self,
        access: &Access<'_>,
        entries: &mut Entries,
        mut edge: impl FnMut(Edge) -> bool,
    ) -> Result<(), Conflict> {
        let anchor = &self.pool.anchors[access.buffer.0 as usize];
        if access.region.is_whole() && anchor.is_plain() {
            return self.access_whole(access, entries, &mut edge);
        }
        self.access_part(access, entries, &mut edge)
    }

    /// An access of a whole buffer that has no grid: every listed use overlaps it.
    #[inline(always)]
    fn access_whole(
        &mut self,
        access: &Access<'_>,
        entries: &mut Entries,
        edge: &mut impl FnMut(Edge) -> bool,
    ) -> Result<(), Conflict> {
        let mut search = Search { access, conflict: None, conservative: 0 };
        let writes = access.writes;
        let mut behind_read = false;
        if writes {
            let mut at = self.pool.take_list(access.buffer.0, false);
            while at != NONE {
                let other = self.pool.drop_listed(at);
                behind_read |= search.meet(&other, other.is_whole(), edge) && other.is_whole();
                at = other.next;
            }
        }
        let mut shadowed = false;
        let mut at = self.pool.head(Home::Anchor(access.buffer.0), true);
        while at != NONE && !shadowed {
            let other = &self.pool.uses[at as usize];
            let whole = other.is_whole();
            shadowed = whole && (behind_read || search.meet(other, true, edge));
            if !whole {
                search.meet(other, false, edge);
            }
            at = other.next;
        }
        if writes {
            let mut at = self.pool.take_list(access.buffer.0, true);
            while at != NONE {
                at = self.pool.drop_listed(at).next;
            }
        }
        if !shadowed {
            search.creator(&self.pool, edge);
        }
        self.pool.conservative += search.conservative;
        if let Some(with) = search.conflict {
            return Err(Conflict { with });
        }
        self.pool.insert(access, Home::Anchor(access.buffer.0), entries);
        Ok(())
    }

    /// An access of a part of a buffer, or of one that is used by parts.
    #[inline(never)]
    fn access_part(
        &mut self,
        access: &Access<'_>,
        entries: &mut Entries,
        edge: &mut impl FnMut(Edge) -> bool,
    ) -> Result<(), Conflict> {
        let mut home = Home::Anchor(access.buffer.0);
        let conflict = if access.region.is_box() {
            self.pool.fit_grid(access.buffer.0, access.region);
            match self.pool.cell_of_box(access.buffer.0, access.region) {
                Cells::One(bucket) => {
                    home = Home::Bucket(bucket);
                    self.look_in_cell(access, home, edge)
                }
                Cells::NoGrid | Cells::Many => self.look(access, edge),
            }
        } else {
            self.look(access, edge)
        };
        if let Some(with) = conflict {
            return Err(Conflict { with });
        }
        self.pool.insert(access, home, entries);
        Ok(())
    }

    /// As `look`, for an access that lies in one cell.
    #[inline(always)]
    fn look_in_cell(&mut self, access: &Access<'_>, cell: Home, edge: &mut impl FnMut(Edge) -> bool) -> Option<u16> {
        let mut search = Search { access, conflict: None, conservative: 0 };
        let mut shadowed = false;
        if !self.pool.anchors[access.buffer.0 as usize].is_unlisted() {
            shadowed = search.home(&mut self.pool, Home::Anchor(access.buffer.0), edge);
        }
        shadowed |= search.home(&mut self.pool, cell, edge);
        if !shadowed {
            search.creator(&self.pool, edge);
        }
        self.pool.conservative += search.conservative;
        search.conflict
    }

    /// Hands every task that a read of `region` has to wait for to `each`.
    pub fn producers(&mut self, buffer: BufferRef, region: &Region, mut each: impl FnMut(TaskId)) {
        // No task has this id: a ring's number has 32 bits at most.
        let nobody = TaskId::from_raw((1 << 40) - 1);
        let access = Access { task: nobody, arg: 0, buffer, region, writes: false };
        self.look(&access, &mut |edge: Edge| {
            each(edge.pred);
            true
        });
    }

    /// Hands the dependencies of an access to `edge`; an argument of the same task that it conflicts with is returned.
    #[inline(always)]
    fn look(&mut self, access: &Access<'_>, edge: &mut impl FnMut(Edge) -> bool) -> Option<u16> {
        let mut search = Search { access, conflict: None, conservative: 0 };
        let mut shadowed = search.home(&mut self.pool, Home::Anchor(access.buffer.0), edge);
        if let Some(range) = &self.pool.cells(access.buffer.0, access.region) {
            let mut cell = Some(range.0);
            while let Some(here) = cell {
                let bucket = self.pool.bucket(access.buffer.0, &here);
                shadowed |= search.home(&mut self.pool, Home::Bucket(bucket), edge);
                cell = if range.0 == range.1 { None } else { next_cell(&here, range) };
            }
        }
        if !shadowed {
            search.creator(&self.pool, edge);
        }
        self.pool.conservative += search.conservative;
        search.conflict
    }

    /// Gives the entries of a reclaimed task back.
    #[inline]
    pub fn release(&mut self, entries: Entries) {
        self.pool.release(entries);
    }
}

/// How an earlier use lies to an access.
#[derive(Clone, Copy)]
struct Relation {
    /// They are of exactly the same part.
    same: bool,
    /// The earlier use covers the access.
    covered: bool,
    /// The access covers the earlier use.
    covers: bool,
}

/// One look-up: walks lists newest first.
struct Search<'a> {
    access: &'a Access<'a>,
    conflict: Option<u16>,
    conservative: u64,
}

impl Search<'_> {
    /// Whether it ended at a write that covers the whole access and stands for all that is older.
    #[inline(always)]
    fn home(&mut self, pool: &mut Pool, home: Home, edge: &mut impl FnMut(Edge) -> bool) -> bool {
        // A read of exactly this part since the last write of it waits for that write already.
        let behind_read = self.access.writes && self.reads(pool, home, edge);
        self.writes(pool, home, behind_read, edge)
    }

    /// Walks the reads, all of which a write has to wait for. Whether one of them is of exactly this part.
    #[inline(always)]
    fn reads(&mut self, pool: &mut Pool, home: Home, edge: &mut impl FnMut(Edge) -> bool) -> bool {
        let mut same = false;
        let mut at = pool.head(home, false);
        while at != NONE {
            let other = &pool.uses[at as usize];
            let next = other.next;
            if let Some(relation) = self.relate(pool, other) {
                same |= self.meet(other, relation.covered, edge) && relation.same;
                // What this write covers can never matter again.
                if relation.covers && self.conflict.is_none() {
                    pool.unlist(at);
                }
            }
            at = next;
        }
        same
    }

    /// Walks the writes until one covers the access.
    #[inline(always)]
    fn writes(&mut self, pool: &mut Pool, home: Home, behind_read: bool, edge: &mut impl FnMut(Edge) -> bool) -> bool {
        let mut at = pool.head(home, true);
        while at != NONE {
            let other = &pool.uses[at as usize];
            let next = other.next;
            if let Some(relation) = self.relate(pool, other) {
                let stands = (behind_read && relation.same) || self.meet(other, relation.covered, edge);
                if self.access.writes && relation.covers && self.conflict.is_none() {
                    pool.unlist(at);
                }
                if relation.covered && stands {
                    return true;
                }
            }
            at = next;
        }
        false
    }

    /// Waits for the task that made the buffer, if a task did.
    #[inline(always)]
    fn creator(&mut self, pool: &Pool, edge: &mut impl FnMut(Edge) -> bool) {
        let Some((pred, pred_arg)) = pool.anchors[self.access.buffer.0 as usize].creator else { return };
        if pred == self.access.task {
            self.conflict = Some(pred_arg);
        } else {
            edge(Edge { pred, pred_arg, source: Source::Creator, covered: true, conservative: false });
        }
    }

    /// How `other` lies to the access, if it is of the same buffer and overlaps.
    #[inline(always)]
    fn relate(&self, pool: &Pool, other: &Use) -> Option<Relation> {
        if other.buffer != self.access.buffer.0 {
            return None;
        }
        if other.is_of(self.access.region) {
            // A span with gaps does not surely cover even its like.
            let covered = !other.is_span();
            return Some(Relation { same: true, covered, covers: covered });
        }
        self.relate_parts(pool, other)
    }

    #[inline(never)]
    fn relate_parts(&self, pool: &Pool, other: &Use) -> Option<Relation> {
        let region = other.region();
        let frame = &pool.anchors[other.buffer as usize].frame;
        region.overlaps(self.access.region, frame).then(|| Relation {
            same: false,
            covered: region.covers(self.access.region),
            covers: self.access.region.covers(&region),
        })
    }

    #[inline(always)]
    fn meet(&mut self, other: &Use, covered: bool, edge: &mut impl FnMut(Edge) -> bool) -> bool {
        if other.task() == self.access.task {
            self.conflict = Some(other.arg());
            return true;
        }
        let conservative = other.is_span() || self.access.region.is_span();
        self.conservative += u64::from(conservative);
        edge(Edge {
            pred: other.task(),
            pred_arg: other.arg(),
            source: if other.writes() { Source::Tensormap } else { Source::Reader },
            covered,
            conservative,
        })
    }
}
