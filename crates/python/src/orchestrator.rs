//! What an orchestration is called with: `o`.

use crate::arguments;
use crate::array;
use crate::device::DeviceContext;
use crate::error::{invalid, raise};
use crate::gil;
use crate::kernel::PyKernel;
use crate::memory::Entered;
use crate::relay::{BareOrchestrator, RelayCaller, RelayedProgram};
use crate::tensor::PyTensor;
use plimsoll::run::Site;
use plimsoll::untyped::{Submitted, Task, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::ThreadId;

/// How the orchestrator is reached.
pub(crate) enum Way {
    /// It is this thread's.
    Direct(*mut BareOrchestrator),
    /// It is a coroutine's.
    Relayed(RelayedProgram, *const RelayCaller),
    Over,
}

// SAFETY: only the thread that made it uses it, which every call checks.
unsafe impl Send for Way {}

/// The orchestrator of a run, valid inside the function that was called with it.
#[pyclass(name = "Orchestrator", module = "plimsoll", frozen)]
pub(crate) struct PyOrchestrator {
    way: Mutex<Way>,
    pub(crate) shared: Arc<DeviceContext>,
    thread: ThreadId,
    /// The memory that was entered.
    pub(crate) entered: Mutex<Vec<Entered>>,
    made: Mutex<Vec<Tensor>>,
    last: Mutex<Option<Submitted>>,
}

/// A submitted task that later ones can be told to wait for.
#[pyclass(name = "Task", module = "plimsoll", frozen)]
pub(crate) struct PyTask(Submitted);

#[pymethods]
impl PyTask {
    fn __repr__(&self) -> String {
        format!("<plimsoll.Task {}>", self.0.id())
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PyOrchestrator {
    pub(crate) fn new(way: Way, shared: Arc<DeviceContext>) -> Self {
        Self {
            way: Mutex::new(way),
            shared,
            thread: std::thread::current().id(),
            entered: Mutex::default(),
            made: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// The function has returned: nobody reaches the orchestrator any more.
    pub(crate) fn end(&self) {
        *locked(&self.way) = Way::Over;
        locked(&self.entered).clear();
    }

    /// Does something with the orchestrator.
    pub(crate) fn with<R>(&self, py: Python<'_>, operation: impl FnOnce(&mut BareOrchestrator) -> R) -> PyResult<R> {
        let elsewhere = "The orchestrator was used where its orchestration does not run. Kernels and other threads submit nothing. Use it in the function that `run` was given.";
        if std::thread::current().id() != self.thread {
            return Err(invalid(py, elsewhere));
        }
        let way = match self.way.try_lock() {
            Ok(way) => way,
            Err(TryLockError::Poisoned(way)) => way.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(invalid(py, elsewhere)),
        };
        match &*way {
            // SAFETY: it is valid until `end`, this is its thread, and the lock is held.
            Way::Direct(o) => Ok(gil::calling(py, || operation(unsafe { &mut **o }))),
            Way::Relayed(program, caller) => {
                // SAFETY: the caller's end outlives the orchestration.
                let caller = unsafe { &**caller };
                let outcome = caller.call(py, &self.shared, program, operation);
                outcome.ok_or_else(|| {
                    invalid(py, "The run has ended. Nothing can be submitted any more. Look for its error.")
                })
            }
            Way::Over => Err(invalid(
                py,
                "The orchestrator was used after its run. It is valid inside the function that `run` was given. Keep arrays, not tensors.",
            )),
        }
    }

    /// As [`with`](Self::with), for what can fail.
    pub(crate) fn attempt<R>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&mut BareOrchestrator) -> plimsoll::Result<R>,
    ) -> PyResult<R> {
        self.with(py, operation)?.map_err(|error| raise(py, &error))
    }

    /// What was refused before it reached the runtime fails the run like what the runtime refuses.
    pub(crate) fn refuse<R>(&self, py: Python<'_>, error: PyErr) -> PyResult<R> {
        let text = error.value(py).getattr("explanation").and_then(|text| text.extract::<String>());
        if let Ok(text) = text {
            self.with(py, |o| drop(o.refuse(text)))?;
        }
        Err(error)
    }
}

#[pymethods]
impl PyOrchestrator {
    /// Submits a task of `kernel`; what it makes is returned: one tensor, a tuple of them, or None.
    #[pyo3(signature = (kernel, *args, after=None, blocks=None, only_if=None, unless=None))]
    #[allow(clippy::too_many_arguments)]
    fn submit<'py>(
        &self,
        py: Python<'py>,
        kernel: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        after: Option<&Bound<'py, PyAny>>,
        blocks: Option<u32>,
        only_if: Option<&Bound<'py, PyTensor>>,
        unless: Option<&Bound<'py, PyTensor>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found;
        let kernel = match kernel.cast::<PyKernel>() {
            Ok(kernel) => kernel.get(),
            Err(_) => {
                found = self.shared.kernel_of(py, kernel);
                let Some(kernel) = &found else {
                    return self.refuse(py, invalid(py, "What was submitted is no kernel of this device. A task calls one. Register the function with `Device.kernel` first."));
                };
                kernel.get()
            }
        };
        let lists = arguments::lists(args);
        let taken = match arguments::take(args, &lists, kernel, &self.shared) {
            Ok(taken) => taken,
            Err(error) => return self.refuse(py, error),
        };
        let after = after.map(waited_for).transpose()?.unwrap_or_default();
        let mut task = Task::new(kernel.kernel, &taken.args).after(&after);
        if let Some(blocks) = blocks {
            task = task.blocks(blocks);
        }
        if let Some(tensor) = only_if {
            task = task.only_if(&tensor.get().tensor);
        }
        if let Some(tensor) = unless {
            task = task.unless(&tensor.get().tensor);
        }
        let mut made = std::mem::take(&mut *locked(&self.made));
        let submitted = self.attempt(py, |o| o.submit(&task, &mut made));
        let outcome = submitted.and_then(|submitted| {
            *locked(&self.last) = Some(submitted);
            let mut made = made
                .iter()
                .zip(&taken.outputs)
                .map(|(tensor, element)| Ok(Bound::new(py, PyTensor::new(*tensor, element.clone_ref(py)))?.into_any()));
            match taken.outputs.len() {
                0 => Ok(py.None().into_bound(py)),
                1 => made.next().unwrap_or_else(|| Ok(py.None().into_bound(py))),
                _ => Ok(PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)?.into_any()),
            }
        });
        *locked(&self.made) = made;
        outcome
    }

    /// The task that was submitted last, for `after=`.
    #[getter]
    fn last_task(&self) -> Option<PyTask> {
        locked(&self.last).map(PyTask)
    }

    /// Enters an array, or what has `__dlpack__` or is a buffer, without a copy.
    #[pyo3(signature = (array, *, writable=None))]
    fn tensor(&self, py: Python<'_>, array: &Bound<'_, PyAny>, writable: Option<bool>) -> PyResult<PyTensor> {
        match crate::memory::enter(self, array, writable) {
            Ok(tensor) => Ok(tensor),
            Err(error) => self.refuse(py, error),
        }
    }

    /// Waits for the tasks that write the tensor, and gives a copy of its elements as a NumPy array.
    #[pyo3(signature = (tensor, out=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        tensor: &Bound<'py, PyTensor>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tensor = tensor.get();
        let numpy = py.import("numpy")?;
        let shape = PyTuple::new(py, tensor.tensor.shape())?;
        let array = numpy.call_method1("empty", (shape, tensor.element.dtype(py)?))?;
        let bytes = tensor.tensor.len() * tensor.element.spec.bytes as usize;
        let at = array::address(&array)? as *mut u8;
        // SAFETY: a new, dense array of these elements, which nobody else knows.
        let room = unsafe { std::slice::from_raw_parts_mut(at, bytes) };
        self.attempt(py, |o| o.read(&tensor.tensor, room))?;
        match out {
            None => Ok(array),
            Some(out) => {
                numpy.call_method1("copyto", (&out, array))?;
                Ok(out)
            }
        }
    }

    /// Waits for the tasks that use the tensor, and overwrites its elements.
    fn write(&self, py: Python<'_>, tensor: &Bound<'_, PyTensor>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let tensor = tensor.get();
        let numpy = py.import("numpy")?;
        let wanted = (PyTuple::new(py, tensor.tensor.shape())?, tensor.element.dtype(py)?);
        let filled = numpy.call_method1("empty", wanted)?;
        numpy.call_method1("copyto", (&filled, data))?;
        let bytes = tensor.tensor.len() * tensor.element.spec.bytes as usize;
        let at = array::address(&filled)? as *const u8;
        // SAFETY: a new, dense array of these elements.
        let data = unsafe { std::slice::from_raw_parts(at, bytes) };
        self.attempt(py, |o| o.write(&tensor.tensor, data))
    }

    /// A scope, as a context manager: what is made in it is held until its end.
    fn scope(slf: Bound<'_, Self>) -> PyResult<PyScope> {
        Ok(PyScope { site: caller_site(slf.py())?, o: slf.unbind() })
    }

    /// Gives up: ends the run with this message.
    fn fatal(&self, py: Python<'_>, message: String) -> PyResult<()> {
        let error = self.with(py, |o| o.fatal(message))?;
        Err(raise(py, &error))
    }
}

