//! The long way: an access of a part of a buffer that overlaps others, or may.
//!
//! It goes through the home of the buffer and those of the cells that it touches, compares its part with what is kept
//! there, and is entered in the home of the one cell that it lies in, or in the buffer's.

use super::anchors::NO_GRID;
use super::grid::{CellRange, next_cell};
use super::home::{Home, Kept, KeptView, Lists, Part, RingUses, Use, are_spent};
use super::user::User;
use super::{Access, BufferRef, Conflict, Edge, Edges, GRIDS, Grid, NONE, RINGS, Tensormap};
use crate::Region;
use plimsoll_abi::TaskId;

/// A home, by where it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// That of a buffer.
    Anchor(BufferRef),
    /// That of a cell, and the number of the cell; others have the same home.
    Cell(u32, u32),
}

impl Tensormap {
    #[inline(never)]
    pub(super) fn access_any(&mut self, access: &Access<'_>, edges: &mut impl Edges) -> Result<(), Conflict> {
        let buffer = access.buffer;
        self.forget_spent(At::Anchor(buffer), edges);
        let mut at = At::Anchor(buffer);
        if access.region.is_box() {
            self.fit_grid(buffer, access.region, edges);
            let anchor = self.anchors.at(buffer);
            if anchor.grid() != NO_GRID {
                let grid = &mut self.grids[anchor.grid() as usize];
                if let Some(number) = grid.enclosing(anchor.ndim(), access.region) {
                    grid.last[access.user.task().ring() as usize % RINGS] = access.user;
                    at = self.cell(number);
                    self.forget_spent(at, edges);
                }
            }
        }
        let mut search = Search { access, conflict: None, conservative: 0 };
        search.look(self, edges);
        self.conservative += search.conservative;
        if let Some(with) = search.conflict {
            return Err(Conflict { with });
        }
        self.enter(access, at);
        Ok(())
    }

    /// Hands every task that a read of `region` has to wait for to `each`.
    pub fn producers(&mut self, buffer: BufferRef, region: &Region, mut each: impl FnMut(TaskId)) {
        // No task has this id: a ring's number has 32 bits at most.
        let nobody = TaskId::from_raw((1 << 40) - 1);
        let access = Access { user: User::new(nobody, 0, false), buffer, region };
        let mut search = Search { access: &access, conflict: None, conservative: 0 };
        search.look(self, &mut |edge: Edge| {
            each(edge.pred);
            true
        });
        self.conservative += search.conservative;
    }

    fn cell(&self, number: u32) -> At {
        At::Cell(number & (self.cells.len() as u32 - 1), number)
    }

    fn home(&self, at: At) -> Home {
        match at {
            At::Anchor(buffer) => self.anchors.at(buffer).home,
            At::Cell(cell, _) => self.cells[cell as usize],
        }
    }

    fn set_home(&mut self, at: At, home: Home) {
        match at {
            At::Anchor(buffer) => self.anchors.at_mut(buffer).home = home,
            At::Cell(cell, _) => self.cells[cell as usize] = home,
        }
    }

    /// What a home keeps if all of it is of one part: the buffer and the part. None also if that part is no more: the buffer
    /// has come back, or has other cells, so what is kept is spent.
    fn only_part(&self, at: At, kept: Kept) -> Option<Part> {
        match (kept.view(), at) {
            (KeptView::Whole, At::Anchor(buffer)) => Some(Part { buffer, region: Region::WHOLE }),
            (KeptView::Cell(buffer, number), _) => {
                let anchor = self.anchors.at(buffer);
                let region = self.grids[anchor.grid() as usize].region(&anchor.frame(), number)?;
                Some(Part { buffer, region })
            }
            _ => None,
        }
    }

