//! What is written in the reference's form is read back to the same numbers.

use std::path::{Path, PathBuf};

use plimsoll_analyze::{Stats, scopes, stats};
use plimsoll_report::simpler::{
    SCOPE_STATS_FIRST, SWIMLANE, write_simpler, write_simpler_newest, write_simpler_scopes_first,
};
use plimsoll_trace::synthetic::Synthetic;
use plimsoll_trace::{PeakForm, Trace, open};

fn round_trip(trace: &Trace) -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    write_simpler(trace, dir.path()).expect("written");
    open(dir.path()).expect("readable")
}

/// Numbers without the facts that the form does not carry.
fn numbers(stats: &Stats) -> (u64, u64, Option<u64>, Vec<String>, Vec<(u64, u64)>) {
    let functions = stats.functions.iter().map(|f| format!("{f:?}")).collect();
    let cores = stats.cores.iter().map(|c| (c.tasks, c.busy_ns)).collect();
    (stats.tasks, stats.executions, stats.makespan_ns, functions, cores)
}

fn newest_round_trip(trace: &Trace) -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    write_simpler_newest(trace, dir.path()).expect("written");
    let text = std::fs::read_to_string(dir.path().join(SWIMLANE)).expect("readable");
    assert!(
        serde_json::from_str::<serde_json::Value>(&text)
            .is_ok_and(|records| records["metadata"]["runtime"].is_string())
    );
    open(dir.path()).expect("readable")
}

/// Scheduler and begin of every phase, in order.
fn phases(trace: &Trace) -> Vec<(u16, u64)> {
    let phases = &trace.sched_phases;
    let mut all: Vec<(u16, u64)> = phases.agent.iter().copied().zip(phases.start.iter().copied()).collect();
    all.sort_unstable();
    all
}

/// In both forms; gives what was read of the first.
fn assert_same(before: &Trace, what: &str) -> Trace {
    assert_same_numbers(before, newest_round_trip(before), &format!("{what}, newest"));
    assert_same_numbers(before, round_trip(before), what)
}

fn assert_same_numbers(before: &Trace, after: Trace, what: &str) -> Trace {
    assert!(after.quality.is_sound(), "{what}: {:?}", after.quality);
    assert_eq!(numbers(&stats(before)), numbers(&stats(&after)), "{what}");
    assert_eq!(before.orch_phases.len(), after.orch_phases.len(), "{what}");
    assert_eq!(phases(before), phases(&after), "{what}");
    let needless = |t: &Trace| plimsoll_analyze::graph(t, false).map(|g| (g.false_dependencies, g.untold_pairs));
    assert_eq!(needless(before), needless(&after), "{what}");
    let edges = |t: &Trace| t.deps.as_ref().map(|d| (d.tasks.len(), d.args.clone(), d.tensors.clone(), d.pairs()));
    assert_eq!(edges(before), edges(&after), "{what}");
    assert_eq!(before.scopes.samples.len(), after.scopes.samples.len(), "{what}");
    after
}

#[test]
fn a_run_of_ours_keeps_its_numbers() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic::default().write(dir.path()).expect("written");
    let before = open(dir.path()).expect("readable");
    let after = assert_same(&before, "synthetic");
    assert_eq!(after.scopes.peaks, PeakForm::True, "our peaks lie beside the reference's fields");
    let peaks = |t: &Trace| scopes(t).scopes.into_iter().map(|s| (s.site, s.entered, s.resources)).collect::<Vec<_>>();
    assert_eq!(peaks(&before), peaks(&after));
    assert!(after.cores.iter().all(|c| c.core_type.name() == "aiv"), "a worker is a vector core to the reference");
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let bytes = || {
        let dir = tempfile::tempdir().expect("temporary directory");
        Synthetic::default().write(dir.path()).expect("written");
        let written = write_simpler(&open(dir.path()).expect("readable"), &dir.path().join("out")).expect("written");
        written.iter().map(|p| std::fs::read(p).expect("readable")).collect::<Vec<_>>()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn the_first_form_of_scope_statistics_is_read_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Synthetic::default().write(dir.path()).expect("written");
    let before = open(dir.path()).expect("readable");
    let out = tempfile::tempdir().expect("temporary directory");
    write_simpler_scopes_first(&before, out.path()).expect("written");
    let text = std::fs::read_to_string(out.path().join(SCOPE_STATS_FIRST)).expect("readable");
    assert!(text.contains("\"task_window\":[\"0/16384\",\"8/16384\",\"0/16384\",\"0/16384\"]"), "{text}");
    let after = open(out.path()).expect("readable");
    let peak = |t: &Trace| scopes(t).scopes.iter().map(|s| s.fullest).fold(0.0, f64::max);
    assert_eq!(peak(&before), peak(&after));
}

