//! What a kernel sees of itself when its task is executed in blocks: which block it is, and the rows that are its own.
//!
//! All blocks of a task are given the same arguments and run in any order, also at the same time. What they only read they
//! share. What they write is divided by declaration: [`OutTile`] and [`InOutTile`] are the rows of one block, as many for each.

use crate::element::{Element, element_spec};
use crate::kernel::{Kernel, KernelReturn, Param, ReadWrite, Scalar, Write};
use crate::seal::{InBlocks, Parameter, Sealed};
use crate::view::{In, InList, InOut, Out};
use plimsoll_abi::KernelId;
use plimsoll_sched::args::{ArgView, ArgWords};
use plimsoll_sched::block::{BlockContext, current};
use plimsoll_sched::kernel::KernelCall;
use plimsoll_sched::pipe::PipeError;
use plimsoll_sched::signature::{Access, Param as ParamSpec, Share, Signature};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A registered kernel of a device that may be executed in blocks: by [`submit_shaped`](crate::Orchestrator::submit_shaped).
pub struct BlockKernel<K> {
    pub(crate) kernel: Kernel<K>,
}

impl<K> BlockKernel<K> {
    /// Its number on the device.
    pub fn id(&self) -> KernelId {
        self.kernel.id()
    }
}

impl<K> Clone for BlockKernel<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for BlockKernel<K> {}

impl<K> std::fmt::Debug for BlockKernel<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockKernel({})", self.id())
    }
}

/// Which of its task's blocks a call of a kernel is: the first parameter of a kernel that may be executed in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Block<'k> {
    context: BlockContext,
    call: PhantomData<(&'k (), *const ())>,
}

impl Block<'_> {
    fn current() -> Self {
        Self { context: current(), call: PhantomData }
    }

    /// Its number, from 0.
    pub fn index(&self) -> usize {
        self.context.index as usize
    }

    /// How many blocks the task has.
    pub fn count(&self) -> usize {
        self.context.count as usize
    }

    /// Which part of a mixed task it is: 0 is the one on the matrix core.
    pub fn part(&self) -> usize {
        self.context.part as usize
    }

    /// How many parts the task has.
    pub fn parts(&self) -> usize {
        self.context.parts as usize
    }

    /// Gives a value to part `to` of the same block. Waits while the pipe between the two, which holds
    /// [`PIPE_VALUES`](plimsoll_sched::pipe::PIPE_VALUES), is full.
    ///
    /// # Errors
    /// If nobody will ever take it: the other part has ended, or none of the parts can go on; and if there is no such part.
    pub fn push<T: Scalar>(&self, to: usize, value: T) -> std::result::Result<(), PipeError> {
        plimsoll_sched::block::push(to, value.to_bits())
    }

    /// Takes the next value that part `from` of the same block gave to this one. Waits until there is one.
    ///
    /// # Errors
    /// If none will ever come, as for [`push`](Self::push).
    pub fn pop<T: Scalar>(&self, from: usize) -> std::result::Result<T, PipeError> {
        plimsoll_sched::block::pop(from).map(T::from_bits)
    }
}

/// The rows of an argument that part `PART` of a mixed task writes, block by block; the other parts have nothing of it.
pub struct PartOut<'k, T, const PART: usize> {
    tile: Option<OutTile<'k, T>>,
}

/// The rows of an argument that part `PART` of a mixed task reads and writes, block by block; the other parts have nothing of
/// it.
pub struct PartInOut<'k, T, const PART: usize> {
    tile: Option<InOutTile<'k, T>>,
}

/// The rows of an argument, along its first dimension, that one block writes. They hold arbitrary values at first.
pub struct OutTile<'k, T> {
    view: Out<'k, T>,
    first: usize,
}

/// The rows of an argument, along its first dimension, that one block reads and writes.
pub struct InOutTile<'k, T> {
    view: InOut<'k, T>,
    first: usize,
}

/// Cuts an argument down to the rows of one block; the place of the first of them. Nothing if the rows cannot be divided.
fn narrow(arg: &mut ArgView, BlockContext { index, count, .. }: BlockContext, element_bytes: usize) -> Option<usize> {
    if count == 1 {
        return Some(0);
    }
    let rows = arg.shape[0];
    if arg.ndim == 0 || count == 0 || !rows.is_multiple_of(count) || index >= count {
        return None;
    }
    arg.shape[0] = rows / count;
    let first = arg.shape[0] as usize * index as usize;
    arg.value += (first * arg.strides[0] as usize * element_bytes) as u64;
    Some(first)
}

