//! The commands that read: on our runs, on the reference's files, and on what is neither.

use crate::harness::{Place, samples};
use serde_json::Value;

#[test]
fn a_run_is_read_by_every_command() {
    let place = Place::new();
    place.good("run decode-layer --profile");
    let stats = place.good("stats --json").json();
    let count = |rows: &Value, field: &str| -> u64 {
        rows.as_array().expect("rows").iter().map(|row| row[field].as_u64().expect("a count")).sum()
    };
    let tasks = stats["tasks"].as_u64().expect("tasks");
    assert!(tasks > 100 && count(&stats["functions"], "count") == tasks, "{stats}");
    assert_eq!(count(&stats["cores"], "tasks"), tasks);
    for row in stats["functions"].as_array().expect("functions") {
        for field in ["exec_p50_ns", "exec_p99_ns", "latency_avg_ns", "head_avg_ns", "tail_avg_ns", "exec_share"] {
            assert!(row[field].is_number(), "{field}: {row}");
        }
    }
    let scopes = place.good("scopes --json").json();
    assert!(scopes["exhausted"].is_null() && !scopes["scopes"].as_array().expect("scopes").is_empty());
    for (line, word) in
        [("stats", "function"), ("scopes", "fullest"), ("check", "Nothing is missing"), ("explain", "ended well")]
    {
        let ran = place.good(line);
        assert!(ran.out.contains(word) && ran.err.is_empty(), "{line}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn a_run_is_exported_in_three_formats() {
    let place = Place::new();
    place.good("run vector --profile --out run");
    let formats = [("perfetto", "a.pftrace"), ("chrome", "a.json"), ("simpler", "dir")];
    for (format, output) in formats {
        for flows in ["all", "none"] {
            let ran = place.good(&format!("export run --format {format} --flows {flows} --output {output} --json"));
            let files = ran.json()["files"].as_array().expect("files").clone();
            assert!(!files.is_empty());
            for file in files {
                let file = place.path().join(file.as_str().expect("a name"));
                assert!(file.metadata().expect("written").len() > 0, "{file:?}");
            }
        }
    }
    let chrome = std::fs::read_to_string(place.path().join("a.json")).expect("text");
    let chrome: Value = serde_json::from_str(&chrome).expect("JSON");
    assert!(chrome["traceEvents"].as_array().expect("events").len() > 100);
    assert!(place.files("dir").contains(&"chip_swimlane_records.json".to_owned()));
    let again = place.good("stats dir --json").json();
    let ours = place.good("stats run --json").json();
    assert_eq!(again["executions"], ours["executions"], "the reference's form holds the same");
}

/// Tasks that run while their submit ends, and kernels that cores of both types run, contradict nothing.
#[test]
fn an_export_of_a_sound_run_passes_the_check() {
    let place = Place::new();
    for (program, options) in [("cholesky", "--workers 2"), ("spmd", "--arch a2a3 --engine virtual --seed 3")] {
        place.good(&format!("run {program} {options} --profile --out {program}"));
        for format in ["simpler", "simpler-newest"] {
            place.good(&format!("export {program} --format {format} --output {program}-{format}"));
            let checked = place.good(&format!("check {program}-{format}"));
            assert!(checked.out.contains("Nothing contradicts itself"), "{program}: {}{}", checked.out, checked.err);
        }
        place.good(&format!("check {program}/chip_swimlane_records.json"));
    }
    let deps = std::fs::read_to_string(place.path().join("spmd-simpler/deps.json")).expect("text");
    let deps: Value = serde_json::from_str(&deps).expect("JSON");
    let any = |task: &&Value| task["core_class"] == "any";
    let tasks = deps["tasks"].as_array().expect("tasks");
    assert!(tasks.iter().any(|task| any(&task)) && !tasks.iter().all(|task| any(&task)));
    for ids in tasks.iter().filter(any).map(|task| &task["kernel_ids"]) {
        assert!(ids[0].as_i64() >= Some(0) && ids[0] == ids[1] && ids[2] == -1, "{ids}");
    }
}

#[test]
fn what_is_no_run_is_refused_in_words() {
    let place = Place::new();
    for line in ["stats", "scopes", "check", "recover", "explain", "export"] {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(1), "{line}: {}", ran.out);
        assert!(ran.err.contains("outputs") && ran.err.contains("plimsoll run"), "{line}: {}", ran.err);
        let ran = place.run(&format!("{line} absent"));
        assert_eq!(ran.code, Some(1), "{line}: {}", ran.out);
        assert!(ran.err.contains("absent"), "{line}: {}", ran.err);
        assert_eq!(ran.err.matches("os error 2").count(), 1, "said once: {}", ran.err);
    }
}

#[test]
fn every_code_is_explained_with_a_program_that_shows_it() {
    let place = Place::new();
    for code in [1, 2, 3, 4, 5, 8, 9, 10, 11, 20, 21, 22, 23, 24] {
        let object = place.good(&format!("explain --code {code} --json")).json();
        assert_eq!(object["code"], code);
        assert!(object["name"].is_string() && object["explanation"].is_string() && object["try"].is_string());
    }
}

#[test]
fn the_references_files_are_read() {
    let Some(samples) = samples() else { return };
    let place = Place::new();
    let mut read = 0;
    for entry in std::fs::read_dir(samples).expect("listed") {
        let example = entry.expect("an entry").path();
        for level in ["swimlane_l1", "swimlane_l2", "swimlane_l3", "swimlane_l4", "all"] {
            let dir = example.join(level);
            if !dir.is_dir() {
                continue;
            }
            let path = dir.display();
            let stats = place.good(&format!("stats {path} --json")).json();
            assert!(stats["executions"].as_u64() > Some(0), "{path}: {stats}");
            place.good(&format!("export {path} --output {level}.pftrace"));
            place.good(&format!("export {path} --format chrome --output {level}.json"));
            place.run(&format!("check {path} --json")).json();
            read += 1;
        }
        let scopes = example.join("scope_stats");
        if scopes.is_dir() {
            let table = place.good(&format!("scopes {} --json", scopes.display())).json();
            assert!(!table["scopes"].as_array().expect("scopes").is_empty(), "{table}");
        }
    }
    assert!(read > 0);
}

/// Every file of a directory with its bytes, those below it too.
fn contents(dir: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("listed").flatten() {
        match entry.path() {
            path if path.is_dir() => all.extend(contents(&path)),
            path => drop(all.insert(path.clone(), std::fs::read(&path).expect("readable"))),
        }
    }
    all
}

#[test]
fn an_export_never_replaces_what_it_was_read_from() {
    let place = Place::new();
    place.good("run vector --profile --out run");
    place.good("export run --format simpler --output originals");
    let originals = contents(&place.path().join("originals"));
    assert!(originals.len() > 3, "{:?}", originals.keys());
    let are_there = |what: &str| {
        let now = contents(&place.path().join("originals"));
        assert!(originals.iter().all(|(file, bytes)| now.get(file) == Some(bytes)), "{what}: {:?}", now.keys());
    };
    for line in ["originals", "originals/deps.json", "originals/chip_swimlane_records.json"] {
        for form in ["simpler", "simpler-newest", "simpler --scopes-first-form"] {
            let written = place.good(&format!("export {line} --format {form} --json")).json();
            let files = written["files"].as_array().expect("files");
            assert!(files.iter().all(|file| file.as_str().is_some_and(|file| file.contains("simpler/"))), "{files:?}");
            are_there(line);
        }
    }
    let records = "originals/chip_swimlane_records.json";
    for line in [
        "export originals --format simpler --output originals",
        "export originals --format simpler-newest -o run/../originals",
        &format!("export {records} --format chrome --output {records}"),
        &format!("export {records} --output {records}"),
        "export run --deps originals/deps.json --format simpler --output originals",
    ] {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(1), "{line}: {}", ran.err);
        assert!(ran.err.contains("Cannot write over") && ran.err.contains("another place"), "{}", ran.err);
        are_there(line);
    }
}