    /// Empties a home if nobody has to wait for anything in it.
    fn forget_spent(&mut self, at: At, edges: &impl Edges) {
        let home = self.home(at);
        let done = match home.kept.view() {
            KeptView::Nothing => return,
            KeptView::Mixed(lists) => {
                let Lists { reads, writes } = &self.lists[lists as usize];
                are_spent(reads, &self.rings, edges) && are_spent(writes, &self.rings, edges)
            }
            _ => home.is_spent(&self.rings, edges),
        };
        if !done {
            return;
        }
        if let KeptView::Mixed(lists) = home.kept.view() {
            self.lists[lists as usize] = Lists::EMPTY;
            self.free_lists.push(lists);
        }
        let kept = if matches!(at, At::Cell(..)) { Kept::NOTHING_MORE } else { Kept::NOTHING };
        self.set_home(at, Home { kept, ..Home::EMPTY });
    }

    /// Enters a use of which everything that it has to wait for was met.
    fn enter(&mut self, access: &Access<'_>, at: At) {
        let Access { user, buffer, region } = *access;
        let exactly = match at {
            At::Anchor(_) => region.is_whole().then_some(Kept::WHOLE),
            At::Cell(_, number) => {
                let anchor = self.anchors.at(buffer);
                let grid = &self.grids[anchor.grid() as usize];
                let cell = grid.exact(anchor.ndim(), &region.start, &region.extents());
                (cell == Some(number)).then(|| Kept::cell(buffer, number))
            }
        };
        let ring = user.task().ring() as usize % RINGS;
        let mut home = self.home(at);
        if let At::Cell(cell, _) = at
            && home.kept == Kept::NOTHING
        {
            self.claimed.push(cell);
        }
        if let (KeptView::Nothing, Some(kept)) = (home.kept.view(), exactly) {
            home.kept = kept;
        }
        if exactly == Some(home.kept) {
            if user.writes() {
                home.writer = user;
            } else {
                let next = home.reads[ring];
                home.reads[ring] = self.rings[ring].uses.push(|| Use::new(user, next));
            }
            return self.set_home(at, home);
        }
        let lists = self.mix(at, home);
        let part = self.rings[ring].parts.push(|| Part { buffer, region: *region });
        let Lists { reads, writes } = &mut self.lists[lists as usize];
        let newest = if user.writes() { &mut writes[ring] } else { &mut reads[ring] };
        *newest = self.rings[ring].uses.push(|| Use::of_part(user, *newest, part));
    }

    /// Makes a home one of mixed parts, in whose lists every use has its own. Returns the lists.
    fn mix(&mut self, at: At, home: Home) -> u32 {
        if let KeptView::Mixed(lists) = home.kept.view() {
            return lists;
        }
        let mut mixed = Lists::EMPTY;
        if let Some(part) = self.only_part(at, home.kept) {
            mixed.reads = home.reads;
            for ring in 0..RINGS {
                let RingUses { uses, parts } = &mut self.rings[ring];
                let mut use_at = home.reads[ring];
                if uses.holds(use_at) {
                    let part = parts.push(|| part);
                    while uses.holds(use_at) {
                        uses.at_mut(use_at).set_part(part);
                        use_at = uses.at(use_at).next();
                    }
                }
            }
            if home.writer.is_somebody() {
                // It comes back with whatever its ring enters next: later than its task, and nobody minds.
                let ring = home.writer.task().ring() as usize % RINGS;
                let RingUses { uses, parts } = &mut self.rings[ring];
                let part = parts.push(|| part);
                mixed.writes[ring] = uses.push(|| Use::of_part(home.writer, NONE, part));
            }
        }
        let lists = self.free_lists.pop().unwrap_or_else(|| {
            self.lists.push(Lists::EMPTY);
            self.lists.len() as u32 - 1
        });
        self.lists[lists as usize] = mixed;
        self.set_home(at, Home { kept: Kept::mixed(lists), ..Home::EMPTY });
        if let At::Anchor(buffer) = at {
            self.anchors.furnish(buffer);
        }
        lists
    }

