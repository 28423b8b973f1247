//! The memory of the tensormap: anchors, uses, grids, and the lists that hold the uses.
//!
//! Uses and anchors are taken from free lists and given back when their task's slot is reclaimed. A *home* has a list
//! of reads and a list of writes, doubly linked, newest first; every cell and every anchor has one. All indices are into
//! this pool's own vectors.

use super::grid::{CellRange, Grid, next_cell};
use super::uses::{AT_HEAD, LISTED, NONE, Same, Use};
use super::{Access, BufferRef};
use crate::{Frame, Region};
use plimsoll_abi::TaskId;

/// Grids that a bounded pool has; a buffer that gets none is searched without.
const GRIDS: usize = 1024;
/// Host buffers that need no allocation.
const HOST_BUFFERS: usize = 64;
const UNBOUNDED_START: u32 = 1 << 12;

/// The entries that one task holds: chains through the pool.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    chains: Chains,
    count: u32,
}

/// The entries of a task without their number. Zeroed memory holds none.
#[derive(Clone, Copy, Debug)]
pub struct Chains {
    uses: u32,
    anchors: u32,
}

impl Entries {
    /// None yet.
    pub const NONE: Entries = Entries { chains: Chains { uses: NONE, anchors: NONE }, count: 0 };

    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// What is needed to release them.
    #[inline(always)]
    pub fn chains(&self) -> Chains {
        self.chains
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
    /// Index of the grid, or `NONE`.
    pub(super) grid: u32,
    /// The task that made the buffer in the low 40 bits, then its argument; or `HOST` and the host buffer's number.
    creator: u64,
    /// The next anchor of the same task, or the next free one.
    sibling: u32,
}

const HOST: u64 = 1 << 63;
const CREATOR_ARG: u32 = 40;

impl Anchor {
    const EMPTY: Anchor = Anchor { frame: Frame::POINT, grid: NONE, creator: HOST, sibling: NONE };

    fn of_host(frame: Frame, number: u64) -> Self {
        Self { frame, creator: HOST | number, ..Self::EMPTY }
    }

    #[inline(always)]
    pub(super) fn of_output(frame: Frame, task: TaskId, arg: u16) -> Self {
        Self { frame, creator: task.raw() | u64::from(arg) << CREATOR_ARG, ..Self::EMPTY }
    }

    /// The task that made the buffer, and which of its arguments it was.
    #[inline(always)]
    pub(super) fn creator(&self) -> Option<(TaskId, u16)> {
        let task = TaskId::from_raw(self.creator & ((1 << CREATOR_ARG) - 1));
        (self.creator & HOST == 0).then_some((task, (self.creator >> CREATOR_ARG) as u16))
    }

    /// Its number in records, unique in the run.
    pub(super) fn number(&self) -> u64 {
        match self.creator() {
            Some((task, arg)) => task.raw() << 12 | u64::from(arg),
            None => self.creator,
        }
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) capacity: u32,
    pub(super) used: u32,
    pub(super) conservative: u64,
    pub(super) uses: Vec<Use>,
    pub(super) anchors: Vec<Anchor>,
    pub(super) grids: Vec<Grid>,
    /// Heads of the lists of reads and of writes: of all cells, a power of two of them, then of every anchor.
    pub(super) homes: Vec<[u32; 2]>,
    cells: u32,
    free_use: u32,
    free_anchor: u32,
    free_grid: u32,
    host_buffers: u64,
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
        let cells = (room as usize).next_power_of_two().max(1 << 10);
        let mut grids = Vec::with_capacity(GRIDS);
        grids.push(Grid::EMPTY);
        let mut uses = Vec::with_capacity(room as usize + 1);
        uses.push(Use::EMPTY);
        let anchor_room = room as usize + HOST_BUFFERS;
        // Asked for as zeroes and cut off, so that what is not used is not touched.
        let mut homes = vec![[NONE; 2]; cells + anchor_room];
        homes.truncate(cells);
        let mut pool = Self {
            capacity,
            used: 0,
            conservative: 0,
            uses,
            anchors: Vec::with_capacity(anchor_room),
            grids,
            homes,
            cells: cells as u32,
            free_use: NONE,
            free_anchor: NONE,
            free_grid: NONE,
            host_buffers: 0,
            growing,
        };
        pool.push_anchor(Anchor::EMPTY);
        pool
    }

