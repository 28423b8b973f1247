//! Devices and graphs in Python.

use crate::element::ArrayElement;
use crate::error::{invalid, raise};
use crate::gil;
use crate::kernel::{PyKernel, python_body};
use crate::native;
use crate::orchestrator::{caller_site, locked};
use crate::relay::RelaySender;
use crate::run::{self, RunBudgets, RunSettings};
use crate::signals::HeldSignals;
use plimsoll::CancelToken;
use plimsoll::machine::EngineKind;
use plimsoll::untyped::Clock;
use plimsoll_capi::settings;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::{Duration, Instant};

/// What the dtype of an argument is that the runtime knows as bytes only, and whether it is a list.
pub(crate) struct PlanPart {
    pub(crate) element: ArrayElement,
    pub(crate) is_list: bool,
}

/// What a device's runs and Python kernels share.
pub(crate) struct DeviceContext {
    pub(crate) is_virtual: bool,
    pub(crate) clock: Clock,
    /// Shorter waits for the GIL are not told apart from the kernel.
    pub(crate) least_wait_ticks: u64,
    /// How arguments are made, by number, for tasks whose arguments do not say so themselves.
    plans: Mutex<Vec<Arc<Vec<PlanPart>>>>,
    /// What the run at hand keeps alive.
    kept: Mutex<Vec<Py<PyAny>>>,
    /// Somebody holds a view of memory that would be given back: nothing is.
    leaked: AtomicBool,
    /// Where Python is handed to in virtual time.
    relay: Mutex<Option<RelaySender>>,
    /// Ends the run at hand.
    pub(crate) token: Mutex<CancelToken>,
    /// The interrupt that ended it.
    pub(crate) interrupt: Mutex<Option<PyErr>>,
    /// Whether the run at hand looks for signals: Python has them handled by its main thread.
    pub(crate) polls: AtomicBool,
    looked: Mutex<Option<Instant>>,
    /// The kernels of functions that are submitted themselves.
    functions: Mutex<Vec<(Py<PyAny>, Py<PyKernel>)>>,
    /// Threads inside Python kernels, by Python's numbers.
    running: Mutex<Vec<u64>>,
}

/// How often signals are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl DeviceContext {
    fn new(is_virtual: bool) -> Self {
        let clock = Clock::new();
        Self {
            is_virtual,
            clock,
            least_wait_ticks: clock.hz() / 1_000_000,
            plans: Mutex::default(),
            kept: Mutex::default(),
            leaked: AtomicBool::new(false),
            relay: Mutex::default(),
            token: Mutex::default(),
            interrupt: Mutex::default(),
            polls: AtomicBool::new(false),
            looked: Mutex::default(),
            functions: Mutex::default(),
            running: Mutex::default(),
        }
    }

    pub(crate) fn relay(&self) -> Option<RelaySender> {
        locked(&self.relay).clone()
    }

    pub(crate) fn set_relay(&self, relay: Option<RelaySender>) {
        *locked(&self.relay) = relay;
    }

    pub(crate) fn plan(&self, number: u64) -> Option<Arc<Vec<PlanPart>>> {
        locked(&self.plans).get(number as usize).map(Arc::clone)
    }

    /// The number of a plan; programs have few of them.
    pub(crate) fn plan_number(&self, py: Python<'_>, parts: Vec<PlanPart>) -> u64 {
        let same_descr = |a: &ArrayElement, b: &ArrayElement| match (&a.descr, &b.descr) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is(b) || a.bind(py).eq(b).unwrap_or(false),
            _ => false,
        };
        let same = |known: &PlanPart, part: &PlanPart| {
            known.is_list == part.is_list
                && known.element.spec == part.element.spec
                && same_descr(&known.element, &part.element)
        };
        let mut plans = locked(&self.plans);
        let found = plans.iter().position(|plan| {
            plan.len() == parts.len() && plan.iter().zip(&parts).all(|(known, part)| same(known, part))
        });
        found.unwrap_or_else(|| {
            plans.push(Arc::new(parts));
            plans.len() - 1
        }) as u64
    }

    /// The kernel that was made of a function.
    pub(crate) fn kernel_of(&self, py: Python<'_>, function: &Bound<'_, PyAny>) -> Option<Py<PyKernel>> {
        let functions = locked(&self.functions);
        functions.iter().find(|(known, _)| known.is(function)).map(|(_, kernel)| kernel.clone_ref(py))
    }

    /// Keeps an object until the run has ended.
    pub(crate) fn keep(&self, object: Py<PyAny>) {
        locked(&self.kept).push(object);
    }

    /// Somebody outside may hold views of what the run has: it is never given back.
    pub(crate) fn leak(&self, py: Python<'_>) {
        self.leaked.store(true, Ordering::Relaxed);
        locked(&self.kept).iter().for_each(|object| std::mem::forget(object.clone_ref(py)));
    }

    /// The run has ended.
    pub(crate) fn end_run(&self) {
        locked(&self.kept).clear();
    }

    /// Notes that this thread is inside a Python kernel until the note is dropped.
    pub(crate) fn enter_python(&self, py: Python<'_>) -> InsidePython<'_> {
        let _ = py;
        // SAFETY: always this thread's own.
        let thread = unsafe { libc::pthread_self() } as u64;
        locked(&self.running).push(thread);
        InsidePython { shared: self, thread }
    }

    /// If it is an interrupt, the run ends as interrupted.
    pub(crate) fn interrupt_if(&self, py: Python<'_>, error: &PyErr) {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            self.interrupt_with(py, error.clone_ref(py));
        }
    }

    fn interrupt_with(&self, py: Python<'_>, error: PyErr) {
        locked(&self.interrupt).get_or_insert(error);
        let token = locked(&self.token).clone();
        token.interrupt();
        let class = py.get_type::<PyKeyboardInterrupt>();
        // SAFETY: always this thread's own.
        let own = unsafe { libc::pthread_self() } as u64;
        for thread in locked(&self.running).iter().filter(|thread| **thread != own) {
            // SAFETY: the GIL is held; a thread that has gone is not found.
            unsafe { ffi::PyThreadState_SetAsyncExc(*thread as _, class.as_ptr()) };
        }
    }

    /// Has Python handle signals that came, now and then. An interrupt ends the run.
    pub(crate) fn look_for_signals(&self) {
        if !self.polls.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let mut looked = locked(&self.looked);
        if looked.is_some_and(|before| now.duration_since(before) < LOOK_EVERY) {
            return;
        }
        *looked = Some(now);
        drop(looked);
        gil::attached(|py| {
            if let Err(error) = py.check_signals() {
                self.interrupt_with(py, error);
            }
        });
    }
}

