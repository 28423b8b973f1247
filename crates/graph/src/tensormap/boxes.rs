//! Boxes that are a cell, or lie in one, and reads of boxes that touch few cells: tiles behind a border, halos and strips of
//! them.
//!
//! They are the short way of parts that are no tiles: as long as every write was of all of its cell, a read of less than a
//! cell waits for the same write as a read of the cell. Its part is written down, and compared by later writes of
//! less than the cell only.

use super::anchors::NO_GRID;
use super::grid::{FEW, count, next_row};
use super::home::{HomeContent, UsedPart};
use super::search::look_at_one;
use super::{BufferRef, BufferUse, Conflict, Edges, NONE, RINGS, Tensormap, User, access_same};
use crate::Footprint;
use plimsoll_abi::MAX_DIMS;

impl Tensormap {
    /// As [`access`](Self::access) of the box from `start` with extents `shape`, if it is a cell of the buffer's grid or, of a
    /// read, lies in one, and the buffer's own home keeps nothing. Nothing has happened if there is no answer. `WRITES` says
    /// what the user says.
    // Forced inline: the short way. Left to the compiler, a task of a chain takes 27 instructions more, of a stencil 158.
    #[inline(always)]
    pub fn access_box<const WRITES: bool>(
        &mut self,
        user: User,
        buffer: BufferRef,
        start: &[u32; MAX_DIMS],
        shape: &[u32; MAX_DIMS],
        edges: &mut impl Edges,
    ) -> Option<Result<(), Conflict>> {
        let Self { anchors, grids, cells, rings, clock, .. } = self;
        let anchor = anchors.at(buffer);
        if anchor.grid() == NO_GRID || anchor.home.kept != HomeContent::NOTHING {
            return None;
        }
        let grid = &mut grids[anchor.grid() as usize];
        let place = grid.place(anchor.ndim(), start, shape);
        if !place.is_cell && (WRITES || !place.is_in_cell) {
            return None;
        }
        if WRITES {
            // As the long way does: which way a write takes depends on what has completed, what cells there are must not.
            grid.written = true;
        }
        let (number, ring) = (place.number, user.task().ring() as usize % RINGS);
        let (key, at) = (HomeContent::cell(buffer, number), number & cells.mask);
        let home = &mut cells.homes[at as usize];
        if home.kept != key {
            if home.kept != HomeContent::NOTHING {
                return if place.is_cell { self.access_claimed::<WRITES>(user, buffer, number, edges) } else { None };
            }
            // Nobody ever had it, so nothing lies behind it and all else in it is zero.
            home.kept = key;
            cells.touch(at);
        }
        let part = match WRITES || place.is_cell {
            true => NONE,
            false => rings[ring].parts.push(|| UsedPart::of_read(Footprint::at(start, shape), *clock)),
        };
        Some(access_same::<WRITES>(&mut cells.homes[at as usize], &anchor.creator, rings, user, part, edges))
    }

    /// As [`access`](Self::access) of a read that touches few cells, in a buffer whose own home keeps nothing. No answer if it
    /// is no such read; then nothing has happened.
    pub(super) fn read_cells(
        &mut self,
        access: &BufferUse<'_>,
        edges: &mut impl Edges,
    ) -> Option<Result<(), Conflict>> {
        let BufferUse { user, buffer, footprint } = *access;
        let anchor = self.anchors.at(buffer);
        let (grid, ndim) = (anchor.grid() as usize, anchor.ndim());
        if anchor.grid() == NO_GRID || anchor.home.kept != HomeContent::NOTHING || !footprint.is_box() {
            return None;
        }
        let maker = anchor.creator.user();
        let (range, ends) = self.grids[grid].range_and_ends(ndim, footprint);
        let cells = count(&range);
        if cells > FEW || maker.is_some_and(|maker| maker.is_task_of(user)) {
            return None;
        }
        let (ring, inner) = (user.task().ring() as usize % RINGS, ndim.max(1) - 1);
        let (mut part, mut maker_met) = (NONE, false);
        let mut next = Some(range.0);
        // Row by row: the numbers of cells that follow each other along the last dimension do, too.
        while let Some(row) = next {
            let first = self.grids[grid].number(&row);
            let row_is_whole = ends.are_whole(&row, &range, inner);
            for step in 0..=range.1[inner] - range.0[inner] {
                let number = first.wrapping_add(step);
                let key = HomeContent::cell(buffer, number);
                let mut at = number & self.cells.mask;
                if self.cells.homes[at as usize].kept != key {
                    at = self.claim(buffer, number, edges);
                }
                let home = &self.cells.homes[at as usize];
                if home.kept != key {
                    let mut cell = row;
                    cell[inner] += step;
                    if let Some(with) = look_at_one(self, access, grid, &cell, edges) {
                        return Some(Err(Conflict { with }));
                    }
                } else if home.writer.is_somebody() {
                    if home.writer.is_task_of(user) {
                        return Some(Err(Conflict { with: home.writer.arg() }));
                    }
                    edges.meet(home.writer.edge_of(cells == 1, false));
                } else if let Some(maker) = maker.filter(|_| !maker_met) {
                    maker_met = true;
                    edges.meet(maker.edge_of_maker());
                }
                let all = row_is_whole && ends.is_whole(step + range.0[inner], &range, inner);
                if !all && part == NONE {
                    let order = self.clock;
                    part = self.rings[ring].parts.push(|| UsedPart::of_read(*footprint, order));
                }
                let home = &mut self.cells.homes[at as usize];
                home.push_read(ring, &mut self.rings, user, if all { NONE } else { part });
            }
            next = next_row(&row, &range, inner);
        }
        Some(Ok(()))
    }
}
