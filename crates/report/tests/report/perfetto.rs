//! The Perfetto file, decoded again: slices nest, arrows join slices, names resolve, times ascend.

use std::collections::{BTreeMap, HashMap};

use crate::decode::{Event, EventKind, PerfettoFile};
use plimsoll_report::{Flows, perfetto::write_perfetto};
use plimsoll_trace::synthetic::Synthetic;
use plimsoll_trace::{Trace, open};

fn synthetic(run: Synthetic) -> Trace {
    let dir = tempfile::tempdir().expect("temporary directory");
    run.write(dir.path()).expect("written");
    open(dir.path()).expect("readable")
}

fn exported(trace: &Trace, flows: Flows) -> PerfettoFile {
    let mut bytes = Vec::new();
    write_perfetto(trace, flows, &mut bytes).expect("written");
    PerfettoFile::decode(&bytes)
}

/// Walks every track: times ascend, ends have a begin, nothing but open tasks stays open. Gives the slices.
fn assert_sound(file: &PerfettoFile) -> Vec<(u64, String, u64, u64)> {
    let mut by_track: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in &file.events {
        assert!(file.tracks.contains_key(&event.track), "an event on a track that is not described");
        by_track.entry(event.track).or_default().push(event);
    }
    let mut slices = Vec::new();
    for (track, events) in by_track {
        let mut open: Vec<&Event> = Vec::new();
        let mut last = 0;
        for event in events {
            assert!(event.at >= last, "time runs backwards on {:?}", file.tracks[&track]);
            last = event.at;
            match event.kind {
                EventKind::Begin => {
                    assert!(event.name.as_ref().is_some_and(|n| !n.is_empty()), "a slice without a name");
                    open.push(event);
                }
                EventKind::End => {
                    let begin = open.pop().expect("an end without a begin");
                    slices.push((track, begin.name.clone().expect("named"), begin.at, event.at));
                }
                EventKind::Counter => assert!(event.value.is_some()),
            }
        }
        for still in open {
            slices.push((track, still.name.clone().expect("named"), still.at, u64::MAX));
        }
    }
    slices
}

fn assert_flows_join(file: &PerfettoFile) -> usize {
    let mut ends: HashMap<u64, (usize, usize)> = HashMap::new();
    for event in &file.events {
        assert!(event.kind == EventKind::Begin || event.flows.is_empty() && event.terminating.is_empty());
        for flow in &event.flows {
            ends.entry(*flow).or_default().0 += 1;
        }
        for flow in &event.terminating {
            ends.entry(*flow).or_default().1 += 1;
        }
    }
    assert!(ends.values().all(|e| *e == (1, 1)), "every arrow leaves one slice and ends at one");
    ends.len()
}

#[test]
fn a_level_4_run_decodes_to_what_was_recorded() {
    let trace = synthetic(Synthetic::default());
    let file = exported(&trace, Flows::All);
    let slices = assert_sound(&file);
    let of_group = |group: &str| {
        let (uuid, _) = file.tracks.iter().find(|(_, t)| t.name == group).expect("the group");
        let inside = slices.iter().filter(|s| file.tracks[&s.0].parent == Some(*uuid));
        inside.cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_group("workers").len(), 100);
    assert_eq!(of_group("scheduler view (dispatch to finish)").len(), 100);
    assert_eq!(of_group("schedulers").len(), 300);
    assert_eq!(of_group("orchestrator").len(), 100 + 14, "submits and scopes");
    let expected: u64 = (0..trace.executions.len()).filter_map(|at| trace.executions.exec(at)).sum();
    let drawn: u64 = of_group("workers").iter().map(|s| s.3 - s.2).sum();
    assert_eq!(drawn, expected, "a tick of this clock is a nanosecond");
    let names: std::collections::BTreeSet<String> = of_group("workers").into_iter().map(|s| s.1).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["PV", "QK", "SF", "UP"]);

    // Each task but a core's first waits for the one before it and for one on the next core.
    assert_eq!(assert_flows_join(&file), 194);
    let with_task = file.events.iter().filter(|e| e.annotations.iter().any(|(k, v)| k == "task" && v == "r1t17"));
    assert_eq!(with_task.count(), 3, "its submit, its dispatch and its execution");

    let lanes: Vec<&str> = file.groups().into_iter().map(|g| g.name.as_str()).collect();
    assert_eq!(lanes, ["orchestrator", "schedulers", "scheduler view (dispatch to finish)", "workers", "rings"]);
    let counters = file.tracks.values().filter(|t| t.is_counter).count();
    assert_eq!(counters, 3, "window, heap and tensormap were used: rings that never were are left out");
}

#[test]
fn without_flows_there_are_none_and_level_1_has_one_view() {
    let trace = synthetic(Synthetic { level: 1, scopes: false, ..Synthetic::default() });
    let file = exported(&trace, Flows::None);
    assert_sound(&file);
    assert_eq!(assert_flows_join(&file), 0);
    assert_eq!(file.groups().len(), 1);
    assert_eq!(
        file.tracks.values().filter(|t| t.parent.is_none()).map(|t| t.name.as_str()).collect::<Vec<_>>(),
        ["synthetic · virtual · host (virtual time)"]
    );
}

#[test]
fn the_references_captures_decode_with_overlapping_dispatches_on_lanes_of_their_own() {
    let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    if !samples.is_dir() {
        println!("skipped: there are no samples of the reference in {}", samples.display());
        return;
    }
    for (run, tasks, flows) in [
        ("vector_example-a2a3sim", 5, 6),
        ("vector_example-a5sim", 5, 6),
        ("mixed_example-a2a3sim", 36, 0),
        // 16 of its 92 edges come from tasks that only allocate and have no slice.
        ("paged_attention-a2a3sim", 64, 76),
        ("noop_nested5k-a2a3sim", 5010, 7348),
    ] {
        let trace = open(&samples.join(run).join("all")).expect("readable");
        let file = exported(&trace, Flows::All);
        let slices = assert_sound(&file);
        let cores = file.tracks.iter().find(|(_, t)| t.name == "cores").map(|(uuid, _)| *uuid);
        assert_eq!(slices.iter().filter(|s| file.tracks[&s.0].parent == cores).count(), tasks, "{run}");
        assert_eq!(assert_flows_join(&file), flows, "{run}");
    }
}
