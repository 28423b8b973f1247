//! What bounds a run, and what cost most: on small files of our own making, whose answers can be worked out by hand.

use std::fs;

use plimsoll_analyze::{CriticalPath, Parts, Sched, TaskTable, TaskWaits, costliest, critical_path, sched, stats, why};
use plimsoll_trace::Trace;

/// A file at 1 GHz with these rows; `besides` is more of the file.
fn read(level: u8, rows: &str, besides: &str, deps: Option<&str>) -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = format!(
        r#"{{"chip_swimlane_level": {level}, "metadata": {{"clock_freq_hz": 1000000000, "num_cores": 4,
            "core_types": ["aiv", "aiv", "aiv", "aiv"]}}, "aicore_tasks": [{rows}]{besides}}}"#
    );
    fs::write(dir.path().join("chip_swimlane_records.json"), file).expect("written");
    if let Some(deps) = deps {
        fs::write(dir.path().join("deps.json"), deps).expect("written");
    }
    plimsoll_trace::open(dir.path()).expect("readable")
}

fn answers(trace: &Trace) -> (CriticalPath, Sched) {
    let (path, sched) = (critical_path(trace).expect("tasks ran"), sched(trace).expect("tasks ran"));
    let p = &path.summary.parts;
    let told = [p.data_wait, p.scheduling, p.submit, p.ring_wait, p.recorder_wait].into_iter().flatten().sum::<u64>();
    assert_eq!(p.kernel + p.core_wait + p.front_gap + told, path.summary.makespan_ns);
    (path, sched)
}

const EARLY_AND_LATE: &str = "[0,1,1,0,10,0], [1,2,2,900,1000,0]";
const DISPATCHES: &str = r#", "aicpu_tasks": [[0,1,0,12], [1,2,890,1002]]"#;

#[test]
fn a_front_gap_is_blamed_on_its_causes() {
    let (path, alone) = answers(&read(1, EARLY_AND_LATE, "", None));
    assert_eq!(path.summary.parts.front_gap, 900);
    assert_eq!((alone.verdict, alone.verdict_share), ("scheduling", 0.9), "nothing else was recorded");
    assert_eq!(alone.verdict_folds, ["submit", "data_wait"], "and that is said");
    for (submitted, verdict, share) in [(850, "submitting", 0.85), (100, "scheduling", 0.8)] {
        let submits = format!(
            r#"{DISPATCHES}, "aicpu_orchestrator_phases": [[
                {{"submit_idx": 0, "task_id": 1, "start_cycles": 0, "end_cycles": 0}},
                {{"submit_idx": 1, "task_id": 2, "start_cycles": 0, "end_cycles": {submitted}}}]]"#
        );
        let (path, sched) = answers(&read(4, EARLY_AND_LATE, &submits, None));
        assert_eq!(path.summary.parts.front_gap, 900, "the parts stay those of the reference");
        assert_eq!((sched.verdict, sched.verdict_share), (verdict, share));
    }
}

#[test]
fn without_dependencies_nothing_tells_whether_cores_idled_beside_ready_tasks() {
    let trace = read(2, EARLY_AND_LATE, DISPATCHES, None);
    let (_, sched) = answers(&trace);
    assert!(sched.overhead.reference.is_none() && sched.overhead.own.is_none(), "{:?}", sched.overhead);
    assert!(costliest(&trace).iter().all(|found| !found.what.contains("idle")), "{:?}", costliest(&trace));
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}], "edges": [{"pred": 1, "succ": 2}]}"#;
    let overhead = answers(&read(2, EARLY_AND_LATE, DISPATCHES, Some(deps))).1.overhead;
    assert_eq!(overhead.reference.expect("dependencies").has, 0.88);
}

#[test]
fn a_chain_of_one_task_is_no_chain() {
    let (path, sched) = answers(&read(1, "[0,1,1,0,900,0], [1,2,2,850,1000,0]", "", None));
    assert_eq!((path.summary.static_tasks, path.summary.bound_by), (1, "kernels"));
    let told = "the share is that of the path's kernels, though a longer task beside it bounds the run";
    assert_eq!((sched.verdict, sched.verdict_share), ("kernels", 0.15), "{told}");
}

