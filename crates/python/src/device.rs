//! Devices and graphs in Python.

use crate::context::DeviceContext;
use crate::error::{invalid, raise};
use crate::fork::ProcessMark;
use crate::gil;
use crate::kernel::{PyKernel, python_body};
use crate::native::{self, NativeFunction};
use crate::orchestrator::{caller_site, locked};
use crate::run::{self, RunBudgets, RunSettings};
use crate::signals::HeldSignals;
use plimsoll::run::Builder;
use plimsoll_capi::settings;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

/// Workers, rings and kernels: what programs run on. Use it in a `with` statement, or close it.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import In, Out
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     double = d.kernel(lambda x, y: np.multiply(x, 2, out=y), name="double")
/// ...     print(d.run(lambda o: o.read(o.submit(double, In(o.tensor(np.arange(3.0))), Out(3, "f64")))))
/// ...     d.report["tasks"]
/// [0. 2. 4.]
/// 1
#[pyclass(name = "Device", module = "plimsoll", frozen, weakref)]
pub(crate) struct PyDevice {
    device: Arc<Mutex<Option<plimsoll::Device>>>,
    pub(crate) context: Arc<DeviceContext>,
    settings: RunSettings,
    process: ProcessMark,
    #[pyo3(get)]
    workers: usize,
    #[pyo3(get)]
    engine: String,
    #[pyo3(get)]
    arch: String,
}

/// A graph that was built once and is launched any number of times.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import InOut
/// >>> total = np.zeros(1)
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel
/// ...     def bump(x):
/// ...         x += 1
/// ...     graph = d.build(lambda o: o.submit(bump, InOut(o.tensor(total))))
/// ...     d.launch(graph, rounds=10)
/// >>> graph.tasks, total
/// (1, array([10.]))
#[pyclass(name = "Graph", module = "plimsoll", frozen)]
pub(crate) struct PyGraph(Mutex<GraphInside>);

struct GraphInside(plimsoll::Prebuilt<'static>);

// SAFETY: what it keeps are Python's objects, which are let go of with the GIL or by PyO3 later.
unsafe impl Send for GraphInside {}

#[pymethods]
impl PyGraph {
    /// Number of tasks.
    #[getter]
    fn tasks(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.inside(py)?.0.tasks())
    }
}

