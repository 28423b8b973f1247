//! Why nothing moves in a run: the class, the root and the counts, from the status board and the rings. Whoever says that
//! nothing moves, the watchdog or virtual time, asks here.
//!
//! Decided from counters, by [`StallFacts`]: tasks that run, that are ready, that wait, and what the orchestrator is in. The class is that of
//! the first counter in this order that is not zero, and the root is the oldest task that this counter counts. What `plimsoll explain`
//! sees from outside is decided there too.

use plimsoll_abi::board::{Activity, AgentStatus, RingStatus};
use plimsoll_abi::{AgentId, CoreId, ErrorCode, KernelId, StallCause, StallClass, StallFacts, TaskId};
use plimsoll_sched::cohort::AssemblingCohort;
use plimsoll_sched::failure::{Standstill, StandstillReason};
use plimsoll_sched::site::Site;
use plimsoll_sched::unfinished::{OpenTask, OpenTasks};
use plimsoll_sched::{Failure, FailureCause, Shared};
use plimsoll_shm::BoardLook;

/// Why nothing moves.
#[derive(Clone, Debug)]
pub(super) struct Stall {
    pub(super) class: StallClass,
    /// The facts that the class follows from.
    pub(super) standstill: Standstill,
    /// The task behind which everything stands, its kernel, and the core that executes it.
    pub(super) root: Option<(TaskId, KernelId, Option<CoreId>)>,
    /// The scope of that task, or the one that the orchestrator is in.
    pub(super) site: Option<Site>,
}

/// The counters that decide.
struct StallCounts {
    ready: u64,
    /// Ready tasks that the orchestrator, which stands still, has published without calling anybody.
    kept: u64,
    /// The cohort that assembles: while it does, nobody begins anything else.
    cohort: Option<AssemblingCohort>,
    /// The first scheduler or worker that is between two tasks.
    between: Option<AgentId>,
    unfinished: OpenTasks,
    /// Whether tasks have not completed that are not among those: the newest ones, or those of a graph.
    others: bool,
}

/// Why nothing moves on this board.
pub(super) fn diagnose(look: &BoardLook, shared: &Shared) -> Stall {
    let orchestrator = look.orchestrator();
    let numbers = std::array::from_fn(|ring| {
        let RingStatus { tail, head, .. } = look.rings[ring];
        tail..head
    });
    // What a lender keeps for itself is ready for nobody else: light tasks call no thief. Nor is what a submit that stands still
    // has not called anybody for.
    let keeps = orchestrator.activity() == Activity::Submit || (shared.lends() && in_own_code(&orchestrator));
    let kept = if keeps { shared.own_backlog() } else { 0 };
    let counts = StallCounts {
        ready: shared.backlog().saturating_sub(kept),
        kept,
        cohort: shared.assembling_cohort(),
        between: look
            .agents
            .iter()
            .skip(1)
            .position(|line| line.activity() == Activity::Schedule)
            .map(|at| AgentId(at as u16 + 1)),
        unfinished: shared.unfinished(numbers),
        others: match orchestrator.submits_begun {
            0 => matches!(orchestrator.activity(), Activity::Drain | Activity::Schedule | Activity::Idle),
            // A task may have completed before its submit has ended.
            _ => (orchestrator.submits_ended.wrapping_sub(shared.done.total() as u32) as i32) > 0,
        },
    };
    let mut stall = decide(look, &counts);
    stall.site = match &stall.root {
        Some((task, ..)) => shared.scope_of(*task),
        None => shared.scope(),
    };
    stall
}

fn in_own_code(orchestrator: &AgentStatus) -> bool {
    matches!(orchestrator.activity(), Activity::UserCode | Activity::Submit)
}