#[test]
fn each_cause_names_the_task_that_has_most_of_it() {
    let rows = "[0,1,1,300,400,0], [1,9,9,0,10,0], [0,2,2,600,700,0], [1,3,3,1000,1100,0]";
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}, {"task_id": 3}], "edges": [{"pred": 2, "succ": 3}]}"#;
    let found = costliest(&read(1, rows, "", Some(deps)));
    let told: Vec<(u64, Option<&str>)> = found.iter().map(|found| (found.cost_ns, found.task.as_deref())).collect();
    assert_eq!(told, [(300, Some("r0t3")), (300, Some("r0t1")), (300, None)], "{found:?}");
    assert!(found[1].what.contains("first task"), "{found:?}");
}

#[test]
fn what_lies_between_rounds_bounds_nothing() {
    let rows = "[0,1,1,0,100,0,0], [0,2,2,110,200,0,0], [0,1,1,5000,5100,0,1], [0,2,2,5110,5200,0,1]";
    let submits = r#", "scheduler_tasks": {"records": [[0,1,0,102,0], [0,2,105,202,0], [0,1,4990,5102,1], [0,2,5105,5202,1]]},
        "aicpu_orchestrator_phases": [[
        {"submit_idx": 0, "task_id": 1, "start_cycles": 0, "end_cycles": 0, "run_epoch": 0},
        {"submit_idx": 1, "task_id": 2, "start_cycles": 0, "end_cycles": 50, "run_epoch": 0},
        {"submit_idx": 0, "task_id": 1, "start_cycles": 4950, "end_cycles": 4960, "run_epoch": 1},
        {"submit_idx": 1, "task_id": 2, "start_cycles": 4960, "end_cycles": 4970, "run_epoch": 1}]]"#;
    let trace = read(4, rows, submits, None);
    let (path, sched) = answers(&trace);
    assert_eq!((path.summary.parts.front_gap, path.summary.parts.submit), (4750, Some(10)));
    assert_eq!(sched.verdict, "kernels", "{sched:?}");
    let why = why(&trace, trace.executions.word(2)).expect("it ran");
    let causes: u64 = why.causes.iter().filter_map(|cause| cause.ns).sum();
    assert_eq!((why.wait_ns, causes), (4800, 4800), "{why:?}");
    // Without submits the round's beginning is not known, and the whole gap is nobody's.
    let (unknown, sched) = answers(&read(1, rows, "", None));
    assert_eq!((unknown.summary.parts.front_gap, sched.verdict), (4800, "kernels"));
    // So it is where only the first round was submitted, as of a prebuilt program.
    let (first_alone, _) =
        submits.split_once(",\n        {\"submit_idx\": 0, \"task_id\": 1, \"start_cycles\": 4950").expect("two");
    let prebuilt = read(4, rows, &format!("{first_alone}]]"), None);
    let (path, sched) = answers(&prebuilt);
    assert_eq!((path.summary.parts.front_gap, path.summary.parts.scheduling), (4800, Some(8 + 8)), "{:?}", path.path);
    assert_eq!(sched.verdict, "kernels");
    let costly = costliest(&prebuilt);
    assert!(costly[0].what.contains("between rounds") && costly[0].cost_ns == 4800, "{costly:?}");
}

