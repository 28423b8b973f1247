//! Arguments as the executing agent finds them: words, packed so that those of most tasks fit their slot.
//!
//! A tensor takes two words: the address of its first element, and a description (first extent, mode, dimensions,
//! dtype, words that follow). If its rows are contiguous, a word for every further dimension follows: its extent (low
//! half) and the stride of the dimension before it (high half). Otherwise there is a word for each dimension, with its
//! extent and its own stride. A scalar takes the same two words, the first being its value.

use crate::sync::{AtomicU64, Ordering};
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, MAX_DIMS};
use plimsoll_graph::{BufferShape, Layout};

const MODE_SHIFT: u32 = 32;
const SCALAR: u64 = (ArgMode::Scalar as u64) << MODE_SHIFT;
/// Set if somebody wants to see the elements: above the mode, which has three bits.
pub const MARK: u64 = 1 << 35;
const NDIM_SHIFT: u32 = 36;
const DTYPE_SHIFT: u32 = 40;
/// How many words follow.
const MORE_SHIFT: u32 = 48;
const MORE: u64 = 7 << MORE_SHIFT;
/// Set if the rows are not contiguous.
const STRIDED: u64 = 1 << 52;
const NDIM: u64 = 0xf << NDIM_SHIFT;

/// The argument words of one task.
#[derive(Clone, Copy, Debug)]
pub struct ArgWords<'a> {
    words: &'a [AtomicU64],
}

/// One argument, unpacked.
#[derive(Clone, Copy, Debug)]
pub struct ArgView {
    /// Address of the first element, or a scalar's value.
    pub value: u64,
    /// How the task uses it.
    pub mode: ArgMode,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Number of dimensions.
    pub ndim: u8,
    /// Extents, padded with ones.
    pub shape: [u32; MAX_DIMS],
    /// Strides in elements, padded with zeros.
    pub strides: [i32; MAX_DIMS],
    /// Whether somebody wants to see its elements.
    pub marked: bool,
}

impl ArgView {
    /// Whether it is no argument of the program's, but a word that another language's layer adds for its kernels' bodies: a plain
    /// value without a type.
    pub fn is_note(&self) -> bool {
        self.mode == ArgMode::Scalar && self.dtype == Dtype::User
    }
}

/// The description of a tensor, the mode apart.
#[inline]
pub fn describe(layout: &Layout, dtype: Dtype) -> u64 {
    let ndim = layout.ndim();
    let strided = layout.strides().last().is_some_and(|&stride| stride != 1);
    let more = if strided { ndim } else { ndim.saturating_sub(1) };
    u64::from(layout.padded_shape()[0])
        | (ndim as u64) << NDIM_SHIFT
        | (dtype as u64) << DTYPE_SHIFT
        | (more as u64) << MORE_SHIFT
        | if strided { STRIDED } else { 0 }
}

/// The description of a tensor that was cut out of another: every dimension is in its place, the first has `extent`.
#[inline]
pub fn describe_cut(of: u64, extent: u32) -> u64 {
    of & !u64::from(u32::MAX) | u64::from(extent)
}

/// The type of the elements of a tensor, by its description.
pub fn described_dtype(word: u64) -> Dtype {
    Dtype::from_u8((word >> DTYPE_SHIFT) as u8).unwrap_or(Dtype::User)
}

/// Words that a tensor of this description takes.
#[inline]
pub fn tensor_words(word: u64) -> usize {
    2 + more_words(word)
}

#[inline]
fn more_words(word: u64) -> usize {
    ((word & MORE) >> MORE_SHIFT) as usize
}

/// Words that a scalar takes.
pub const SCALAR_WORDS: usize = 2;

/// A source of a tensor's dimensions.
pub trait Dims {
    /// Columns of a matrix, and the step from row to row.
    fn rows(&self) -> (u32, i32);
    /// The layout with all dimensions.
    fn layout(&self) -> Layout;
}

impl Dims for Layout {
    #[inline]
    fn rows(&self) -> (u32, i32) {
        (self.padded_shape()[1], self.padded_strides()[0])
    }

