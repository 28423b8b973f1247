//! The dependencies a run records: the program's, whatever ran where and whatever was reclaimed meanwhile.

use crate::harness::Place;
use serde_json::Value;
use std::collections::BTreeSet;

/// Edges without addresses, which differ from process to process.
fn edges(place: &Place, dir: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(place.path().join(dir).join("deps.json")).expect("dependencies");
    let deps: Value = serde_json::from_str(&text).expect("JSON");
    let edge = |edge: &Value| format!("{} {} {} {}", edge["pred"], edge["succ"], edge["arg"], edge["source"]);
    deps["edges"].as_array().expect("edges").iter().map(edge).collect()
}

#[test]
fn the_same_program_gives_the_same_edges_also_those_to_reclaimed_tasks() {
    let place = Place::new();
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        let name = program.name;
        place.good(&format!("run {name} --dep-gen --workers 1 --out {name}-roomy"));
        let expected = edges(&place, &format!("{name}-roomy"));
        assert!(!expected.is_empty(), "{name}");
        // With what it cannot do without, scopes are reclaimed as soon as they can be.
        let sizing = place.good(&format!("size {name} --json")).json();
        let floor = |resource: &str| {
            let rows = sizing["rings"].as_array().expect("rings").iter().filter(|row| row["resource"] == resource);
            rows.map(|row| row["floor"].to_string()).collect::<Vec<_>>().join(",")
        };
        let rings = format!(
            "--ring-task-window {} --ring-heap {} --ring-dep-pool {} --tensormap {}",
            floor("task_window"),
            floor("heap"),
            floor("dep_pool"),
            floor("tensormap")
        );
        for workers in [2, 4] {
            let dir = format!("{name}-{workers}");
            place.good(&format!("run {name} --dep-gen --workers {workers} --out {dir} {rings}"));
            assert_eq!(edges(&place, &dir), expected, "{name} on {workers}");
        }
    }
}

/// A streamed program is submitted in every round, a prebuilt one once: each round has the same arrows all the same.
#[test]
fn every_round_has_its_arrows() {
    let place = Place::new();
    for (dir, how, submitted) in [("one", "", 1), ("streamed", "--rounds 3", 3), ("built", "--prebuilt --rounds 3", 3)]
    {
        place.good(&format!("run vector --profile --out {dir} {how}"));
        assert_eq!(place.good(&format!("check {dir} --json")).json()["sound"], true);
        let deps = std::fs::read_to_string(place.path().join(dir).join("deps.json")).expect("dependencies");
        let deps: Value = serde_json::from_str(&deps).expect("JSON");
        let tasks = deps["tasks"].as_array().expect("tasks");
        let ids: BTreeSet<&str> = tasks.iter().map(|task| task["task_id"].as_str().expect("an id")).collect();
        assert_eq!((tasks.len(), ids.len()), (submitted * 1280, submitted * 1280), "{dir}");
    }
    let arrows = |dir: &str| {
        place.good(&format!("export {dir} --format chrome --flows all --output {dir}.json"));
        let text = std::fs::read_to_string(place.path().join(format!("{dir}.json"))).expect("written");
        let picture: Value = serde_json::from_str(&text).expect("JSON");
        picture["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "s").count()
    };
    let once = arrows("one");
    assert!(once > 0);
    assert_eq!((arrows("streamed"), arrows("built")), (3 * once, 3 * once));
    for dir in ["streamed", "built"] {
        place.good(&format!("export {dir} --format simpler --output {dir}-again"));
        let read = place.good(&format!("stats {dir}-again --json"));
        assert_eq!((&read.json()["executions"], read.err.as_str()), (&3840.into(), ""), "{dir}");
    }
}
