//! Shape, strides and offset of a view: what slicing, tiling, reshaping and permuting do to them. Never a copy.

use core::fmt;
use plimsoll_abi::MAX_DIMS;

/// Where the elements of a view lie in its buffer. All numbers count elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct Layout {
    offset: u64,
    /// Extents; those past `ndim` are 1.
    shape: [u32; MAX_DIMS],
    ndim: u32,
    /// Steps; those past `ndim` are 0.
    strides: [i32; MAX_DIMS],
}

/// Why a view cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// More dimensions than a tensor can have.
    TooManyDims(usize),
    /// An extent of zero.
    Empty,
    /// More elements than a stride can step over.
    TooLarge,
    /// A dimension that the view does not have.
    NoSuchDim {
        /// The dimension asked for.
        dim: usize,
        /// Number of dimensions that were given.
        ndim: usize,
    },
    /// A tile with another number of dimensions than the view has.
    OtherRank {
        /// Number of the tile's extents.
        tile: usize,
        /// Number of the view's dimensions.
        ndim: usize,
    },
    /// A range that leaves the view.
    OutOfBounds {
        /// The dimension.
        dim: usize,
        /// First element asked for.
        start: u64,
        /// One past the last.
        end: u64,
        /// The view's extent there.
        extent: u32,
    },
    /// A tile that does not divide the view.
    Uneven {
        /// The dimension.
        dim: usize,
        /// The tile's extent.
        tile: u32,
        /// The view's extent there.
        extent: u32,
    },
    /// A reshape to another number of elements.
    OtherSize {
        /// Elements of the view.
        from: u64,
        /// Elements asked for.
        to: u64,
    },
    /// A reshape of a view with gaps.
    NotContiguous,
    /// A permutation that names a dimension twice or leaves one out.
    NotAPermutation,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LayoutError::TooManyDims(n) => write!(f, "a tensor has at most {MAX_DIMS} dimensions, not {n}"),
            LayoutError::Empty => write!(f, "a tensor needs at least one element in every dimension"),
            LayoutError::TooLarge => write!(f, "a tensor can step over at most {} elements", i32::MAX),
            LayoutError::NoSuchDim { dim, ndim } => write!(f, "there is no dimension {dim} in a view of {ndim}"),
            LayoutError::OtherRank { tile, ndim } => {
                write!(f, "a tile of {tile} extents does not fit a view of {ndim} dimensions")
            }
            LayoutError::OutOfBounds { dim, start, end, extent } => {
                write!(f, "elements {start}..{end} leave dimension {dim}, which has {extent}")
            }
            LayoutError::Uneven { dim, tile, extent } => {
                write!(f, "tiles of {tile} do not divide dimension {dim}, which has {extent}")
            }
            LayoutError::OtherSize { from, to } => write!(f, "{from} elements cannot be reshaped to {to}"),
            LayoutError::NotContiguous => write!(f, "a view with gaps cannot be reshaped"),
            LayoutError::NotAPermutation => write!(f, "a permutation names every dimension exactly once"),
        }
    }
}

impl std::error::Error for LayoutError {}

impl Layout {
    /// All of a dense row-major buffer of this shape. Inlined, because most outputs have a shape that the compiler knows.
    ///
    /// # Errors
    /// If there are too many dimensions or elements, or an extent is zero.
    #[inline]
    pub fn dense(shape: &[usize]) -> Result<Self, LayoutError> {
        let ndim = shape.len();
        if ndim > MAX_DIMS {
            return Err(LayoutError::TooManyDims(ndim));
        }
        let mut out = Self { offset: 0, shape: [1; MAX_DIMS], ndim: ndim as u32, strides: [0; MAX_DIMS] };
        let mut step: u64 = 1;
        for dim in (0..ndim).rev() {
            let extent = u32::try_from(shape[dim]).map_err(|_| LayoutError::TooLarge)?;
            if extent == 0 {
                return Err(LayoutError::Empty);
            }
            out.shape[dim] = extent;
            out.strides[dim] = i32::try_from(step).map_err(|_| LayoutError::TooLarge)?;
            step = step.checked_mul(u64::from(extent)).ok_or(LayoutError::TooLarge)?;
        }
        Ok(out)
    }

    /// The dense layout of a buffer's shape, which came from a dense layout.
    #[inline]
    pub(crate) fn of_frame(ndim: usize, shape: &[u32; MAX_DIMS]) -> Self {
        let mut out = Self { offset: 0, shape: *shape, ndim: ndim as u32, strides: [0; MAX_DIMS] };
        let mut step = 1;
        for dim in (0..ndim.min(MAX_DIMS)).rev() {
            out.strides[dim] = step;
            step = step.wrapping_mul(shape[dim] as i32);
        }
        out
    }

    /// The layout that a record's fields describe; `None` if no view can have them.
    pub fn from_parts(ndim: usize, shape: [u32; MAX_DIMS], strides: [i32; MAX_DIMS], offset: u64) -> Option<Self> {
        let sound = ndim <= MAX_DIMS && shape[..ndim].iter().all(|&e| e > 0) && strides[..ndim].iter().all(|&s| s >= 0);
        if !sound {
            return None;
        }
        shape[..ndim].iter().try_fold(1u64, |len, &extent| len.checked_mul(u64::from(extent)))?;
        let mut out = Self { offset, shape: [1; MAX_DIMS], ndim: ndim as u32, strides: [0; MAX_DIMS] };
        out.shape[..ndim].copy_from_slice(&shape[..ndim]);
        out.strides[..ndim].copy_from_slice(&strides[..ndim]);
        Some(out)
    }