    fn layout(&self) -> Layout {
        *self
    }
}

impl Dims for BufferShape {
    #[inline]
    fn rows(&self) -> (u32, i32) {
        (self.shape()[1], self.shape()[1] as i32)
    }

    fn layout(&self) -> Layout {
        BufferShape::layout(self)
    }
}

/// Writes a tensor argument to the first of these words, and returns the others.
// Forced inline: left to the compiler, whoever reads an argument of a kernel calls a function, which takes 65 instructions more.
#[inline(always)]
pub fn write_tensor<'w>(
    out: &'w [AtomicU64],
    address: u64,
    word: u64,
    dims: &impl Dims,
    mode: ArgMode,
) -> &'w [AtomicU64] {
    let (out, rest) = out.split_at(tensor_words(word));
    out[0].store(address, Ordering::Relaxed);
    out[1].store(word | (mode as u64) << MODE_SHIFT, Ordering::Relaxed);
    if out.len() > 2 {
        if word & (STRIDED | MORE) == 1 << MORE_SHIFT {
            // A matrix, as most are that have more than one dimension.
            write_dim(&out[2], dims.rows());
        } else {
            write_dims(&out[2..], word, dims);
        }
    }
    rest
}

#[inline(never)]
fn write_dims(out: &[AtomicU64], word: u64, dims: &impl Dims) {
    let layout = dims.layout();
    let (shape, strides) = (layout.padded_shape(), layout.padded_strides());
    // Without its first extent, which the description has, an extent stands beside the stride of the dimension before.
    let extents = if word & STRIDED == 0 { &shape[1..] } else { &shape[..] };
    for ((out, &extent), &stride) in out.iter().zip(extents).zip(strides) {
        write_dim(out, (extent, stride));
    }
}

#[inline]
fn write_dim(out: &AtomicU64, (extent, stride): (u32, i32)) {
    out.store(u64::from(extent) | u64::from(stride as u32) << 32, Ordering::Relaxed);
}

/// Writes a scalar argument to the first of these words, and returns the others.
#[inline]
pub fn write_scalar(out: &[AtomicU64], value: u64, dtype: Dtype) -> &[AtomicU64] {
    let (out, rest) = out.split_at(SCALAR_WORDS);
    out[0].store(value, Ordering::Relaxed);
    out[1].store(SCALAR | (dtype as u64) << DTYPE_SHIFT, Ordering::Relaxed);
    rest
}

impl<'a> ArgWords<'a> {
    /// The arguments that these words hold.
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// Elements of the tensors among the arguments: what a cost table charges by.
    pub fn elements(mut self) -> u64 {
        let mut elements = 0;
        while let Some(arg) = self.next_arg() {
            if arg.mode != ArgMode::Scalar {
                elements += arg.shape.iter().map(|&extent| u64::from(extent)).product::<u64>();
            }
        }
        elements
    }

    /// All arguments, unpacked.
    pub fn views(mut self) -> Vec<ArgView> {
        std::iter::from_fn(|| self.next_arg()).collect()
    }

    /// Takes the next argument off the front.
    #[inline(always)]
    pub fn next_arg(&mut self) -> Option<ArgView> {
        let value = self.words.first()?;
        let word = self.words.get(1)?.load(Ordering::Relaxed);
        let more = more_words(word);
        if more == 0 {
            // A dense vector, or a single element.
            self.words = &self.words[2..];
            return Some(PackedArg::new(value, word, &[]).unpacked());
        }
        let dims = self.words.get(2..2 + more)?;
        self.words = &self.words[2 + more..];
        Some(PackedArg::new(value, word, dims).unpacked())
    }

    /// The argument, if there is no other and it is a dense vector.
    #[inline(always)]
    pub fn only_vector(self) -> Option<PackedArg<'a>> {
        let [value, word] = self.words else { return None };
        Some(PackedArg::new(value, word.load(Ordering::Relaxed), &[])).filter(PackedArg::is_vector)
    }

    /// Takes the next argument off the front, as it is.
    #[inline(always)]
    pub fn next_packed(&mut self) -> Option<PackedArg<'a>> {
        let [value, word, rest @ ..] = self.words else { return None };
        let word = word.load(Ordering::Relaxed);
        let (dims, rest) = rest.split_at_checked(more_words(word))?;
        self.words = rest;
        Some(PackedArg::new(value, word, dims))
    }
}

