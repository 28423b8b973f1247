//! What a device's runs and its Python kernels share: what is kept alive, how arguments are made, who is inside Python, and signals.

use crate::element::ArrayElement;
use crate::gil;
use crate::kernel::PyKernel;
use crate::lease::{CallLease, KeptLeases};
use crate::memory::EnteredArray;
use crate::orchestrator::locked;
use crate::relay::RelaySender;
use plimsoll::CancelToken;
use plimsoll::untyped::Clock;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// What a Python kernel is told of an argument besides what the argument says itself.
pub(crate) struct PlanPart {
    /// The elements of each of its tensors. Empty where the runtime knows the dtype of all of them.
    pub(crate) elements: Vec<ArrayElement>,
    pub(crate) is_list: bool,
    /// Whether it may be written, though inference does not look at it.
    pub(crate) writes: bool,
}

/// What a device's runs and Python kernels share.
pub(crate) struct DeviceContext {
    pub(crate) is_virtual: bool,
    pub(crate) clock: Clock,
    /// Waits for the GIL shorter than this count as part of the kernel.
    pub(crate) least_wait_ticks: u64,
    /// Plans by number: how the argument objects of a Python kernel are made where the argument words do not tell (lists, users' types).
    plans: Mutex<Vec<Arc<Vec<PlanPart>>>>,
    /// The arrays that tasks may use.
    kept: Mutex<Vec<Weak<EnteredArray>>>,
    /// Who holds views of memory that would be given back.
    pub(crate) leases: KeptLeases,
    /// Where Python is handed to in virtual time.
    relay: Mutex<Option<RelaySender>>,
    /// Ends the run at hand.
    pub(crate) token: Mutex<CancelToken>,
    /// The interrupt that ended it.
    pub(crate) interrupt: Mutex<Option<PyErr>>,
    /// How the last run failed, if it did.
    pub(crate) failure: Mutex<Option<plimsoll::Error>>,
    /// Whether the run at hand looks for signals: Python has them handled by its main thread.
    pub(crate) polls: AtomicBool,
    looked: Mutex<Option<Instant>>,
    /// The thread that looks for interrupts where it must not call Python; 0 if there is none.
    interrupted_thread: AtomicU64,
    /// The kernels of functions that are submitted themselves.
    pub(crate) functions: Mutex<Vec<(Py<PyAny>, Py<PyKernel>)>>,
    /// Threads inside Python kernels or the orchestration, innermost last.
    running: Mutex<Vec<RunningThread>>,
    /// How many runs and builds have begun.
    runs: AtomicU64,
}

/// This thread, by Python's number.
fn own_thread() -> u64 {
    // SAFETY: always this thread's own.
    unsafe { libc::pthread_self() as u64 }
}

/// A thread inside Python that belongs to a run.
#[derive(Clone, Copy)]
struct RunningThread {
    /// By Python's number.
    thread: u64,
    is_orchestrating: bool,
    /// Whether it was made to raise something, which it may not have done yet.
    thrown: bool,
}

/// How often signals are looked for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