    /// The cells that `region` touches, if its buffer has a grid.
    fn touched(&self, buffer: BufferRef, region: &Region) -> Option<(u16, CellRange)> {
        let anchor = self.anchors.at(buffer);
        if anchor.grid() == NO_GRID {
            return None;
        }
        let grid = &self.grids[anchor.grid() as usize];
        // A whole buffer touches every cell. A span may; looking at all of them is right and rare.
        let range = if region.is_box() { grid.touched(anchor.ndim(), region) } else { grid.all(&anchor.frame()) };
        Some((anchor.grid(), range))
    }

    /// Gives the buffer a grid with cells of this box's extents, if it has none or an idle one of other cells.
    fn fit_grid(&mut self, buffer: BufferRef, region: &Region, edges: &impl Edges) {
        let anchor = self.anchors.at(buffer);
        let frame = anchor.frame();
        let mut grid = anchor.grid();
        if grid == NO_GRID {
            if !Grid::can_count(&frame) {
                return;
            }
            grid = match self.free_grids.pop() {
                Some(free) => free,
                None if self.grids.len() == GRIDS => return,
                None => {
                    self.grids.push(Grid::EMPTY);
                    self.grids.len() as u16 - 1
                }
            };
            self.anchors.at_mut(buffer).set_grid(grid);
            self.anchors.furnish(buffer);
        } else {
            let grid = &self.grids[grid as usize];
            if grid.fits(frame.ndim(), region) || !grid.is_idle(edges) {
                return;
            }
        }
        // Nobody has to wait for what is kept by cell, so the cells may be what is used now.
        self.grids[grid as usize] = Grid::of(buffer, region, &frame);
    }
}

/// How what is kept lies to an access.
#[derive(Clone, Copy)]
struct Relation {
    /// They are of exactly the same part.
    same: bool,
    /// What is kept covers the access.
    covered: bool,
    /// The access covers what is kept.
    covers: bool,
}

/// One look-up.
struct Search<'a> {
    access: &'a Access<'a>,
    conflict: Option<u16>,
    conservative: u64,
}

