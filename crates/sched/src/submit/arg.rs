//! What a submit is given: tensors, outputs to make and plain values, and what they ask of the ring.

use super::CallShape;
use crate::args::{MARK, SCALAR_WORDS, describe, described_dtype, tensor_words};
use crate::failure::FailureCause;
use crate::ring::HEAP_ALIGN;
use crate::slot::INLINE_WORDS;
use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, MAX_DIMS};
use plimsoll_graph::{BufferRef, BufferShape, Footprint, Layout, Tensormap};
use std::hint::cold_path;

/// A tensor as the runtime carries it around: where it is and which part of its buffer it is. The fields that are the same
/// for every output of one shape stand side by side, so that few wide stores make a handle.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TensorCore {
    /// Address of the buffer's first element.
    pub base: u64,
    /// The buffer in the tensormap.
    pub buffer: BufferRef,
    /// Size of an element.
    pub elem_bytes: u32,
    /// Its description as an argument, the mode apart.
    pub word: u64,
    /// The elements.
    pub layout: Layout,
    /// Where a box begins in its buffer: in elements, or of a tile in tiles; zeros for others.
    pub start: [u32; MAX_DIMS],
    /// What part of the buffer the elements are.
    pub part: ViewPart,
    /// Whether tasks may write it.
    pub writable: bool,
}

/// What part of its buffer a view is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ViewPart {
    /// All of it, dimension by dimension.
    Whole,
    /// A tile: a box that lies as many times its own extents from the beginning as `start` says.
    Tile,
    /// A box, with the buffer's dimensions in their order.
    Box,
    /// What its layout says.
    Other,
}

impl ViewPart {
    /// The part of the buffer that a view of this view is, where the same view of the whole buffer would be `cut`.
    #[inline]
    pub fn cut(self, cut: ViewPart) -> ViewPart {
        if self == ViewPart::Whole {
            return cut;
        }
        cold_path();
        if self == ViewPart::Other { ViewPart::Other } else { ViewPart::Box }
    }
}

impl TensorCore {
    /// All of a buffer, which is dense.
    #[inline]
    pub fn whole(place: OutputPlace, layout: Layout, dtype: Dtype, elem_bytes: u32) -> Self {
        let (OutputPlace { base, buffer }, word) = (place, describe(&layout, dtype));
        Self { base, word, layout, start: [0; MAX_DIMS], buffer, elem_bytes, part: ViewPart::Whole, writable: true }
    }

    /// The elements of its buffer that it can touch.
    #[inline]
    pub fn footprint(&self, map: &Tensormap) -> Footprint {
        match self.part {
            ViewPart::Whole => Footprint::WHOLE,
            ViewPart::Tile | ViewPart::Box => Footprint::at(&self.first(), self.layout.padded_shape()),
            ViewPart::Other => Footprint::of(&map.buffer_shape(self.buffer), &self.layout),
        }
    }

    /// Why a task of this shape cannot have these two arguments, the earlier one first, which inference compared with each other.
    #[cold]
    pub fn overlap(map: &Tensormap, args: &[TaskArg<'_>], shape: CallShape, one: u16, other: u16) -> FailureCause {
        let is_span = |at: u16| match args.get(usize::from(at)) {
            Some(TaskArg::Tensor { core, .. }) => core.footprint(map).is_span(),
            _ => false,
        };
        let is_guess = is_span(one) || is_span(other);
        if shape.predicate_among(args) == Some(usize::from(other)) {
            return FailureCause::PredicateOverlaps { arg: one, is_guess };
        }
        if is_guess {
            return FailureCause::ArgumentsMayOverlap(one, other);
        }
        FailureCause::ArgumentsOverlap(one, other)
    }

    /// The coordinates of the first element of a box.
    #[inline]
    pub fn first(&self) -> [u32; MAX_DIMS] {
        let shape = self.layout.padded_shape();
        let steps = |d: usize| if self.part == ViewPart::Tile { shape[d] } else { 1 };
        std::array::from_fn(|d| self.start[d] * steps(d))
    }

    /// Where a box of it begins in the buffer along dimension `d`, if it begins at `first` of it; zero if it is no box.
    #[inline]
    pub fn start_of(&self, d: usize, first: u32) -> u32 {
        match self.part {
            ViewPart::Whole => first,
            ViewPart::Tile => self.start[d] * self.layout.padded_shape()[d] + first,
            ViewPart::Box => self.start[d] + first,
            ViewPart::Other => 0,
        }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        described_dtype(self.word)
    }

    /// Address of the first element.
    #[inline]
    pub fn address(&self) -> u64 {
        self.base + self.layout.offset() * u64::from(self.elem_bytes)
    }

    /// Another view of the same buffer.
    pub fn with_layout(&self, layout: Layout) -> Self {
        let word = describe(&layout, self.dtype());
        Self { word, layout, start: [0; MAX_DIMS], part: ViewPart::Other, ..*self }
    }
}

/// A tensor to be made, and where the submit put it: no more than the scheduler needs, because a submit writes all of it.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct OutputRequest {
    /// Its description as an argument, the mode apart.
    pub word: u64,
    /// Bytes that it takes of the ring's heap.
    pub bytes: u64,
    /// Its shape.
    pub buffer_shape: BufferShape,
    /// Where it is; filled in by the submit.
    pub place: OutputPlace,
}

