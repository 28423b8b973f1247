//! The cells of a buffer that is used by tiles.
//!
//! Cells have the extents of a tile and lie side by side from a place that need not be the beginning: tiles may begin
//! behind a border. Along each dimension the first and the last cell may be cut short by the buffer's ends.
//!
//! What is written makes the cells. A grid that was made for a read is made anew for the first write; one that was made for
//! a write gets finer when a write comes whose ends are not those of cells, as long as that takes few cells and not too many
//! earlier writes become wide.

use super::BufferRef;
use crate::{BufferShape, Footprint};
use plimsoll_abi::MAX_DIMS;

/// Cells up to which a use is kept in each of them.
pub(super) const FEW: u64 = 32;
/// Cells up to which a write is kept in each of them, and up to which a use looks at each. What is *wide* touches more.
pub(super) const WIDE: u64 = 1024;
/// The largest factor by which finer cells may be smaller than the old cells and than a write that takes more than a few of them.
const MUCH_FINER: u64 = 4;
/// Wide uses that the home of a buffer with cells holds of open scopes before the next wide write stands for all of them.
pub(super) const MANY_WIDE: usize = 256;
/// Writes side by side that may become wide in finer cells. What is left of each in the buffer's home may be more than one box.
const MOST_WIDENED: u64 = MANY_WIDE as u64 / 2;
/// How often a grid is made anew for writes whose ends no finer division of its cells would meet.
const REMAKES: u8 = 4;

/// The cells of one buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Extents of a cell.
    extent: [u32; MAX_DIMS],
    /// Cell extents if the first cell starts at element 0 (a tile of these extents is then one cell); zeros otherwise.
    tile: [u32; MAX_DIMS],
    /// Elements by which the first cell is shorter than the others, along each dimension.
    lead: [u32; MAX_DIMS],
    /// Cells from one to the next along each dimension.
    pitch: [u32; MAX_DIMS],
    /// 2^63 / extent of a cell, rounded up: division by multiplication.
    reciprocal: [u64; MAX_DIMS],
    /// The home of the first cell, before it is cut to the number of homes.
    origin: u32,
    /// Extents of the largest write so far that is not wide.
    widest: [u32; MAX_DIMS],
    /// Whether it was made for a write.
    pub(super) written: bool,
    remakes: u8,
}

/// The first and the last cell that something touches.
pub(super) type CellRange = ([u32; MAX_DIMS], [u32; MAX_DIMS]);

/// Where a box begins and ends in its outermost cells.
pub(super) struct Ends {
    first: [bool; MAX_DIMS],
    last: [bool; MAX_DIMS],
}

impl Ends {
    /// Whether the box has all of a cell that it touches along every dimension before `dims`. Not always known of cells that the
    /// buffer's ends cut short.
    #[inline]
    pub(super) fn are_whole(&self, cell: &[u32; MAX_DIMS], range: &CellRange, dims: usize) -> bool {
        (0..dims.min(MAX_DIMS)).all(|d| self.is_whole(cell[d], range, d))
    }

    /// The same along one dimension.
    #[inline]
    pub(super) fn is_whole(&self, cell: u32, (first, last): &CellRange, d: usize) -> bool {
        (cell > first[d] || self.first[d]) && (cell < last[d] || self.last[d])
    }
}

/// Where a box lies, if it touches one cell only.
pub(super) struct Place {
    /// The cell's number.
    pub(super) number: u32,
    /// Whether the box is the cell.
    pub(super) is_cell: bool,
    /// Whether the box lies in the cell. If not, it touches more cells than the one that it begins in.
    pub(super) is_in_cell: bool,
}

impl Grid {
    pub(super) const EMPTY: Grid = Grid {
        extent: [0; MAX_DIMS],
        tile: [0; MAX_DIMS],
        lead: [0; MAX_DIMS],
        pitch: [0; MAX_DIMS],
        reciprocal: [0; MAX_DIMS],
        origin: 0,
        widest: [0; MAX_DIMS],
        written: false,
        remakes: 0,
    };

    /// Whether the cells of a buffer can be told apart by a number, whatever their extents, and found by coordinates.
    pub(super) fn can_count(buffer_shape: &BufferShape) -> bool {
        buffer_shape.len() <= u64::from(u32::MAX) && buffer_shape.shape().iter().all(|&extent| extent < 1 << 30)
    }

