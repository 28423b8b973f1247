//! The watchdog of a run on threads: looks at the status board in turns, and ends a run in which nothing moves.
//!
//! ```text
//!   watching ──verdict: a budget is used up, a signal came, or the deadline is long past──► failed ──others have left, or had time to──► given up
//!      │                                                                                                        │
//!      └──the run ends──► over ◄──────the run returns, without those left behind──────────────────────────────┤
//!                                                     the run does not return ──► its records are rescued ◄────┘
//! ```
//!
//! # Invariants
//! * W1: an age is counted in looks: each adds at most two paces, so a process that was stopped is not taken for one that hangs.
//! * W2: a wait for the recorder sets every age back to zero, and so does whatever moves.
//! * W3: nobody is left behind before those that are well had time to leave.
//! * W4: while the orchestrator waits for room and something runs, nothing stands still: what runs gives back the room. How long one
//!   kernel has run goes on being counted.
//!
//! Two readings of "nothing moves" are in use. A stall time-out that somebody asked for counts a kernel that is frozen, that is one
//! whose thread uses no CPU, as not moving: the run ends as running-stalled. With [`RunOptions::stall_spares_kernels`], which is how the
//! command reads its default, a kernel that has begun and not ended counts as moving, whatever it does: how long one may take is
//! the business of `op_timeout`. With either, a frozen kernel is no stall while the orchestrator waits for room (W4).

use super::stall;
use super::timer::RunEnd;
use super::workers::WorkerHub;
use super::{Round, RoundCount};
use crate::cancel::CancelToken;
use crate::error::{Error, core_name, not_returned, why_it_stands};
use crate::options::RunOptions;
use crate::report::RunReport;
use plimsoll_abi::board::Activity;
use plimsoll_abi::{ErrorCode, StallClass};
use plimsoll_sched::failure::{KernelBudget, RunningKernel};
use plimsoll_sched::{Failure, FailureCause, KernelEntry, Shared};
use plimsoll_shm::{BoardLook, Execution};
use std::time::{Duration, Instant};

/// How long those that are well may take to leave a run that has failed, and how long a run may take to return then. A kernel that
/// has run for this long when a signal comes is not waited for.
const LEAVE: Duration = Duration::from_secs(1);

/// How long a run that a signal ends may take to return once those that do not leave it were given up. Somebody waits for it.
const RETURN: Duration = Duration::from_millis(500);

/// How long what is running may go on beyond the deadline of its run, which is given up then. Only if somebody is told when a run
/// hangs.
pub(super) const PAST_DEADLINE: Duration = Duration::from_secs(5);

/// The longest time between two looks.
const SLOWEST: Duration = Duration::from_millis(100);

/// Watches one round.
pub(super) struct Watchdog<'w> {
    hub: &'w WorkerHub,
    shared: &'w Shared,
    board: &'w plimsoll_shm::Board,
    kernels: &'w [KernelEntry],
    options: &'w RunOptions,
    rescue: Option<&'w crate::rescue::Rescue>,
    over: &'w RunEnd,
    count: &'w RoundCount,
    /// How many tasks a launch has, which submits none.
    launched: Option<u64>,
    /// What the board said before anybody entered the round, and the tick.
    before: BoardLook,
    since: u64,
}

/// How long something has been as it is.
struct Age {
    execution: Execution,
    age: Duration,
    /// CPU time that its thread had used when this began.
    cpu: u64,
}

impl Age {
    /// Whether its thread uses the CPU.
    fn spins(&self) -> bool {
        is_busy(cpu_ns(self.execution.thread).saturating_sub(self.cpu), self.age)
    }

    /// The kernel that runs, for a failure: it has used up `budget`.
    fn running(&self, budget: KernelBudget) -> RunningKernel {
        RunningKernel { age: self.age, spins: self.spins(), budget }
    }
}

/// How long nothing has moved.
#[derive(Default)]
struct Stillness {
    age: Duration,
    /// The counts that have not changed.
    mark: Vec<u64>,
    /// CPU time that threads with something to do had used when this began.
    cpu: u64,
}