impl OutputRequest {
    /// Somebody wants to see its elements.
    pub fn mark(&mut self) {
        self.word |= MARK;
    }

    /// A dense tensor. What follows from its shape is told here, where the shape is often known to the compiler.
    #[inline]
    pub fn new(layout: &Layout, dtype: Dtype, elem_bytes: u32) -> Self {
        let bytes = (layout.len() * u64::from(elem_bytes)).next_multiple_of(HEAP_ALIGN);
        Self {
            word: describe(layout, dtype),
            bytes,
            buffer_shape: BufferShape::of(layout),
            place: OutputPlace::default(),
        }
    }
}

/// Where a submit put an output.
#[derive(Clone, Copy, Default, Debug)]
pub struct OutputPlace {
    /// Address of its first element.
    pub base: u64,
    /// The buffer in the tensormap.
    pub buffer: BufferRef,
}

/// One argument of a submit.
#[derive(Debug)]
pub enum TaskArg<'t> {
    /// A tensor that exists.
    Tensor {
        /// The tensor.
        core: &'t TensorCore,
        /// Input, inout, existing output or no-dep.
        mode: ArgMode,
    },
    /// A tensor that the task makes; the submit fills in where.
    Output {
        /// The tensor to be made.
        request: &'t mut OutputRequest,
    },
    /// A plain value.
    Scalar {
        /// Its bits.
        value: u64,
        /// Its type.
        dtype: Dtype,
    },
}

/// What a submit asks of its ring: added up where the arguments are listed, so that nobody has to go through them for it.
/// Two words, so that it is handed over in registers.
#[derive(Clone, Copy, Default, Debug)]
pub struct Demand {
    /// Tensormap entries (low half) and argument words (high half).
    counts: u64,
    pub(super) heap: u64,
}

const ENTRY: u64 = 1;
const WORD_SHIFT: u32 = 32;

impl Demand {
    /// The demand of a task with these arguments.
    pub fn of(args: &[TaskArg<'_>]) -> Self {
        let mut demand = Self::default();
        for arg in args {
            match arg {
                TaskArg::Tensor { core, mode } => demand.tensor(core, *mode),
                TaskArg::Output { request } => demand.output(request),
                TaskArg::Scalar { .. } => demand.scalar(),
            }
        }
        demand
    }

    /// One more tensor that exists.
    #[inline]
    pub fn tensor(&mut self, core: &TensorCore, mode: ArgMode) {
        self.counts += (tensor_words(core.word) as u64) << WORD_SHIFT;
        self.counts += if mode.is_inferred() { ENTRY } else { 0 };
    }

    /// One more output.
    #[inline]
    pub fn output(&mut self, request: &OutputRequest) {
        self.counts += (tensor_words(request.word) as u64) << WORD_SHIFT | ENTRY;
        self.heap += request.bytes;
    }

    /// One more plain value.
    #[inline]
    pub fn scalar(&mut self) {
        self.counts += (SCALAR_WORDS as u64) << WORD_SHIFT;
    }

    /// Argument words.
    #[inline]
    pub(super) fn words(self) -> usize {
        (self.counts >> WORD_SHIFT) as usize
    }

    /// Tensormap entries.
    #[inline]
    pub(super) fn entries(self) -> u32 {
        self.counts as u32
    }

    /// Whether the arguments take more words than a task has room for: words are counted in 16 bits.
    #[inline]
    pub fn has_too_many_words(self) -> bool {
        self.words() > u16::MAX as usize
    }

    /// Adds the heap bytes of argument words that do not fit the slot. To be called once, when all arguments are known.
    #[inline]
    pub(super) fn complete(mut self) -> Self {
        self.heap += overflow_bytes(self.words());
        self
    }
}

/// Argument words that do not fit the slot lie in the heap, in front of the outputs.
#[inline]
pub(super) fn overflow_bytes(words: usize) -> u64 {
    if words <= INLINE_WORDS {
        return 0;
    }
    cold_path();
    (words as u64 * 8).next_multiple_of(HEAP_ALIGN)
}
