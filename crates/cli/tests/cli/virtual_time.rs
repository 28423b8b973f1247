//! Virtual time as the command shows it: every output says so, a seed is a run byte by byte, and every number of an arch
//! and every form of cost does what it says.

use crate::harness::{Place, balance};
use serde_json::Value;

const FULL: [(&str, u64, f64); 2] = [("a2a3", 72, 50e6), ("a5", 108, 1e9)];

fn bytes(place: &Place, file: &str) -> Vec<u8> {
    std::fs::read(place.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn full_size_chips_run_attention_and_a_decoder_layer_with_everything_recorded() {
    let place = Place::new();
    for (arch, cores, hz) in FULL {
        for program in ["paged-attention", "decode-layer"] {
            let dir = format!("{arch}-{program}");
            let object = place
                .good(&format!("run {program} --engine virtual --arch {arch} --profile --json --out {dir}"))
                .json();
            let said = (&object["engine"], &object["arch"], &object["virtual"], &object["verified"]);
            assert_eq!(said, (&"virtual".into(), &arch.into(), &true.into(), &true.into()));
            assert_eq!(balance(&object["reconcile"]).1, 0, "{dir}");
            let manifest = place.manifest(&dir);
            assert_eq!(manifest["topology"]["cores"].as_array().map(|all| all.len() as u64), Some(cores));
            assert_eq!((&manifest["level"], &manifest["clock"]["source"]), (&4.into(), &"virtual".into()));
            assert_eq!(manifest["clock"]["hz"].as_f64(), Some(hz), "times are in the chip's own clock");
            let swimlane: Value =
                serde_json::from_slice(&bytes(&place, &format!("{dir}/chip_swimlane_records.json"))).expect("JSON");
            assert_eq!(swimlane["metadata"]["clock_freq_hz"].as_f64(), Some(hz));
            let rows = swimlane["aicore_tasks"].as_array().expect("rows");
            assert_eq!(rows.len() as u64, object["tasks"].as_u64().expect("tasks"));
            let first = rows.iter().filter_map(|row| row[3].as_u64()).min().expect("a start");
            let last = rows.iter().filter_map(|row| row[4].as_u64()).max().expect("an end");
            let makespan = object["makespan_ns"].as_f64().expect("a makespan");
            assert_eq!((last - first) as f64 / hz * 1e9, makespan, "from the first start to the last end");
            assert!(object["elapsed_ns"].as_f64().expect("a time") > makespan, "submits come before the first kernel");
            let deps: Value = serde_json::from_slice(&bytes(&place, &format!("{dir}/deps.json"))).expect("JSON");
            assert_eq!(deps["tasks"].as_array().map(Vec::len), Some(rows.len()));
        }
    }
}

#[test]
fn every_output_says_virtual_and_none_does_on_the_host() {
    let place = Place::new();
    for (arch, is_virtual) in [("a2a3", true), ("host", false)] {
        let engine = if is_virtual { "--engine virtual" } else { "" };
        let ran = place.good(&format!("run vector {engine} --arch {arch} --profile --out {arch}"));
        assert_eq!(ran.out.contains(&format!("virtual time on {arch}")), is_virtual, "{}", ran.out);
        assert_eq!(place.manifest(arch)["virtual"], is_virtual);
        for command in ["stats", "scopes", "check", "size", "explain", "export", "export --format chrome"] {
            let text = place.good(&format!("{command} {arch}")).out.to_lowercase();
            assert_eq!(text.contains("virtual"), is_virtual, "{command}: {text}");
            let object = place.good(&format!("{command} {arch} --json")).json();
            assert_eq!(object["virtual"], is_virtual, "{command}: {object}");
        }
        for file in ["trace.pftrace", "trace.json", "chip_swimlane_records.json", "run.json"] {
            let text = String::from_utf8_lossy(&bytes(&place, &format!("{arch}/{file}"))).into_owned();
            let word = if file == "run.json" { "\"virtual\": true" } else { "virtual" };
            assert_eq!(text.contains(word), is_virtual, "{file} of {arch}");
        }
    }
    // The reference's form alone carries it too.
    let copied = place.path().join("alone.json");
    std::fs::copy(place.path().join("a2a3/chip_swimlane_records.json"), copied).expect("copied");
    assert_eq!(place.good("stats alone.json --json").json()["virtual"], true);
    let failed = place.run("run fault-kernel-error --engine virtual --arch a2a3 --out failed");
    assert!(failed.code == Some(1) && failed.out.contains("virtual time on a2a3"), "{}", failed.out);
    assert_eq!(place.run("run fault-kernel-error --engine virtual --arch a2a3 --json").json()["virtual"], true);
    let bench = place.good("bench virtual --tasks 3000 --reps 1 --json").json();
    assert_eq!((&bench["virtual"], &bench["tasks"], &bench["level"]), (&true.into(), &3000.into(), &4.into()));
    assert!(bench["tasks_per_s"].as_f64() > Some(0.0) && bench["lossless"] == true, "{bench}");
}

#[test]
fn a_seed_is_a_run_byte_by_byte() {
    let place = Place::new();
    let run = |line: &str, seed: u64, dir: &str| {
        place.good(&format!("run {line} --engine virtual --seed {seed} --profile --out {dir}"));
        ["records/records.seg", "deps.json"].map(|file| bytes(&place, &format!("{dir}/{file}")))
    };
    for (at, line) in
        ["vector --arch a2a3", "decode-layer --arch a5", "cholesky", "vector --arch a2a3 --prebuilt --rounds 2"]
            .into_iter()
            .enumerate()
    {
        let [records, deps] = run(line, 7, &format!("{at}-first"));
        assert!(records == run(line, 7, &format!("{at}-second"))[0], "{line}: records differ");
        assert!(deps == bytes(&place, &format!("{at}-second/deps.json")), "{line}: dependencies differ");
        let other = (8..16).map(|seed| run(line, seed, &format!("{at}-{seed}"))).collect::<Vec<_>>();
        assert!(other.iter().any(|[other, _]| *other != records), "{line}: seeds make no difference");
        assert!(
            other.iter().all(|[_, other]| *other == deps),
            "{line}: dependencies are the program's, not the seed's"
        );
    }
}

/// Execution times of a kernel in nanoseconds: the least, the mean and the most.
fn exec(place: &Place, dir: &str, kernel: &str) -> [f64; 3] {
    let stats = place.good(&format!("stats {dir} --json")).json();
    let functions = stats["functions"].as_array().expect("functions");
    let own = functions.iter().find(|f| f["name"] == kernel).unwrap_or_else(|| panic!("{kernel} in {functions:?}"));
    ["exec_min_ns", "exec_avg_ns", "exec_max_ns"].map(|field| own[field].as_f64().expect("a time"))
}

#[test]
fn costs_are_constant_per_element_or_drawn_and_come_from_a_file() {
    let place = Place::new();
    let table = r#"{ "format": "plimsoll-costs", "schema": 1,
        "kernels": { "add": 15000, "subtract": { "ns": 200, "per_element_ps": 50000 },
                     "multiply": { "uniform_ns": [900, 1400] }, "nobody": 1 },
        "default": { "normal_ns": [10000, 200] }, "scheduler": { "submit_ns": 0 } }"#;
    std::fs::write(place.path().join("costs.json"), table).expect("written");
    let ran = place.good(
        "run vector --engine virtual --arch a5 --costs costs.json --set n=16384 --set block=64 --out costs --json",
    );
    assert!(ran.err.contains("names kernel \"nobody\""), "{}", ran.err);
    assert_eq!(ran.json()["verified"], true);
    assert_eq!(exec(&place, "costs", "add"), [15_000.0; 3]);
    // Three vectors of 64 elements.
    assert_eq!(exec(&place, "costs", "subtract"), [200.0 + 3.0 * 64.0 * 50.0; 3]);
    let [least, mean, most] = exec(&place, "costs", "multiply");
    assert!((900.0..950.0).contains(&least) && (1350.0..=1400.0).contains(&most), "{least} to {most}");
    assert!((1100.0..1200.0).contains(&mean), "{mean}");
    let [least, mean, most] = exec(&place, "costs", "scale");
    assert!(least < 9900.0 && most > 10_100.0 && (9900.0..10_100.0).contains(&mean), "{least}, {mean}, {most}");
    let wrong = place.run("run vector --engine virtual --arch a5 --costs absent.json");
    assert!(wrong.code == Some(2) && wrong.err.contains("absent.json cannot be read"), "{}", wrong.err);
    std::fs::write(place.path().join("bad.json"), r#"{"kernels": {"add": -1}}"#).expect("written");
    let wrong = place.run("run vector --engine virtual --arch a5 --costs bad.json");
    assert!(wrong.code == Some(2) && wrong.err.contains("kernels.add is -1"), "{}", wrong.err);
}

#[test]
fn every_number_of_an_arch_can_be_changed_and_shows() {
    let place = Place::new();
    let archs = place.good("list --archs --json").json();
    let a2a3 = archs["archs"].as_array().and_then(|all| all.iter().find(|arch| arch["name"] == "a2a3")).expect("a2a3");
    let listed = place.good("list --archs").out;
    let facts = |changes: &str, dir: &str| {
        place.good(&format!("run matmul --engine virtual --arch a2a3 {changes} --swimlane=4 --out {dir}"));
        let manifest = place.manifest(dir);
        ["topology", "clock", "elapsed_ns"].map(|part| manifest[part].clone())
    };
    let usual = facts("", "usual");
    let mut numbers = 0;
    for (key, value) in a2a3.as_object().expect("numbers") {
        let (Some(value), false) = (value.as_u64(), key == "cores") else { continue };
        numbers += 1;
        assert!(listed.contains(key), "{key} is not in {listed}");
        // What the collector takes shows only when somebody waits for it.
        if key != "collect_ns" {
            let changed = facts(&format!("--arch-set {key}={}", 2 * value), key);
            assert_ne!(changed, usual, "{key} changes nothing");
        }
    }
    assert_eq!(numbers, 13, "{a2a3}");
    // Each of the numbers is one that it may be.
    let most = "--engine virtual --arch-set counter_hz=1000000000000 --arch-set submit_ns=3600000000000";
    let ran = place.run(&format!("run vector --set block=64 {most}"));
    assert!(ran.code == Some(1) && ran.err.contains("more than the 213 days"), "{}", ran.err);
    for (line, parts) in [
        ("--arch-set cores=3", ["no number \"cores\"", "It has clusters"]),
        ("--arch-set clusters", ["key=value", "clusters=8"]),
        ("--arch-set clusters=many", ["cannot be \"many\"", "whole number"]),
        ("--clusters 0", ["no cores", "at least one cluster"]),
    ] {
        let ran = place.run(&format!("run matmul --arch a2a3 {line}"));
        assert!(ran.code == Some(2) && parts.iter().all(|part| ran.err.contains(part)), "{line}: {}", ran.err);
    }
    for flag in [
        "--seed 3",
        "--costs x",
        "--seed 3 --arch a2a3",
        "--costs x --engine emulated",
        "--arch a5 --arch-set counter_hz=7",
        "--arch a5 --arch-set submit_ns=7 --isolate",
    ] {
        let ran = place.run(&format!("run matmul {flag}"));
        assert!(ran.code == Some(2) && ran.err.contains("needs virtual time"), "{flag}: {}", ran.err);
    }
    for flag in ["--clusters 3", "--sched-threads 2", "--arch-set clusters=3", "--orch-to-sched"] {
        let ran = place.run(&format!("run matmul {flag}"));
        assert!(ran.code == Some(2) && ran.err.contains("needs a chip"), "{flag}: {}", ran.err);
    }
    let error = &place.run("run matmul --arch a2a3 --arch-set aic_per_cluster=0 --json").json()["error"];
    assert_eq!(error["code"], 5);
    assert!(error["explanation"].as_str().is_some_and(|text| text.contains("wants a core of class aic")), "{error}");
}

#[test]
fn fault_programs_end_with_their_codes_and_whole_captures() {
    let place = Place::new();
    // A nap takes what the table says, not what it sleeps.
    let naps = [("fault-wait", 8), ("fault-deadline", 23)];
    let others = [
        ("fault-scope-deadlock", 1),
        ("fault-heap", 2),
        ("fault-flow-control", 3),
        ("fault-dep-pool", 4),
        ("fault-args", 5),
        ("fault-fatal", 9),
        ("fault-tensormap", 11),
        ("fault-kernel-error", 20),
        ("fault-panic", 21),
    ];
    std::fs::write(place.path().join("naps.json"), r#"{"kernels": {"nap": 5000000}}"#).expect("written");
    for (program, code) in naps.into_iter().chain(others) {
        let knobs = if code == 8 || code == 23 { "--set nap-ms=0 --costs naps.json" } else { "" };
        for arch in ["host", "a2a3"] {
            let dir = format!("{program}-{arch}");
            let line = format!("run {program} {knobs} --engine virtual --arch {arch} --profile --json --out {dir}");
            let ran = place.run(&line);
            let object = ran.json();
            assert_eq!((ran.code, &object["error"]["code"]), (Some(1), &code.into()), "{line}: {object}");
            assert_eq!(balance(&object["reconcile"]).1, 0, "{line}");
            assert_eq!(place.manifest(&dir)["error"]["code"], code);
            place.good(&format!("check {dir}"));
        }
    }
}
