//! The words of a failure: what its values say, and what to do about it.

use super::ErrorFacts;
use plimsoll_abi::{CoreClass, ErrorCode, Resource, TaskId};
use plimsoll_sched::failure::{KernelBudget, RunningKernel, Shortage, Standstill, StandstillReason};
use plimsoll_sched::{Failure, FailureCause};
use std::time::Duration;

/// What happened, where, and what to do.
pub(super) fn explain(inner: &ErrorFacts, failure: &Failure) -> String {
    if let Some(shortage) = &inner.shortage {
        return explain_shortage(inner, shortage);
    }
    let mut text = format!("{}.", what_happened(inner, &failure.cause));
    if let Some(worker) = inner.worker {
        text += &format!(" It ran on {}", core_name(failure.core_class, worker));
        if let Some(site) = &inner.site {
            text += &format!(", in the scope opened at {site}");
        }
        if !failure.args.is_empty() {
            let args: Vec<String> = failure.args.iter().map(ToString::to_string).collect();
            text += &format!(", with {}", args.join(", "));
        }
        text += ".";
    } else if let Some(site) = &inner.site {
        text += &format!(" The scope was opened at {site}.");
    }
    text + what_to_do(inner.code)
}

/// Why views that share no element may be said to overlap.
const COMPARED_BY_ENDS: &str =
    "a view of them is no box of its buffer, and such a view is compared by its first and its last element only";

/// What happened, as one sentence without its full stop.
fn what_happened(inner: &ErrorFacts, cause: &FailureCause) -> String {
    let kernel = inner.kernel.as_deref().unwrap_or("of an unknown name");
    let task = inner.task.map_or_else(|| "an unknown task".to_owned(), |task| format!("task {task}"));
    let class = inner.class.map_or(String::new(), |class| format!("{class}: "));
    match cause {
        FailureCause::GaveUp(text) | FailureCause::Refused(text) => text.clone(),
        FailureCause::KernelFailed(error) => format!("kernel {kernel} failed in {task}: {error}"),
        FailureCause::KernelPanicked(text) => format!("kernel {kernel} panicked in {task}: {text}"),
        FailureCause::ArgumentsOverlap(one, other) => {
            format!("arguments {one} and {other} overlap and one of them is written")
        }
        FailureCause::ArgumentsMayOverlap(one, other) => {
            format!("arguments {one} and {other} may overlap and one of them is written: {COMPARED_BY_ENDS}")
        }
        FailureCause::PredicateOverlaps { arg, is_guess: false } => {
            format!("argument {arg}, which is written, and the predicate overlap")
        }
        FailureCause::PredicateOverlaps { arg, is_guess: true } => {
            format!("argument {arg}, which is written, and the predicate may overlap: {COMPARED_BY_ENDS}")
        }
        FailureCause::TooManyArguments => format!("a task has room for {} argument words", u16::MAX),
        FailureCause::ReadTimedOut(budget) => {
            format!("a read waited longer than {budget:?} for {task} (kernel {kernel})")
        }
        FailureCause::Deadlock => "the submitter waits for what only it could free".to_owned(),
        FailureCause::Stopped => "the run was stopped".to_owned(),
        FailureCause::Cancelled => "the run was cancelled".to_owned(),
        FailureCause::Interrupted => why_it_ends(None),
        FailureCause::NoOpenScope => "there is no open scope to close".to_owned(),
        FailureCause::DeadlinePassed(deadline) => why_it_ends(Some(*deadline)),
        FailureCause::VirtualDeadlinePassed(deadline) => format!("{} of virtual time", why_it_ends(Some(*deadline))),
        FailureCause::VirtualClockEnded(room) => format!(
            "the costs of its work add up to more than the {} days that virtual time has room for. Give smaller costs, or the arch a slower counter",
            room.as_secs() / 86_400
        ),
        FailureCause::Panicked(who, text) => format!("{who} panicked outside of kernels: {text}"),
        FailureCause::LoopPanicked => "the loop of virtual time panicked".to_owned(),
        FailureCause::LoopEndedEarly => "the loop of virtual time ended before its round".to_owned(),
        FailureCause::ProgramNotRun => "the engine did not run the program".to_owned(),
        FailureCause::KernelRuns(of) => runs_on(of, &format!("kernel {kernel} of {task}"), &class),
        FailureCause::NothingMoves(budget, standstill) => {
            nothing_moved(*budget, &class, &why_it_stands(standstill, inner.task))
        }
        FailureCause::NothingCanHappen { now_ns, completed, standstill } => format!(
            "at {now_ns} ns of virtual time nothing can happen any more; {completed} tasks have completed: {class}{}",
            why_it_stands(standstill, inner.task)
        ),
        FailureCause::KernelsLeft { others, deadline } => {
            let others = if *others == 0 { String::new() } else { format!(", nor have {others} others") };
            let why = why_it_ends(*deadline);
            format!("{why}; kernel {kernel} of {task} has not returned{others}, and was not waited for")
        }
        FailureCause::OrchestrationLeft { deadline } => {
            format!("{}; the orchestration has not returned, and was not waited for", why_it_ends(*deadline))
        }
        FailureCause::InOwnCode(time, budget) => format!(
            "{class}the orchestration has been in its own code for {time:.1?} without a call, and may be for {budget:?} (`RunOptions::orch_timeout`)"
        ),
        FailureCause::BuildsNothing(budget) => format!(
            "{class}the program that builds the graph has made no call and used no CPU for {budget:?} (`RunOptions::stall_timeout`)"
        ),
        FailureCause::GraphIsFull(tasks) => {
            format!("the prebuilt graph has {tasks} tasks, the most it may have, and one more was submitted")
        }
        FailureCause::GraphHeapTooLarge => {
            "the outputs of the prebuilt graph take more memory than can be mapped".to_owned()
        }
        FailureCause::AccessInGraph { writes } => {
            let verb = if *writes { "write" } else { "read" };
            format!("a prebuilt graph cannot {verb} a tensor: nothing runs while it is built")
        }
    }
}

