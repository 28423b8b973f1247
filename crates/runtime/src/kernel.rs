//! Kernels: Rust functions and closures over typed views, with a name and a core class.

use crate::element::{Element, element_spec};
use crate::seal::{Parameter, Sealed};
use crate::view::{In, InList, InOut, Out};
use plimsoll_abi::KernelId;
use plimsoll_sched::KernelError;
use plimsoll_sched::args::ArgWords;
use plimsoll_sched::kernel::KernelCall;
use plimsoll_sched::signature::{Access, Param as ParamSpec, Share, Signature};
use std::marker::PhantomData;

/// A registered kernel of a device. `K` is a tuple of what it wants: [`Read`], [`Write`], [`ReadWrite`], [`Value`].
pub struct Kernel<K> {
    pub(crate) id: KernelId,
    pub(crate) device: u64,
    kinds: PhantomData<fn(K)>,
}

impl<K> Kernel<K> {
    pub(crate) fn new(id: KernelId, device: u64) -> Self {
        Self { id, device, kinds: PhantomData }
    }

    /// Stands for a kernel that its device had no room for. It belongs to no device, so submits refuse it by the check that
    /// they make anyway.
    pub(crate) fn none() -> Self {
        Self::new(KernelId(u32::MAX), 0)
    }

    /// Its number on the device.
    pub fn id(&self) -> KernelId {
        self.id
    }
}

impl<K> Clone for Kernel<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Kernel<K> {}

impl<K> std::fmt::Debug for Kernel<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.id)
    }
}

/// The kernel reads a tensor of `T`.
pub struct Read<T>(PhantomData<T>);
/// The kernel reads several tensors of `T`.
pub struct ReadList<T>(PhantomData<T>);
/// The kernel writes a tensor of `T`.
pub struct Write<T>(PhantomData<T>);
/// The kernel reads and writes a tensor of `T`.
pub struct ReadWrite<T>(PhantomData<T>);
/// The kernel takes a plain value of type `T`.
pub struct Value<T>(PhantomData<T>);

/// A plain value that fits an argument word. Users may implement it for their own types: it makes a type a parameter of
/// kernels, and no unsafe code relies on it.
pub trait Scalar: Element {
    /// The value as the bits of an argument word.
    fn to_bits(self) -> u64;
    /// The value that these bits of an argument word stand for.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! scalars {
    ($($ty:ty: |$v:ident| $to:expr, |$b:ident| $from:expr;)*) => {
        $(impl Scalar for $ty {
            #[inline]
            fn to_bits(self) -> u64 {
                let $v = self;
                $to
            }
            #[inline]
            fn from_bits($b: u64) -> Self {
                $from
            }
        })*
    };
}

scalars! {
    f64: |v| f64::to_bits(v), |b| f64::from_bits(b);
    f32: |v| u64::from(f32::to_bits(v)), |b| f32::from_bits(b as u32);
    i64: |v| v as u64, |b| b as i64;
    i32: |v| v as u64, |b| b as i32;
    i16: |v| v as u64, |b| b as i16;
    i8: |v| v as u64, |b| b as i8;
    u8: |v| u64::from(v), |b| b as u8;
}

/// A parameter of a kernel function.
///
/// A submit is checked against [`Kind`](Self::Kind), so nobody else can say it:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// # use plimsoll_sched::args::ArgWords;
/// struct Lie;
/// impl Param for Lie {
///     type View<'k> = InOut<'k, i64>;
///     type Kind = Read<i64>; // a view that writes what is only read
///     const SPEC: untyped::Param = <In<'static, i64> as Param>::SPEC;
///     unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<InOut<'k, i64>> {
///         // SAFETY: there is none; this is the lie that the sealed trait refuses.
///         unsafe { <InOut<'static, i64> as Param>::fetch(words) }
///     }
/// }
/// ```
pub trait Param: Sealed<Parameter> {
    /// The parameter with the lifetime of one call.
    type View<'k>;
    /// The kind of the parameter, against which submits are checked.
    type Kind;
    #[doc(hidden)]
    /// The kind of the parameter as data, for callers whose types are known only when they run.
    const SPEC: ParamSpec;

    #[doc(hidden)]
    /// Takes it off the argument words.
    ///
    /// # Safety
    /// The words are those of a task of a kernel with this parameter here, which may touch the elements for `'k`.
    unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<Self::View<'k>>;
}

macro_rules! view_param {
    ($view:ident, $kind:ident) => {
        impl<T> Sealed<Parameter> for $view<'_, T> {}
        impl<T: Element> Param for $view<'_, T> {
            type View<'k> = $view<'k, T>;
            type Kind = $kind<T>;
            const SPEC: ParamSpec =
                ParamSpec { access: Access::$kind, element: element_spec::<T>(), share: Share::All };

            // Forced inline: `arg.rs` says what it saves.
            #[inline(always)]
            unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<$view<'k, T>> {
                // SAFETY: the caller's promise is the one that is asked for.
                words.next_arg().map(|arg| unsafe { $view::new(&arg) })
            }
        }
    };
}

view_param!(In, Read);
view_param!(Out, Write);
view_param!(InOut, ReadWrite);

