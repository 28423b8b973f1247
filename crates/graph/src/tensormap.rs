//! The table of who last used which part of which buffer, and the dependencies that follow from it.
//!
//! # Structure
//! Every buffer has an *anchor*: its frame, the task that created it, and two lists of the accesses that later tasks may
//! have to wait for, the reads and the writes, newest first. A read looks at the writes only. A buffer that is used by
//! tiles gets a grid besides: an access that lies in one cell of the grid is kept in lists of that cell, so that tiles
//! of one matrix do not meet each other; the anchor's own lists hold what is wider than a cell.
//!
//! Most accesses are of exactly the part that was used before: the whole buffer, or the same tile. They take a short way
//! ([`Tensormap::access`]); whatever is met there that is of another part leads to the long one.
//!
//! # What is kept
//! An access is dropped from its list when a write that covers it is entered: whoever overlaps it later overlaps that
//! write too, and the write itself depends on it. So the lists hold the last write of each part and the reads since.
//!
//! # Accounting
//! Every tracked argument takes exactly one entry, from its submit until its task's slot is reclaimed, whether or not
//! it is still listed: usage is a property of the program, not of timing.

mod grid;
mod pool;
mod uses;

pub use pool::{Chains, Entries};
pub use uses::User;

use crate::region::Form;
use crate::{Frame, Region};
use grid::next_cell;
use plimsoll_abi::{MAX_DIMS, TaskId};
use pool::{Anchor, Pool};
use uses::{LISTED, NONE, Same, Use};

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
    /// The task that is being submitted, and which argument of it this is.
    pub user: User,
    /// The buffer.
    pub buffer: BufferRef,
    /// The part of it.
    pub region: &'a Region,
}

/// A part of a buffer that may have been used as it is before: the whole, or a box.
#[derive(Clone, Copy, Debug)]
pub enum Exact<'a> {
    /// The whole buffer.
    Whole,
    /// A part of it, by its first coordinates and its extents.
    Box {
        /// First coordinates.
        start: &'a [u32; MAX_DIMS],
        /// Extents, padded with ones.
        shape: &'a [u32; MAX_DIMS],
    },
}

impl Exact<'_> {
    fn region(self) -> Region {
        match self {
            Exact::Whole => Region::WHOLE,
            Exact::Box { start, shape } => Region::at(start, shape),
        }
    }
}

/// Who is told of dependencies.
pub trait Edges {
    /// Takes note of one. Whether its task may stand for those that it waits for itself.
    fn meet(&mut self, edge: Edge) -> bool;
}

impl<F: FnMut(Edge) -> bool> Edges for F {
    #[inline(always)]
    fn meet(&mut self, edge: Edge) -> bool {
        self(edge)
    }
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

    /// Forgets every buffer, so that the memory serves the next run. False if entries are in use, or more than there were at
    /// the start: then it is of no further use.
    pub fn restart(&mut self) -> bool {
        self.pool.restart()
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
        self.pool.add_host_anchor(frame)
    }

    /// Enters a buffer that `task` makes, as one entry of that task's.
    ///
    /// The caller has made sure that an entry is free.
    #[inline]
    pub fn add_output(&mut self, task: TaskId, arg: u16, frame: Frame, entries: &mut Entries) -> BufferRef {
        self.pool.add_output_anchor(Anchor::of_output(frame, task, arg), entries)
    }

    /// The frame of a buffer.
    #[inline]
    pub fn frame(&self, buffer: BufferRef) -> &Frame {
        &self.pool.anchors[buffer.0 as usize].frame
    }

    /// The number of a buffer in records, unique in the run: bit 63 and a count for those that no task made, else the task
    /// and its argument in the low 12 bits.
    pub fn number(&self, buffer: BufferRef) -> u64 {
        self.pool.anchors[buffer.0 as usize].number()
    }

    /// Looks up whom a use of a buffer has to wait for, hands each to `edge`, and enters the use as one entry of the
    /// task's. The same task may be handed over more than once.
    ///
    /// `edge` says whether the task may stand for those that it waits for itself. A caller that counts some producers
    /// says so only of tasks that stay in the table as long as those do: else what is found would depend on when a task
    /// in between is reclaimed.
    ///
    /// The caller has made sure that an entry is free. After a conflict the table is of no further use to inference.
    pub fn access(
        &mut self,
        access: &Access<'_>,
        entries: &mut Entries,
        mut edge: impl FnMut(Edge) -> bool,
    ) -> Result<(), Conflict> {
        let Access { user, buffer, region } = *access;
        let shape = &region.extents();
        let short = match region.form {
            Form::Whole => self.access_exact(user, buffer, Exact::Whole, entries, &mut edge),
            Form::Box => {
                self.access_exact(user, buffer, Exact::Box { start: &region.start, shape }, entries, &mut edge)
            }
            Form::Span => None,
        };
        short.unwrap_or_else(|| self.access_any(access, entries, &mut edge))
    }

