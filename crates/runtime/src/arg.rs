//! What a submit is given: how the task uses each argument.

use crate::element::{Element, check_element};
use crate::error::{Error, Result};
use crate::kernel::{Read, ReadList, ReadWrite, Scalar, Value, Write};
use crate::seal::Sealed;
use crate::tensor::Tensor;
use plimsoll_abi::Dtype;
use plimsoll_abi::record::ArgMode;
use plimsoll_graph::Layout;
use plimsoll_sched::signature::Access;
use plimsoll_sched::{Demand, OutputPlace, OutputRequest, TaskArg, TensorCore};
use std::marker::PhantomData;

/// One argument of a submit.
///
/// Kernels are called with what [`Kind`](Self::Kind) says, so nobody else can say it. A wrapper that turns a tensor to be read
/// into one to be written is refused:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// # use plimsoll_sched::{TaskArg, Demand, OutputPlace, OutputRequest};
/// struct Lie<A>(A);
/// impl<A: SubmitArg> SubmitArg for Lie<A> {
///     type Kind = ReadWrite<i64>; // whatever `A` says
///     type Handle<'s> = ();
///     fn check(&self, run: u64) -> Result<()> {
///         self.0.check(run)
///     }
///     fn arg<'t>(&'t self, request: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
///         self.0.arg(request, demand)
///     }
///     unsafe fn handle<'s>(&self, _: OutputPlace, _: u64) -> Self::Handle<'s> {}
/// }
/// ```
pub trait SubmitArg: Sealed {
    /// The kind of parameter that a kernel has for this argument.
    type Kind;
    /// What the submit returns for it in scope `'s`: a tensor for an output, nothing otherwise.
    type Handle<'s>;

    #[doc(hidden)]
    /// Whether the scheduler sees exactly one argument. A submit of such arguments only needs no list that grows.
    const ONE: bool = true;

    #[doc(hidden)]
    /// Says what is wrong with it, if anything, given the run it is used in.
    fn check(&self, run: u64) -> Result<()>;

    #[doc(hidden)]
    /// The scheduler's form of an argument that is `ONE`. The request for an output is written into `request`, and its place
    /// is found there after the submit.
    fn arg<'t>(&'t self, request: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t>;

    #[doc(hidden)]
    /// Adds the scheduler's form of the argument to a list.
    #[inline]
    fn push<'t>(&'t self, request: &'t mut OutputRequest, out: &mut ArgList<'_, 't>) {
        let arg = self.arg(request, &mut out.demand);
        out.args.push(arg);
    }

    #[doc(hidden)]
    /// What the submit returns for it.
    ///
    /// # Safety
    /// A submit of `run` put the output that this argument asked for where `place` says. The handle could read any address
    /// otherwise:
    ///
    /// ```compile_fail,E0133
    /// # use plimsoll_runtime::*;
    /// let place = plimsoll_sched::OutputPlace { base: 640, ..Default::default() };
    /// let anywhere: Tensor<'_, i64> = output([4]).handle(place, 1);
    /// ```
    unsafe fn handle<'s>(&self, place: OutputPlace, run: u64) -> Self::Handle<'s>;
}

/// A tensor that exists, used as `K` says.
pub struct TensorUse<'a, 's, T, K>(&'a Tensor<'s, T>, PhantomData<K>);

/// What a use of a tensor that exists means to inference. A constant, so that the compiler sees it in every submit.
///
/// Inference believes it, so nobody else can say it:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::{UseKind, untyped::Access};
/// struct Lie;
/// impl UseKind for Lie {
///     const ACCESS: Access = Access::Read; // whatever the kernel does with it
/// }
/// ```
pub trait UseKind: Sealed {
    /// What the kernel does with it.
    const ACCESS: Access;
    /// How inference takes the task's use of it.
    const MODE: ArgMode = Self::ACCESS.mode();
}

impl<T> Sealed for Read<T> {}
impl<T> UseKind for Read<T> {
    const ACCESS: Access = Access::Read;
}

