//! `plimsoll size`: floors and recommendations, from a run and from a program.

use crate::harness::Place;
use serde_json::Value;

fn rows(sizing: &Value) -> Vec<Value> {
    let rows = sizing["rings"].as_array().expect("rings").clone();
    assert_eq!(rows.len(), 13, "three resources of four rings, and the tensormap");
    for row in &rows {
        for field in ["capacity", "peak", "floor", "recommended"] {
            assert!(row[field].is_u64(), "{field}: {row}");
        }
        assert!(row["peak_is_bound"].is_boolean() && row["floor_is_bound"].is_boolean(), "{row}");
        assert_eq!(row["ring"].is_null(), row["resource"] == "tensormap", "{row}");
        assert!(row["recommended"].as_u64() >= row["floor"].as_u64(), "{row}");
    }
    rows
}

/// One value of every ring as a flag takes it, by resource.
fn flags(rows: &[Value], field: &str) -> String {
    let of = |resource: &str| {
        let rows = rows.iter().filter(|row| row["resource"] == resource);
        rows.map(|row| row[field].to_string()).collect::<Vec<_>>().join(",")
    };
    let (window, heap, deps) = (of("task_window"), of("heap"), of("dep_pool"));
    format!("--ring-task-window {window} --ring-heap {heap} --ring-dep-pool {deps} --tensormap {}", of("tensormap"))
}

#[test]
fn every_program_passes_at_its_floors_and_with_what_is_recommended() {
    let place = Place::new();
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        let sizing = place.good(&format!("size {} --json", program.name)).json();
        assert_eq!((&sizing["program"], &sizing["status"]), (&program.name.into(), &"ok".into()));
        let rows = rows(&sizing);
        assert!(rows.iter().all(|row| row["floor_is_bound"] == false), "{sizing}");
        place.good(&format!("run {} --no-record {}", program.name, flags(&rows, "floor")));
        place.good(&format!("run {} --no-record {}", program.name, sizing["flags"].as_str().expect("flags")));
        let out = sizing["out"].as_str().expect("a directory");
        assert!(place.good(&format!("scopes {out}")).out.contains("fullest"));
        let mut command = place.command(["run", program.name, "--no-record"]);
        for variable in sizing["environment"].as_array().expect("variables") {
            let (name, value) = variable.as_str().and_then(|text| text.split_once('=')).expect("NAME=value");
            command.env(name, value);
        }
        assert!(command.output().expect("it starts").status.success(), "{}", program.name);
    }
}

/// The machine is that of `run`, and what is advised can be pasted.
#[test]
fn a_program_is_sized_on_any_machine() {
    let place = Place::new();
    for machine in
        ["--arch a5 --clusters 2 --sched-threads 1", "--engine emulated --isolate", "--engine virtual --arch a2a3"]
    {
        let line = format!("size vector --set n=4096 {machine}");
        let sizing = place.good(&format!("{line} --json")).json();
        assert!(rows(&sizing).iter().all(|row| row["floor_is_bound"] == false), "{sizing}");
        assert_eq!(sizing["virtual"], machine.contains("virtual"), "{sizing}");
        assert_eq!(sizing["emulated"], !machine.contains("virtual"), "{sizing}");
        let text = place.good(&line).out;
        let next = text.lines().find_map(|line| line.strip_prefix("next: plimsoll ")).expect("advice");
        assert!(next.starts_with("run vector --set n=4096 ") && next.contains(machine), "{next}");
        place.good(&format!("{next} --no-record"));
    }
    let refused = place.run("size vector --arch a5 --workers 2");
    assert!(refused.code == Some(2) && refused.err.contains("not workers"), "{}", refused.err);
}

#[test]
fn one_step_below_a_floor_deadlocks() {
    let place = Place::new();
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        below_the_floors(&place, program.name);
    }
}

fn below_the_floors(place: &Place, program: &str) {
    let sizing = place.good(&format!("size {program} --json")).json();
    for row in rows(&sizing) {
        let floor = row["floor"].as_u64().expect("a floor");
        let (flag, below) = match row["resource"].as_str().expect("a resource") {
            "task_window" => ("--ring-task-window", floor / 2),
            "heap" => ("--ring-heap", floor - 64),
            "dep_pool" => ("--ring-dep-pool", floor - 1),
            _ => ("--tensormap", floor - 1),
        };
        if below == 0 {
            continue;
        }
        let value = row["ring"].as_u64().map_or(below.to_string(), |ring| {
            (0..4).map(|r| if r == ring { below.to_string() } else { "-".to_owned() }).collect::<Vec<_>>().join(",")
        });
        let ran = place.run(&format!("run {program} --no-record --json {flag} {value}"));
        assert_eq!(ran.code, Some(1), "{program} {flag} {value}");
        let error = ran.json()["error"].clone();
        assert_eq!((&error["resource"], &error["ring"]), (&row["resource"], &row["ring"]), "{error}");
    }
}

#[test]
fn a_failed_run_says_what_is_exact_and_what_a_bound() {
    let place = Place::new();
    assert_eq!(place.run("run fault-heap").code, Some(1));
    let sizing = place.good("size --json").json();
    assert_eq!(sizing["status"], "failed");
    for row in rows(&sizing) {
        let exact = row["resource"] == "heap" && row["ring"] == 1;
        assert_eq!(row["floor_is_bound"], !exact, "{row}");
        assert!(exact || row["recommended"].as_u64() >= row["capacity"].as_u64(), "{row}");
        assert!(!exact || row["floor"] == 80 << 20, "{row}");
    }
    place.good(&format!("run fault-heap --no-record {}", sizing["flags"].as_str().expect("flags")));
    let text = place.good("size").out;
    for part in ["≥", "--ring-heap", "export PLIMSOLL_RING_HEAP=", "Below the floor", "next: plimsoll run fault-heap"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_cannot_be_sized_is_told() {
    let place = Place::new();
    for (line, code, part) in [
        ("size nothing", 2, "neither a run nor a program"),
        ("size", 1, "plimsoll run"),
        ("size vector --set x=1", 2, "knows n, block"),
    ] {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.err);
        assert!(ran.err.contains(part), "{line}: {}", ran.err);
    }
    place.good("run vector --out run");
    for flag in ["--set n=1", "--arch a5", "--isolate", "--out elsewhere"] {
        let ran = place.run(&format!("size run {flag}"));
        let name = flag.split(' ').next().expect("a flag");
        assert!(ran.code == Some(2) && ran.err.contains(name), "{flag}: {}", ran.err);
    }
    let ran = place.run("size fault-panic --json");
    assert_eq!(ran.code, Some(1), "the sizing run failed: {}", ran.out);
    assert!(ran.err.contains("lower bounds") && ran.err.contains("panicked"), "{}", ran.err);
    assert!(rows(&ran.json()).iter().all(|row| row["floor_is_bound"] == true));
}

/// What is to be run next is the program with the settings that were measured.
#[test]
fn the_advice_of_a_sizing_run_has_its_settings() {
    let place = Place::new();
    let sized = place.good("size stencil --set n=64 --set=tile=16 --set steps=2").out;
    let next = "next: plimsoll run stencil --set n=64 --set tile=16 --set steps=2 --ring-task-window";
    assert!(sized.contains(next), "{sized}");
    let again = place.good("size").out;
    assert!(again.contains(next), "{again}");
}