impl DeviceContext {
    /// Makes threads that were left behind in Python kernels leave Python. A thread that is inside it when the interpreter
    /// goes would take the process down.
    fn send_home(&self, py: Python<'_>) {
        let class = py.get_type::<pyo3::exceptions::PySystemExit>();
        let begin = Instant::now();
        while !locked(&self.running).is_empty() {
            if begin.elapsed() > Duration::from_secs(2) {
                eprintln!("plimsoll: a kernel that was left behind does not return, so the process ends without it");
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(1) };
            }
            for thread in locked(&self.running).iter() {
                // SAFETY: the GIL is held; a thread that has gone is not found.
                unsafe { ffi::PyThreadState_SetAsyncExc(*thread as _, class.as_ptr()) };
            }
            gil::released(py, || std::thread::sleep(Duration::from_millis(20)));
        }
    }
}

/// A thread inside a Python kernel.
pub(crate) struct InsidePython<'a> {
    shared: &'a DeviceContext,
    thread: u64,
}

impl Drop for InsidePython<'_> {
    fn drop(&mut self) {
        let mut running = locked(&self.shared.running);
        if let Some(place) = running.iter().rposition(|thread| *thread == self.thread) {
            running.swap_remove(place);
        }
    }
}

/// Workers, rings and kernels: what programs run on. Use it in a `with` statement, or close it.
#[pyclass(name = "Device", module = "plimsoll", frozen, weakref)]
pub(crate) struct PyDevice {
    device: Arc<Mutex<Option<plimsoll::Device>>>,
    pub(crate) context: Arc<DeviceContext>,
    settings: RunSettings,
    pid: u32,
    #[pyo3(get)]
    workers: usize,
    #[pyo3(get)]
    engine: String,
    #[pyo3(get)]
    arch: String,
}

/// A graph that was built once and is launched any number of times.
#[pyclass(name = "Graph", module = "plimsoll", frozen)]
pub(crate) struct PyGraph(Mutex<GraphInside>);