    /// Cells of which this box is one, for a buffer whose cells can be counted.
    pub(super) fn of(buffer: BufferRef, footprint: &Footprint, buffer_shape: &BufferShape, written: bool) -> Self {
        let extent = footprint.extents();
        let lead = std::array::from_fn(|d| lead_of(footprint.start[d], extent[d]));
        Self::new(buffer, buffer_shape, extent, lead, written)
    }

    fn new(
        buffer: BufferRef,
        buffer_shape: &BufferShape,
        extent: [u32; MAX_DIMS],
        lead: [u32; MAX_DIMS],
        written: bool,
    ) -> Self {
        let origin = buffer.0.wrapping_mul(0x9e37_79b1);
        let mut grid = Grid { extent, lead, written, origin, widest: extent, ..Self::EMPTY };
        let mut pitch = 1u32;
        for d in (0..buffer_shape.ndim()).rev() {
            let size = buffer_shape.shape()[d];
            if extent[d] >= size {
                (grid.extent[d], grid.lead[d]) = (size, 0);
            } else {
                // ceil(2^63 / extent), which is exact for dividends below 2^31; an extent of 1 fits as well.
                let extent = u64::from(extent[d]);
                grid.reciprocal[d] = (1 << 63) / extent + u64::from(!(1u64 << 63).is_multiple_of(extent));
            }
            grid.pitch[d] = pitch;
            pitch = pitch.wrapping_mul(grid.cell_at(d, size - 1) + 1);
        }
        if grid.lead == [0; MAX_DIMS] {
            grid.tile = grid.extent;
        }
        grid
    }

    /// Notes the extents of a write.
    pub(super) fn note_write(&mut self, footprint: &Footprint) {
        let volume =
            |extents: &[u32; MAX_DIMS]| extents.iter().map(|&extent| u64::from(extent.max(1))).product::<u64>();
        let extents = footprint.extents();
        if volume(&extents) > volume(&self.widest) && self.cells_of(&extents) <= WIDE {
            self.widest = extents;
        }
    }

    /// Cells that a box of these extents touches if it begins where one of them does.
    fn cells_of(&self, extents: &[u32; MAX_DIMS]) -> u64 {
        (0..MAX_DIMS)
            .fold(1, |n: u64, d| n.saturating_mul(u64::from(extents[d].div_ceil(self.extent[d].max(1)).max(1))))
    }

    /// Whether too many writes that lie side by side would be wide in this grid: of those of a cell of `old`, or the largest so far.
    fn widens_many(&self, old: &Grid, buffer_shape: &BufferShape) -> bool {
        [old.extent, old.widest].into_iter().any(|extent| {
            let side_by_side = Self { extent, ..Self::EMPTY }.cells_of(buffer_shape.shape());
            self.cells_of(&extent) > WIDE && side_by_side > MOST_WIDENED
        })
    }

    /// Other cells, so that this box, which is to be written, is made of them; none if it is already, or cannot be: then it is
    /// kept as a part of the old cells.
    pub(super) fn refitted(
        &self,
        buffer: BufferRef,
        footprint: &Footprint,
        buffer_shape: &BufferShape,
    ) -> Option<Self> {
        let anew = || Self::of(buffer, footprint, buffer_shape, true);
        if !self.written {
            let grid = anew();
            let same = (grid.extent, grid.lead) == (self.extent, self.lead);
            return (!same).then_some(grid);
        }
        if self.is_made_of_cells(buffer_shape, footprint) {
            return None;
        }
        let (mut extent, mut lead) = (self.extent, self.lead);
        let mut finer = 1;
        for d in 0..buffer_shape.ndim() {
            let (start, end, size) = (footprint.start[d], footprint.end[d], buffer_shape.shape()[d]);
            let (old, part) = (self.extent[d], end - start);
            if self.reciprocal[d] == 0 {
                (extent[d], lead[d]) = (part, lead_of(start, part));
                continue;
            }
            let mut common = old;
            for (at, is_end) in [(start, start == 0), (end, end == size)] {
                if !is_end {
                    common = gcd(common, (at + self.lead[d]) % old);
                }
            }
            (extent[d], lead[d]) = (common, self.lead[d] % common);
            finer *= u64::from(old.min(part) / common).max(1);
        }
        let mut grid = Self::new(buffer, buffer_shape, extent, lead, true);
        if count(&grid.touched(buffer_shape.ndim(), footprint)) <= FEW || finer <= MUCH_FINER {
            grid.remakes = self.remakes;
        } else {
            grid = Self { remakes: self.remakes + 1, ..anew() };
        }
        if grid.remakes > REMAKES || grid.widens_many(self, buffer_shape) {
            return None;
        }
        if grid.cells_of(&self.widest) <= WIDE {
            grid.widest = self.widest;
        }
        Some(grid)
    }

