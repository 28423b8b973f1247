//! The watch over a program that builds a graph. Nothing runs and nothing is recorded yet, so all that can hang is the program's
//! own code between two of its calls, which are counted.

use super::timer::{EndSignal, RunEnd};
use super::watchdog::{cpu_ns, is_busy, pace};
use crate::error::Error;
use crate::options::RunOptions;
use crate::report::RunReport;
use plimsoll_abi::{ErrorCode, StallClass};
use plimsoll_sched::{Failure, FailureCause};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs `body`, which counts its calls in `calls`. If it makes none for longer than the budgets of `options` allow, their hook is
/// told, since nobody can end the calling thread; `body` is waited for, whatever the hook does.
pub(crate) fn watch_building<R>(options: &RunOptions, calls: &AtomicU64, body: impl FnOnce() -> R) -> R {
    let is_bounded = options.orch_timeout.is_some() || options.stall_timeout.is_some();
    let Some(hook) = options.on_hung.as_ref().filter(|_| is_bounded) else { return body() };
    let (over, thread) = (RunEnd::default(), rustix::thread::gettid().as_raw_pid() as u32);
    std::thread::scope(|s| {
        s.spawn(|| {
            if let Some(failure) = hang(options, calls, thread, &over) {
                let report = RunReport { left_behind: 1, ..RunReport::default() };
                hook(Error::from_failure(&failure, |_| String::new()), &report);
            }
        });
        let _end = EndSignal(&over);
        body()
    })
}

/// Looks in turns until the graph is built, or a budget is used up: why, then.
fn hang(options: &RunOptions, calls: &AtomicU64, thread: u32, over: &RunEnd) -> Option<Failure> {
    let pace = pace(options);
    let mut last = Instant::now();
    let mut seen = u64::MAX;
    // How long no call was made, how long besides the thread has used no CPU, and what it had used when that began.
    let (mut in_code, mut frozen, mut cpu) = (Duration::ZERO, Duration::ZERO, 0);
    while !over.within(pace) {
        // Two paces at most are counted, so that a process that was stopped is not blamed: W1 of the watchdog.
        let step = last.elapsed().min(pace * 2);
        last = Instant::now();
        let (made, used) = (calls.load(Ordering::Relaxed), cpu_ns(thread));
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
