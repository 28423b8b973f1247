//! A full disk ends a run with an error that says so, and what was written stays readable.
//!
//! A limit on the size of files stands for the full file system: it takes no privilege. The heaps of the rings are
//! files in memory and fall under it too, so they are made small.

use crate::harness::{Place, Ran, balance};
use std::process::Command;

/// Runs a line with files of at most this many KiB.
fn limited(place: &Place, kib: u32, line: &str) -> Ran {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("ulimit -f {kib}; exec {} {line}", env!("CARGO_BIN_EXE_plimsoll"))]);
    Ran::of(shell.current_dir(place.path()).output().expect("a shell"))
}

#[test]
fn a_recording_that_fills_the_disk_says_so_and_is_readable() {
    let place = Place::new();
    let line = "run vector --set n=160000 --set block=4 --ring-heap 1m --profile --region-dir . --json --out full";
    let ran = limited(&place, 12_288, line);
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.out, ran.err);
    let object = ran.json();
    let error = &object["error"];
    assert_eq!((&error["code"], &error["name"]), (&113.into(), &"DiskFull".into()), "{error}");
    let text = error["explanation"].as_str().expect("text");
    for part in
        ["The tasks have run", "cannot write to full/records", "File too large", "choose another directory with --out"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (total, lost) = balance(&object["reconcile"]);
    assert!(lost > 0 && lost < total, "{lost} of {total}");
    assert!(text.contains(&format!("{} of {total} records were written", total - lost)), "{text}");
    let manifest = place.manifest("full");
    assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"failed".into(), &113.into()));
    let check = place.run("check full --json");
    assert_eq!(check.code, Some(1));
    let check = check.json();
    assert_eq!(balance(&check["reconcile"]), (total, lost));
    assert_eq!(check["reconcile"]["files_agree"], true, "{check}");
    let stats = place.good("stats full --json").json();
    assert!(stats["executions"].as_u64() > Some(0), "{stats}");
    place.good("export full");
}

#[test]
fn a_disk_with_no_room_at_all_is_an_error_at_the_start() {
    let place = Place::new();
    let ran = limited(&place, 1024, "run vector --ring-heap 1m --profile --region-dir . --json --out full");
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.out, ran.err);
    let object = ran.json();
    assert_eq!((&object["error"]["code"], &object["tasks"]), (&113.into(), &0.into()), "{object}");
    assert_eq!(place.files(".").into_iter().find(|name| name.ends_with(".region")), None);
}

/// The heaps of the rings are files in memory.
#[test]
fn rings_that_are_too_large_for_a_file_are_told_as_that() {
    let place = Place::new();
    let ran = limited(&place, 2000, "run vector --out full");
    assert_eq!(ran.code, Some(1), "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("DiskFull (113)") && ran.err.contains("--ring-heap"), "{}", ran.err);
    assert!(!ran.err.contains("threads"), "{}", ran.err);
}

#[test]
fn a_directory_that_cannot_be_made_is_told_and_nothing_runs() {
    let place = Place::new();
    std::fs::write(place.path().join("file"), "").expect("written");
    let ran = place.run("run vector --out file/run --json");
    assert_eq!(ran.code, Some(1));
    let object = ran.json();
    assert_eq!((&object["error"]["code"], &object["out"]), (&24.into(), &serde_json::Value::Null), "{object}");
    let text = place.run("run vector --out file/run");
    assert!(text.err.contains("cannot make file/run") && text.err.contains("--out"), "{}", text.err);
    assert!(!text.out.contains("0 tasks in 0 ns"), "{}", text.out);
}

#[test]
fn a_page_that_does_not_fit_leaves_what_was_there() {
    let place = Place::new();
    place.good("run cholesky --profile --out run");
    std::fs::write(place.path().join("run/report.html"), "before").expect("written");
    let ran = limited(&place, 20, "report run");
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("report.html") && ran.err.contains("--output"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(place.path().join("run/report.html")).expect("still there"), "before");
    assert!(place.files("run").iter().all(|name| !name.contains(".next")), "{:?}", place.files("run"));
}
