//! Forks of the process: a device's workers and its records belong to the process that opened it.
//!
//! A fork has one thread, the one that forked. Where that was inside a kernel or an orchestration, the fork may do what it likes there,
//! but must not come back into the run: it would wait for workers that it does not have, and write into records that it shares
//! with its parent. So it ends instead.

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the process that loaded this library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A process, as far as forks of it are told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessMark(u32);

impl ProcessMark {
    pub(crate) fn of_this() -> Self {
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is a fork of that process.
    pub(crate) fn is_parent(self) -> bool {
        self != Self::of_this()
    }
}

/// Has forks counted from now on.
pub(crate) fn count_forks() {
    extern "C" fn forked() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the function touches one atomic number, which any thread may at any time.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Ends a fork that would come back into its parent's run, in Python's way: what it raised is printed, its exit code is kept.
pub(crate) fn end_process(py: Python<'_>, raised: Option<&PyErr>) -> ! {
    let code = match raised {
        Some(error) if error.is_instance_of::<PySystemExit>(py) => {
            let code = error.value(py).getattr("code");
            code.map_or(1, |code| if code.is_none() { 0 } else { code.extract().unwrap_or(1) })
        }
        Some(error) => {
            error.print(py);
            1
        }
        None => {
            eprintln!(
                "plimsoll: a fork of the process came back from a kernel or an orchestration. The run belongs to its parent. It ends here; end such a fork with `os._exit`."
            );
            1
        }
    };
    for name in ["stdout", "stderr"] {
        let stream = py.import("sys").and_then(|sys| sys.getattr(name));
        let _ = stream.and_then(|stream| stream.call_method0("flush"));
    }
    // SAFETY: ends the process at once, without what its parent would do at its own end.
    unsafe { libc::_exit(code) }
}
