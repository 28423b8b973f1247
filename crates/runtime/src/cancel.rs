//! Ending runs from elsewhere: a token that runs are given, and what it calls when it is used.
//!
//! Nobody polls a token. A run registers a call with its token and takes the call back at its end. Whoever uses the token
//! makes the registered calls, on its own thread.

use plimsoll_abi::ErrorCode;
use plimsoll_sched::{Failure, FailureCause};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ends runs from another thread.
#[derive(Clone, Default, Debug)]
pub struct CancelToken(Arc<State>);

#[derive(Default)]
struct State {
    /// The code of the error that runs end with; 0 while the token was not used.
    code: AtomicU32,
    next: AtomicU64,
    /// The calls that runs have registered, by the number of the registration.
    calls: Mutex<Vec<(u64, Call)>>,
}

/// Is told what the run fails with, and whether those that do not leave it are left behind.
type Call = Box<dyn Fn(Failure, bool) + Send>;

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {}", self.code.load(Ordering::Relaxed))
    }
}

impl State {
    fn calls(&self) -> MutexGuard<'_, Vec<(u64, Call)>> {
        // Entries are added and removed whole, so a panic leaves a list that can be used.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CancelToken {
    /// A token that was not used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the runs that were given this token, with [`ErrorCode::Cancelled`]: what runs finishes, nothing more is
    /// started. A run that is given it later ends before its first task.
    pub fn cancel(&self) {
        self.use_for(ErrorCode::Cancelled);
    }

    /// As [`cancel`](Self::cancel), with [`ErrorCode::Interrupted`]: for whoever handles a signal. Not to be called in a
    /// signal handler itself, because it takes a lock.
    pub fn interrupt(&self) {
        self.use_for(ErrorCode::Interrupted);
    }

    /// As [`cancel`](Self::cancel), and workers whose kernels do not return are left behind, if the run borrows nothing. The
    /// device has lost them, and runs nothing any more. For tests; outside of them the watchdog decides it.
    #[doc(hidden)]
    pub fn abandon(&self) {
        self.cancel();
        self.0.calls().iter().for_each(|(_, call)| call(failure(ErrorCode::Cancelled), true));
    }

    fn use_for(&self, code: ErrorCode) {
        // SeqCst pairs(token.code): a run that subscribes sees the code, or its call is in the list below.
        let unused = self.0.code.compare_exchange(0, code.number(), Ordering::SeqCst, Ordering::SeqCst);
        if unused.is_ok() {
            // A run that registers its call from now on sees the code itself.
            self.0.calls().iter().for_each(|(_, call)| call(failure(code), false));
        }
    }

    /// Whether the token was used.
    pub fn is_cancelled(&self) -> bool {
        // SeqCst pairs(token.code).
        self.0.code.load(Ordering::SeqCst) != 0
    }

    /// The failure of runs that were given this token, once it was used.
    pub(crate) fn failure(&self) -> Option<Failure> {
        // SeqCst pairs(token.code).
        ErrorCode::from_number(self.0.code.load(Ordering::SeqCst)).map(failure)
    }

    /// Calls `call` when the token is used, at once if it was used already, until the subscription is dropped. Dropping it
    /// returns when no call is under way.
    pub(crate) fn subscribe(&self, call: impl Fn(Failure, bool) + Send + 'static) -> Subscription {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.0.calls();
        if let Some(failure) = self.failure() {
            call(failure, false);
        }
        calls.push((number, Box::new(call)));
        drop(calls);
        Subscription { state: Arc::clone(&self.0), number }
    }
}

/// The failure of a run whose token was used.
fn failure(code: ErrorCode) -> Failure {
    let cause = match code {
        ErrorCode::Interrupted => FailureCause::Interrupted,
        _ => FailureCause::Cancelled,
    };
    Failure::new(code, cause)
}

/// A run's call, registered with its token until this is dropped.
pub(crate) struct Subscription {
    state: Arc<State>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.state.calls().retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn whoever_left_word_is_called_once_and_with_the_first_reason() {
        let token = CancelToken::new();
        let (told, said) = channel();
        let again = told.clone();
        let _here = token.subscribe(move |failure, _| told.send(failure.code).expect("somebody listens"));
        drop(token.subscribe(|_, _| panic!("the word was taken back")));
        assert!(!token.is_cancelled() && said.try_recv().is_err());
        token.interrupt();
        token.cancel();
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [ErrorCode::Interrupted]);
        let _late = token.subscribe(move |failure, _| again.send(failure.code).expect("somebody listens"));
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [ErrorCode::Interrupted], "at once");
    }
}
