//! Parts of buffers. A run has few different dimensions and strides, so each of these *forms* is kept once.

use std::collections::HashMap;

use plimsoll_abi::MAX_DIMS;

/// A part of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RecordedView {
    /// The first element's offset, in elements.
    pub offset: u64,
    /// How many dimensions count.
    pub ndim: u8,
    /// Extents by dimension.
    pub shape: [u32; MAX_DIMS],
    /// Strides by dimension, in elements.
    pub strides: [i32; MAX_DIMS],
}

impl RecordedView {
    /// A view of `ndim` dimensions; what lies past them is cleared, so that equal views are equal.
    pub fn new(ndim: u8, mut shape: [u32; MAX_DIMS], mut strides: [i32; MAX_DIMS], offset: u64) -> Self {
        let ndim = ndim.min(MAX_DIMS as u8);
        shape[ndim as usize..].fill(0);
        strides[ndim as usize..].fill(0);
        Self { offset, ndim, shape, strides }
    }
}

/// The forms of views by number: views at offset 0.
#[derive(Clone, Debug, Default)]
pub struct ViewForms {
    all: Vec<RecordedView>,
    numbers: HashMap<RecordedView, u32>,
}

/// So many forms are looked through one by one: most runs have no more, and that is faster than a hash of 48 bytes.
const LOOKED_THROUGH: usize = 8;

impl ViewForms {
    /// The number of a view's form, which is added if it is new.
    pub fn number(&mut self, view: &RecordedView) -> u32 {
        let form = RecordedView { offset: 0, ..*view };
        if let Some(at) = self.all.iter().take(LOOKED_THROUGH).position(|known| *known == form) {
            return at as u32;
        }
        *self.numbers.entry(form).or_insert_with(|| {
            self.all.push(form);
            self.all.len() as u32 - 1
        })
    }

    /// The form of a number; no dimensions if there is no such form.
    pub fn get(&self, number: u32) -> RecordedView {
        self.all.get(number as usize).copied().unwrap_or_default()
    }

    /// Number of views.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_that_differ_in_their_offset_alone_share_a_form() {
        let mut forms = ViewForms::default();
        let view = |rows: u32, offset| RecordedView::new(2, [rows, 4, 9, 9, 9], [4, 1, 9, 9, 9], offset);
        let numbers: Vec<u32> = (0..40).map(|at| forms.number(&view(at / 2, u64::from(at)))).collect();
        assert_eq!(numbers, (0..40).map(|at| at / 2).collect::<Vec<u32>>());
        assert_eq!((forms.len(), forms.get(7), forms.get(99)), (20, view(7, 0), RecordedView::default()));
    }
}