    /// As [`access`](Self::access), if the part that is used was only ever used as it is now: then nothing has to be
    /// compared. Nothing has happened if there is no answer.
    #[inline(always)]
    pub fn access_exact(
        &mut self,
        user: User,
        buffer: BufferRef,
        part: Exact<'_>,
        entries: &mut Entries,
        edge: &mut impl Edges,
    ) -> Option<Result<(), Conflict>> {
        let anchor = &self.pool.anchors[buffer.0 as usize];
        let own = self.pool.anchor_home(buffer.0);
        match part {
            Exact::Whole if anchor.grid == NONE => {
                Some(self.access_same(user, buffer, part, Same::Whole, own, entries, edge))
            }
            Exact::Box { start, shape } if anchor.grid != NONE && self.pool.homes[own as usize] == [NONE; 2] => {
                let cell = self.pool.grids[anchor.grid as usize].exact(anchor.frame.ndim(), start, shape)?;
                let home = self.pool.cell_home(cell);
                Some(self.access_same(user, buffer, part, Same::Cell(cell), home, entries, edge))
            }
            _ => None,
        }
    }

    /// The short way: as long as every use in its home is of exactly the same part, a write waits for the reads since
    /// the last write, or for that write if there are none, and stands for all of them from now on.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn access_same(
        &mut self,
        user: User,
        buffer: BufferRef,
        part: Exact<'_>,
        same: Same,
        home: u32,
        entries: &mut Entries,
        edge: &mut impl Edges,
    ) -> Result<(), Conflict> {
        let pool = &mut self.pool;
        let [reads, last] = pool.homes[home as usize];
        let mut behind_read = false;
        let mut dropped = 0;
        if user.writes() && reads != NONE {
            let mut at = reads;
            while at != NONE {
                let other = &mut pool.uses[at as usize];
                if !other.is_exactly(same, buffer) {
                    break;
                }
                if other.task() == user.task() {
                    return Err(Conflict { with: other.arg() });
                }
                behind_read |= edge.meet(other.edge());
                other.word &= !LISTED;
                dropped += 1;
                at = other.next;
            }
            pool.cut_list(home, at);
            if at != NONE {
                pool.forget_listed(same, buffer, dropped);
                return self.access_rest(user, buffer, part, home, behind_read, entries, edge);
            }
        }
        let mut shadowed = behind_read;
        let mut next = if user.writes() { last } else { reads };
        if last != NONE {
            let other = &mut pool.uses[last as usize];
            if !other.is_exactly(same, buffer) {
                pool.forget_listed(same, buffer, dropped);
                return self.access_rest(user, buffer, part, home, behind_read, entries, edge);
            }
            if other.task() == user.task() {
                return Err(Conflict { with: other.arg() });
            }
            shadowed = behind_read || edge.meet(other.edge());
            if user.writes() {
                other.word &= !LISTED;
                dropped += 1;
                next = other.next;
            }
        }
        if !shadowed && let Some((pred, pred_arg)) = pool.anchors[buffer.0 as usize].creator() {
            if pred == user.task() {
                return Err(Conflict { with: pred_arg });
            }
            edge.meet(Edge { pred, pred_arg, source: Source::Creator, covered: true, conservative: false });
        }
        if same != Same::Whole && dropped != 1 {
            let grid = pool.anchors[buffer.0 as usize].grid;
            let listed = &mut pool.grids[grid as usize].listed;
            *listed = *listed + 1 - dropped;
        }
        let list = usize::from(user.writes());
        pool.insert(home, list, next, entries, |new| new.become_exact(user, buffer, same));
        Ok(())
    }

    /// The long way on from the short one: something else is listed in the same home.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn access_rest(
        &mut self,
        user: User,
        buffer: BufferRef,
        part: Exact<'_>,
        home: u32,
        behind_read: bool,
        entries: &mut Entries,
        edge: &mut impl Edges,
    ) -> Result<(), Conflict> {
        let access = &Access { user, buffer, region: &part.region() };
        let mut search = Search { access, conflict: None, conservative: 0 };
        if !search.home(&mut self.pool, home, behind_read, edge) {
            search.creator(&self.pool, edge);
        }
        self.enter(&search, home, entries)
    }

    /// The long way: an access of a part of a buffer, or of one that is used by parts.
    #[inline(never)]
    fn access_any(
        &mut self,
        access: &Access<'_>,
        entries: &mut Entries,
        edge: &mut impl Edges,
    ) -> Result<(), Conflict> {
        let buffer = access.buffer.0;
        let mut home = self.pool.anchor_home(buffer);
        if access.region.is_box() {
            self.pool.fit_grid(buffer, access.region);
            let anchor = &self.pool.anchors[buffer as usize];
            if anchor.grid != NONE {
                let cell = self.pool.grids[anchor.grid as usize].enclosing(anchor.frame.ndim(), access.region);
                home = cell.map_or(home, |cell| self.pool.cell_home(cell));
            }
        }
        let search = self.look(access, edge);
        self.enter(&search, home, entries)
    }

    fn enter(&mut self, search: &Search<'_>, home: u32, entries: &mut Entries) -> Result<(), Conflict> {
        self.pool.conservative += search.conservative;
        if let Some(with) = search.conflict {
            return Err(Conflict { with });
        }
        self.pool.insert_any(search.access, home, entries);
        Ok(())
    }

    /// Hands every task that a read of `region` has to wait for to `each`.
    pub fn producers(&mut self, buffer: BufferRef, region: &Region, mut each: impl FnMut(TaskId)) {
        // No task has this id: a ring's number has 32 bits at most.
        let nobody = TaskId::from_raw((1 << 40) - 1);
        let access = Access { user: User::new(nobody, 0, false), buffer, region };
        let search = self.look(&access, &mut |edge: Edge| {
            each(edge.pred);
            true
        });
        self.pool.conservative += search.conservative;
    }

    /// Hands the dependencies of an access to `edge`.
    #[inline(always)]
    fn look<'a>(&mut self, access: &'a Access<'a>, edge: &mut impl Edges) -> Search<'a> {
        let buffer = access.buffer.0;
        let mut search = Search { access, conflict: None, conservative: 0 };
        let own = self.pool.anchor_home(buffer);
        let mut shadowed = search.home(&mut self.pool, own, false, edge);
        if let Some(range) = &self.pool.cells(buffer, access.region) {
            let mut cell = Some(range.0);
            while let Some(here) = cell {
                let home = self.pool.home_of(buffer, &here);
                shadowed |= search.home(&mut self.pool, home, false, edge);
                cell = if range.0 == range.1 { None } else { next_cell(&here, range) };
            }
        }
        if !shadowed {
            search.creator(&self.pool, edge);
        }
        search
    }

    /// Gives the entries of a reclaimed task back.
    #[inline]
    pub fn release(&mut self, entries: Chains) {
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
    fn home(&mut self, pool: &mut Pool, home: u32, behind_read: bool, edge: &mut impl Edges) -> bool {
        // A read of exactly this part since the last write of it waits for that write already.
        let behind_read = behind_read | (self.access.user.writes() && self.reads(pool, home, edge));
        self.writes(pool, home, behind_read, edge)
    }

    /// Walks the reads, all of which a write has to wait for. Whether one of them is of exactly this part.
    #[inline(always)]
    fn reads(&mut self, pool: &mut Pool, home: u32, edge: &mut impl Edges) -> bool {
        let mut same = false;
        let mut at = pool.homes[home as usize][0];
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

    /// Walks the writes. Whether one covers the whole access and stands for whoever made the buffer.
    ///
    /// It does not stop there: what is older and was not dropped is met as well. A write that stops the walk would hide
    /// what lies in its own home and not what lies in others, and homes depend on what was reclaimed when.
    #[inline(always)]
    fn writes(&mut self, pool: &mut Pool, home: u32, behind_read: bool, edge: &mut impl Edges) -> bool {
        // A read of exactly this part waits for whoever made the buffer.
        let mut shadowed = behind_read;
        let mut at = pool.homes[home as usize][1];
        while at != NONE {
            let other = &pool.uses[at as usize];
            let next = other.next;
            if let Some(relation) = self.relate(pool, other) {
                let stands = (behind_read && relation.same) || self.meet(other, relation.covered, edge);
                if self.access.user.writes() && relation.covers && self.conflict.is_none() {
                    pool.unlist(at);
                }
                shadowed |= relation.covered && stands;
            }
            at = next;
        }
        shadowed
    }

    /// Waits for the task that made the buffer, if a task did.
    #[inline(always)]
    fn creator(&mut self, pool: &Pool, edge: &mut impl Edges) {
        let Some((pred, pred_arg)) = pool.anchors[self.access.buffer.0 as usize].creator() else { return };
        if pred == self.access.user.task() {
            self.conflict = Some(pred_arg);
        } else {
            edge.meet(Edge { pred, pred_arg, source: Source::Creator, covered: true, conservative: false });
        }
    }

    /// How `other` lies to the access, if it is of the same buffer and overlaps.
    #[inline(always)]
    fn relate(&self, pool: &Pool, other: &Use) -> Option<Relation> {
        if other.buffer != self.access.buffer.0 {
            return None;
        }
        let region = &pool.region_of(other);
        if region == self.access.region {
            // A span with gaps does not surely cover even its like.
            let covered = !other.is_span();
            return Some(Relation { same: true, covered, covers: covered });
        }
        let frame = &pool.anchors[other.buffer as usize].frame;
        region.overlaps(self.access.region, frame).then(|| Relation {
            same: false,
            covered: region.covers(self.access.region),
            covers: self.access.region.covers(region),
        })
    }

    #[inline(always)]
    fn meet(&mut self, other: &Use, covered: bool, edge: &mut impl Edges) -> bool {
        if other.task() == self.access.user.task() {
            self.conflict = Some(other.arg());
            return true;
        }
        let conservative = other.is_span() || self.access.region.is_span();
        self.conservative += u64::from(conservative);
        edge.meet(Edge {
            pred: other.task(),
            pred_arg: other.arg(),
            source: if other.writes() { Source::Tensormap } else { Source::Reader },
            covered,
            conservative,
        })
    }
}
