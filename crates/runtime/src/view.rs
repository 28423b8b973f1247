//! What a kernel sees of its arguments: typed, strided views. They cannot leave the call.

use crate::element::Element;
use plimsoll_abi::MAX_DIMS;
use plimsoll_sched::args::{ArgView, ArgWords};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Shape and place of a view.
#[derive(Clone, Copy, Debug)]
struct Shape {
    ndim: u8,
    shape: [u32; MAX_DIMS],
    strides: [i32; MAX_DIMS],
}

impl Shape {
    #[inline]
    fn of(arg: &ArgView) -> Self {
        Self { ndim: arg.ndim, shape: arg.shape, strides: arg.strides }
    }

    #[inline]
    fn len(&self) -> usize {
        self.shape.iter().map(|&e| e as usize).product()
    }

    #[inline]
    fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for dim in (0..self.ndim as usize).rev() {
            if self.shape[dim] != 1 && self.strides[dim] as usize != step {
                return false;
            }
            step *= self.shape[dim] as usize;
        }
        true
    }

    /// The offset of an element.
    #[inline]
    fn offset<const N: usize>(&self, index: [usize; N]) -> usize {
        assert_eq!(N, self.ndim as usize, "an index into this view has {} numbers", self.ndim);
        let mut offset = 0;
        for (dim, &at) in index.iter().enumerate() {
            let extent = self.shape[dim] as usize;
            assert!(at < extent, "index {at} is outside dimension {dim}, which has {extent}");
            offset += at * self.strides[dim] as usize;
        }
        offset
    }

    /// Whether the elements of the last dimension lie side by side.
    #[inline]
    fn has_whole_rows(&self) -> bool {
        let last = (self.ndim as usize).saturating_sub(1);
        self.shape[last] == 1 || self.strides[last] == 1
    }

    /// The offsets of all elements, in row-major order.
    fn offsets(self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(move |element| {
            let mut rest = element;
            let mut offset = 0;
            for dim in (0..self.ndim as usize).rev() {
                let extent = self.shape[dim] as usize;
                offset += rest % extent * self.strides[dim] as usize;
                rest /= extent;
            }
            offset
        })
    }

    /// Offset and length of row `row`: all dimensions but the last in row-major order, the last contiguous.
    #[inline]
    fn row(&self, row: usize) -> (usize, usize) {
        let ndim = self.ndim as usize;
        assert!(ndim > 0, "a view without dimensions has no rows");
        let columns = self.shape[ndim - 1] as usize;
        assert!(self.has_whole_rows(), "the rows of a transposed view are not contiguous");
        let mut rest = row;
        let mut offset = 0;
        for dim in (0..ndim - 1).rev() {
            let extent = self.shape[dim] as usize;
            offset += rest % extent * self.strides[dim] as usize;
            rest /= extent;
        }
        assert_eq!(rest, 0, "row {row} is outside the view");
        (offset, columns)
    }
}

macro_rules! shared_methods {
    ($name:ident) => {
        impl<'k, T: Element> $name<'k, T> {
            /// The view of an argument.
            ///
            /// # Safety
            /// The words describe elements of type `T` that are valid for `'k` and that no other task writes (or, for
            /// a view that writes, touches) meanwhile.
            #[inline]
            pub(crate) unsafe fn new(arg: &ArgView) -> Self {
                Self { at: arg.value as *mut T, shape: Shape::of(arg), life: PhantomData }
            }

            /// Extents, one per dimension.
            #[inline]
            pub fn shape(&self) -> &[u32] {
                &self.shape.shape[..self.shape.ndim as usize]
            }

            /// Number of elements.
            #[inline]
            pub fn len(&self) -> usize {
                self.shape.len()
            }

            /// Never: a view has at least one element.
            #[inline]
            pub fn is_empty(&self) -> bool {
                false
            }

            /// All elements, if they lie without gaps.
            #[inline]
            pub fn as_slice(&self) -> Option<&[T]> {
                // SAFETY: the view covers its length in valid elements, which are contiguous.
                self.shape.is_contiguous().then(|| unsafe { std::slice::from_raw_parts(self.at, self.len()) })
            }

            /// One row: all dimensions but the last in row-major order.
            #[inline]
            pub fn row(&self, row: usize) -> &[T] {
                let (offset, len) = self.shape.row(row);
                // SAFETY: the row was checked to lie in the view and to be contiguous.
                unsafe { std::slice::from_raw_parts(self.at.add(offset), len) }
            }

            /// Number of rows.
            #[inline]
            pub fn rows(&self) -> usize {
                self.len() / self.shape().last().map_or(1, |&columns| columns as usize)
            }
        }

        impl<T: Element, const N: usize> Index<[usize; N]> for $name<'_, T> {
            type Output = T;

            #[inline]
            fn index(&self, index: [usize; N]) -> &T {
                // SAFETY: the index was checked to lie in the view.
                unsafe { &*self.at.add(self.shape.offset(index)) }
            }
        }
    };
}

