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

/// What is told of records that have more in front of their rows, and dependencies beside them.
fn told_of(besides: &str, changes: &[(&str, &str)], deps: Option<&str>) -> Vec<(FindingKind, u64)> {
    let besides = format!("{besides}\"metadata\"");
    let changes: Vec<(&str, &str)> = [("\"metadata\"", besides.as_str())].iter().chain(changes).copied().collect();
    let trace = read(&records(&changes), deps);
    assert_eq!(trace.executions.len(), 3, "{besides}");
    trace.quality.findings().iter().map(|finding| (finding.kind, finding.count)).collect()
}

#[test]
fn submits_that_cannot_be_true_are_told() {
    let submits = |first: [u64; 2], more: &str| {
        let [begin, end] = first;
        format!(
            r#""aicpu_orchestrator_phases": [[{{"submit_idx": 0, "task_id": 1, "start_cycles": {begin}, "end_cycles": {end}}},
                {{"submit_idx": 1, "task_id": 2, "start_cycles": 60, "end_cycles": 70}}{more}]], "#
        )
    };
    assert_eq!(told_of(&submits([50, 60], ""), &[], None), []);
    assert_eq!(told_of(&submits([50, 900], ""), &[], None), [], "a task may be taken and run while its submit ends");
    assert_eq!(told_of(&submits([800, 900], ""), &[], None), [(FindingKind::SubmitAfterEnd, 1)]);
    let again = r#", {"submit_idx": 2, "task_id": 2, "start_cycles": 80, "end_cycles": 90}"#;
    assert_eq!(told_of(&submits([50, 60], again), &[], None), [(FindingKind::SubmittedTwice, 1)]);
}

