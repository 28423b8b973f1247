//! Which elements of its buffer a view can touch, in a form that two views can be compared by.
//!
//! A footprint is a box of the buffer's own shape where the view is one (slices, tiles, permutations of the whole), and
//! the span from its first to its last element otherwise. Boxes are compared exactly. Where a span is involved the
//! comparison is conservative: it may report an overlap where there is none, never the reverse.

use crate::Layout;
use bytemuck::{Pod, Zeroable};
use plimsoll_abi::MAX_DIMS;

/// The shape that a buffer was made with: what boxes are boxes of. Without gaps, so that it is copied with two stores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct BufferShape {
    /// Extents; those past `ndim` are 1.
    shape: [u32; MAX_DIMS],
    ndim: u32,
}

/// A buffer's shape as words: the extents, then the number of dimensions.
pub(crate) const SHAPE_WORDS: usize = MAX_DIMS + 1;

impl BufferShape {
    /// The shape that was taken apart by [`words`](Self::words).
    #[inline]
    pub(crate) fn from_words(words: [u32; SHAPE_WORDS]) -> Self {
        let [shape @ .., ndim] = words;
        Self { shape, ndim }
    }

    /// The shape as words, for a buffer's anchor to keep.
    #[inline]
    pub(crate) fn words(&self) -> &[u32; SHAPE_WORDS] {
        bytemuck::cast_ref(self)
    }

    /// The shape of a dense buffer with this layout's shape.
    #[inline]
    pub fn of(layout: &Layout) -> Self {
        Self { shape: *layout.padded_shape(), ndim: layout.ndim() as u32 }
    }

    /// The layout of the dense buffer.
    #[inline]
    pub fn layout(&self) -> Layout {
        Layout::of_frame(self.ndim(), &self.shape)
    }

    /// Row-major steps.
    #[inline]
    fn steps(&self) -> [u64; MAX_DIMS] {
        let mut steps = [1; MAX_DIMS];
        for dim in (0..(self.ndim as usize).saturating_sub(1)).rev() {
            steps[dim] = steps[dim + 1] * u64::from(self.shape[dim + 1]);
        }
        steps
    }

    /// Extents padded with ones.
    #[inline]
    pub fn shape(&self) -> &[u32; MAX_DIMS] {
        &self.shape
    }

    /// Number of dimensions.
    #[inline]
    pub(crate) fn ndim(&self) -> usize {
        self.ndim as usize
    }

    /// Elements of the buffer.
    pub fn len(&self) -> u64 {
        self.shape.iter().map(|&e| u64::from(e)).product()
    }

    /// Never: a buffer has at least one element.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The elements that a view can touch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Footprint {
    pub(crate) form: FootprintForm,
    /// First coordinates of a box; for a span, the first element in `[0]` (low) and `[1]` (high half).
    pub(crate) start: [u32; MAX_DIMS],
    /// One past the last coordinates; for a span, one past the last element.
    pub(crate) end: [u32; MAX_DIMS],
}

/// How a footprint is written down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum FootprintForm {
    /// The whole buffer: overlaps and covers everything.
    #[default]
    Whole,
    /// A box of the buffer's shape.
    Box,
    /// A span of elements.
    Span,
}

impl Footprint {
    /// The whole buffer.
    pub const WHOLE: Footprint = Footprint { form: FootprintForm::Whole, start: [0; MAX_DIMS], end: [1; MAX_DIMS] };

    /// The footprint of `view` in a buffer of this shape. The same view gives the same footprint wherever it is computed.
    pub fn of(buffer_shape: &BufferShape, view: &Layout) -> Self {
        if view.offset() == 0 && view.len() == buffer_shape.len() && view.span() == (0, buffer_shape.len()) {
            return Self::WHOLE;
        }
        Self::boxed(buffer_shape, view).unwrap_or_else(|| Self::spanned(view))
    }

    /// The box from `start` with these extents, for a view of a part of the buffer whose dimensions are the buffer's own in
    /// their order. The same as [`Footprint::of`] the view, without taking its offset apart.
    #[inline]
    pub fn at(start: &[u32; MAX_DIMS], shape: &[u32; MAX_DIMS]) -> Self {
        Self { form: FootprintForm::Box, start: *start, end: core::array::from_fn(|d| start[d] + shape[d]) }
    }

