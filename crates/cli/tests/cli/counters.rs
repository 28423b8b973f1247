//! `--pmu`: one reading of counters per dispatch on every engine, in `pmu.csv`, `stats`, the report and Parquet.

use crate::harness::{Place, Ran};
use serde_json::Value;

const CHIP: &str = "--arch a5 --clusters 2 --sched-threads 1";

/// Total and mismatch of the readings of all cores.
fn readings(ran: &Value) -> (u64, u64) {
    let pools = ran["reconcile"]["pools"].as_array().expect("pools");
    let of = |pool: &&Value| pool["kind"] == "counter_reading";
    let sum = |part: &str| pools.iter().filter(of).map(|pool| pool[part].as_u64().expect("a number")).sum();
    (sum("total"), sum("mismatch"))
}

/// What `stats` says of the counters of a run or a file.
fn counters(place: &Place, path: &str) -> Value {
    place.good(&format!("stats {path} --json")).json()["counters"].clone()
}

#[test]
fn every_dispatch_has_one_reading_in_every_form() {
    let place = Place::new();
    let shadow = format!("{CHIP} --transport shadow");
    let isolated = format!("{CHIP} --isolate");
    let again = format!("{CHIP} --prebuilt --rounds 2");
    let ways = [
        "",
        CHIP,
        &shadow,
        &isolated,
        &again,
        "--engine emulated --workers 2",
        "--engine virtual",
        "--prebuilt --rounds 3",
    ];
    for program in ["mixed", "spmd"] {
        for (number, way) in ways.iter().enumerate() {
            let out = format!("{program}{number}");
            let line = format!("run {program} {way} --pmu=rusage --require-lossless --out {out} --json");
            let ran = place.good(&line).json();
            let dispatches = ran["dispatches"].as_u64().expect("a number");
            assert_eq!(readings(&ran), (dispatches, 0), "{line}");
            let group = if way.contains("virtual") { "virtual" } else { "rusage" };
            assert_eq!((&ran["counters"]["asked"], &ran["counters"]["group"]), (&"rusage".into(), &group.into()));
            let own = counters(&place, &out);
            assert_eq!((&own["readings"], &own["group_name"]), (&dispatches.into(), &group.into()), "{line}");
            assert_eq!(own["virtual"], group == "virtual", "virtual counts are marked");
            // What is written in the reference's form is read as it was.
            let csv = counters(&place, &format!("{out}/pmu.csv"));
            assert_eq!((&csv["readings"], &csv["group"]), (&own["readings"], &own["group"]), "{line}");
            let sums = |of: &Value| {
                let functions = of["functions"].as_array().expect("functions").iter();
                let mut sums: Vec<Value> = functions
                    .map(|f| Value::from(vec![f["kernel"].clone(), f["count"].clone(), f["counts"].clone()]))
                    .collect();
                sums.sort_by_key(ToString::to_string);
                sums
            };
            assert_eq!(sums(&csv), sums(&own), "{line}");
        }
    }
}

#[test]
fn counters_are_shown_per_call_and_on_the_page() {
    let place = Place::new();
    let ran = place.good("run cholesky --pmu=software --out run --report");
    assert!(ran.out.contains("counters: "), "{}", ran.out);
    let text = place.good("stats run").out;
    assert!(text.contains("per call") && text.contains("task_clock_ns") && text.contains("page_faults"), "{text}");
    let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("the page");
    assert!(page.contains("task_clock_ns"), "the page has the counters of each task");
    place.good("check run");
    let first = &counters(&place, "run")["functions"][0];
    let (count, all) = (first["count"].as_f64().expect("calls"), first["counts"][0].as_f64().expect("a sum"));
    let each = first["counts_per_call"][0].as_f64().expect("a mean");
    assert!((each - all / count).abs() < 1e-6, "{first}");
}

#[track_caller]
fn wrong(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.out, ran.err);
    for part in parts {
        assert!(ran.err.contains(part), "{part:?} is not in: {}", ran.err);
    }
}

#[test]
fn groups_that_are_not_there_are_refused_with_those_that_are() {
    let place = Place::new();
    wrong(
        &place.run("run vector --pmu=l3"),
        &["\"l3\"", "cycles", "cache", "branches", "software", "rusage", "Choose"],
    );
    wrong(&place.run("run vector --pmu=virtual"), &["needs virtual time", "--engine virtual"]);
    wrong(&place.run("run vector --no-record --pmu"), &["--pmu"]);
    place.good("run vector --engine virtual --pmu=virtual --require-lossless --out run");
    assert_eq!(place.manifest("run")["counters"]["note"], Value::Null);
}

/// Whatever the machine has: what is counted is what was asked for, or there is a note that says why not.
#[test]
fn what_the_machine_lacks_is_said_once_and_replaced() {
    let place = Place::new();
    for group in ["", "=cycles", "=cache", "=branches", "=software"] {
        let ran = place.good(&format!("run vector --pmu{group} --out run{}", group.replace('=', "-")));
        let counters = place.manifest(&format!("run{}", group.replace('=', "-")))["counters"].clone();
        match counters["note"].as_str() {
            None => assert_eq!(counters["asked"], counters["group"]),
            Some(note) => assert_eq!(ran.out.matches(note).count(), 1, "{}", ran.out),
        }
    }
    place.good("run vector --enable-pmu --out aliased");
    assert_eq!(place.manifest("aliased")["counters"]["asked"], "cycles");
}