/// One argument, still packed, whose parts are read one by one.
#[derive(Clone, Copy, Debug)]
pub struct PackedArg<'a> {
    value: u64,
    /// The two halves of its description.
    extent: u32,
    facts: u32,
    /// The words that follow.
    dims: &'a [AtomicU64],
}

impl<'a> PackedArg<'a> {
    #[inline(always)]
    fn new(value: &AtomicU64, word: u64, dims: &'a [AtomicU64]) -> Self {
        Self { value: value.load(Ordering::Relaxed), extent: word as u32, facts: (word >> 32) as u32, dims }
    }

    /// Whether it is a dense vector.
    #[inline(always)]
    pub fn is_vector(&self) -> bool {
        self.facts & ((NDIM | MORE) >> 32) as u32 == 1 << (NDIM_SHIFT - 32)
    }

    /// Address of the first element, or a scalar's value.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// How the task uses it.
    #[inline(always)]
    pub fn mode(&self) -> ArgMode {
        ArgMode::ALL[self.facts as usize & 0x7]
    }

    /// Whether it is a plain value, and not a tensor.
    #[inline(always)]
    pub fn is_scalar(&self) -> bool {
        self.facts & 0x7 == ArgMode::Scalar as u32
    }

    /// Whether inference has ordered the task as one that writes it.
    #[inline(always)]
    pub fn is_written(&self) -> bool {
        ArgMode::WRITING >> (self.facts & 0x7) & 1 != 0
    }

    /// The type of its elements.
    #[inline(always)]
    pub fn dtype(&self) -> Dtype {
        Dtype::from_u8(self.dtype_number()).unwrap_or(Dtype::User)
    }

    /// The number of the type of its elements, which this version may not know.
    #[inline(always)]
    pub fn dtype_number(&self) -> u8 {
        (self.facts >> (DTYPE_SHIFT - 32)) as u8
    }

    /// Number of dimensions.
    #[inline(always)]
    pub fn ndim(&self) -> u8 {
        (self.facts >> (NDIM_SHIFT - 32)) as u8 & 0xf
    }

    /// The extent of its first dimension.
    #[inline(always)]
    pub fn first_extent(&self) -> u32 {
        self.extent
    }

    /// Extents padded with ones, and strides in elements padded with zeros.
    #[inline(always)]
    pub fn dims(&self) -> ([u32; MAX_DIMS], [i32; MAX_DIMS]) {
        let (mut shape, mut strides) = ([1; MAX_DIMS], [0; MAX_DIMS]);
        let more = self.dims.len();
        if more == 0 {
            // A dense vector, or a single element.
            if self.ndim() > 0 {
                (shape[0], strides[0]) = (self.extent, 1);
            }
        } else if self.facts & (STRIDED >> 32) as u32 == 0 {
            shape[0] = self.extent;
            for (at, dim) in self.dims.iter().enumerate().take(MAX_DIMS - 1) {
                let dim = dim.load(Ordering::Relaxed);
                shape[at + 1] = dim as u32;
                strides[at] = (dim >> 32) as i32;
            }
            strides[more.min(MAX_DIMS - 1)] = 1;
        } else {
            for (at, dim) in self.dims.iter().enumerate().take(MAX_DIMS) {
                let dim = dim.load(Ordering::Relaxed);
                shape[at] = dim as u32;
                strides[at] = (dim >> 32) as i32;
            }
        }
        (shape, strides)
    }

    /// Every field of the argument, as a value that is easy to read.
    #[inline(always)]
    pub fn unpacked(&self) -> ArgView {
        let (shape, strides) = self.dims();
        ArgView {
            value: self.value,
            mode: self.mode(),
            dtype: self.dtype(),
            ndim: self.ndim(),
            shape,
            strides,
            marked: self.facts & (MARK >> 32) as u32 != 0,
        }
    }
}

