//! The thread beside a run in virtual time. There all code runs on the thread that drives the loop, one piece at a time, so only
//! another thread can notice that a kernel or the orchestration does not return.
//!
//! It warns when a kernel seems to wait for another kernel: it would wait for ever. And it gets the records out of a run that a signal
//! asked to end, and whose code does not return.

use crate::cancel::CancelToken;
use crate::engine::Round;
use crate::engine::timer::{EndSignal, RunEnd};
use crate::error::Error;
use crate::report::RunReport;
use plimsoll_abi::{ErrorCode, KernelId};
use plimsoll_platform::Virtual;
use plimsoll_sched::{Failure, FailureCause, Shared};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a kernel runs, in real time, before somebody is warned.
const WARN: Duration = Duration::from_secs(5);

/// How often the guard looks.
const PACE: Duration = Duration::from_millis(100);

/// How long code that runs when a signal comes may go on, as [on threads](crate::engine).
const LEAVE: Duration = Duration::from_secs(1);

/// What the guard of a round looks at.
pub(crate) struct Guard<'r> {
    pub(crate) platform: &'r Virtual,
    pub(crate) shared: &'r Shared,
    pub(crate) round: &'r Round<'r>,
    /// Turns of the loop.
    pub(crate) turns: &'r AtomicU64,
    /// Whether the loop's thread is at work for the collector, which may wait for a disk.
    pub(crate) collecting: &'r AtomicBool,
    /// How many tasks a launch has, which submits none.
    pub(crate) launched: Option<u64>,
    /// When the round began, in virtual time.
    pub(crate) since_ns: u64,
}

/// How long something that was seen has not changed. Each look adds at most two paces, so a process that was stopped is not taken for
/// one that hangs.
struct Unchanged<T> {
    seen: T,
    age: Duration,
}

impl<T: PartialEq> Unchanged<T> {
    fn look(&mut self, now: T, step: Duration) -> Duration {
        self.age = if now == self.seen { self.age + step } else { Duration::ZERO };
        self.seen = now;
        self.age
    }
}

impl Guard<'_> {
    /// Runs `body` with the guard beside it. Without a thread for the guard, the run does without.
    pub(crate) fn beside<R>(&self, body: impl FnOnce() -> R) -> R {
        let over = RunEnd::default();
        std::thread::scope(|s| {
            let guard = std::thread::Builder::new().name("plimsoll-guard".into());
            drop(guard.spawn_scoped(s, || self.watch(&over)));
            // On every way out of the body, a panic included: the guard would wait for ever otherwise.
            let _end = EndSignal(&over);
            body()
        })
    }

    fn watch(&self, over: &RunEnd) {
        let mut in_code = Unchanged { seen: (0, false), age: Duration::ZERO };
        watch_kernels(self.platform, over, (PACE, WARN), |news| match news {
            News::Stuck(kernel) => {
                let name = self.round.kernels.get(kernel as usize).map_or("?", |kernel| kernel.name.as_str());
                eprintln!("{}", warning(name));
                false
            }
            News::Look(step) => {
                // Relaxed: what is looked at again. What runs when the signal is seen is given its time from then on.
                let (turns, interrupted) = (self.turns.load(Ordering::Relaxed), self.was_interrupted());
                let age = in_code.look((turns, interrupted), step);
                if self.collecting.load(Ordering::Relaxed) {
                    in_code.age = Duration::ZERO;
                    return false;
                }
                let gives_up = interrupted && age >= LEAVE;
                if gives_up {
                    self.rescue();
                }
                gives_up
            }
        });
    }

    /// Whether a signal asked for the run's end, and somebody wants to be told if it does not come.
    fn was_interrupted(&self) -> bool {
        let options = self.round.options;
        let asked = || options.cancel.as_ref().and_then(CancelToken::failure);
        options.on_hung.is_some() && asked().is_some_and(|failure| failure.code == ErrorCode::Interrupted)
    }

    /// Gets the records out. The thread that drives the loop is in code of the user's, so it is in no record and drains nothing.
    fn rescue(&self) {
        let Some(rescue) = self.round.rescue else { return };
        let running = self.round.board.look().executions().into_iter().max_by_key(|execution| execution.since);
        let mut failure = Failure::new(ErrorCode::Interrupted, FailureCause::OrchestrationLeft { deadline: None });
        failure.site = self.shared.scope();
        if let (Some(kernel), _) = self.platform.running_kernel() {
            failure.cause = FailureCause::KernelsLeft { others: 0, deadline: None };
            failure.kernel = Some(KernelId(kernel));
            // Cores behind mailboxes write no line while they execute something here.
            if let Some(of) = running.filter(|of| of.kernel == KernelId(kernel)) {
                (failure.task, failure.core) = (Some(of.task), Some(of.core));
                failure.site = self.shared.scope_of(of.task);
            }
        }
        let name =
            |kernel: u32| self.round.kernels.get(kernel as usize).map_or(String::new(), |kernel| kernel.name.clone());
        let (count, now, look) = (self.round.count, self.platform.now_ns(), self.round.board.look());
        let [since_tick, tick] = [self.since_ns, now].map(|ns| self.platform.ticks_at(ns));
        let ticks = u128::from(count.ticks_since_first(since_tick, tick));
        let report = RunReport {
            rounds: count.number + 1,
            tasks: count.tasks_before + self.launched.unwrap_or(look.orchestrator().submits_ended.into()),
            dispatches: look.begun() - look.executions().len() as u64,
            elapsed_ns: (ticks * 1_000_000_000 / u128::from(self.platform.hz())) as u64,
            left_behind: 1,
            ..RunReport::default()
        };
        rescue.rescue(Error::from_failure(&failure, name), report, |_| (tick, now));
    }
}

