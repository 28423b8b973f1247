//! What a Python kernel knows of its own execution: which block and which part it is, and its way to the other parts.
//!
//! Parts of a mixed task may be coroutines of one worker, and pipes know them by the thread that calls. Python runs on another
//! thread, so what it gives and takes is asked of the worker, which waits for it.

use crate::context::{DeviceContext, LOOK_EVERY};
use crate::element::ArrayElement;
use crate::error::invalid;
use crate::gil;
use plimsoll::abi::Dtype;
use plimsoll::untyped::{BlockContext, Call};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// What the worker is asked to do.
enum PipeRequest {
    Push(u32, u64, Sender<Result<u64, String>>),
    Pop(u32, Sender<Result<u64, String>>),
}

impl PipeRequest {
    /// Does it as this call's part.
    fn answer(self, call: &Call<'_>) {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let (outcome, reply) = match self {
            Self::Push(to, bits, reply) => (call.push(to, bits).map(|()| 0).map_err(|error| text(&error)), reply),
            Self::Pop(from, reply) => (call.pop(from).map_err(|error| text(&error)), reply),
        };
        // Whoever asked waits, unless its thread was made to leave.
        let _ = reply.send(outcome);
    }
}

/// The execution that a thread is in.
#[derive(Clone)]
struct Execution {
    context: BlockContext,
    pipes: Option<Sender<PipeRequest>>,
}

thread_local! {
    static EXECUTION: RefCell<Option<Execution>> = const { RefCell::new(None) };
}

/// Notes which execution this thread is in while `work` runs.
pub(crate) fn within<R>(context: BlockContext, work: impl FnOnce() -> R) -> R {
    struct Outer(Option<Execution>);
    impl Drop for Outer {
        fn drop(&mut self) {
            EXECUTION.set(self.0.take());
        }
    }
    let outer = EXECUTION.take();
    let pipes = outer.as_ref().and_then(|outer| outer.pipes.clone());
    let _outer = Outer(outer);
    EXECUTION.set(Some(Execution { context, pipes }));
    work()
}

/// Does the work of a mixed task's part on a thread that lives for it, and gives and takes for it meanwhile.
pub(crate) fn on_own_thread<R>(shared: &DeviceContext, call: &Call<'_>, work: impl FnOnce() -> R) -> R {
    let context = call.context();
    let (sender, requests) = channel();
    let work = gil::AssertSend::new(work);
    let outcome = std::thread::scope(|scope| {
        let part = scope.spawn(move || {
            gil::keep_state();
            EXECUTION.set(Some(Execution { context, pipes: Some(sender) }));
            let outcome = gil::AssertSend::new((work.get())());
            // The worker goes on when nobody can ask any more.
            EXECUTION.set(None);
            outcome
        });
        loop {
            match requests.recv_timeout(LOOK_EVERY) {
                Ok(request) => request.answer(call),
                // The worker may be the thread that handles signals, and is on the stack of a coroutine here.
                Err(RecvTimeoutError::Timeout) => shared.look_for_interrupt(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        part.join()
    });
    match outcome {
        Ok(outcome) => outcome.get(),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Which of its task's executions a kernel is.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import InOut
/// >>> rows = np.zeros((2, 3))
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel(in_blocks=True)
/// ...     def fill(x):
/// ...         own = plimsoll.block()
/// ...         x[own.index] = own.index + own.count
/// ...     d.run(lambda o: o.submit(fill, InOut(o.tensor(rows)), blocks=2))
/// >>> rows
/// array([[2., 2., 2.],
///        [3., 3., 3.]])
#[pyclass(name = "Block", module = "plimsoll", frozen)]
pub(crate) struct PyBlock(BlockContext);

#[pymethods]
impl PyBlock {
    /// The number of the block, from 0.
    #[getter]
    fn index(&self) -> u32 {
        self.0.index
    }

    /// How many blocks the task has.
    #[getter]
    fn count(&self) -> u32 {
        self.0.count
    }

    /// Which part of a mixed task it is, from 0.
    #[getter]
    fn part(&self) -> u32 {
        self.0.part
    }

    /// How many parts the task has; 1 unless it is a mixed one.
    #[getter]
    fn parts(&self) -> u32 {
        self.0.parts
    }

    /// Gives a number to part `to` of the same block: a float as f64, an integer as i64. Waits while the pipe is full.
    fn push(&self, py: Python<'_>, to: u32, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let bits = match value.extract::<i64>() {
            Ok(number) => number as u64,
            Err(_) => value.extract::<f64>()?.to_bits(),
        };
        ask(py, |reply| PipeRequest::Push(to, bits, reply)).map(drop)
    }

    /// Takes the next number that part `source` of the same block gave, of the dtype that it was given as. Waits for it.
    #[pyo3(signature = (source, dtype=None))]
    fn pop<'py>(&self, py: Python<'py>, source: u32, dtype: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let element = dtype.map(ArrayElement::from_any).transpose()?;
        let bits = ask(py, |reply| PipeRequest::Pop(source, reply))?;
        Ok(match element.map_or(Dtype::F64, |element| element.spec.dtype) {
            Dtype::F64 => f64::from_bits(bits).into_pyobject(py)?.into_any(),
            Dtype::F32 => f64::from(f32::from_bits(bits as u32)).into_pyobject(py)?.into_any(),
            _ => (bits as i64).into_pyobject(py)?.into_any(),
        })
    }

    fn __repr__(&self) -> String {
        let BlockContext { index, count, part, parts } = self.0;
        format!("<plimsoll.Block {index} of {count}, part {part} of {parts}>")
    }
}

/// Asks the worker, and waits for its reply without the GIL.
fn ask(py: Python<'_>, request: impl FnOnce(Sender<Result<u64, String>>) -> PipeRequest) -> PyResult<u64> {
    let pipes = EXECUTION.with_borrow(|execution| execution.as_ref().and_then(|one| one.pipes.clone()));
    let Some(pipes) = pipes else {
        return Err(invalid(
            py,
            "There is no other part to pass values to. Only parts of a mixed task have pipes, on the thread that calls the kernel. Submit the kernel with `parts=`.",
        ));
    };
    let (reply, answer) = channel();
    let outcome = gil::released(py, || {
        pipes.send(request(reply)).ok()?;
        answer.recv().ok()
    });
    match outcome {
        Some(Ok(bits)) => Ok(bits),
        Some(Err(text)) => Err(pyo3::exceptions::PyRuntimeError::new_err(text)),
        None => Err(pyo3::exceptions::PyRuntimeError::new_err("the run is on its way out")),
    }
}

/// Which execution the kernel is that calls this.
///
/// >>> import numpy as np, plimsoll
/// >>> from plimsoll import Out
/// >>> with plimsoll.Device(workers=2) as d:
/// ...     @d.kernel(in_blocks=True)
/// ...     def which(x):
/// ...         x[plimsoll.block().index] = plimsoll.block().index
/// ...     d.run(lambda o: o.read(o.submit(which, Out(3, "i64"), blocks=3)))
/// array([0, 1, 2])
#[pyfunction]
pub(crate) fn block(py: Python<'_>) -> PyResult<PyBlock> {
    let context = EXECUTION.with_borrow(|execution| execution.as_ref().map(|execution| execution.context));
    context.map(PyBlock).ok_or_else(|| {
        invalid(py, "No kernel runs on this thread. Only executions of tasks are blocks. Call it in a kernel.")
    })
}
