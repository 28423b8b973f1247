//! The long way: an access of a part of a buffer that overlaps others, or may.
//!
//! It goes from cell to cell of those that it touches, compares its part with what is kept there and in the buffer's own
//! home, and is entered: in the cells if they are few, or it writes all of each and is not wide; else in the buffer's home. What is
//! wide goes to the cells that keep something, and once for all others to the buffer's home.

use super::anchors::NO_GRID;
use super::grid::{CellRange, FEW, WIDE, count, is_in_range, next_cell};
use super::home::{Home, HomeContent, RingUses, UsedPart};
use super::lists::{HomePlace, Walk};
use super::user::User;
use super::{BufferRef, BufferUse, Conflict, Dependency, Edges, NONE, RINGS, Tensormap};
use crate::{BufferShape, Footprint};
use plimsoll_abi::{MAX_DIMS, TaskId};

/// An access while it is compared with the uses that are kept.
pub(super) struct Search<'a> {
    pub(super) access: &'a BufferUse<'a>,
    pub(super) buffer_shape: BufferShape,
    /// The part as a box; for a span, the rows that it can touch.
    area: Footprint,
    /// Its place in the order of accesses that took the long way.
    pub(super) order: u64,
    /// Whether it is a span that is written after many others: then it is to stand for all before it.
    pub(super) after_many: bool,
    maker_met: bool,
    pub(super) conflict: Option<u16>,
    pub(super) conservative: u64,
}

/// A cell that an access touches.
struct Touched {
    number: u32,
    /// The box that the cell is.
    footprint: Footprint,
    /// What of it the access touches.
    clip: Footprint,
    /// Whether that is all of it.
    all: bool,
}

impl Tensormap {
    #[inline(never)]
    pub(super) fn access_any(&mut self, access: &BufferUse<'_>, edges: &mut impl Edges) -> Result<(), Conflict> {
        let (buffer, writes) = (access.buffer, access.user.writes());
        self.open_up(buffer);
        if access.footprint.is_box() {
            self.fit_grid(buffer, access.footprint, writes, edges);
        }
        self.clock += 1;
        let mut search = Search::new(self, access);
        match self.touched(buffer, &search.area) {
            Some((grid, range)) => search.go_through(self, grid, &range, edges),
            None => search.go_through_unruled(self, edges),
        }
        self.conservative += search.conservative;
        match search.conflict {
            Some(with) => Err(Conflict { with }),
            None => Ok(()),
        }
    }

    /// Hands every task that a read of `footprint`, or a write if it `writes`, has to wait for to `each`.
    pub fn producers(&mut self, buffer: BufferRef, footprint: &Footprint, writes: bool, mut each: impl FnMut(TaskId)) {
        // No task has this id: a ring's number has 32 bits at most.
        let nobody = TaskId::from_raw((1 << 40) - 1);
        let access = BufferUse { user: User::new(nobody, 0, writes), buffer, footprint };
        let edges = &mut |edge: Dependency| {
            each(edge.pred);
            true
        };
        if writes {
            // Reads of all of the buffer are kept as others are then, and found as they are.
            self.open_up(buffer);
        }
        let anchor = self.anchors.at(buffer);
        if anchor.home.kept == HomeContent::WHOLE {
            let last = if anchor.home.writer.is_somebody() { Some(anchor.home.writer) } else { anchor.creator.user() };
            last.into_iter().for_each(|user| _ = edges.meet(user.edge()));
            return;
        }
        let mut search = Search::new(self, &access);
        match self.touched(buffer, &search.area) {
            Some((grid, range)) => search.look_at_cells(self, grid, &range, edges, |_, _, _, _, _| {}),
            None => _ = search.look_at_buffer(self, edges),
        }
        self.conservative += search.conservative;
    }

    /// What was kept of uses of the whole buffer can be compared with uses of parts from now on.
    fn open_up(&mut self, buffer: BufferRef) {
        let home = &mut self.anchors.at_mut(buffer).home;
        if home.kept == HomeContent::WHOLE {
            if home.is_unused() {
                home.kept = HomeContent::NOTHING;
            } else {
                self.mix(HomePlace::Buffer(buffer), Footprint::WHOLE);
            }
        }
    }

