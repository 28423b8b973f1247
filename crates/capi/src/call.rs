//! Kernels in other languages: functions of a `plimsoll_call`.

use crate::types::{CCall, CView, KernelFn, MAX_DIMS};
use plimsoll::kernel::KernelError;
use plimsoll::untyped;
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

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
        let empty = CView {
            data: std::ptr::null_mut(),
            bits: 0,
            shape: [1; MAX_DIMS],
            strides: [0; MAX_DIMS],
            ndim: 0,
            dtype: 0,
            is_scalar: 0,
            is_written: 0,
            reserved: 0,
        };
        let mut views = [empty; MOST_INLINE];
        let mut count = 0;
        for arg in call.args() {
            if count == MOST_INLINE {
                return native.invoke(&call.args().map(|arg| view(&arg)).collect::<Vec<_>>());
            }
            views[count] = view(&arg);
            count += 1;
        }
        native.invoke(&views[..count])
    }
}

impl Native {
    fn invoke(&self, args: &[CView]) -> Result<(), KernelError> {
        let reason: Cell<Option<String>> = Cell::new(None);
        let call = CCall {
            size: size_of::<CCall>() as u32,
            count: args.len() as u32,
            args: args.as_ptr(),
            context: self.context,
            fail,
            state: std::ptr::from_ref(&reason).cast_mut().cast(),
        };
        // SAFETY: whoever registered the kernel promised that it may be called so.
        let code = unsafe { (self.body)(&raw const call) };
        match (code, reason.take()) {
            (0, None) => Ok(()),
            (_, Some(reason)) => Err(reason.into()),
            (code, None) => Err(format!("it returned {code}").into()),
        }
    }
}

/// One argument as C sees it.
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
    view.shape[..arg.shape().len()].copy_from_slice(arg.shape());
    view.strides[..arg.strides().len()].copy_from_slice(arg.strides());
    view
}

/// Keeps the first reason that a kernel gives.
unsafe extern "C" fn fail(call: *const CCall, text: *const c_char) {
    if call.is_null() || text.is_null() {
        return;
    }
    // SAFETY: the call is the one that the kernel was given, which lives until the kernel returns, and so does the cell.
    let reason = unsafe { &*(*call).state.cast::<Cell<Option<String>>>() };
    // SAFETY: the header asks for a string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    reason.set(Some(reason.take().unwrap_or(text)));
}