impl PyGraph {
    /// The graph, unless a launch has it: nobody waits for it here, since the launch may wait for the GIL.
    fn inside(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, GraphInside>> {
        match self.0.try_lock() {
            Ok(graph) => Ok(graph),
            Err(TryLockError::Poisoned(graph)) => Ok(graph.into_inner()),
            Err(TryLockError::WouldBlock) => Err(invalid(
                py,
                "The graph is launched already. It is executed once at a time. Wait for the launch, or build another graph.",
            )),
        }
    }
}

impl PyDevice {
    /// Does something with the device, which no run uses meanwhile.
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut plimsoll::Device) -> PyResult<R>,
    ) -> PyResult<R> {
        if self.process.is_parent() {
            return Err(invalid(
                py,
                "The device belongs to the process that opened it, and this is a fork of that. Its workers are not here. Open another one in this process.",
            ));
        }
        let mut device = match self.device.try_lock() {
            Ok(device) => device,
            Err(TryLockError::Poisoned(device)) => device.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(invalid(
                    py,
                    "The device runs a program already. It does one thing at a time. Wait for the run, or open another device.",
                ));
            }
        };
        match device.as_mut() {
            Some(device) => call(device),
            None => Err(invalid(py, "The device was closed. It runs nothing any more. Open another one.")),
        }
    }

    /// What one run is told, and where it is told nothing, the device's own settings.
    fn settings_of(
        &self,
        py: Python<'_>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<PathBuf>,
        rounds: Option<i64>,
        program: Option<String>,
        budgets: RunBudgets,
    ) -> PyResult<RunSettings> {
        let (record, rounds) = (record.map(record_text).transpose()?, run::rounds(py, rounds)?);
        Ok(RunSettings { record, out, outputs: None, rounds, program, budgets }.over(&self.settings))
    }

    /// Opens a device of this engine and arch.
    pub(crate) fn open(
        py: Python<'_>,
        builder: Builder,
        (engine, arch): (String, String),
        settings: RunSettings,
    ) -> plimsoll::Result<Self> {
        let held = HeldSignals::hold();
        let device = gil::released(py, || builder.open())?;
        drop(held);
        let (workers, process) = (device.workers(), ProcessMark::of_this());
        let context = Arc::new(DeviceContext::new(engine == "virtual"));
        let device = Arc::new(Mutex::new(Some(device)));
        OPEN.note(&device, &context, process);
        Ok(Self { workers, device, context, settings, process, engine, arch })
    }

    fn register(
        &self,
        py: Python<'_>,
        name: String,
        (core, in_blocks): (Option<&str>, bool),
        function: &Bound<'_, PyAny>,
    ) -> PyResult<PyKernel> {
        let class = settings::core_class(core).map_err(|error| raise(py, &error))?;
        let body = python_body(function.clone().unbind(), Arc::clone(&self.context));
        // SAFETY: the body gives Python arrays that know their bounds, read-only where the task does not write; what is kept of
        // them fails the run, which then gives back nothing.
        let kernel = self.with(py, |device| unsafe {
            native::enter(device, class, &name, in_blocks, body).map_err(|error| raise(py, &error))
        })?;
        Ok(PyKernel { kernel, is_python: true, name, function: Some(function.clone().unbind()) })
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (*, workers=None, arch=None, engine=None, arch_set=None, record=None, out=None, outputs=None, rounds=None, program=None, seed=None, costs=None, lend=true, ring_task_window=None, ring_heap=None, ring_dep_pool=None, tensormap=None, deadline=None, read_timeout=None, op_timeout=None, stall_timeout=None, orch_timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        workers: Option<usize>,
        arch: Option<String>,
        engine: Option<String>,
        arch_set: Option<Vec<String>>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<PathBuf>,
        outputs: Option<PathBuf>,
        rounds: Option<i64>,
        program: Option<String>,
        seed: Option<u64>,
        costs: Option<String>,
        lend: bool,
        ring_task_window: Option<&Bound<'_, PyAny>>,
        ring_heap: Option<&Bound<'_, PyAny>>,
        ring_dep_pool: Option<&Bound<'_, PyAny>>,
        tensormap: Option<&Bound<'_, PyAny>>,
        deadline: Option<f64>,
        read_timeout: Option<f64>,
        op_timeout: Option<f64>,
        stall_timeout: Option<f64>,
        orch_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let budgets = RunBudgets { deadline, read_timeout, op_timeout, stall_timeout, orch_timeout };
        let rounds = run::rounds(py, rounds)?;
        budgets.check(py, engine.as_deref() == Some("virtual"))?;
        let raised = |error: plimsoll::Error| raise(py, &error);
        let changes = arch_set.unwrap_or_default();
        let changes = changes.iter().map(String::as_str);
        let kind =
            settings::engine(engine.as_deref(), arch.as_deref(), changes, seed, costs.as_deref()).map_err(raised)?;
        // A run that may be given up needs a thread that can be left behind.
        let least = if budgets.watches() { 2 } else { 1 };
        let mut builder = plimsoll::Device::builder().engine(kind).at_least_workers(least);
        if let Some(workers) = workers {
            builder = builder.workers(workers);
        }
        let texts = [ring_task_window, ring_heap, ring_dep_pool, tensormap];
        let sizes = texts.map(|size| size.map(size_text).transpose());
        let [window, heap, deps, map] = sizes;
        let sizes = [window?, heap?, deps?, map?];
        let sizes = [&sizes[0], &sizes[1], &sizes[2], &sizes[3]].map(|size| size.as_deref());
        let builder = settings::set_sizes(builder.lend(lend), sizes).map_err(raised)?;
        let settings =
            RunSettings { record: record.map(record_text).transpose()?, out, outputs, rounds, program, budgets };
        let arch = arch.unwrap_or_else(|| "host".to_owned());
        let engine = engine.unwrap_or_else(|| settings::implied_engine(&arch).to_owned());
        Self::open(py, builder, (engine, arch), settings).map_err(raised)
    }

    /// Registers a Python function as a kernel. A decorator: `@d.kernel`, or `@d.kernel(name=..., core="aiv")`. With `in_blocks`
    /// its tasks may be executed in blocks, or have it as a part: `plimsoll.block()` tells its executions apart.
    #[pyo3(signature = (function=None, *, name=None, core=None, in_blocks=false))]
    fn kernel<'py>(
        slf: Bound<'py, Self>,
        function: Option<Bound<'py, PyAny>>,
        name: Option<String>,
        core: Option<String>,
        in_blocks: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(function) = function else {
            let options = PyDict::new(py);
            options.set_item("name", name)?;
            options.set_item("core", core)?;
            options.set_item("in_blocks", in_blocks)?;
            return py.import("functools")?.getattr("partial")?.call((slf.getattr("kernel")?,), Some(&options));
        };
        py.import("plimsoll._kernels")?.call_method1("check_function", (&function,))?;
        let own = || function.getattr("__name__").and_then(|name| name.extract());
        let name = name.map_or_else(|| own().or_else(|_| Ok::<_, PyErr>("kernel".to_owned())), Ok)?;
        let kernel = Bound::new(py, slf.get().register(py, name, (core.as_deref(), in_blocks), &function)?)?;
        let mut functions = locked(&slf.get().context.functions);
        functions.push((function.clone().unbind(), kernel.clone().unbind()));
        Ok(kernel.into_any())
    }

    /// Registers `int32_t f(const plimsoll_call *)`: an address, or a function of ctypes, cffi or Numba.
    #[pyo3(signature = (function, *, name=None, core=None, in_blocks=false))]
    fn native(
        &self,
        function: &Bound<'_, PyAny>,
        name: Option<String>,
        core: Option<String>,
        in_blocks: bool,
    ) -> PyResult<PyKernel> {
        let py = function.py();
        let (address, own, is_callback): (usize, String, bool) =
            py.import("plimsoll._kernels")?.call_method1("address_of", (function,))?.extract()?;
        let function = NativeFunction { address, is_callback, keep: function.clone().unbind() };
        native::register(py, self, name.unwrap_or(own), (core.as_deref(), in_blocks), function)
    }

    /// Registers a function of a shared object, which is kept loaded.
    #[pyo3(signature = (path, symbol, *, name=None, core=None, in_blocks=false))]
    fn load(
        &self,
        path: &Bound<'_, PyAny>,
        symbol: String,
        name: Option<String>,
        core: Option<String>,
        in_blocks: bool,
    ) -> PyResult<PyKernel> {
        let py = path.py();
        let (address, keep): (usize, Py<PyAny>) =
            py.import("plimsoll._kernels")?.call_method1("load", (path, &symbol))?.extract()?;
        let function = NativeFunction { address, is_callback: false, keep };
        native::register(py, self, name.unwrap_or(symbol), (core.as_deref(), in_blocks), function)
    }

    /// Registers a kernel that the package brings: nothing, fill, add or axpy, over dense arrays of f32 or f64.
    fn built_in(&self, py: Python<'_>, name: &str) -> PyResult<PyKernel> {
        native::built_in(py, self, name)
    }

    /// Calls `program(o)` with an orchestrator, waits for its tasks, and gives what it returned.
    #[pyo3(signature = (program, *, rounds=None, record=None, out=None, name=None, deadline=None, read_timeout=None, op_timeout=None, stall_timeout=None, orch_timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        py: Python<'_>,
        program: &Bound<'_, PyAny>,
        rounds: Option<i64>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<PathBuf>,
        name: Option<String>,
        deadline: Option<f64>,
        read_timeout: Option<f64>,
        op_timeout: Option<f64>,
        stall_timeout: Option<f64>,
        orch_timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let budgets = RunBudgets { deadline, read_timeout, op_timeout, stall_timeout, orch_timeout };
        let own = || program.getattr("__name__").ok().and_then(|name| name.extract::<String>().ok());
        let settings = self.settings_of(py, record, out, rounds, name, budgets)?.named(own);
        let site = caller_site(py)?;
        self.with(py, |device| run::run(py, device, &self.context, &settings, site, program))
    }

    /// Records what `program(o)` submits as a graph, which `launch` executes. The times are what building may take.
    #[pyo3(signature = (program, *, deadline=None, stall_timeout=None, orch_timeout=None))]
    fn build(
        &self,
        py: Python<'_>,
        program: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        stall_timeout: Option<f64>,
        orch_timeout: Option<f64>,
    ) -> PyResult<PyGraph> {
        let budgets = RunBudgets { deadline, stall_timeout, orch_timeout, ..RunBudgets::default() };
        let settings = self.settings_of(py, None, None, None, None, budgets)?;
        let site = caller_site(py)?;
        let graph = self.with(py, |device| run::build(py, device, &self.context, &settings, site, program))?;
        Ok(PyGraph(Mutex::new(GraphInside(graph))))
    }

    /// Executes a graph, `rounds` times.
    #[pyo3(signature = (graph, *, rounds=None, record=None, out=None, name=None, deadline=None, op_timeout=None, stall_timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        py: Python<'_>,
        graph: &Bound<'_, PyGraph>,
        rounds: Option<i64>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<PathBuf>,
        name: Option<String>,
        deadline: Option<f64>,
        op_timeout: Option<f64>,
        stall_timeout: Option<f64>,
    ) -> PyResult<()> {
        let budgets = RunBudgets { deadline, op_timeout, stall_timeout, ..RunBudgets::default() };
        let settings = self.settings_of(py, record, out, rounds, name, budgets)?.named(|| Some("graph".to_owned()));
        let site = caller_site(py)?;
        let mut graph = graph.get().inside(py)?;
        self.with(py, |device| run::launch(py, device, &self.context, &settings, site, &mut graph.0))
    }

    /// What the last run did.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        self.with(py, |device| {
            let report = device.report();
            out.set_item("tasks", report.tasks)?;
            out.set_item("elapsed_ns", report.elapsed_ns)?;
            out.set_item("dir", report.dir.as_ref().map(|dir| dir.display().to_string()))?;
            out.set_item("lossless", report.ledger.as_ref().map(|ledger| ledger.lossless))
        })?;
        Ok(out)
    }

    /// Ends the workers and gives the memory back. Nothing happens the second time, or in a fork.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process.is_parent() {
            return Ok(());
        }
        let device = match self.device.try_lock() {
            Ok(mut device) => device.take(),
            Err(TryLockError::Poisoned(device)) => device.into_inner().take(),
            Err(TryLockError::WouldBlock) => {
                return Err(invalid(
                    py,
                    "The device runs a program. It cannot be closed before that has ended. Wait for the run.",
                ));
            }
        };
        let Some(device) = device else { return Ok(()) };
        // They may refer to the device, and what a kernel raised to views of its memory.
        let functions = std::mem::take(&mut *locked(&self.context.functions));
        let failure = locked(&self.context.failure).take();
        drop((functions, failure));
        self.context.leases.end(py, device);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.close(py)?;
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<plimsoll.Device {} {}, {} workers>", self.engine, self.arch, self.workers)
    }
}