#[test]
fn the_waits_of_all_tasks_are_those_that_are_told_of_each() {
    let submits = r#", "aicpu_tasks": [[0,1,0,12,0], [1,2,890,1002,0], [1,1,4890,5002,1]], "aicpu_orchestrator_phases": [[
        {"submit_idx": 0, "task_id": 1, "start_cycles": 0, "end_cycles": 0, "run_epoch": 0},
        {"submit_idx": 1, "task_id": 2, "start_cycles": 0, "end_cycles": 850, "run_epoch": 0},
        {"submit_idx": 0, "task_id": 1, "start_cycles": 4000, "end_cycles": 4100, "run_epoch": 1}]]"#;
    let rows = "[0,1,1,0,10,0,0], [1,2,2,900,1000,0,0], [1,1,1,4900,5000,0,1]";
    let trace = read(4, rows, submits, None);
    let table = TaskTable::new(&trace);
    let waits = TaskWaits::of(&trace, &table);
    for at in 0..trace.executions.len() {
        let word = trace.executions.word(at);
        let (told, parts) = (why(&trace, word).expect("it ran"), waits.get(word).expect("it ran").parts);
        let of = |name: &str| told.causes.iter().find(|cause| cause.cause == name).and_then(|cause| cause.ns);
        let causes = ["data", "core", "scheduler", "submit", "ring", "recorder"].map(of);
        let own = [parts.data_wait, Some(parts.core_wait), parts.scheduling, parts.submit, parts.ring_wait];
        assert_eq!(causes[..5], own, "{}", told.task);
        assert_eq!((causes[5], of("front_gap").unwrap_or(0)), (parts.recorder_wait, parts.front_gap), "{}", told.task);
    }
    let rows = plimsoll_analyze::task_rows(&trace);
    let path = critical_path(&trace).expect("tasks ran").path;
    for row in rows.iter().filter(|row| trace.task_name(row.word) != path[0].task) {
        assert_eq!(row.waits, waits.get(row.word).expect("it ran").parts, "{}", trace.task_name(row.word));
    }
    let begin = rows.iter().find(|row| trace.task_name(row.word) == path[0].task).expect("it ran");
    assert_eq!(Parts { kernel: 0, ..begin.waits }, path[0].parts, "the path's first task has its front gap");
    let followed_nobody = waits.get(trace.executions.word(1)).expect("it ran");
    assert_eq!((followed_nobody.pred, followed_nobody.parts.submit), (None, Some(850)), "{followed_nobody:?}");
    assert_eq!(followed_nobody.parts.front_gap, 0);
}

#[test]
fn a_core_is_not_waited_for_by_a_task_that_had_begun() {
    let rows = "[0,1,1,1,1000,0], [1,1,1,1,1000,0], [0,2,2,1100,2000,0], [1,2,3,4000,5000,0], [1,3,2,1100,3900,0], [0,3,3,2100,2200,0]";
    let deps = r#"{"tasks": [{"task_id": 1, "block_num": 2}, {"task_id": 2, "block_num": 2}, {"task_id": 3, "block_num": 2}],
        "edges": [{"pred": 1, "succ": 2}, {"pred": 1, "succ": 3}]}"#;
    let trace = read(1, rows, "", Some(deps));
    let third = why(&trace, 3).expect("it ran");
    assert_eq!((third.pred.as_deref(), third.wait_ns), (Some("r0t1"), 100), "{third:?}");
    let (path, _) = answers(&trace);
    let tasks: Vec<&str> = path.path.iter().map(|hop| hop.task.as_str()).collect();
    assert_eq!((tasks, path.summary.parts.front_gap), (vec!["r0t1", "r0t2"], 0));
}

/// One run of one task that ends then.
fn one_task(end: u64, virtual_time: bool, deps: Option<&str>) -> Trace {
    let mut trace = read(1, &format!("[0,1,1,0,{end},0]"), "", deps);
    trace.facts.virtual_time = virtual_time;
    trace
}

#[test]
fn growth_counts_by_the_share_alone_where_no_rounds_tell_the_noise() {
    let grew = |virtual_time: bool, share: f64| {
        let diff =
            plimsoll_analyze::diff(&one_task(300_000, virtual_time, None), &one_task(305_000, virtual_time, None));
        (diff.verdict, diff.noise, diff.grew_over(share))
    };
    assert_eq!(grew(false, 0.01), ("same", None, true));
    assert_eq!(grew(false, 0.02), ("same", None, false));
    assert_eq!(grew(true, 0.01), ("slower", Some(0.0), true), "virtual time has no noise");
}

