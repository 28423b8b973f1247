//! Arguments as the executing agent finds them: words, packed so that those of most tasks fit their slot.
//!
//! A tensor takes two words: the address of its first element, and a description (elements, mode, dimensions, dtype).
//! If it is not a dense vector, a word per dimension follows with extent (low half) and stride (high half). A scalar
//! takes the same two words, the first being its value.

use crate::sync::{AtomicU64, Ordering};
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, MAX_DIMS};
use plimsoll_graph::Layout;

const MODE_SHIFT: u32 = 32;
const NDIM_SHIFT: u32 = 36;
const DTYPE_SHIFT: u32 = 40;
/// Set if words for the dimensions follow.
const STRIDED: u64 = 1 << 48;

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
}

/// The description of a tensor, the mode apart.
#[inline(always)]
pub fn describe(layout: &Layout, dtype: Dtype) -> u64 {
    let plain = layout.ndim() == 1 && layout.strides()[0] == 1;
    u64::from(layout.shape().first().copied().unwrap_or(1))
        | (layout.ndim() as u64) << NDIM_SHIFT
        | (dtype as u64) << DTYPE_SHIFT
        | if plain { 0 } else { STRIDED }
}

/// The description of a tensor that was cut out of another: every dimension is in its place, the first has `extent`.
#[inline(always)]
pub fn describe_cut(of: u64, extent: u32) -> u64 {
    of & !u64::from(u32::MAX) | u64::from(extent)
}

/// The type of the elements of a tensor, by its description.
pub fn described_dtype(word: u64) -> Dtype {
    Dtype::from_u8((word >> DTYPE_SHIFT) as u8).unwrap_or(Dtype::User)
}

/// Words that a tensor of this description takes.
#[inline(always)]
pub fn tensor_words(word: u64) -> usize {
    if word & STRIDED == 0 { 2 } else { 2 + (word >> NDIM_SHIFT) as usize % 16 }
}

/// Words that a scalar takes.
pub const SCALAR_WORDS: usize = 2;

/// Writes a tensor argument and returns the words it took.
#[inline(always)]
pub fn write_tensor(out: &[AtomicU64], address: u64, word: u64, layout: &Layout, mode: ArgMode) -> usize {
    out[0].store(address, Ordering::Relaxed);
    out[1].store(word | (mode as u64) << MODE_SHIFT, Ordering::Relaxed);
    if word & STRIDED == 0 {
        return 2;
    }
    for (at, (&extent, &stride)) in layout.shape().iter().zip(layout.strides()).enumerate() {
        out[2 + at].store(u64::from(extent) | u64::from(stride as u32) << 32, Ordering::Relaxed);
    }
    2 + layout.ndim()
}

/// Writes a scalar argument and returns the words it took.
#[inline(always)]
pub fn write_scalar(out: &[AtomicU64], value: u64, dtype: Dtype) -> usize {
    out[0].store(value, Ordering::Relaxed);
    out[1].store((ArgMode::Scalar as u64) << MODE_SHIFT | (dtype as u64) << DTYPE_SHIFT, Ordering::Relaxed);
    SCALAR_WORDS
}

impl<'a> ArgWords<'a> {
    /// These words.
    #[inline(always)]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// Takes the next argument off the front.
    #[inline(always)]
    pub fn next_arg(&mut self) -> Option<ArgView> {
        let value = self.words.first()?.load(Ordering::Relaxed);
        let word = self.words.get(1)?.load(Ordering::Relaxed);
        let ndim = (word >> NDIM_SHIFT) as u8 & 0xf;
        let mut view = ArgView {
            value,
            mode: ArgMode::ALL[(word >> MODE_SHIFT) as usize & 0x7],
            dtype: Dtype::from_u8((word >> DTYPE_SHIFT) as u8).unwrap_or(Dtype::User),
            ndim,
            shape: [1; MAX_DIMS],
            strides: [0; MAX_DIMS],
        };
        if word & STRIDED == 0 {
            view.shape[0] = word as u32;
            view.strides[0] = 1;
            self.words = &self.words[2..];
            return Some(view);
        }
        let dims = self.words.get(2..2 + ndim as usize)?;
        for (at, dim) in dims.iter().enumerate() {
            let dim = dim.load(Ordering::Relaxed);
            view.shape[at] = dim as u32;
            view.strides[at] = (dim >> 32) as i32;
        }
        self.words = &self.words[2 + ndim as usize..];
        Some(view)
    }
}

impl std::fmt::Display for ArgWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = *self;
        let mut first = true;
        while let Some(arg) = rest.next_arg() {
            let name = arg.mode.reference_name().to_ascii_lowercase();
            write!(f, "{}{name} ", if first { "" } else { ", " })?;
            first = false;
            match arg.mode {
                ArgMode::Scalar => write!(f, "{:#x}", arg.value)?,
                _ => write!(f, "{}{:?}", arg.dtype, &arg.shape[..arg.ndim as usize])?,
            }
        }
        Ok(())
    }
}
