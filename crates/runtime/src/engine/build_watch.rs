//! The watch over a program that builds a graph. Nothing runs and nothing is recorded yet, so all that can hang is the program's
//! own code between two of its calls, which are counted. Of a budget that is used up the next of them is told.

use super::timer::{EndSignal, RunEnd};
use super::watchdog::{PAST_DEADLINE, cpu_ns, is_busy, pace};
use crate::error::Error;
use crate::options::RunOptions;
use crate::report::RunReport;
use plimsoll_abi::{ErrorCode, StallClass};
use plimsoll_sched::{Failure, FailureCause};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a program that builds a graph and its watch tell each other.
#[derive(Default)]
pub(crate) struct BuildProgress {
    /// Calls that the program has made.
    calls: AtomicU64,
    /// Why it may not go on.
    failure: OnceLock<Failure>,
}

impl BuildProgress {
    pub(crate) fn note_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }
}

/// Runs `body`, which notes its calls in `progress`, and watches that it keeps the budgets of `options`, of which `deadline` is told
/// apart: in virtual time nothing passes meanwhile. A call fails once one is used up. Nobody can end the calling thread: if it makes no
/// call, their hook is told, and `body` is waited for, whatever the hook does.
pub(crate) fn watch_building<R>(
    options: &RunOptions,
    deadline: Option<Duration>,
    progress: &BuildProgress,
    body: impl FnOnce() -> R,
) -> R {
    if deadline.is_none() && options.orch_timeout.is_none() && options.stall_timeout.is_none() {
        return body();
    }
    let (over, thread) = (RunEnd::default(), rustix::thread::gettid().as_raw_pid() as u32);
    std::thread::scope(|s| {
        s.spawn(|| {
            let Some(failure) = hang(options, deadline, progress, thread, &over) else { return };
            let patience = if failure.code == ErrorCode::DeadlineExceeded { PAST_DEADLINE } else { Duration::ZERO };
            let failure = progress.failure.get_or_init(|| failure);
            if let Some(hook) = options.on_hung.as_ref()
                && !over.within(patience)
            {
                let report = RunReport { left_behind: 1, ..RunReport::default() };
                hook(Error::from_failure(failure, |_| String::new()), &report);
            }
        });
        let _end = EndSignal(&over);
        body()
    })
}

/// Looks in turns until the graph is built, or a budget is used up: why, then.
fn hang(
    options: &RunOptions,
    deadline: Option<Duration>,
    progress: &BuildProgress,
    thread: u32,
    over: &RunEnd,
) -> Option<Failure> {
    let pace = deadline.map_or(pace(options), |deadline| pace(options).min(deadline));
    let begin = Instant::now();
    let mut last = begin;
    let mut seen = u64::MAX;
    // How long no call was made, how long besides the thread has used no CPU, and what it had used when that began.
    let (mut in_code, mut frozen, mut cpu) = (Duration::ZERO, Duration::ZERO, 0);
    while !over.within(pace) {
        // Two paces at most are counted, so that a process that was stopped is not blamed: W1 of the watchdog.
        let step = last.elapsed().min(pace * 2);
        last = Instant::now();
        if let Some(deadline) = deadline.filter(|deadline| begin.elapsed() >= *deadline) {
            return Some(Failure::new(ErrorCode::DeadlineExceeded, FailureCause::DeadlinePassed(deadline)));
        }
        let (made, used) = (progress.calls.load(Ordering::Relaxed), cpu_ns(thread));
        if made != seen {
            (seen, in_code, frozen, cpu) = (made, Duration::ZERO, Duration::ZERO, used);
            continue;
        }
        in_code += step;
        frozen += step;
        if is_busy(used.saturating_sub(cpu), frozen) {
            (frozen, cpu) = (Duration::ZERO, used);
        }
        let cause = match (options.orch_timeout, options.stall_timeout) {
            (Some(budget), _) if in_code >= budget => FailureCause::InOwnCode(in_code, budget),
            (_, Some(budget)) if frozen >= budget => FailureCause::BuildsNothing(budget),
            _ => continue,
        };
        let mut failure = Failure::new(ErrorCode::SchedulerTimeout, cause);
        failure.class = Some(StallClass::OrchestratorStarved);
        return Some(failure);
    }
    None
}