#[test]
fn steal_and_park_are_written_as_phases_the_reference_knows() {
    use plimsoll_abi::record::{SchedPhase, SchedPhaseKind};
    let dir = tempfile::tempdir().expect("temporary directory");
    let run = Synthetic { tasks: 6, level: 4, ..Synthetic::default() };
    run.write(dir.path()).expect("written");
    let mut segment = run.segment();
    let phase = |kind: SchedPhaseKind, start: u64| SchedPhase {
        start,
        end: start + 10,
        kind: kind as u32,
        tasks_processed: 2,
        ..SchedPhase::default()
    };
    segment.pool(9, &[phase(SchedPhaseKind::Steal, 1_000_000), phase(SchedPhaseKind::Park, 1_000_010)], 8);
    std::fs::write(dir.path().join("records/records.seg"), segment.bytes()).expect("written");
    let after = round_trip(&open(dir.path()).expect("readable"));
    let range = after.sched_phases.of_agent(9);
    let seen: Vec<_> = range.map(|at| (after.sched_phases.name_of(at), after.sched_phases.tasks[at])).collect();
    assert_eq!(seen, [("dispatch", 0), ("idle", 2)]);
    assert!(after.quality.is_sound(), "{:?}", after.quality);
}

#[test]
fn the_references_captures_keep_their_numbers() {
    let samples: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    if !samples.is_dir() {
        println!("skipped: there are no samples of the reference in {}", samples.display());
        return;
    }
    for run in ["vector_example-a2a3sim", "vector_example-a5sim", "mixed_example-a2a3sim", "noop_nested5k-a2a3sim"] {
        assert_same(&open(&samples.join(run).join("all")).expect("readable"), run);
    }
    assert_same(&open(&samples.join("paged_attention-a2a3sim/all")).expect("readable"), "paged attention");
}

/// A capture of two runs of one graph, in the form that has a column for them; ids are made as `runtime` makes them.
fn two_epochs(runtime: &str, ids: [u64; 2]) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let [a, b] = ids.map(|id| format!("\"{id}\""));
    let row =
        |core: u32, id: &str, start: u64, epoch: u32| format!("[{core}, {id}, 1, {start}, {}, 3, {epoch}]", start + 50);
    let rows = [row(0, &a, 100, 1), row(1, &b, 200, 1), row(0, &a, 300, 2), row(1, &b, 400, 2)].join(", ");
    let records = format!(
        r#"{{"chip_swimlane_level": 2, "metadata": {{"clock_freq_hz": 1000000000, "num_cores": 2, "core_types": ["aic", "aiv"], "runtime": "{runtime}"}},
            "aicore_tasks": [{rows}], "scheduler_tasks": {{"producer": "aicpu", "records": [[0, 1, 90, 160, 1], [1, 1, 190, 260, 1], [0, 1, 290, 360, 2], [1, 1, 390, 460, 2]]}}}}"#
    );
    let deps = format!(
        r#"{{"runtime": "{runtime}", "tasks": [{{"task_id": {a}, "kernel_ids": [0, -1, -1]}}, {{"task_id": {b}, "kernel_ids": [-1, 1, -1]}}], "edges": [{{"pred": {a}, "succ": {b}, "source": "explicit"}}]}}"#
    );
    std::fs::write(dir.path().join(SWIMLANE), records).expect("written");
    std::fs::write(dir.path().join("deps.json"), deps).expect("written");
    std::fs::write(
        dir.path().join("pmu.csv"),
        "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles,event_type\n",
    )
    .expect("written");
    let trace = open(dir.path()).expect("readable");
    (dir, trace)
}

fn names(trace: &Trace) -> Vec<String> {
    (0..trace.executions.len()).map(|at| trace.task_name(trace.executions.word(at))).collect()
}

