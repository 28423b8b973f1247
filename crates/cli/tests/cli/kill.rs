//! A run that is killed loses nothing that was published: `recover` gets it out of the region.

use crate::harness::{Place, balance};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Kills: enough to meet the start, the middle and the end of a run.
const KILLS: u64 = 8;

fn start(place: &Place, dir: &str) -> Child {
    let line = format!(
        "run paged-attention --set tokens=16384 --set block=2 --set batch=8 --set dim=8 --swimlane --dep-gen --pmu=rusage --out {dir} --region-dir ."
    );
    let mut command = place.command(line.split_whitespace());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
}

/// Waits until the run has written its first manifest.
fn wait_for_manifest(place: &Place, dir: &str, child: &mut Child) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        if place.path().join(dir).join("run.json").is_file() {
            return true;
        }
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the run did not start within 30 s");
}

#[test]
fn a_killed_run_is_recovered_to_its_last_record() {
    let place = Place::new();
    for kill in 0..KILLS {
        let dir = format!("run{kill}");
        let mut child = start(&place, &dir);
        assert!(wait_for_manifest(&place, &dir, &mut child), "the run ended before it could be killed");
        // The last digits of the clock are as good a die as any.
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
        std::thread::sleep(Duration::from_micros(u64::from(nanos) % 300_000));
        child.kill().expect("killed");
        child.wait().expect("ended");
        if place.manifest(&dir)["status"] != "running" {
            continue;
        }
        recovered(&place, &dir);
    }
}

#[track_caller]
fn recovered(place: &Place, dir: &str) {
    let told = place.run(&format!("stats {dir}"));
    assert_eq!(told.code, Some(0), "{}", told.err);
    assert!(told.err.contains("killed") && told.err.contains(&format!("plimsoll recover {dir}")), "{}", told.err);
    assert!(!told.out.contains("has not ended") && !told.out.contains("running"), "it was killed: {}", told.out);
    assert_eq!(place.run(&format!("check {dir}")).code, Some(1), "records are still in the region");
    let recovered = place.good(&format!("recover {dir} --json")).json();
    assert_eq!(recovered["status"], "killed");
    let (total, lost) = balance(&recovered["reconcile"]);
    assert_eq!(lost, 0);
    let pools = recovered["reconcile"]["pools"].as_array().expect("pools");
    let sum = |kind: &str| -> u64 {
        pools.iter().filter(|pool| pool["kind"] == kind).filter_map(|pool| pool["total"].as_u64()).sum()
    };
    // A reading is recorded right before the times of the same execution: of each worker one may lack the other.
    let (counted, timed) = (sum("counter_reading"), sum("aicore_task"));
    assert!((timed..timed + 64).contains(&counted), "{counted} readings of {timed} executions");
    let again = place.good(&format!("recover {dir} --json")).json();
    assert_eq!(balance(&again["reconcile"]), (total, 0), "a second time changes nothing");
    let check = place.run(&format!("check {dir} --json"));
    assert_eq!(check.code, Some(0), "{}\n{}", check.out, check.err);
    assert_eq!(check.json()["sound"], true);
    assert!(place.good(&format!("explain {dir}")).out.contains("killed"));
    let stats = place.run(&format!("stats {dir} --json"));
    assert_eq!(stats.code, Some(0));
    assert!(!stats.err.contains("recover"), "{}", stats.err);
    let tasks: u64 = stats.json()["tasks"].as_u64().expect("tasks");
    assert!(tasks <= total, "{tasks} tasks of {total} records");
    place.good(&format!("export {dir}"));
    let leftover = place.files(".").into_iter().find(|name| name.ends_with(".region"));
    assert_eq!(leftover, None, "the region is released once its records are out");
}

#[test]
fn a_live_run_is_not_recovered_but_can_be_looked_at() {
    let place = Place::new();
    let mut child = start(&place, "live");
    assert!(wait_for_manifest(&place, "live", &mut child));
    let refused = place.run("recover live");
    let alive = child.try_wait().expect("a child").is_none();
    if alive {
        assert_eq!(refused.code, Some(1), "{}", refused.out);
        assert!(refused.err.contains("is alive") && refused.err.contains("Wait for it to end"), "{}", refused.err);
        let check: Value = place.run("check live --json").json();
        assert!(check["alive"] == true || child.try_wait().expect("a child").is_some(), "{check}");
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
}

/// The newest run is the one that was killed, although an older one ended well.
#[test]
fn recover_without_a_name_takes_the_run_that_was_killed() {
    let place = Place::new();
    place.good("run vector");
    let words = "run paged-attention --set tokens=16384 --set block=2 --set batch=8 --profile";
    let mut command = place.command(words.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let outputs = place.path().join("outputs");
    let begun = Instant::now();
    let dir = loop {
        let newest = std::fs::read_link(outputs.join("latest")).unwrap_or_default();
        let text = newest.to_string_lossy().into_owned();
        if text.starts_with("paged-attention_") && outputs.join(&newest).join("run.json").is_file() {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the run did not start");
        std::thread::sleep(Duration::from_millis(1));
    };
    child.kill().expect("killed");
    child.wait().expect("ended");
    let ran = place.good("recover --json");
    assert!(!ran.err.contains("removed"), "a region on /dev/shm is gone by then: {}", ran.err);
    let recovered = ran.json();
    assert!(recovered["out"].as_str().expect("a directory").ends_with(&dir), "{recovered}");
    balance(&recovered["reconcile"]);
}