/// As people read it: how it is used, and what it is.
impl std::fmt::Display for ArgView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.mode.reference_name().to_ascii_lowercase();
        match self.mode {
            ArgMode::Scalar => write!(f, "{name} {:#x}", self.value),
            _ => write!(f, "{name} {}{:?}", self.dtype, &self.shape[..self.ndim as usize]),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What is read is what was written, with contiguous rows and without, and the next argument follows.
    #[test]
    fn an_argument_is_read_as_it_was_written() {
        let dense = |shape: &[usize]| Layout::dense(shape).expect("small");
        let matrix = dense(&[6, 8]);
        let layouts = [
            dense(&[]),
            dense(&[7]),
            matrix,
            matrix.tile([2, 1], [2, 4]).expect("fits"),
            matrix.slice(1, 3, 4).expect("fits"),
            matrix.transpose(),
            matrix.transpose().slice(1, 2, 5).expect("fits"),
            dense(&[2, 3, 4, 5, 6]),
            dense(&[2, 3, 4, 5, 6]).permute(&[4, 0, 2, 1, 3]).expect("a permutation"),
        ];
        for layout in &layouts {
            let word = describe(layout, Dtype::F32);
            let words: Vec<AtomicU64> = (0..tensor_words(word) + SCALAR_WORDS).map(|_| AtomicU64::new(!0)).collect();
            let rest = write_tensor(&words, 640, word, layout, ArgMode::Inout);
            assert!(write_scalar(rest, 9, Dtype::I64).is_empty());
            let alone = ArgWords::new(&words[..words.len() - SCALAR_WORDS]);
            let mut words = ArgWords::new(&words);
            assert!(words.only_vector().is_none(), "there is a scalar behind it");
            let packed = words.next_packed().expect("a tensor");
            let read = packed.unpacked();
            let ndim = layout.ndim();
            assert_eq!(
                (read.value, read.mode, read.dtype, read.ndim as usize),
                (640, ArgMode::Inout, Dtype::F32, ndim)
            );
            assert_eq!((&read.shape, &read.strides[..ndim]), (layout.padded_shape(), layout.strides()), "{layout:?}");
            assert!(packed.is_written() && !packed.is_scalar());
            let is_vector = ndim == 1 && layout.strides() == [1];
            assert_eq!(
                alone.only_vector().map(|one| (one.value(), one.dims())),
                is_vector.then(|| (640, packed.dims())),
                "{layout:?}"
            );
            let scalar = words.next_packed().expect("a scalar");
            assert_eq!((scalar.value(), scalar.mode(), scalar.dtype_number()), (9, ArgMode::Scalar, Dtype::I64 as u8));
            assert!(scalar.is_scalar() && !scalar.is_written());
            assert_eq!(scalar.dims(), ([1; MAX_DIMS], [0; MAX_DIMS]));
            assert!(words.next_arg().is_none());
        }
    }

    /// An output is written from its frame, and reads as a tensor of the same shape would.
    #[test]
    fn an_output_is_read_as_a_dense_tensor() {
        for shape in [&[][..], &[7], &[6, 8], &[2, 3, 4], &[2, 3, 4, 5, 6]] {
            let layout = Layout::dense(shape).expect("small");
            let word = describe(&layout, Dtype::F32);
            let written = |dims: &dyn Fn(&[AtomicU64])| {
                let words: Vec<AtomicU64> = (0..tensor_words(word)).map(|_| AtomicU64::new(!0)).collect();
                dims(&words);
                words.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>()
            };
            let of_frame = written(&|out| {
                write_tensor(out, 64, word, &BufferShape::of(&layout), ArgMode::Output);
            });
            let of_layout = written(&|out| {
                write_tensor(out, 64, word, &layout, ArgMode::Output);
            });
            assert_eq!(of_frame, of_layout, "{shape:?}");
            assert_eq!(
                ArgWords::new(&of_frame.into_iter().map(AtomicU64::new).collect::<Vec<_>>()).elements(),
                layout.len()
            );
        }
    }
}