impl Search<'_> {
    /// Hands the dependencies of the access to `edges`.
    fn look(&mut self, map: &mut Tensormap, edges: &mut impl Edges) {
        let buffer = self.access.buffer;
        let mut shadowed = self.home(map, At::Anchor(buffer), edges);
        if let Some((grid, range)) = &map.touched(buffer, self.access.region) {
            let mut cell = Some(range.0);
            while let Some(here) = cell {
                let at = map.cell(map.grids[*grid as usize].number(&here));
                shadowed |= self.home(map, at, edges);
                cell = if range.0 == range.1 { None } else { next_cell(&here, range) };
            }
        }
        if !shadowed && let Some(maker) = map.anchors.at(buffer).creator.user() {
            if maker.is_task_of(self.access.user) {
                self.conflict = Some(maker.arg());
            } else {
                edges.meet(maker.edge_of_maker());
            }
        }
    }

    /// Meets what is kept in a home, and drops what the access covers. Whether a write was met that covers the whole
    /// access and stands for whoever made the buffer.
    ///
    /// It does not stop there: what is older and was not dropped is met as well. A write that stops the search would hide
    /// what lies in its own home and not what lies in others, and homes depend on what was reclaimed when.
    fn home(&mut self, map: &mut Tensormap, at: At, edges: &mut impl Edges) -> bool {
        let mut home = map.home(at);
        match home.kept.view() {
            KeptView::Nothing => false,
            KeptView::Mixed(lists) => {
                let behind_read = self.access.user.writes() && self.list::<false>(map, lists, false, edges);
                self.list::<true>(map, lists, behind_read, edges)
            }
            KeptView::Cell(buffer, _) if buffer != self.access.buffer => false,
            KeptView::Whole | KeptView::Cell(..) => {
                let part = map.only_part(at, home.kept);
                let Some(relation) = part.and_then(|part| self.relate(map, &part.region)) else { return false };
                let shadowed = self.only(map, &mut home, relation, edges);
                map.set_home(at, home);
                shadowed
            }
        }
    }

    /// A home whose uses are all of one part.
    fn only(&mut self, map: &Tensormap, home: &mut Home, relation: Relation, edges: &mut impl Edges) -> bool {
        let writes = self.access.user.writes();
        let mut behind_read = false;
        if writes {
            for (ring, &newest) in map.rings.iter().zip(&home.reads) {
                let mut at = newest;
                while ring.uses.holds(at) {
                    let read = ring.uses.at(at);
                    behind_read |= self.meet(read.user, relation.covered, false, edges) && relation.same;
                    at = read.next();
                }
            }
        }
        // A read of exactly this part since the last write of it waits for that write already.
        let mut shadowed = behind_read;
        if home.writer.is_somebody() {
            let stands = (behind_read && relation.same) || self.meet(home.writer, relation.covered, false, edges);
            shadowed |= relation.covered && stands;
        }
        if writes && relation.covers && self.conflict.is_none() {
            (home.writer, home.reads) = (User::NOBODY, [NONE; RINGS]);
        }
        shadowed
    }

    /// Walks the writes of a mixed home, or its reads, which only a write has to wait for. Of writes, whether one covers the
    /// whole access and stands for whoever made the buffer; of reads, whether one is of exactly this part.
    fn list<const WRITES: bool>(
        &mut self,
        map: &mut Tensormap,
        lists: u32,
        behind_read: bool,
        edges: &mut impl Edges,
    ) -> bool {
        // A read of exactly this part waits for whoever made the buffer.
        let mut found = behind_read;
        for ring in 0..RINGS {
            let Lists { reads, writes } = &map.lists[lists as usize];
            let (mut before, mut at) = (NONE, if WRITES { writes[ring] } else { reads[ring] });
            while map.rings[ring].uses.holds(at) {
                let entry = *map.rings[ring].uses.at(at);
                let (user, next) = (entry.user, entry.next());
                let part = *map.rings[ring].parts.at(entry.part());
                let mut dropped = false;
                if part.buffer == self.access.buffer
                    && let Some(relation) = self.relate(map, &part.region)
                {
                    let known = WRITES && behind_read && relation.same;
                    let stands = known || self.meet(user, relation.covered, part.region.is_span(), edges);
                    found |= stands && if WRITES { relation.covered } else { relation.same };
                    // What a write covers can never matter again.
                    dropped = self.access.user.writes() && relation.covers && self.conflict.is_none();
                }
                match (dropped, before) {
                    (false, _) => before = at,
                    (true, NONE) => {
                        let Lists { reads, writes } = &mut map.lists[lists as usize];
                        if WRITES { writes[ring] = next } else { reads[ring] = next }
                    }
                    (true, before) => map.rings[ring].uses.at_mut(before).set_next(next),
                }
                at = next;
            }
        }
        found
    }

    /// How a part of the same buffer lies to the access, if they overlap.
    fn relate(&self, map: &Tensormap, region: &Region) -> Option<Relation> {
        if region == self.access.region {
            // A span with gaps does not surely cover even its like.
            let covered = !region.is_span();
            return Some(Relation { same: true, covered, covers: covered });
        }
        let frame = &map.frame(self.access.buffer);
        region.overlaps(self.access.region, frame).then(|| Relation {
            same: false,
            covered: region.covers(self.access.region),
            covers: self.access.region.covers(region),
        })
    }

    fn meet(&mut self, other: User, covered: bool, other_is_span: bool, edges: &mut impl Edges) -> bool {
        if other.is_task_of(self.access.user) {
            self.conflict = Some(other.arg());
            return true;
        }
        let conservative = other_is_span || self.access.region.is_span();
        self.conservative += u64::from(conservative);
        edges.meet(other.edge_of(covered, conservative))
    }
}