impl DeviceContext {
    pub(crate) fn new(is_virtual: bool) -> Self {
        let clock = Clock::new();
        Self {
            is_virtual,
            clock,
            least_wait_ticks: clock.hz() / 1_000_000,
            plans: Mutex::default(),
            kept: Mutex::default(),
            leases: KeptLeases::default(),
            relay: Mutex::default(),
            token: Mutex::default(),
            interrupt: Mutex::default(),
            failure: Mutex::default(),
            polls: AtomicBool::new(false),
            looked: Mutex::default(),
            interrupted_thread: AtomicU64::new(0),
            functions: Mutex::default(),
            running: Mutex::default(),
            runs: AtomicU64::new(0),
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
        let same_element = |(a, b): (&ArrayElement, &ArrayElement)| a.spec == b.spec && same_descr(a, b);
        let same = |known: &PlanPart, part: &PlanPart| {
            (known.is_list, known.writes, known.elements.len()) == (part.is_list, part.writes, part.elements.len())
                && known.elements.iter().zip(&part.elements).all(same_element)
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

    /// Notes an array that tasks may use as long as it is kept.
    pub(crate) fn keep(&self, array: &Arc<EnteredArray>) {
        let mut kept = locked(&self.kept);
        if kept.len() == kept.capacity() {
            kept.retain(|array| array.strong_count() > 0);
        }
        kept.push(Arc::downgrade(array));
    }

    /// Somebody outside may hold views of what tasks use: it lives as long as they do.
    pub(crate) fn keep_views(&self, lease: &Bound<'_, CallLease>) {
        let arrays = locked(&self.kept).iter().filter_map(Weak::upgrade).collect();
        self.leases.keep(lease, arrays);
    }

    /// The run has ended.
    pub(crate) fn end_run(&self, py: Python<'_>) {
        crate::error::drop_unasked(py);
        drop(self.leases.living(py));
        crate::memory::drop_left(py);
    }

    /// Notes that this thread is inside a Python kernel, or in the orchestration, until the note is dropped, with the GIL held.
    pub(crate) fn enter_python(&self, py: Python<'_>, is_orchestrating: bool) -> InsidePython<'_> {
        let _ = py;
        let thread = own_thread();
        locked(&self.running).push(RunningThread { thread, is_orchestrating, thrown: false });
        InsidePython { shared: self, thread }
    }

    /// Makes threads of the run raise this, but for this one.
    fn throw(&self, class: &Bound<'_, PyAny>, orchestrating_too: bool) {
        let own = own_thread();
        for one in locked(&self.running).iter_mut() {
            if one.thread != own && (orchestrating_too || !one.is_orchestrating) {
                one.thrown = true;
                // SAFETY: the GIL is held; a thread that has gone is not found.
                unsafe { ffi::PyThreadState_SetAsyncExc(one.thread as _, class.as_ptr()) };
            }
        }
    }

    /// Numbers the run or build that begins.
    pub(crate) fn begin_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The run of this number was given up, and waits for Python code that does not end: has that raise `GivenUp`, so that the run
    /// returns. Waits for the GIL, maybe for ever; by then the run may have returned by itself, and another one have begun.
    pub(crate) fn end_hung_code(&self, run: u64) {
        gil::attached(|py| {
            // Runs begin with the GIL held.
            if let (Ok(class), true) = (given_up(py), self.runs.load(Ordering::Relaxed) == run) {
                self.throw(&class, true);
            }
        });
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
        self.throw(&py.get_type::<PyKeyboardInterrupt>(), false);
    }

    /// The run at hand is this thread's. If Python has it handle signals, and raise KeyboardInterrupt for Ctrl-C, it looks for that
    /// also where it must not call Python.
    pub(crate) fn begin_signals(&self, handles: bool, is_default: bool) {
        self.polls.store(handles, Ordering::Relaxed);
        let thread = if handles && is_default { own_thread() } else { 0 };
        self.interrupted_thread.store(thread, Ordering::Relaxed);
    }

    /// Ends the run if Ctrl-C came. For the stack of a coroutine, where no handler may be called.
    pub(crate) fn look_for_interrupt(&self) {
        if self.interrupted_thread.load(Ordering::Relaxed) != own_thread() {
            return;
        }
        gil::attached(|py| {
            // SAFETY: the GIL is held. It takes note of the signal and calls nothing.
            if unsafe { ffi::PyOS_InterruptOccurred() } != 0 {
                self.interrupt_with(py, PyKeyboardInterrupt::new_err(()));
            }
        });
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
    /// Ends the run at hand, if there is one, and makes threads that were left behind in Python kernels leave Python. A thread that
    /// is inside it when the interpreter goes would take the process down.
    ///
    /// `is_busy` says whether the device is in use: whoever uses it gives it back with the GIL held, on its way to Python's own code.
    pub(crate) fn send_home(&self, py: Python<'_>, is_busy: impl Fn() -> bool) {
        let class = py.get_type::<pyo3::exceptions::PySystemExit>();
        let begin = Instant::now();
        loop {
            let busy = is_busy();
            if !busy && locked(&self.running).is_empty() {
                return;
            }
            if begin.elapsed() > gil::LEAVING {
                eprintln!("plimsoll: a kernel that was left behind does not return, so the process ends without it");
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(1) };
            }
            if busy {
                let token = locked(&self.token).clone();
                token.cancel();
            }
            self.throw(&class, true);
            gil::released(py, || std::thread::sleep(LOOK_EVERY));
        }
    }
}

/// A thread inside a Python kernel or the orchestration.
pub(crate) struct InsidePython<'a> {
    shared: &'a DeviceContext,
    thread: u64,
}

impl Drop for InsidePython<'_> {
    fn drop(&mut self) {
        let mut running = locked(&self.shared.running);
        let Some(place) = running.iter().rposition(|one| one.thread == self.thread) else { return };
        if running.remove(place).thrown {
            // What it did not raise inside, it does not raise elsewhere.
            // SAFETY: whoever is inside Python holds the GIL.
            unsafe { ffi::PyThreadState_SetAsyncExc(self.thread as _, std::ptr::null_mut()) };
        }
    }
}

/// What Python code raises that a run was given up for.
pub(crate) fn given_up(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("plimsoll._error")?.getattr("GivenUp")
}
