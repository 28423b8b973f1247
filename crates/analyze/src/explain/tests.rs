//! Explanations of boards and graphs that are made by hand.

use super::*;
use plimsoll_abi::board::wanted_word;
use plimsoll_abi::{Resource, TaskId};
use plimsoll_trace::deps::{Dependencies, Edge, EdgeSource, NO_ARG, TaskNode};
use plimsoll_trace::{
    CoreRows, DispatchRows, ErrorReport, ExecutedFacts, Executions, KernelFacts, OrchestratorFacts, Quality, RingFacts,
    SchedulerFacts, Source,
};

/// A chain of tasks r1t0 … of which the first `ended` have ended.
fn chain_of(tasks: u32, ended: u32) -> Trace {
    let mut trace = Trace::empty(Source::Run("run".into()));
    let kernels = vec![KernelFacts { id: 0, name: "add".into(), ..KernelFacts::default() }];
    trace.manifest = Some(Manifest { status: Status::Hung, kernels, ..Manifest::default() });
    trace.kernels = [(0, "add".to_string())].into();
    trace.facts.level = 1;
    let node = |at: u32| TaskNode {
        kernels: [0, -1, -1],
        blocks: 1,
        implied: false,
        ..TaskNode::implied(TaskId::new(1, at).raw())
    };
    let edge = |at: u32| Edge {
        succ: at,
        pred: at - 1,
        arg: NO_ARG,
        pred_arg: NO_ARG,
        source: EdgeSource::Explicit,
        covered: false,
        loose: 0,
    };
    trace.deps = Some(Dependencies {
        tasks: (0..tasks).map(node).collect(),
        edges: (1..tasks).map(edge).collect(),
        ..Dependencies::default()
    });
    let rows = CoreRows {
        core: vec![0; ended as usize],
        task: (0..ended).map(|at| TaskId::new(1, at).raw()).collect(),
        token: (1..=ended).collect(),
        kernel: vec![0; ended as usize],
        start: (0..ended).map(|at| u64::from(at) * 10).collect(),
        end: (0..ended).map(|at| u64::from(at) * 10 + 5).collect(),
        receive_to_start: vec![0; ended as usize],
    };
    trace.executions = Executions::join(rows, DispatchRows::default(), &mut Quality::default());
    trace
}

fn board(activity: Activity) -> BoardFacts {
    let orchestrator = OrchestratorFacts { activity: activity as u32, ..OrchestratorFacts::default() };
    BoardFacts { orchestrator, idle: 1, schedulers: 1, ..BoardFacts::default() }
}

fn runs(local: u32) -> RunningFacts {
    RunningFacts { core: 1, task: TaskId::new(1, local).raw(), token: 1, since: 1000, ..RunningFacts::default() }
}

fn told(trace: &Trace, board: &BoardFacts) -> Explanation {
    explain(trace, Some(board), None)
}

#[test]
fn a_running_task_at_the_end_of_the_chain_is_the_one_blocker() {
    let trace = chain_of(100, 40);
    let board = BoardFacts { running: vec![runs(40)], idle: 0, ..board(Activity::Drain) };
    let of = told(&trace, &board);
    assert_eq!((of.class, of.closed, of.certain), (EndClass::RunningStalled, false, true), "{of:?}");
    assert_eq!((of.waiting, of.roots), (Some(59), Some(1)));
    assert_eq!(of.blocker.task.as_deref(), Some("r1t40"));
    assert_eq!((of.blocker.kernel.as_deref(), of.blocker.core), (Some("add"), Some(1)));
    assert_eq!(of.groups.len(), 1);
    assert_eq!((of.groups[0].tasks, of.groups[0].first.as_str()), (59, "r1t41"));
    assert_eq!(of.chain.first().map(|link| link.what.as_str()), Some("orchestrator"));
    assert_eq!(of.chain.last().and_then(|link| link.task.as_deref()), Some("r1t40"));
    let left_out: u64 = of.chain.iter().filter_map(|link| link.left_out).sum();
    assert_eq!(left_out, 60 - 16, "the middle of a long chain is counted, not told");
    assert!(of.verdict.contains("59 tasks wait, 1 root"), "{}", of.verdict);
    assert_eq!(of.advice.len(), 3);
}