    /// As new, unless something is in use. Memory that was not used is not touched.
    pub(super) fn restart(&mut self) -> bool {
        if self.used > 0 || self.growing {
            return false;
        }
        for buffer in 1..self.anchors.len() {
            let grid = std::mem::replace(&mut self.anchors[buffer].grid, NONE);
            if grid != NONE {
                self.grids[grid as usize].next_free = self.free_grid;
                self.free_grid = grid;
            }
        }
        debug_assert!(self.homes.iter().all(|home| *home == [NONE; 2]), "a released use is in no list");
        self.anchors.truncate(1);
        self.homes.truncate(self.cells as usize + 1);
        (self.free_anchor, self.host_buffers, self.conservative) = (NONE, 0, 0);
        true
    }

    pub(super) fn lift_limit(&mut self) {
        self.capacity = u32::MAX;
        self.growing = true;
    }

    /// The home of what is wider than a cell.
    #[inline(always)]
    pub(super) fn anchor_home(&self, buffer: u32) -> u32 {
        self.cells + buffer
    }

    /// The home of a cell, by its number.
    #[inline(always)]
    pub(super) fn cell_home(&self, number: u32) -> u32 {
        number & (self.cells - 1)
    }

    fn push_anchor(&mut self, anchor: Anchor) -> u32 {
        self.anchors.push(anchor);
        self.homes.push([NONE; 2]);
        self.anchors.len() as u32 - 1
    }

    pub(super) fn add_host_anchor(&mut self, frame: Frame) -> BufferRef {
        self.host_buffers += 1;
        BufferRef(self.push_anchor(Anchor::of_host(frame, self.host_buffers)))
    }

    #[inline]
    pub(super) fn add_output_anchor(&mut self, mut anchor: Anchor, entries: &mut Entries) -> BufferRef {
        anchor.sibling = entries.chains.anchors;
        let at = self.free_anchor;
        let at = if at == NONE {
            // Host buffers and outputs share the vector; its capacity was reserved at the start.
            self.push_anchor(anchor)
        } else {
            let place = &mut self.anchors[at as usize];
            self.free_anchor = place.sibling;
            *place = anchor;
            at
        };
        entries.chains.anchors = at;
        entries.count += 1;
        self.used += 1;
        BufferRef(at)
    }

    /// Takes a use for an entry of a task's, which `become_used` fills in, and puts it at the head of a list of `home`,
    /// before `next`.
    #[inline(always)]
    pub(super) fn insert(
        &mut self,
        home: u32,
        list: usize,
        next: u32,
        entries: &mut Entries,
        become_used: impl FnOnce(&mut Use),
    ) {
        if self.free_use == NONE {
            self.push_use();
        }
        let at = self.free_use;
        let new = &mut self.uses[at as usize];
        self.free_use = new.sibling;
        new.sibling = entries.chains.uses;
        (new.next, new.prev) = (next, AT_HEAD | home);
        become_used(new);
        if next != NONE {
            self.uses[next as usize].prev = at;
        }
        self.homes[home as usize][list] = at;
        entries.chains.uses = at;
        entries.count += 1;
        self.used += 1;
    }

    /// There is no free use: makes one.
    #[inline(never)]
    fn push_use(&mut self) {
        // The vector grows into memory that was reserved at the start: untouched memory stays untouched.
        assert!(self.growing || self.uses.len() < self.uses.capacity(), "the caller checked that an entry is free");
        self.uses.push(Use::EMPTY);
        self.free_use = self.uses.len() as u32 - 1;
    }

    /// Enters a use that need not be one of the same as those of its home.
    pub(super) fn insert_any(&mut self, access: &Access<'_>, home: u32, entries: &mut Entries) {
        let mut exact = None;
        if home < self.cells {
            let anchor = &self.anchors[access.buffer.0 as usize];
            let grid = &mut self.grids[anchor.grid as usize];
            grid.listed += 1;
            exact = grid.exact(anchor.frame.ndim(), &access.region.start, &access.region.extents());
        }
        let in_cell = home < self.cells;
        let list = usize::from(access.user.writes());
        let next = self.homes[home as usize][list];
        self.insert(home, list, next, entries, |new| match exact {
            Some(number) => new.become_exact(access.user, access.buffer, Same::Cell(number)),
            None => new.become_any(access, in_cell),
        });
    }

    /// The part of its buffer that a listed use is of.
    #[inline(always)]
    pub(super) fn region_of(&self, used: &Use) -> Region {
        let Some(number) = used.cell() else { return used.region() };
        let anchor = &self.anchors[used.buffer as usize];
        self.grids[anchor.grid as usize].region(anchor.frame.ndim(), number)
    }