impl<T> Sealed for ReadWrite<T> {}
impl<T> UseKind for ReadWrite<T> {
    const ACCESS: Access = Access::ReadWrite;
}

impl<T> Sealed for Write<T> {}
impl<T> UseKind for Write<T> {
    const ACCESS: Access = Access::Write;
}

impl<T, K> Sealed for TensorUse<'_, '_, T, K> {}
impl<T: Element, K: UseKind> SubmitArg for TensorUse<'_, '_, T, K> {
    type Kind = K;
    type Handle<'h> = ();

    #[inline]
    fn check(&self, run: u64) -> Result<()> {
        check(self.0, run, K::MODE.writes())
    }

    // Forced inline: the way of arguments into a submit. With those of `kernel.rs`, `orchestrator.rs` and `tensor.rs` left to the
    // compiler, a task of a chain takes 74 instructions more, one of cholesky 273.
    #[inline(always)]
    fn arg<'t>(&'t self, _: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        tensor(&self.0.core, K::MODE, demand)
    }

    #[inline]
    unsafe fn handle<'h>(&self, _: OutputPlace, _: u64) -> Self::Handle<'h> {}
}

/// A tensor that exists, used as `K` says, whose elements somebody wants to see.
pub struct MarkedUse<'s, T, K>(Tensor<'s, T>, PhantomData<K>);

impl<'s, T: Element, K> TensorUse<'_, 's, T, K> {
    /// Marks the argument: a run that captures marked arguments captures this one.
    pub fn mark(self) -> MarkedUse<'s, T, K> {
        let mut core = self.0.core;
        core.word |= plimsoll_sched::args::MARK;
        MarkedUse(Tensor::new(core, self.0.run), PhantomData)
    }
}

impl<T, K> Sealed for MarkedUse<'_, T, K> {}
impl<T: Element, K: UseKind> SubmitArg for MarkedUse<'_, T, K> {
    type Kind = K;
    type Handle<'h> = ();

    fn check(&self, run: u64) -> Result<()> {
        check(&self.0, run, K::MODE.writes())
    }

    fn arg<'t>(&'t self, _: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        tensor(&self.0.core, K::MODE, demand)
    }

    unsafe fn handle<'h>(&self, _: OutputPlace, _: u64) -> Self::Handle<'h> {}
}

/// An output whose elements somebody wants to see.
pub struct MarkedOutput<T>(Output<T>);

impl<T> Output<T> {
    /// Marks the output: a run that captures marked arguments captures it.
    pub fn mark(self) -> MarkedOutput<T> {
        MarkedOutput(self)
    }
}

impl<T> Sealed for MarkedOutput<T> {}
impl<T: Element> SubmitArg for MarkedOutput<T> {
    type Kind = Write<T>;
    type Handle<'s> = Tensor<'s, T>;

    fn check(&self, run: u64) -> Result<()> {
        self.0.check(run)
    }

    fn arg<'t>(&'t self, request: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        let mut arg = self.0.arg(request, demand);
        if let TaskArg::Output { request } = &mut arg {
            request.mark();
        }
        arg
    }

    unsafe fn handle<'s>(&self, place: OutputPlace, run: u64) -> Tensor<'s, T> {
        // SAFETY: the caller's.
        unsafe { self.0.handle(place, run) }
    }
}

/// A tensor that exists, used as `K` says, which inference does not look at.
pub struct Untracked<'a, 's, T, K>(&'a Tensor<'s, T>, PhantomData<K>);

impl<T, K> Sealed for Untracked<'_, '_, T, K> {}
impl<T: Element, K: UseKind> SubmitArg for Untracked<'_, '_, T, K> {
    type Kind = K;
    type Handle<'h> = ();

    #[inline]
    fn check(&self, run: u64) -> Result<()> {
        check(self.0, run, false)
    }

    #[inline(always)]
    fn arg<'t>(&'t self, _: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        tensor(&self.0.core, const { K::ACCESS.untracked_mode() }, demand)
    }

    #[inline]
    unsafe fn handle<'h>(&self, _: OutputPlace, _: u64) -> Self::Handle<'h> {}
}

