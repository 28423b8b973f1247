//! The engine `emulated` from the command line: a chip made of threads, recorded to the last record, and called what it is.

use crate::harness::{Place, balance};

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
        place.good(&format!("run vector --set n=1024 --set block=64 {line} --dump-args=2 --out dumped"));
        for command in [
            "stats run",
            "scopes run",
            "check run",
            "size run",
            "explain run",
            "critical-path run",
            "sched run",
            "deps run",
            "args dumped",
            "diff run run",
            "recover run",
        ] {
            let text = place.good(command).out;
            assert!(text.contains("emulated"), "{command} of {line}: {text}");
            assert_eq!(place.good(&format!("{command} --json")).json()["emulated"], true, "{command} of {line}");
        }
        let text = std::fs::read_to_string(place.path().join("run/chip_swimlane_records.json")).expect("records");
        // The reference's form alone carries it too.
        std::fs::write(place.path().join("alone.json"), &text).expect("written");
        assert!(place.good("stats alone.json").out.contains("emulated"), "{line}");
        assert_eq!(place.good("stats alone.json --json").json()["emulated"], true, "{line}");
        let records: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let phases = records["aicpu_scheduler_phases"].as_array().into_iter().flatten();
        let begins: Vec<u64> = phases
            .flat_map(|of| of.as_array().into_iter().flatten())
            .filter_map(|p| p["start_cycles"].as_u64())
            .collect();
        assert!(
            !begins.is_empty() && begins.iter().all(|begin| *begin > 0),
            "{line}: the clock has run before any phase"
        );
        for dir in ["run", "dumped"] {
            std::fs::remove_dir_all(place.path().join(dir)).expect("removed");
        }
    }
}

/// Each file by itself, too: it may be taken out of its directory. What is read from it is what the run says.
#[test]
fn every_file_says_of_itself_what_the_machine_was() {
    let place = Place::new();
    for (dir, machine, mark) in [
        ("chip", "--arch a5 --clusters 2 --sched-threads 1", Some(("emulated", "a5"))),
        ("model", "--engine virtual --arch a2a3", Some(("virtual", "a2a3"))),
        ("host", "--workers 2", None),
    ] {
        let group = if dir == "model" { "virtual" } else { "software" };
        place.good(&format!("run vector {machine} --profile --dump-args=2 --pmu={group} --out {dir}"));
        place.good(&format!("export {dir} --format parquet"));
        let read = |file: &str| std::fs::read(place.path().join(dir).join(file)).expect("a file");
        for file in [
            "chip_swimlane_records.json",
            "deps.json",
            "name_map.json",
            "scope_stats/scope_stats.jsonl",
            "args_dump/args_dump.json",
        ] {
            let text = String::from_utf8(read(file)).expect("text");
            let first = if file.ends_with("jsonl") { text.lines().next().expect("a line") } else { &text };
            let json: serde_json::Value = serde_json::from_str(first).expect("JSON");
            let says = if file.starts_with("chip") { &json["metadata"] } else { &json };
            for what in ["emulated", "virtual"] {
                assert_eq!(says[what] == true, mark.is_some_and(|(mark, _)| mark == what), "{file} of {dir}");
            }
            assert_eq!(says["arch"].as_str(), mark.map(|(_, arch)| arch), "{file} of {dir}");
        }
        let csv = String::from_utf8(read("pmu.csv")).expect("text");
        let mut lines = csv.lines();
        let cell = mark.map(|(what, arch)| format!(",{what} {arch}"));
        assert_eq!(lines.next().expect("a header").ends_with(",event_type,machine"), cell.is_some(), "{dir}");
        assert!(lines.clone().count() > 0 && lines.all(|line| cell.as_ref().is_none_or(|cell| line.ends_with(cell))));
        for table in ["tasks", "executions", "phases", "scopes", "edges", "counters", "runs"] {
            let bytes = read(&format!("parquet/{table}.parquet"));
            let tail = String::from_utf8_lossy(&bytes).into_owned();
            let said = mark.is_none_or(|(what, arch)| tail.contains(&format!("{what} {arch}")));
            assert!(said && tail.contains("machine") == mark.is_some(), "{table} of {dir}");
        }
        // Read alone, without a warning, and unchanged.
        for (command, file) in
            [("stats", "pmu.csv"), ("deps", "deps.json"), ("scopes", "scope_stats/scope_stats.jsonl")]
        {
            let name = file.rsplit('/').next().expect("a name");
            let alone = place.path().join(format!("alone-{dir}-{command}"));
            std::fs::create_dir(&alone).expect("made");
            std::fs::copy(place.path().join(dir).join(file), alone.join(name)).expect("copied");
            let ran = place.good(&format!("{command} {} --json", alone.join(name).display()));
            let object = ran.json();
            let is = |what: &str| mark.is_some_and(|(mark, _)| mark == what);
            assert_eq!(
                (&object["emulated"], &object["virtual"]),
                (&is("emulated").into(), &is("virtual").into()),
                "{command}"
            );
            assert_eq!(ran.err, "", "{command} of {dir}");
        }
    }
}