    /// The grid of a buffer and the cells of it that a box touches.
    pub(super) fn touched(&self, buffer: BufferRef, area: &Footprint) -> Option<(u16, CellRange)> {
        let anchor = self.anchors.at(buffer);
        let grid = anchor.grid();
        (grid != NO_GRID).then(|| (grid, self.grids[grid as usize].touched(anchor.ndim(), area)))
    }
}

/// Reports a read's dependencies on what the mixed home of one cell keeps. Returns an argument of the same task that writes there,
/// which is a conflict.
#[cold]
pub(super) fn look_at_one(
    map: &mut Tensormap,
    access: &BufferUse<'_>,
    grid: usize,
    cell: &[u32; MAX_DIMS],
    edges: &mut impl Edges,
) -> Option<u16> {
    let mut search = Search::new(map, access);
    let touched = search.touched(map, grid as u16, cell);
    search.look_at_cell(map, &touched, edges);
    map.conservative += search.conservative;
    search.conflict
}

impl<'a> Search<'a> {
    fn new(map: &Tensormap, access: &'a BufferUse<'a>) -> Self {
        let anchor = map.anchors.at(access.buffer);
        let buffer_shape = anchor.buffer_shape();
        let after_many = access.user.writes() && access.footprint.is_span() && anchor.has_many_spans();
        let area = if access.footprint.is_span() {
            access.footprint.rows(&buffer_shape)
        } else {
            access.footprint.as_box(&buffer_shape)
        };
        Self {
            access,
            buffer_shape,
            area,
            order: map.clock,
            after_many,
            maker_met: false,
            conflict: None,
            conservative: 0,
        }
    }

    pub(super) fn is_span(&self) -> bool {
        self.access.footprint.is_span()
    }

    fn writes(&self) -> bool {
        self.access.user.writes()
    }

    /// Whether it writes all of its buffer.
    fn writes_all(&self) -> bool {
        self.writes() && !self.is_span() && self.area == Footprint::WHOLE.as_box(&self.buffer_shape)
    }

    /// Looks at what is kept of a buffer without a grid, and enters the access there.
    fn go_through_unruled(&mut self, map: &mut Tensormap, edges: &mut impl Edges) {
        let stretched = self.look_at_buffer(map, edges);
        if self.conflict.is_some() {
            return;
        }
        match self.writes_all() {
            true => map.write_whole(self.access.buffer, self.access.user),
            false => {
                if stretched {
                    map.anchors.at_mut(self.access.buffer).forget_spans();
                }
                map.push_in_buffer(self, stretched);
            }
        }
    }

    /// Looks at every cell that the access touches, and enters it there or in the buffer's home.
    fn go_through(&mut self, map: &mut Tensormap, grid: u16, range: &CellRange, edges: &mut impl Edges) {
        let (buffer, user) = (self.access.buffer, self.access.user);
        let writes_all = self.writes_all();
        let most = if self.writes() { WIDE } else { FEW };
        let in_cells = !self.is_span() && !writes_all && count(range) <= most;
        let mut part = NONE;
        // A write of more parts of cells than a few is entered once for all of them.
        let mut pieces = 0;
        // A span that is written and stands for what a cell kept does so from the buffer's home.
        let mut stands = false;
        self.look_at_cells(map, grid, range, edges, |search, map, cell, stretched, edges| {
            if search.conflict.is_some() {
                return;
            }
            stands |= stretched && search.is_span();
            if writes_all || (search.writes() && !in_cells && cell.all) {
                let at = map.cells.find(HomeContent::cell(buffer, cell.number), cell.number, &map.lists);
                at.into_iter().for_each(|at| map.empty_cell(at));
            } else if in_cells && search.writes() {
                pieces += u64::from(!cell.all);
                if cell.all || pieces <= FEW {
                    let at = map.claim(buffer, cell.number, edges);
                    map.enter_write(at, user, search.order, cell.all, cell.footprint, cell.clip, stretched);
                }
            } else if in_cells {
                let at = map.claim(buffer, cell.number, edges);
                let ring = user.task().ring() as usize % RINGS;
                if !cell.all && part == NONE {
                    let (footprint, order) = (search.area, search.order);
                    part = map.rings[ring].parts.push(|| UsedPart::of_read(footprint, order));
                }
                let home = &mut map.cells.homes[at as usize];
                home.push_read(ring, &mut map.rings, user, if cell.all { NONE } else { part });
            }
        });
        if self.conflict.is_some() {
            return;
        }
        if writes_all {
            map.write_whole(buffer, user);
        } else if !in_cells || pieces > FEW {
            map.enter_in_buffer(self, stands, edges);
        }
        map.sift_now_and_then(buffer, count(range).min(WIDE), edges);
    }