    fn boxed(buffer_shape: &BufferShape, view: &Layout) -> Option<Self> {
        let ndim = buffer_shape.ndim as usize;
        let steps = buffer_shape.steps();
        let mut footprint = Self { form: FootprintForm::Box, start: [0; MAX_DIMS], end: [1; MAX_DIMS] };
        let mut rest = view.offset();
        for (dim, &step) in steps[..ndim].iter().enumerate() {
            let (at, left) = if step == 1 { (rest, 0) } else { (rest / step, rest % step) };
            footprint.start[dim] = u32::try_from(at).ok()?;
            footprint.end[dim] = footprint.start[dim] + 1;
            rest = left;
        }
        if view.ndim() == ndim && (0..ndim).all(|d| view.strides()[d] as u64 == steps[d]) {
            // The common case: slices and tiles, with every dimension in its place. Where dimensions have the same step,
            // one of extent 1 may stand in the place of another.
            let end: [u32; MAX_DIMS] = core::array::from_fn(|d| footprint.start[d] + view.padded_shape()[d]);
            if (0..ndim).all(|d| end[d] <= buffer_shape.shape[d]) {
                footprint.end = end;
                return Some(footprint);
            }
        }
        for (extent, stride) in Self::runs(view) {
            footprint.lay(buffer_shape, &steps, extent, stride)?;
        }
        Some(footprint)
    }

    /// The dimensions of a view as extent and stride, from the smallest stride on. Those that continue each other are one, so
    /// that a reshaped view has as few as it can.
    fn runs(view: &Layout) -> impl Iterator<Item = (u64, u64)> {
        let mut runs = [(1, 0); MAX_DIMS];
        for (run, (&extent, &stride)) in runs.iter_mut().zip(view.shape().iter().zip(view.strides())) {
            if extent > 1 {
                *run = (u64::from(extent), stride as u64);
            }
        }
        runs.sort_unstable_by_key(|&(_, stride)| stride);
        for at in 1..MAX_DIMS {
            let (extent, stride) = runs[at - 1];
            if extent > 1 && runs[at].1 == stride * extent {
                runs[at] = (extent * runs[at].0, stride);
                runs[at - 1] = (1, 0);
            }
        }
        runs.into_iter().filter(|&(extent, _)| extent > 1)
    }

    /// Extends a box that begins at `start` by a run of elements along the dimension of the same step, and along those
    /// before it where the run goes on over whole ones.
    fn lay(&mut self, buffer_shape: &BufferShape, steps: &[u64; MAX_DIMS], extent: u64, stride: u64) -> Option<()> {
        let mut left = extent;
        for d in (0..buffer_shape.ndim()).rev().filter(|&d| buffer_shape.shape[d] > 1 && steps[d] >= stride) {
            if steps[d] == stride * (extent / left) && self.end[d] == self.start[d] + 1 {
                let size = u64::from(buffer_shape.shape[d]);
                if u64::from(self.start[d]) + left <= size {
                    self.end[d] = self.start[d] + left as u32;
                    return Some(());
                }
                if self.start[d] == 0 && left.is_multiple_of(size) {
                    self.end[d] = buffer_shape.shape[d];
                    left /= size;
                    continue;
                }
            }
            return None;
        }
        None
    }

    fn spanned(view: &Layout) -> Self {
        let (lo, hi) = view.span();
        let mut footprint = Self { form: FootprintForm::Span, start: [0; MAX_DIMS], end: [0; MAX_DIMS] };
        (footprint.start[0], footprint.start[1]) = (lo as u32, (lo >> 32) as u32);
        (footprint.end[0], footprint.end[1]) = (hi as u32, (hi >> 32) as u32);
        footprint
    }