#[inline]
fn check<T>(tensor: &Tensor<'_, T>, run: u64, writes: bool) -> Result<()> {
    if tensor.run != run {
        return Err(foreign());
    }
    if writes && !tensor.core.writable {
        return Err(read_only());
    }
    Ok(())
}

#[cold]
fn foreign() -> Error {
    Error::invalid(
        "A tensor of another run was used. Every run has its own buffers. Read it there and enter the data here.",
    )
}

#[cold]
fn read_only() -> Error {
    Error::invalid(READ_ONLY)
}

pub(crate) const READ_ONLY: &str =
    "A borrowed slice cannot be written. It was entered with `borrow`. Enter it with `borrow_mut` or own it.";

#[cold]
fn no_such_shape(error: plimsoll_graph::LayoutError) -> Error {
    Error::invalid(format!("An output cannot have that shape: {error}. Ask for another.")).caused_by(error)
}

#[cold]
fn too_large(layout: &Layout, bytes: usize) -> Error {
    Error::invalid(too_large_text(layout, bytes))
}

pub(crate) fn too_large_text(layout: &Layout, bytes: usize) -> String {
    format!(
        "An output cannot have the shape {:?}: {} elements of {bytes} bytes are more than {MOST_BYTES} bytes. Ask for less.",
        layout.shape(),
        layout.len()
    )
}

/// The task reads the tensor.
#[inline]
pub fn input<'a, 's, T: Element>(tensor: &'a Tensor<'s, T>) -> TensorUse<'a, 's, T, Read<T>> {
    TensorUse(tensor, PhantomData)
}

/// The task reads and writes the tensor.
#[inline]
pub fn inout<'a, 's, T: Element>(tensor: &'a Tensor<'s, T>) -> TensorUse<'a, 's, T, ReadWrite<T>> {
    TensorUse(tensor, PhantomData)
}

/// The task overwrites the tensor without reading it.
#[inline]
pub fn output_existing<'a, 's, T: Element>(tensor: &'a Tensor<'s, T>) -> TensorUse<'a, 's, T, Write<T>> {
    TensorUse(tensor, PhantomData)
}

/// The task reads the tensor, and inference does not look at it.
///
/// # Safety
/// No task that writes an overlapping part runs at the same time.
#[inline]
pub unsafe fn no_dep<'a, 's, T: Element>(tensor: &'a Tensor<'s, T>) -> Untracked<'a, 's, T, Read<T>> {
    Untracked(tensor, PhantomData)
}

/// The task reads and writes the tensor, and inference does not look at it.
///
/// # Safety
/// No task that uses an overlapping part runs at the same time, and the buffer may be written.
#[inline]
pub unsafe fn no_dep_inout<'a, 's, T: Element>(tensor: &'a Tensor<'s, T>) -> Untracked<'a, 's, T, ReadWrite<T>> {
    Untracked(tensor, PhantomData)
}

/// A tensor that the task makes, in the heap of the scope's ring.
pub struct Output<T> {
    layout: std::result::Result<Layout, plimsoll_graph::LayoutError>,
    element: PhantomData<T>,
}

/// The largest output, in bytes: no heap is larger, and sums of them fit 64 bits.
pub(crate) const MOST_BYTES: u64 = 1 << 40;

/// The task makes a tensor of this shape, in the heap of the scope's ring.
#[inline]
pub fn output<T: Element, const N: usize>(shape: [usize; N]) -> Output<T> {
    const { check_element::<T>() };
    Output { layout: Layout::dense(&shape), element: PhantomData }
}

impl<T> Sealed for Output<T> {}
impl<T: Element> SubmitArg for Output<T> {
    type Kind = Write<T>;
    type Handle<'s> = Tensor<'s, T>;

    #[inline]
    fn check(&self, _: u64) -> Result<()> {
        match &self.layout {
            Ok(layout) if layout.len() <= const { MOST_BYTES / size_of::<T>() as u64 } => Ok(()),
            Ok(layout) => Err(too_large(layout, size_of::<T>())),
            Err(error) => Err(no_such_shape(*error)),
        }
    }

