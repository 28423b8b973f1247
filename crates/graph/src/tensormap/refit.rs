//! Makes a buffer's grid, makes it anew, and sifts the buffer's home of uses that are superseded in every cell.
//!
//! All of it follows from the order of accesses: what is kept in cells moves to other cells with them, whether or not its
//! tasks have completed.

use super::anchors::NO_GRID;
use super::grid::{CellRange, FEW, Grid, WIDE, count, next_cell};
use super::home::{Home, HomeContent, RingUses, UsedPart};
use super::lists::HomePlace;
use super::user::User;
use super::{BufferRef, Edges, GRIDS, NONE, RINGS, Tensormap};
use crate::{BufferShape, Footprint};
use plimsoll_abi::MAX_DIMS;

/// The fewest look-ups between two siftings of a buffer's home.
const PATIENCE: u64 = 64;

impl Tensormap {
    /// Gives the buffer cells that this box is made of, if it has none, or if it is to be written and its cells are others.
    pub(super) fn fit_grid(&mut self, buffer: BufferRef, footprint: &Footprint, writes: bool, edges: &impl Edges) {
        let anchor = self.anchors.at(buffer);
        let (buffer_shape, grid) = (anchor.buffer_shape(), anchor.grid());
        if grid != NO_GRID {
            if writes {
                match self.grids[grid as usize].refitted(buffer, footprint, &buffer_shape) {
                    Some(refitted) => self.remake(buffer, refitted, edges),
                    None => self.grids[grid as usize].written = true,
                }
                self.grids[grid as usize].note_write(footprint);
            }
            return;
        }
        if !Grid::can_count(&buffer_shape) {
            return;
        }
        let grid = match self.free_grids.pop() {
            Some(free) => free,
            None if self.grids.len() == GRIDS => return,
            None => {
                self.grids.push(Grid::EMPTY);
                self.grids.len() as u16 - 1
            }
        };
        self.grids[grid as usize] = Grid::of(buffer, footprint, &buffer_shape, writes);
        self.anchors.at_mut(buffer).set_grid(grid);
        self.anchors.note_grid_or_lists(buffer);
    }

    /// Gives a buffer other cells: what is kept in the old ones is entered in those.
    #[cold]
    fn remake(&mut self, buffer: BufferRef, mut refitted: Grid, edges: &impl Edges) {
        let anchor = self.anchors.at(buffer);
        let (buffer_shape, at) = (anchor.buffer_shape(), anchor.grid() as usize);
        let old = self.grids[at];
        // Reads that took the short way moved no place in the order: those that go to the buffer's home would count as
        // superseded by a write of the same place, which they followed.
        self.clock += 1;
        refitted.number_after(&old, &buffer_shape);
        self.grids[at] = refitted;
        let range = old.touched(buffer_shape.ndim(), &Footprint::WHOLE.as_box(&buffer_shape));
        if count(&range) > WIDE {
            return self.move_cells_in_use(buffer, &buffer_shape, &old, edges);
        }
        let mut next = Some(range.0);
        while let Some(cell) = next {
            let number = old.number(&cell);
            if let Some(at) = self.cells.find(HomeContent::cell(buffer, number), number, &self.lists) {
                self.move_cell(buffer, &buffer_shape, at, &old.footprint(&buffer_shape, &cell), edges);
            }
            next = next_cell(&cell, &range);
        }
    }

    /// Moves the cells of `old` that keep something. Cells of the grid that the buffer has now are told by their numbers; moving
    /// may make the table larger, so after each the search goes on until none is left.
    fn move_cells_in_use(&mut self, buffer: BufferRef, buffer_shape: &BufferShape, old: &Grid, edges: &impl Edges) {
        let ndim = buffer_shape.ndim();
        let range = old.touched(ndim, &Footprint::WHOLE.as_box(buffer_shape));
        let (first, last) = (old.number(&range.0), old.number(&range.1));
        let mut from = 0;
        while let Some((at, number)) = self.cells.next_of(buffer, from, &self.lists) {
            from = at + 1;
            if number.wrapping_sub(first) <= last.wrapping_sub(first) {
                let (places, cell) = (self.cells.mask, old.cell_of(number, ndim));
                self.move_cell(buffer, buffer_shape, at, &old.footprint(buffer_shape, &cell), edges);
                from = if self.cells.mask == places { from } else { 0 };
            }
        }
    }