/// Two parts of a mixed task run: one waits for the other, on whose core the error says the hang is.
#[test]
fn of_the_parts_of_a_task_the_one_that_the_error_names_is_told() {
    let waiting = RunningFacts { core: 0, ..runs(4) };
    let hung = RunningFacts { core: 1, kernel: 1, since: 2000, ..runs(4) };
    let board = BoardFacts { running: vec![waiting, hung], idle: 0, ..board(Activity::Drain) };
    let mut trace = chain_of(10, 4);
    trace.kernels.insert(1, "mul".to_string());
    let error = ErrorReport {
        code: ErrorCode::OpTimeout.number(),
        task: Some("r1t4".to_string()),
        core: Some(1),
        ..ErrorReport::default()
    };
    trace.manifest.as_mut().expect("made above").error = Some(error);
    for trace in [trace.clone(), Trace { deps: None, ..trace }] {
        let of = told(&trace, &board);
        assert_eq!((of.blocker.kernel.as_deref(), of.blocker.core), (Some("mul"), Some(1)), "{of:?}");
        let last = of.chain.last().expect("a chain");
        assert!(last.name.contains("(mul)") && last.does.contains(&trace.core_name(1)), "{last:?}");
    }
}

#[test]
fn without_submits_the_chain_is_whoever_waits_and_what_runs() {
    let mut trace = chain_of(100, 40);
    trace.deps = None;
    let board = BoardFacts { running: vec![runs(40)], idle: 0, ..board(Activity::Drain) };
    let of = told(&trace, &board);
    assert_eq!((of.class, of.certain, of.groups.len()), (EndClass::RunningStalled, false, 0));
    assert_eq!((of.chain.len(), of.blocker.task.as_deref()), (2, Some("r1t40")));
    assert!(of.advice.iter().any(|advice| advice.contains("Flags::DEP_GEN")), "{:?}", of.advice);
}

#[test]
fn a_ready_task_that_nobody_takes_is_told_from_one_that_waits() {
    let of = told(&chain_of(10, 4), &board(Activity::Drain));
    assert_eq!((of.class, of.blocker.task.as_deref()), (EndClass::ReadyButIdle, Some("r1t4")));
    assert_eq!(of.blocker.core, None);
    let mut closed = chain_of(10, 4);
    let deps = closed.deps.as_mut().expect("edges");
    deps.edges.push(Edge { succ: 4, pred: 9, ..deps.edges[0] });
    let of = told(&closed, &board(Activity::Drain));
    assert_eq!((of.class, of.closed), (EndClass::DependencyDeadlock, true), "{of:?}");
}

#[test]
fn a_scheduler_that_stands_still_is_told_from_a_deadlock() {
    let between = Some(SchedulerFacts { agent: 2, thread: 77 });
    for trace in [chain_of(10, 4), Trace { deps: None, ..chain_of(10, 4) }] {
        let of = told(&trace, &BoardFacts { between, idle: 1, schedulers: 2, ..board(Activity::Drain) });
        assert_eq!(of.class, EndClass::ReadyButIdle, "{of:?}");
        let last = of.chain.last().expect("a chain");
        assert!(last.what == "scheduler" && last.name == "scheduler 2", "{of:?}");
        assert!(of.advice[0].contains("scheduler 2"), "{of:?}");
    }
}

#[test]
fn what_an_orchestrator_in_its_own_code_keeps_to_itself_is_not_ready_for_others() {
    let of = told(&chain_of(10, 4), &BoardFacts { idle: 0, schedulers: 0, ..board(Activity::UserCode) });
    assert_eq!((of.class, of.blocker.task), (EndClass::OrchestratorStarved, None));
    let of = told(&chain_of(10, 4), &BoardFacts { ready: 1, ..board(Activity::UserCode) });
    assert_eq!((of.class, of.blocker.task.as_deref()), (EndClass::ReadyButIdle, Some("r1t4")));
}

#[test]
fn a_ready_task_without_a_core_waits_for_what_runs() {
    let board = BoardFacts { running: vec![runs(77)], idle: 0, ..board(Activity::Drain) };
    let of = told(&chain_of(10, 4), &board);
    assert_eq!((of.class, of.blocker.task.as_deref()), (EndClass::RunningStalled, Some("r1t77")), "{of:?}");
    let before = &of.chain[of.chain.len() - 2];
    assert!(before.task.as_deref() == Some("r1t4") && before.does.contains("waits for a core"), "{of:?}");
}

#[test]
fn an_orchestrator_that_does_not_go_on_is_the_blocker() {
    let of = told(&chain_of(4, 4), &board(Activity::UserCode));
    assert_eq!((of.class, of.blocker.task), (EndClass::OrchestratorStarved, None));
    assert_eq!(of.chain.len(), 1);
}