/// Says that the kernel `what` has used up its budget.
fn runs_on(of: &RunningKernel, what: &str, class: &str) -> String {
    let runs = not_returned(what, of.age, of.spins);
    match of.budget {
        KernelBudget::Op(budget) => format!("{runs}, and one may take {budget:?}"),
        KernelBudget::Stall(budget) => nothing_moved(budget, class, &runs),
    }
}

fn nothing_moved(budget: Duration, class: &str, why: &str) -> String {
    format!("nothing has moved for {budget:?} (`RunOptions::stall_timeout`): {class}{why}")
}

/// Why nothing moves, as a sentence without its full stop; everything stands behind `root`.
pub(crate) fn why_it_stands(standstill: &Standstill, root: Option<TaskId>) -> String {
    let words = standstill.orchestrator.words();
    let named = root.map_or(String::new(), |task| task.to_string());
    match standstill.reason {
        StandstillReason::Running => format!("a kernel of task {named} does not end"),
        StandstillReason::Assembling { taken, blocks } => format!(
            "the {blocks} blocks of task {named} are to start together, {taken} of them have a place to run, and nobody gives up another; the orchestrator {words}"
        ),
        StandstillReason::Ready(tasks) => {
            format!("{tasks} tasks are ready, nobody takes one, and the orchestrator {words}")
        }
        StandstillReason::Kept(tasks) => {
            format!("{tasks} tasks are ready that the orchestrator has called nobody for, and it {words}")
        }
        StandstillReason::StalledOutsideKernel(agent) => {
            format!("scheduler {} stands still between two tasks, none runs, and the orchestrator {words}", agent.0)
        }
        StandstillReason::Waiting(tasks) => {
            let first = root.map_or(String::new(), |_| format!("; the first that waits for nobody is {named}"));
            format!("{tasks} tasks wait, none runs or is ready, and the orchestrator {words}{first}")
        }
        StandstillReason::Orchestrator => format!("all submitted tasks have completed, and the orchestrator {words}"),
        StandstillReason::Nobody => format!("no task runs, is ready or waits, and the orchestrator {words}"),
    }
}

/// Why a run ends that a deadline ended, or without one a signal.
fn why_it_ends(deadline: Option<Duration>) -> String {
    match deadline {
        Some(deadline) => format!("the run was still going at its deadline of {deadline:?}"),
        None => "a signal asked for the end of the run".to_owned(),
    }
}

/// What people call a core of this class: a worker, if it runs any kernel.
pub(crate) fn core_name(class: CoreClass, core: u16) -> String {
    match class {
        CoreClass::Any => format!("worker {core}"),
        class => format!("{} core {core}", class.name()),
    }
}

/// A sentence: for how long `what`, a kernel, has not returned, and whether it uses the CPU.
pub(crate) fn not_returned(what: &str, age: Duration, spins: bool) -> String {
    let does = if spins { "spinning: it uses the CPU" } else { "frozen: it uses no CPU" };
    format!("{what} has not returned for {age:.1?}; its thread is {does}")
}

