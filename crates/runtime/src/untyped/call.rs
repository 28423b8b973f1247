//! What the body of an untyped kernel is called with: its arguments as they are.

use plimsoll_abi::Dtype;
use plimsoll_abi::record::ArgMode;
use plimsoll_sched::args::{ArgView, ArgWords};

/// One call of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Call<'k> {
    words: ArgWords<'k>,
}

impl<'k> Call<'k> {
    pub(super) fn new(words: ArgWords<'k>) -> Self {
        Self { words }
    }

    /// Its arguments, in order. A list of tensors is their number, and then each of them.
    pub fn args(&self) -> impl Iterator<Item = CallArg> + use<'k> {
        let mut words = self.words;
        std::iter::from_fn(move || words.next_arg().map(|view| CallArg { view }))
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
    /// Whether it is a plain value, and not a tensor.
    pub fn is_scalar(&self) -> bool {
        self.view.mode == ArgMode::Scalar
    }

    /// Whether inference has ordered the task as one that writes it. What inference does not look at says nothing of itself.
    pub fn is_written(&self) -> bool {
        self.view.mode.writes()
    }

    /// The type of its elements, or of the value.
    pub fn dtype(&self) -> Dtype {
        self.view.dtype
    }

    /// The bits of a plain value.
    pub fn bits(&self) -> u64 {
        self.view.value
    }

    /// Where the first element is.
    pub fn data(&self) -> *mut u8 {
        self.view.value as *mut u8
    }

    /// Extents, one per dimension.
    pub fn shape(&self) -> &[u32] {
        &self.view.shape[..self.view.ndim as usize]
    }

    /// Steps from one element to the next, in elements, one per dimension.
    pub fn strides(&self) -> &[i32] {
        &self.view.strides[..self.view.ndim as usize]
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