#[test]
fn a_ring_that_is_pinned_is_told_with_its_scope() {
    let mut trace = chain_of(4, 4);
    let sites = vec![plimsoll_trace::SiteFacts { id: 3, file: "a.rs".into(), line: 7 }];
    trace.manifest.as_mut().expect("a manifest").sites = sites;
    let mut board = board(Activity::WaitRoom);
    board.orchestrator.wanted = Some((Resource::Heap as u8, 1));
    assert_eq!(wanted_word(Resource::Heap, 1), 0x101);
    board.rings[1] = RingFacts { head: 4, pin: Some(0), site: 3, heap: 64, ..RingFacts::default() };
    let of = told(&trace, &board);
    assert_eq!((of.class, of.closed), (EndClass::CapacityDeadlock, true));
    assert_eq!((of.blocker.ring, of.blocker.resource.as_deref()), (Some(1), Some("heap")));
    assert_eq!((of.blocker.site.as_deref(), of.blocker.task.as_deref()), (Some("a.rs:7"), Some("r1t0")));
}

#[test]
fn tasks_that_execute_nothing_or_were_passed_over_do_not_count_as_waiting() {
    let mut trace = chain_of(10, 4);
    let deps = trace.deps.as_mut().expect("tasks");
    // r1t4 executes nothing, so r1t5 is what is ready.
    deps.tasks[4].kernels = [-1; 3];
    assert_eq!(told(&trace, &board(Activity::Drain)).blocker.task.as_deref(), Some("r1t5"));
    // r1t4 was predicated and left no record, but what waited for it runs.
    let mut trace = chain_of(10, 4);
    trace.deps.as_mut().expect("tasks").tasks[4].kernels = [0, -1, -1];
    let board = BoardFacts { running: vec![runs(5)], ..board(Activity::Drain) };
    let of = told(&trace, &board);
    assert_eq!((of.blocker.task.as_deref(), of.waiting), (Some("r1t5"), Some(4)));
}

#[test]
fn a_task_that_was_executed_and_not_taken_note_of_is_the_blocker_that_the_watchdog_named() {
    let mut trace = chain_of(10, 4);
    let error = plimsoll_trace::ErrorReport {
        code: ErrorCode::SchedulerTimeout.number(),
        class: Some("ready-but-idle".into()),
        task: Some("r1t3".into()),
        ..plimsoll_trace::ErrorReport::default()
    };
    trace.manifest.as_mut().expect("a manifest").error = Some(error);
    let of = told(&trace, &board(Activity::Drain));
    assert_eq!(of.blocker.task.as_deref(), Some("r1t3"), "{of:?}");
    assert!(of.chain.last().is_some_and(|link| link.does.contains("took note")), "{of:?}");
}

/// A run that has lost its process, and does not say why.
fn killed(mut trace: Trace) -> Trace {
    let manifest = trace.manifest.as_mut().expect("a manifest");
    (manifest.status, manifest.started_unix_ns) = (Status::Killed, 1);
    trace
}

#[test]
fn an_orchestration_that_took_the_process_down_is_told_from_tasks_that_were_ready() {
    for activity in [Activity::UserCode, Activity::Submit] {
        let of = told(&killed(chain_of(10, 4)), &BoardFacts { ready: 1, ..board(activity) });
        assert_eq!((of.class, of.blocker.task), (EndClass::Killed, None));
        assert!(of.chain.len() == 1 && of.chain[0].what == "orchestrator", "{:?}", of.chain);
    }
    // A kernel of the process may have done it, too.
    let of = told(&killed(chain_of(10, 4)), &BoardFacts { running: vec![runs(4)], ..board(Activity::UserCode) });
    assert_eq!(of.blocker.task.as_deref(), Some("r1t4"));
    // A kill may come in the instant before somebody takes a task.
    let of = told(&killed(chain_of(10, 4)), &board(Activity::Drain));
    assert!(of.chain.last().is_some_and(|link| link.does == "was ready"), "{:?}", of.chain);
}

