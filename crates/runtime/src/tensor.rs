//! Handles of tensors: views of buffers, valid inside the scope that made them.

use crate::element::Element;
use crate::error::{Error, Result};
use plimsoll_abi::MAX_DIMS;
use plimsoll_graph::{Layout, LayoutError};
use plimsoll_sched::args::describe_cut;
use plimsoll_sched::{TensorCore, ViewPart};
use std::hint::cold_path;
use std::marker::PhantomData;

/// A tensor of `T`, or a view of one. It cannot leave the scope `'s` that it was made in.
///
/// At most 112 bytes, which a view is written with once, where it is to be: views are made for every submit.
pub struct Tensor<'s, T> {
    pub(crate) core: TensorCore,
    /// The run it belongs to.
    pub(crate) run: u64,
    life: PhantomData<(fn(&'s ()) -> &'s (), T)>,
}

const _: () = assert!(size_of::<Tensor<'_, f32>>() <= 112);

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
    #[inline]
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
    pub(crate) fn view(&self, layout: std::result::Result<Layout, LayoutError>) -> Result<Self> {
        match layout {
            Ok(layout) => Ok(Self { core: self.core.with_layout(layout), ..*self }),
            Err(error) => Err(refuse(&self.core.layout, error)),
        }
    }

    /// Elements `range` of dimension `dim`.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if there is no such dimension, or the range is empty or outside of
    /// it.
    pub fn slice(&self, dim: usize, range: std::ops::Range<usize>) -> Result<Self> {
        let layout = match self.core.layout.slice(dim, range.start, range.end) {
            Ok(layout) => layout,
            Err(error) => return Err(refuse(&self.core.layout, error)),
        };
        let word = describe_cut(self.core.word, layout.padded_shape()[0]);
        let first = |d| if d == dim { range.start as u32 } else { 0 };
        let start = std::array::from_fn(|d| self.core.start_of(d, first(d)));
        let all = layout.padded_shape() == self.core.layout.padded_shape();
        let part = self.core.part.cut(if all { ViewPart::Whole } else { ViewPart::Box });
        Ok(Self { core: TensorCore { layout, word, start, part, ..self.core }, ..*self })
    }

    /// Tile number `index` when every dimension is cut into tiles of extent `tile`.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if the tile has another number of dimensions, or does not lie in the
    /// tensor.
    // Forced inline: `arg.rs` says what it saves.
    #[inline(always)]
    pub fn tile<const N: usize>(&self, index: [usize; N], tile: [usize; N]) -> Result<Self> {
        let from = &self.core.layout;
        let offset = match from.tile_offset(index, tile) {
            Ok(offset) => offset,
            Err(error) => return Err(refuse(from, error)),
        };
        let word = describe_cut(self.core.word, if N == 0 { 1 } else { tile[0] as u32 });
        let mut start = [0; MAX_DIMS];
        for d in 0..N {
            // Inside the view, so its numbers are small.
            start[d] = if self.core.part == ViewPart::Whole {
                index[d] as u32
            } else {
                cold_path();
                self.core.start_of(d, (index[d] * tile[d]) as u32)
            };
        }
        let all = (0..N).all(|d| tile[d] as u32 == from.padded_shape()[d]);
        let part = self.core.part.cut(if all { ViewPart::Whole } else { ViewPart::Tile });
        Ok(Self { core: TensorCore { layout: from.cut(offset, tile), word, start, part, ..self.core }, ..*self })
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if the shape has another number of elements, or the elements do not
    /// lie in a row.
    pub fn reshape<const N: usize>(&self, shape: [usize; N]) -> Result<Self> {
        self.view(self.core.layout.reshape(&shape))
    }

    /// The dimensions in another order.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if `order` does not name every dimension once.
    pub fn permute<const N: usize>(&self, order: [usize; N]) -> Result<Self> {
        self.view(self.core.layout.permute(&order))
    }

    /// A view of any extents and strides that begins where this tensor, all elements of which lie in a row, does.
    pub(crate) fn strided(&self, shape: &[usize], strides: &[usize]) -> Result<Self> {
        let from = &self.core.layout;
        let layout = strided_layout(from, shape, strides).filter(|_| from.reshape(&[self.len()]).is_ok());
        match layout {
            Some(layout) => self.view(Ok(layout)),
            None => Err(Error::invalid(format!(
                "There is no view of shape {shape:?} with strides {strides:?} of a tensor of shape {:?}. Its elements would lie outside, or an element would be in it twice. Ask for one inside it.",
                from.shape()
            ))),
        }
    }

    /// The dimensions in reverse order.
    pub fn transpose(&self) -> Self {
        let layout = self.core.layout.transpose();
        Self { core: self.core.with_layout(layout), ..*self }
    }
}

/// The layout of a view with these strides, if all of it lies in the elements of `from`, each at most once.
fn strided_layout(from: &Layout, shape: &[usize], strides: &[usize]) -> Option<Layout> {
    if shape.len() != strides.len() || shape.len() > MAX_DIMS {
        return None;
    }
    let mut dims: Vec<(usize, usize)> = strides.iter().copied().zip(shape.iter().copied()).collect();
    dims.retain(|(_, extent)| *extent != 1);
    dims.sort_unstable();
    // The last element of the dimensions so far: the next one must step over all of it.
    let mut last = 0usize;
    for (stride, extent) in dims {
        if stride <= last {
            return None;
        }
        last = last.checked_add(extent.checked_sub(1)?.checked_mul(stride)?)?;
    }
    if last as u64 >= from.len() {
        return None;
    }
    let (mut extents, mut steps) = ([0; MAX_DIMS], [0; MAX_DIMS]);
    for dim in 0..shape.len() {
        extents[dim] = u32::try_from(shape[dim]).ok()?;
        steps[dim] = i32::try_from(strides[dim]).ok()?;
    }
    Layout::from_parts(shape.len(), extents, steps, from.offset())
}

#[cold]
fn refuse(layout: &Layout, error: LayoutError) -> Error {
    Error::invalid(format!(
        "There is no such view of a tensor of shape {:?}: {error}. Ask for one inside it.",
        layout.shape()
    ))
    .caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::Dtype;
    use plimsoll_graph::{BufferShape, Footprint, Tensormap};
    use plimsoll_sched::OutputPlace;
    use plimsoll_sched::args::describe;
    use proptest::prelude::*;

    /// One cut of a view, by numbers that are taken modulo what there is.
    #[derive(Clone, Debug)]
    enum Cut {
        Tile([usize; 2], [usize; 2]),
        Slice(usize, usize, usize),
        Transpose,
    }

    fn cuts() -> impl Strategy<Value = Vec<Cut>> {
        let pair = || [0..12usize, 0..12usize];
        let cut = prop_oneof![
            4 => (pair(), pair()).prop_map(|(index, tiles)| Cut::Tile(index, tiles)),
            2 => (0..2usize, 0..12usize, 0..12usize).prop_map(|(dim, start, len)| Cut::Slice(dim, start, len)),
            1 => Just(Cut::Transpose),
        ];
        prop::collection::vec(cut, 0..5)
    }

    fn cut<'s>(view: &Tensor<'s, f32>, cut: &Cut) -> Tensor<'s, f32> {
        let extent = |d: usize| view.shape()[d] as usize;
        match *cut {
            Cut::Tile(index, tiles) => {
                // An extent that divides the view's, the whole of it included.
                let tile = [0, 1].map(|d| {
                    let divisors: Vec<usize> = (1..=extent(d)).filter(|e| extent(d) % e == 0).collect();
                    divisors[tiles[d] % divisors.len()]
                });
                view.tile([0, 1].map(|d| index[d] % (extent(d) / tile[d])), tile).expect("divides")
            }
            Cut::Slice(dim, start, len) => {
                let start = start % extent(dim);
                view.slice(dim, start..start + 1 + len % (extent(dim) - start)).expect("inside")
            }
            Cut::Transpose => view.transpose(),
        }
    }

    proptest! {
        /// What a view says of itself, by which it is found in the tensormap and written into slots, is what its layout says.
        #[test]
        fn a_view_of_a_view_knows_which_part_it_is(shape in [1..13usize, 1..13usize], cuts in cuts()) {
            let mut map = Tensormap::unbounded();
            let layout = Layout::dense(&shape).expect("small");
            let buffer = map.add_buffer(BufferShape::of(&layout));
            let made = OutputPlace { base: 640, buffer };
            let whole = Tensor::<f32>::new(TensorCore::whole(made, layout, Dtype::F32, 4), 1);
            let view = cuts.iter().fold(whole, |view, next| cut(&view, next)).core;
            prop_assert_eq!(view.footprint(&map), Footprint::of(&map.buffer_shape(buffer), &view.layout));
            prop_assert_eq!(view.word, describe(&view.layout, Dtype::F32));
        }
    }
}