macro_rules! tile_param {
    ($tile:ident, $view:ident, $kind:ident) => {
        impl<T> Sealed<Parameter> for $tile<'_, T> {}
        impl<T: Element> Param for $tile<'_, T> {
            type View<'k> = $tile<'k, T>;
            type Kind = $kind<T>;
            const SPEC: ParamSpec =
                ParamSpec { access: Access::$kind, element: element_spec::<T>(), share: Share::RowsOfBlock };

            #[inline]
            unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<$tile<'k, T>> {
                let mut arg = words.next_arg()?;
                let first = narrow(&mut arg, current(), size_of::<T>())?;
                // SAFETY: the caller's promise; and of the blocks of the task, this one alone has these rows.
                Some($tile { view: unsafe { $view::new(&arg) }, first })
            }
        }

        impl<T> $tile<'_, T> {
            /// The place of its first row among those of the whole argument.
            pub fn first_row(&self) -> usize {
                self.first
            }
        }

        impl<'k, T> Deref for $tile<'k, T> {
            type Target = $view<'k, T>;

            fn deref(&self) -> &$view<'k, T> {
                &self.view
            }
        }

        impl<'k, T> DerefMut for $tile<'k, T> {
            fn deref_mut(&mut self) -> &mut $view<'k, T> {
                &mut self.view
            }
        }
    };
}

tile_param!(OutTile, Out, Write);
tile_param!(InOutTile, InOut, ReadWrite);

macro_rules! part_param {
    ($part:ident, $tile:ident, $kind:ident) => {
        impl<T, const PART: usize> Sealed<Parameter> for $part<'_, T, PART> {}
        impl<T: Element, const PART: usize> Param for $part<'_, T, PART> {
            type View<'k> = $part<'k, T, PART>;
            type Kind = $kind<T>;
            const SPEC: ParamSpec =
                ParamSpec { access: Access::$kind, element: element_spec::<T>(), share: Share::RowsOfPart(PART as u8) };

            #[inline]
            unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<$part<'k, T, PART>> {
                if current().part as usize != PART {
                    words.next_arg()?;
                    return Some($part { tile: None });
                }
                // SAFETY: the caller's promise; and of the parts of the task, this one alone has the argument.
                Some($part { tile: Some(unsafe { <$tile<'static, T> as Param>::fetch(words) }?) })
            }
        }

        impl<'k, T, const PART: usize> $part<'k, T, PART> {
            /// The rows of this block, for the part that has them.
            pub fn own(&mut self) -> Option<&mut $tile<'k, T>> {
                self.tile.as_mut()
            }
        }

        impl<T: Element, const PART: usize> BlockParam for $part<'_, T, PART> {}
    };
}

part_param!(PartOut, OutTile, Write);
part_param!(PartInOut, InOutTile, ReadWrite);

/// A parameter of a kernel whose blocks run at the same time: an argument that is only read, or that is divided among the blocks.
///
/// An argument that every block writes as a whole is refused by the compiler:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// # let mut device = Device::builder().open().unwrap();
/// device.block_kernel("races", |_: Block, mut x: Out<f32>| x.fill(0.0));
/// ```
///
/// Nor is one that only says so, because nobody else can say what a kernel's parameter is:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// struct Lie<'k>(Out<'k, f32>);
/// impl BlockParam for Lie<'_> {}
/// ```
#[diagnostic::on_unimplemented(
    message = "blocks of one task would write `{Self}` at the same time",
    note = "use OutTile<T> or InOutTile<T>, which give every block rows of its own, or register the kernel with `block_kernel_unchecked`"
)]
pub trait BlockParam: Param {}

impl<T: Element> BlockParam for In<'_, T> {}
impl<T: Element> BlockParam for InList<'_, T> {}
impl<T: Scalar> BlockParam for T {}
impl<T: Element> BlockParam for OutTile<'_, T> {}
impl<T: Element> BlockParam for InOutTile<'_, T> {}