macro_rules! writing_methods {
    ($name:ident) => {
        impl<T: Element> $name<'_, T> {
            /// All elements, if they lie without gaps.
            #[inline]
            pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
                // SAFETY: the view covers its length in valid elements, which are contiguous and this task's alone.
                self.shape.is_contiguous().then(|| unsafe { std::slice::from_raw_parts_mut(self.at, self.len()) })
            }

            /// One row: all dimensions but the last in row-major order.
            #[inline]
            pub fn row_mut(&mut self, row: usize) -> &mut [T] {
                let (offset, len) = self.shape.row(row);
                // SAFETY: the row was checked to lie in the view and to be contiguous; it is this task's alone.
                unsafe { std::slice::from_raw_parts_mut(self.at.add(offset), len) }
            }

            /// Sets every element.
            pub fn fill(&mut self, value: T) {
                if let Some(all) = self.as_mut_slice() {
                    return all.fill(value);
                }
                if self.shape.has_whole_rows() {
                    return (0..self.rows()).for_each(|row| self.row_mut(row).fill(value));
                }
                // SAFETY: the offsets are those of elements of the view, which are this task's alone.
                self.shape.offsets().for_each(|offset| unsafe { self.at.add(offset).write(value) });
            }
        }

        impl<T: Element, const N: usize> IndexMut<[usize; N]> for $name<'_, T> {
            #[inline]
            fn index_mut(&mut self, index: [usize; N]) -> &mut T {
                // SAFETY: the index was checked to lie in the view; the element is this task's alone.
                unsafe { &mut *self.at.add(self.shape.offset(index)) }
            }
        }
    };
}

/// An argument that the kernel reads.
pub struct In<'k, T> {
    at: *mut T,
    shape: Shape,
    life: PhantomData<&'k [T]>,
}

/// An argument that the kernel writes. It holds arbitrary values at first.
pub struct Out<'k, T> {
    at: *mut T,
    shape: Shape,
    life: PhantomData<&'k mut [T]>,
}

/// An argument that the kernel reads and writes.
///
/// A view is valid during the call only, so no other thread can be given it:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// # let mut device = Device::builder().open().unwrap();
/// device.kernel("sends", |mut x: InOut<f32>| {
///     std::thread::spawn(move || x[[0]] = 1.0); // it would be written after the task has completed
/// });
/// ```
///
/// nor can it be kept for a later call:
///
/// ```compile_fail,E0521
/// # use plimsoll_runtime::*;
/// # use std::cell::RefCell;
/// # let mut device = Device::builder().open().unwrap();
/// thread_local!(static KEPT: RefCell<Option<InOut<'static, f32>>> = const { RefCell::new(None) });
/// device.kernel("keeps", |x: InOut<f32>| KEPT.set(Some(x)));
/// ```
pub struct InOut<'k, T> {
    at: *mut T,
    shape: Shape,
    life: PhantomData<&'k mut [T]>,
}

shared_methods!(In);
shared_methods!(Out);
shared_methods!(InOut);
writing_methods!(Out);
writing_methods!(InOut);

/// Several arguments that the kernel reads.
#[derive(Clone, Copy)]
pub struct InList<'k, T> {
    words: ArgWords<'k>,
    len: usize,
    life: PhantomData<&'k [T]>,
}

impl<'k, T: Element> InList<'k, T> {
    /// A list of `len` tensors.
    ///
    /// # Safety
    /// The words describe that many tensors, each as [`In::new`] wants it.
    #[inline]
    pub(crate) unsafe fn new(words: ArgWords<'k>, len: usize) -> Self {
        Self { words, len, life: PhantomData }
    }

    /// Number of views in the list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tensors, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = In<'k, T>> {
        let mut words = self.words;
        // SAFETY: as promised to `new`.
        (0..self.len).map_while(move |_| words.next_arg().map(|arg| unsafe { In::new(&arg) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets are those of the elements, each once, in the order of their indices.
    #[test]
    fn a_strided_view_has_an_offset_for_every_element() {
        let shape = Shape { ndim: 3, shape: [2, 3, 2, 1, 1], strides: [1, 40, 4, 0, 0] };
        let all = [0..2usize, 0..3, 0..2];
        let [a, b, c] = &all;
        let expected: Vec<usize> = a
            .clone()
            .flat_map(|i| b.clone().flat_map(move |j| c.clone().map(move |k| shape.offset([i, j, k]))))
            .collect();
        assert_eq!(shape.offsets().collect::<Vec<_>>(), expected);
        let single = Shape { ndim: 0, shape: [1; MAX_DIMS], strides: [0; MAX_DIMS] };
        assert_eq!(single.offsets().collect::<Vec<_>>(), [0]);
    }
}
