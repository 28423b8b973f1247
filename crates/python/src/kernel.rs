//! Kernels: Python functions that are called with views of the arguments, and functions by address.

use crate::arguments::type_name;
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
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import Out
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def ones(x):
/// ...         x[:] = 1
/// ...     ones, ones.name
/// (<plimsoll.Kernel ones>, 'ones')
/// >>> x = np.zeros(2)
/// >>> ones(x)
/// >>> x
/// array([1., 1.])
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
        let called = call_python(&shared, call, |py| invoke(py, &function, &shared, call, context));
        called.unwrap_or_else(|| Err("the interpreter is on its way out".into()))
    }
}

/// Does what calls Python, with the GIL, where that may be called: not on a coroutine's stack. What it waits for the GIL is noted.
/// Nothing is done if the interpreter is on its way out.
pub(crate) fn call_python<R: Send>(
    shared: &DeviceContext,
    call: &Call<'_>,
    work: impl FnOnce(Python<'_>) -> R,
) -> Option<R> {
    // Before a thread makes its state, which takes the GIL, too.
    let asked = shared.clock.ticks();
    if call.parts() > 1 {
        let (outcome, wait) = block::on_own_thread(shared, call, || with_gil(shared, asked, work));
        wait.note(call);
        return outcome;
    }
    if shared.is_virtual {
        // The clock of the records stands still meanwhile.
        return relay::hand_over(shared, || with_gil(shared, asked, work)).0;
    }
    gil::keep_state();
    let (outcome, wait) = with_gil(shared, asked, work);
    wait.note(call);
    outcome
}

/// How long a call waited for the GIL, between two readings of the machine's clock.
struct GilWait(Option<(u64, u64)>);

impl GilWait {
    /// Notes it on the thread that executes the task.
    fn note(self, call: &Call<'_>) {
        if let Some((asked, held)) = self.0 {
            call.note_gil_wait(asked, held);
        }
    }
}

/// Does `work` with the GIL, and tells what it waited for it since it was `asked` for.
fn with_gil<R>(shared: &DeviceContext, asked: u64, work: impl FnOnce(Python<'_>) -> R) -> (Option<R>, GilWait) {
    let mut wait = GilWait(None);
    let outcome = gil::attached(|py| {
        let held = shared.clock.ticks();
        wait.0 = (held - asked > shared.least_wait_ticks).then_some((asked, held));
        work(py)
    });
    (outcome, wait)
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
    outcome.and_then(|given| refuse_begun(&given, "kernel")).map_err(raised)?;
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

/// Refuses what a generator or an async function gives: a call of one only begins it.
pub(crate) fn refuse_begun(given: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    if given.is_none() {
        return Ok(());
    }
    let py = given.py();
    let types = py.import("types")?;
    for name in ["GeneratorType", "CoroutineType", "AsyncGeneratorType"] {
        if !given.get_type().is(&types.getattr(name)?) {
            continue;
        }
        // Else Python warns that nobody waits for it.
        if name != "AsyncGeneratorType" {
            given.call_method0("close")?;
        }
        return Err(crate::error::invalid(
            py,
            format!(
                "The {what} has done nothing. It gave a {}, and a call of a generator or an async function only begins it. Give a function that does its work when it is called.",
                type_name(given)
            ),
        ));
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
    let plan = given.last().filter(|arg| arg.is_note()).and_then(|arg| shared.plan(arg.bits()));
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