#[test]
fn in_virtual_time_the_code_is_that_of_the_newest_execution() {
    let mut trace = killed(chain_of(10, 4));
    trace.manifest.as_mut().expect("a manifest").virtual_time = true;
    let newer = RunningFacts { core: 2, since: 1001, ..runs(7) };
    let both = |newer: RunningFacts, activity| BoardFacts { running: vec![runs(4), newer], ..board(activity) };
    let of = told(&trace, &both(newer, Activity::Drain));
    assert_eq!((of.blocker.task.as_deref(), of.certain), (Some("r1t7"), true), "{of:?}");
    assert!(of.advice.iter().any(|advice| advice.contains("r1t7")), "{:?}", of.advice);
    // Of two that began at the same virtual instant nobody knows which came first.
    assert!(!told(&trace, &both(RunningFacts { since: 1000, ..newer }, Activity::Drain)).certain);
    // Nor whether the orchestration went on meanwhile.
    assert!(!told(&trace, &both(newer, Activity::UserCode)).certain);
    trace.manifest.as_mut().expect("a manifest").virtual_time = false;
    trace.deps = None;
    assert_eq!(told(&trace, &both(newer, Activity::Drain)).blocker.task.as_deref(), Some("r1t4"));
}

#[test]
fn a_task_that_its_core_has_executed_is_not_called_ready() {
    let last = ExecutedFacts { core: 0, task: TaskId::new(1, 4).raw(), token: 5 };
    let between = Some(SchedulerFacts { agent: 2, thread: 77 });
    let stands = BoardFacts { between, executed: vec![last], schedulers: 2, ..board(Activity::Drain) };
    let of = told(&chain_of(10, 4), &stands);
    let of_task: Vec<&str> =
        of.chain.iter().filter(|link| link.task.as_deref() == Some("r1t4")).map(|link| link.does.as_str()).collect();
    assert_eq!(
        (of.class, of.certain, of_task),
        (EndClass::ReadyButIdle, true, vec!["was executed, and no scheduler has taken note of it"])
    );
    assert_eq!(of.ready, Some(0));
    // Its record is there, so that its scheduler knew.
    let known = BoardFacts {
        executed: vec![ExecutedFacts { task: TaskId::new(1, 3).raw(), token: 4, ..last }],
        ..stands.clone()
    };
    assert!(told(&chain_of(10, 4), &known).chain.iter().any(|link| link.does.contains("is ready")));
    // The core has ended one more, and its line names the last one alone.
    let of =
        told(&chain_of(10, 4), &BoardFacts { executed: vec![ExecutedFacts { token: 6, ..last }], ..stands.clone() });
    assert!(!of.certain && of.unsure.iter().any(|why| why.contains("than records tell of")), "{:?}", of.unsure);
    // A core that did nothing in this run counts on from the one before.
    let idle = ExecutedFacts { core: 3, task: 0, token: 900 };
    assert!(told(&chain_of(10, 4), &BoardFacts { executed: vec![idle], ..stands }).certain);
}

#[test]
fn what_the_watchdog_named_is_believed_where_nothing_else_is_known() {
    let mut trace = chain_of(10, 4);
    trace.deps = None;
    let error = plimsoll_trace::ErrorReport {
        code: ErrorCode::SchedulerTimeout.number(),
        class: Some("ready-but-idle".into()),
        task: Some("r1t4".into()),
        kernel: Some("add".into()),
        site: Some("a.rs:7".into()),
        ..plimsoll_trace::ErrorReport::default()
    };
    trace.manifest.as_mut().expect("a manifest").error = Some(error);
    let of = told(&trace, &board(Activity::Drain));
    assert_eq!((of.class, of.certain), (EndClass::ReadyButIdle, false), "{of:?}");
    assert_eq!((of.blocker.task.as_deref(), of.blocker.site.as_deref()), (Some("r1t4"), Some("a.rs:7")));
    assert_eq!(of.chain.last().and_then(|link| link.task.as_deref()), Some("r1t4"));
}

#[test]
fn a_killed_run_is_to_be_recovered_once_and_then_its_last_kernel_looked_at() {
    let mut trace = chain_of(10, 4);
    let last = BoardFacts { running: vec![runs(4)], ..board(Activity::Drain) };
    let first = |trace: &Trace, board: &BoardFacts| {
        let of = told(trace, board);
        assert_eq!((of.class, of.advice.len()), (EndClass::Killed, 3), "{of:?}");
        of.advice[0].clone()
    };
    trace.manifest.as_mut().expect("a manifest").status = Status::Running;
    trace.liveness = Liveness::NeedsRecovery;
    assert!(first(&trace, &last).contains("`plimsoll recover run`"));
    trace.manifest.as_mut().expect("a manifest").status = Status::Killed;
    trace.liveness = Liveness::Ended;
    let advice = first(&trace, &last);
    assert!(
        advice.contains("add, which ran last") && advice.contains("dump_tasks = vec![\"r1t4\".into()]"),
        "{advice}"
    );
    assert!(first(&trace, &board(Activity::Drain)).contains("`plimsoll stats run`"));
}

