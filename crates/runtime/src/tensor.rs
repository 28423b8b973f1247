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
    /// Elements of the whole buffer.
    buffer_len: u64,
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
        Self { core, run, buffer_len: core.layout.len(), life: PhantomData }
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
        let mut view = *self;
        view.core.layout = match self.core.layout.slice(dim, range.start, range.end) {
            Ok(layout) => layout,
            Err(error) => return Err(refuse(&self.core.layout, error)),
        };
        view.core.word = describe_cut(self.core.word, view.core.layout.padded_shape()[0]);
        let mut start = [0; MAX_DIMS];
        start[dim] = range.start as u32;
        (view.core.start, view.core.part) = box_in(&self.core, start, view.is_whole());
        Ok(view)
    }

    /// Tile number `index` when every dimension is cut into tiles of extent `tile`.
    #[inline(always)]
    pub fn tile<const N: usize>(&self, index: [usize; N], tile: [usize; N]) -> Result<Self> {
        let mut view = *self;
        if let Err(error) = view.core.layout.shrink_to_tile(index, tile) {
            return Err(refuse(&self.core.layout, error));
        }
        view.core.word = describe_cut(self.core.word, if N == 0 { 1 } else { tile[0] as u32 });
        // Inside the view, so its numbers are small.
        if self.core.part == Part::Whole {
            for (start, index) in view.core.start.iter_mut().zip(index) {
                *start = index as u32;
            }
            view.core.part = if view.is_whole() { Part::Whole } else { Part::Tile };
        } else {
            let start = std::array::from_fn(|d| if d < N { (index[d] * tile[d]) as u32 } else { 0 });
            (view.core.start, view.core.part) = box_in(&self.core, start, view.is_whole());
        }
        Ok(view)
    }

    /// As many elements as the buffer has are all of them.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.core.layout.len() == self.buffer_len
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

/// Where a box of a view begins in the buffer, and what part of the buffer it is, if not all of it.
#[inline(never)]
fn box_in(view: &TensorCore, start: [u32; MAX_DIMS], whole: bool) -> ([u32; MAX_DIMS], Part) {
    if view.part == Part::Other {
        return ([0; MAX_DIMS], Part::Other);
    }
    let first = view.first();
    (std::array::from_fn(|d| first[d] + start[d]), if whole { Part::Whole } else { Part::Box })
}

#[cold]
fn refuse(layout: &Layout, error: LayoutError) -> Error {
    Error::invalid(format!(
        "There is no such view of a tensor of shape {:?}: {error}. Ask for one inside it.",
        layout.shape()
    ))
}
