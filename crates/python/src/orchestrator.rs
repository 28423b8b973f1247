//! What an orchestration is called with: `o`.

use crate::arguments::{self, TaskArguments};
use crate::array;
use crate::context::DeviceContext;
use crate::error::{invalid, raise};
use crate::fork::ProcessMark;
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

/// How the orchestrator is reached.
pub(crate) enum OrchestratorAccess {
    /// It is this thread's.
    Direct(*mut BareOrchestrator),
    /// It is a coroutine's.
    Relayed(RelayedProgram, *const RelayCaller),
    Over,
}

// SAFETY: only the thread that made it uses it, which every call checks.
unsafe impl Send for OrchestratorAccess {}

/// The orchestrator of a run, valid inside the function that was called with it.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import In, InOut, Out
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def add(a, b, to):
/// ...         to[:] = a + b
/// ...     def program(o):
/// ...         x = o.tensor(np.ones(2))
/// ...         with o.scope():
/// ...             twice = o.submit(add, In(x), In(x), Out(2, "f64"))
/// ...             print(o.read(twice))
/// ...         o.write(x, [5, 6])
/// ...         return o.read(x)
/// ...     d.run(program)
/// [2. 2.]
/// array([5., 6.])
#[pyclass(name = "Orchestrator", module = "plimsoll", frozen)]
pub(crate) struct PyOrchestrator {
    inside: Mutex<Inside>,
    pub(crate) shared: Arc<DeviceContext>,
    thread: libc::pthread_t,
    process: ProcessMark,
    /// The memory that was entered.
    pub(crate) entered: Mutex<Vec<Entered>>,
}

/// What only the orchestrating thread uses.
struct Inside {
    way: OrchestratorAccess,
    made: Vec<Tensor>,
    last: Option<Submitted>,
}

/// A submitted task that later ones can be told to wait for.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import NoDep
/// >>> order = np.zeros(2)
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def note(at, x):
/// ...         x[at] = x.max() + 1
/// ...     def program(o):
/// ...         x = o.tensor(order)
/// ...         o.submit(note, 1, NoDep(x, writes=True))
/// ...         o.submit(note, 0, NoDep(x, writes=True), after=o.last_task)
/// ...     d.run(program)
/// >>> order
/// array([2., 1.])
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

const ELSEWHERE: &str = "The orchestrator was used where its orchestration does not run. Kernels and other threads submit nothing. Use it in the function that `run` was given.";

const FORKED: &str = "The orchestrator was used in a fork of its process. The run's workers are not here. Do in the fork what needs no device, and end it with `os._exit`.";

/// This thread's number.
fn own_thread() -> libc::pthread_t {
    // SAFETY: always this thread's own.
    unsafe { libc::pthread_self() }
}

impl PyOrchestrator {
    pub(crate) fn new(way: OrchestratorAccess, shared: Arc<DeviceContext>) -> Self {
        let inside = Inside { way, made: Vec::new(), last: None };
        let (thread, process) = (own_thread(), ProcessMark::of_this());
        Self { inside: Mutex::new(inside), shared, thread, process, entered: Mutex::default() }
    }

    /// The function has returned: nobody reaches the orchestrator any more.
    pub(crate) fn end(&self) {
        locked(&self.inside).way = OrchestratorAccess::Over;
        locked(&self.entered).clear();
    }

