//! Handing Python over to a thread that is no coroutine.
//!
//! In virtual time the program and every kernel are coroutines of one loop, on stacks that Python must not see. There the loop
//! runs on a thread of its own, and the thread that called `Device.run` does all that is Python:
//!
//! ```text
//!   loop's thread                                   caller's thread
//!   program coroutine ── Program ─────────────────► calls the orchestration
//!         ◄─────────────── an operation on `o` ────   and waits for its reply
//!   kernel coroutine ─── Kernel ──────────────────►   calls the kernel meanwhile
//!         ◄─────────────── done ───────────────────
//!   program coroutine ── Replied ─────────────────►   goes on
//! ```
//!
//! One side waits whenever the other works. Parts of mixed tasks wait for each other, so each is handed to a thread that lives
//! for its call ([`block`](crate::block)).

use crate::context::DeviceContext;
use crate::gil;
use plimsoll::untyped;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Work that another thread does while whoever made it waits.
struct Job(*mut (dyn FnMut() + 'static));

// SAFETY: whoever sends one waits until it is done.
unsafe impl Send for Job {}

impl Job {
    fn new(work: &mut dyn FnMut()) -> Self {
        let work: *mut (dyn FnMut() + '_) = work;
        // SAFETY: only the lifetime changes; the sender waits until the job is done.
        Self(unsafe { std::mem::transmute::<*mut (dyn FnMut() + '_), *mut (dyn FnMut() + 'static)>(work) })
    }

    fn call(self) {
        // SAFETY: the sender waits, and nobody else has it.
        unsafe { (*self.0)() }
    }
}

/// An operation on the orchestrator, which the program's coroutine does.
struct Operation(*mut (dyn FnMut(&mut BareOrchestrator) + 'static));

// SAFETY: as for `Job`.
unsafe impl Send for Operation {}

/// The orchestrator without its lifetimes: it is used inside the call that it is valid for.
pub(crate) type BareOrchestrator = untyped::Orchestrator<'static, 'static>;

/// What the caller's thread is told.
enum ToCaller {
    /// The program begins: its operations go here.
    Program(Sender<ToProgram>),
    Kernel(Job, Sender<()>),
    Replied,
    /// The run is over.
    Ended,
}

enum ToProgram {
    Operation(Operation),
    Finished,
}

/// The loop's end of a relay.
#[derive(Clone)]
pub(crate) struct RelaySender(Sender<ToCaller>);

/// The caller's end of a relay.
pub(crate) struct RelayCaller(Receiver<ToCaller>);

pub(crate) fn relay() -> (RelaySender, RelayCaller) {
    let (sender, receiver) = channel();
    (RelaySender(sender), RelayCaller(receiver))
}

/// Does `work` on a thread that is no coroutine, and waits for it.
pub(crate) fn hand_over<R: Send>(shared: &DeviceContext, work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let mut outcome = None;
    let mut call = || outcome = work.take().map(|work| work());
    let job = Job::new(&mut call);
    match shared.relay() {
        Some(relay) => {
            let (done, finished) = channel();
            // A caller that has gone does nothing any more, and the job is dropped with the message.
            if relay.0.send(ToCaller::Kernel(job, done)).is_ok() {
                let _ = finished.recv();
            }
        }
        None => std::thread::scope(|scope| {
            scope.spawn(move || {
                let job = job;
                gil::keep_state();
                job.call();
            });
        }),
    }
    match outcome {
        Some(outcome) => outcome,
        None => panic!("the thread that does what is Python has gone"),
    }
}

impl RelaySender {
    /// The program, as the loop sees it: does what the caller's thread asks of the orchestrator, until that is through.
    pub(crate) fn serve(&self, o: &mut BareOrchestrator) {
        let (sender, operations) = channel();
        let _ = self.0.send(ToCaller::Program(sender));
        while let Ok(ToProgram::Operation(operation)) = operations.recv() {
            // SAFETY: the caller's thread waits for the reply.
            unsafe { (*operation.0)(o) };
            let _ = self.0.send(ToCaller::Replied);
        }
    }

    pub(crate) fn end(&self) {
        let _ = self.0.send(ToCaller::Ended);
    }
}

/// The orchestrator, reached from the caller's thread.
pub(crate) struct RelayedProgram {
    operations: Sender<ToProgram>,
}

impl Drop for RelayedProgram {
    fn drop(&mut self) {
        let _ = self.operations.send(ToProgram::Finished);
    }
}

impl RelayCaller {
    /// Does what is asked of this thread until `until` comes. Looks for signals meanwhile.
    fn attend(&self, shared: &DeviceContext, is_last: impl Fn(&ToCaller) -> bool) -> Option<ToCaller> {
        loop {
            match self.0.recv_timeout(Duration::from_millis(20)) {
                Ok(message) if is_last(&message) => return Some(message),
                Ok(ToCaller::Kernel(job, done)) => {
                    job.call();
                    let _ = done.send(());
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => shared.look_for_signals(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Waits for the next program of the run; nothing, when the run is over.
    pub(crate) fn next_program(&self, shared: &DeviceContext) -> Option<RelayedProgram> {
        match self.attend(shared, |message| matches!(message, ToCaller::Program(_) | ToCaller::Ended))? {
            ToCaller::Program(operations) => Some(RelayedProgram { operations }),
            _ => None,
        }
    }

    /// Has the program's coroutine do `operation`, and does meanwhile what is asked of this thread.
    pub(crate) fn call<R>(
        &self,
        py: Python<'_>,
        shared: &DeviceContext,
        program: &RelayedProgram,
        operation: impl FnOnce(&mut BareOrchestrator) -> R,
    ) -> Option<R> {
        let mut operation = Some(operation);
        let mut outcome = None;
        let mut call = |o: &mut BareOrchestrator| outcome = operation.take().map(|operation| operation(o));
        let work: *mut (dyn FnMut(&mut BareOrchestrator) + '_) = &mut call;
        // SAFETY: only the lifetime changes; this call waits for the reply.
        let work = Operation(unsafe {
            std::mem::transmute::<
                *mut (dyn FnMut(&mut BareOrchestrator) + '_),
                *mut (dyn FnMut(&mut BareOrchestrator) + 'static),
            >(work)
        });
        gil::released(py, || {
            program.operations.send(ToProgram::Operation(work)).ok()?;
            self.attend(shared, |message| matches!(message, ToCaller::Replied | ToCaller::Ended))
        });
        outcome
    }
}
