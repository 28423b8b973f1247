//! The host's watch over the device's process: ends it by force when it does not end its run as it was asked to, or is stopped for
//! longer than a budget allows. The device has a watchdog of its own, which needs the process to run.

use super::link::Link;
use crate::cancel::CancelToken;
use crate::engine::{EndSignal, RunEnd};
use crate::options::RunOptions;
use plimsoll_abi::ErrorCode;
use std::time::{Duration, Instant};

/// How long the process may take to end its run when a signal asked for that, and beyond a budget. Its own watchdog needs about two
/// seconds to give up a kernel that does not return.
const GRACE: Duration = Duration::from_secs(5);

/// The time between two looks.
const PACE: Duration = Duration::from_millis(100);

/// Runs `body`, which waits for the process's answer, beside the watch.
pub(super) fn beside<R>(link: &Link, options: &RunOptions, body: impl FnOnce() -> R) -> R {
    if options.cancel.is_none() && budget(options).is_none() {
        return body();
    }
    let over = RunEnd::default();
    std::thread::scope(|s| {
        s.spawn(|| watch(link, options, &over));
        // On every way out of the body, a panic included: the thread would wait for ever otherwise.
        let _end = EndSignal(&over);
        body()
    })
}

/// The least budget that somebody gave. A stall time-out that spares kernels is nobody's wish for this process to end.
fn budget(options: &RunOptions) -> Option<Duration> {
    let stall = options.stall_timeout.filter(|_| !options.stall_spares_kernels);
    [options.op_timeout, options.orch_timeout, stall].into_iter().flatten().min()
}

fn watch(link: &Link, options: &RunOptions, over: &RunEnd) {
    let budget = budget(options);
    let (mut asked, mut stopped, mut last) = (Duration::ZERO, Duration::ZERO, Instant::now());
    while !over.within(PACE) {
        // Each look adds at most two paces, so that a host that was stopped itself does not count that time.
        let step = last.elapsed().min(PACE * 2);
        last = Instant::now();
        let failure = options.cancel.as_ref().and_then(CancelToken::failure);
        asked +=
            if failure.is_some_and(|failure| failure.code == ErrorCode::Interrupted) { step } else { Duration::ZERO };
        stopped = if is_stopped(link.pid()) { stopped + step } else { Duration::ZERO };
        let state = match stopped > Duration::ZERO {
            true => "; it is stopped (SIGSTOP). Somebody has stopped it",
            false => {
                ". The program may be stuck in its own code while it builds a graph, or the machine was too busy to run it"
            }
        };
        if asked >= GRACE {
            // What ended the run is the signal.
            return link.give_up(
                ErrorCode::Interrupted,
                format!("a signal asked for the end of the run, and it has not answered for {GRACE:?}{state}"),
            );
        }
        if let Some(budget) = budget.filter(|budget| stopped >= *budget + GRACE) {
            return link.give_up(
                ErrorCode::DeviceLost,
                format!("it has been stopped (SIGSTOP) for {stopped:.1?}, and its run has a budget of {budget:?}. Somebody has stopped it"),
            );
        }
    }
}

/// Whether a process is stopped by a signal. One that a debugger holds is not: somebody is looking at it.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