/// Where only the collector was stopped, no device is lost.
#[test]
fn a_collector_that_was_stopped_is_no_lost_device() {
    let mut trace = chain_of(4, 4);
    let error = plimsoll_trace::ErrorReport { code: ErrorCode::HostGone.number(), ..Default::default() };
    trace.manifest = Some(Manifest { status: Status::Failed, error: Some(error), ..Manifest::default() });
    let of = explain(&trace, None, None);
    assert_eq!((of.class, of.advice.len()), (EndClass::Failed, 3), "{of:?}");
    assert!(of.advice.iter().any(|advice| advice.contains("collector")), "{:?}", of.advice);
    assert!(of.advice.iter().all(|advice| !advice.contains("nother device")), "{:?}", of.advice);
}

/// A process may be stopped at any moment, also while somebody waits for the recorder or between the two looks.
#[test]
fn a_stopped_process_is_said_to_be_stopped_whatever_it_waited_for() {
    let mut trace = chain_of(10, 4);
    trace.manifest.as_mut().expect("a manifest").status = Status::Running;
    trace.liveness = Liveness::Alive;
    let outside = Outside { pid: 7, stopped: true, ..Outside::default() };
    let waits = BoardFacts { recorder_waits: 1, ..board(Activity::Drain) };
    let of = explain(&trace, Some(&waits), Some(&outside));
    assert!(of.class == EndClass::Running && of.verdict.starts_with("Process 7 is stopped. "), "{of:?}");
    assert!(of.unsure.iter().all(|why| !why.contains("goes on")), "{of:?}");
    let moved = Outside { moved: true, ..outside };
    let of = explain(&trace, Some(&board(Activity::Drain)), Some(&moved));
    assert!(of.verdict.starts_with("Process 7 is stopped. ") && !of.verdict.contains("goes on"), "{of:?}");
    // The device of a host that is stopped goes on.
    let host = Outside { device_pid: Some(8), ..moved };
    let of = explain(&trace, Some(&waits), Some(&host));
    assert!(of.verdict.starts_with("Process 7 is stopped. ") && of.unsure.iter().any(|why| why.contains("goes on")));
}

/// Without submits it is known of a task whether it was executed, and not that it could have been started.
#[test]
fn what_the_watchdog_named_is_not_called_unstarted_where_that_is_not_known() {
    let mut trace = chain_of(10, 4);
    trace.deps = None;
    let error = |task: &str| plimsoll_trace::ErrorReport {
        code: ErrorCode::SchedulerTimeout.number(),
        class: Some("ready-but-idle".into()),
        task: Some(task.into()),
        ..plimsoll_trace::ErrorReport::default()
    };
    let last = ExecutedFacts { core: 5, task: TaskId::new(1, 4).raw(), token: 1 };
    let stands = BoardFacts { executed: vec![last], ..board(Activity::Drain) };
    for (task, does) in [
        ("r1t3", "was executed on worker 0, and had not completed"),
        ("r1t4", "was executed on worker 5, and had not completed"),
        ("r1t5", "had not completed"),
    ] {
        trace.manifest.as_mut().expect("a manifest").error = Some(error(task));
        let of = told(&trace, &stands);
        assert_eq!(of.chain.last().map(|link| link.does.as_str()), Some(does), "{of:?}");
    }
}

/// As the run's own watchdog does, whatever was submitted last.
#[test]
fn of_tasks_that_nobody_takes_the_first_is_named() {
    let mut trace = chain_of(10, 4);
    // r1t9 waits for nobody.
    trace.deps.as_mut().expect("edges").edges.retain(|edge| edge.succ < 5);
    let of = told(&trace, &board(Activity::Drain));
    assert_eq!((of.class, of.blocker.task.as_deref()), (EndClass::ReadyButIdle, Some("r1t4")), "{of:?}");
    assert_eq!(of.chain.last().map(|link| link.does.as_str()), Some("is ready, and nobody takes it"));
    let last = ExecutedFacts { core: 0, task: TaskId::new(1, 4).raw(), token: 5 };
    let of = told(&trace, &BoardFacts { executed: vec![last], ..board(Activity::Drain) });
    assert_eq!(of.blocker.task.as_deref(), Some("r1t4"), "{of:?}");
    assert!(of.chain.last().is_some_and(|link| link.does.contains("was executed")), "{of:?}");
}

