//! The engine `emulated` from the command line: a chip made of threads, recorded to the last record, and called what it is.

mod harness;

use harness::{Place, balance};

#[test]
fn every_output_says_emulated_and_nothing_is_lost() {
    let place = Place::new();
    for (line, cores) in
        [("--arch a2a3", 72), ("--arch a5 --clusters 2 --sched-threads 1", 6), ("--engine emulated --workers 3", 3)]
    {
        let ran = place.good(&format!("run cholesky {line} --profile --rounds 2 --out run --json")).json();
        assert_eq!((&ran["verified"], &ran["emulated"]), (&true.into(), &true.into()), "{line}: {ran}");
        assert_eq!(ran["tasks"], ran["dispatches"], "{line}: {ran}");
        let manifest = place.manifest("run");
        assert_eq!((&manifest["engine"], &manifest["emulated"]), (&"emulated".into(), &true.into()), "{line}");
        assert_eq!(manifest["topology"]["cores"].as_array().map(Vec::len), Some(cores), "{line}");
        for command in ["stats", "scopes", "check", "size", "explain"] {
            let text = place.good(&format!("{command} run")).out;
            assert!(text.contains("emulated"), "{command} of {line}: {text}");
            assert_eq!(place.good(&format!("{command} run --json")).json()["emulated"], true, "{command} of {line}");
        }
        std::fs::remove_dir_all(place.path().join("run")).expect("removed");
    }
}

/// Every program on every arch, in this process and in one of its own, with every collector on: the result is right, no record is
/// lost or has a wrong stamp, and the dependencies are those of the host engine.
#[test]
fn every_program_is_right_and_whole_on_every_arch() {
    let place = Place::new();
    let run = |name: &str, line: &str| {
        let collectors = "--profile --pmu=software --dump-args=3 --require-lossless";
        let ran = place.good(&format!("run {name} {line} {collectors} --out run --json")).json();
        assert_eq!((&ran["verified"], balance(&ran["reconcile"]).1), (&true.into(), 0), "{name} {line}");
        let text = std::fs::read_to_string(place.path().join("run/deps.json")).expect("dependencies");
        let deps: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let edge = |edge: &serde_json::Value| (edge["pred"].to_string(), edge["succ"].to_string(), edge["arg"].clone());
        let edges = deps["edges"].as_array().expect("edges").iter().map(edge).collect::<Vec<_>>();
        std::fs::remove_dir_all(place.path().join("run")).expect("removed");
        edges
    };
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        let host = run(program.name, "");
        for arch in ["--engine emulated --workers 3", "--arch a2a3 --clusters 3", "--arch a5 --clusters 3"] {
            for isolate in ["", " --isolate"] {
                let line = format!("{arch}{isolate}");
                assert_eq!(run(program.name, &line), host, "{} {line}", program.name);
            }
        }
    }
}

#[test]
fn errors_are_those_of_the_host_engine() {
    let place = Place::new();
    for (program, code) in
        [("fault-scope-deadlock", 1), ("fault-heap", 2), ("fault-kernel-error", 20), ("fault-panic", 21)]
    {
        let host = place.run(&format!("run {program} --json")).json()["error"].clone();
        let chip = place.run(&format!("run {program} --arch a2a3 --json")).json()["error"].clone();
        assert_eq!(chip["code"], code, "{program}: {chip}");
        assert_eq!((&chip["code"], &chip["needed"]), (&host["code"], &host["needed"]), "{program}");
    }
}