    /// Number of dimensions.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.ndim as usize
    }

    /// Extents, one per dimension.
    #[inline]
    pub fn shape(&self) -> &[u32] {
        &self.shape[..self.ndim()]
    }

    /// Steps, one per dimension.
    #[inline]
    pub fn strides(&self) -> &[i32] {
        &self.strides[..self.ndim()]
    }

    /// Extents padded with ones.
    #[inline]
    pub fn padded_shape(&self) -> &[u32; MAX_DIMS] {
        &self.shape
    }

    /// Steps padded with zeros.
    #[inline]
    pub fn padded_strides(&self) -> &[i32; MAX_DIMS] {
        &self.strides
    }

    /// First element.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> u64 {
        self.shape.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Never: a view has at least one element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the elements lie without gaps in row-major order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step: u64 = 1;
        for dim in (0..self.ndim()).rev() {
            if self.shape[dim] != 1 && self.strides[dim] as u64 != step {
                return false;
            }
            step *= u64::from(self.shape[dim]);
        }
        true
    }

    /// The elements from the first to one past the last, gaps included.
    #[inline]
    pub fn span(&self) -> (u64, u64) {
        let reach: u64 = (0..self.ndim()).map(|d| u64::from(self.shape[d] - 1) * self.strides[d] as u64).sum();
        (self.offset, self.offset + reach + 1)
    }

    /// Elements `start..end` of dimension `dim`.
    ///
    /// # Errors
    /// If there is no such dimension, or the range is empty or outside of it.
    pub fn slice(&self, dim: usize, start: usize, end: usize) -> Result<Self, LayoutError> {
        if dim >= self.ndim() {
            return Err(LayoutError::NoSuchDim { dim, ndim: self.ndim() });
        }
        let extent = self.shape[dim];
        if start > end || end > extent as usize {
            return Err(LayoutError::OutOfBounds { dim, start: start as u64, end: end as u64, extent });
        }
        if start == end {
            return Err(LayoutError::Empty);
        }
        let mut out = *self;
        out.offset += start as u64 * self.strides[dim] as u64;
        out.shape[dim] = (end - start) as u32;
        Ok(out)
    }

    /// Tile number `index` when every dimension is cut into tiles of extent `tile`.
    ///
    /// # Errors
    /// If the tile does not lie in the view.
    #[inline]
    pub fn tile<const N: usize>(&self, index: [usize; N], tile: [usize; N]) -> Result<Self, LayoutError> {
        Ok(self.cut(self.tile_offset(index, tile)?, tile))
    }

    /// What [`tile`](Self::tile) returns, if its first element is known.
    #[inline]
    pub fn cut<const N: usize>(&self, offset: u64, tile: [usize; N]) -> Self {
        let mut shape = [1; MAX_DIMS];
        for (extent, tile) in shape.iter_mut().zip(tile) {
            *extent = tile as u32;
        }
        Self { offset, shape, ndim: N as u32, strides: self.strides }
    }

    /// The first element of a tile. Apart from [`cut`](Self::cut), so that a view of it is written once, where it is to be.
    ///
    /// # Errors
    /// As [`tile`](Self::tile).
    #[inline]
    pub fn tile_offset<const N: usize>(&self, index: [usize; N], tile: [usize; N]) -> Result<u64, LayoutError> {
        if self.ndim() != N || N > MAX_DIMS {
            return Err(LayoutError::OtherRank { tile: N, ndim: self.ndim() });
        }
        let mut offset = self.offset;
        for dim in 0..N {
            let end = (index[dim] as u64).saturating_add(1).saturating_mul(tile[dim] as u64);
            if end > u64::from(self.shape[dim]) || tile[dim] == 0 {
                return Err(self.no_tile(dim, index[dim], tile[dim]));
            }
            // Both factors fit, because the end of the tile does.
            offset += (end - tile[dim] as u64) * self.strides[dim] as u64;
        }
        Ok(offset)
    }

    /// Why there is no such tile along dimension `dim`.
    #[cold]
    fn no_tile(&self, dim: usize, index: usize, tile: usize) -> LayoutError {
        let extent = self.shape[dim];
        let Ok(tile) = u32::try_from(tile) else { return LayoutError::TooLarge };
        if tile == 0 {
            return LayoutError::Empty;
        }
        let start = (index as u64).saturating_mul(u64::from(tile));
        if extent.is_multiple_of(tile) || index as u64 > u64::from(extent / tile) {
            let end = start.saturating_add(u64::from(tile));
            LayoutError::OutOfBounds { dim, start, end, extent }
        } else {
            LayoutError::Uneven { dim, tile, extent }
        }
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// If the shape has another number of elements, or the elements do not lie in a row.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self, LayoutError> {
        let mut out = Self::dense(shape)?;
        if out.len() != self.len() {
            return Err(LayoutError::OtherSize { from: self.len(), to: out.len() });
        }
        if !self.is_contiguous() {
            return Err(LayoutError::NotContiguous);
        }
        out.offset = self.offset;
        Ok(out)
    }

    /// The dimensions in another order.
    ///
    /// # Errors
    /// If `order` does not name every dimension once.
    pub fn permute(&self, order: &[usize]) -> Result<Self, LayoutError> {
        if order.len() != self.ndim() {
            return Err(LayoutError::NotAPermutation);
        }
        let mut out = *self;
        let mut seen = [false; MAX_DIMS];
        for (to, &from) in order.iter().enumerate() {
            if from >= self.ndim() || seen[from] {
                return Err(LayoutError::NotAPermutation);
            }
            seen[from] = true;
            out.shape[to] = self.shape[from];
            out.strides[to] = self.strides[from];
        }
        Ok(out)
    }

    /// The dimensions in reverse order.
    pub fn transpose(&self) -> Self {
        let mut out = *self;
        out.shape[..self.ndim()].reverse();
        out.strides[..self.ndim()].reverse();
        out
    }
}
