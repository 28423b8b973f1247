//! What ends a run on threads from outside: its token, its deadline, and its watchdog.

use super::Round;
use super::watchdog::Watchdog;
use super::workers::WorkerHub;
use plimsoll_abi::ErrorCode;
use plimsoll_sched::{Failure, FailureCause, Shared};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Runs `body` while its token may end the run, beside threads that end it at its deadline and when it hangs, if they were
/// asked for. `launched` is how many tasks a launch has.
pub(super) fn with_timer<R>(
    hub: &Arc<WorkerHub>,
    shared: &Arc<Shared>,
    (round, launched): (&Round<'_>, Option<u64>),
    body: impl FnOnce() -> R,
) -> R {
    let options = round.options;
    let _word = options.cancel.as_ref().map(|token| {
        let (hub, shared) = (Arc::clone(hub), Arc::clone(shared));
        token.subscribe(move |failure, abandons| {
            shared.fail(&*hub.platform, failure);
            if abandons {
                hub.give_up(&shared);
            }
        })
    });
    let watches = Watchdog::is_wanted(options);
    if options.deadline.is_none() && !watches {
        return body();
    }
    let over = RunEnd::default();
    std::thread::scope(|s| {
        if let Some(deadline) = options.deadline {
            let (over, left) = (&over, round.count.left_of(deadline));
            s.spawn(move || {
                if !over.within(left) {
                    let cause = FailureCause::DeadlinePassed(deadline);
                    shared.fail(&*hub.platform, Failure::new(ErrorCode::DeadlineExceeded, cause));
                }
            });
        }
        if watches {
            let watchdog = Watchdog::new(hub, shared, (round, launched), &over);
            s.spawn(move || watchdog.watch());
        }
        // On every way out of the body, a panic included: the threads would wait for ever otherwise.
        let _end = EndSignal(&over);
        body()
    })
}

/// Whether a run has ended, for those that wait for it.
#[derive(Default)]
pub(crate) struct RunEnd {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl RunEnd {
    /// Waits for the end of the run, for as long as `time`. Whether it came.
    pub(crate) fn within(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(ended, time, |ended| !*ended);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Tells whoever waits for a run's end that it has come.
pub(crate) struct EndSignal<'w>(pub(crate) &'w RunEnd);

impl Drop for EndSignal<'_> {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}
