//! The reference's newest swimlane files, of which no sample exists: these are made after their description.

use std::path::Path;

use plimsoll_trace::{FindingKind, Trace, open};
use serde_json::json;

fn write(dir: &Path, records: &serde_json::Value) -> Trace {
    std::fs::write(dir.join("chip_swimlane_records.json"), records.to_string()).expect("written");
    open(dir).expect("readable")
}

#[test]
fn columns_streams_and_lifecycles_of_the_newest_files_are_read() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = |kind: &str, start: u64| json!({ "start_cycles": start, "end_cycles": start + 5, "run_epoch": 7, "loop_iter": 3, "kind": kind, "tasks_processed": 1, "task_id": null });
    let stream = |id: u64, records: serde_json::Value| {
        json!({ "platform": "a5", "producer": "aicpu", "scheduler_id": id, "worker_id": 0, "core_type": "aic",
                "physical_core_id": null, "capture": { "committed": records.as_array().map(Vec::len), "dropped": 0, "truncated": false },
                "records": records, "metrics": [{ "record_index": 0 }] })
    };
    let records = json!({
        "chip_swimlane_level": 4,
        "metadata": { "clock_freq_hz": 50_000_000, "core_types": ["aic", "aiv"], "runtime": "tensormap_and_ringbuffer",
                      "clock_alignment": { "status": "bounded", "device_anchor_cycles": 50, "host_anchor_ns": 5_000_000 } },
        "aicore_tasks": [[0, (2u64 << 32) | 17, 1, 100, 200, 3, 7], [1, (2u64 << 32) | 18, 1, 300, 400, 3, 7],
                         [0, (2u64 << 32) | 17, 1, 1100, 1200, 3, 8]],
        "scheduler_tasks": { "producer": "aicpu", "records": [[0, 1, 90, 210, 7], [1, 1, 290, 410, 7], [0, 1, 1090, 1210, 8]] },
        "scheduler_records": { "streams": [stream(2, json!([record("dispatch", 80)])), stream(0, json!([record("worksteal", 95), record("complete", 205)]))] },
        "aicpu_lifecycle_records": [{ "handshake_start_cycles": 10, "handshake_complete_cycles": 20, "note": "x" }],
        "host_orchestrator_phases": [[{ "submit_idx": 0, "task_id": ((2u64 << 32) | 17).to_string(), "start_host_ns": 5_000_100, "end_host_ns": 5_000_200, "run_epoch": 8 }]],
        "host_device_uploads": [],
    });
    let trace = write(dir.path(), &records);
    assert!(trace.quality.is_sound() && trace.quality.findings().is_empty(), "{:?}", trace.quality);
    let rows = &trace.executions;
    let seen: Vec<_> = (0..rows.len()).map(|at| (trace.task_name(rows.word(at)), rows.lifecycle(at))).collect();
    let expected = [("r2t17", (90, 210)), ("r2t17@1", (1090, 1210)), ("r2t18", (290, 410))];
    assert_eq!(
        seen,
        expected.map(|(name, times)| (name.to_string(), Some(times))),
        "tokens of two epochs are told apart"
    );
    let phases: Vec<_> = (0..trace.sched_phases.len())
        .map(|at| (trace.sched_phases.agent[at], trace.sched_phases.name_of(at), trace.sched_phases.start[at]))
        .collect();
    assert_eq!(phases, [(0, "handshake", 10), (0, "worksteal", 95), (0, "complete", 205), (2, "dispatch", 80)]);
    assert_eq!((trace.orch_phases.start[0], trace.orch_phases.end[0]), (55, 60), "20 ns a tick from the anchor");
}

#[test]
fn a_host_clock_that_nothing_bounds_is_not_placed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let records = json!({
        "chip_swimlane_level": 4,
        "metadata": { "clock_freq_hz": 1_000_000_000, "core_types": ["aic"], "runtime": "host_build_graph",
                      "clock_alignment": { "status": "unavailable", "reason": "no anchors" } },
        "aicore_tasks": [[0, (1u64 << 62 | 3u64 << 32 | 17).to_string(), 1, 100, 200, 3, 1], [0, (2u64 << 62 | 4).to_string(), 2, 300, 400, 3, 1],
                         [0, 5, 3, 500, 600, 3, 1]],
        "host_orchestrator_phases": [[{ "submit_idx": 0, "task_id": 5, "start_host_ns": 1, "end_host_ns": 2 }]],
    });
    let trace = write(dir.path(), &records);
    assert!(trace.orch_phases.is_empty());
    assert_eq!(trace.quality.count(FindingKind::Unplaced), 1);
    let names: Vec<String> = (0..3).map(|at| trace.task_name(trace.executions.word(at))).collect();
    assert_eq!(names, ["g3t17", "p4", "t5"]);
    for (at, name) in names.iter().enumerate() {
        assert_eq!(Trace::task_word(name), Some(trace.executions.word(at)));
    }
}

