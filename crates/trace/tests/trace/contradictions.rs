//! Files that contradict themselves are read, with a ledger of what is wrong.

use std::fs;

use plimsoll_trace::{FindingKind, Request, Trace, TraceParts, open, open_request};

/// The swimlane records of three tasks, with some text replaced.
fn records(changes: &[(&str, &str)]) -> String {
    let mut text = r#"{"chip_swimlane_level": 2,
        "metadata": {"clock_freq_hz": 50000000, "num_cores": 3, "core_types": ["aic", "aiv", "aiv"]},
        "aicore_tasks": [[0,1,10,100,200,5], [1,2,11,210,300,5], [2,3,12,310,400,5]],
        "aicpu_tasks": [[0,10,90,205], [1,11,205,305], [2,12,305,405]]}"#
        .to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

/// Reads records, and dependencies if there are some.
fn read(records: &str, deps: Option<&str>) -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    fs::write(dir.path().join("chip_swimlane_records.json"), records).expect("written");
    if let Some(deps) = deps {
        fs::write(dir.path().join("deps.json"), deps).expect("written");
    }
    open(dir.path()).expect("readable")
}

#[test]
fn times_and_cores_that_cannot_be_true_are_told() {
    let sound = read(&records(&[]), None);
    assert!(sound.quality.findings().is_empty(), "{:?}", sound.quality);
    for (changes, kind) in [
        ([("[1,2,11,210", "[0,2,11,150"), ("[1,11,205", "[0,11,140")], FindingKind::OverlapOnCore),
        ([("[0,10,90,205]", "[0,10,150,205]"), ("100", "100")], FindingKind::DispatchAfterStart),
        ([("[0,10,90,205]", "[0,10,90,150]"), ("100", "100")], FindingKind::FinishBeforeEnd),
        ([("[2,3,12", "[7,3,12"), ("[2,12", "[7,12")], FindingKind::CoreBeyondCount),
        ([("50000000", "0"), ("100", "100")], FindingKind::NoClockRate),
        ([("\"clock_freq_hz\": 50000000, ", ""), ("100", "100")], FindingKind::NoClockRate),
    ] {
        let trace = read(&records(&changes), None);
        assert_eq!(trace.executions.len(), 3, "{kind:?}");
        assert_eq!((trace.quality.count(kind), trace.quality.is_sound()), (1, false), "{kind:?}: {:?}", trace.quality);
    }
}

#[test]
fn a_task_on_two_cores_is_told_where_nothing_bears_it_out() {
    let twice = r#"{"chip_swimlane_level": 1, "metadata": {"clock_freq_hz": 50000000, "num_cores": 3},
        "aicore_tasks": [[1,1,10,100,200], [2,1,11,110,210], [2,3,12,310,400]]}"#;
    let alone = read(twice, None);
    assert_eq!(alone.quality.count(FindingKind::SeveralCores), 1, "{:?}", alone.quality);
    let one =
        r#"{"tasks": [{"task_id": 1, "kernel_ids": [0, -1, -1], "block_num": BLOCKS}, {"task_id": 3}], "edges": []}"#;
    let asked = read(twice, Some(&one.replace("BLOCKS", "2")));
    assert!(asked.quality.findings().is_empty(), "{:?}", asked.quality);
    let not_asked = read(twice, Some(&one.replace("BLOCKS", "1")));
    assert_eq!(not_asked.quality.count(FindingKind::MoreRowsThanDispatches), 1);
}

#[test]
fn dependencies_that_cannot_be_true_are_left_out_and_told() {
    let deps = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}, {"task_id": 3}, {"task_id": 1}],
        "edges": [{"pred": 1, "succ": 2}, {"pred": 2, "succ": 3}, {"pred": 3, "succ": 1}, {"pred": 2, "succ": 2},
                  {"pred": 9, "succ": 1}]}"#;
    let trace = read(&records(&[]), Some(deps));
    let counts = [FindingKind::DuplicateTask, FindingKind::SelfEdge, FindingKind::DependencyCycle]
        .map(|kind| trace.quality.count(kind));
    assert_eq!(counts, [1, 1, 1], "{:?}", trace.quality);
    let deps = trace.deps.expect("dependencies");
    assert_eq!(deps.pairs(), [(3, 0), (0, 1), (1, 2)], "who allocates comes first and closes no cycle");
}

#[test]
fn what_streams_lost_is_told_whatever_is_read() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("chip_swimlane_records.json");
    let streams =
        r#""scheduler_records": {"streams": [{"capture": {"dropped": 1}}, {"capture": {"truncated": true}}]}, "#;
    fs::write(&file, records(&[("\"metadata\"", &format!("{streams}\"metadata\""))])).expect("written");
    for load in [TraceParts::TASKS, TraceParts::WAITS, TraceParts::ALL] {
        let trace = open_request(&Request { load, ..Request::new(&file) }).expect("readable");
        assert_eq!(trace.quality.count(FindingKind::ReportedLoss), 2, "{load:?}");
    }
}

#[test]
fn a_file_of_another_kind_is_refused_whatever_is_read() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (file, deps) = (dir.path().join("chip_swimlane_records.json"), dir.path().join("other_deps.json"));
    fs::write(&file, records(&[])).expect("written");
    fs::write(&deps, r#"{"tasks": [{"task_id": 1, "kernel_ids": []}], "edges": []}"#).expect("written");
    for load in [TraceParts::TASKS, TraceParts::WAITS, TraceParts::ALL] {
        let request = Request { load, scopes: Some(deps.clone()), ..Request::new(&file) };
        let error = open_request(&request).expect_err("no scopes").to_string();
        assert!(error.contains("cannot be read as scope statistics"), "{error}");
    }
}
