//! What a submit is given: a kernel, and how its task uses each argument.

use super::{Access, ElementSpec, Kernel, Tensor};
use crate::error::Result;
use crate::kernel::Scalar;
use plimsoll_abi::Dtype;

/// One argument of a submit.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a>(pub(super) ArgKind<'a>);

#[derive(Clone, Copy, Debug)]
pub(super) enum ArgKind<'a> {
    /// A tensor that exists, and that inference looks at.
    Tensor {
        tensor: &'a Tensor,
        access: Access,
    },
    /// A tensor that exists, and that inference does not look at.
    Untracked {
        tensor: &'a Tensor,
        access: Access,
    },
    List(&'a [Tensor]),
    Output {
        element: ElementSpec,
        shape: &'a [usize],
        marked: bool,
    },
    Scalar {
        bits: u64,
        dtype: Dtype,
    },
}

impl<'a> Arg<'a> {
    /// The task reads the tensor.
    #[inline]
    pub fn input(tensor: &'a Tensor) -> Self {
        Self(ArgKind::Tensor { tensor, access: Access::Read })
    }

    /// The task reads and writes the tensor.
    #[inline]
    pub fn inout(tensor: &'a Tensor) -> Self {
        Self(ArgKind::Tensor { tensor, access: Access::ReadWrite })
    }

    /// The task overwrites the tensor without reading it.
    #[inline]
    pub fn output_existing(tensor: &'a Tensor) -> Self {
        Self(ArgKind::Tensor { tensor, access: Access::Write })
    }

    /// The task reads the tensor, and inference does not look at it.
    ///
    /// # Safety
    /// No task that writes an overlapping part runs at the same time.
    #[inline]
    pub unsafe fn no_dep(tensor: &'a Tensor) -> Self {
        Self(ArgKind::Untracked { tensor, access: Access::Read })
    }

    /// The task reads and writes the tensor, and inference does not look at it.
    ///
    /// # Safety
    /// No task that uses an overlapping part runs at the same time, and the buffer may be written.
    #[inline]
    pub unsafe fn no_dep_inout(tensor: &'a Tensor) -> Self {
        Self(ArgKind::Untracked { tensor, access: Access::ReadWrite })
    }

    /// The task reads several tensors.
    #[inline]
    pub fn input_list(tensors: &'a [Tensor]) -> Self {
        Self(ArgKind::List(tensors))
    }

    /// The task makes a tensor of this shape, in the heap of the scope's ring.
    #[inline]
    pub fn output(element: ElementSpec, shape: &'a [usize]) -> Self {
        Self(ArgKind::Output { element, shape, marked: false })
    }

    /// The task makes a tensor of this shape, and a run that captures marked arguments captures it. Other arguments are marked by
    /// their tensors: [`Tensor::marked`].
    #[inline]
    pub fn marked_output(element: ElementSpec, shape: &'a [usize]) -> Self {
        Self(ArgKind::Output { element, shape, marked: true })
    }

    /// The task is given a plain value.
    pub fn scalar<T: Scalar>(value: T) -> Self {
        Self::scalar_bits(T::DTYPE, value.to_bits())
    }

    /// The task is given a plain value, as the bits that a kernel finds in its argument word: those of a float, an integer
    /// widened with its sign.
    #[inline]
    pub fn scalar_bits(dtype: Dtype, bits: u64) -> Self {
        Self(ArgKind::Scalar { bits, dtype })
    }

    /// A word for the bodies of another language's kernels, such as how its layer makes their arguments. It stands last, and bodies find it
    /// there ([`CallArg::is_note`](super::CallArg::is_note)); errors and captured arguments leave it out. A plain value of
    /// [`Dtype::User`] is one.
    #[inline]
    pub fn note(bits: u64) -> Self {
        Self::scalar_bits(Dtype::User, bits)
    }

    /// What kind of argument it is, for the check against a kernel's parameters.
    pub(super) fn access(&self) -> Access {
        match self.0 {
            ArgKind::Tensor { access, .. } | ArgKind::Untracked { access, .. } => access,
            ArgKind::List(_) => Access::ReadList,
            ArgKind::Output { .. } => Access::Write,
            ArgKind::Scalar { .. } => Access::Value,
        }
    }
}