#[test]
fn rounds_are_in_their_column_and_in_no_id_of_the_newest_form() {
    for (runtime, ids) in [
        ("tensormap_and_ringbuffer", [2 << 32 | 17, 2 << 32 | 18]),
        ("host_build_graph", [1 << 62 | 300 << 40 | 3, 2 << 62 | 4]),
    ] {
        let (_dir, mut before) = two_epochs(runtime, ids);
        assert_eq!(before.executions.len(), 4);
        // As a run of ours records a program that is submitted in every round.
        let mut deps = before.deps.take().expect("dependencies");
        let first = deps.tasks.len() as u32;
        let again: Vec<_> = deps
            .tasks
            .iter()
            .map(|task| {
                let later = (0..4)
                    .map(|at| before.executions.word(at))
                    .find(|word| before.round(*word) == 1 && before.id_and_epoch(*word).0 == task.word);
                plimsoll_trace::deps::TaskNode { word: later.expect("a second round"), ..*task }
            })
            .collect();
        deps.tasks.extend(again);
        let edge = deps.edges[0];
        deps.edges.push(plimsoll_trace::deps::Edge { pred: edge.pred + first, succ: edge.succ + first, ..edge });
        before.deps = Some(deps);
        let out = tempfile::tempdir().expect("temporary directory");
        write_simpler_newest(&before, out.path()).expect("written");
        let text = std::fs::read_to_string(out.path().join(SWIMLANE)).expect("readable");
        let records: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rows = records["aicore_tasks"].as_array().expect("rows");
        assert!(rows.iter().all(|row| ids.contains(&row[1].as_u64().expect("an id"))), "{rows:?}");
        let text = std::fs::read_to_string(out.path().join("deps.json")).expect("readable");
        let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let counts = ["tasks", "edges"].map(|list| written[list].as_array().expect("a list").len());
        assert_eq!(counts, [2, 1], "{runtime}: the graph is there once");
        let after = open(out.path()).expect("readable");
        assert!(after.quality.findings().is_empty(), "{runtime}: {:?}", after.quality);
        assert_eq!(names(&before), names(&after), "{runtime}");
        assert_eq!(numbers(&stats(&before)), numbers(&stats(&after)), "{runtime}");
        // The older form has no such column, so its ids keep their round, and the file says how they are made.
        let older = round_trip(&before);
        assert_eq!(names(&before), names(&older), "{runtime}");
        assert_eq!(older.deps.map(|deps| deps.tasks.len()), Some(4), "{runtime}");
    }
}

#[test]
fn what_a_capture_lost_is_told_by_what_is_made_of_it() {
    use plimsoll_trace::FindingKind;
    let (_dir, mut before) = two_epochs("tensormap_and_ringbuffer", [1, 2]);
    before.quality.note_many(FindingKind::ReportedLoss, None, 7, || "records".to_string());
    for after in [round_trip(&before), newest_round_trip(&before)] {
        assert_eq!(after.quality.count(FindingKind::ReportedLoss), 7, "{:?}", after.quality);
    }
}

#[cfg(feature = "parquet")]
#[test]
fn tables_have_the_rounds_that_ids_have() {
    use plimsoll_report::parquet::{PlainColumn, table};
    let (_dir, trace) = two_epochs("host_build_graph", [1 << 62 | 300 << 40 | 3, 2 << 62 | 4]);
    for name in ["tasks", "executions"] {
        let table = table(&trace, "run", name).expect("a table");
        let (_, rounds) = table.columns.iter().find(|(column, _)| *column == "round").expect("a column");
        let PlainColumn::Int(rounds) = rounds else { panic!("{name}: numbers") };
        assert_eq!(rounds, &[Some(0), Some(1), Some(0), Some(1)], "{name}");
    }
}

#[test]
fn pictures_call_tasks_and_rounds_as_their_runtime_makes_ids() {
    use plimsoll_report::{Flows, chrome::write_chrome, perfetto::write_perfetto};
    let (_dir, trace) = two_epochs("host_build_graph", [1 << 62 | 300 << 40 | 3, 2 << 62 | 4]);
    let (mut chrome, mut perfetto) = (Vec::new(), Vec::new());
    let drawn = write_chrome(&trace, Flows::All, &mut chrome).expect("written");
    write_perfetto(&trace, Flows::All, &mut perfetto).expect("written");
    for picture in [&chrome, &perfetto] {
        let text = String::from_utf8_lossy(picture);
        assert!(text.contains("g76800t3") && text.contains("p4") && !text.contains("r0t3"), "{text}");
    }
    let text = String::from_utf8_lossy(&chrome);
    assert!(text.contains("\"round\":1") && !text.contains("\"round\":76"), "{text}");
    assert_eq!(drawn.flows, 2, "the graph is drawn in both rounds");
}