#[test]
fn advice_on_a_killed_run_is_of_what_is_known_and_told_once() {
    let mut trace = killed(chain_of(10, 4));
    let stats = |advice: &[String]| advice.iter().filter(|advice| advice.contains("`plimsoll stats run`")).count();
    let isolation = |advice: &[String]| advice.iter().any(|advice| advice.contains("EmulatedOptions::isolated"));
    // Made from its region: neither whether it was isolated is known, nor whether it was killed.
    trace.manifest.as_mut().expect("a manifest").started_unix_ns = 0;
    let of = told(&trace, &board(Activity::Drain));
    assert_eq!((stats(&of.advice), isolation(&of.advice), of.advice.len()), (1, false, 3), "{:?}", of.advice);
    assert!(!of.certain && of.unsure.iter().any(|why| why.contains("by itself")), "{:?}", of.unsure);
    trace.manifest.as_mut().expect("a manifest").started_unix_ns = 1;
    assert!(isolation(&told(&trace, &board(Activity::Drain)).advice));
    trace.manifest.as_mut().expect("a manifest").device_pid = Some(8);
    let of = told(&trace, &board(Activity::Drain));
    assert_eq!((stats(&of.advice), isolation(&of.advice), of.advice.len()), (1, false, 3), "{:?}", of.advice);
}

/// In virtual time a cost of `never` ends the run with an error, so a run that lives is in the kernel's own code.
#[test]
fn a_kernel_whose_code_does_not_return_in_virtual_time_needs_no_other_cost() {
    let mut trace = chain_of(10, 4);
    let manifest = trace.manifest.as_mut().expect("a manifest");
    (manifest.virtual_time, manifest.status) = (true, Status::Running);
    trace.liveness = Liveness::Alive;
    let running = BoardFacts { running: vec![RunningFacts { thread: 9, ..runs(4) }], ..board(Activity::Drain) };
    let outside = Outside { pid: 7, ..Outside::default() };
    let of = explain(&trace, Some(&running), Some(&outside));
    assert_eq!(of.class, EndClass::RunningStalled);
    assert!(
        of.advice[0].contains("gdb -p 7") && of.advice.iter().all(|what| !what.contains("a cost")),
        "{:?}",
        of.advice
    );
}

/// A row of a ledger: so many records of a kind were dropped.
fn dropping(kind: Kind, dropped: u64) -> plimsoll_trace::Ledger {
    let pool = plimsoll_trace::PoolLedger { kind: kind.name().into(), total: 100, dropped, ..Default::default() };
    plimsoll_trace::Ledger::of(vec![pool])
}

#[test]
fn figures_of_records_of_which_some_were_dropped_are_not_told() {
    let mut trace = chain_of(10, 4);
    trace.manifest.as_mut().expect("a manifest").flags = Flags::DEP_GEN.bits();
    let hangs = BoardFacts { running: vec![runs(4)], idle: 0, ..board(Activity::Drain) };
    for kind in [Kind::Submit, Kind::AicoreTask] {
        trace.manifest.as_mut().expect("a manifest").reconcile = Some(dropping(kind, 7));
        let of = told(&trace, &hangs);
        assert_eq!((of.class, of.certain, of.groups.len()), (EndClass::RunningStalled, false, 0), "{of:?}");
        assert_eq!((of.waiting, of.roots, of.ready), (None, None, None), "{of:?}");
        assert_eq!((of.chain.len(), of.blocker.task.as_deref()), (2, Some("r1t4")), "{of:?}");
        assert!(of.unsure.iter().any(|why| why.contains("7 were dropped")), "{:?}", of.unsure);
        assert!(of.advice.iter().all(|advice| !advice.contains("Flags::DEP_GEN")), "{:?}", of.advice);
    }
    // Scopes tell nothing of who waits.
    trace.manifest.as_mut().expect("a manifest").reconcile = Some(dropping(Kind::ScopeSample, 7));
    let of = told(&trace, &hangs);
    assert_eq!((of.waiting, of.certain), (Some(5), false), "{of:?}");
    trace.manifest.as_mut().expect("a manifest").reconcile = Some(dropping(Kind::Submit, 0));
    assert!(told(&trace, &hangs).certain);
}