    #[inline(always)]
    fn arg<'t>(&'t self, request: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        *request = OutputRequest::new(self.checked(), T::DTYPE, size_of::<T>() as u32);
        demand.output(request);
        TaskArg::Output { request }
    }

    #[inline]
    unsafe fn handle<'s>(&self, place: OutputPlace, run: u64) -> Tensor<'s, T> {
        Tensor::new(TensorCore::whole(place, *self.checked(), T::DTYPE, size_of::<T>() as u32), run)
    }
}

impl<T> Output<T> {
    #[inline]
    fn checked(&self) -> &Layout {
        match &self.layout {
            Ok(layout) => layout,
            Err(_) => unreachable!("`check` comes first"),
        }
    }
}

/// A plain value.
pub struct ScalarArg<T>(T);

/// The task is given a plain value.
#[inline]
pub fn scalar<T: Scalar>(value: T) -> ScalarArg<T> {
    ScalarArg(value)
}

impl<T> Sealed for ScalarArg<T> {}
impl<T: Scalar> SubmitArg for ScalarArg<T> {
    type Kind = Value<T>;
    type Handle<'s> = ();

    #[inline]
    fn check(&self, _: u64) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn arg<'t>(&'t self, _: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        scalar_arg(self.0.to_bits(), T::DTYPE, demand)
    }

    #[inline]
    unsafe fn handle<'s>(&self, _: OutputPlace, _: u64) -> Self::Handle<'s> {}
}

/// Several tensors that the task reads.
pub struct InputList<'a, 's, T>(&'a [Tensor<'s, T>]);

/// The task reads several tensors, as many as the orchestration decides.
#[inline]
pub fn input_list<'a, 's, T: Element>(tensors: &'a [Tensor<'s, T>]) -> InputList<'a, 's, T> {
    InputList(tensors)
}

impl<T> Sealed for InputList<'_, '_, T> {}
impl<T: Element> SubmitArg for InputList<'_, '_, T> {
    type Kind = ReadList<T>;
    type Handle<'h> = ();

    const ONE: bool = false;

    #[inline]
    fn check(&self, run: u64) -> Result<()> {
        if self.0.iter().any(|tensor| tensor.run != run) { Err(foreign()) } else { Ok(()) }
    }

    /// The first argument of a list: how many tensors follow.
    #[inline(always)]
    fn arg<'t>(&'t self, _: &'t mut OutputRequest, demand: &mut Demand) -> TaskArg<'t> {
        scalar_arg(self.0.len() as u64, Dtype::I64, demand)
    }

    #[inline]
    fn push<'t>(&'t self, request: &'t mut OutputRequest, out: &mut ArgList<'_, 't>) {
        let length = self.arg(request, &mut out.demand);
        out.args.push(length);
        out.args.extend(self.0.iter().map(|one| tensor(&one.core, Access::ReadList.mode(), &mut out.demand)));
    }

    #[inline]
    unsafe fn handle<'h>(&self, _: OutputPlace, _: u64) -> Self::Handle<'h> {}
}

#[doc(hidden)]
/// The arguments of a submit in the making.
pub struct ArgList<'l, 't> {
    args: &'l mut Vec<TaskArg<'t>>,
    demand: Demand,
}

#[inline]
fn tensor<'t>(core: &'t TensorCore, mode: ArgMode, demand: &mut Demand) -> TaskArg<'t> {
    demand.tensor(core, mode);
    TaskArg::Tensor { core, mode }
}

#[inline]
fn scalar_arg<'t>(value: u64, dtype: Dtype, demand: &mut Demand) -> TaskArg<'t> {
    demand.scalar();
    TaskArg::Scalar { value, dtype }
}

