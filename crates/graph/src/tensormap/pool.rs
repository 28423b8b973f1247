//! The memory of the tensormap: anchors, uses, grids and the lists that hold the uses.
//!
//! Uses and anchors are taken from free lists and given back when their task's slot is reclaimed. A list is doubly
//! linked, newest first; its head lies in an anchor or in a hash bucket. All indices are into this pool's own vectors.

use super::{Access, BufferRef};
use crate::region::Form;
use crate::{Frame, Region};
use plimsoll_abi::{MAX_DIMS, TaskId};

/// No index: place 0 of every vector is never used, so that zeroed memory is a table of empty lists.
pub(super) const NONE: u32 = 0;
/// Grids that a bounded pool has; a buffer that gets none is searched without.
const GRIDS: usize = 1024;
/// Host buffers that need no allocation.
const HOST_BUFFERS: usize = 64;
const UNBOUNDED_START: u32 = 1 << 12;

/// The entries that one task holds: chains through the pool.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    uses: u32,
    anchors: u32,
    count: u32,
}

impl Entries {
    /// None yet.
    pub const NONE: Entries = Entries { uses: NONE, anchors: NONE, count: 0 };

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Default for Entries {
    fn default() -> Self {
        Self::NONE
    }
}

/// A buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) frame: Frame,
    pub(super) creator: Option<(TaskId, u16)>,
    /// Heads of the lists of reads and of writes.
    lists: [u32; 2],
    /// Index of the grid, or `NONE`.
    grid: u32,
    /// The next anchor of the same task, or the next free one.
    sibling: u32,
}

impl Anchor {
    const EMPTY: Anchor = Anchor { frame: Frame::POINT, creator: None, lists: [NONE; 2], grid: NONE, sibling: NONE };

    pub(super) fn new(frame: Frame, creator: Option<(TaskId, u16)>) -> Self {
        Self { frame, creator, lists: [NONE; 2], grid: NONE, sibling: NONE }
    }

    /// Whether it has no grid.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.grid == NONE
    }

    /// Whether its own lists are empty.
    #[inline(always)]
    pub(super) fn is_unlisted(&self) -> bool {
        self.lists == [NONE; 2]
    }
}

/// The cells of a buffer that is used by tiles.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Extents of a cell.
    extent: [u32; MAX_DIMS],
    /// 2^63 / extent of a cell, rounded up: division by multiplication.
    reciprocal: [u64; MAX_DIMS],
    /// Uses that are listed in cells.
    listed: u32,
    next_free: u32,
}

impl Grid {
    const EMPTY: Grid = Grid { extent: [0; MAX_DIMS], reciprocal: [0; MAX_DIMS], listed: 0, next_free: NONE };

    /// Cells of this box's extents.
    fn of(region: &Region, frame: &Frame) -> Self {
        let extent = region.extents();
        let mut grid = Grid { extent, ..Self::EMPTY };
        for (d, reciprocal) in grid.reciprocal.iter_mut().enumerate() {
            if extent[d] < frame.shape()[d] {
                // ceil(2^63 / extent), which is exact for dividends below 2^31; an extent of 1 fits as well.
                *reciprocal =
                    (1 << 63) / u64::from(extent[d]) + u64::from(!(1u64 << 63).is_multiple_of(u64::from(extent[d])));
            }
        }
        grid
    }

    /// The place along dimension `d` of the cell that holds coordinate `at`.
    #[inline(always)]
    fn cell_at(&self, d: usize, at: u32) -> u32 {
        // A reciprocal of 0 stands for a cell as large as the dimension: everything lies in cell 0.
        ((u128::from(self.reciprocal[d]) * u128::from(at)) >> 63) as u32
    }

    fn cell(&self, at: &[u32; MAX_DIMS], ndim: usize) -> [u32; MAX_DIMS] {
        std::array::from_fn(|d| if d < ndim { self.cell_at(d, at[d]) } else { 0 })
    }
}

/// Where the uses of a box are.
pub(super) enum Cells {
    /// In the anchor's own lists only.
    NoGrid,
    /// In one cell, and perhaps in the anchor's own lists.
    One(u32),
    /// In several cells.
    Many,
}

