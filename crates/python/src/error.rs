//! `plimsoll.Error`, and what becomes of a run's failure in Python.

use crate::orchestrator::locked;
use plimsoll::run::ErrorCode;
use plimsoll_capi::wording::{Language, worded};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard};

static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// What a Python kernel raised, on its way through the run.
#[derive(Debug)]
pub(crate) struct Raised {
    /// Taken when it is raised in Python. The device keeps the run's error longer, and an exception that is kept would keep alive,
    /// by its traceback, arrays of the run.
    error: Mutex<Option<PyErr>>,
    text: String,
}

impl Raised {
    pub(crate) fn new(py: Python<'_>, error: PyErr) -> Self {
        let text = match error.value(py).str() {
            Ok(text) if !text.to_string_lossy().is_empty() => {
                format!("it raised {}: {}", type_name(py, &error), text.to_string_lossy())
            }
            _ => format!("it raised {}", type_name(py, &error)),
        };
        Self { error: Mutex::new(Some(error)), text }
    }

    /// What was raised in the kernel that an error tells of.
    fn of(error: &plimsoll::Error) -> Option<MutexGuard<'_, Option<PyErr>>> {
        error.source().and_then(|source| source.downcast_ref::<Self>()).map(|raised| locked(&raised.error))
    }
}

fn type_name(py: Python<'_>, error: &PyErr) -> String {
    error.get_type(py).getattr("__name__").and_then(|name| name.extract()).unwrap_or_else(|_| "an exception".to_owned())
}

/// What was raised and nobody asked for. Whoever drops an error of the run need not hold the GIL: the orchestrating thread may have
/// [let go](crate::gil::let_go) of it without PyO3 knowing, which would let go of the exception at once.
static DROPPED: Mutex<Vec<PyErr>> = Mutex::new(Vec::new());

impl Drop for Raised {
    fn drop(&mut self) {
        locked(&DROPPED).extend(locked(&self.error).take());
    }
}

/// Lets go of what was raised and nobody asked for.
pub(crate) fn drop_unasked(_: Python<'_>) {
    // That may run any Python: no lock is held then.
    let dropped = std::mem::take(&mut *locked(&DROPPED));
    drop(dropped);
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Raised {}

/// An error of the runtime as `plimsoll.Error`, whose cause is what a Python kernel raised, if one did.
pub(crate) fn raise(py: Python<'_>, error: &plimsoll::Error) -> PyErr {
    let made = make(py, error).unwrap_or_else(|problem| problem);
    let raised = Raised::of(error).and_then(|raised| raised.as_ref().map(|raised| raised.clone_ref(py)));
    if let Some(raised) = raised {
        made.set_cause(py, Some(raised));
    }
    made
}

fn make(py: Python<'_>, error: &plimsoll::Error) -> PyResult<PyErr> {
    let class =
        CLASS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("plimsoll._error")?.getattr("Error")?.unbind()))?;
    let value = class.bind(py).call1((error.code().number(), error.code().name(), told(error)))?;
    value.setattr("needed", error.needed())?;
    value.setattr("needed_is_bound", error.needed_is_bound())?;
    value.setattr("site", error.site())?;
    value.setattr("kernel", error.kernel())?;
    value.setattr("task", error.task().map(|task| task.to_string()))?;
    value.setattr("worker", error.worker())?;
    value.setattr("resource", error.resource().map(|resource| resource.to_string()))?;
    value.setattr("ring", error.ring())?;
    value.setattr("used", error.used())?;
    value.setattr("capacity", error.capacity())?;
    Ok(PyErr::from_value(value))
}

/// What happened, why, and what to do, in the words of this language.
fn told(error: &plimsoll::Error) -> String {
    worded(error.explanation(), Language::Python)
}

/// An InvalidArgs of the caller's.
pub(crate) fn invalid(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, &plimsoll::Error::invalid(text))
}

/// The failure of a run: an interrupt is Python's own, caused by the run's error.
pub(crate) fn raise_run(py: Python<'_>, error: &plimsoll::Error) -> PyErr {
    let made = raise(py, error);
    let arrived = Raised::of(error).and_then(|mut raised| raised.take());
    drop(arrived);
    if error.code() != ErrorCode::Interrupted {
        return made;
    }
    let interrupt = PyKeyboardInterrupt::new_err(told(error));
    interrupt.set_cause(py, Some(made));
    interrupt
}