    /// Takes a use out of its list; its entry stays with its task.
    #[inline(never)]
    pub(super) fn unlist(&mut self, at: u32) {
        let used = &mut self.uses[at as usize];
        used.word &= !LISTED;
        let (next, prev, buffer) = (used.next, used.prev, used.buffer);
        let (list, in_cell) = (usize::from(used.writes()), used.is_in_cell());
        if next != NONE {
            self.uses[next as usize].prev = prev;
        }
        if prev & AT_HEAD != 0 {
            self.homes[(prev & !AT_HEAD) as usize][list] = next;
        } else {
            self.uses[prev as usize].next = next;
        }
        if in_cell {
            self.grids[self.anchors[buffer as usize].grid as usize].listed -= 1;
        }
    }

    /// The reads of a home begin with `first` now: those in front of it were dropped.
    #[inline(always)]
    pub(super) fn cut_list(&mut self, home: u32, first: u32) {
        self.homes[home as usize][0] = first;
        if first != NONE {
            self.uses[first as usize].prev = AT_HEAD | home;
        }
    }

    /// Takes dropped uses off the count of those kept in cells.
    pub(super) fn forget_listed(&mut self, same: Same, buffer: BufferRef, dropped: u32) {
        if same != Same::Whole {
            self.grids[self.anchors[buffer.0 as usize].grid as usize].listed -= dropped;
        }
    }

    /// The cells that `region` touches, if its buffer has a grid.
    pub(super) fn cells(&self, buffer: u32, region: &Region) -> Option<CellRange> {
        let anchor = &self.anchors[buffer as usize];
        if anchor.grid == NONE {
            return None;
        }
        let grid = &self.grids[anchor.grid as usize];
        // A whole buffer touches every cell. A span may; looking at all of them is right and rare.
        Some(if region.is_box() { grid.touched(anchor.frame.ndim(), region) } else { grid.all(&anchor.frame) })
    }

    /// Gives the buffer a grid with cells of this box's extents, if it has none or an idle one of other cells.
    pub(super) fn fit_grid(&mut self, buffer: u32, region: &Region) {
        let anchor = &mut self.anchors[buffer as usize];
        if anchor.grid == NONE {
            if !Grid::can_count(&anchor.frame) {
                return;
            }
            if self.free_grid == NONE {
                if self.grids.len() == GRIDS {
                    return;
                }
                self.free_grid = self.grids.len() as u32;
                self.grids.push(Grid::EMPTY);
            }
            anchor.grid = self.free_grid;
            self.free_grid = self.grids[anchor.grid as usize].next_free;
        } else {
            let grid = &self.grids[anchor.grid as usize];
            if grid.listed > 0 || grid.fits(anchor.frame.ndim(), region) {
                return;
            }
        }
        // Nothing is kept by cell, so the cells may be what is used now.
        self.grids[anchor.grid as usize] = Grid::of(buffer, region, &anchor.frame);
    }

    #[inline]
    pub(super) fn release(&mut self, chains: Chains) {
        let mut at = chains.uses;
        while at != NONE {
            self.used -= 1;
            if self.uses[at as usize].word & LISTED != 0 {
                self.unlist(at);
            }
            let place = &mut self.uses[at as usize];
            let sibling = std::mem::replace(&mut place.sibling, self.free_use);
            self.free_use = at;
            at = sibling;
        }
        let mut at = chains.anchors;
        while at != NONE {
            self.used -= 1;
            let sibling = self.anchors[at as usize].sibling;
            self.release_anchor(at);
            at = sibling;
        }
    }

    /// Later tasks may still hold uses of the buffer: they are taken off its lists, which end with it.
    #[inline(always)]
    fn release_anchor(&mut self, at: u32) {
        let home = self.anchor_home(at) as usize;
        for mut listed in std::mem::take(&mut self.homes[home]) {
            while listed != NONE {
                let used = &mut self.uses[listed as usize];
                used.word &= !LISTED;
                listed = used.next;
            }
        }
        if self.anchors[at as usize].grid != NONE {
            self.release_grid(at);
        }
        self.anchors[at as usize].sibling = self.free_anchor;
        self.free_anchor = at;
    }

    #[inline(never)]
    fn release_grid(&mut self, buffer: u32) {
        self.empty_cells(buffer);
        let grid = std::mem::replace(&mut self.anchors[buffer as usize].grid, NONE);
        self.grids[grid as usize].next_free = self.free_grid;
        self.free_grid = grid;
    }

    fn empty_cells(&mut self, buffer: u32) {
        let Some((first, last)) = self.cells(buffer, &Region::WHOLE) else { return };
        let mut cell = Some(first);
        while let Some(here) = cell {
            for mut at in self.homes[self.home_of(buffer, &here) as usize] {
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

    /// The home of a cell of a buffer that has a grid.
    pub(super) fn home_of(&self, buffer: u32, cell: &[u32; plimsoll_abi::MAX_DIMS]) -> u32 {
        self.cell_home(self.grids[self.anchors[buffer as usize].grid as usize].number(cell))
    }
}