/// Parameters of a kernel, each of which is a [`BlockParam`]: a tuple. Tuples belong to no crate, so nobody else can say it of others:
///
/// ```compile_fail,E0117
/// # use plimsoll_runtime::*;
/// impl BlockParams for (Out<'static, f32>,) {}
/// ```
pub trait BlockParams {}

/// A function or closure over a [`Block`] and other parameters that can be a kernel of tasks in blocks. `M` is its signature.
///
/// A submit is checked against [`Kinds`](Self::Kinds), and [`Params`](Self::Params) say what blocks may have at the same time, so
/// nobody else can say them:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// # use plimsoll_sched::{kernel::KernelCall, signature::Signature};
/// struct Lie;
/// impl IntoBlockKernel<()> for Lie {
///     type Kinds = (Read<i64>,);
///     type Params = (In<'static, i64>,); // whatever is called in the end
///     fn signature() -> Signature {
///         unimplemented!()
///     }
///     unsafe fn into_call(self) -> KernelCall {
///         unimplemented!()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "this cannot be a kernel that is executed in blocks",
    label = "not a function of a Block, views and plain values",
    note = "such a kernel takes a Block and up to nine of In<T>, OutTile<T>, InOutTile<T>, InList<T> and plain values, says their types, returns nothing or a Result<(), E>, and is Send, Sync and 'static"
)]
pub trait IntoBlockKernel<M>: Sealed<M> {
    /// What it wants, one kind per parameter behind the block.
    type Kinds;
    /// Its parameters behind the block.
    type Params;

    #[doc(hidden)]
    /// The kinds of its parameters as data, for callers whose types are known only when they run.
    fn signature() -> Signature;

    #[doc(hidden)]
    /// As the scheduler calls it.
    ///
    /// # Safety
    /// As that of [`IntoKernel::into_call`](crate::IntoKernel::into_call); and where several blocks of a task are called, no
    /// two of them touch an element that one of them writes.
    unsafe fn into_call(self) -> KernelCall;
}

macro_rules! block_functions {
    ($($name:ident),*) => {
        impl<$($name: BlockParam),*> BlockParams for ($($name,)*) {}

        impl<F, R, $($name),*> Sealed<InBlocks<fn($($name),*) -> R>> for F
        where
            $($name: Param,)*
            R: KernelReturn,
            F: Fn(Block<'static>, $($name),*) -> R
                + for<'k> Fn(Block<'k>, $($name::View<'k>),*) -> R
                + Send
                + Sync
                + 'static,
        {
        }

        impl<F, R, $($name),*> IntoBlockKernel<InBlocks<fn($($name),*) -> R>> for F
        where
            $($name: Param,)*
            R: KernelReturn,
            F: Fn(Block<'static>, $($name),*) -> R
                + for<'k> Fn(Block<'k>, $($name::View<'k>),*) -> R
                + Send
                + Sync
                + 'static,
        {
            type Kinds = ($($name::Kind,)*);
            type Params = ($($name,)*);

            fn signature() -> Signature {
                Signature::Exactly(Box::new([$($name::SPEC),*]))
            }

            #[allow(non_snake_case, unused_mut, unused_variables)]
            unsafe fn into_call(self) -> KernelCall {
                fn call<'k, R, $($name: Param),*>(
                    f: &impl Fn(Block<'k>, $($name::View<'k>),*) -> R,
                    words: ArgWords<'k>,
                ) -> Option<R> {
                    let mut words = words;
                    // SAFETY: the promise that `into_call` was given: the submit was checked against these parameters, in
                    // this order, and nobody else touches what this block does.
                    $(let $name = unsafe { $name::fetch(&mut words) }?;)*
                    Some(f(Block::current(), $($name),*))
                }
                Box::new(move |words| match call::<R, $($name),*>(&self, words) {
                    Some(result) => result.into_result(),
                    None => Err("the arguments of the task cannot be divided among its blocks".into()),
                })
            }
        }
    };
}

block_functions!(A);
block_functions!(A, B);
block_functions!(A, B, C);
block_functions!(A, B, C, D);
block_functions!(A, B, C, D, E);
block_functions!(A, B, C, D, E, G);
block_functions!(A, B, C, D, E, G, H);
block_functions!(A, B, C, D, E, G, H, I);
block_functions!(A, B, C, D, E, G, H, I, J);