/// A graph that is built anew in every round is told by submits of more than one.
#[test]
fn tasks_of_earlier_rounds_are_done_also_where_the_present_one_has_no_submits() {
    let mut trace = chain_of(10, 0);
    let tasks = &mut trace.deps.as_mut().expect("tasks").tasks;
    tasks[5..].iter_mut().for_each(|task| task.word = TaskId::from_raw(task.word).with_round(1));
    let rows = CoreRows {
        core: vec![0],
        task: vec![TaskId::new(2, 0).with_round(2)],
        token: vec![1],
        kernel: vec![0],
        start: vec![10],
        end: vec![15],
        receive_to_start: vec![0],
    };
    trace.executions = Executions::join(rows, DispatchRows::default(), &mut Quality::default());
    let of = told(&trace, &board(Activity::Drain));
    assert_eq!((of.waiting, of.roots), (Some(0), Some(0)), "{of:?}");
}

#[test]
fn a_run_that_was_given_a_flag_is_not_told_to_use_it() {
    let mut trace = killed(chain_of(10, 4));
    trace.deps = None;
    trace.manifest.as_mut().expect("a manifest").flags = Flags::DEP_GEN.bits();
    let of = told(&trace, &BoardFacts { running: vec![runs(4)], ..board(Activity::Drain) });
    assert!(of.unsure.iter().any(|why| why.starts_with("No submit has been recorded")), "{:?}", of.unsure);
    assert!(of.advice.iter().chain(&of.unsure).all(|text| !text.contains("Flags::DEP_GEN")), "{of:?}");
}

#[test]
fn a_run_that_is_just_starting_is_told_from_one_that_was_killed_at_that() {
    let mut trace = Trace::empty(Source::Run("run".into()));
    let flags = Flags::DEP_GEN.bits();
    trace.manifest = Some(Manifest { flags, started_unix_ns: 1, ..Manifest::default() });
    trace.liveness = Liveness::Alive;
    let of = explain(&trace, None, Some(&Outside { pid: 7, ..Outside::default() }));
    assert!(of.class == EndClass::Running && of.verdict.contains("just starting"), "{of:?}");
    assert!(of.unsure.iter().all(|why| why.contains("goes on")), "{:?}", of.unsure);
    trace.liveness = Liveness::NeedsRecovery;
    let killed = |trace: &Trace| {
        let of = explain(trace, None, None);
        assert!(of.class == EndClass::Killed && of.verdict.contains("killed while it started"), "{of:?}");
        assert_eq!((of.certain, of.advice.len()), (true, 3), "{of:?}");
        of.verdict
    };
    assert!(killed(&trace).contains("`plimsoll recover run`"));
    trace.liveness = Liveness::Ended;
    let manifest = trace.manifest.as_mut().expect("a manifest");
    (manifest.status, manifest.reconcile) = (Status::Killed, Some(plimsoll_trace::Ledger::of(Vec::new())));
    assert!(!killed(&trace).contains("recover"));
}

/// What stands still because somebody stopped it is no defect of the runtime, and needs no budget.
#[test]
fn a_stopped_process_is_to_be_let_go_first() {
    let mut trace = chain_of(10, 4);
    trace.manifest.as_mut().expect("a manifest").status = Status::Running;
    trace.liveness = Liveness::Alive;
    let stopped = Outside { pid: 7, stopped: true, ..Outside::default() };
    let both = Outside { device_pid: Some(8), device_stopped: true, ..stopped.clone() };
    for (outside, advice) in [(&stopped, "`kill -CONT 7`"), (&both, "`kill -CONT 7 8`")] {
        let hangs = BoardFacts { running: vec![runs(4)], ..board(Activity::Drain) };
        for board in [board(Activity::Drain), hangs, board(Activity::UserCode)] {
            let of = explain(&trace, Some(&board), Some(outside));
            assert!(of.class.is_stall() && of.advice[0].contains(advice), "{of:?}");
            assert!(of.advice.iter().all(|of| !of.contains("defect") && !of.contains("timeout")), "{:?}", of.advice);
            assert!(!of.certain && of.unsure.iter().any(|why| why.contains("let go")), "{:?}", of.unsure);
        }
    }
    // The stop is the whole answer where the run was seen to move.
    let moved = Outside { moved: true, ..stopped };
    let of = explain(&trace, Some(&board(Activity::Drain)), Some(&moved));
    assert!(of.certain && of.advice[0].contains("`kill -CONT 7`"), "{of:?}");
}