#[inline(always)]
fn hash_start(buffer: u32) -> u64 {
    u64::from(buffer).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
fn hash_step(hash: u64, cell: u32) -> u64 {
    (hash ^ u64::from(cell)).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

/// The first and the last cell that something touches.
pub(super) type CellRange = ([u32; MAX_DIMS], [u32; MAX_DIMS]);

/// One use of a buffer by a task.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Use {
    start: [u32; MAX_DIMS],
    end: [u32; MAX_DIMS],
    /// Task id in the low 40 bits, then 16 bits of argument, then the bits below.
    word: u64,
    pub(super) buffer: u32,
    pub(super) next: u32,
    /// The use before this one; for the first of a cell's list, `AT_HEAD` and the cell's bucket.
    prev: u32,
    sibling: u32,
}

/// Marks a `prev` that is a bucket.
const AT_HEAD: u32 = 1 << 31;

const _: () = assert!(size_of::<Use>() == 64, "a use is one cache line");

const ID_MASK: u64 = (1 << 40) - 1;
const ARG_SHIFT: u32 = 40;
const WRITES: u64 = 1 << 56;
const IN_BUCKET: u64 = 1 << 57;
const LISTED: u64 = 1 << 58;
const FORM_BOX: u64 = 1 << 59;
const FORM_SPAN: u64 = 1 << 60;

impl Use {
    const EMPTY: Use =
        Use { start: [0; MAX_DIMS], end: [0; MAX_DIMS], word: 0, buffer: NONE, next: NONE, prev: NONE, sibling: NONE };

    #[inline]
    pub(super) fn task(&self) -> TaskId {
        TaskId::from_raw(self.word & ID_MASK)
    }

    #[inline]
    pub(super) fn arg(&self) -> u16 {
        (self.word >> ARG_SHIFT) as u16
    }

    #[inline(always)]
    pub(super) fn writes(&self) -> bool {
        self.word & WRITES != 0
    }

    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        self.word & (FORM_BOX | FORM_SPAN) == 0
    }

    #[inline(always)]
    pub(super) fn is_span(&self) -> bool {
        self.word & FORM_SPAN != 0
    }

    /// Whether it is of exactly this region.
    #[inline(always)]
    pub(super) fn is_of(&self, region: &Region) -> bool {
        let form = match region.form {
            Form::Whole => 0,
            Form::Box => FORM_BOX,
            Form::Span => FORM_SPAN,
        };
        self.word & (FORM_BOX | FORM_SPAN) == form && self.start == region.start && self.end == region.end
    }

    pub(super) fn region(&self) -> Region {
        let form = match self.word & (FORM_BOX | FORM_SPAN) {
            0 => Form::Whole,
            FORM_BOX => Form::Box,
            _ => Form::Span,
        };
        Region { form, start: self.start, end: self.end }
    }
}

/// Where uses are kept: a list of reads and a list of writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Home {
    /// The anchor's own lists.
    Anchor(u32),
    /// A cell's.
    Bucket(u32),
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) capacity: u32,
    pub(super) used: u32,
    pub(super) conservative: u64,
    pub(super) uses: Vec<Use>,
    pub(super) anchors: Vec<Anchor>,
    grids: Vec<Grid>,
    /// Heads of the lists of cells.
    buckets: Vec<[u32; 2]>,
    free_use: u32,
    free_anchor: u32,
    free_grid: u32,
    growing: bool,
}

impl Pool {
    pub(super) fn bounded(entries: u32) -> Self {
        Self::with(entries, entries, false)
    }

    pub(super) fn unbounded() -> Self {
        Self::with(u32::MAX, UNBOUNDED_START, true)
    }

    fn with(capacity: u32, room: u32, growing: bool) -> Self {
        let buckets = (room as usize).next_power_of_two().max(1 << 10);
        let mut grids = vec![Grid::EMPTY; GRIDS];
        for (at, grid) in grids.iter_mut().enumerate() {
            grid.next_free = (at as u32 + 1) % GRIDS as u32;
        }
        let mut uses = Vec::with_capacity(room as usize + 1);
        uses.push(Use::EMPTY);
        let mut anchors = Vec::with_capacity(room as usize + HOST_BUFFERS);
        anchors.push(Anchor::EMPTY);
        Self {
            capacity,
            used: 0,
            conservative: 0,
            uses,
            anchors,
            grids,
            buckets: vec![[NONE; 2]; buckets],
            free_use: NONE,
            free_anchor: NONE,
            free_grid: 1,
            growing,
        }
    }

    pub(super) fn lift_limit(&mut self) {
        self.capacity = u32::MAX;
        self.growing = true;
    }

    pub(super) fn add_host_anchor(&mut self, anchor: Anchor) -> BufferRef {
        self.anchors.push(anchor);
        BufferRef(self.anchors.len() as u32 - 1)
    }

    #[inline]
    pub(super) fn add_output_anchor(&mut self, anchor: Anchor, entries: &mut Entries) -> BufferRef {
        let at = self.free_anchor;
        let at = if at == NONE {
            // Host buffers and outputs share the vector; its capacity was reserved at the start.
            self.anchors.push(anchor);
            self.anchors.len() as u32 - 1
        } else {
            self.free_anchor = self.anchors[at as usize].sibling;
            self.anchors[at as usize] = anchor;
            at
        };
        self.anchors[at as usize].sibling = entries.anchors;
        entries.anchors = at;
        entries.count += 1;
        self.used += 1;
        BufferRef(at)
    }