#[test]
fn runs_recorded_in_different_ways_are_told() {
    let deps = r#"{"tasks": [{"task_id": 1}], "edges": []}"#;
    let (with, without) = (one_task(300, false, Some(deps)), one_task(300, false, None));
    let cautions = |a: &Trace, b: &Trace| plimsoll_analyze::diff(a, b).cautions;
    assert!(cautions(&with, &with).is_empty());
    assert!(cautions(&with, &without)[0].contains("Only the run before has dependencies"));
    let mut level = without.clone();
    level.facts.level = 4;
    assert!(cautions(&without, &level)[0].contains("at levels 1 and 4"));
}

#[test]
fn times_on_the_path_do_not_depend_on_the_clocks_zero() {
    let rows = "[0,1,1,1000,1010,0], [0,2,2,1023,1100,0], [0,3,3,1117,1201,0]";
    let mut trace = read(1, rows, "", None);
    let clock = plimsoll_trace::RunClock::new(1.7e9, 0);
    let told = |path: CriticalPath| {
        let hops: Vec<(u64, u64)> = path.path.iter().map(|hop| (hop.wait_ns, hop.kernel_ns)).collect();
        (path.summary.functions, hops)
    };
    let mut all = (0..5).map(|origin| {
        trace.clock = clock.with_origin(990 + origin);
        told(critical_path(&trace).expect("tasks ran"))
    });
    let first = all.next().expect("five origins");
    assert!(all.all(|other| other == first));
    let sum: u64 = first.1.iter().map(|(wait, kernel)| wait + kernel).sum();
    assert_eq!(sum, clock.ns(201), "they still add up to the makespan");
}

#[test]
fn heads_and_tails_are_never_negative() {
    let late = r#", "aicpu_tasks": [[0,1,5,8], [1,2,890,1002]]"#;
    let all = stats(&read(2, EARLY_AND_LATE, late, None));
    let lifecycle = all.functions[0].lifecycle.as_ref().expect("level 2");
    assert_eq!((lifecycle.head_avg_ns, lifecycle.tail_avg_ns), (5.0, 1.0));
    assert!(all.wall_ns >= all.makespan_ns, "{all:?}");
}

#[test]
fn what_lies_outside_of_the_loops_has_no_share_of_them() {
    let phases = r#", "aicpu_scheduler_phases": [[
        {"kind": "warp", "start_cycles": 0, "end_cycles": 80, "loop_iter": 1},
        {"kind": "dispatch", "start_cycles": 80, "end_cycles": 90, "loop_iter": 2},
        {"kind": "warp", "start_cycles": 90, "end_cycles": 95, "loop_iter": 3},
        {"kind": "complete", "start_cycles": 95, "end_cycles": 100, "loop_iter": 4},
        {"kind": "exit_wait", "start_cycles": 100, "end_cycles": 900, "loop_iter": 5}]]"#;
    let (_, sched) = answers(&read(3, EARLY_AND_LATE, phases, None));
    let budget = sched.loops.expect("phases");
    assert_eq!((budget.total_ns, budget.phases["warp"], budget.phases["idle"]), (20, 5, 0), "{budget:?}");
    assert!(budget.phases.values().all(|ns| *ns <= budget.total_ns), "{budget:?}");
    assert_eq!((budget.outside["warp"], budget.outside["exit_wait"]), (80, 800), "{budget:?}");
}