fn decide(look: &BoardLook, counts: &StallCounts) -> Stall {
    let orchestrator = look.orchestrator();
    let first = counts.unfinished.roots.first();
    let root = first.map(|&OpenTask { task, kernel }| (task, kernel, None));
    let running = look.executions().first().map(|of| (of.task, of.kernel, Some(of.core)));
    let cohort = counts.cohort.map(|of| (of.task.task, of.task.kernel, None));
    let facts = StallFacts {
        running: running.is_some(),
        assembling: cohort.is_some(),
        ready: counts.ready > 0,
        kept: counts.kept > 0,
        between: counts.between.is_some(),
        waiting: root.is_some() || counts.others,
        away: orchestrator.activity() == Activity::Away,
    };
    let cause = facts.cause();
    let root = match cause {
        StallCause::Running => running,
        StallCause::Assembling => cohort,
        StallCause::Ready | StallCause::Between | StallCause::Waiting => root,
        StallCause::Kept | StallCause::Orchestrator | StallCause::Nobody => None,
    };
    let reason = match cause {
        StallCause::Running => StandstillReason::Running,
        StallCause::Assembling => {
            let (taken, blocks) = counts.cohort.map_or((0, 0), |of| (of.taken, of.blocks));
            StandstillReason::Assembling { taken, blocks }
        }
        StallCause::Ready => StandstillReason::Ready(counts.ready),
        StallCause::Kept => StandstillReason::Kept(counts.kept),
        StallCause::Between => StandstillReason::StalledOutsideKernel(counts.between.unwrap_or_default()),
        StallCause::Waiting => StandstillReason::Waiting(counts.unfinished.waiting),
        StallCause::Orchestrator => StandstillReason::Orchestrator,
        StallCause::Nobody => StandstillReason::Nobody,
    };
    let standstill = Standstill { reason, orchestrator: orchestrator.activity() };
    Stall { class: cause.class(), standstill, root, site: None }
}

impl Stall {
    /// The task behind which everything stands.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.root.map(|(task, ..)| task)
    }

    /// The failure of the run, which `cause` says more of.
    pub(super) fn failure(&self, cause: FailureCause) -> Failure {
        let mut failure = Failure::new(ErrorCode::SchedulerTimeout, cause);
        (failure.class, failure.site) = (Some(self.class), self.site);
        if let Some((task, kernel, core)) = self.root {
            (failure.task, failure.kernel, failure.core) = (Some(task), Some(kernel), core);
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_abi::TaskId;

    fn look(orchestrator: Activity, worker: AgentStatus) -> BoardLook {
        let line = AgentStatus { activity: orchestrator as u32, ..AgentStatus::default() };
        BoardLook { agents: vec![line, worker], ..BoardLook::default() }
    }

    fn line(activity: Activity) -> AgentStatus {
        AgentStatus { activity: activity as u32, ..AgentStatus::default() }
    }

    fn counts(ready: u64, between: Option<u16>, waiting: u64, roots: &[u32]) -> StallCounts {
        let root = |&local: &u32| OpenTask { task: TaskId::new(1, local), kernel: KernelId(0) };
        let unfinished = OpenTasks { waiting, roots: roots.iter().map(root).collect() };
        StallCounts { ready, kept: 0, cohort: None, between: between.map(AgentId), unfinished, others: false }
    }

    #[test]
    fn the_first_counter_that_is_not_zero_is_the_class() {
        let running = AgentStatus { begun: 3, ended: 2, task: TaskId::new(1, 7).raw(), ..line(Activity::Schedule) };
        let idle = line(Activity::Idle);
        for (worker, told, class, root) in [
            (running, counts(5, Some(1), 9, &[7, 8]), StallClass::RunningStalled, Some(7)),
            (idle, counts(5, None, 9, &[8, 9]), StallClass::ReadyButIdle, Some(8)),
            (line(Activity::Schedule), counts(0, Some(1), 9, &[8]), StallClass::ReadyButIdle, Some(8)),
            (idle, counts(0, None, 9, &[8]), StallClass::DependencyDeadlock, Some(8)),
            (idle, counts(0, None, 0, &[]), StallClass::OrchestratorStarved, None),
        ] {
            let stall = decide(&look(Activity::Drain, worker), &told);
            let local = stall.task().map(TaskId::local);
            assert_eq!((stall.class, local), (class, root), "{:?}", stall.standstill);
        }
        assert_eq!(decide(&look(Activity::Away, idle), &counts(0, None, 0, &[])).class, StallClass::Unknown);
        let kept = StallCounts { kept: 3, ..counts(0, None, 0, &[8]) };
        assert_eq!(decide(&look(Activity::UserCode, idle), &kept).class, StallClass::OrchestratorStarved);
        let task = OpenTask { task: TaskId::new(2, 5), kernel: KernelId(0) };
        let cohort = Some(AssemblingCohort { task, taken: 3, blocks: 8 });
        let stall = decide(&look(Activity::Drain, idle), &StallCounts { cohort, ..counts(5, None, 9, &[8]) });
        assert_eq!((stall.class, stall.task()), (StallClass::ReadyButIdle, Some(task.task)));
        assert_eq!(stall.standstill.reason, StandstillReason::Assembling { taken: 3, blocks: 8 });
        let graph = StallCounts { others: true, ..counts(0, None, 0, &[]) };
        assert_eq!(decide(&look(Activity::Drain, idle), &graph).class, StallClass::DependencyDeadlock);
    }
}
