//! Kernels in other languages: functions of a `plimsoll_call`.

use crate::types::{CCall, CView, KernelFn, MAX_DIMS};
use plimsoll::kernel::KernelError;
use plimsoll::untyped;
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;

/// Arguments that are unpacked without an allocation.
const MOST_INLINE: usize = 12;

/// What a kernel finds besides its arguments, and what keeps its code alive.
pub struct Native {
    body: KernelFn,
    context: *mut c_void,
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
    let native = Native { body, context, keep };
    move |call| {
        let native = &native;
        let mut views = [const { MaybeUninit::<CView>::uninit() }; MOST_INLINE];
        let mut count = 0;
        for arg in call.args() {
            let Some(place) = views.get_mut(count) else {
                return native.invoke(call, &call.args().map(|arg| view(&arg)).collect::<Vec<_>>());
            };
            place.write(view(&arg));
            count += 1;
        }
        // SAFETY: that many were written.
        native.invoke(call, unsafe { std::slice::from_raw_parts(views.as_ptr().cast::<CView>(), count) })
    }
}

/// What stands behind a call of C's.
struct CallState<'k> {
    /// Why the kernel fails.
    reason: Cell<Option<String>>,
    call: untyped::Call<'k>,
}

impl CallState<'_> {
    /// Keeps the first reason that is given.
    fn fail(&self, reason: String) {
        self.reason.set(Some(self.reason.take().unwrap_or(reason)));
    }
}

impl Native {
    fn invoke(&self, call: &untyped::Call<'_>, args: &[CView]) -> Result<(), KernelError> {
        let state = CallState { reason: Cell::new(None), call: *call };
        let context = call.context();
        let call = CCall {
            size: size_of::<CCall>() as u32,
            count: args.len() as u32,
            args: args.as_ptr(),
            context: self.context,
            fail,
            state: std::ptr::from_ref(&state).cast_mut().cast(),
            block: context.index,
            blocks: context.count,
            part: context.part,
            parts: context.parts,
            push,
            pop,
        };
        // SAFETY: whoever registered the kernel promised that it may be called so.
        let code = unsafe { (self.body)(&raw const call) };
        match (code, state.reason.take()) {
            (0, None) => Ok(()),
            (_, Some(reason)) => Err(reason.into()),
            (code, None) => Err(format!("it returned {code}").into()),
        }
    }
}

/// One argument as C sees it.
#[inline]
fn view(arg: &untyped::CallArg) -> CView {
    let scalar = arg.is_scalar();
    let mut view = CView {
        data: if scalar { std::ptr::null_mut() } else { arg.data().cast() },
        bits: if scalar { arg.bits() } else { 0 },
        shape: [1; MAX_DIMS],
        strides: [0; MAX_DIMS],
        ndim: arg.shape().len() as u8,
        dtype: arg.dtype() as u8,
        is_scalar: u8::from(scalar),
        is_written: u8::from(arg.is_written()),
        reserved: 0,
    };
    // Most have few dimensions, and copying a number of words that the compiler knows is no call.
    match (arg.shape(), arg.strides()) {
        ([extent], [stride]) => (view.shape[0], view.strides[0]) = (*extent, *stride),
        ([rows, columns], [down, right]) => {
            (view.shape[0], view.shape[1]) = (*rows, *columns);
            (view.strides[0], view.strides[1]) = (*down, *right);
        }
        (shape, strides) => {
            view.shape[..shape.len()].copy_from_slice(shape);
            view.strides[..strides.len()].copy_from_slice(strides);
        }
    }
    view
}

/// What stands behind a call.
///
/// # Safety
/// Null, or the call that a kernel was given, and the kernel has not returned.
unsafe fn state<'a>(call: *const CCall) -> Option<&'a CallState<'a>> {
    // SAFETY: the call lives until the kernel returns, and so does its state.
    unsafe { call.as_ref().and_then(|call| call.state.cast::<CallState<'a>>().as_ref()) }
}

/// Says why the kernel fails.
unsafe extern "C" fn fail(call: *const CCall, text: *const c_char) {
    // SAFETY: the header asks for the kernel's own call.
    let Some(state) = (unsafe { state(call) }).filter(|_| !text.is_null()) else { return };
    // SAFETY: the header asks for a string.
    state.fail(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
}

/// Gives a value to another part.
unsafe extern "C" fn push(call: *const CCall, to: u32, bits: u64) -> i32 {
    // SAFETY: as above.
    let Some(state) = (unsafe { state(call) }) else { return 1 };
    match state.call.push(to, bits) {
        Ok(()) => 0,
        Err(error) => {
            state.fail(error.to_string());
            1
        }
    }
}

/// Takes a value from another part.
unsafe extern "C" fn pop(call: *const CCall, from: u32, bits: *mut u64) -> i32 {
    // SAFETY: as above; the place is null or valid.
    let (Some(state), Some(place)) = (unsafe { (state(call), bits.as_mut()) }) else { return 1 };
    match state.call.pop(from) {
        Ok(value) => {
            *place = value;
            0
        }
        Err(error) => {
            state.fail(error.to_string());
            1
        }
    }
}