#[test]
fn epochs_of_graphs_built_on_the_host_are_told_apart_and_losses_that_a_file_tells_are_kept() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/newest");
    let trace = open(&dir).expect("readable");
    let rows = &trace.executions;
    let names: Vec<String> = (0..rows.len()).map(|at| trace.task_name(rows.word(at))).collect();
    assert_eq!(names, ["t17", "t17@1", "g3t18", "g3t18@1"]);
    for (at, name) in names.iter().enumerate() {
        assert_eq!(Trace::task_word(name), Some(rows.word(at)), "{name}");
    }
    let lifecycles: Vec<_> = (0..rows.len()).map(|at| rows.lifecycle(at)).collect();
    assert_eq!(lifecycles, [Some((1090, 1210)), Some((2090, 2210)), Some((1290, 1410)), Some((2290, 2280))]);
    assert_eq!(trace.quality.count(FindingKind::EndBeforeStart), 1, "a finish before its dispatch");
    assert_eq!(trace.quality.count(FindingKind::TaskNotInDeps), 0, "later epochs are of the same tasks");
    let lost: Vec<_> = trace.quality.findings().iter().filter(|f| f.kind == FindingKind::ReportedLoss).collect();
    assert_eq!(lost.iter().map(|f| f.count).sum::<u64>(), 1 + 2 + 3, "a stream's, the host's submits, host phases");
    let phases = &trace.sched_phases;
    let seen: Vec<_> = (0..phases.len()).map(|at| (phases.agent[at], phases.name_of(at), phases.pop_hit[at])).collect();
    assert_eq!(seen, [(0, "exit_wait", 0), (1, "refill", 0), (1, "graph_prepare", 4)]);
    assert!(trace.orch_phases.is_empty(), "nothing tells of which epoch the submits are");
    assert_eq!(trace.quality.count(FindingKind::Unplaced), 2);
    assert_eq!((0..rows.len()).map(|at| rows.kernel(at)).collect::<Vec<_>>(), [Some(0), Some(0), Some(1), Some(1)]);
}

/// The fixture with the rows of its first epoch alone.
fn one_epoch() -> serde_json::Value {
    let mut records = fixture();
    records["aicore_tasks"].as_array_mut().expect("rows").truncate(2);
    records["scheduler_tasks"]["records"].as_array_mut().expect("rows").truncate(2);
    records
}

#[test]
fn the_hosts_submits_are_placed_where_its_clock_is_known_well_enough_and_told_elsewhere() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sound = write(dir.path(), &one_epoch());
    assert_eq!((sound.orch_phases.start[0], sound.orch_phases.end[1]), (1010, 1040));
    let mut late = one_epoch();
    let since_boot = 1_730_000_000_000_000_000u64;
    late["metadata"]["clock_alignment"] =
        json!({ "status": "bounded", "device_anchor_cycles": 1000, "host_anchor_ns": since_boot });
    late["host_orchestrator_phases"][0][0]["start_host_ns"] = json!(since_boot + 7);
    assert_eq!(write(dir.path(), &late).orch_phases.start[0], 1007, "stamps that `f64` cannot tell apart");
    let mut without = one_epoch();
    without["metadata"]["clock_alignment"] = json!(null);
    let told = write(dir.path(), &without).quality;
    let told =
        told.findings().iter().find(|finding| finding.kind == FindingKind::Unplaced).map(|told| told.first.clone());
    assert_eq!(told.as_deref(), Some("the file does not say how the host's clock is aligned"));
    for (change, why) in [
        (json!({ "device_anchor_cycles": 0 }), "no anchor"),
        (json!({ "host_anchor_ns": null }), "no anchor"),
        (json!({ "host_anchor_min_ns": 520 }), "does not lie between 520 and 510"),
        (json!({ "host_anchor_min_ns": 510, "host_anchor_max_ns": 490 }), "does not lie between 510 and 490"),
        (json!({ "host_anchor_min_ns": 0, "host_anchor_max_ns": 50_000_000 }), "50000000 ns, more than all kernels"),
    ] {
        let mut records = one_epoch();
        for (key, value) in change.as_object().expect("fields") {
            records["metadata"]["clock_alignment"][key] = value.clone();
        }
        let trace = write(dir.path(), &records);
        let told = trace.quality.findings().iter().find(|finding| finding.kind == FindingKind::Unplaced);
        assert!(trace.orch_phases.is_empty(), "{why}");
        assert!(told.is_some_and(|told| told.count == 2 && told.first.contains(why)), "{why}: {told:?}");
    }
}