    #[inline]
    fn take_use(&mut self) -> u32 {
        let at = self.free_use;
        if at != NONE {
            self.free_use = self.uses[at as usize].sibling;
            return at;
        }
        // The vector grows into memory that was reserved at the start: untouched memory stays untouched.
        assert!(self.growing || self.uses.len() < self.uses.capacity(), "the caller checked that an entry is free");
        self.uses.push(Use::EMPTY);
        self.uses.len() as u32 - 1
    }

    #[inline]
    pub(super) fn head(&self, home: Home, writes: bool) -> u32 {
        match home {
            Home::Anchor(at) => self.anchors[at as usize].lists[usize::from(writes)],
            Home::Bucket(at) => self.buckets[at as usize][usize::from(writes)],
        }
    }

    #[inline]
    fn head_mut(&mut self, home: Home, writes: bool) -> &mut u32 {
        match home {
            Home::Anchor(at) => &mut self.anchors[at as usize].lists[usize::from(writes)],
            Home::Bucket(at) => &mut self.buckets[at as usize][usize::from(writes)],
        }
    }

    /// Empties a list of an anchor's own and returns what was its head.
    #[inline(always)]
    pub(super) fn take_list(&mut self, buffer: u32, writes: bool) -> u32 {
        std::mem::replace(&mut self.anchors[buffer as usize].lists[usize::from(writes)], NONE)
    }

    /// Notes that a use is in no list any more; the caller has emptied the list.
    #[inline(always)]
    pub(super) fn drop_listed(&mut self, at: u32) -> Use {
        let dropped = &mut self.uses[at as usize];
        dropped.word &= !LISTED;
        *dropped
    }

    /// Enters a use at the head of its list, as an entry of its task's.
    #[inline(always)]
    pub(super) fn insert(&mut self, access: &Access<'_>, home: Home, entries: &mut Entries) {
        let at = self.take_use();
        let writes = access.writes;
        let form = match access.region.form {
            Form::Whole => 0,
            Form::Box => FORM_BOX,
            Form::Span => FORM_SPAN,
        };
        let mut word = access.task.raw() | u64::from(access.arg) << ARG_SHIFT | form | LISTED;
        if writes {
            word |= WRITES;
        }
        let mut prev = NONE;
        if let Home::Bucket(bucket) = home {
            word |= IN_BUCKET;
            prev = AT_HEAD | bucket;
            self.grids[self.anchors[access.buffer.0 as usize].grid as usize].listed += 1;
        }
        let head = std::mem::replace(self.head_mut(home, writes), at);
        if head != NONE {
            self.uses[head as usize].prev = at;
        }
        self.uses[at as usize] = Use {
            start: access.region.start,
            end: access.region.end,
            word,
            buffer: access.buffer.0,
            next: head,
            prev,
            sibling: entries.uses,
        };
        entries.uses = at;
        entries.count += 1;
        self.used += 1;
    }

    /// Takes a use out of its list; its entry stays with its task.
    #[inline(always)]
    pub(super) fn unlist(&mut self, at: u32) {
        let Use { word, buffer, next, prev, .. } = self.uses[at as usize];
        if next != NONE {
            self.uses[next as usize].prev = prev;
        }
        let writes = word & WRITES != 0;
        if prev & AT_HEAD != 0 {
            *self.head_mut(Home::Bucket(prev & !AT_HEAD), writes) = next;
        } else if prev != NONE {
            self.uses[prev as usize].next = next;
        } else {
            *self.head_mut(Home::Anchor(buffer), writes) = next;
        }
        if word & IN_BUCKET != 0 {
            self.grids[self.anchors[buffer as usize].grid as usize].listed -= 1;
        }
        self.uses[at as usize].word = word & !LISTED;
    }

    /// The bucket of a cell. Cells of other buffers may share it.
    #[inline(always)]
    pub(super) fn bucket(&self, buffer: u32, cell: &[u32; MAX_DIMS]) -> u32 {
        let ndim = self.anchors[buffer as usize].frame.ndim();
        self.bucket_of(cell[..ndim].iter().fold(hash_start(buffer), |hash, &c| hash_step(hash, c)))
    }

    #[inline(always)]
    fn bucket_of(&self, hash: u64) -> u32 {
        (hash >> 40) as u32 & (self.buckets.len() as u32 - 1)
    }