/// Parents of graphs that the host built are in bits where other ids have their round.
#[test]
fn tasks_of_several_parents_are_no_rounds() {
    let trace = |end: u64| {
        let dir = tempfile::tempdir().expect("temporary directory");
        let rows: Vec<String> = (0..4u64)
            .map(|parent| {
                let (start, end) = (100 + parent * 1000, end + parent * (1000 + parent * 90));
                format!("[0, \"{}\", {parent}, {start}, {end}, 0, 1]", 1u64 << 62 | parent << 40 | 7)
            })
            .collect();
        let records = format!(
            r#"{{"chip_swimlane_level": 1, "metadata": {{"clock_freq_hz": 1000000000, "num_cores": 1, "runtime": "host_build_graph"}}, "aicore_tasks": [{}]}}"#,
            rows.join(", ")
        );
        let file = dir.path().join("chip_swimlane_records.json");
        std::fs::write(&file, records).expect("written");
        plimsoll_trace::open(&file).expect("readable")
    };
    let diff = plimsoll_analyze::diff(&trace(200), &trace(1900));
    assert_eq!((diff.noise, diff.verdict), (None, "slower"), "{:?}", diff.makespan);
}

/// Rows of two rounds, `[core, task, token, start, end, 0, epoch]`, and a graph that is told once: task 2 overwrites what task 1 reads.
fn two_rounds(rows: &str) -> Trace {
    let deps = r#"{"tasks": [
        {"task_id": 1, "args": [{"idx": 0, "type": "INPUT", "tensor_id": 9, "dtype": "FLOAT32", "shape": [4], "start_offset": 0, "strides": [1]}]},
        {"task_id": 2, "args": [{"idx": 0, "type": "OUTPUT_EXISTING", "tensor_id": 9, "dtype": "FLOAT32", "shape": [4], "start_offset": 0, "strides": [1]}]},
        {"task_id": 3}],
        "tensors": [{"tensor_id": 9, "buffer_addr": 7, "version": 0, "dtype": "FLOAT32", "buffer_numel": 4}],
        "edges": [{"pred": 1, "succ": 2, "arg": 0, "source": "reader", "overlap": "covered"}]}"#;
    read(1, rows, "", Some(deps))
}

#[test]
fn a_false_dependency_costs_what_it_does_in_all_rounds_of_a_graph_that_is_told_once() {
    let trace = two_rounds("[0,1,1,100,200,0,7], [1,2,1,230,400,0,7], [2,1,1,1100,1200,0,8], [3,2,1,1950,2000,0,8]");
    let graph = plimsoll_analyze::graph(&trace, false).expect("dependencies");
    let found: Vec<_> = graph.false_dependencies.iter().map(|found| (found.kind, found.cost_ns)).collect();
    assert_eq!(found, [("write_after_read", 30 + 750)]);
    let told = costliest(&trace);
    assert!(told.iter().any(|found| found.cost_ns == 780 && found.what.contains("no data flows")), "{told:?}");
}

#[test]
fn edges_of_a_graph_that_is_told_once_are_those_of_every_round() {
    let trace = two_rounds("[0,1,1,100,200,0,7], [1,2,1,230,400,0,7], [0,1,1,1100,1200,0,8], [1,2,1,1950,2000,0,8]");
    let deps = trace.deps.as_ref().expect("dependencies");
    let edges = TaskTable::new(&trace).edges_of_rounds(deps);
    let name = |mark: u64, task: u32| trace.task_name(deps.tasks[task as usize].word ^ mark);
    let told = edges.iter().map(|(_, edge)| deps.edges[*edge as usize]).zip(&edges);
    let names: Vec<_> = told.map(|(edge, (mark, _))| (name(*mark, edge.pred), name(*mark, edge.succ))).collect();
    assert_eq!(names, [("r0t1".into(), "r0t2".into()), ("r0t1@1".into(), "r0t2@1".into())]);
}