/// What earlier looks found.
#[derive(Default)]
struct Ages {
    executions: Vec<Age>,
    still: Stillness,
    /// How long no count has changed, whatever uses the CPU.
    unmoved: Duration,
    /// Since when the orchestration is in its own code, and its submits.
    user_code: (Duration, Option<(u32, u32)>),
}

impl<'w> Watchdog<'w> {
    pub(super) fn is_wanted(options: &RunOptions) -> bool {
        let budgets = [options.op_timeout, options.stall_timeout, options.orch_timeout];
        options.on_hung.is_some() || options.notice.is_some() || budgets.iter().any(Option::is_some)
    }

    pub(super) fn new(
        hub: &'w WorkerHub,
        shared: &'w Shared,
        (round, launched): (&Round<'w>, Option<u64>),
        over: &'w RunEnd,
    ) -> Self {
        let (board, kernels, options) = (&**round.board, round.kernels.as_slice(), round.options);
        let (before, since) = (board.look(), hub.platform.clock().ticks());
        Self {
            hub,
            shared,
            board,
            kernels,
            options,
            rescue: round.rescue,
            over,
            count: round.count,
            launched,
            before,
            since,
        }
    }

    /// Looks in turns until the run is over, or has to be given up.
    pub(super) fn watch(&self) {
        let pace = pace(self.options);
        let (mut ages, mut last) = (Ages::default(), Instant::now());
        let mut notice = self.options.notice.as_ref();
        let mut past_deadline = Duration::ZERO;
        while !self.over.within(pace) {
            // W1.
            let step = last.elapsed().min(pace * 2);
            last = Instant::now();
            let look = self.board.look();
            ages.add(&look, self.shared.backlog(), step);
            if self.is_past_deadline() {
                past_deadline += step;
            }
            if self.was_interrupted() || past_deadline >= PAST_DEADLINE {
                self.board.keep(look);
                return self.give_up(&ages);
            }
            if let Some(due) = notice.filter(|notice| ages.unmoved >= notice.after) {
                (due.tell)(&self.state(&ages, &look));
                notice = None;
            }
            if let Some(failure) = self.verdict(&ages, &look) {
                self.board.keep(look);
                self.shared.fail(&*self.hub.platform, failure);
                return self.give_up(&ages);
            }
        }
    }

    /// Whether a signal asked for the run's end, and somebody wants to be told if it does not come. The run may have failed
    /// before with something else.
    fn was_interrupted(&self) -> bool {
        let asked = || self.options.cancel.as_ref().and_then(CancelToken::failure);
        self.options.on_hung.is_some()
            && self.shared.stopped()
            && asked().is_some_and(|failure| failure.code == ErrorCode::Interrupted)
    }

    /// Whether the run ends because of its deadline, and somebody wants to be told if the end does not come.
    fn is_past_deadline(&self) -> bool {
        self.options.on_hung.is_some()
            && self.shared.stopped()
            && self.shared.failure().is_some_and(|failure| failure.code == ErrorCode::DeadlineExceeded)
    }

    fn verdict(&self, ages: &Ages, look: &BoardLook) -> Option<Failure> {
        let oldest = ages.executions.iter().max_by_key(|age| age.age);
        if let (Some(budget), Some(oldest)) = (self.options.op_timeout, oldest)
            && oldest.age >= budget
        {
            let cause = FailureCause::KernelRuns(oldest.running(KernelBudget::Op(budget)));
            return Some(self.about(Failure::new(ErrorCode::OpTimeout, cause), oldest));
        }
        if let (Some(budget), in_code) = (self.options.orch_timeout, ages.user_code.0)
            && in_code >= budget
        {
            let mut failure = Failure::new(ErrorCode::SchedulerTimeout, FailureCause::InOwnCode(in_code, budget));
            (failure.class, failure.site) = (Some(StallClass::OrchestratorStarved), self.shared.scope());
            return Some(failure);
        }
        let budget = self.options.stall_timeout.filter(|budget| ages.still.age >= *budget)?;
        match oldest {
            Some(_) if self.options.stall_spares_kernels => None,
            Some(oldest) => {
                let cause = FailureCause::KernelRuns(oldest.running(KernelBudget::Stall(budget)));
                let mut failure = self.about(Failure::new(ErrorCode::SchedulerTimeout, cause), oldest);
                failure.class = Some(StallClass::RunningStalled);
                Some(failure)
            }
            None => {
                let stall = stall::diagnose(look, self.shared);
                Some(stall.failure(FailureCause::NothingMoves(budget, stall.standstill)))
            }
        }
    }

    /// The failure, with the task, kernel and core of the execution that it is about.
    fn about(&self, mut failure: Failure, age: &Age) -> Failure {
        let Execution { task, kernel, core, .. } = age.execution;
        (failure.task, failure.kernel, failure.core) = (Some(task), Some(kernel), Some(core));
        failure.site = self.shared.scope_of(task);
        failure
    }

    /// What the run is doing, for somebody who wonders.
    fn state(&self, ages: &Ages, look: &BoardLook) -> String {
        let since = format!("Nothing has begun or ended for {:.0?}", ages.unmoved);
        match ages.executions.iter().max_by_key(|age| age.age) {
            Some(oldest) => {
                let others = match ages.executions.len() - 1 {
                    0 => String::new(),
                    1 => " (and 1 other runs)".to_string(),
                    more => format!(" (and {more} others run)"),
                };
                let core = oldest.execution.core;
                let place = core_name(self.shared.class_of(core), core.0);
                format!("{since}: {}, on {place}{others}.", self.runs(oldest))
            }
            None => {
                let stall = stall::diagnose(look, self.shared);
                format!("{since}: {}.", why_it_stands(&stall.standstill, stall.task()))
            }
        }
    }

    /// A sentence: what runs, for how long, and whether it uses the CPU.
    fn runs(&self, of: &Age) -> String {
        let Execution { task, kernel, .. } = of.execution;
        let name = self.kernels.get(kernel.index()).map_or("of an unknown name", |kernel| kernel.name.as_str());
        not_returned(&format!("kernel {name} of task {task}"), of.age, of.spins())
    }

    /// Lets those leave that are well, leaves the others behind, and gets the records out if the run cannot return even so.
    fn give_up(&self, ages: &Ages) {
        let interrupted = self.was_interrupted();
        let is_hung = |age: &&Age| !interrupted || age.age >= LEAVE;
        let hung: Vec<Execution> = ages.executions.iter().filter(is_hung).map(|age| age.execution).collect();
        let since = Instant::now();
        // W3.
        while since.elapsed() < LEAVE {
            if self.over.within(LEAVE / 50) {
                return;
            }
            let running = self.board.look().executions();
            let only_hung = running.iter().all(|now| hung.contains(now)) && !(interrupted && running.is_empty());
            if only_hung && since.elapsed() > LEAVE / 10 {
                break;
            }
        }
        self.say_who_is_left();
        self.hub.give_up(self.shared);
        if self.over.within(if interrupted { RETURN } else { LEAVE }) {
            return;
        }
        // The others write their last records when they leave.
        self.shared.close(&*self.hub.platform);
        if self.over.within(LEAVE / 10) {
            return;
        }
        let Some(rescue) = self.rescue else { return };
        let failure = self.shared.failure().unwrap_or_else(|| Failure::new(ErrorCode::Defect, FailureCause::Stopped));
        let error = Error::from_failure(&failure, |kernel| {
            self.kernels.get(kernel as usize).map(|kernel| kernel.name.clone()).unwrap_or_default()
        });
        let now = self.hub.platform.clock().ticks();
        rescue.rescue(error, self.report(now), |elapsed_ns| (now, elapsed_ns));
    }

    /// What a run that does not return has done until now. How full its rings were at most is known to the orchestrator alone.
    fn report(&self, now: u64) -> RunReport {
        let look = self.board.look();
        let ticks = u128::from(self.count.ticks_since_first(self.since, now));
        let hz = u128::from(self.hub.platform.clock().hz_by_now());
        RunReport {
            rounds: self.count.number + 1,
            tasks: self.count.tasks_before + self.launched.unwrap_or(look.orchestrator().submits_ended.into()),
            dispatches: self.executions_ended(&look),
            elapsed_ns: (ticks * 1_000_000_000 / hz) as u64,
            // The calling thread hangs itself, or waits for those that execute something.
            left_behind: look.executions().len().max(1) as u32,
            ..RunReport::default()
        }
    }

    /// Executions that have ended in this round and those before: dispatch tokens count them, of a worker in the line of its agent, of
    /// another core in its own. A line that its core has entered anew since the run was given up begins with what its scheduler has
    /// kept by then, so the largest count is the one.
    fn executions_ended(&self, now: &BoardLook) -> u64 {
        let given_up = self.board.last_look();
        let ended = |at: usize| {
            let lines = |look: &BoardLook| [look.agents.get(at).copied(), look.cores.get(at).copied()];
            let before = lines(&self.before);
            // Who has not entered the round has a line of another run.
            let looks = [now, &given_up].into_iter().flat_map(|look| std::iter::zip(lines(look), before));
            let counts = looks.filter(|(line, before)| line != before).filter_map(|(line, _)| Some(line?.ended));
            u64::from(counts.fold(self.count.last_token(at), u32::max))
        };
        (0..self.before.agents.len().max(self.before.cores.len())).map(ended).sum()
    }

    /// Adds to the failure of a run that was interrupted, or was at its deadline, which kernels did not return; if there are none, it
    /// is the orchestration.
    fn say_who_is_left(&self) {
        let running = self.board.look().executions();
        let Some(&Execution { task, kernel, core, .. }) = running.first() else {
            return self.say_orchestration_is_left();
        };
        let (core_class, site) = (self.shared.class_of(core), self.shared.scope_of(task));
        self.shared.amend_failure(|failure| {
            let Some(deadline) = self.deadline_of_end(failure.code) else { return };
            failure.cause = FailureCause::KernelsLeft { others: running.len() - 1, deadline };
            (failure.task, failure.kernel, failure.core) = (Some(task), Some(kernel), Some(core));
            (failure.core_class, failure.site) = (core_class, site);
        });
    }

    fn say_orchestration_is_left(&self) {
        let site = self.shared.scope();
        self.shared.amend_failure(|failure| {
            let Some(deadline) = self.deadline_of_end(failure.code) else { return };
            (failure.cause, failure.site) = (FailureCause::OrchestrationLeft { deadline }, site);
        });
    }

    /// The deadline at which a run ends, or that a signal ends it. Nothing if it ends for another reason.
    fn deadline_of_end(&self, code: ErrorCode) -> Option<Option<Duration>> {
        match code {
            ErrorCode::Interrupted => Some(None),
            ErrorCode::DeadlineExceeded => Some(self.options.deadline),
            _ => None,
        }
    }
}

impl Ages {
    /// Takes in another look, `step` after the one before.
    fn add(&mut self, look: &BoardLook, backlog: u64, step: Duration) {
        let lines = || look.agents.iter().chain(&look.cores);
        // W2.
        if lines().any(|line| line.activity() == Activity::Recorder) {
            *self = Self::default();
            return;
        }
        let before = std::mem::take(&mut self.executions);
        let aged = |execution: Execution| match before.iter().find(|age| age.execution.is_same_as(&execution)) {
            Some(known) => Age { age: known.age + step, cpu: known.cpu, execution },
            None => Age { age: Duration::ZERO, cpu: cpu_ns(execution.thread), execution },
        };
        self.executions = look.executions().into_iter().map(aged).collect();
        let orchestrator = look.orchestrator();
        let in_code = matches!(orchestrator.activity(), Activity::UserCode | Activity::Submit);
        let mut mark = vec![backlog, orchestrator.activity.into(), orchestrator.submits_begun.into()];
        mark.push(orchestrator.submits_ended.into());
        mark.extend(lines().flat_map(|line| [line.begun, line.ended, line.activity]).map(u64::from));
        let mut cpu: u64 = self.executions.iter().map(|age| cpu_ns(age.execution.thread)).sum();
        cpu += if in_code { cpu_ns(orchestrator.thread) } else { 0 };
        let (age, at_first) = (self.still.age + step, self.still.cpu);
        self.unmoved = if mark == self.still.mark { self.unmoved + step } else { Duration::ZERO };
        // W4.
        let is_back_pressure = orchestrator.activity() == Activity::WaitRoom && !self.executions.is_empty();
        let stands = mark == self.still.mark && !is_back_pressure && !is_busy(cpu.saturating_sub(at_first), age);
        self.still = match stands {
            true => Stillness { age, mark, cpu: at_first },
            false => Stillness { age: Duration::ZERO, mark, cpu },
        };
        let submits = (orchestrator.activity() == Activity::UserCode && orchestrator.running().is_none())
            .then_some((orchestrator.submits_begun, orchestrator.submits_ended));
        let same = submits.is_some() && submits == self.user_code.1;
        self.user_code = (if same { self.user_code.0 + step } else { Duration::ZERO }, submits);
    }
}

/// The time between two looks: several fit into the smallest budget.
pub(super) fn pace(options: &RunOptions) -> Duration {
    let budgets = [options.op_timeout, options.stall_timeout, options.orch_timeout];
    let least = budgets.into_iter().flatten().min().unwrap_or(SLOWEST);
    (least / 8).clamp(Duration::from_millis(1), SLOWEST)
}

/// Whether whoever used this much of the CPU in this time computes, rather than waits and looks from time to time.
pub(super) fn is_busy(cpu_ns: u64, time: Duration) -> bool {
    Duration::from_nanos(cpu_ns) * 20 > time
}

/// Nanoseconds of the CPU that a thread of this process has used; 0 if the system does not say.
pub(super) fn cpu_ns(thread: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::board::AgentStatus;

    const STEP: Duration = Duration::from_millis(10);

    fn look(orchestrator: Activity, worker: AgentStatus) -> BoardLook {
        let line = AgentStatus { activity: orchestrator as u32, ..AgentStatus::default() };
        BoardLook { agents: vec![line, worker], ..BoardLook::default() }
    }

    #[test]
    fn ages_grow_while_nothing_changes_and_start_again_when_something_does() {
        let running = AgentStatus { begun: 3, ended: 2, ..AgentStatus::default() };
        let mut ages = Ages::default();
        (0..4).for_each(|_| ages.add(&look(Activity::UserCode, running), 0, STEP));
        let told = |ages: &Ages| (ages.executions[0].age, ages.still.age, ages.user_code.0);
        assert_eq!(told(&ages), (STEP * 3, STEP * 3, STEP * 3));
        let next = AgentStatus { begun: 4, ended: 3, ..running };
        ages.add(&look(Activity::UserCode, next), 0, STEP);
        assert_eq!(told(&ages), (Duration::ZERO, Duration::ZERO, STEP * 4), "another task runs");
        ages.add(&look(Activity::Drain, next), 0, STEP);
        assert_eq!(told(&ages), (STEP, Duration::ZERO, Duration::ZERO), "the orchestration has ended");
        ages.add(&look(Activity::Drain, next), 1, STEP);
        assert_eq!(told(&ages), (STEP * 2, Duration::ZERO, Duration::ZERO), "a task became ready");
    }

    #[test]
    fn back_pressure_with_something_running_is_no_stall_and_the_kernel_grows_older() {
        let running = AgentStatus { begun: 3, ended: 2, ..AgentStatus::default() };
        let mut ages = Ages::default();
        (0..5).for_each(|_| ages.add(&look(Activity::WaitRoom, running), 0, STEP));
        assert_eq!((ages.still.age, ages.executions[0].age), (Duration::ZERO, STEP * 4));
        let idle = AgentStatus { begun: 3, ended: 3, ..AgentStatus::default() };
        (0..4).for_each(|_| ages.add(&look(Activity::WaitRoom, idle), 0, STEP));
        assert_eq!(ages.still.age, STEP * 3, "with nothing running it is one");
        let mut ages = Ages::default();
        (0..4).for_each(|_| ages.add(&look(Activity::Drain, running), 0, STEP));
        assert_eq!(ages.still.age, STEP * 3, "a frozen kernel behind which nobody waits for room");
    }

    #[test]
    fn waiting_for_the_recorder_never_counts() {
        let waits = AgentStatus { activity: Activity::Recorder as u32, ..AgentStatus::default() };
        let mut ages = Ages::default();
        (0..4).for_each(|_| ages.add(&look(Activity::Drain, AgentStatus::default()), 0, STEP));
        assert_eq!(ages.still.age, STEP * 3);
        (0..100).for_each(|_| ages.add(&look(Activity::Drain, waits), 0, STEP));
        assert_eq!((ages.still.age, ages.user_code.0), (Duration::ZERO, Duration::ZERO));
    }
}