#[test]
fn epochs_count_up_whatever_row_comes_first() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    for rows in ["/aicore_tasks", "/scheduler_tasks/records"] {
        records.pointer_mut(rows).and_then(|rows| rows.as_array_mut()).expect("rows").rotate_left(2);
    }
    for text in [records.to_string(), with_metadata_last(&records)] {
        std::fs::write(dir.path().join("chip_swimlane_records.json"), text).expect("written");
        let trace = open(dir.path()).expect("readable");
        let rows = &trace.executions;
        let names: Vec<String> = (0..rows.len()).map(|at| trace.task_name(rows.word(at))).collect();
        assert_eq!(names, ["t17", "t17@1", "g3t18", "g3t18@1"]);
        assert_eq!((rows.lifecycle(0), rows.lifecycle(1)), (Some((1090, 1210)), Some((2090, 2210))));
    }
}

#[test]
fn epochs_are_placed_by_the_runtime_that_dependencies_alone_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    records["metadata"]["runtime"] = json!(null);
    let deps = json!({ "runtime": "host_build_graph", "tasks": [{ "task_id": 17 }, { "task_id": "4611686031312289810" }],
                       "edges": [] });
    std::fs::write(dir.path().join("deps.json"), deps.to_string()).expect("written");
    let trace = write(dir.path(), &records);
    let rows = &trace.executions;
    let names: Vec<String> = (0..rows.len()).map(|at| trace.task_name(rows.word(at))).collect();
    assert_eq!(names, ["t17", "t17@1", "g3t18", "g3t18@1"]);
    assert_eq!(trace.quality.count(FindingKind::TaskNotInDeps), 0);
}

#[test]
fn rows_of_each_epoch_are_held_against_what_the_graph_asks_for_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fixture_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/newest");
    std::fs::copy(fixture_dir.join("deps.json"), dir.path().join("deps.json")).expect("copied");
    let mut records = fixture();
    assert_eq!(write(dir.path(), &records).quality.count(FindingKind::MoreRowsThanDispatches), 0);
    records["aicore_tasks"].as_array_mut().expect("rows").push(json!([0, 17, 9, 2250, 2260, 5, 4]));
    let trace = write(dir.path(), &records);
    let told = trace.quality.findings().iter().find(|finding| finding.kind == FindingKind::MoreRowsThanDispatches);
    assert_eq!(told.map(|told| (told.count, told.first.as_str())), Some((1, "t17@1 has 2 rows and asked for 1")));
}

#[test]
fn epochs_that_ids_have_no_room_for_are_left_out_and_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    records["aicore_tasks"] = (0..1030u64).map(|at| json!([0, 17, 1, at * 100, at * 100 + 50, 5, at])).collect();
    records["scheduler_tasks"] = json!(null);
    let trace = write(dir.path(), &records);
    assert_eq!((trace.executions.len(), trace.quality.count(FindingKind::EpochBeyondRounds)), (1024, 6));
    assert_eq!(trace.task_name(trace.executions.word(1023)), "t17@1023");
    records["metadata"]["runtime"] = json!("tensormap_and_ringbuffer");
    assert_eq!(write(dir.path(), &records).executions.len(), 1030);
}

#[test]
fn a_stream_may_say_how_much_was_cut_off() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let lost = |truncated: serde_json::Value| {
        let mut records = fixture();
        records["scheduler_records"]["streams"] =
            json!([{ "scheduler_id": 0, "capture": { "dropped": 0, "truncated": truncated } }]);
        records["metadata"]["host_capture"] = json!(null);
        write(dir.path(), &records).quality.count(FindingKind::ReportedLoss)
    };
    let told = [json!(null), json!(false), json!(0), json!(true), json!(1), json!("7")].map(lost);
    assert_eq!(told, [0, 0, 0, 1, 1, 7]);
}

