//! Kernels that are not Python: functions by address, and a few that the package brings.

use crate::device::PyDevice;
use crate::error::{invalid, raise};
use crate::gil;
use crate::kernel::{PyKernel, call_python};
use plimsoll::abi::Dtype;
use plimsoll::kernel::KernelError;
use plimsoll::untyped::{self, Call, CallArg};
use plimsoll_capi::call::{native_kernel, native_kernel_elsewhere};
use plimsoll_capi::settings;
use plimsoll_capi::types::KernelFn;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::any::Any;
use std::sync::Arc;

/// An `int32_t f(const plimsoll_call *)`.
pub(crate) struct NativeFunction {
    pub(crate) address: usize,
    /// Whether it calls Python, which must not be called on a coroutine's stack.
    pub(crate) is_callback: bool,
    /// Keeps its code where it is.
    pub(crate) keep: Py<PyAny>,
}

/// Registers a native function.
pub(crate) fn register(
    py: Python<'_>,
    device: &PyDevice,
    name: String,
    (core, in_blocks): (Option<&str>, bool),
    function: NativeFunction,
) -> PyResult<PyKernel> {
    let NativeFunction { address, is_callback, keep } = function;
    if address == 0 {
        return Err(invalid(
            py,
            format!("Kernel {name} has no address. A function pointer of null cannot be called. Give a function."),
        ));
    }
    let class = settings::core_class(core).map_err(|error| raise(py, &error))?;
    let keep: Option<Box<dyn Any + Send + Sync>> = Some(Box::new(keep));
    // SAFETY: the address is that of a function with this signature, as the caller promises; so for the rest.
    let kernel = device.with(py, |opened| unsafe {
        let (body, context) = (std::mem::transmute::<usize, KernelFn>(address), std::ptr::null_mut());
        let registered = if is_callback {
            let shared = Arc::clone(&device.context);
            let elsewhere = move |call: &Call<'_>, work: &mut dyn FnMut()| {
                // The callback takes the GIL itself, which its thread has by then.
                let work = gil::AssertSend::new(work);
                call_python(&shared, call, |py| {
                    let _running = shared.enter_python(py, false);
                    work.get()();
                });
            };
            let body = native_kernel_elsewhere(body, context, keep, elsewhere);
            enter(opened, class, &name, in_blocks, body)
        } else {
            enter(opened, class, &name, in_blocks, native_kernel(body, context, keep))
        };
        registered.map_err(|error| raise(py, &error))
    })?;
    Ok(PyKernel { kernel, is_python: false, name, function: None })
}

/// # Safety
/// As for [`plimsoll::Device::kernel_untyped`].
pub(crate) unsafe fn enter(
    device: &mut plimsoll::Device,
    class: plimsoll::CoreClass,
    name: &str,
    in_blocks: bool,
    body: impl Fn(&Call<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
) -> plimsoll::Result<untyped::Kernel> {
    // SAFETY: the caller's promise.
    unsafe {
        match in_blocks {
            false => device.kernel_untyped(class, name, None, body),
            true => device.block_kernel_untyped(class, name, None, body),
        }
    }
}

/// A call with the arguments of a submit that does nothing: what `python -m plimsoll.bench` measures submits beside.
#[pyfunction]
#[pyo3(signature = (kernel, *args, after=None, blocks=None, sync_start=false, parts=None, only_if=None, unless=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn _bare_call<'py>(
    kernel: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    after: Option<&Bound<'py, PyAny>>,
    blocks: Option<u32>,
    sync_start: bool,
    parts: Option<&Bound<'py, PyAny>>,
    only_if: Option<&Bound<'py, PyAny>>,
    unless: Option<&Bound<'py, PyAny>>,
) {
    std::hint::black_box((kernel, args, after, blocks, sync_start, parts, only_if, unless));
}