    fn inside(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Inside>> {
        if own_thread() != self.thread {
            return Err(invalid(py, ELSEWHERE));
        }
        if self.process.is_parent() {
            return Err(invalid(py, FORKED));
        }
        match self.inside.try_lock() {
            Ok(inside) => Ok(inside),
            Err(TryLockError::Poisoned(inside)) => Ok(inside.into_inner()),
            Err(TryLockError::WouldBlock) => Err(invalid(py, ELSEWHERE)),
        }
    }

    /// Does something with the orchestrator.
    pub(crate) fn with<R>(&self, py: Python<'_>, operation: impl FnOnce(&mut BareOrchestrator) -> R) -> PyResult<R> {
        let inside = self.inside(py)?;
        self.reach(py, &inside.way, operation)
    }

    fn reach<R>(
        &self,
        py: Python<'_>,
        way: &OrchestratorAccess,
        operation: impl FnOnce(&mut BareOrchestrator) -> R,
    ) -> PyResult<R> {
        match way {
            // SAFETY: it is valid until `end`, this is its thread, and the lock is held.
            OrchestratorAccess::Direct(o) => Ok(gil::calling(py, || operation(unsafe { &mut **o }))),
            OrchestratorAccess::Relayed(program, caller) => {
                // SAFETY: the caller's end outlives the orchestration.
                let caller = unsafe { &**caller };
                let outcome = caller.call(py, &self.shared, program, operation);
                outcome.ok_or_else(|| {
                    invalid(py, "The run has ended. Nothing can be submitted any more. Look for its error.")
                })
            }
            OrchestratorAccess::Over => Err(invalid(
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
    ///
    /// `after` names tasks to wait for besides; `blocks` executes the task so many times, all at once if `sync_start`;
    /// `parts` are the kernels of a mixed task behind the first; `only_if` and `unless` are tensors of one element that
    /// decide whether it is executed.
    #[pyo3(signature = (kernel, *args, after=None, blocks=None, sync_start=false, parts=None, only_if=None, unless=None))]
    #[allow(clippy::too_many_arguments)]
    fn submit<'py>(
        &self,
        py: Python<'py>,
        kernel: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        after: Option<&Bound<'py, PyAny>>,
        blocks: Option<u32>,
        sync_start: bool,
        parts: Option<&Bound<'py, PyAny>>,
        only_if: Option<&Bound<'py, PyAny>>,
        unless: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kernel = self.kernel_of(kernel)?;
        let parts = parts.map(|parts| self.parts_of(parts)).transpose()?.unwrap_or_default();
        let after = match after.map(waited_for).transpose() {
            Ok(after) => after.unwrap_or_default(),
            Err(error) => return self.refuse(py, error),
        };
        let lists = arguments::lists(args);
        let is_python = kernel.get().is_python || parts.iter().any(|part| part.get().is_python);
        let taken = match arguments::take(args, &lists, is_python, &self.shared) {
            Ok(taken) => taken,
            Err(error) => return self.refuse(py, error),
        };
        let mut task = Task::new(kernel.get().kernel, &taken.args);
        if let Some(blocks) = blocks {
            task = task.blocks(blocks);
        }
        if !after.is_empty() {
            task = task.after(&after);
        }
        if sync_start {
            task = task.sync_start();
        }
        if let [first, rest @ ..] = &parts[..] {
            task = task.with_parts(first.get().kernel, rest.first().map(|second| second.get().kernel));
        }
        if only_if.is_some() && unless.is_some() {
            let text = "A task has one predicate. Both only_if and unless are given. Leave one of them out.";
            return self.refuse(py, invalid(py, text));
        }
        if let Some(tensor) = only_if {
            task = task.only_if(&self.tensor_of(tensor, "a predicate")?.get().tensor);
        }
        if let Some(tensor) = unless {
            task = task.unless(&self.tensor_of(tensor, "a predicate")?.get().tensor);
        }
        self.enter(py, &task, &taken)
    }

    /// Submits a task that executes nothing: it waits as its arguments say, and others wait for it as if it had used them.
    #[pyo3(signature = (*args, after=None))]
    fn dummy<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        after: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let after = match after.map(waited_for).transpose() {
            Ok(after) => after.unwrap_or_default(),
            Err(error) => return self.refuse(py, error),
        };
        let lists = arguments::lists(args);
        let taken = match arguments::take(args, &lists, false, &self.shared) {
            Ok(taken) => taken,
            Err(error) => return self.refuse(py, error),
        };
        self.enter(py, &Task::dummy(&taken.args).after(&after), &taken).map(drop)
    }

    /// The task that was submitted last, for `after=`.
    #[getter]
    fn last_task(&self, py: Python<'_>) -> PyResult<Option<PyTask>> {
        Ok(self.inside(py)?.last.map(PyTask))
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
        tensor: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor_of(tensor, "read")?.get();
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
    fn write(&self, py: Python<'_>, tensor: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let tensor = self.tensor_of(tensor, "written")?.get();
        if let Err(error) = crate::memory::refuse_masked(data) {
            return self.refuse(py, error);
        }
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
        Ok(PyScope { site: caller_site(slf.py())?, o: slf.unbind(), manual: false })
    }

    /// A scope in which nothing is inferred: tasks wait for what `after` names only. No two tasks that run at the same time may
    /// use the same elements unless both only read.
    fn manual_scope(slf: Bound<'_, Self>) -> PyResult<PyScope> {
        Ok(PyScope { site: caller_site(slf.py())?, o: slf.unbind(), manual: true })
    }

    /// Gives up: ends the run with this message.
    fn fatal(&self, py: Python<'_>, message: String) -> PyResult<()> {
        let error = self.with(py, |o| o.fatal(message))?;
        Err(raise(py, &error))
    }
}

impl PyOrchestrator {
    /// Submits a task; gives what it makes.
    fn enter<'py>(&self, py: Python<'py>, task: &Task<'_>, taken: &TaskArguments<'_>) -> PyResult<Bound<'py, PyAny>> {
        let mut inside = self.inside(py)?;
        let Inside { way, made, last } = &mut *inside;
        let submitted = self.reach(py, way, |o| o.submit(task, made))?;
        *last = Some(submitted.map_err(|error| raise(py, &error))?);
        if taken.outputs.is_empty() {
            return Ok(py.None().into_bound(py));
        }
        let mut made = made
            .iter()
            .zip(&taken.outputs)
            .map(|(tensor, element)| Ok(Bound::new(py, PyTensor::new(*tensor, element.clone_ref(py)))?.into_any()));
        match taken.outputs.len() {
            1 => made.next().unwrap_or_else(|| Ok(py.None().into_bound(py))),
            _ => Ok(PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)?.into_any()),
        }
    }

    /// The tensor that is meant.
    fn tensor_of<'a, 'py>(&self, given: &'a Bound<'py, PyAny>, what: &str) -> PyResult<&'a Bound<'py, PyTensor>> {
        match arguments::tensor_of(given, what) {
            Ok(tensor) => Ok(tensor),
            Err(error) => self.refuse(given.py(), error),
        }
    }

    /// The kernel that is meant: one of this device, or the function that one was made of.
    fn kernel_of<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyKernel>> {
        if let Ok(kernel) = given.cast::<PyKernel>() {
            return Ok(kernel.clone());
        }
        let py = given.py();
        match self.shared.kernel_of(py, given) {
            Some(kernel) => Ok(kernel.into_bound(py)),
            None => self.refuse(py, invalid(py, "What was submitted is no kernel of this device. A task calls one. Register the function with `Device.kernel` first.")),
        }
    }

    /// The kernels of a mixed task behind its first.
    fn parts_of<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyKernel>>> {
        if given.cast::<PyKernel>().is_ok() || given.is_callable() {
            return Ok(vec![self.kernel_of(given)?]);
        }
        let parts = given.try_iter()?.map(|part| self.kernel_of(&part?)).collect::<PyResult<Vec<_>>>()?;
        if parts.len() > 2 {
            let text = format!(
                "A mixed task cannot have {} parts behind its first. It has at most 2. Give fewer.",
                parts.len()
            );
            return self.refuse(given.py(), invalid(given.py(), text));
        }
        Ok(parts)
    }
}

fn waited_for(given: &Bound<'_, PyAny>) -> PyResult<Vec<Submitted>> {
    let task = |one: &Bound<'_, PyAny>| one.cast::<PyTask>().ok().map(|task| task.get().0);
    let tasks = match task(given) {
        Some(one) => Some(vec![one]),
        None => given.try_iter().ok().and_then(|several| several.map(|one| task(&one.ok()?)).collect()),
    };
    tasks.ok_or_else(|| {
        let what = arguments::type_name(given);
        let text = format!(
            "A {what} cannot be waited for. It is neither a task nor several. Give `o.last_task` of an earlier submit."
        );
        invalid(given.py(), text)
    })
}

/// Where the Python code is that calls.
pub(crate) fn caller_site(py: Python<'_>) -> PyResult<Site> {
    let frame = py.import("sys")?.call_method0("_getframe")?;
    let file: String = frame.getattr("f_code")?.getattr("co_filename")?.extract()?;
    Ok(Site::foreign(&file, frame.getattr("f_lineno")?.extract()?))
}

/// A scope of a run.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import Out
/// >>> with plimsoll.Device(workers=2, ring_task_window=4) as d:
/// ...     nothing = d.built_in("nothing")
/// ...     def program(o):
/// ...         for step in range(20):
/// ...             with o.scope():
/// ...                 o.submit(nothing, Out(2, "f64"))
/// ...     d.run(program)
/// ...     d.report["tasks"]
/// 20
#[pyclass(name = "Scope", module = "plimsoll", frozen)]
pub(crate) struct PyScope {
    o: Py<PyOrchestrator>,
    site: Site,
    manual: bool,
}

#[pymethods]
impl PyScope {
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Py<PyOrchestrator>> {
        let (py, scope) = (slf.py(), slf.get());
        scope.o.get().attempt(py, |o| match scope.manual {
            false => o.open_scope_at(scope.site),
            true => {
                // SAFETY: whoever opens one promises what its documentation asks for.
                unsafe { o.open_manual_scope_at(scope.site) };
                Ok(())
            }
        })?;
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
        crate::memory::drop_left(py);
        // What was raised inside says more than that the run has failed.
        if kind.is_none() {
            closed?;
        }
        Ok(false)
    }
}