impl Drop for PyDevice {
    fn drop(&mut self) {
        // In a fork the lock may be one that nobody releases.
        if self.process.is_parent() {
            return std::mem::forget(Arc::clone(&self.device));
        }
        let Some(device) = locked(&self.device).take() else { return };
        if gil::exiting() {
            return std::mem::forget(device);
        }
        Python::attach(|py| self.context.leases.end(py, device));
    }
}

/// The devices that are open, for the end of the interpreter.
static OPEN: OpenDevices = OpenDevices(Mutex::new(Vec::new()));

struct OpenDevices(Mutex<Vec<OpenDevice>>);

/// A device, or what threads that it left behind still have of it.
struct OpenDevice {
    device: Weak<Mutex<Option<plimsoll::Device>>>,
    shared: Weak<DeviceContext>,
    process: ProcessMark,
}

impl OpenDevices {
    fn note(&self, device: &Arc<Mutex<Option<plimsoll::Device>>>, shared: &Arc<DeviceContext>, process: ProcessMark) {
        let mut open = locked(&self.0);
        open.retain(|one| one.shared.strong_count() > 0);
        open.push(OpenDevice { device: Arc::downgrade(device), shared: Arc::downgrade(shared), process });
    }
}

/// Closes all devices: the interpreter is on its way out, and after it no worker may touch Python.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) {
    let open = std::mem::take(&mut *locked(&OPEN.0));
    for one in open.iter().filter(|one| !one.process.is_parent()) {
        let Some(shared) = one.shared.upgrade() else { continue };
        if let Some(device) = one.device.upgrade() {
            let is_busy = || matches!(device.try_lock(), Err(TryLockError::WouldBlock));
            if is_busy() {
                shared.send_home(py, is_busy);
            }
            let taken = locked(&device).take();
            if let Some(taken) = taken {
                shared.leases.end(py, taken);
            }
        }
        // Of a device that is gone, too: threads that it left behind have its kernels, and those have the context.
        shared.send_home(py, || false);
    }
    gil::leave_to_none(py);
}

/// A size as text: a number, or text as the command's flags have it.
fn size_text(given: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(several) = given.extract::<Vec<u64>>() {
        return Ok(several.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
    }
    Ok(given.str()?.to_string_lossy().into_owned())
}

/// What to record, as text: a level, or `profile`; True is level 1, False is nothing.
fn record_text(given: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(asked) = given.extract::<bool>() {
        return Ok(if asked { "1" } else { "0" }.to_owned());
    }
    Ok(given.str()?.to_string_lossy().into_owned())
}