type Body = fn(&Call<'_>) -> Result<(), KernelError>;

/// The kernels that the package brings, over dense arrays of f32 or f64.
const BUILT_IN: [(&str, Body); 4] = [("nothing", |_| Ok(())), ("fill", fill), ("add", add), ("axpy", axpy)];

/// Registers a kernel of the package's own.
pub(crate) fn built_in(py: Python<'_>, device: &PyDevice, name: &str) -> PyResult<PyKernel> {
    let Some((name, body)) = BUILT_IN.into_iter().find(|(known, _)| *known == name) else {
        let names = BUILT_IN.map(|(known, _)| known).join(", ");
        return Err(invalid(py, format!("There is no built-in kernel {name:?}. There are {names}. Choose one.")));
    };
    // SAFETY: each body checks what it is given, and stays inside.
    let kernel = device.with(py, |device| unsafe {
        device.kernel_untyped(plimsoll::CoreClass::Any, name, None, body).map_err(|error| raise(py, &error))
    })?;
    Ok(PyKernel { kernel, is_python: false, name: name.to_owned(), function: None })
}

/// A dense argument of this type; written, if it has to be.
fn slice<T>(arg: Option<CallArg>, dtype: Dtype, written: bool) -> Result<(*mut T, usize), KernelError> {
    let arg = arg.ok_or("it has too few arguments")?;
    let mut step = 1i64;
    let is_dense = arg.shape().iter().zip(arg.strides()).rev().all(|(extent, stride)| {
        let fits = *extent == 1 || i64::from(*stride) == step;
        step *= i64::from(*extent);
        fits
    });
    if arg.is_scalar() || arg.dtype() != dtype || !is_dense || (written && !arg.is_written()) {
        return Err(format!("it takes dense arrays of {}, the last of them written", dtype.name()).into());
    }
    Ok((arg.data().cast(), arg.len()))
}

fn number(arg: Option<CallArg>) -> Result<f64, KernelError> {
    let arg = arg.filter(CallArg::is_scalar).ok_or("it takes a number first")?;
    match arg.dtype() {
        Dtype::F64 => Ok(f64::from_bits(arg.bits())),
        Dtype::F32 => Ok(f64::from(f32::from_bits(arg.bits() as u32))),
        _ => Ok(arg.bits() as i64 as f64),
    }
}

/// Does the same for f32 and f64, by the last argument's type.
macro_rules! typed {
    ($call:expr, |$dtype:ident: $ty:ident| $body:expr) => {
        match $call.args().last().map(|arg| arg.dtype()) {
            Some(Dtype::F32) => {
                type $ty = f32;
                let $dtype = Dtype::F32;
                $body
            }
            _ => {
                type $ty = f64;
                let $dtype = Dtype::F64;
                $body
            }
        }
    };
}

/// `fill(value, to)`
fn fill(call: &Call<'_>) -> Result<(), KernelError> {
    let value = number(call.arg(0))?;
    typed!(call, |dtype: T| {
        let (to, len) = slice::<T>(call.arg(1), dtype, true)?;
        // SAFETY: `slice` has seen that there are so many of these.
        (0..len).for_each(|at| unsafe { *to.add(at) = value as T });
        Ok(())
    })
}

/// `add(a, b, to)`
fn add(call: &Call<'_>) -> Result<(), KernelError> {
    typed!(call, |dtype: T| {
        let (a, b) = (slice::<T>(call.arg(0), dtype, false)?, slice::<T>(call.arg(1), dtype, false)?);
        let (to, len) = slice::<T>(call.arg(2), dtype, true)?;
        if a.1 != len || b.1 != len {
            return Err("its arrays have different sizes".into());
        }
        // SAFETY: `slice` has seen that there are so many of each.
        (0..len).for_each(|at| unsafe { *to.add(at) = *a.0.add(at) + *b.0.add(at) });
        Ok(())
    })
}

/// `axpy(factor, x, y)`: y += factor * x
fn axpy(call: &Call<'_>) -> Result<(), KernelError> {
    let factor = number(call.arg(0))?;
    typed!(call, |dtype: T| {
        let (x, (y, len)) = (slice::<T>(call.arg(1), dtype, false)?, slice::<T>(call.arg(2), dtype, true)?);
        if x.1 != len {
            return Err("its arrays have different sizes".into());
        }
        // SAFETY: `slice` has seen that there are so many of each.
        (0..len).for_each(|at| unsafe { *y.add(at) += factor as T * *x.0.add(at) });
        Ok(())
    })
}