    /// Meets what is kept of the cells of a range, and calls `each` for every one of them; of a wide range, for those that keep
    /// something. It is told whether a write of a part of the cell is to stand for all that was kept there.
    fn look_at_cells<E: Edges>(
        &mut self,
        map: &mut Tensormap,
        grid: u16,
        range: &CellRange,
        edges: &mut E,
        mut each: impl FnMut(&mut Self, &mut Tensormap, &Touched, bool, &mut E),
    ) {
        if count(range) > WIDE {
            return self.look_at_wide(map, grid, range, edges, each);
        }
        let mut next: Option<[u32; MAX_DIMS]> = Some(range.0);
        while let Some(cell) = next {
            let touched = self.touched(map, grid, &cell);
            let stretched = self.look_at_cell(map, &touched, edges);
            each(self, map, &touched, stretched, edges);
            next = if range.0 == range.1 || self.conflict.is_some() { None } else { next_cell(&cell, range) };
        }
    }

    /// The cells of a wide range that keep something, and once all others, of which only the buffer's own home and its maker can
    /// tell.
    fn look_at_wide<E: Edges>(
        &mut self,
        map: &mut Tensormap,
        grid: u16,
        range: &CellRange,
        edges: &mut E,
        mut each: impl FnMut(&mut Self, &mut Tensormap, &Touched, bool, &mut E),
    ) {
        let (buffer, ndim) = (self.access.buffer, self.buffer_shape.ndim());
        let (mut from, mut written) = (0, 0);
        while let Some((at, number)) = map.cells.next_of(buffer, from, &map.lists) {
            from = at + 1;
            let cell = map.grids[grid as usize].cell_of(number, ndim);
            if !is_in_range(&cell, range) {
                continue;
            }
            let home = map.cells.homes[at as usize];
            written += u64::from(home.writer.is_somebody() || home.kept.lists().is_some());
            let touched = self.touched(map, grid, &cell);
            let stretched = self.look_at_cell(map, &touched, edges);
            each(self, map, &touched, stretched, edges);
            if self.conflict.is_some() {
                return;
            }
        }
        if written < count(range) {
            let others = Touched { number: 0, footprint: self.area, clip: self.area, all: false };
            let home = map.anchors.at(buffer).home;
            let superseded = home.kept.lists().is_some_and(|lists| self.look_past(map, home, lists, &others, 0, edges));
            if !superseded {
                self.meet_maker(map, &others.clip, edges);
            }
        }
    }

    /// A cell that the access touches.
    fn touched(&self, map: &Tensormap, grid: u16, cell: &[u32; MAX_DIMS]) -> Touched {
        let grid = &map.grids[grid as usize];
        let (number, footprint) = (grid.number(cell), grid.footprint(&self.buffer_shape, cell));
        let clip = self.area.intersection(&footprint);
        Touched { number, footprint, clip, all: clip == footprint && !self.is_span() }
    }