fn what_to_do(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidArgs => " Change the arguments or the setting named above.",
        ErrorCode::InvalidSyncStart => " Nothing of that task was started.",
        ErrorCode::KernelFailed => {
            " What was running has finished and nothing more was started; mend the kernel or its input."
        }
        ErrorCode::KernelPanicked => {
            " The panic was caught and nothing more was started; mend the kernel or its input."
        }
        ErrorCode::Interrupted => " Nothing more was started; run again to get a result.",
        ErrorCode::Defect => " That is a defect of the runtime, not of the program; please report it.",
        ErrorCode::Cancelled => " Whoever holds the cancel token asked for it; run again to get a result.",
        ErrorCode::DeadlineExceeded => " Give it a later deadline, or find with a recording where the time goes.",
        ErrorCode::TensorWaitTimeout => " Allow a longer wait, or look at why that task takes so long.",
        ErrorCode::OpTimeout => {
            " It was given up, and nothing more was started. Look at what the kernel waits for, or allow more with `RunOptions::op_timeout`."
        }
        ErrorCode::SchedulerTimeout => " Look at what was running and why it does not end.",
        ErrorCode::ScopeTasksOverflow => {
            " Allow more, split the graph, or stream it: rings bound what is in flight then."
        }
        ErrorCode::ExplicitFatal => " The orchestration decided this itself; see its own message above.",
        _ => "",
    }
}

/// The setter of [`Capacities`](crate::Capacities) and the environment's variable for a resource.
fn setting(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::TaskWindow => ("set_task_window", "PLIMSOLL_RING_TASK_WINDOW"),
        Resource::Heap => ("set_heap", "PLIMSOLL_RING_HEAP"),
        Resource::DepPool => ("set_dep_pool", "PLIMSOLL_RING_DEP_POOL"),
        Resource::Tensormap => ("set_tensormap", "PLIMSOLL_TENSORMAP"),
    }
}

fn unit(resource: Resource) -> &'static str {
    match resource {
        Resource::TaskWindow => "task slots",
        Resource::Heap => "heap bytes",
        Resource::DepPool => "dependency entries",
        Resource::Tensormap => "tensormap entries",
    }
}

fn explain_shortage(inner: &ErrorFacts, s: &Shortage) -> String {
    let place = s.ring.map_or("the tensormap".to_owned(), |ring| format!("ring {ring}"));
    let site = inner.site.as_deref().unwrap_or("an unknown place");
    let (unit, (setter, variable)) = (unit(s.resource), setting(s.resource));
    let (used, capacity, asked) = (s.used, s.capacity, s.asked);
    let mut text = format!(
        "{place} ran out of {unit}: {used} of {capacity} are held and the next task needs {asked} more. \
         All submitted tasks have completed, so nothing can free any"
    );
    match s.pinned {
        Some(task) => {
            text += &format!(
                "; the oldest held task is {task}, which only the end of the scope opened at {site} lets go of."
            )
        }
        None => text += &format!("; a single task of the scope opened at {site} asks for more than there is."),
    }
    let needed = s.needed;
    let value = s.ring.map_or(needed.to_string(), |ring| per_ring_value(ring, needed));
    let call = format!("`Capacities::{setter}({value:?})`");
    if s.needed_is_bound {
        text += &format!(
            " The end of the scope was not seen, so at least {needed} are needed: use {call} (or {variable}), or close the scope earlier."
        );
    } else {
        text += &format!(" To its end the scope needs {needed}: use {call} (or {variable}), or split the scope.");
    }
    if would_fit_by_iterations(s) {
        text +=
            " If the scope repeats an iteration, open a scope per iteration: what one holds comes back when it ends.";
    }
    text
}

/// Whether smaller scopes inside the full one would help. They do if several tasks together fill the ring, and if inner
/// scopes use another ring.
fn would_fit_by_iterations(s: &Shortage) -> bool {
    let has_inner_ring = s.ring.is_none_or(|ring| usize::from(ring) + 1 < plimsoll_abi::RINGS);
    s.pinned.is_some() && has_inner_ring && s.asked.saturating_mul(2) <= s.capacity
}