    /// Numbers begin with this one.
    pub(super) fn begin_at(&mut self, number: u32) {
        self.origin = number;
    }

    /// Whether a box begins and ends where cells do.
    fn is_made_of_cells(&self, buffer_shape: &BufferShape, footprint: &Footprint) -> bool {
        (0..buffer_shape.ndim()).all(|d| {
            let begins = |at: u32| (at + self.lead[d]).is_multiple_of(self.extent[d]);
            let (start, end) = (footprint.start[d], footprint.end[d]);
            (start == 0 || begins(start)) && (end == buffer_shape.shape()[d] || begins(end))
        })
    }

    /// The place along dimension `d` of the cell that holds coordinate `at`.
    #[inline]
    fn cell_at(&self, d: usize, at: u32) -> u32 {
        // A reciprocal of 0 stands for a cell as large as the dimension: everything lies in cell 0.
        ((u128::from(self.reciprocal[d]) * u128::from(at + self.lead[d])) >> 63) as u32
    }

    #[inline]
    fn cell(&self, at: &[u32; MAX_DIMS], ndim: usize) -> [u32; MAX_DIMS] {
        std::array::from_fn(|d| if d < ndim { self.cell_at(d, at[d]) } else { 0 })
    }

    /// The number of a cell, from which its home follows.
    #[inline]
    pub(super) fn number(&self, cell: &[u32; MAX_DIMS]) -> u32 {
        (0..MAX_DIMS).fold(self.origin, |n, d| n.wrapping_add(cell[d].wrapping_mul(self.pitch[d])))
    }

    /// The cell with a number.
    pub(super) fn cell_of(&self, number: u32, ndim: usize) -> [u32; MAX_DIMS] {
        let mut left = number.wrapping_sub(self.origin);
        std::array::from_fn(|d| {
            let pitch = if d < ndim { self.pitch[d].max(1) } else { u32::MAX };
            let at = left / pitch;
            left -= at * pitch;
            at
        })
    }

    /// Where the box from `start` with extents `shape` lies.
    #[inline]
    pub(super) fn place(&self, ndim: usize, start: &[u32; MAX_DIMS], shape: &[u32; MAX_DIMS]) -> Place {
        let mut number = self.origin;
        let (mut off, mut room) = (0, 0);
        for d in 0..ndim.min(MAX_DIMS) {
            let cell = self.cell_at(d, start[d]);
            let into = (start[d] + self.lead[d]).wrapping_sub(cell.wrapping_mul(self.extent[d]));
            off |= into | (shape[d] ^ self.extent[d]);
            // Below zero if the box ends behind the cell: extents are below 2^30.
            room |= self.extent[d].wrapping_sub(into).wrapping_sub(shape[d]) as i32;
            number = number.wrapping_add(cell.wrapping_mul(self.pitch[d]));
        }
        Place { number, is_cell: off == 0, is_in_cell: room >= 0 }
    }

    /// The number of the cell that a tile of these extents is, if cells have them.
    #[inline]
    pub(super) fn exact_tile(&self, ndim: usize, index: &[u32; MAX_DIMS], shape: &[u32; MAX_DIMS]) -> Option<u32> {
        let mut number = self.origin;
        let mut off = 0;
        for d in 0..ndim.min(MAX_DIMS) {
            off |= shape[d] ^ self.tile[d];
            number = number.wrapping_add(index[d].wrapping_mul(self.pitch[d]));
        }
        (off == 0).then_some(number)
    }

    /// The box that a cell is.
    #[inline]
    pub(super) fn footprint(&self, buffer_shape: &BufferShape, cell: &[u32; MAX_DIMS]) -> Footprint {
        let at =
            |d: usize, cell: u32| (cell * self.extent[d]).saturating_sub(self.lead[d]).min(buffer_shape.shape()[d]);
        let mut shape = [1; MAX_DIMS];
        let mut start = [0; MAX_DIMS];
        for d in 0..buffer_shape.ndim().min(MAX_DIMS) {
            start[d] = at(d, cell[d]);
            shape[d] = at(d, cell[d] + 1) - start[d];
        }
        Footprint::at(&start, &shape)
    }