#[test]
fn the_budget_that_has_ended_a_run_is_the_one_to_enlarge() {
    let mut trace = chain_of(10, 4);
    let ended = |class: &str, option: &str, ms: u64| ErrorReport {
        code: ErrorCode::SchedulerTimeout.number(),
        class: Some(class.into()),
        budget: Some(plimsoll_trace::manifest::BudgetFacts { option: option.into(), ms }),
        ..ErrorReport::default()
    };
    let hangs = BoardFacts { running: vec![runs(4)], ..board(Activity::Drain) };
    let budgets = |trace: &Trace, board: &BoardFacts| -> Vec<String> {
        let of = told(trace, board).advice.into_iter();
        of.filter(|advice| advice.contains("_timeout")).collect()
    };
    for (class, board, option, ms, more) in [
        ("running-stalled", hangs.clone(), "stall_timeout", 700, "\"7s\""),
        ("orchestrator-starved", board(Activity::UserCode), "stall_timeout", 25, "\"250ms\""),
        ("orchestrator-starved", board(Activity::UserCode), "orch_timeout", 1000, "\"10s\""),
    ] {
        let manifest = trace.manifest.as_mut().expect("a manifest");
        manifest.command = ["--op-timeout", "20s", "--stall-timeout", "700ms"].map(str::to_owned).into();
        manifest.error = Some(ended(class, option, ms));
        let of = budgets(&trace, &board);
        assert!(of.len() == 1 && of[0].starts_with("If it only needs longer"), "{of:?}");
        assert!(of[0].contains(&format!("{option} = ")) && of[0].contains(more), "{of:?}");
    }
    // Of a run that goes on `off` is no budget.
    let manifest = trace.manifest.as_mut().expect("a manifest");
    (manifest.error, manifest.status) = (None, Status::Hung);
    manifest.command = ["--op-timeout", "off"].map(str::to_owned).into();
    let of = budgets(&trace, &hangs);
    assert!(of.len() == 1 && of[0].starts_with("Give one kernel a budget"), "{of:?}");
}

#[test]
fn a_kernel_that_returned_when_it_was_given_up_stays_the_one_to_blame() {
    for with_submits in [true, false] {
        let mut trace = chain_of(10, 5);
        if !with_submits {
            trace.deps = None;
        }
        let error = ErrorReport {
            code: ErrorCode::OpTimeout.number(),
            task: Some("r1t4".into()),
            core: Some(0),
            ..ErrorReport::default()
        };
        trace.manifest.as_mut().expect("a manifest").error = Some(error);
        let given_up = RunningFacts { core: 0, token: 5, since: 40, ..runs(4) };
        let of = told(&trace, &BoardFacts { running: vec![given_up], ..board(Activity::Drain) });
        assert_eq!((of.blocker.task.as_deref(), of.blocker.core), (Some("r1t4"), Some(0)), "{of:?}");
        let last = of.chain.last().expect("a chain");
        assert_eq!(last.does, "ran on worker 0, and returned after the run was given up", "{of:?}");
    }
}

#[test]
fn of_a_wait_that_took_too_long_the_chain_begins_with_who_waited() {
    let mut trace = chain_of(10, 4);
    let code = ErrorCode::TensorWaitTimeout.number();
    let error = ErrorReport { code, task: Some("r1t9".into()), ..ErrorReport::default() };
    trace.manifest.as_mut().expect("a manifest").error = Some(error);
    let of = explain(&trace, None, None);
    let links: Vec<(&str, &str)> = of.chain.iter().map(|link| (link.what.as_str(), link.does.as_str())).collect();
    assert_eq!(links[1], ("task", "had not completed"), "{of:?}");
    assert!(links.len() == 2 && links[0].0 == "orchestrator", "{of:?}");
    assert_eq!(of.blocker.task.as_deref(), Some("r1t9"));
}

#[test]
fn a_frame_that_a_killed_run_was_writing_is_no_damage_while_its_region_is_there() {
    let mut trace = chain_of(10, 4);
    let manifest = trace.manifest.as_mut().expect("a manifest");
    (manifest.status, manifest.started_unix_ns) = (Status::Running, 1);
    trace.quality.note(FindingKind::CutOff, None, String::new);
    for (liveness, certain) in [(Liveness::NeedsRecovery, true), (Liveness::RegionGone, false)] {
        trace.liveness = liveness;
        let hangs = BoardFacts { running: vec![runs(4)], ..board(Activity::Drain) };
        assert_eq!(told(&trace, &hangs).certain, certain, "{liveness:?}");
    }
}