/// Every program on every arch, in this process and in one of its own, with every collector on: the result is right, no record is
/// lost or has a wrong stamp, and tasks and dependencies are those of the host engine.
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
        // Ids of tensors are made of addresses; what tasks say besides is the same everywhere.
        let mut tasks = deps["tasks"].clone();
        for task in tasks.as_array_mut().expect("tasks") {
            // One of its tasks has as many blocks as can start together.
            if name == "spmd" {
                task.as_object_mut().expect("a task").remove("block_num");
            }
            // Of a chip, a kernel that any core runs is in the matrix core's slot, too.
            if task.as_object_mut().expect("a task").remove("core_class") == Some("any".into()) {
                let ids = task["kernel_ids"].as_array_mut().expect("kernels");
                assert_eq!(std::mem::replace(&mut ids[0], (-1).into()), ids[1], "one kernel");
            }
            for arg in task["args"].as_array_mut().expect("arguments") {
                arg.as_object_mut().expect("an argument").remove("tensor_id");
            }
        }
        std::fs::remove_dir_all(place.path().join("run")).expect("removed");
        (edges, tasks)
    };
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        let host = run(program.name, "");
        for arch in ["--engine emulated --workers 3", "--arch a2a3 --clusters 3", "--arch a5 --clusters 3"] {
            // One scheduler, so that it has clusters to hand over.
            let joins =
                if arch.contains("clusters") { " --sched-threads 1 --orch-to-sched" } else { " --orch-to-sched" };
            for how in ["", " --isolate", joins, &format!("{joins} --isolate")] {
                let line = format!("{arch}{how}");
                let (edges, tasks) = run(program.name, &line);
                assert!(edges == host.0, "edges of {} {line}", program.name);
                assert!(tasks == host.1, "tasks of {} {line}", program.name);
            }
        }
    }
}

/// Flags that would say nothing to the device are refused, not ignored.
#[test]
fn numbers_that_make_no_device_are_refused_in_words() {
    let place = Place::new();
    for (line, words) in [
        ("--engine emulated --clusters 3", "has 3 clusters and 0 scheduler threads, but no cores"),
        ("--engine virtual --clusters 3", "has 3 clusters and 0 scheduler threads, but no cores"),
        ("--engine emulated --sched-threads 2 --workers 4", "has 0 clusters and 2 scheduler threads, but no cores"),
        ("--arch a2a3 --clusters 0", "has 0 clusters and 3 scheduler threads, but no cores"),
        ("--arch a2a3 --workers 3", "72 cores, not workers"),
        ("--engine emulated --seed 3", "--seed needs virtual time"),
        ("--arch a5 --costs {}", "--costs needs virtual time"),
    ] {
        let ran = place.run(&format!("run vector {line} --no-record"));
        assert!(ran.code == Some(2) && ran.err.contains(words), "{line}: {}", ran.err);
    }
    // With cores, arch host is a chip like any other.
    let chip = "--arch-set clusters=2 --arch-set aiv_per_cluster=2 --arch-set sched_threads=1";
    let ran = place.good(&format!("run vector --engine emulated {chip} --no-record --json")).json();
    assert_eq!((&ran["verified"], &ran["emulated"]), (&true.into(), &true.into()), "{ran}");
}

#[test]
fn errors_are_those_of_the_host_engine() {
    let place = Place::new();
    for (program, code) in [
        ("fault-scope-deadlock", 1),
        ("fault-heap", 2),
        ("fault-flow-control", 3),
        ("fault-dep-pool", 4),
        ("fault-args", 5),
        ("fault-sync-start", 7),
        ("fault-wait", 8),
        ("fault-fatal", 9),
        ("fault-tensormap", 11),
        ("fault-kernel-error", 20),
        ("fault-panic", 21),
        ("fault-panic --set how=3", 25),
        ("fault-deadline --set cancel-at=3", 22),
        ("fault-deadline", 23),
        ("fault-deadline --set interrupt-at=3", 114),
    ] {
        let error = |line: &str| place.run(&format!("run {program} {line} --no-record --json")).json()["error"].clone();
        let host = error("--workers 2");
        assert_eq!(host["code"], code, "{program}: {host}");
        for line in ["--engine emulated --workers 2", "--arch a2a3"] {
            let chip = error(line);
            for key in ["code", "needed", "needed_is_bound", "resource", "ring", "kernel", "site", "capacity"] {
                assert_eq!(chip[key], host[key], "{key} of {program} {line}: {chip}");
            }
        }
    }
}

/// People call a core of a chip a core of its class, and one of arch host a worker.
#[test]
fn an_error_says_on_what_kind_of_core_it_happened() {
    let place = Place::new();
    for (line, words) in [
        ("--workers 2", "It ran on worker "),
        ("--engine emulated --workers 2", "It ran on worker "),
        ("--arch a2a3", "core "),
        ("--arch a2a3 --engine virtual", "core "),
        ("--arch a5 --clusters 1 --sched-threads 1 --isolate", "core "),
    ] {
        let error = place.run(&format!("run fault-kernel-error {line} --no-record --json")).json()["error"].clone();
        let text = error["explanation"].as_str().expect("words");
        let is_core = text.contains("It ran on aic core ") || text.contains("It ran on aiv core ");
        assert!(text.contains(words) && is_core == (words == "core "), "{line}: {text}");
    }
}