    /// Whether it is the whole buffer.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.form == FootprintForm::Whole
    }

    /// Whether it is a box, and not the whole buffer.
    #[inline]
    pub(crate) fn is_box(&self) -> bool {
        self.form == FootprintForm::Box
    }

    /// Whether comparisons with it can only be conservative.
    #[inline]
    pub fn is_span(&self) -> bool {
        self.form == FootprintForm::Span
    }

    /// The extents of a box; of no meaning for others.
    #[inline]
    pub(crate) fn extents(&self) -> [u32; MAX_DIMS] {
        core::array::from_fn(|d| self.end[d].wrapping_sub(self.start[d]))
    }

    /// The footprint written as a box; a span stays a span.
    #[inline]
    pub(crate) fn as_box(&self, buffer_shape: &BufferShape) -> Self {
        if self.is_whole() { Self::at(&[0; MAX_DIMS], buffer_shape.shape()) } else { *self }
    }

    /// The elements from the first to the last as a box: of a span, all rows that it can touch.
    pub(crate) fn rows(&self, buffer_shape: &BufferShape) -> Self {
        let mut rows = Self::WHOLE.as_box(buffer_shape);
        if self.is_span() {
            let ((first, last), step) = (self.span(buffer_shape), buffer_shape.steps()[0]);
            (rows.start[0], rows.end[0]) = ((first / step) as u32, ((last - 1) / step) as u32 + 1);
        }
        rows
    }

    /// What two boxes that overlap have in common.
    #[inline]
    pub(crate) fn intersection(&self, other: &Footprint) -> Self {
        Self {
            form: FootprintForm::Box,
            start: core::array::from_fn(|d| self.start[d].max(other.start[d])),
            end: core::array::from_fn(|d| self.end[d].min(other.end[d])),
        }
    }

    /// Hands the boxes that make up this box without another one that overlaps it to `each`: at most two per dimension.
    pub(crate) fn minus(&self, cut: &Footprint, mut each: impl FnMut(Footprint)) {
        let mut rest = *self;
        for d in 0..MAX_DIMS {
            if rest.start[d] < cut.start[d] {
                let mut piece = rest;
                piece.end[d] = cut.start[d];
                each(piece);
                rest.start[d] = cut.start[d];
            }
            if cut.end[d] < rest.end[d] {
                let mut piece = rest;
                piece.start[d] = cut.end[d];
                each(piece);
                rest.end[d] = cut.end[d];
            }
        }
    }

    /// The range of elements that holds the footprint: its first element, and one past its last.
    pub(crate) fn span(&self, buffer_shape: &BufferShape) -> (u64, u64) {
        match self.form {
            FootprintForm::Whole => (0, buffer_shape.len()),
            FootprintForm::Span => (join(self.start), join(self.end)),
            FootprintForm::Box => {
                let steps = buffer_shape.steps();
                let first = (0..MAX_DIMS).map(|d| u64::from(self.start[d]) * steps[d]).sum::<u64>();
                let last = (0..MAX_DIMS).map(|d| u64::from(self.end[d] - 1) * steps[d]).sum::<u64>();
                (first, last + 1)
            }
        }
    }

    /// Whether the two share an element, or may.
    #[inline]
    pub fn overlaps(&self, other: &Footprint, buffer_shape: &BufferShape) -> bool {
        match (self.form, other.form) {
            (FootprintForm::Whole, _) | (_, FootprintForm::Whole) => true,
            (FootprintForm::Box, FootprintForm::Box) => {
                let mut apart = false;
                for d in 0..MAX_DIMS {
                    apart |= self.start[d] >= other.end[d] || other.start[d] >= self.end[d];
                }
                !apart
            }
            _ => {
                let ((a, b), (c, d)) = (self.span(buffer_shape), other.span(buffer_shape));
                a < d && c < b
            }
        }
    }

    /// Whether every element that `other` can touch is surely one of these.
    #[inline]
    pub fn covers(&self, other: &Footprint) -> bool {
        match (self.form, other.form) {
            (FootprintForm::Whole, _) => true,
            (FootprintForm::Box, FootprintForm::Box) => {
                let mut inside = true;
                for d in 0..MAX_DIMS {
                    inside &= self.start[d] <= other.start[d] && other.end[d] <= self.end[d];
                }
                inside
            }
            // A span with gaps does not touch every element between its ends, so it covers nothing.
            _ => false,
        }
    }
}