    /// Enters what is kept of one cell in those that the buffer has now.
    fn move_cell(
        &mut self,
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        at: u32,
        footprint: &Footprint,
        edges: &impl Edges,
    ) {
        let (home, wrote) = (self.cells.homes[at as usize], self.cells.wrote(at));
        let lists = home.kept.lists();
        let writes = lists.map_or([NONE; RINGS], |lists| self.lists[lists as usize].writes);
        self.empty_cell(at);
        if self.is_wide(buffer, footprint) {
            self.move_wide(buffer, &home, &writes, wrote, footprint);
        } else if lists.is_some() {
            self.move_mixed(buffer, buffer_shape, &writes, footprint, edges);
        } else if home.writer.is_somebody() {
            self.move_write(buffer, buffer_shape, home.writer, wrote, footprint, edges);
        }
        for ring in 0..RINGS {
            let mut at = home.reads[ring];
            while self.rings[ring].uses.holds(at) {
                let entry = *self.rings[ring].uses.at(at);
                let whole = UsedPart::of_read(*footprint, self.clock);
                let part = if entry.part() == NONE { whole } else { *self.rings[ring].parts.at(entry.part()) };
                let footprint = part.footprint.intersection(footprint);
                self.move_read(
                    buffer,
                    buffer_shape,
                    entry.user,
                    UsedPart { footprint, order: self.clock, ..part },
                    edges,
                );
                at = entry.older();
            }
        }
    }

    /// The first place in the order after `last` that a write in these lists has.
    fn next_order(&self, heads: &[u32; RINGS], last: Option<u64>) -> Option<u64> {
        let mut first = None;
        for (RingUses { uses, parts }, &newest) in self.rings.iter().zip(heads) {
            let mut at = newest;
            while uses.holds(at) {
                let order = parts.at(uses.at(at).part()).order;
                if last.is_none_or(|last| order > last) && first.is_none_or(|first| order < first) {
                    first = Some(order);
                }
                at = uses.at(at).older();
            }
        }
        first
    }

    /// Moves the writes of a mixed home. Who wrote all of the cell counts as far as its writes say, even if they are gone.
    fn move_mixed(
        &mut self,
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        writes: &[u32; RINGS],
        footprint: &Footprint,
        edges: &impl Edges,
    ) {
        self.each_cell_of(buffer, buffer_shape, footprint, |map, number, cell, clip| {
            let at = map.claim(buffer, number, edges);
            let lists = map.mix(HomePlace::Cell(at), cell);
            map.cut_writer(lists, cell, clip);
        });
        // Oldest first, so that where one lies over another the newer one counts.
        let mut order = self.next_order(writes, None);
        while let Some(now) = order {
            self.each_write(writes, |map, user, part| {
                if part.order != now {
                    return;
                }
                let footprint = if part.stretched { *footprint } else { part.footprint.intersection(footprint) };
                if !part.of_all && !part.stretched {
                    return map.move_write(buffer, buffer_shape, user, now, &footprint, edges);
                }
                map.each_cell_of(buffer, buffer_shape, &footprint, |map, number, _, clip| {
                    let at = map.claim(buffer, number, edges);
                    if let Some(lists) = map.cells.homes[at as usize].kept.lists() {
                        map.push_write(lists, user, UsedPart { footprint: clip, ..part });
                    }
                });
            });
            order = self.next_order(writes, order);
        }
    }

    /// Hands every write of these lists to `each`.
    fn each_write(&mut self, heads: &[u32; RINGS], mut each: impl FnMut(&mut Self, User, UsedPart)) {
        for (ring, &newest) in heads.iter().enumerate() {
            let mut at = newest;
            while self.rings[ring].uses.holds(at) {
                let entry = *self.rings[ring].uses.at(at);
                let part = *self.rings[ring].parts.at(entry.part());
                each(self, entry.user, part);
                at = entry.older();
            }
        }
    }