    /// Where the uses of a box are, given its buffer's grid.
    #[inline(always)]
    pub(super) fn cell_of_box(&self, buffer: u32, region: &Region) -> Cells {
        let anchor = &self.anchors[buffer as usize];
        if anchor.grid == NONE {
            return Cells::NoGrid;
        }
        let grid = &self.grids[anchor.grid as usize];
        let mut one = true;
        let mut hash = hash_start(buffer);
        for d in 0..anchor.frame.ndim() {
            let cell = grid.cell_at(d, region.start[d]);
            one &= region.end[d] <= (cell + 1).wrapping_mul(grid.extent[d]);
            hash = hash_step(hash, cell);
        }
        if one { Cells::One(self.bucket_of(hash)) } else { Cells::Many }
    }

    /// The cells that `region` touches, if its buffer has a grid.
    pub(super) fn cells(&self, buffer: u32, region: &Region) -> Option<CellRange> {
        let anchor = &self.anchors[buffer as usize];
        if anchor.grid == NONE {
            return None;
        }
        let grid = &self.grids[anchor.grid as usize];
        let ndim = anchor.frame.ndim();
        if region.form == Form::Box {
            return Some((grid.cell(&region.start, ndim), grid.cell(&region.end.map(|e| e - 1), ndim)));
        }
        // A whole buffer touches every cell. A span may; looking at all of them is right and rare.
        Some(([0; MAX_DIMS], grid.cell(&anchor.frame.shape().map(|e| e - 1), ndim)))
    }

    /// Gives the buffer a grid with cells of this box's extents, if it has none or an idle one of larger cells.
    #[inline(always)]
    pub(super) fn fit_grid(&mut self, buffer: u32, region: &Region) {
        if region.form != Form::Box {
            return;
        }
        let anchor = &mut self.anchors[buffer as usize];
        if anchor.grid == NONE {
            if self.free_grid == NONE {
                return;
            }
            anchor.grid = self.free_grid;
            self.free_grid = self.grids[anchor.grid as usize].next_free;
            self.grids[anchor.grid as usize] = Grid::of(region, &anchor.frame);
            return;
        }
        let grid = &mut self.grids[anchor.grid as usize];
        let ndim = anchor.frame.ndim();
        if grid.listed == 0 && (0..ndim).any(|d| grid.extent[d] != region.end[d] - region.start[d]) {
            // Nothing is listed by cell, so the cells may change to what is used now.
            *grid = Grid::of(region, &anchor.frame);
        }
    }

    #[inline]
    pub(super) fn release(&mut self, entries: Entries) {
        let mut at = entries.uses;
        while at != NONE {
            let Use { word, sibling, .. } = self.uses[at as usize];
            if word & LISTED != 0 {
                self.unlist(at);
            }
            self.uses[at as usize].sibling = self.free_use;
            self.free_use = at;
            at = sibling;
        }
        let mut at = entries.anchors;
        while at != NONE {
            let sibling = self.anchors[at as usize].sibling;
            self.release_anchor(at);
            at = sibling;
        }
        self.used -= entries.count;
    }

    /// Later tasks may still hold uses of the buffer: they are taken off its lists, which end with it.
    fn release_anchor(&mut self, at: u32) {
        for list in 0..2 {
            while self.anchors[at as usize].lists[list] != NONE {
                self.unlist(self.anchors[at as usize].lists[list]);
            }
        }
        let grid = self.anchors[at as usize].grid;
        if grid != NONE {
            self.empty_cells(at);
            self.grids[grid as usize].next_free = self.free_grid;
            self.free_grid = grid;
            self.anchors[at as usize].grid = NONE;
        }
        self.anchors[at as usize].sibling = self.free_anchor;
        self.free_anchor = at;
    }

    fn empty_cells(&mut self, buffer: u32) {
        let Some((first, last)) = self.cells(buffer, &Region::WHOLE) else { return };
        let mut cell = Some(first);
        while let Some(here) = cell {
            for mut at in self.buckets[self.bucket(buffer, &here) as usize] {
                while at != NONE {
                    let Use { next, buffer: of, .. } = self.uses[at as usize];
                    if of == buffer {
                        self.unlist(at);
                    }
                    at = next;
                }
            }
            cell = next_cell(&here, &(first, last));
        }
    }
}

/// The cell after `cell` in row-major order.
pub(super) fn next_cell(cell: &[u32; MAX_DIMS], (first, last): &CellRange) -> Option<[u32; MAX_DIMS]> {
    let dim = (0..MAX_DIMS).rev().find(|&d| cell[d] < last[d])?;
    let mut next = *cell;
    next[dim] += 1;
    next[dim + 1..].copy_from_slice(&first[dim + 1..]);
    Some(next)
}
