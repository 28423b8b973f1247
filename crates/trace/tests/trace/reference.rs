//! The reference's older forms, from fixtures of our own making, and files of any form that are bent.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_abi::TaskId;
use plimsoll_trace::{
    ArgsDump, CoreClass, Error, FindingKind, PeakForm, Quality, Request, Source, Trace, open, open_request,
};
use proptest::prelude::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn fixture(name: &str) -> Trace {
    open(&fixtures().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn l2_perf_records_of_each_version() {
    for (version, level) in [(0, 1), (1, 2), (2, 4)] {
        let trace = fixture(&format!("l2_perf_v{version}/l2_perf_records.json"));
        assert!(trace.quality.findings().is_empty(), "version {version}: {:?}", trace.quality);
        assert_eq!(trace.facts.level, level);
        let e = &trace.executions;
        assert_eq!(e.len(), 3);
        assert_eq!(e.has_lifecycle(), version >= 1);
        assert_eq!((e.task(0), e.kernel(0), e.core(0)), (TaskId::new(0, 0), Some(0), 0));
        assert_eq!(e.exec(0), Some(10_500), "microseconds become nanoseconds");
        assert_eq!(trace.cores[8].core_type, CoreClass::Aiv);
    }
    let trace = fixture("l2_perf_v2/l2_perf_records.json");
    assert_eq!(trace.executions.lifecycle(0), Some((98_000, 113_000)));
    assert_eq!(trace.sched_phases.len(), 3);
    assert_eq!(trace.sched_phases.name_of(2), "scan");
    assert_eq!((trace.orch_phases.len(), trace.orch_phases.name_of(0)), (2, "orch_alloc"));
    assert_eq!(trace.orch_phases.name_of(1), "orch_submit");
    let deps = trace.deps.expect("fan-outs are edges");
    assert_eq!(deps.pairs(), [(0, 1), (0, 2)]);
}

#[test]
fn l2_swimlane_records_with_a_ring_and_without_fanout() {
    let trace = fixture("l2_swimlane");
    assert_eq!(trace.facts.level, 3);
    assert_eq!(trace.executions.task(0), TaskId::new(1, 4));
    assert_eq!(trace.cores[0].agent, Some(0));
    assert!(trace.deps.is_none());
    assert_eq!(trace.kernel_name(0), "GEMM", "the map of names lies beside it");
    assert_eq!(trace.quality.count(FindingKind::EndBeforeStart), 1);
}

#[test]
fn scope_stats_of_version_5_wrap_and_are_made_to_grow() {
    let trace = fixture("scope_stats_v5/scope_stats.jsonl");
    assert_eq!((trace.scopes.peaks, trace.scopes.samples.len()), (PeakForm::HighWater, 4));
    let spans = trace.scopes.spans(&mut Quality::default());
    let inner = trace.scopes.peaks_of(spans[1]);
    assert_eq!(inner.heap[1], 700, "from 600 round the end of 1,000 to 300");
    assert_eq!(inner.window[1], 5);
    assert_eq!(trace.quality.count(FindingKind::ReportedLoss), 2);
}

#[test]
fn scope_stats_of_the_first_form() {
    let trace = fixture("scope_stats_first/scope_stats.json");
    assert_eq!(trace.scopes.peaks, PeakForm::AtSample);
    assert_eq!(trace.scopes.capacities.rings[1].task_window, 16_384);
    assert_eq!(trace.scopes.capacities.tensormap, 65_536);
    let spans = trace.scopes.spans(&mut Quality::default());
    assert_eq!(spans.len(), 2);
    let inner = trace.scopes.peaks_of(spans[0]);
    assert_eq!((inner.window[1], inner.heap[1], inner.tensormap), (5, 4096, 3));
    assert_eq!(trace.quality.count(FindingKind::BadRecord), 1, "\"full\" is no occupancy");
}

#[test]
fn stale_rows_unknown_phases_and_five_columns_are_noticed() {
    let trace = fixture("stale_rows");
    assert_eq!(trace.executions.len(), 4);
    assert_eq!(trace.quality.count(FindingKind::MoreRowsThanDispatches), 1);
    assert_eq!(trace.quality.count(FindingKind::UnknownName), 1);
    assert_eq!(trace.quality.count(FindingKind::DispatchWithoutExecution), 1);
    assert_eq!(trace.quality.count(FindingKind::TaskNotInDeps), 1);
    assert_eq!(trace.sched_phases.name_of(0), "levitate");
    assert_eq!(trace.executions.receive_to_start(0), 0, "five columns have no receipt");
}

#[test]
fn broken_files_are_refused_with_file_and_position_and_only_if_they_were_asked_for() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let records = dir.path().join("chip_swimlane_records.json");
    fs::write(&records, "{\"chip_swimlane_level\": 1,\n \"aicore_tasks\": [[0, 1, 1, 5, \"x\"]]}").expect("written");
    let error = open(&records).expect_err("broken").to_string();
    assert!(error.contains("chip_swimlane_records.json") && error.contains("Line 2, column"), "{error}");
    assert!(error.contains("\"x\" is no number"), "{error}");

    fs::write(&records, "{\"chip_swimlane_level\": 1, \"aicore_tasks\": [[0, 1, 1, 5, 9]]}").expect("written");
    fs::write(dir.path().join("deps.json"), "{\"tasks\": 7}").expect("written");
    let trace = open(&records).expect("what lies beside it may be broken");
    assert_eq!(trace.quality.count(FindingKind::FileLeftOut), 1);
    assert_eq!(trace.executions.len(), 1);
    assert!(open(dir.path()).is_err(), "a directory is asked for as a whole");
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    let dir = tempfile::tempdir().expect("temporary directory");
    assert!(matches!(open(dir.path()), Err(Error::NotACapture { .. })));
    assert!(matches!(open(&dir.path().join("absent")), Err(Error::Io { .. })));
    let other = dir.path().join("other.txt");
    fs::write(&other, "hello").expect("written");
    assert!(matches!(open(&other), Err(Error::NotACapture { .. })));
    let renamed = dir.path().join("records_of_tuesday.json");
    fs::copy(fixtures().join("stale_rows/chip_swimlane_records.json"), &renamed).expect("copied");
    assert_eq!(open(&renamed).expect("known by its keys").executions.len(), 4);
    let captured = dir.path().join("captured");
    fs::create_dir_all(captured.join(ArgsDump::DIR)).expect("made");
    fs::write(captured.join(ArgsDump::DIR).join(ArgsDump::FILE), r#"{"args": []}"#).expect("written");
    let trace = open(&captured).expect("captured arguments are a source by themselves");
    let list = captured.join(ArgsDump::DIR).join(ArgsDump::FILE);
    assert!(matches!(&trace.source, Source::Reference(paths) if *paths == [list]));
}

#[test]
fn a_file_named_as_another_kind_is_refused() {
    let newest = fixtures().join("newest");
    let (deps, names) = (newest.join("deps.json"), newest.join("name_map_Graph.json"));
    let request = Request::new(fixtures().join("stale_rows"));
    for (request, what, key) in [
        (Request { names: Some(deps.clone()), ..request.clone() }, "a map of names", "callable_id_to_name"),
        (Request { deps: Some(names.clone()), ..request.clone() }, "dependencies", "edges"),
        (Request { scopes: Some(names), ..request.clone() }, "scope statistics", "task_window_max"),
    ] {
        let error = open_request(&request).expect_err("of another kind").to_string();
        assert!(error.contains(&format!("cannot be read as {what}")) && error.contains(key), "{error}");
    }
    assert!(open_request(&Request { deps: Some(deps), ..request }).is_ok());
    let dir = tempfile::tempdir().expect("temporary directory");
    fs::write(dir.path().join("chip_swimlane_records.json"), "{}").expect("written");
    assert!(matches!(open(dir.path()), Err(Error::OtherKind { .. })));
}

#[test]
fn a_rank_is_chosen_among_folders_and_never_guessed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let add = |place: &str| {
        let to = dir.path().join(place);
        fs::create_dir_all(&to).expect("made");
        for file in ["chip_swimlane_records.json", "deps.json"] {
            fs::copy(fixtures().join("stale_rows").join(file), to.join(file)).expect("copied");
        }
    };
    let rank = |place: &str, rank: Option<u32>| {
        let request = Request { rank, ..Request::new(dir.path().join(place)) };
        open_request(&request).map(|trace| trace.executions.len()).map_err(|error| error.to_string())
    };
    add("many/rank0/d0");
    add("many/rank1/d1");
    for (place, number) in [("many", Some(1)), ("many/rank1", None), ("many/rank1", Some(1)), ("many/rank1/d1", None)] {
        assert_eq!(rank(place, number), Ok(4), "{place} {number:?}");
    }
    for (place, number, held) in [
        ("many", None, "the ranks 0, 1. Choose one"),
        ("many", Some(2), "no rank 2, but the ranks 0, 1."),
        ("many/rank1", Some(0), "no rank 0, but the ranks 1."),
        ("many/rank1/d1", Some(1), "no folder of a rank, such as rank0/d0. Leave"),
    ] {
        let error = rank(place, number).expect_err("not one run");
        assert!(error.contains(held), "{error}");
    }
    add("nodes/node0/rank0/d0");
    add("nodes/node1/rank0/d0");
    add("nodes/node1/rank1/d1");
    add("devices/rank0/d0");
    add("devices/rank0/d1");
    assert_eq!((rank("nodes", Some(1)), rank("nodes/node1", Some(0))), (Ok(4), Ok(4)));
    for (place, number) in [("nodes", Some(0)), ("devices", None), ("devices", Some(0)), ("devices/rank0", None)] {
        let error = rank(place, number).expect_err("more than one folder");
        assert!(error.contains("rank 0 in several folders") && error.contains("d0, "), "{place}: {error}");
    }
}

/// Every fixture, and the samples that are small and at hand.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples/vector_example-a2a3sim/all");
    let mut dirs = vec![fixtures(), samples];
    while let Some(dir) = dirs.pop() {
        for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                dirs.push(path);
            } else if [".json", ".jsonl", ".csv"].iter().any(|end| name.ends_with(end)) {
                files.push((name, fs::read(&path).expect("readable")));
            }
        }
    }
    files.sort();
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bent_files_give_an_error_or_a_trace(
        file: prop::sample::Index,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..6, any::<u8>()), 1..6),
    ) {
        let corpus = corpus();
        let (name, bytes) = &corpus[file.index(corpus.len())];
        let mut bytes = bytes.clone();
        for (at, what, byte) in changes {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match what {
                0 => bytes.truncate(at),
                1 => drop(bytes.splice(at..at, *b"99999999999999999999")),
                2 => drop(bytes.splice(at..at, *b"-1")),
                3 => drop(bytes.splice(at..(at + 3).min(bytes.len()), [])),
                4 if at < bytes.len() => bytes[at] = b'0' + byte % 10,
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join(name);
        fs::write(&path, &bytes).expect("written");
        if let Ok(trace) = open(&path) {
            let _ = (trace.extent(), trace.scopes.spans(&mut Quality::default()));
        }
    }
}
