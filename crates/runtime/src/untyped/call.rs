//! What the body of an untyped kernel is called with: its arguments as they are.

use plimsoll_abi::record::ArgMode;
use plimsoll_abi::{Dtype, MAX_DIMS};
use plimsoll_sched::args::{ArgView, ArgWords};
use plimsoll_sched::block::{BlockContext, current};
use plimsoll_sched::pipe::PipeError;

/// One call of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Call<'k> {
    words: ArgWords<'k>,
}

impl<'k> Call<'k> {
    #[inline]
    pub(super) fn new(words: ArgWords<'k>) -> Self {
        Self { words }
    }

    /// Its arguments, in order. A list of tensors is their number, and then each of them.
    #[inline]
    pub fn args(&self) -> impl Iterator<Item = CallArg> + use<'k> {
        let mut words = self.words;
        std::iter::from_fn(move || words.next_arg().map(CallArg::new))
    }

    /// Its arguments as they are packed.
    #[inline]
    pub fn words(&self) -> ArgWords<'k> {
        self.words
    }

    /// Which of its task's executions the call is.
    #[inline]
    pub fn context(&self) -> BlockContext {
        current()
    }

    /// Which block of its task the call is, from 0.
    pub fn block(&self) -> u32 {
        current().index
    }

    /// How many blocks its task has.
    pub fn blocks(&self) -> u32 {
        current().count
    }

    /// Which part of a mixed task the call is: 0 is the one on the matrix core.
    pub fn part(&self) -> u32 {
        current().part
    }

    /// How many parts its task has; 1 unless it is a mixed one.
    pub fn parts(&self) -> u32 {
        current().parts
    }

    /// Gives the bits of a value to part `to` of the same block. Waits while the pipe between the two is full.
    ///
    /// # Errors
    /// If nobody will ever take it: the other part has ended, or none of the parts can go on; and if there is no such part.
    pub fn push(&self, to: u32, bits: u64) -> std::result::Result<(), PipeError> {
        plimsoll_sched::block::push(to as usize, bits)
    }

    /// Takes the bits of the next value that part `from` of the same block gave to this one. Waits until there is one.
    ///
    /// # Errors
    /// If none will ever come, as for [`push`](Self::push).
    pub fn pop(&self, from: u32) -> std::result::Result<u64, PipeError> {
        plimsoll_sched::block::pop(from as usize)
    }

    /// Says that the body waited between two readings of the machine's [clock](plimsoll_platform::Clock) before it began:
    /// for the lock of its language's interpreter. The wait is recorded among the phases of schedulers, and is a part of its
    /// own of the makespan.
    pub fn note_gil_wait(&self, from: u64, until: u64) {
        plimsoll_sched::kernel_wait::note(from, until);
    }

    /// Argument `index`.
    pub fn arg(&self, index: usize) -> Option<CallArg> {
        self.args().nth(index)
    }
}

/// One argument of a call: a view of a tensor, or a plain value. What it points to is valid until the body returns.
#[derive(Clone, Copy, Debug)]
pub struct CallArg {
    view: ArgView,
}

impl CallArg {
    #[inline]
    fn new(view: ArgView) -> Self {
        Self { view }
    }

    /// Whether it is a plain value, and not a tensor.
    #[inline]
    pub fn is_scalar(&self) -> bool {
        self.view.mode == ArgMode::Scalar
    }

    /// Whether it is no argument of the program's, but a [note](super::Arg::note).
    #[inline]
    pub fn is_note(&self) -> bool {
        self.view.is_note()
    }

    /// Whether inference has ordered the task as one that writes it. False for arguments that inference does not look at.
    #[inline]
    pub fn is_written(&self) -> bool {
        self.view.mode.writes()
    }

    /// The type of its elements, or of the value.
    #[inline]
    pub fn dtype(&self) -> Dtype {
        self.view.dtype
    }

    /// The bits of a plain value.
    #[inline]
    pub fn bits(&self) -> u64 {
        self.view.value
    }

    /// Where the first element is.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.view.value as *mut u8
    }

    /// Extents, one per dimension.
    #[inline]
    pub fn shape(&self) -> &[u32] {
        &self.view.shape[..self.view.ndim as usize]
    }

    /// Steps from one element to the next, in elements, one per dimension.
    #[inline]
    pub fn strides(&self) -> &[i32] {
        &self.view.strides[..self.view.ndim as usize]
    }

    /// Extents, with ones behind them.
    #[inline]
    pub fn padded_shape(&self) -> &[u32; MAX_DIMS] {
        &self.view.shape
    }

    /// Steps from one element to the next, in elements, with zeros behind them.
    #[inline]
    pub fn padded_strides(&self) -> &[i32; MAX_DIMS] {
        &self.view.strides
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape().iter().map(|&extent| extent as usize).product()
    }

    /// Never: a view has at least one element.
    pub fn is_empty(&self) -> bool {
        false
    }
}
