//! Kernels: Python functions that are called with views of the arguments, and functions by address.

use crate::array::{self, ArraySpec};
use crate::block;
use crate::context::{DeviceContext, PlanPart};
use crate::element::ArrayElement;
use crate::error::Raised;
use crate::fork::{self, ProcessMark};
use crate::gil;
use crate::lease::{self, CallLease, is_kept};
use crate::relay;
use plimsoll::abi::Dtype;
use plimsoll::kernel::KernelError;
use plimsoll::untyped::{self, BlockContext, Call, CallArg};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// A kernel of a device. Calling it calls the Python function that it was made of, at once and without a device.
#[pyclass(name = "Kernel", module = "plimsoll", frozen)]
pub(crate) struct PyKernel {
    pub(crate) kernel: untyped::Kernel,
    /// Whether its body is Python, which is told the dtypes that the runtime does not know.
    pub(crate) is_python: bool,
    #[pyo3(get)]
    pub(crate) name: String,
    pub(crate) function: Option<Py<PyAny>>,
}

#[pymethods]
impl PyKernel {
    #[pyo3(signature = (*args))]
    fn __call__(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        match &self.function {
            Some(function) => function.call1(py, args),
            None => Err(crate::error::invalid(
                py,
                format!("Kernel {} cannot be called from Python. It is native. Submit it.", self.name),
            )),
        }
    }

    fn __repr__(&self) -> String {
        format!("<plimsoll.Kernel {}>", self.name)
    }
}

/// The body of a kernel that is a Python function.
pub(crate) fn python_body(
    function: Py<PyAny>,
    shared: Arc<DeviceContext>,
) -> impl Fn(&Call<'_>) -> Result<(), KernelError> + Send + Sync + 'static {
    move |call| {
        let context = call.context();
        if context.parts > 1 {
            return block::on_own_thread(&shared, call, || on_thread(&function, &shared, call, context));
        }
        if shared.is_virtual {
            return relay::hand_over(&shared, || on_thread(&function, &shared, call, context));
        }
        gil::keep_state();
        let clock = shared.clock;
        let asked = clock.ticks();
        gil::attached(|py| {
            let held = clock.ticks();
            if held - asked > shared.least_wait_ticks {
                call.note_gil_wait(asked, held);
            }
            invoke(py, &function, &shared, call, context)
        })
        .unwrap_or_else(leaving)
    }
}

/// Calls the function on this thread, which is no coroutine.
fn on_thread(
    function: &Py<PyAny>,
    shared: &DeviceContext,
    call: &Call<'_>,
    context: BlockContext,
) -> Result<(), KernelError> {
    gil::attached(|py| invoke(py, function, shared, call, context)).unwrap_or_else(leaving)
}

fn leaving() -> Result<(), KernelError> {
    Err("the interpreter is on its way out".into())
}

fn invoke(
    py: Python<'_>,
    function: &Py<PyAny>,
    shared: &DeviceContext,
    call: &Call<'_>,
    context: BlockContext,
) -> Result<(), KernelError> {
    let lease = Bound::new(py, CallLease::default()).map_err(|error| Raised::new(py, error))?;
    let raised = |error: PyErr| -> KernelError {
        // The traceback holds what the kernel's variables held.
        shared.keep_views(&lease);
        shared.interrupt_if(py, &error);
        Raised::new(py, error).into()
    };
    let args = arguments(py, shared, call, &lease).map_err(raised)?;
    let process = ProcessMark::of_this();
    let outcome = {
        let _running = shared.enter_python(py, false);
        // SAFETY: a callable and a tuple; a new reference, or null with an exception set.
        block::within(context, || unsafe {
            let given = ffi::PyObject_CallObject(function.as_ptr(), args.as_ptr());
            Bound::from_owned_ptr_or_err(py, given)
        })
    };
    if process.is_parent() {
        fork::end_process(py, outcome.as_ref().err());
    }
    drop(args);
    outcome.map_err(raised)?;
    if is_kept(&lease) {
        lease::collect(py).map_err(raised)?;
    }
    if is_kept(&lease) {
        shared.keep_views(&lease);
        return Err(
            "it kept a view of an argument after its return. The memory belongs to the run. Keep a copy of it".into()
        );
    }
    Ok(())
}

/// The arguments as Python sees them: arrays, lists of arrays, numbers.
fn arguments<'py>(
    py: Python<'py>,
    shared: &DeviceContext,
    call: &Call<'_>,
    lease: &Bound<'py, CallLease>,
) -> PyResult<Bound<'py, PyTuple>> {
    let given: Vec<CallArg> = call.args().collect();
    // No number that Python gives is an i16: one that is stands for the plan of the arguments.
    let is_plan = |arg: &&CallArg| arg.is_scalar() && arg.dtype() == Dtype::I16;
    let plan = given.last().filter(is_plan).and_then(|arg| shared.plan(arg.bits()));
    let Some(plan) = plan else {
        let made = given.iter().map(|arg| argument(py, arg, None, lease)).collect::<PyResult<Vec<_>>>()?;
        return PyTuple::new(py, made);
    };
    let mut made = Vec::with_capacity(plan.len());
    let mut rest = given[..given.len() - 1].iter();
    for part in plan.iter() {
        let mut next = |at| rest.next().map(|arg| argument(py, arg, Some((part, at)), lease)).transpose();
        if !part.is_list {
            made.extend(next(0)?);
            continue;
        }
        let count = rest.next().map_or(0, CallArg::bits) as usize;
        let mut next = |at| rest.next().map(|arg| argument(py, arg, Some((part, at)), lease)).transpose();
        let list = (0..count).map(&mut next).collect::<PyResult<Vec<_>>>()?;
        made.push(pyo3::types::PyList::new(py, list.into_iter().flatten())?.into_any());
    }
    PyTuple::new(py, made)
}

/// One argument as Python sees it; with a plan, tensor number `.1` of that part of it.
fn argument<'py>(
    py: Python<'py>,
    arg: &CallArg,
    planned: Option<(&PlanPart, usize)>,
    lease: &Bound<'py, CallLease>,
) -> PyResult<Bound<'py, PyAny>> {
    if arg.is_scalar() {
        return Ok(match arg.dtype() {
            Dtype::F64 | Dtype::F32 => scalar_float(arg).into_pyobject(py)?.into_any(),
            Dtype::Bool => pyo3::types::PyBool::new(py, arg.bits() != 0).to_owned().into_any(),
            _ => (arg.bits() as i64).into_pyobject(py)?.into_any(),
        });
    }
    let known = ArrayElement::of(arg.dtype());
    let element = planned.and_then(|(part, at)| part.elements.get(at)).unwrap_or(&known);
    let writable = arg.is_written() || planned.is_some_and(|(part, _)| part.writes);
    let spec = ArraySpec { data: arg.data(), shape: arg.shape(), strides: arg.strides(), writable };
    // SAFETY: the view is an argument of this call, and the lease tells whether it is kept.
    unsafe { array::view(py, &spec, element, lease.as_any()) }
}

fn scalar_float(arg: &CallArg) -> f64 {
    match arg.dtype() {
        Dtype::F32 => f64::from(f32::from_bits(arg.bits() as u32)),
        _ => f64::from_bits(arg.bits()),
    }
}