#[test]
fn counts_types_and_runtimes_that_differ_are_told_and_the_cores_are_those_of_the_list() {
    for (change, cores) in
        [(("\"num_cores\": 3", "\"num_cores\": 99"), 3), (("[\"aic\", \"aiv\", \"aiv\"]", "[\"aic\"]"), 3)]
    {
        let trace = read(&records(&[change]), None);
        assert_eq!((trace.cores.len(), trace.quality.count(FindingKind::CoreTypesDiffer)), (cores, 1), "{change:?}");
    }
    let of = |runtime: &str| format!(r#"{{"runtime": "{runtime}", "tasks": [], "edges": []}}"#);
    let named = [("\"num_cores\"", "\"runtime\": \"tensormap_and_ringbuffer\", \"num_cores\"")];
    let kinds = |deps: &str| told_of("", &named, Some(&of(deps)));
    assert!(kinds("host_build_graph").contains(&(FindingKind::RuntimesDiffer, 1)));
    assert!(!kinds("tensormap_and_ringbuffer").contains(&(FindingKind::RuntimesDiffer, 1)));
}

#[test]
fn scheduler_records_that_cannot_be_true_are_told() {
    let record = |kind: &str, start: u64, end: u64| {
        format!(r#"{{"start_cycles": {start}, "end_cycles": {end}, "kind": "{kind}"}}"#)
    };
    let streams = |records: &[String], committed: usize, of: u64| {
        format!(
            r#""scheduler_records": {{"streams": [{{"scheduler_id": 0, "capture": {{"committed": {committed}}}, "records": [{}], "metrics": [{{"record_index": {of}}}]}}]}}, "#,
            records.join(", ")
        )
    };
    let sound = [record("resolve", 92, 95), record("dispatch", 90, 100), record("complete", 100, 110)];
    assert_eq!(told_of(&streams(&sound, 3, 2), &[], None), []);
    assert_eq!(told_of(&streams(&sound, 9, 2), &[], None), [(FindingKind::WrongCount, 1)]);
    assert_eq!(told_of(&streams(&sound, 3, 7), &[], None), [(FindingKind::BadRecord, 1)]);
    let thrice = [(); 3].map(|()| record("dispatch", 90, 200));
    assert_eq!(told_of(&streams(&thrice, 3, 0), &[], None), [(FindingKind::PhaseOverlap, 2)]);
    let host = |expected: u64| {
        let capture = format!(
            "\"host_capture\": {{\"status\": \"complete\", \"expected_records\": {expected}, \"recorded_records\": 3}}, "
        );
        told_of("", &[("\"num_cores\"", &format!("{capture}\"num_cores\""))], None)
    };
    assert_eq!((host(3), host(9)), (vec![], vec![(FindingKind::WrongCount, 1)]));
}

#[test]
fn dispatches_told_twice_are_told_and_the_first_are_used() {
    for other in ["[0,10,90,205]", "[0,10,50,999]"] {
        let twice = read(&records(&[("[0,10,90,205]", &format!("[0,10,90,205], {other}"))]), None);
        assert_eq!(twice.quality.count(FindingKind::DispatchWithoutExecution), 1, "{:?}", twice.quality);
        assert_eq!(twice.executions.lifecycle(0), Some((90, 205)));
    }
    let both = r#""scheduler_tasks": {"records": [[0,10,90,205], [1,11,205,305], [2,12,305,405]]}, "#;
    assert_eq!(told_of(both, &[], None), [(FindingKind::DispatchWithoutExecution, 3)]);
}

#[test]
fn a_task_on_a_core_that_it_has_no_kernel_for_is_told() {
    let deps = |first: &str| {
        format!(
            r#"{{"tasks": [{{"task_id": 1, "kernel_ids": {first}}}, {{"task_id": 2, "kernel_ids": [4, -1, -1]}}, {{"task_id": 3, "kernel_ids": [-1, 5, -1]}}], "edges": []}}"#
        )
    };
    assert_eq!(told_of("", &[], Some(&deps("[3, -1, -1]"))), [], "a worker of a CPU run is written as a vector core");
    for first in ["[-1, 3, -1]", "[-1, -1, -1]"] {
        assert_eq!(told_of("", &[], Some(&deps(first))), [(FindingKind::NoKernelForCore, 1)], "{first}");
    }
    let any = told_of("", &[], Some(&deps(r#"[3, 3, -1], "core_class": "any""#)));
    assert_eq!(any, [], "a kernel for cores of both types");
    let none = r#"{"tasks": [{"task_id": 1}, {"task_id": 2}, {"task_id": 3}], "edges": []}"#;
    assert_eq!(told_of("", &[], Some(none)), [], "a file without kernels");
}

#[test]
fn a_task_on_two_cores_is_told_where_nothing_bears_it_out() {
    let twice = r#"{"chip_swimlane_level": 1, "metadata": {"clock_freq_hz": 50000000, "num_cores": 3},
        "aicore_tasks": [[1,1,10,100,200], [2,1,11,110,210], [2,3,12,310,400]]}"#;
    let alone = read(twice, None);
    assert_eq!(alone.quality.count(FindingKind::SeveralCores), 1, "{:?}", alone.quality);
    let one = r#"{"tasks": [{"task_id": 1, "kernel_ids": [0, -1, -1], "block_num": BLOCKS}, {"task_id": 3, "kernel_ids": [0, -1, -1]}], "edges": []}"#;
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

/// Reads a file by itself.
fn read_file(name: &str, text: &str) -> Result<Trace, String> {
    let dir = tempfile::tempdir().expect("temporary directory");
    fs::write(dir.path().join(name), text).expect("written");
    open(&dir.path().join(name)).map_err(|error| error.to_string())
}

/// A scope inside another one, line by line, with some text replaced.
fn scopes(changes: &[(&str, &str)]) -> Trace {
    let sample = |site: u32, phase: &str, ring: u32, tail: u64, head: u64| {
        let heap = head * 100;
        format!(
            r#"{{"site": "a.cpp:{site}", "phase": "{phase}", "depth": {ring}, "ring": {ring}, "task_window_start": {tail}, "task_window_end": {head}, "heap_start": 0, "heap_end": {heap}, "dep_pool_start": 0, "dep_pool_end": 0, "tensormap": 0}}"#
        )
    };
    let head = r#"{"version": 6, "fatal": false, "dropped": 0, "total": 4, "task_window_max": [16, 16, 16, 16], "heap_max": [1000, 1000, 1000, 1000], "dep_pool_max": [16, 16, 16, 16], "tensormap_max": 64}"#;
    let lines = [
        head.to_string(),
        sample(1, "begin", 0, 0, 0),
        sample(9, "begin", 1, 2, 3),
        sample(9, "end", 1, 3, 7),
        sample(1, "end", 0, 0, 1),
    ];
    let mut text = lines.join("\n");
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    read_file("scope_stats.jsonl", &text).expect("readable")
}

#[test]
fn scopes_that_cannot_be_true_are_told() {
    let sound = scopes(&[]);
    assert!(sound.quality.findings().is_empty() && sound.scopes.samples.len() == 4, "{:?}", sound.quality);
    for (change, kind, samples) in [
        (("\"phase\": \"end\"", "\"phase\": \"pause\""), FindingKind::BadRecord, 3),
        (("\"ring\": 1", "\"ring\": 9"), FindingKind::BadRecord, 3),
        (("\"version\": 6", "\"version\": 7"), FindingKind::UnknownVersion, 4),
        (("\"task_window_end\": 7", "\"task_window_end\": 2"), FindingKind::WentBack, 4),
        (("\"heap_end\": 700", "\"heap_end\": 200"), FindingKind::WentBack, 4),
        (
            ("\"task_window_start\": 0, \"task_window_end\": 1", "\"task_window_start\": 5, \"task_window_end\": 1"),
            FindingKind::WentBack,
            4,
        ),
        (("a.cpp:9", "a.cpp:8"), FindingKind::UnpairedScope, 4),
        (("\"total\": 4", "\"total\": 42"), FindingKind::WrongCount, 4),
        (
            ("\"fatal\": false, \"dropped\": 0, \"total\": 4", "\"fatal\": true, \"total\": 5"),
            FindingKind::WrongCount,
            4,
        ),
    ] {
        let trace = scopes(&[change]);
        let count = trace.quality.count(kind);
        assert!(count > 0 && !trace.quality.is_sound(), "{change:?}: {:?}", trace.quality);
        assert_eq!(trace.scopes.samples.len(), samples, "{change:?}");
    }
    let dropped =
        |total: &str| scopes(&[("\"dropped\": 0, \"total\": 4", &format!("\"dropped\": 2, \"total\": {total}"))]);
    assert_eq!(["4", "6", "5"].map(|total| dropped(total).quality.count(FindingKind::WrongCount)), [0, 0, 1]);
    let left_open = [("\"fatal\": false", "\"fatal\": true"), ("\"phase\": \"end\"", "\"phase\": \"begin\"")];
    assert_eq!(scopes(&left_open[1..]).quality.count(FindingKind::UnpairedScope), 2);
    assert!(scopes(&left_open).quality.is_sound(), "a run that failed left its scopes open");
}

#[test]
fn a_broken_first_form_of_scope_statistics_is_refused_with_its_place() {
    let read = |text: &str| read_file("scope_stats.json", text);
    for text in [r#"[{"site": "a:1", "depth": 0}]"#, r#"{"scopes": [{"site": "a:1"}], "dropped": 0, "other": {}}"#] {
        assert_eq!(read(text).expect("readable").scopes.samples.len(), 2, "{text}");
    }
    let error = read("{\"dropped\": 0,\n \"scopes\": [{\"site\": 7}]}").expect_err("no text");
    assert!(error.contains("ine 2, column 2"), "{error}");
    let error = read("[{\"depth\": \"deep\"}]").expect_err("no number");
    assert!(error.contains("ine 1, column") && error.contains("deep"), "{error}");
    assert!(read(r#"{"tasks": []}"#).expect_err("no scopes").contains("`scopes`"));
    let ring = read(r#"[{"site": "a:1", "depth": 0, "ring": 9}]"#).expect("readable");
    assert_eq!(ring.quality.count(FindingKind::BadRecord), 1);
}

#[test]
fn what_older_forms_list_as_fan_out_is_checked_as_edges_are() {
    let task = |id: u32, fanout: &str| {
        format!(
            r#"{{"task_id": {id}, "func_id": 0, "core_id": {id}, "core_type": "aic", "start_time_us": {id}1.0, "end_time_us": {id}5.0, "fanout": [{fanout}]}}"#
        )
    };
    let text = format!(r#"{{"version": 1, "tasks": [{}, {}, {}]}}"#, task(1, "2"), task(2, "3, 2"), task(3, "1"));
    let trace = read_file("l2_perf_records.json", &text).expect("readable");
    let counts = [FindingKind::SelfEdge, FindingKind::DependencyCycle].map(|kind| trace.quality.count(kind));
    assert_eq!(counts, [1, 1], "{:?}", trace.quality);
    assert_eq!(trace.deps.expect("dependencies").pairs(), [(0, 1), (1, 2)]);
}
