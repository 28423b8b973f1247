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
    let phase = |kind: SchedPhaseKind| SchedPhase {
        start: 1_000_000,
        end: 1_000_010,
        kind: kind as u32,
        tasks_processed: 2,
        ..SchedPhase::default()
    };
    segment.pool(9, &[phase(SchedPhaseKind::Steal), phase(SchedPhaseKind::Park)], 8);
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