/// What the thread that watches kernels tells.
#[derive(Debug, PartialEq)]
enum News {
    /// It has looked, so long after the look before, or two paces.
    Look(Duration),
    /// This kernel has been running for too long. It is told once.
    Stuck(u32),
}

/// Looks until the run is over, or `tell` has seen enough.
fn watch_kernels(
    platform: &Virtual,
    over: &RunEnd,
    (pace, warn): (Duration, Duration),
    mut tell: impl FnMut(News) -> bool,
) {
    let mut kernel = Unchanged { seen: platform.running_kernel(), age: Duration::ZERO };
    let (mut told, mut last) = (false, std::time::Instant::now());
    while !over.within(pace) {
        let step = last.elapsed().min(pace * 2);
        last = std::time::Instant::now();
        let now = platform.running_kernel();
        if kernel.look(now, step) >= warn
            && let (Some(stuck), false) = (now.0, told)
        {
            told = true;
            tell(News::Stuck(stuck));
        }
        if tell(News::Look(step)) {
            return;
        }
    }
}

fn warning(kernel: &str) -> String {
    format!(
        "plimsoll: kernel {kernel} has been running for more than {WARN:?}. In virtual time kernels run to completion one \
         at a time, so if it waits for another kernel it will wait for ever. Let it return, and make the other task a \
         dependency."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_platform::virtual_time::Faults;
    use plimsoll_platform::{ArchSpec, Platform};

    #[test]
    fn the_warning_names_the_kernel_and_what_to_do() {
        let text = super::warning("add");
        assert!(text.contains("kernel add") && text.contains("dependency"), "{text}");
    }

    /// The kernel waits for the guard's own word, so it ends exactly if the guard speaks.
    #[test]
    fn a_kernel_that_does_not_return_is_told_of_and_others_are_not() {
        let platform = Virtual::new(&ArchSpec::HOST, 1, 1, Faults::default());
        let over = RunEnd::default();
        let (told, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let often = Duration::from_millis(5);
                watch_kernels(&platform, &over, (often, 4 * often), |news| {
                    if let News::Stuck(kernel) = news {
                        told.send(kernel).expect("somebody listens");
                    }
                    false
                });
            });
            platform.kernel_begins(0);
            platform.kernel_ends();
            platform.kernel_begins(1);
            let kernel = said.recv_timeout(Duration::from_secs(120));
            platform.kernel_ends();
            drop(EndSignal(&over));
            assert_eq!(kernel, Ok(1));
        });
        assert!(said.try_recv().is_err(), "once is enough");
    }
}