    /// Enters the writes of one cell that is wide now in the buffer's home, once, and cuts the cell out of what they superseded there
    /// up to the place `wrote` in the order. `writes` are those of a mixed home, which knows how much its maker still counts for.
    #[cold]
    fn move_wide(&mut self, buffer: BufferRef, home: &Home, writes: &[u32; RINGS], wrote: u64, footprint: &Footprint) {
        let is_mixed = home.kept.lists().is_some();
        if !is_mixed && !home.writer.is_somebody() {
            return;
        }
        let lists = self.mix(HomePlace::Buffer(buffer), Footprint::WHOLE);
        self.cut_older(buffer, lists, wrote, footprint);
        let moved = UsedPart { footprint: *footprint, order: self.clock, stretched: false, of_all: false, moved: true };
        if !is_mixed {
            return self.push_write(lists, home.writer, moved);
        }
        let maker = self.anchors.at(buffer).creator.user();
        self.each_write(writes, |map, user, part| {
            let footprint = part.footprint.intersection(footprint);
            if Some(user) == maker {
                map.push_oldest(lists, user, UsedPart { footprint, order: 0, ..part });
            } else {
                map.push_write(lists, user, UsedPart { footprint, stretched: part.stretched, ..moved });
            }
        });
    }

    fn move_write(
        &mut self,
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        user: User,
        wrote: u64,
        footprint: &Footprint,
        edges: &impl Edges,
    ) {
        self.each_cell_of(buffer, buffer_shape, footprint, |map, number, cell, clip| {
            let at = map.claim(buffer, number, edges);
            if clip != cell
                && let Some(lists) = map.cells.homes[at as usize].kept.lists()
            {
                map.cut_writer(lists, cell, clip);
            }
            map.enter_write(at, user, wrote, clip == cell, cell, clip, false);
        });
    }

    /// Whether a box touches too many cells to be kept in each.
    fn is_wide(&self, buffer: BufferRef, footprint: &Footprint) -> bool {
        self.touched(buffer, footprint).is_some_and(|(_, range)| count(&range) > WIDE)
    }

    fn move_read(
        &mut self,
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        user: User,
        part: UsedPart,
        edges: &impl Edges,
    ) {
        let ring = user.task().ring() as usize % RINGS;
        let Some((_, range)) = self.touched(buffer, &part.footprint) else { return };
        if count(&range) > FEW {
            self.mix(HomePlace::Buffer(buffer), Footprint::WHOLE);
            let home = &mut self.anchors.at_mut(buffer).home;
            home.reads[ring] = self.rings[ring].push(user, home.reads[ring], part);
            return;
        }
        let number = self.rings[ring].parts.push(|| part);
        self.each_cell_of(buffer, buffer_shape, &part.footprint, |map, cell_number, cell, clip| {
            let at = map.claim(buffer, cell_number, edges);
            let part = if clip == cell { NONE } else { number };
            map.cells.homes[at as usize].push_read(ring, &mut map.rings, user, part);
        });
    }

    /// Calls `each` for the cells that a box touches, with their number, their box and what of it is touched.
    fn each_cell_of(
        &mut self,
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        footprint: &Footprint,
        mut each: impl FnMut(&mut Self, u32, Footprint, Footprint),
    ) {
        let Some((grid, range)) = self.touched(buffer, footprint) else { return };
        let mut next = Some(range.0);
        while let Some(cell) = next {
            let grid = &self.grids[grid as usize];
            let (number, box_of_cell) = (grid.number(&cell), grid.footprint(buffer_shape, &cell));
            each(self, number, box_of_cell, footprint.intersection(&box_of_cell));
            next = next_cell(&cell, &range);
        }
    }

    /// All of the buffer is written, and all that was kept of it was met: it is as a new one that `user` made.
    pub(super) fn write_whole(&mut self, buffer: BufferRef, user: User) {
        self.free_lists_of(self.anchors.at(buffer).home.kept);
        let anchor = self.anchors.at_mut(buffer);
        anchor.home = Home { kept: HomeContent::WHOLE, writer: user, reads: [NONE; RINGS] };
        anchor.forget_spans();
        let grid = anchor.grid();
        anchor.set_grid(NO_GRID);
        if grid != NO_GRID {
            self.free_grids.push(grid);
        }
    }

    /// Sifts the buffer's home if as much was looked up since the last time as that may take.
    pub(super) fn sift_now_and_then(&mut self, buffer: BufferRef, looked_up: u64, edges: &impl Edges) {
        let Some(lists) = self.anchors.at(buffer).home.kept.lists() else { return };
        let list = &mut self.lists[lists as usize];
        list.patience = list.patience.saturating_sub(looked_up);
        if list.patience == 0 {
            self.sift(buffer, lists, edges);
        }
    }