/// The arguments of a submit: a list of them, or what another language has instead, which need not be made a list first.
///
/// # Safety
/// What is listed is believed. [`list_tensor`](Self::list_tensor) gives true only after it has called `list` and got true from it:
/// otherwise the submit would pass on words that nobody wrote. It calls `list` with [`Access::Read`], [`Access::Write`] or
/// [`Access::ReadWrite`], because lists and plain values have other words. A safe implementation does not compile:
///
/// ```compile_fail,E0200
/// use plimsoll_runtime::untyped::{Access, Arg, ArgSource, Tensor};
///
/// struct Liar<'t>(&'t Tensor);
///
/// impl<'t> ArgSource<'t> for Liar<'t> {
///     fn count(&self) -> usize {
///         1
///     }
///     fn list_tensor(&self, _: usize, _: impl FnOnce(&'t Tensor, Access) -> bool) -> bool {
///         true // and nothing is listed
///     }
///     fn rest(self, _: usize) -> plimsoll_runtime::Result<impl Iterator<Item = plimsoll_runtime::Result<Arg<'t>>>> {
///         Ok(std::iter::empty())
///     }
/// }
/// ```
pub unsafe trait ArgSource<'t> {
    /// Number of arguments.
    fn count(&self) -> usize;

    /// Lists argument `index` and gives true, if it is plainly a tensor that the task reads, writes or both, and `list` takes it:
    /// most are, and are listed without further ado.
    fn list_tensor(&self, index: usize, list: impl FnOnce(&'t Tensor, Access) -> bool) -> bool;

    /// The arguments from `first` on, whatever they are; those in front were [listed](Self::list_tensor).
    ///
    /// # Errors
    /// What is wrong with them.
    fn rest(self, first: usize) -> Result<impl Iterator<Item = Result<Arg<'t>>>>;
}

// SAFETY: an `Arg` is listed or not as `list` says.
unsafe impl<'t> ArgSource<'t> for &'t [Arg<'t>] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn list_tensor(&self, index: usize, list: impl FnOnce(&'t Tensor, Access) -> bool) -> bool {
        match &self[index].0 {
            ArgKind::Tensor { tensor, access } => list(tensor, *access),
            _ => false,
        }
    }

    #[inline]
    fn rest(self, first: usize) -> Result<impl Iterator<Item = Result<Arg<'t>>>> {
        Ok(self[first..].iter().map(|arg| Ok(*arg)))
    }
}

/// A task to be submitted.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// `None` for a dummy.
    pub(super) kernel: Option<Kernel>,
    pub(super) args: &'a [Arg<'a>],
    pub(super) after: &'a [super::Submitted],
    pub(super) blocks: u32,
    /// Whether its blocks start together.
    pub(super) sync_start: bool,
    /// The kernels of a mixed task's parts behind the first.
    pub(super) others: [Option<Kernel>; 2],
    /// The tensor that decides whether it is executed, and whether zero means that it is.
    pub(super) predicate: Option<(&'a Tensor, bool)>,
    /// Whether nothing was said but its kernel and arguments: most are so.
    pub(super) is_plain: bool,
}

impl<'a> Task<'a> {
    /// A task of this kernel with these arguments.
    #[inline]
    pub fn new(kernel: Kernel, args: &'a [Arg<'a>]) -> Self {
        Self {
            kernel: Some(kernel),
            args,
            after: &[],
            blocks: 1,
            sync_start: false,
            others: [None, None],
            predicate: None,
            is_plain: true,
        }
    }

    /// A task that executes nothing: it waits as its arguments say, and others wait for it as if it had used them.
    pub fn dummy(args: &'a [Arg<'a>]) -> Self {
        Self {
            kernel: None,
            args,
            after: &[],
            blocks: 0,
            sync_start: false,
            others: [None, None],
            predicate: None,
            is_plain: false,
        }
    }

    /// It is executed in this many blocks, each of which knows its number.
    pub fn blocks(mut self, count: u32) -> Self {
        self.blocks = count;
        self.is_plain = false;
        self
    }

    /// Its blocks start together, or not at all: each of them on a worker, core or cluster of its own at the same time as the
    /// others, so that they can wait for each other.
    pub fn sync_start(mut self) -> Self {
        self.sync_start = true;
        self.is_plain = false;
        self
    }

    /// It is a mixed task: its kernel runs on a matrix core, this one at the same time on a vector core of the same cluster,
    /// with the same arguments; and `second` on another one, if there is a second.
    pub fn with_parts(mut self, first: Kernel, second: Option<Kernel>) -> Self {
        self.others = [Some(first), second];
        self.is_plain = false;
        self
    }

    /// It is executed only if the one element of the tensor is not zero when the task is ready.
    pub fn only_if(mut self, tensor: &'a Tensor) -> Self {
        self.predicate = Some((tensor, false));
        self.is_plain = false;
        self
    }

    /// It is executed unless the one element of the tensor is other than zero when the task is ready.
    pub fn unless(mut self, tensor: &'a Tensor) -> Self {
        self.predicate = Some((tensor, true));
        self.is_plain = false;
        self
    }

    /// Its kernel, if nothing else was said.
    #[inline]
    pub(super) fn plain(&self) -> Option<Kernel> {
        if self.is_plain { self.kernel } else { None }
    }

    /// Whether it is executed once, whatever happens.
    pub(super) fn is_ordinary(&self) -> bool {
        self.kernel.is_some() && self.blocks == 1 && self.predicate.is_none() && self.others[0].is_none()
    }

    /// It waits for these tasks besides.
    pub fn after(mut self, tasks: &'a [super::Submitted]) -> Self {
        self.after = tasks;
        self.is_plain = false;
        self
    }
}
