//! What ends a run on threads from outside: its token, and its deadline.

use super::crew::Floor;
use crate::options::RunOptions;
use plimsoll_abi::ErrorCode;
use plimsoll_sched::{Failure, Shared};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Runs `body` while its token may end the run, beside a thread that ends it at its deadline, if either was asked for.
pub(super) fn with_timer<R>(
    floor: &Arc<Floor>,
    shared: &Arc<Shared>,
    options: &RunOptions,
    body: impl FnOnce() -> R,
) -> R {
    let _word = options.cancel.as_ref().map(|token| {
        let (floor, shared) = (Arc::clone(floor), Arc::clone(shared));
        token.subscribe(move |failure, abandons| {
            shared.fail(&*floor.platform, failure);
            if abandons {
                floor.give_up();
            }
        })
    });
    let Some(deadline) = options.deadline else { return body() };
    let over = (Mutex::new(false), Condvar::new());
    std::thread::scope(|s| {
        s.spawn(|| {
            if !ends_within(&over, deadline) {
                let what = format!("the run was still going at its deadline of {deadline:?}");
                shared.fail(&*floor.platform, Failure::new(ErrorCode::DeadlineExceeded, what));
            }
        });
        // On every way out of the body, a panic included: the thread would wait for ever otherwise.
        let _end = Ending(&over);
        body()
    })
}

/// Tells whoever waits for a run's end that it has come.
struct Ending<'w>(&'w (Mutex<bool>, Condvar));

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Waits for the end of a run, for as long as the deadline allows. Whether it came.
fn ends_within(over: &(Mutex<bool>, Condvar), deadline: Duration) -> bool {
    let ended = over.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = over.1.wait_timeout_while(ended, deadline, |ended| !*ended);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}