fn waited_for(given: &Bound<'_, PyAny>) -> PyResult<Vec<Submitted>> {
    if let Ok(one) = given.cast::<PyTask>() {
        return Ok(vec![one.get().0]);
    }
    given.try_iter()?.map(|one| Ok(one?.cast::<PyTask>()?.get().0)).collect()
}

/// Where the Python code is that calls.
pub(crate) fn caller_site(py: Python<'_>) -> PyResult<Site> {
    let frame = py.import("sys")?.call_method0("_getframe")?;
    let file: String = frame.getattr("f_code")?.getattr("co_filename")?.extract()?;
    Ok(Site::foreign(&file, frame.getattr("f_lineno")?.extract()?))
}

/// A scope of a run.
#[pyclass(name = "Scope", module = "plimsoll", frozen)]
pub(crate) struct PyScope {
    o: Py<PyOrchestrator>,
    site: Site,
}

#[pymethods]
impl PyScope {
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Py<PyOrchestrator>> {
        let (py, scope) = (slf.py(), slf.get());
        scope.o.get().attempt(py, |o| o.open_scope_at(scope.site))?;
        Ok(scope.o.clone_ref(py))
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let closed = self.o.get().attempt(py, |o| o.close_scope());
        // What was raised inside says more than that the run has failed.
        if kind.is_none() {
            closed?;
        }
        Ok(false)
    }
}