    /// Drops uses in the buffer's home that have been superseded in every cell. Nobody would ever meet them, so when it is
    /// done makes no difference.
    fn sift(&mut self, buffer: BufferRef, lists: u32, edges: &impl Edges) {
        let mut cost = PATIENCE;
        let anchor = *self.anchors.at(buffer);
        let (mut home, buffer_shape) = (anchor.home, anchor.buffer_shape());
        let (mut writes, since) = (self.lists[lists as usize].writes, self.lists[lists as usize].since);
        let everything = Footprint::WHOLE.as_box(&buffer_shape);
        let whole = UsedPart::of_read(everything, since);
        for heads in [&mut home.reads, &mut writes] {
            for (ring, newest) in heads.iter_mut().enumerate() {
                let (mut before, mut at) = (NONE, *newest);
                while self.rings[ring].uses.holds(at) {
                    cost += 1;
                    let RingUses { uses, parts } = &mut self.rings[ring];
                    let entry = *uses.at(at);
                    let part = if entry.part() == NONE { whole } else { *parts.at(entry.part()) };
                    let footprint = if part.stretched { everything } else { part.footprint };
                    let superseded = self.is_superseded(buffer, &buffer_shape, &footprint, part.order, &mut cost);
                    match (superseded, before) {
                        (false, _) => before = at,
                        (true, NONE) => *newest = entry.older(),
                        (true, before) => self.rings[ring].uses.at_mut(before).set_older(entry.older()),
                    }
                    at = entry.older();
                }
                if before == NONE {
                    *newest = NONE;
                }
            }
        }
        if home.writer.is_somebody() && self.is_superseded(buffer, &buffer_shape, &everything, since, &mut cost) {
            home.writer = User::NOBODY;
        }
        self.lists[lists as usize].writes = writes;
        self.lists[lists as usize].patience = 2 * cost;
        let unheld = anchor.creator.user().is_none_or(|maker| !edges.is_held(maker.task()));
        let nobody_waits =
            unheld && home.is_spent(&self.rings, edges) && super::home::are_spent(&writes, &self.rings, edges);
        // An empty home says that the maker is superseded nowhere but in cells that were written.
        let tells_nothing = home.is_unused()
            && match self.only_write(&writes) {
                Some(None) => unheld || self.is_superseded(buffer, &buffer_shape, &everything, 0, &mut cost),
                Some(Some(part)) => part.of_all && part.footprint == everything,
                None => false,
            };
        if nobody_waits || tells_nothing {
            self.free_lists_of(home.kept);
            home = Home::EMPTY;
        }
        self.anchors.at_mut(buffer).home = home;
    }

    /// The part of the only write in lists, or that there is no write. Nothing if there are several.
    fn only_write(&self, writes: &[u32; RINGS]) -> Option<Option<UsedPart>> {
        let mut only = None;
        for (&newest, RingUses { uses, parts }) in writes.iter().zip(&self.rings) {
            if uses.holds(newest) {
                if only.is_some() || uses.holds(uses.at(newest).older()) {
                    return None;
                }
                only = Some(*parts.at(uses.at(newest).part()));
            }
        }
        Some(only)
    }

    /// Whether every cell that a part touches was written after a place in the order.
    fn is_superseded(
        &self,
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        footprint: &Footprint,
        order: u64,
        cost: &mut u64,
    ) -> bool {
        let area = if footprint.is_span() { footprint.rows(buffer_shape) } else { *footprint };
        let Some((grid, range)) = self.touched(buffer, &area) else { return false };
        let grid = &self.grids[grid as usize];
        let mut next: Option<[u32; MAX_DIMS]> = Some(range.0);
        while let Some(cell) = next {
            *cost += 1;
            let number = grid.number(&cell);
            let at = self.cells.find(HomeContent::cell(buffer, number), number, &self.lists);
            if at.is_none_or(|at| self.cells.wrote(at) <= order) {
                return false;
            }
            next = next_cell(&cell, &range);
        }
        true
    }
}

impl Grid {
    /// Numbers the cells of this grid so that no cell of `other`, a grid of the same buffer, has the same number.
    fn number_after(&mut self, other: &Grid, buffer_shape: &BufferShape) {
        let range: CellRange = other.touched(buffer_shape.ndim(), &Footprint::WHOLE.as_box(buffer_shape));
        self.begin_at(other.number(&range.1).wrapping_add(1));
    }
}