/// The first task of a round has no producer, and may run on a core that the round before left alone.
#[test]
fn a_round_follows_the_one_before_it_on_whatever_core_it_begins() {
    let (path, sched) = answers(&two_rounds("[0,1,1,0,900,0,7], [0,3,2,900,910,0,7], [1,1,1,950,1050,0,8]"));
    let tasks: Vec<_> = path.path.iter().map(|hop| (hop.task.as_str(), hop.pred.as_deref())).collect();
    assert_eq!(tasks, [("r0t1", None), ("r0t3", Some("r0t1")), ("r0t1@1", Some("r0t3"))]);
    assert_eq!((path.summary.parts.front_gap, path.summary.parts.kernel), (40, 1010));
    assert_eq!(sched.verdict, "kernels");
    let (overlapping, _) = answers(&two_rounds("[0,1,1,0,900,0,7], [1,1,1,850,1050,0,8]"));
    assert_eq!(overlapping.path.len(), 1, "rounds that overlap do not follow each other");
    let (alone, _) = answers(&two_rounds("[0,1,1,0,900,0,7], [1,3,1,950,1050,0,7]"));
    assert_eq!(alone.summary.parts.front_gap, 950, "within a round nothing is followed that is not told");
}

#[test]
fn a_share_in_kernels_is_that_of_all_kernels_of_the_path() {
    let (path, sched) = answers(&read(1, "[0,1,1,0,85,0], [0,2,2,85,95,0], [0,3,3,99,100,0]", "", None));
    assert_eq!((path.summary.bound_by, path.summary.bound_ns), ("kernels", 85));
    assert_eq!((sched.verdict, sched.verdict_share), ("kernels", 0.96));
}

#[test]
fn the_bound_of_cores_is_divided_in_nanoseconds() {
    let rows = "[0,1,1,0,5,0], [1,2,2,0,5,0], [2,3,3,0,5,0], [3,4,4,0,5,0], [0,5,5,5,7,0]";
    let mut trace = read(1, rows, "", None);
    trace.clock = plimsoll_trace::RunClock::new(5e7, 0);
    assert_eq!(critical_path(&trace).expect("tasks ran").summary.bound_ns, 22 * 20 / 4, "5.5 ticks");
}

#[test]
fn without_dispatches_no_gap_between_kernels_is_counted() {
    let gaps = |level: u8, besides: &str| answers(&read(level, EARLY_AND_LATE, besides, None)).1.switch.by_class;
    assert!(gaps(1, "").is_empty());
    assert_eq!(gaps(2, DISPATCHES)["aiv"].cores, 2);
}

/// Submits that were recorded once are no time that the other run saved.
#[test]
fn a_part_that_one_run_cannot_tell_has_not_changed() {
    let submits = r#", "aicpu_orchestrator_phases": [[
        {"submit_idx": 0, "task_id": 1, "start_cycles": 0, "end_cycles": 0},
        {"submit_idx": 1, "task_id": 2, "start_cycles": 0, "end_cycles": 850}]]"#;
    let rows = "[0,1,1,0,10,0], [0,2,2,900,1000,0]";
    let (with, without) = (read(4, rows, submits, None), read(1, rows, "", None));
    for (a, b) in [(&with, &without), (&without, &with)] {
        let diff = plimsoll_analyze::diff(a, b);
        let submit = diff.parts.iter().find(|part| part.name == "submit").expect("one of them tells it");
        assert_eq!((submit.change_ns, submit.change), (0, None), "{submit:?}");
        assert_eq!(submit.before_ns.or(submit.after_ns), Some(840));
    }
}

/// Of two tasks that each followed the other, the one that was met first has a way on.
#[test]
fn the_path_goes_on_where_a_task_followed_one_that_followed_it() {
    let rows = "[0,1,1,0,10,0], [0,2,2,20,50,0], [0,3,3,40,60,0]";
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}, {"task_id": 3}], "edges": [{"pred": 3, "succ": 2}]}"#;
    let (path, _) = answers(&read(1, rows, "", Some(deps)));
    let tasks: Vec<&str> = path.path.iter().map(|hop| hop.task.as_str()).collect();
    assert_eq!((tasks, path.summary.parts.front_gap), (vec!["r0t1", "r0t2", "r0t3"], 0));
}