    /// The cells that a box touches; and whether it begins where its first cells do, and ends where its last ones do, by
    /// dimension.
    #[inline]
    pub(super) fn range_and_ends(&self, ndim: usize, footprint: &Footprint) -> (CellRange, Ends) {
        let mut range = ([0; MAX_DIMS], [0; MAX_DIMS]);
        let mut ends = Ends { first: [true; MAX_DIMS], last: [true; MAX_DIMS] };
        for d in 0..ndim.min(MAX_DIMS) {
            let (first, last) = (self.cell_at(d, footprint.start[d]), self.cell_at(d, footprint.end[d] - 1));
            (range.0[d], range.1[d]) = (first, last);
            ends.first[d] = first * self.extent[d] == footprint.start[d] + self.lead[d];
            ends.last[d] = (last + 1) * self.extent[d] == footprint.end[d] + self.lead[d];
        }
        (range, ends)
    }

    /// The cells that a box touches.
    #[inline]
    pub(super) fn touched(&self, ndim: usize, footprint: &Footprint) -> CellRange {
        (self.cell(&footprint.start, ndim), self.cell(&footprint.end.map(|e| e - 1), ndim))
    }
}

/// What the first cell lacks if one of these extents is to begin at `start`.
fn lead_of(start: u32, extent: u32) -> u32 {
    (extent - start % extent) % extent
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many cells there are from the first to the last.
#[inline]
pub(super) fn count((first, last): &CellRange) -> u64 {
    (0..MAX_DIMS).fold(1, |n, d| n * u64::from(last[d] - first[d] + 1))
}

/// Whether a cell is one of a range.
pub(super) fn is_in_range(cell: &[u32; MAX_DIMS], (first, last): &CellRange) -> bool {
    (0..MAX_DIMS).all(|d| first[d] <= cell[d] && cell[d] <= last[d])
}

/// The cell after `cell` in row-major order.
#[inline]
pub(super) fn next_cell(cell: &[u32; MAX_DIMS], range: &CellRange) -> Option<[u32; MAX_DIMS]> {
    next_row(cell, range, MAX_DIMS)
}

/// The same of the first `dims` dimensions alone: the first cell of the next row, if they are all but one.
#[inline]
pub(super) fn next_row(cell: &[u32; MAX_DIMS], (first, last): &CellRange, dims: usize) -> Option<[u32; MAX_DIMS]> {
    let dim = (0..dims.min(MAX_DIMS)).rev().find(|&d| cell[d] < last[d])?;
    let mut next = *cell;
    next[dim] += 1;
    next[dim + 1..].copy_from_slice(&first[dim + 1..]);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use proptest::prelude::*;

    /// A box of a buffer of this shape, by numbers that say where it begins and how long it is.
    fn cut(shape: &[usize], by: &[(u32, u32)]) -> Footprint {
        let (mut start, mut extents) = ([0; MAX_DIMS], [1; MAX_DIMS]);
        for (d, (&size, &(at, len))) in shape.iter().zip(by).enumerate() {
            start[d] = at % size as u32;
            extents[d] = 1 + len % (size as u32 - start[d]);
        }
        Footprint::at(&start, &extents)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Where a box lies is told the same by its first and last cell and in one go.
        #[test]
        fn a_box_lies_where_its_ends_do(
            shape in prop::collection::vec(1usize..9, 1..=MAX_DIMS),
            tile in prop::collection::vec((any::<u32>(), any::<u32>()), MAX_DIMS),
            part in prop::collection::vec((any::<u32>(), any::<u32>()), MAX_DIMS),
        ) {
            let (ndim, buffer_shape) = (shape.len(), BufferShape::of(&Layout::dense(&shape).expect("small")));
            let grid = Grid::of(BufferRef(5), &cut(&shape, &tile), &buffer_shape, true);
            let part = cut(&shape, &part);
            let (range, ends) = grid.range_and_ends(ndim, &part);
            let place = grid.place(ndim, &part.start, &part.extents());
            prop_assert_eq!(range, grid.touched(ndim, &part));
            prop_assert_eq!(place.number, grid.number(&range.0));
            prop_assert_eq!(grid.cell_of(grid.number(&range.1), ndim), range.1);
            prop_assert_eq!(place.is_in_cell, range.0 == range.1);
            prop_assert_eq!(place.is_cell, range.0 == range.1 && ends.are_whole(&range.0, &range, ndim));
            if place.is_cell {
                prop_assert_eq!(part, grid.footprint(&buffer_shape, &range.0));
            }
        }
    }
}
