//! Kernels in other languages: functions of a `plimsoll_call`.

use crate::types::{CCall, CView, KernelFn, MAX_DIMS};
use plimsoll::abi::Dtype;
use plimsoll::kernel::KernelError;
use plimsoll::untyped::{self, ArgWords, BlockContext, PackedArg};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

/// Arguments that are unpacked without an allocation.
const MOST_INLINE: usize = 12;

/// A native function and the owner that keeps its code alive.
pub struct Native {
    body: KernelFn,
    /// What every call of it is made from: all but the arguments is the same.
    call: CCall,
    keep: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY: whoever makes one promises that the body may be called from any thread with this context.
unsafe impl Send for Native {}
// SAFETY: as above.
unsafe impl Sync for Native {}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Native({:p}, kept {})", self.body as *const (), self.keep.is_some())
    }
}

/// A kernel's body that calls a native function.
///
/// # Safety
/// The function keeps what a [kernel](plimsoll::Device::kernel_untyped) promises, may be called from several threads at once
/// with this context, does not unwind, and stays where it is as long as `keep` lives.
pub unsafe fn native_kernel(
    body: KernelFn,
    context: *mut c_void,
    keep: Option<Box<dyn Any + Send + Sync>>,
) -> impl Fn(&untyped::Call<'_>) -> Result<(), KernelError> + Send + Sync + 'static {
    let native = Native { body, call: CCall::new(context), keep };
    move |call| {
        // One dense vector is unpacked here, where no loop needs registers that have to be saved; all else elsewhere.
        match call.words().only_vector() {
            Some(only) => native.invoke(&[vector(&only)]),
            None => native.invoke_all(call.words()),
        }
    }
}

/// As [`native_kernel`], for a function that may have to be called on another thread: `elsewhere` has it called, and returns when that has been.
///
/// # Safety
/// As for [`native_kernel`].
pub unsafe fn native_kernel_elsewhere(
    body: KernelFn,
    context: *mut c_void,
    keep: Option<Box<dyn Any + Send + Sync>>,
    elsewhere: impl Fn(&untyped::Call<'_>, &mut dyn FnMut()) + Send + Sync + 'static,
) -> impl Fn(&untyped::Call<'_>) -> Result<(), KernelError> + Send + Sync + 'static {
    let native = Native { body, call: CCall::new(context), keep };
    move |call| {
        let mut words = call.words();
        let views: Vec<CView> = std::iter::from_fn(|| words.next_packed().map(|arg| view(&arg))).collect();
        native.invoke_by(without_note(&views), |body, called| {
            // If the body is never called, the task fails.
            let mut code = 1;
            // SAFETY: whoever registered the kernel promised that it may be called so.
            elsewhere(call, &mut || code = unsafe { body(called) });
            code
        })
    }
}

/// Why a kernel fails: what stands behind a call of C's.
#[derive(Default)]
struct Reason(Cell<Option<Box<str>>>);

impl Reason {
    /// Keeps the first reason that is given.
    fn give(&self, reason: String) {
        self.0.set(Some(self.0.take().unwrap_or_else(|| reason.into())));
    }
}

impl CCall {
    fn new(context: *mut c_void) -> Self {
        let (args, state) = (std::ptr::null(), std::ptr::null_mut());
        let BlockContext { index: block, count: blocks, part, parts } = BlockContext::ONLY;
        let size = size_of::<Self>() as u32;
        Self { size, count: 0, args, context, fail, state, block, blocks, part, parts, push, pop }
    }
}

impl Native {
    /// Unpacks the arguments and calls the function with them.
    #[inline(never)]
    fn invoke_all(&self, mut rest: ArgWords<'_>) -> Result<(), KernelError> {
        let mut views = [const { MaybeUninit::<CView>::uninit() }; MOST_INLINE];
        let mut count = 0;
        while count < MOST_INLINE
            && let Some(arg) = rest.next_packed()
        {
            views[count].write(view(&arg));
            count += 1;
        }
        // SAFETY: that many were written.
        let views = unsafe { views[..count].assume_init_ref() };
        let more: Vec<CView> = std::iter::from_fn(|| rest.next_packed().map(|arg| view(&arg))).collect();
        if more.is_empty() {
            self.invoke(without_note(views))
        } else {
            self.invoke(without_note(&[views, &more].concat()))
        }
    }

    #[inline]
    fn invoke(&self, args: &[CView]) -> Result<(), KernelError> {
        // SAFETY: whoever registered the kernel promised that it may be called so.
        self.invoke_by(args, |body, call| unsafe { body(call) })
    }

    /// Makes the call that the function is called with, and has `by` call it.
    #[inline]
    fn invoke_by(&self, args: &[CView], by: impl FnOnce(KernelFn, *const CCall) -> i32) -> Result<(), KernelError> {
        let BlockContext { index: block, count: blocks, part, parts } = untyped::current();
        let count = args.len() as u32;
        let reason = Reason::default();
        let state = (&raw const reason).cast_mut().cast();
        let size = size_of::<CCall>() as u32;
        let call = CCall { size, count, args: args.as_ptr(), state, block, blocks, part, parts, ..self.call };
        let code = by(self.body, &raw const call);
        match (code, reason.0.into_inner()) {
            (0, None) => Ok(()),
            (code, reason) => Err(failed(code, reason)),
        }
    }
}

#[cold]
fn failed(code: i32, reason: Option<Box<str>>) -> KernelError {
    reason.map_or_else(|| format!("it returned {code}"), String::from).into()
}

/// The arguments that are the program's: a [note](untyped::Arg::note) is for kernels of another language that are parts of the same
/// task.
#[inline]
fn without_note(views: &[CView]) -> &[CView] {
    match views {
        [rest @ .., last] if last.is_scalar != 0 && last.dtype == Dtype::User as u8 => rest,
        all => all,
    }
}

/// One argument as C sees it.
#[inline]
fn view(arg: &PackedArg<'_>) -> CView {
    if arg.is_vector() {
        return vector(arg);
    }
    let view = tensor(arg, arg.ndim(), arg.dims());
    if !arg.is_scalar() {
        return view;
    }
    CView { data: std::ptr::null_mut(), bits: arg.value(), is_scalar: 1, ..view }
}

/// A dense vector as C sees it.
#[inline]
fn vector(arg: &PackedArg<'_>) -> CView {
    tensor(arg, 1, ([arg.first_extent(), 1, 1, 1, 1], [1, 0, 0, 0, 0]))
}

/// A tensor as C sees it.
#[inline]
fn tensor(arg: &PackedArg<'_>, ndim: u8, (shape, strides): ([u32; MAX_DIMS], [i32; MAX_DIMS])) -> CView {
    CView {
        data: arg.value() as *mut c_void,
        bits: 0,
        shape,
        strides,
        ndim,
        dtype: arg.dtype_number(),
        is_scalar: 0,
        is_written: u8::from(arg.is_written()),
        reserved: 0,
    }
}

/// Where the reason of a call is kept.
///
/// # Safety
/// Null, or the call that a kernel was given, and the kernel has not returned.
unsafe fn reason<'a>(call: *const CCall) -> Option<&'a Reason> {
    // SAFETY: the call lives until the kernel returns, and so does its state.
    unsafe { call.as_ref().and_then(|call| call.state.cast::<Reason>().as_ref()) }
}

/// Says why the kernel fails.
unsafe extern "C" fn fail(call: *const CCall, text: *const c_char) {
    // SAFETY: the header asks for the kernel's own call.
    let Some(reason) = (unsafe { reason(call) }).filter(|_| !text.is_null()) else { return };
    // SAFETY: the header asks for a string.
    reason.give(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
}

/// Gives a value to another part.
unsafe extern "C" fn push(call: *const CCall, to: u32, bits: u64) -> i32 {
    // SAFETY: as above.
    let Some(reason) = (unsafe { reason(call) }) else { return 1 };
    match untyped::push(to as usize, bits) {
        Ok(()) => 0,
        Err(error) => {
            reason.give(error.to_string());
            1
        }
    }
}

/// Takes a value from another part.
unsafe extern "C" fn pop(call: *const CCall, from: u32, bits: *mut u64) -> i32 {
    // SAFETY: as above; the place is null or valid.
    let (Some(reason), Some(place)) = (unsafe { (reason(call), bits.as_mut()) }) else { return 1 };
    match untyped::pop(from as usize) {
        Ok(value) => {
            *place = value;
            0
        }
        Err(error) => {
            reason.give(error.to_string());
            1
        }
    }
}