#[test]
fn a_bound_above_the_makespan_is_no_verdict_and_what_is_on_no_path_is_in_no_bound() {
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}], "edges": [{"pred": 1, "succ": 2}]}"#;
    let (path, sched) = answers(&read(1, "[0,1,1,0,100,0], [1,2,2,50,150,0]", "", Some(deps)));
    assert_eq!((path.summary.static_ns, path.summary.makespan_ns), (200, 150));
    assert!(path.summary.contradicts_itself());
    assert_eq!((sched.verdict, sched.verdict_share), ("kernels", 1.0));
    let stale = format!("[0,1,1,0,100,0], [1,2,2,100,150,0], [0,1,7,{},{},3]", u64::MAX - 10, u64::MAX);
    let (path, _) = answers(&read(1, &stale, "", Some(deps)));
    assert_eq!((path.summary.static_ns, path.summary.static_tasks, path.summary.makespan_ns), (50, 1, 150));
}

#[test]
fn without_dependencies_nobody_can_tell_who_waited_for_data() {
    let rows = "[0,1,1,0,10,0], [0,2,2,900,1000,0]";
    let dispatches = r#", "aicpu_tasks": [[0,1,0,12], [0,2,890,1002]]"#;
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}], "edges": [{"pred": 1, "succ": 2}]}"#;
    let parts = |besides: &str, deps: Option<&str>| {
        let (path, _) = answers(&read(2, rows, besides, deps));
        let folded = path.summary.folded.iter().find(|folded| folded.part == "data_wait").map(|folded| folded.into);
        (path.summary.parts.data_wait, path.summary.parts.core_wait, folded)
    };
    assert_eq!(parts("", Some(deps)), (Some(890), 0, None));
    assert_eq!(parts("", None), (None, 890, Some("core_wait, front_gap")));
    assert_eq!(parts(dispatches, None), (None, 2, Some("core_wait, scheduling, front_gap")));
    let why = why(&read(1, rows, "", None), 2).expect("it ran");
    assert!(why.causes.iter().any(|cause| cause.cause == "data" && cause.ns.is_none()), "{why:?}");
}

#[test]
fn scheduling_is_not_blamed_for_what_was_not_recorded() {
    let rows = "[0,1,1,0,10,0], [1,2,2,900,1000,0]";
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}], "edges": [{"pred": 1, "succ": 2}]}"#;
    let submits = format!(
        r#"{DISPATCHES}, "aicpu_orchestrator_phases": [[{{"submit_idx": 0, "task_id": 1, "start_cycles": 0, "end_cycles": 0}},
            {{"submit_idx": 1, "task_id": 2, "start_cycles": 0, "end_cycles": 0}}]]"#
    );
    let of = |level: u8, besides: &str| {
        let trace = read(level, rows, besides, Some(deps));
        let (_, sched) = answers(&trace);
        (sched.verdict, sched.verdict_folds, costliest(&trace).into_iter().map(|found| found.what).collect::<Vec<_>>())
    };
    for (level, besides) in [(1, ""), (2, DISPATCHES)] {
        let (verdict, folds, found) = of(level, besides);
        assert_eq!((verdict, folds), ("scheduling", vec!["submit"]), "level {level}");
        assert!(found[0].contains(", level ") && !found[0].contains("scheduling"), "{found:?}");
        let idle = found.iter().find(|what| what.contains("idle"));
        assert!(idle.is_none_or(|what| what.contains("whose producers have ended")), "{found:?}");
    }
    let (verdict, folds, found) = of(4, &submits);
    assert_eq!((verdict, folds), ("scheduling", vec![]));
    assert!(found[0].starts_with("scheduling on the critical path"), "{found:?}");
    assert!(found.iter().any(|what| what.contains("idle while ready tasks wait")), "{found:?}");
    let same_core = read(2, "[0,1,1,0,10,0], [0,2,2,900,1000,0]", &DISPATCHES.replace("[1,2", "[0,2"), None);
    assert_eq!(answers(&same_core).1.verdict_folds, ["submit", "data_wait"]);
    assert!(costliest(&same_core)[0].what.ends_with("level 4, and of dependencies tell why)"));
}
