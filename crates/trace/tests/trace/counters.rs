//! Readings of hardware counters and the host's phases: fixtures of our own, and the samples where they are at hand.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_trace::{CoreClass, Error, FindingKind, Request, Trace, TraceParts, open, open_request};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(path: &Path) -> Trace {
    open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn readings_of_counters_are_columns_by_the_names_of_the_header() {
    let trace = read(&fixture("pmu/pmu.csv"));
    let counters = &trace.counters;
    assert_eq!(counters.names, ["vec_busy", "mte_busy"]);
    assert_eq!((counters.rows.len(), counters.counts(1)), (2, [100, 50].as_slice()));
    let row = &counters.rows[0];
    assert_eq!((row.core, row.core_type, row.total_cycles, row.group), (0, CoreClass::Aic, 1000, 2));
    assert_eq!((trace.task_name(row.task), counters.kernel(0)), ("r1t2".to_string(), Some(3)));
    assert_eq!(counters.kernel(1), None, "−1 is no kernel");
    assert_eq!(trace.quality.count(FindingKind::BadRecord), 1, "\"half\" is no number");
}

#[test]
fn a_table_without_its_columns_is_refused_with_its_place() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("pmu.csv");
    fs::write(&path, "core_id,task_id\n0,1\n").expect("written");
    let error = open(&path).expect_err("no cycles");
    assert!(matches!(error, Error::Table { line: 1, .. }), "{error}");
    assert!(error.to_string().contains("pmu_total_cycles"), "{error}");
}

#[test]
fn the_samples_counters_are_read() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    for (run, names) in [
        ("vector_example-a2a3sim", 8),
        ("vector_example-a5sim", 9),
        ("mixed_example-a2a3sim", 8),
        ("paged_attention-a2a3sim", 8),
        ("noop_nested5k-a2a3sim", 8),
    ] {
        let path = samples.join(run).join("pmu2");
        if !path.is_dir() {
            println!("skipped: there is no {}", path.display());
            continue;
        }
        let trace = read(&path);
        let lines = fs::read_to_string(path.join("pmu.csv")).expect("readable").lines().count();
        assert_eq!((trace.counters.rows.len(), trace.counters.names.len()), (lines - 1, names), "{run}");
        assert!(trace.quality.findings().is_empty(), "{:?}", trace.quality);
    }
}

#[test]
fn host_phases_are_read_with_what_was_lost_of_them() {
    let trace = read(&fixture("newest/host_phase_records.jsonl"));
    let host = &trace.host_phases;
    assert_eq!((host.names.as_slice(), host.phases.len()), (["build_graph", "upload"].map(String::from).as_slice(), 3));
    let last = host.phases[2];
    assert_eq!((host.name_of(2), last.pid, last.tid, last.invocation), ("upload", 42, 8, 1));
    assert_eq!((host.clock.as_str(), last.end_ns - last.start_ns), ("CLOCK_MONOTONIC", 100));
    let alone = fixture("newest/host_phase_records.jsonl");
    let counted = |kind| {
        let findings = trace.quality.findings().iter();
        let own =
            findings.filter(|f| f.kind == kind && f.file.as_deref() == alone.file_name().and_then(|n| n.to_str()));
        own.map(|f| f.count).sum::<u64>()
    };
    assert_eq!((counted(FindingKind::ReportedLoss), counted(FindingKind::BadRecord)), (3, 1));
    let dir = tempfile::tempdir().expect("temporary directory");
    let broken = dir.path().join("host_phase_records.jsonl");
    fs::write(&broken, "\n{\"pid\": 1}\n").expect("written");
    let error = open(&broken).expect_err("no records").to_string();
    assert!(error.contains("Line 2") && error.contains("records"), "{error}");
}

#[test]
fn counters_and_host_phases_are_read_beside_other_files_and_only_if_they_are_asked_for() {
    let trace = read(&fixture("newest"));
    assert_eq!((trace.executions.len(), trace.host_phases.phases.len()), (4, 3));
    let tasks =
        open_request(&Request { load: TraceParts::TASKS, ..Request::new(fixture("newest")) }).expect("readable");
    assert!(tasks.host_phases.is_empty() && tasks.counters.is_empty());
}
