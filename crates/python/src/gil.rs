//! Who holds the GIL when: workers one thread state for their life, the orchestrating thread not while it waits.
//!
//! The orchestrating thread holds the GIL in the orchestration and in its calls. Once such a call would wait or execute tasks,
//! the run's pulse lets go of the GIL ([`let_go`]); the call takes it again before it returns to Python ([`take_back`]). So a
//! submit that does not wait costs no hand-over, and no wait keeps a kernel from the GIL.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    /// The orchestrating thread's state while the thread is inside a call and may let go of the GIL.
    static CALLING: Cell<bool> = const { Cell::new(false) };
    static LET_GO: Cell<*mut ffi::PyThreadState> = const { Cell::new(std::ptr::null_mut()) };
    static WORKER: KeptState = const { KeptState(Cell::new(std::ptr::null_mut()), Cell::new(ffi::PyGILState_STATE::PyGILState_UNLOCKED)) };
}

/// A thread state that outlives the calls of Python that need it.
struct KeptState(Cell<*mut ffi::PyThreadState>, Cell<ffi::PyGILState_STATE>);

impl Drop for KeptState {
    fn drop(&mut self) {
        let Some(_inside) = InsideNote::begin() else { return };
        // SAFETY: the state is this thread's, and was put aside by `keep_state`. After the interpreter's end nobody may touch it.
        unsafe {
            if !self.0.get().is_null() && ffi::Py_IsInitialized() != 0 {
                ffi::PyEval_RestoreThread(self.0.get());
                ffi::PyGILState_Release(self.1.get());
            }
        }
    }
}

static EXITING: AtomicBool = AtomicBool::new(false);

/// How many threads have the GIL by [`attached`], wait for it, or are about to.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// How long the interpreter's end waits for threads to leave it.
pub(crate) const LEAVING: Duration = Duration::from_secs(2);

/// Whether the interpreter is on its way out.
pub(crate) fn exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// From now on threads leave the interpreter alone. Returns when those that had not left it yet have: one that is inside when the
/// interpreter goes would take the process down.
pub(crate) fn leave_to_none(py: Python<'_>) {
    // SeqCst pairs(gil.inside): whoever does not see it here is seen to be inside.
    EXITING.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    // SeqCst pairs(gil.inside): as above.
    while INSIDE.load(Ordering::SeqCst) > 0 && begin.elapsed() < LEAVING {
        released(py, || std::thread::sleep(Duration::from_millis(1)));
    }
}

/// A note that this thread uses the interpreter, until it is dropped.
struct InsideNote;

impl InsideNote {
    /// Nothing, if the interpreter is on its way out.
    fn begin() -> Option<Self> {
        // SeqCst pairs(gil.inside): `leave_to_none` sees this, or this thread sees below that it was called.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let note = Self;
        // SeqCst pairs(gil.inside): as above.
        (!EXITING.load(Ordering::SeqCst)).then_some(note)
    }
}

impl Drop for InsideNote {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a thread state for this thread, if it has none, which it keeps for its life: else every kernel would make one.
pub(crate) fn keep_state() {
    // SAFETY: the GIL is taken and put aside again at once; the count of the state stays above zero until the thread ends.
    WORKER.with(|kept| unsafe {
        let Some(_inside) = InsideNote::begin() else { return };
        if kept.0.get().is_null() && ffi::PyGILState_GetThisThreadState().is_null() {
            kept.1.set(ffi::PyGILState_Ensure());
            kept.0.set(ffi::PyEval_SaveThread());
        }
    });
}

/// Does `call` with the GIL, on whatever thread this is. Nothing, if the interpreter is on its way out.
///
/// PyO3 counts who is attached by its own calls, and does not know of [`let_go`]: so the GIL is taken with the interpreter's.
pub(crate) fn attached<R>(call: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    struct Release(ffi::PyGILState_STATE);
    impl Drop for Release {
        fn drop(&mut self) {
            // SAFETY: it was taken below, by this thread.
            unsafe { ffi::PyGILState_Release(self.0) };
        }
    }
    let _inside = InsideNote::begin()?;
    // SAFETY: the interpreter is there: it loaded this library, and says before it goes.
    let _held = Release(unsafe { ffi::PyGILState_Ensure() });
    Some(Python::attach(call))
}

/// Does `call`, which may let go of the GIL on its way. The thread may be inside another such call already: it executes tasks of
/// one device, and a kernel among them runs a program on another.
pub(crate) fn calling<R>(_: Python<'_>, call: impl FnOnce() -> R) -> R {
    struct TakeBack {
        outer_calling: bool,
        outer_let_go: *mut ffi::PyThreadState,
    }
    impl Drop for TakeBack {
        fn drop(&mut self) {
            CALLING.set(self.outer_calling);
            let state = LET_GO.replace(self.outer_let_go);
            if !state.is_null() {
                // SAFETY: it is this thread's, put aside in `let_go`.
                unsafe { ffi::PyEval_RestoreThread(state) };
            }
        }
    }
    let taken = TakeBack { outer_calling: CALLING.replace(true), outer_let_go: LET_GO.replace(std::ptr::null_mut()) };
    let outcome = call();
    drop(taken);
    outcome
}

/// What stays on one thread, or is used by one thread at a time, though the compiler does not know it.
pub(crate) struct AssertSend<T>(T);

// SAFETY: whoever makes one says why that holds.
unsafe impl<T> Send for AssertSend<T> {}

impl<T> AssertSend<T> {
    /// Either it stays on this thread, or those that use it wait for each other, as a relay has it.
    pub(crate) fn new(inside: T) -> Self {
        Self(inside)
    }

    pub(crate) fn get(self) -> T {
        self.0
    }
}

/// Does `call` without the GIL. The closure stays on this thread, and touches Python only where it takes the GIL.
pub(crate) fn released<R>(py: Python<'_>, call: impl FnOnce() -> R) -> R {
    let call = AssertSend::new(call);
    py.detach(move || AssertSend::new((call.get())())).get()
}

/// Lets go of the GIL until the call that this thread is inside returns. Does nothing elsewhere, or twice.
pub(crate) fn let_go() {
    if CALLING.get() && LET_GO.get().is_null() {
        // SAFETY: a thread inside `calling` holds the GIL unless it has let go of it.
        LET_GO.set(unsafe { ffi::PyEval_SaveThread() });
    }
}