#[doc(hidden)]
/// Memory for lists of arguments that is used again for every submit.
#[derive(Default)]
pub struct Scratch {
    args: Vec<TaskArg<'static>>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { args: Vec::with_capacity(256) }
    }

    /// An empty list of arguments that live for `'t`.
    #[inline]
    pub(crate) fn list<'l, 't>(&'l mut self) -> &'l mut Vec<TaskArg<'t>> {
        self.args.clear();
        // SAFETY: the two types differ by a lifetime only. The list is empty now and is emptied before it is used the
        // next time, so nobody sees an argument of another lifetime in it.
        unsafe { std::mem::transmute::<&'l mut Vec<TaskArg<'static>>, &'l mut Vec<TaskArg<'t>>>(&mut self.args) }
    }
}

/// The arguments of a submit: a tuple.
///
/// [`Kinds`](Self::Kinds) is what a kernel is called with, so nobody else can say it:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// struct Lie<A>(A);
/// impl<A: Args> Args for Lie<A> {
///     type Kinds = (ReadWrite<i64>,); // whatever `A` says
///     type Handles<'s> = A::Handles<'s>;
///     unsafe fn submit<'s>(
///         &self,
///         run: u64,
///         scratch: &mut Scratch,
///         submit: impl FnOnce(&mut [plimsoll_sched::TaskArg<'_>], plimsoll_sched::Demand) -> Result<()>,
///     ) -> Result<Self::Handles<'s>> {
///         // SAFETY: there is none; this is the lie that the sealed trait refuses.
///         unsafe { self.0.submit(run, scratch, submit) }
///     }
/// }
/// ```
pub trait Args: Sealed {
    /// The kinds of parameters that a kernel has for these arguments.
    type Kinds;
    /// What the submit returns in scope `'s`: a handle for each, nothing for those that exist already.
    type Handles<'s>;

    #[doc(hidden)]
    /// Hands the arguments to `submit` and returns the handles.
    ///
    /// # Safety
    /// If `submit` succeeds, `run` has a task with these arguments, and what it makes is where `submit` says.
    unsafe fn submit<'s>(
        &self,
        run: u64,
        scratch: &mut Scratch,
        submit: impl FnOnce(&mut [TaskArg<'_>], Demand) -> Result<()>,
    ) -> Result<Self::Handles<'s>>;
}

macro_rules! tuples {
    ($($name:ident $request:ident),*) => {
        impl<$($name: SubmitArg),*> Sealed for ($($name,)*) {}
        impl<$($name: SubmitArg),*> Args for ($($name,)*) {
            type Kinds = ($($name::Kind,)*);
            type Handles<'s> = ($($name::Handle<'s>,)*);

            #[allow(non_snake_case, clippy::unused_unit)]
            #[inline(always)]
            unsafe fn submit<'s>(
                &self,
                _run: u64,
                scratch: &mut Scratch,
                submit: impl FnOnce(&mut [TaskArg<'_>], Demand) -> Result<()>,
            ) -> Result<Self::Handles<'s>> {
                let ($($name,)*) = self;
                $($name.check(_run)?;)*
                $(let mut $request = OutputRequest::default();)*
                if const { true $(&& $name::ONE)* } {
                    #[allow(unused_mut)]
                    let mut demand = Demand::default();
                    submit(&mut [$($name.arg(&mut $request, &mut demand)),*], demand)?;
                } else {
                    #[allow(unused_mut)]
                    let mut list = ArgList { args: scratch.list(), demand: Demand::default() };
                    $($name.push(&mut $request, &mut list);)*
                    submit(list.args, list.demand)?;
                }
                // SAFETY: the submit succeeded, so the caller's promise holds for every output of it.
                Ok(($(unsafe { $name.handle($request.place, _run) },)*))
            }
        }
    };
}

tuples!();
tuples!(A a);
tuples!(A a, B b);
tuples!(A a, B b, C c);
tuples!(A a, B b, C c, D d);
tuples!(A a, B b, C c, D d, E e);
tuples!(A a, B b, C c, D d, E e, G g);
tuples!(A a, B b, C c, D d, E e, G g, H h);
tuples!(A a, B b, C c, D d, E e, G g, H h, I i);
tuples!(A a, B b, C c, D d, E e, G g, H h, I i, J j);
tuples!(A a, B b, C c, D d, E e, G g, H h, I i, J j, K k);