#[test]
fn tokens_are_told_as_the_file_has_them() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    for row in records["scheduler_tasks"]["records"].as_array_mut().expect("rows") {
        row.as_array_mut().expect("a row").truncate(4);
    }
    let trace = write(dir.path(), &records);
    let told = trace.quality.findings().iter().find(|f| f.kind == FindingKind::ExecutionWithoutDispatch);
    let token = &records["aicore_tasks"][1][2];
    assert!(told.is_some_and(|told| told.first.ends_with(&format!(", token {token}"))), "{told:?}");
}

#[test]
fn loops_of_several_epochs_are_summed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    let record = |epoch: u64, start: u64, loop_iter: u64| json!({ "start_cycles": start, "end_cycles": start + 15, "run_epoch": epoch, "loop_iter": loop_iter, "kind": "dispatch" });
    records["scheduler_records"]["streams"] = json!([{ "scheduler_id": 1, "records": [
        record(3, 1080, 10), record(3, 1605, 50), record(4, 2080, 10), record(4, 2605, 40)] }]);
    let totals = &write(dir.path(), &records).sched_phases.totals[1];
    assert_eq!((totals.loops(), totals.loop_ticks()), (90, 2 * 540));
    records["scheduler_records"]["streams"] = json!([{ "scheduler_id": 1, "records": [
        record(3, 1080, 10), record(4, 1085, 10), record(3, 1605, 50), record(4, 1610, 40)] }]);
    let totals = &write(dir.path(), &records).sched_phases.totals[1];
    assert_eq!((totals.loops(), totals.loop_ticks()), (90, 2 * 540), "epochs that overlap");
}

#[test]
fn schedulers_of_two_producers_are_two_whatever_their_ids() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    let stream = |producer: &str, id: u64, start: u64| json!({ "producer": producer, "scheduler_id": id, "records": [{ "start_cycles": start, "end_cycles": start + 5, "kind": "dispatch" }] });
    records["scheduler_records"]["streams"] =
        json!([stream("aicpu", 0, 100), stream("aicore", 0, 200), stream("aicpu", 1, 300), stream("aicore", 1, 400)]);
    records["aicpu_lifecycle_records"] = json!(null);
    let phases = write(dir.path(), &records).sched_phases;
    let seen: Vec<_> = (0..phases.len()).map(|at| (phases.agent[at], phases.start[at])).collect();
    assert_eq!(seen, [(0, 100), (1, 300), (2, 200), (3, 400)]);
}

#[test]
fn lifecycles_are_of_their_thread_and_end_where_the_next_phase_is_complete() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    records["aicpu_lifecycle_records"] = json!([{
        "aicpu_thread_id": 3, "handshake_start_cycles": 900, "handshake_complete_cycles": 950,
        "config_start_cycles": 951, "topology_complete_cycles": 955,
        "bootstrap_wait_start_cycles": 960, "bootstrap_complete_cycles": 970, "exit_wait_start_cycles": 2700 }]);
    let trace = write(dir.path(), &records);
    let phases = &trace.sched_phases;
    let seen: Vec<_> = phases.of_agent(3).map(|at| (phases.name_of(at), phases.start[at], phases.end[at])).collect();
    assert_eq!(seen, [("handshake", 900, 950), ("config", 951, 955), ("bootstrap_wait", 960, 970)]);
    assert_eq!((phases.of_agent(0).len(), trace.quality.count(FindingKind::StartWithoutEnd)), (0, 1));
}

#[test]
fn one_rank_of_several_is_read_at_a_time() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stale_rows/chip_swimlane_records.json");
    for rank in ["node0/rank0/d0", "node0/rank1/d3", "node1/rank2/d0"] {
        std::fs::create_dir_all(dir.path().join(rank)).expect("made");
        std::fs::write(dir.path().join(rank).join("dispatch_identity.json"), "{\"run_id\": 1}").expect("written");
    }
    std::fs::copy(&fixture, dir.path().join("node0/rank1/d3/chip_swimlane_records.json")).expect("copied");
    let refusal = open(dir.path()).expect_err("there are three").to_string();
    assert!(refusal.contains("0, 1, 2") && refusal.contains("Request::rank"), "{refusal}");
    let request = |rank| plimsoll_trace::Request { rank: Some(rank), ..plimsoll_trace::Request::new(dir.path()) };
    assert_eq!(plimsoll_trace::open_request(&request(1)).expect("readable").executions.len(), 4);
    assert!(plimsoll_trace::open_request(&request(7)).is_err());
}