impl<T> Sealed<Parameter> for InList<'_, T> {}
impl<T: Element> Param for InList<'_, T> {
    type View<'k> = InList<'k, T>;
    type Kind = ReadList<T>;
    const SPEC: ParamSpec = ParamSpec::read_list(element_spec::<T>());

    #[inline(always)]
    unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<InList<'k, T>> {
        let len = words.next_arg()?.value as usize;
        // SAFETY: the caller's promise; a list is its length and that many tensors.
        let list = unsafe { InList::new(*words, len) };
        for _ in 0..len {
            words.next_arg()?;
        }
        Some(list)
    }
}

impl<T: Scalar> Sealed<Parameter> for T {}
impl<T: Scalar> Param for T {
    type View<'k> = T;
    type Kind = Value<T>;
    const SPEC: ParamSpec = ParamSpec { access: Access::Value, element: element_spec::<T>(), share: Share::All };

    #[inline(always)]
    unsafe fn fetch<'k>(words: &mut ArgWords<'k>) -> Option<T> {
        words.next_arg().map(|arg| T::from_bits(arg.value))
    }
}

/// What a kernel may return.
pub trait KernelReturn {
    #[doc(hidden)]
    /// The outcome in the form that the scheduler takes.
    fn into_result(self) -> Result<(), KernelError>;
}

impl KernelReturn for () {
    #[inline]
    fn into_result(self) -> Result<(), KernelError> {
        Ok(())
    }
}

impl<E: Into<KernelError>> KernelReturn for Result<(), E> {
    #[inline]
    fn into_result(self) -> Result<(), KernelError> {
        self.map_err(Into::into)
    }
}

/// A function or closure that can be a kernel. `M` is its signature.
///
/// A submit is checked against [`Kinds`](Self::Kinds), so nobody else can say it:
///
/// ```compile_fail,E0277
/// # use plimsoll_runtime::*;
/// struct Lie<F>(F);
/// impl<M, F: IntoKernel<M>> IntoKernel<M> for Lie<F> {
///     type Kinds = (Read<i64>,); // whatever `F` does
///     fn signature() -> plimsoll_sched::signature::Signature {
///         F::signature()
///     }
///     unsafe fn into_call(self) -> plimsoll_sched::kernel::KernelCall {
///         // SAFETY: there is none; this is the lie that the sealed trait refuses.
///         unsafe { self.0.into_call() }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "this cannot be a kernel",
    label = "not a function of views and plain values",
    note = "a kernel takes up to ten of In<T>, Out<T>, InOut<T>, InList<T> and plain values, says their types, returns nothing or a Result<(), E>, and is Send, Sync and 'static"
)]
pub trait IntoKernel<M>: Sealed<M> {
    /// What it wants, one kind per parameter.
    type Kinds;

    #[doc(hidden)]
    /// The kinds of its parameters as data, for callers whose types are known only when they run.
    fn signature() -> Signature;

    #[doc(hidden)]
    /// As the scheduler calls it.
    ///
    /// # Safety
    /// It is called for tasks whose arguments were checked against [`Kinds`](Self::Kinds), while they may touch them. With
    /// words that somebody made up it would write anywhere:
    ///
    /// ```compile_fail,E0133
    /// # use plimsoll_runtime::*;
    /// let call = (|mut x: InOut<i64>| x.fill(0)).into_call();
    /// let words = [640, 4].map(std::sync::atomic::AtomicU64::new);
    /// call(plimsoll_sched::args::ArgWords::new(&words));
    /// ```
    unsafe fn into_call(self) -> KernelCall;
}

macro_rules! functions {
    ($($name:ident),*) => {
        impl<F, R, $($name),*> Sealed<fn($($name),*) -> R> for F
        where
            $($name: Param,)*
            R: KernelReturn,
            F: Fn($($name),*) -> R + for<'k> Fn($($name::View<'k>),*) -> R + Send + Sync + 'static,
        {
        }

        impl<F, R, $($name),*> IntoKernel<fn($($name),*) -> R> for F
        where
            $($name: Param,)*
            R: KernelReturn,
            F: Fn($($name),*) -> R + for<'k> Fn($($name::View<'k>),*) -> R + Send + Sync + 'static,
        {
            type Kinds = ($($name::Kind,)*);

            fn signature() -> Signature {
                Signature::Exactly(Box::new([$($name::SPEC),*]))
            }

            #[allow(non_snake_case, unused_mut, unused_variables)]
            unsafe fn into_call(self) -> KernelCall {
                #[inline(always)]
                fn call<'k, R, $($name: Param),*>(
                    f: &impl Fn($($name::View<'k>),*) -> R,
                    words: ArgWords<'k>,
                ) -> Option<R> {
                    let mut words = words;
                    // SAFETY: the promise that `into_call` was given: the submit was checked against these parameters, in
                    // this order, and no other task touches what this one does.
                    $(let $name = unsafe { $name::fetch(&mut words) }?;)*
                    Some(f($($name),*))
                }
                Box::new(move |words| match call::<R, $($name),*>(&self, words) {
                    Some(result) => result.into_result(),
                    None => Err("the task has fewer arguments than its kernel".into()),
                })
            }
        }
    };
}

functions!();
functions!(A);
functions!(A, B);
functions!(A, B, C);
functions!(A, B, C, D);
functions!(A, B, C, D, E);
functions!(A, B, C, D, E, G);
functions!(A, B, C, D, E, G, H);
functions!(A, B, C, D, E, G, H, I);
functions!(A, B, C, D, E, G, H, I, J);
functions!(A, B, C, D, E, G, H, I, J, K);