fn join(halves: [u32; MAX_DIMS]) -> u64 {
    u64::from(halves[0]) | u64::from(halves[1]) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn elements(view: &Layout) -> HashSet<u64> {
        let mut out = HashSet::from([view.offset()]);
        for (&extent, &stride) in view.shape().iter().zip(view.strides()) {
            out = out.iter().flat_map(|&at| (0..u64::from(extent)).map(move |i| at + i * stride as u64)).collect();
        }
        out
    }

    /// A random view: slices and permutations of a buffer, with a reshape now and then.
    fn view(shape: Vec<usize>) -> impl Strategy<Value = Layout> {
        cuts(shape, 4)
    }

    /// A random view of slices and transpositions, and of reshapes if there are four kinds of `cuts`.
    fn cuts(shape: Vec<usize>, cuts: usize) -> impl Strategy<Value = Layout> {
        let steps = prop::collection::vec((0..cuts, any::<u32>(), any::<u32>()), 0..5);
        steps.prop_map(move |steps| {
            let mut view = Layout::dense(&shape).expect("small");
            for (what, a, b) in steps {
                let dim = a as usize % view.ndim();
                let extent = view.shape()[dim] as usize;
                view = match what {
                    0 | 1 => {
                        let start = b as usize % extent;
                        let end = start + 1 + (a as usize >> 8) % (extent - start);
                        view.slice(dim, start, end).expect("in bounds")
                    }
                    2 => view.transpose(),
                    _ => view.reshape(&[view.len() as usize]).unwrap_or(view),
                };
            }
            view
        })
    }

    proptest! {
        #[test]
        fn a_cut_is_the_region_of_the_cut_view(
            shape in prop::collection::vec(1usize..6, 1..=4),
            cuts in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 1..4),
        ) {
            let mut view = Layout::dense(&shape).expect("small");
            let buffer_shape = BufferShape::of(&view);
            let mut first = [0; MAX_DIMS];
            for (dim, start, len) in cuts {
                let dim = dim as usize % shape.len();
                let extent = view.shape()[dim];
                let start = start % extent;
                let end = start + 1 + len % (extent - start);
                view = view.slice(dim, start as usize, end as usize).expect("in bounds");
                first[dim] += start;
                let whole = view.len() == buffer_shape.len();
                let footprint = if whole { Footprint::WHOLE } else { Footprint::at(&first, view.padded_shape()) };
                prop_assert_eq!(footprint, Footprint::of(&buffer_shape, &view));
            }
        }
    }

    fn two_views() -> impl Strategy<Value = (Vec<usize>, Layout, Layout)> {
        prop::collection::vec(1usize..6, 1..=4)
            .prop_flat_map(|shape| (Just(shape.clone()), view(shape.clone()), view(shape)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn slices_of_permuted_views_are_boxes(
            (shape, view) in prop::collection::vec(1usize..4, 1..=5).prop_flat_map(|s| (Just(s.clone()), cuts(s, 3))),
        ) {
            let buffer_shape = BufferShape::of(&Layout::dense(&shape).expect("small"));
            prop_assert!(!Footprint::of(&buffer_shape, &view).is_span(), "{view:?} of {shape:?}");
        }

        #[test]
        fn overlap_is_never_missed_and_exact_for_boxes((shape, a, b) in two_views()) {
            let buffer_shape = BufferShape::of(&Layout::dense(&shape).expect("small"));
            let (ra, rb) = (Footprint::of(&buffer_shape, &a), Footprint::of(&buffer_shape, &b));
            let (ea, eb) = (elements(&a), elements(&b));
            let truth = !ea.is_disjoint(&eb);
            prop_assert!(ra.overlaps(&rb, &buffer_shape) || !truth, "missed: {ra:?} {rb:?}");
            if !ra.is_span() && !rb.is_span() {
                prop_assert_eq!(ra.overlaps(&rb, &buffer_shape), truth);
                prop_assert_eq!(ra.covers(&rb), ea.is_superset(&eb));
            }
            if ra.covers(&rb) {
                prop_assert!(ea.is_superset(&eb));
            }
        }
    }

    #[test]
    fn tiles_of_a_transposed_column_do_not_meet() {
        let whole = Layout::dense(&[8, 1]).expect("small");
        let tile = |at| whole.transpose().tile([0, at], [1, 4]).expect("fits");
        let buffer_shape = BufferShape::of(&whole);
        let [one, other] = [0, 1].map(|at| Footprint::of(&buffer_shape, &tile(at)));
        assert!(!one.overlaps(&other, &buffer_shape) && !one.is_span() && !other.is_span());
    }

    /// Rows of a matrix, cut out of its elements in a row, are boxes; what begins or ends within a row is none.
    #[test]
    fn reshaped_views_that_are_boxes_are_seen_as_such() {
        let whole = Layout::dense(&[6, 4, 5]).expect("small");
        let buffer_shape = BufferShape::of(&whole);
        let flat = |from, to| whole.reshape(&[120]).and_then(|flat| flat.slice(0, from, to)).expect("in bounds");
        assert_eq!(Footprint::of(&buffer_shape, &flat(20, 60)), Footprint::at(&[1, 0, 0, 0, 0], &[2, 4, 5, 1, 1]));
        assert_eq!(Footprint::of(&buffer_shape, &flat(25, 35)), Footprint::at(&[1, 1, 0, 0, 0], &[1, 2, 5, 1, 1]));
        assert_eq!(Footprint::of(&buffer_shape, &flat(26, 29)), Footprint::at(&[1, 1, 1, 0, 0], &[1, 1, 3, 1, 1]));
        assert!(Footprint::of(&buffer_shape, &flat(26, 36)).is_span());
        let split = whole.slice(0, 2, 4).and_then(|rows| rows.reshape(&[2, 2, 10])).expect("contiguous");
        assert_eq!(Footprint::of(&buffer_shape, &split), Footprint::at(&[2, 0, 0, 0, 0], &[2, 4, 5, 1, 1]));
    }
}