struct GraphInside(plimsoll::Prebuilt<'static>);

// SAFETY: what it keeps are Python's objects, which are let go of with the GIL or by PyO3 later.
unsafe impl Send for GraphInside {}

#[pymethods]
impl PyGraph {
    /// Number of tasks.
    #[getter]
    fn tasks(&self) -> usize {
        locked(&self.0).0.tasks()
    }
}

impl PyDevice {
    /// Does something with the device, which no run uses meanwhile.
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut plimsoll::Device) -> PyResult<R>,
    ) -> PyResult<R> {
        if std::process::id() != self.pid {
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

    fn register(
        &self,
        py: Python<'_>,
        name: String,
        core: Option<&str>,
        function: &Bound<'_, PyAny>,
    ) -> PyResult<PyKernel> {
        let class = settings::core_class(core).map_err(|error| raise(py, &error))?;
        let body = python_body(function.clone().unbind(), Arc::clone(&self.context));
        // SAFETY: the body gives Python arrays that know their bounds, read-only where the task does not write; what is kept of
        // them fails the run, which then gives back nothing.
        let kernel = self.with(py, |device| unsafe {
            device.kernel_untyped(class, &name, None, body).map_err(|error| raise(py, &error))
        })?;
        Ok(PyKernel { kernel, is_python: true, name, function: Some(function.clone().unbind()) })
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (*, workers=None, arch=None, engine=None, record=None, out=None, outputs=None, rounds=None, program=None, seed=None, costs=None, lend=true, ring_task_window=None, ring_heap=None, ring_dep_pool=None, tensormap=None, deadline=None, read_timeout=None, op_timeout=None, stall_timeout=None, orch_timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        workers: Option<usize>,
        arch: Option<String>,
        engine: Option<String>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<std::path::PathBuf>,
        outputs: Option<std::path::PathBuf>,
        rounds: Option<u32>,
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
        let raised = |error: plimsoll::Error| raise(py, &error);
        let kind = settings::engine(engine.as_deref(), arch.as_deref(), seed, costs.as_deref()).map_err(raised)?;
        let is_virtual = matches!(kind, EngineKind::Virtual(_));
        let is_host = matches!(kind, EngineKind::Host);
        let mut builder = plimsoll::Device::builder().engine(kind);
        let fewest = if budgets.watches() { 2 } else { 1 };
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        if let Some(workers) = workers.or((is_host && fewest > 1).then(|| cpus().max(fewest))) {
            builder = builder.workers(workers);
        }
        let texts = [ring_task_window, ring_heap, ring_dep_pool, tensormap];
        let sizes = texts.map(|size| size.map(size_text).transpose());
        let [window, heap, deps, map] = sizes;
        let sizes = [window?, heap?, deps?, map?];
        let sizes = [&sizes[0], &sizes[1], &sizes[2], &sizes[3]].map(|size| size.as_deref());
        let builder = settings::set_sizes(builder.lend(lend), sizes).map_err(raised)?;
        let held = HeldSignals::hold();
        let device = gil::released(py, || builder.open()).map_err(raised)?;
        drop(held);
        let settings =
            RunSettings { record: record.map(record_text).transpose()?, out, outputs, rounds, program, budgets };
        let arch = arch.unwrap_or_else(|| "host".to_owned());
        let implied = if arch == "host" { "host" } else { "emulated" };
        let (workers, pid) = (device.workers(), std::process::id());
        let (device, shared) = (Arc::new(Mutex::new(Some(device))), Arc::new(DeviceContext::new(is_virtual)));
        OPEN.note(&device, &shared, pid);
        Ok(Self {
            workers,
            device,
            context: shared,
            settings,
            pid,
            engine: engine.unwrap_or_else(|| implied.to_owned()),
            arch,
        })
    }

    /// Registers a Python function as a kernel. A decorator: `@d.kernel`, or `@d.kernel(name=..., core="aiv")`.
    #[pyo3(signature = (function=None, *, name=None, core=None))]
    fn kernel<'py>(
        slf: Bound<'py, Self>,
        function: Option<Bound<'py, PyAny>>,
        name: Option<String>,
        core: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(function) = function else {
            let options = PyDict::new(py);
            options.set_item("name", name)?;
            options.set_item("core", core)?;
            return py.import("functools")?.getattr("partial")?.call((slf.getattr("kernel")?,), Some(&options));
        };
        let own = || function.getattr("__name__").and_then(|name| name.extract());
        let name = name.map_or_else(|| own().or_else(|_| Ok::<_, PyErr>("kernel".to_owned())), Ok)?;
        let kernel = Bound::new(py, slf.get().register(py, name, core.as_deref(), &function)?)?;
        let mut functions = locked(&slf.get().context.functions);
        functions.push((function.clone().unbind(), kernel.clone().unbind()));
        Ok(kernel.into_any())
    }

    /// Registers `int32_t f(const plimsoll_call *)`: an address, or a function of ctypes, cffi or Numba.
    #[pyo3(signature = (function, *, name=None, core=None))]
    fn native(&self, function: &Bound<'_, PyAny>, name: Option<String>, core: Option<String>) -> PyResult<PyKernel> {
        let py = function.py();
        let (address, own): (usize, String) =
            py.import("plimsoll._kernels")?.call_method1("address_of", (function,))?.extract()?;
        let keep = function.clone().unbind();
        native::register(py, self, name.unwrap_or(own), core.as_deref(), address, keep)
    }

    /// Registers a function of a shared object, which is kept loaded.
    #[pyo3(signature = (path, symbol, *, name=None, core=None))]
    fn load(
        &self,
        path: &Bound<'_, PyAny>,
        symbol: String,
        name: Option<String>,
        core: Option<String>,
    ) -> PyResult<PyKernel> {
        let py = path.py();
        let (address, keep): (usize, Py<PyAny>) =
            py.import("plimsoll._kernels")?.call_method1("load", (path, &symbol))?.extract()?;
        native::register(py, self, name.unwrap_or(symbol), core.as_deref(), address, keep)
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
        rounds: Option<u32>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<std::path::PathBuf>,
        name: Option<String>,
        deadline: Option<f64>,
        read_timeout: Option<f64>,
        op_timeout: Option<f64>,
        stall_timeout: Option<f64>,
        orch_timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let budgets = RunBudgets { deadline, read_timeout, op_timeout, stall_timeout, orch_timeout };
        let own = || program.getattr("__name__").ok().and_then(|name| name.extract::<String>().ok());
        let settings = RunSettings {
            record: record.map(record_text).transpose()?,
            out,
            outputs: None,
            rounds,
            program: name,
            budgets,
        };
        let settings = settings.over(&self.settings).named(own);
        let site = caller_site(py)?;
        self.with(py, |device| run::run(py, device, &self.context, &settings, site, program))
    }

    /// Records what `program(o)` submits as a graph, which `launch` executes.
    fn build(&self, py: Python<'_>, program: &Bound<'_, PyAny>) -> PyResult<PyGraph> {
        let site = caller_site(py)?;
        let graph = self.with(py, |device| run::build(py, device, &self.context, site, program))?;
        Ok(PyGraph(Mutex::new(GraphInside(graph))))
    }

    /// Executes a graph, `rounds` times.
    #[pyo3(signature = (graph, *, rounds=None, record=None, out=None, name=None, deadline=None, op_timeout=None, stall_timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        py: Python<'_>,
        graph: &Bound<'_, PyGraph>,
        rounds: Option<u32>,
        record: Option<&Bound<'_, PyAny>>,
        out: Option<std::path::PathBuf>,
        name: Option<String>,
        deadline: Option<f64>,
        op_timeout: Option<f64>,
        stall_timeout: Option<f64>,
    ) -> PyResult<()> {
        let budgets = RunBudgets { deadline, op_timeout, stall_timeout, ..RunBudgets::default() };
        let settings = RunSettings {
            record: record.map(record_text).transpose()?,
            out,
            outputs: None,
            rounds,
            program: name,
            budgets,
        };
        let settings = settings.over(&self.settings).named(|| Some("graph".to_owned()));
        let site = caller_site(py)?;
        let mut graph = locked(&graph.get().0);
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
        if std::process::id() != self.pid {
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
        let leaked = self.context.leaked.load(Ordering::Relaxed);
        // Workers let go of their thread states on their way out, for which they need the GIL.
        gil::released(py, || if leaked { std::mem::forget(device) } else { drop(device) });
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
        let Some(device) = locked(&self.device).take() else { return };
        if std::process::id() != self.pid || gil::exiting() || self.context.leaked.load(Ordering::Relaxed) {
            return std::mem::forget(device);
        }
        Python::attach(|py| gil::released(py, || drop(device)));
    }
}

/// The devices that are open, for the end of the interpreter.
static OPEN: OpenDevices = OpenDevices(Mutex::new(Vec::new()));

struct OpenDevices(Mutex<Vec<OpenDevice>>);

struct OpenDevice {
    device: Weak<Mutex<Option<plimsoll::Device>>>,
    shared: Weak<DeviceContext>,
    pid: u32,
}

impl OpenDevices {
    fn note(&self, device: &Arc<Mutex<Option<plimsoll::Device>>>, shared: &Arc<DeviceContext>, pid: u32) {
        let mut open = locked(&self.0);
        open.retain(|one| one.device.strong_count() > 0);
        open.push(OpenDevice { device: Arc::downgrade(device), shared: Arc::downgrade(shared), pid });
    }
}

/// Closes all devices: the interpreter is on its way out, and after it no worker may touch Python.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) {
    let open = std::mem::take(&mut *locked(&OPEN.0));
    for one in open.iter().filter(|one| one.pid == std::process::id()) {
        let (Some(device), Some(shared)) = (one.device.upgrade(), one.shared.upgrade()) else { continue };
        let taken = device.try_lock().ok().and_then(|mut device| device.take());
        let leaked = shared.leaked.load(Ordering::Relaxed);
        gil::released(py, || if leaked { std::mem::forget(taken) } else { drop(taken) });
        shared.send_home(py);
    }
    gil::set_exiting();
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
