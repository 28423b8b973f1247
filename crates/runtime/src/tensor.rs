//! Handles of tensors: views of buffers, valid inside the scope that made them.

use crate::element::Element;
use crate::error::{Error, Result};
use plimsoll_abi::MAX_DIMS;
use plimsoll_graph::{Layout, LayoutError};
use plimsoll_sched::args::describe_cut;
use plimsoll_sched::{Part, TensorCore};
use std::marker::PhantomData;

/// A tensor of `T`, or a view of one. It cannot leave the scope `'s` that it was made in.
///
/// At most 128 bytes, which are copied in place: views are made for every submit.
pub struct Tensor<'s, T> {
    pub(crate) core: TensorCore,
    /// The run it belongs to.
    pub(crate) run: u64,
    life: PhantomData<(fn(&'s ()) -> &'s (), T)>,
}

const _: () = assert!(size_of::<Tensor<'_, f32>>() <= 128);

impl<T> Clone for Tensor<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tensor<'_, T> {}

impl<T> std::fmt::Debug for Tensor<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor({}{:?})", self.core.dtype(), self.core.layout.shape())
    }
}

impl<T: Element> Tensor<'_, T> {
    /// All of a buffer.
    #[inline(always)]
    pub(crate) fn new(core: TensorCore, run: u64) -> Self {
        Self { core, run, life: PhantomData }
    }

    /// Extents, one per dimension.
    pub fn shape(&self) -> &[u32] {
        self.core.layout.shape()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.core.layout.len() as usize
    }

    /// Never: a tensor has at least one element.
    pub fn is_empty(&self) -> bool {
        false
    }

    #[inline]
    fn view(&self, layout: std::result::Result<Layout, LayoutError>) -> Result<Self> {
        match layout {
            Ok(layout) => Ok(Self { core: self.core.with_layout(layout), ..*self }),
            Err(error) => Err(refuse(&self.core.layout, error)),
        }
    }

    /// Elements `range` of dimension `dim`.
    pub fn slice(&self, dim: usize, range: std::ops::Range<usize>) -> Result<Self> {
        let layout = match self.core.layout.slice(dim, range.start, range.end) {
            Ok(layout) => layout,
            Err(error) => return Err(refuse(&self.core.layout, error)),
        };
        let word = describe_cut(self.core.word, layout.padded_shape()[0]);
        let mut first = [0; MAX_DIMS];
        first[dim] = range.start as u32;
        let (start, part) = box_in(&self.core, first, &layout);
        Ok(Self { core: TensorCore { layout, word, start, part, ..self.core }, ..*self })
    }

    /// Tile number `index` when every dimension is cut into tiles of extent `tile`.
    #[inline(always)]
    pub fn tile<const N: usize>(&self, index: [usize; N], tile: [usize; N]) -> Result<Self> {
        let from = &self.core.layout;
        let layout = match from.tile(index, tile) {
            Ok(layout) => layout,
            Err(error) => return Err(refuse(from, error)),
        };
        let word = describe_cut(self.core.word, if N == 0 { 1 } else { tile[0] as u32 });
        // Inside the view, so its numbers are small.
        let (start, part) = if self.core.part == Part::Whole {
            let all = (0..N).all(|d| layout.padded_shape()[d] == from.padded_shape()[d]);
            let start = std::array::from_fn(|d| if d < N { index[d] as u32 } else { 0 });
            (start, if all { Part::Whole } else { Part::Tile })
        } else {
            let first = std::array::from_fn(|d| if d < N { (index[d] * tile[d]) as u32 } else { 0 });
            box_in(&self.core, first, &layout)
        };
        Ok(Self { core: TensorCore { layout, word, start, part, ..self.core }, ..*self })
    }

    /// The same elements under another shape.
    pub fn reshape<const N: usize>(&self, shape: [usize; N]) -> Result<Self> {
        self.view(self.core.layout.reshape(&shape))
    }

    /// The dimensions in another order.
    pub fn permute<const N: usize>(&self, order: [usize; N]) -> Result<Self> {
        self.view(self.core.layout.permute(&order))
    }

    /// The dimensions in reverse order.
    pub fn transpose(&self) -> Self {
        let layout = self.core.layout.transpose();
        Self { core: self.core.with_layout(layout), ..*self }
    }
}

/// Where a box that begins at `first` of a view begins in the buffer, and what part of the buffer it is.
#[inline(never)]
fn box_in(view: &TensorCore, first: [u32; MAX_DIMS], layout: &Layout) -> ([u32; MAX_DIMS], Part) {
    if view.part == Part::Other {
        return ([0; MAX_DIMS], Part::Other);
    }
    let whole = view.part == Part::Whole && layout.padded_shape() == view.layout.padded_shape();
    let start = view.first();
    (std::array::from_fn(|d| start[d] + first[d]), if whole { Part::Whole } else { Part::Box })
}

#[cold]
fn refuse(layout: &Layout, error: LayoutError) -> Error {
    Error::invalid(format!(
        "There is no such view of a tensor of shape {:?}: {error}. Ask for one inside it.",
        layout.shape()
    ))
}