/// A value for one ring that leaves the others as they are.
fn per_ring_value(ring: u8, value: u64) -> String {
    (0..plimsoll_abi::RINGS as u8)
        .map(|r| if r == ring { value.to_string() } else { "-".to_owned() })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::super::Error;
    use super::*;
    use plimsoll_abi::board::Activity;
    use plimsoll_abi::{AgentId, StallClass};

    fn said(failure: &Failure) -> String {
        Error::from_failure(failure, |_| String::new()).explanation().to_owned()
    }

    #[test]
    fn a_failure_of_the_runtime_itself_is_told_in_words() {
        let second = Duration::from_secs(1);
        for (cause, words) in [
            (FailureCause::Cancelled, "the run was cancelled."),
            (FailureCause::Interrupted, "a signal asked for the end of the run."),
            (
                FailureCause::VirtualDeadlinePassed(second),
                "the run was still going at its deadline of 1s of virtual time.",
            ),
            (
                FailureCause::VirtualClockEnded(Duration::from_hours(48)),
                "the costs of its work add up to more than the 2 days that virtual time has room for. Give smaller costs, or the arch a slower counter.",
            ),
            (FailureCause::LoopPanicked, "the loop of virtual time panicked."),
            (FailureCause::LoopEndedEarly, "the loop of virtual time ended before its round."),
            (FailureCause::ProgramNotRun, "the engine did not run the program."),
            (
                FailureCause::GraphIsFull(10),
                "the prebuilt graph has 10 tasks, the most it may have, and one more was submitted.",
            ),
            (FailureCause::GraphHeapTooLarge, "the outputs of the prebuilt graph take more memory than can be mapped."),
            (
                FailureCause::AccessInGraph { writes: true },
                "a prebuilt graph cannot write a tensor: nothing runs while it is built.",
            ),
            (
                FailureCause::AccessInGraph { writes: false },
                "a prebuilt graph cannot read a tensor: nothing runs while it is built.",
            ),
        ] {
            // A code without advice.
            assert_eq!(said(&Failure::new(ErrorCode::DeviceLost, cause)), words);
        }
    }

    #[test]
    fn a_standstill_is_told_in_words() {
        let root = Some(TaskId::new(1, 7));
        for (reason, root, words) in [
            (StandstillReason::Running, root, "a kernel of task r1t7 does not end"),
            (
                StandstillReason::Assembling { taken: 3, blocks: 8 },
                root,
                "the 8 blocks of task r1t7 are to start together, 3 of them have a place to run, and nobody gives up another; the orchestrator waits for room",
            ),
            (
                StandstillReason::Ready(5),
                root,
                "5 tasks are ready, nobody takes one, and the orchestrator waits for room",
            ),
            (
                StandstillReason::Kept(5),
                None,
                "5 tasks are ready that the orchestrator has called nobody for, and it waits for room",
            ),
            (
                StandstillReason::StalledOutsideKernel(AgentId(2)),
                root,
                "scheduler 2 stands still between two tasks, none runs, and the orchestrator waits for room",
            ),
            (
                StandstillReason::Waiting(9),
                root,
                "9 tasks wait, none runs or is ready, and the orchestrator waits for room; the first that waits for nobody is r1t7",
            ),
            (
                StandstillReason::Waiting(9),
                None,
                "9 tasks wait, none runs or is ready, and the orchestrator waits for room",
            ),
            (
                StandstillReason::Orchestrator,
                None,
                "all submitted tasks have completed, and the orchestrator waits for room",
            ),
            (StandstillReason::Nobody, None, "no task runs, is ready or waits, and the orchestrator waits for room"),
        ] {
            assert_eq!(why_it_stands(&Standstill { reason, orchestrator: Activity::WaitRoom }, root), words);
        }
    }

    #[test]
    fn a_run_in_which_nothing_moves_says_its_class_and_why() {
        let standstill = Standstill { reason: StandstillReason::Waiting(2), orchestrator: Activity::Drain };
        let why = "dependency-deadlock: 2 tasks wait, none runs or is ready, and the orchestrator waits for all tasks to complete; the first that waits for nobody is r0t3. Look at what was running and why it does not end.";
        let budget = Duration::from_millis(1500);
        for (cause, words) in [
            (
                FailureCause::NothingMoves(budget, standstill),
                format!("nothing has moved for 1.5s (`RunOptions::stall_timeout`): {why}"),
            ),
            (
                FailureCause::NothingCanHappen { now_ns: 420, completed: 6, standstill },
                format!("at 420 ns of virtual time nothing can happen any more; 6 tasks have completed: {why}"),
            ),
        ] {
            let mut failure = Failure::new(ErrorCode::SchedulerTimeout, cause);
            (failure.task, failure.class) = (Some(TaskId::new(0, 3)), Some(StallClass::DependencyDeadlock));
            assert_eq!(said(&failure), words);
        }
    }
}
