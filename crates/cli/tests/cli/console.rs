//! Where words go: output that cannot be written, names that a terminal would obey.

use crate::harness::{Place, Ran};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::process::Stdio;

#[test]
fn output_that_cannot_be_written_is_said_and_is_no_panic() {
    let place = Place::new();
    place.good("run vector --profile");
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    for line in [
        "list",
        "list --archs",
        "list vector --json",
        "--help",
        "--version",
        "run vector",
        "run vector --json",
        "stats",
        "stats --json",
        "scopes",
        "size",
        "check",
        "explain",
        "explain --code 1",
        "recover",
        "export --json",
    ] {
        let output = place.command(line.split(' ')).stdout(full()).output().expect("it starts");
        let ran = Ran::of(output);
        assert_eq!(ran.code, Some(1), "{line}: {}", ran.err);
        assert!(
            ran.err.contains("Standard output cannot be written") && !ran.err.contains("panic"),
            "{line}: {}",
            ran.err
        );
        let both = place.command(line.split(' ')).stdout(full()).stderr(full()).status().expect("it starts");
        assert_eq!(both.code(), Some(1), "{line}");
    }
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let place = Place::new();
    place.good("run vector");
    for line in ["list", "stats --json", "check"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let child = place.command(line.split(' ')).stdout(writer).stderr(Stdio::piped()).spawn();
        drop(reader);
        let ran = Ran::of(child.expect("it starts").wait_with_output().expect("it ends"));
        assert!(ran.code != Some(101) && ran.err.is_empty(), "{line}: {:?} {}", ran.code, ran.err);
    }
}

#[test]
fn names_are_shown_not_obeyed_and_whole_in_json() {
    let place = Place::new();
    let long = "k".repeat(10_000);
    let hostile = "\u{1b}[2Jgone\u{9b}\u{202e}";
    let records = json!({
        "chip_swimlane_level": 1,
        "metadata": { "clock_freq_hz": 50_000_000, "core_types": ["aic"] },
        "aicore_tasks": [[0, 0, 1, 10, 20, 0], [0, 1, 2, 30, 50, 0]],
    });
    let task = |id: u64, kernel: u64| json!({ "task_id": id.to_string(), "kernel_ids": [kernel, -1, -1], "args": [] });
    let deps = json!({ "tasks": [task(0, 0), task(1, 1)], "tensors": [], "edges": [] });
    let names = json!({ "callable_id_to_name": { "0": long, "1": hostile } });
    for (file, value) in [("chip_swimlane_records.json", &records), ("deps.json", &deps), ("name_map.json", &names)] {
        std::fs::write(place.path().join(file), value.to_string()).expect("written");
    }
    let text = place.good("stats .").out;
    assert!(text.lines().all(|line| line.chars().count() < 200), "a long name pads the rows");
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']) && text.contains("\\u001b[2Jgone"), "{text}");
    let object = place.good("stats . --json").json();
    let told: Vec<&Value> = object["functions"].as_array().expect("functions").iter().map(|f| &f["name"]).collect();
    assert!(told.contains(&&json!(long)) && told.contains(&&json!(hostile)), "whole");
}