/// The fixture of graphs built on the host, as a value to change.
fn fixture() -> serde_json::Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/newest/chip_swimlane_records.json");
    serde_json::from_slice(&std::fs::read(file).expect("readable")).expect("JSON")
}

/// The records with their metadata behind all else. Keys of a value are sorted, so the text is put together here.
fn with_metadata_last(records: &serde_json::Value) -> String {
    let object = records.as_object().expect("an object");
    let (last, first): (Vec<_>, Vec<_>) = object.iter().partition(|(key, _)| *key == "metadata");
    let fields: Vec<String> = first.into_iter().chain(last).map(|(key, value)| format!("\"{key}\": {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}

#[test]
fn where_the_metadata_stands_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("chip_swimlane_records.json"), with_metadata_last(&fixture())).expect("written");
    let trace = open(dir.path()).expect("readable");
    let rows = &trace.executions;
    let names: Vec<String> = (0..rows.len()).map(|at| trace.task_name(rows.word(at))).collect();
    assert_eq!(names, ["t17", "t17@1", "g3t18", "g3t18@1"]);
    assert!((0..rows.len()).all(|at| rows.lifecycle(at).is_some()));
}

#[test]
fn sections_and_fields_that_are_null_are_as_if_they_were_left_out() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let without = |path: &[&str]| {
        let mut records = fixture();
        let (last, before) = path.split_last().expect("a key");
        let mut at = &mut records;
        for key in before {
            at = if let Ok(place) = key.parse::<usize>() { &mut at[place] } else { &mut at[*key] };
        }
        at[*last] = serde_json::Value::Null;
        records
    };
    let sections = fixture().as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for section in sections.iter().filter(|key| *key != "chip_swimlane_level") {
        let _ = write(dir.path(), &without(&[section]));
    }
    for key in
        ["num_cores", "core_types", "core_to_thread", "runtime", "host_capture", "clock_alignment", "clock_freq_hz"]
    {
        assert_eq!(write(dir.path(), &without(&["metadata", key])).executions.len(), 4, "{key}");
    }
    for key in ["capture", "records", "metrics"] {
        let trace = write(dir.path(), &without(&["scheduler_records", "streams", "0", key]));
        assert_eq!(trace.executions.len(), 4, "{key}");
    }
    for key in ["run_epoch", "loop_iter", "kind", "tasks_processed"] {
        let trace = write(dir.path(), &without(&["scheduler_records", "streams", "0", "records", "0", key]));
        assert_eq!(trace.sched_phases.len(), 3, "{key}");
    }
}

#[test]
fn warnings_call_tasks_as_their_runtime_makes_ids() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut records = fixture();
    records["aicore_tasks"][3][3] = json!(2390);
    records["scheduler_tasks"]["records"][1][2] = json!(1350);
    records["metadata"]["core_types"] = json!(["aic", "vector"]);
    let deps = json!({ "runtime": "host_build_graph", "tasks": [{ "task_id": 17 }, { "task_id": "4611686031312289810" }],
                       "edges": [{ "pred": "4611686031312289810", "succ": "4611686031312289810", "source": "explicit" }] });
    std::fs::write(dir.path().join("deps.json"), deps.to_string()).expect("written");
    let trace = write(dir.path(), &records);
    let first = |kind| trace.quality.findings().iter().find(|f| f.kind == kind).map(|f| f.first.as_str());
    assert_eq!(first(FindingKind::EndBeforeStart), Some("the finish of g3t18@1 on core 1"), "{:?}", trace.quality);
    assert_eq!(first(FindingKind::DispatchAfterStart), Some("g3t18 on core 1"));
    assert_eq!(first(FindingKind::SelfEdge), Some("g3t18"));
    assert_eq!(first(FindingKind::UnknownName), Some("core type \"vector\""));
    let alone = open(&dir.path().join("deps.json")).expect("readable");
    let deps = alone.deps.as_ref().expect("dependencies");
    assert_eq!(alone.task_name(deps.tasks[1].word), "g3t18", "dependencies say how ids are made, too");
    assert_eq!((trace.submitter_name(0), trace.agent_name(0)), ("orchestrator".into(), "scheduler 0".into()));
}
