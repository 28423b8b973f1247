//! The cells of a buffer that is used by tiles.
//!
//! A use that lies in one cell is kept in that cell's home, so that tiles of one matrix do not meet each other. Homes
//! are shared by all buffers: a cell's is found by counting cells from a place that depends on the buffer, so that
//! neighbours lie side by side, and cells of other buffers may be met there.

use super::user::User;
use super::{BufferRef, Edges};
use crate::{Frame, Region};
use plimsoll_abi::{MAX_DIMS, RINGS};

/// The cells of one buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Extents of a cell.
    extent: [u32; MAX_DIMS],
    /// Cells from one to the next along each dimension.
    pitch: [u32; MAX_DIMS],
    /// 2^63 / extent of a cell, rounded up: division by multiplication.
    reciprocal: [u64; MAX_DIMS],
    /// The home of the first cell, before it is cut to the number of homes.
    origin: u32,
    /// Who used a cell last, by ring.
    pub(super) last: [User; RINGS],
}

/// The first and the last cell that something touches.
pub(super) type CellRange = ([u32; MAX_DIMS], [u32; MAX_DIMS]);

impl Grid {
    pub(super) const EMPTY: Grid = Grid {
        extent: [0; MAX_DIMS],
        pitch: [0; MAX_DIMS],
        reciprocal: [0; MAX_DIMS],
        origin: 0,
        last: [User::NOBODY; RINGS],
    };

    /// Whether the cells of a buffer can be told apart by a number, whatever their extents, and found by coordinates.
    pub(super) fn can_count(frame: &Frame) -> bool {
        frame.len() <= u64::from(u32::MAX) && frame.shape().iter().all(|&extent| extent < 1 << 31)
    }

    /// Cells of this box's extents, for a buffer whose cells can be counted.
    pub(super) fn of(buffer: BufferRef, region: &Region, frame: &Frame) -> Self {
        let extent = region.extents();
        let mut grid = Grid { extent, origin: buffer.0.wrapping_mul(0x9e37_79b1), ..Self::EMPTY };
        let mut pitch = 1u32;
        for d in (0..frame.ndim()).rev() {
            grid.pitch[d] = pitch;
            pitch = pitch.wrapping_mul(frame.shape()[d].div_ceil(extent[d]));
            if extent[d] < frame.shape()[d] {
                // ceil(2^63 / extent), which is exact for dividends below 2^31; an extent of 1 fits as well.
                grid.reciprocal[d] =
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

    /// The number of a cell, from which its home follows.
    #[inline(always)]
    pub(super) fn number(&self, cell: &[u32; MAX_DIMS]) -> u32 {
        (0..MAX_DIMS).fold(self.origin, |n, d| n.wrapping_add(cell[d].wrapping_mul(self.pitch[d])))
    }

    /// The number of the cell that the box from `start` with extents `shape` is, if it is exactly one.
    #[inline(always)]
    pub(super) fn exact(&self, ndim: usize, start: &[u32; MAX_DIMS], shape: &[u32; MAX_DIMS]) -> Option<u32> {
        let mut number = self.origin;
        let mut off = 0;
        for d in 0..ndim.min(MAX_DIMS) {
            let cell = self.cell_at(d, start[d]);
            off |= (start[d] ^ cell.wrapping_mul(self.extent[d])) | (shape[d] ^ self.extent[d]);
            number = number.wrapping_add(cell.wrapping_mul(self.pitch[d]));
        }
        (off == 0).then_some(number)
    }

    /// The number of the cell that a tile of these extents is, if cells have them.
    #[inline(always)]
    pub(super) fn exact_tile(&self, ndim: usize, index: &[u32; MAX_DIMS], shape: &[u32; MAX_DIMS]) -> Option<u32> {
        let mut number = self.origin;
        let mut off = 0;
        for d in 0..ndim.min(MAX_DIMS) {
            off |= shape[d] ^ self.extent[d];
            number = number.wrapping_add(index[d].wrapping_mul(self.pitch[d]));
        }
        (off == 0).then_some(number)
    }

    /// The box that the cell with this number is, if there is one: cells may have been others when it got its number.
    pub(super) fn region(&self, frame: &Frame, number: u32) -> Option<Region> {
        let mut rest = number.wrapping_sub(self.origin);
        let mut start = [0; MAX_DIMS];
        let mut shape = [1; MAX_DIMS];
        for d in 0..frame.ndim().min(MAX_DIMS) {
            let cell = rest.checked_div(self.pitch[d])?;
            start[d] = cell.checked_mul(self.extent[d]).filter(|&start| start < frame.shape()[d])?;
            shape[d] = self.extent[d];
            rest -= cell * self.pitch[d];
        }
        Some(Region::at(&start, &shape))
    }

    /// The number of the cell that a box lies in, if it is one.
    pub(super) fn enclosing(&self, ndim: usize, region: &Region) -> Option<u32> {
        let (first, last) = self.touched(ndim, region);
        (first == last).then(|| self.number(&first))
    }

    /// The cells that a box touches.
    pub(super) fn touched(&self, ndim: usize, region: &Region) -> CellRange {
        (self.cell(&region.start, ndim), self.cell(&region.end.map(|e| e - 1), ndim))
    }

    /// All cells.
    pub(super) fn all(&self, frame: &Frame) -> CellRange {
        ([0; MAX_DIMS], self.cell(&frame.shape().map(|e| e - 1), frame.ndim()))
    }

    /// Whether nothing that anybody has to wait for is kept in its cells.
    pub(super) fn is_idle(&self, edges: &impl Edges) -> bool {
        self.last.iter().all(|last| !last.is_somebody() || edges.is_spent(last.task()))
    }

    /// Whether its cells have the extents of this box.
    pub(super) fn fits(&self, ndim: usize, region: &Region) -> bool {
        (0..ndim).all(|d| self.extent[d] == region.end[d] - region.start[d])
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
