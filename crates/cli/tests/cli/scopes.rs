//! `plimsoll scopes` and the samples behind it: nothing is lost of many scopes, and what a run says of them is the same
//! in every form.

use crate::harness::{Place, balance};
use serde_json::Value;

fn lines(place: &Place, dir: &str) -> Vec<Value> {
    let path = place.path().join(dir).join("scope_stats/scope_stats.jsonl");
    let text = std::fs::read_to_string(path).expect("samples");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Two scopes per block and the root, in rings that hold everything and in rings in which the orchestrator has to wait.
#[test]
fn thousands_of_scopes_with_everything_on_are_all_there() {
    const BLOCKS: u64 = 4234;
    const SCOPES: u64 = 2 * BLOCKS + 1;
    assert_eq!(SCOPES, 8469);
    let place = Place::new();
    let program = format!("run vector --set n={} --set block=8", BLOCKS * 8);
    let rings = "--ring-task-window 16 --ring-heap 4k --ring-dep-pool 64 --tensormap 256";
    for (dir, rings) in [("roomy", ""), ("tight", rings)] {
        let ran = place.good(&format!("{program} --profile --require-lossless --json --out {dir} {rings}"));
        assert_eq!(balance(&ran.json()["reconcile"]).1, 0);
        assert_eq!(place.good(&format!("check {dir} --json")).json()["sound"], true);
        let lines = lines(&place, dir);
        assert_eq!((&lines[0]["total"], &lines[0]["dropped"]), (&(2 * SCOPES).into(), &0.into()));
        assert_eq!(lines.len() as u64, 1 + 2 * SCOPES);
        let table = place.good(&format!("scopes {dir} --json")).json();
        let rows = table["scopes"].as_array().expect("scopes");
        let sum = |field: &str| rows.iter().map(|row| row[field].as_u64().expect("a count")).sum::<u64>();
        assert_eq!((sum("entered"), sum("open"), sum("tasks")), (SCOPES, 0, 5 * BLOCKS), "{table}");
        assert!(rows.iter().any(|row| row["depth"] == 0 && row["entered"] == 1), "the root is there: {table}");
    }
}

#[test]
fn samples_have_the_references_form_and_peaks_of_four_rings() {
    let place = Place::new();
    place.good("run decode-layer --out run");
    let lines = lines(&place, "run");
    assert_eq!(lines[0]["version"], 6);
    assert_eq!(lines[0]["fatal"], false);
    for field in ["task_window_max", "heap_max", "dep_pool_max"] {
        assert_eq!(lines[0][field].as_array().expect("by ring").len(), 4, "{field}");
    }
    for sample in &lines[1..] {
        let is_end = sample["phase"] == "end";
        assert!(is_end || sample["phase"] == "begin", "{sample}");
        assert!(sample["site"].as_str().is_some_and(|site| site.contains(".rs:")), "{sample}");
        for field in ["task_window", "heap", "dep_pool"] {
            let part = |end: &str| sample[format!("{field}_{end}")].as_u64().expect("a counter");
            assert!(part("start") <= part("end"), "{field}: {sample}");
            let peaks = sample.get(format!("peak_{field}"));
            assert_eq!(peaks.and_then(Value::as_array).map(Vec::len), is_end.then_some(4), "{field}: {sample}");
        }
        for field in ["peak_fanin", "peak_tensormap"] {
            assert_eq!(sample.get(field).is_some_and(Value::is_u64), is_end, "{field}: {sample}");
        }
    }
    place.good("export run --format simpler --scopes-first-form --output first");
    let text = std::fs::read_to_string(place.path().join("first/scope_stats/scope_stats.json")).expect("written");
    assert!(text.contains("/16384\""), "used over capacity: {text}");
    std::fs::remove_file(place.path().join("first/scope_stats/scope_stats.jsonl")).expect("both forms were written");
    let [ours, first] = ["run", "first/scope_stats/scope_stats.json"].map(|path| {
        let table = place.good(&format!("scopes {path} --json")).json();
        table["scopes"].as_array().expect("scopes").iter().map(|row| row["entered"].as_u64()).sum::<Option<u64>>()
    });
    assert_eq!(ours, first, "the first form holds as many scopes");
}

#[test]
fn a_bound_beyond_its_capacity_is_called_one() {
    let place = Place::new();
    let head = r#"{"version":6,"fatal":false,"dropped":0,"total":2,"task_window_max":[9,9,9,9],"heap_max":[0,0,0,0],"dep_pool_max":[9,9,9,9],"tensormap_max":9}"#;
    let sample = |phase: &str, tail: u64, head: u64| {
        format!(
            r#"{{"site":"a.cpp:1","phase":"{phase}","depth":0,"ring":0,"task_window_start":{tail},"task_window_end":{head}}}"#
        )
    };
    let text = format!("{head}\n{}\n{}\n", sample("begin", 0, 2), sample("end", 7, 10));
    std::fs::write(place.path().join("scope_stats.jsonl"), text).expect("written");
    let table = place.good("scopes scope_stats.jsonl");
    assert!(table.out.contains("≥ capacity, from boundary samples") && !table.out.contains("111"), "{}", table.out);
    let peak = &place.good("scopes scope_stats.jsonl --json").json()["scopes"][0]["resources"][0];
    assert_eq!((&peak["peak"], &peak["share"], &peak["beyond_capacity"]), (&10.into(), &1.0.into(), &true.into()));
}