    /// Meets what is kept of a cell, and drops what a write supersedes. Whether a write of a part of the cell is to stand for
    /// all that was kept there.
    fn look_at_cell(&mut self, map: &mut Tensormap, cell: &Touched, edges: &mut impl Edges) -> bool {
        let buffer = self.access.buffer;
        if self.is_span() && !self.access.footprint.overlaps(&cell.footprint, &self.buffer_shape) {
            return false;
        }
        let (mut horizon, mut superseded, mut stands, mut stretched) = (0, false, false, false);
        if let Some(at) = map.cells.find(HomeContent::cell(buffer, cell.number), cell.number, &map.lists) {
            horizon = map.cells.wrote(at);
            let mut home = map.cells.homes[at as usize];
            superseded = home.writer.is_somebody() || home.kept.lists().is_some();
            let cut = self.writes() && !self.is_span();
            let (footprint, clip) = (cell.footprint, cell.clip);
            let (all, met, most) = (false, false, FEW as usize);
            let mut walk = Walk { footprint, clip, cut, all, met, from: 0, since: 0, most };
            if let Some(lists) = home.kept.lists() {
                stretched = self.look_at_mixed(map, &mut home.reads, lists, walk, edges);
            } else {
                stretched = self.after_many || self.writes() && self.is_span() && map.holds_many(&home.reads, edges);
                walk.all = stretched;
                stands = self.writes() && self.walk(&mut map.rings, &mut home.reads, &walk, edges);
                if home.writer.is_somebody() && !stands {
                    self.meet(home.writer, cell.clip == self.area, false, edges);
                }
            }
            map.cells.homes[at as usize].reads = home.reads;
        }
        let home = map.anchors.at(buffer).home;
        if let Some(lists) = home.kept.lists() {
            superseded |= self.look_past(map, home, lists, cell, horizon, edges);
        }
        if !superseded && !stands {
            self.meet_maker(map, &cell.clip, edges);
        }
        stretched
    }

    /// Meets the uses in the buffer's own home that are newer than `horizon` and overlap the access in a cell. Whether a write
    /// among them supersedes whoever made the buffer.
    fn look_past(
        &mut self,
        map: &mut Tensormap,
        mut home: Home,
        lists: u32,
        cell: &Touched,
        horizon: u64,
        edges: &mut impl Edges,
    ) -> bool {
        let list = &map.lists[lists as usize];
        let (since, mut writes) = (list.since, list.writes);
        let mut newest = if home.writer.is_somebody() && since > horizon { since } else { 0 };
        for (RingUses { uses, parts }, &head) in map.rings.iter().zip(&writes) {
            let mut at = head;
            while uses.holds(at) {
                let part = parts.at(uses.at(at).part());
                if part.order <= horizon.max(newest) {
                    break;
                }
                if !part.stretched && !part.moved && part.footprint.covers(&cell.clip) {
                    newest = part.order;
                }
                at = uses.at(at).older();
            }
        }
        let from = newest.max(horizon + 1);
        let (footprint, clip, most) = (Footprint::WHOLE, cell.clip, FEW as usize);
        let walk = Walk { footprint, clip, cut: false, all: false, met: false, from, since, most };
        if self.writes() {
            self.walk(&mut map.rings, &mut home.reads, &walk, edges);
        }
        self.walk(&mut map.rings, &mut writes, &walk, edges);
        newest > 0 || home.writer.is_somebody()
    }

    /// Meets what is kept of a buffer without a grid. Whether a write is to stand for all of it.
    fn look_at_buffer(&mut self, map: &mut Tensormap, edges: &mut impl Edges) -> bool {
        let lists = map.mix(HomePlace::Buffer(self.access.buffer), Footprint::WHOLE);
        let footprint = Footprint::WHOLE.as_box(&self.buffer_shape);
        let mut reads = map.anchors.at(self.access.buffer).home.reads;
        let (clip, cut, since) = (self.area, self.writes(), map.lists[lists as usize].since);
        let walk = Walk { footprint, clip, cut, all: false, met: false, from: 0, since, most: FEW as usize };
        let stretched = self.look_at_mixed(map, &mut reads, lists, walk, edges);
        map.anchors.at_mut(self.access.buffer).home.reads = reads;
        stretched
    }

    /// Whoever made the buffer wrote all of it, this part included.
    fn meet_maker(&mut self, map: &Tensormap, part: &Footprint, edges: &mut impl Edges) {
        let Some(maker) = map.maker_of(self.access.buffer, part) else { return };
        if maker.is_task_of(self.access.user) {
            self.conflict = Some(maker.arg());
        } else if !std::mem::replace(&mut self.maker_met, true) {
            edges.meet(maker.edge_of_maker());
        }
    }

    /// Meets another user. Whether an open scope holds its task.
    pub(super) fn meet(&mut self, other: User, covered: bool, guessed: bool, edges: &mut impl Edges) -> bool {
        if other.is_task_of(self.access.user) {
            self.conflict = Some(self.conflict.map_or(other.arg(), |with| with.min(other.arg())));
            return true;
        }
        let conservative = guessed || self.is_span();
        self.conservative += u64::from(conservative);
        edges.meet(other.edge_of(covered, conservative))
    }
}
