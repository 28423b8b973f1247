//! What a real run exports for the viewer, decoded again.

use crate::decode::{Event, EventKind, PerfettoFile};
use crate::harness::Place;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

fn exported(place: &Place, dir: &str) -> PerfettoFile {
    place.good(&format!("export {dir} --flows all --output trace.pftrace"));
    PerfettoFile::decode(&std::fs::read(place.path().join("trace.pftrace")).expect("written"))
}

/// Slices by track as (name, begin, end), after checking that they nest and that times ascend.
fn slices(file: &PerfettoFile) -> BTreeMap<u64, Vec<(String, u64, u64)>> {
    let mut open: HashMap<u64, Vec<&Event>> = HashMap::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut out: BTreeMap<u64, Vec<(String, u64, u64)>> = BTreeMap::new();
    for event in &file.events {
        assert!(file.tracks.contains_key(&event.track), "an event on a track that is not described");
        let before = last.insert(event.track, event.at).unwrap_or(0);
        assert!(before <= event.at, "time runs backwards on {:?}", file.tracks[&event.track].name);
        match event.kind {
            EventKind::Begin => open.entry(event.track).or_default().push(event),
            EventKind::End => {
                let begin = open.get_mut(&event.track).and_then(Vec::pop).expect("an end has a begin");
                let name = begin.name.clone().expect("a slice has a name");
                out.entry(event.track).or_default().push((name, begin.at, event.at));
            }
            EventKind::Counter => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    out
}

/// Every arrow leaves one slice and ends at one; how many there are.
fn arrows(file: &PerfettoFile) -> usize {
    let mut ends: HashMap<u64, (u32, u32)> = HashMap::new();
    for event in &file.events {
        event.flows.iter().for_each(|flow| ends.entry(*flow).or_default().0 += 1);
        event.terminating.iter().for_each(|flow| ends.entry(*flow).or_default().1 += 1);
    }
    assert!(ends.values().all(|end| *end == (1, 1)), "{ends:?}");
    ends.len()
}

#[test]
fn a_runs_picture_holds_its_tasks_names_arrows_and_rings() {
    let place = Place::new();
    place.good("run decode-layer --profile --out run");
    let file = exported(&place, "run");
    let slices = slices(&file);
    let stats = place.good("stats run --json").json();
    let (workers, _) = file.tracks.iter().find(|(_, track)| track.name == "workers").expect("the workers' lanes");
    let drawn: Vec<&str> = slices
        .iter()
        .filter(|(track, _)| file.tracks[track].parent == Some(*workers))
        .flat_map(|(_, slices)| slices.iter().map(|slice| slice.0.as_str()))
        .collect();
    assert_eq!(Some(drawn.len() as u64), stats["executions"].as_u64());
    let functions = stats["functions"].as_array().expect("functions");
    let names: BTreeSet<&str> = functions.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!(drawn.into_iter().collect::<BTreeSet<_>>(), names);
    let deps = std::fs::read_to_string(place.path().join("run/deps.json")).expect("dependencies");
    let deps: Value = serde_json::from_str(&deps).expect("JSON");
    let pairs: BTreeSet<String> = deps["edges"]
        .as_array()
        .expect("edges")
        .iter()
        .map(|edge| format!("{} {}", edge["pred"], edge["succ"]))
        .collect();
    assert_eq!(arrows(&file), pairs.len());
    check_rings(&place, &file);
}

/// Every ring and resource that was in use at a sample has a counter with the values of the samples, in their order.
fn check_rings(place: &Place, file: &PerfettoFile) {
    let text = std::fs::read_to_string(place.path().join("run/scope_stats/scope_stats.jsonl")).expect("samples");
    let samples: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let counter = |start: &str| {
        let (uuid, _) = file.tracks.iter().find(|(_, track)| track.is_counter && track.name.starts_with(start))?;
        let of_it = file.events.iter().filter(|event| event.track == *uuid);
        Some(of_it.map(|event| event.value.expect("a value")).collect::<Vec<u64>>())
    };
    let tensormap: Vec<u64> = samples.iter().map(|s| s["tensormap"].as_u64().expect("a count")).collect();
    assert_eq!(counter("tensormap"), Some(changes(tensormap)));
    let mut counted = 0;
    for ring in 0..4 {
        for (field, name) in [("task_window", "task window"), ("heap", "heap"), ("dep_pool", "dependency pool")] {
            let values = counter(&format!("ring {ring} {name}")).unwrap_or_default();
            // A sample tells head and tail of its scope's own ring.
            let own = samples.iter().filter(|sample| sample["ring"] == ring);
            let part = |sample: &Value, end: &str| sample[format!("{field}_{end}")].as_u64().expect("a counter");
            let used: BTreeSet<u64> = own.map(|sample| part(sample, "end") - part(sample, "start")).collect();
            let peak = samples.last().expect("the root's end")[format!("peak_{field}")][ring].as_u64().expect("a peak");
            let drawn: BTreeSet<u64> = values.iter().copied().collect();
            assert!(used.iter().all(|used| *used == 0 || drawn.contains(used)), "ring {ring} {name}: {used:?}");
            assert!(drawn.iter().all(|value| *value <= peak), "ring {ring} {name}: {drawn:?} of {peak}");
            counted += usize::from(!values.is_empty());
        }
    }
    assert!(counted >= 6, "{counted} counters of rings");
}

/// A list without its repetitions.
fn changes(mut values: Vec<u64>) -> Vec<u64> {
    values.dedup();
    values
}

#[test]
fn arrows_of_a_run_without_dependencies_are_said_to_be_missing() {
    let place = Place::new();
    place.good("run vector --out run");
    let ran = place.good("export run --flows all");
    assert!(ran.err.contains("--dep-gen"), "{}", ran.err);
    assert_eq!(place.good("export run").err, "");
    let ran = place.run("export run --scopes-first-form");
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("--format simpler"), "{}", ran.err);
}
