//! Ctrl-C and SIGTERM: the first ends the run and keeps its records, the second ends the command.

use crate::harness::{Place, balance};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A chain of tasks that take `nap_ms` each; long enough that it never ends by itself here.
fn start(place: &Place, dir: &str, engine: &str, nap_ms: u32) -> Child {
    let line = format!(
        "run fault-deadline --set tasks=10000 --set deadline-ms=0 --set nap-ms={nap_ms} --swimlane --json {engine} --out {dir} --region-dir ."
    );
    let mut command = place.command(line.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    wait_until(&mut child, || place.path().join(dir).join("run.json").is_file());
    child
}

fn wait_until(child: &mut Child, there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it takes too long");
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Reads what the command says until it has said it is ending the run.
fn hears(child: &mut Child) {
    let mut text = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    let mut byte = [0];
    while !text.contains("ends the command at once") {
        assert_eq!(stderr.read(&mut byte).expect("readable"), 1, "it said only: {text}");
        text.push(byte[0] as char);
    }
}

#[test]
fn one_signal_ends_the_run_and_keeps_its_records() {
    let place = Place::new();
    for (at, (signal, exit)) in [("-INT", 130), ("-TERM", 143)].into_iter().enumerate() {
        for (by, engine) in ["--workers 2", "--engine virtual --workers 2"].into_iter().enumerate() {
            let dir = format!("run{at}{by}");
            let child = start(&place, &dir, engine, 5);
            std::thread::sleep(Duration::from_millis(30));
            send(&child, signal);
            let ended = child.wait_with_output().expect("ended");
            assert_eq!(ended.status.code(), Some(exit), "{engine}: {}", String::from_utf8_lossy(&ended.stderr));
            let object: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("one object");
            assert_eq!((&object["status"], &object["error"]["code"]), (&"interrupted".into(), &114.into()), "{engine}");
            let manifest = place.manifest(&dir);
            assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"interrupted".into(), &114.into()));
            let (records, lost) = balance(&manifest["reconcile"]);
            assert!(records > 0 && lost == 0, "{engine}: {records} records, {lost} lost");
            place.good(&format!("check {dir}"));
        }
    }
}

/// The kernel naps longer than anybody waits.
#[test]
fn a_second_signal_ends_a_command_whose_kernel_does_not_return() {
    let place = Place::new();
    let mut child = start(&place, "run", "--workers 2", 10_000);
    std::thread::sleep(Duration::from_millis(100));
    send(&child, "-INT");
    hears(&mut child);
    assert!(child.try_wait().expect("a child").is_none(), "it waits for the kernel");
    send(&child, "-TERM");
    assert_eq!(child.wait().expect("ended").code(), Some(143));
    assert_eq!(place.manifest("run")["status"], "running", "nobody could say more");
    place.good("recover run");
    place.good("check run");
}

/// A run that has failed before the signal came, and cannot end because of its kernel.
#[test]
fn one_signal_ends_a_run_that_hangs_beyond_its_deadline() {
    let place = Place::new();
    let line = "run fault-hang --workers 2 --deadline-ms 100 --out run --region-dir . --json";
    let mut command = place.command(line.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    wait_until(&mut child, || place.path().join("run/run.json").is_file());
    std::thread::sleep(Duration::from_millis(500));
    send(&child, "-TERM");
    let ended = child.wait_with_output().expect("ended");
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    left_by_its_deadline(&place, "run");
}

#[test]
fn a_run_that_hangs_beyond_its_deadline_ends_by_itself() {
    let place = Place::new();
    for (dir, engine) in [
        ("host", "--workers 2"),
        ("emulated", "--engine emulated --arch a5 --clusters 2"),
        ("isolated", "--arch a5 --clusters 2 --isolate"),
    ] {
        let ran = place.run(&format!("run fault-hang {engine} --deadline-ms 2000 --out {dir} --region-dir . --json"));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        left_by_its_deadline(&place, dir);
    }
}

/// What a run leaves whose kernel did not return after its deadline.
fn left_by_its_deadline(place: &Place, dir: &str) {
    let manifest = place.manifest(dir);
    assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"failed".into(), &23.into()), "{dir}");
    assert_eq!(manifest["region"], serde_json::Value::Null, "{dir}");
    balance(&manifest["reconcile"]);
    place.good(&format!("check {dir}"));
    let told = place.good(&format!("explain {dir} --json")).json();
    assert_eq!(told["blocker"]["task"], "r1t500", "{dir}: {told}");
}

/// The process of the device does not hear what it is told.
#[test]
fn a_device_that_is_stopped_is_ended_by_one_signal_or_by_a_budget() {
    let place = Place::new();
    let ends = [("signal", "", 143, "interrupted", 114), ("budget", "--op-timeout 1s", 1, "failed", 111)];
    for (dir, budget, exit, status, code) in ends {
        let line = format!(
            "run fault-deadline --set tasks=10000 --set deadline-ms=0 --set nap-ms=5 --arch a5 --clusters 2 --isolate {budget} --out {dir} --region-dir . --json"
        );
        let mut command = place.command(line.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        wait_until(&mut child, || place.path().join(dir).join("run.json").is_file());
        std::thread::sleep(Duration::from_millis(200));
        let device = place.manifest(dir)["device_pid"].as_u64().expect("the device's process").to_string();
        let stopped = Command::new("kill").args(["-STOP", &device]).status().expect("kill");
        assert!(stopped.success());
        if budget.is_empty() {
            send(&child, "-TERM");
        }
        let ended = child.wait_with_output().expect("ended");
        assert_eq!(ended.status.code(), Some(exit), "{dir}: {}", String::from_utf8_lossy(&ended.stderr));
        let manifest = place.manifest(dir);
        let error = &manifest["error"];
        assert_eq!((&manifest["status"], &error["code"]), (&status.into(), &code.into()), "{dir}: {error}");
        assert!(error["explanation"].as_str().expect("words").contains("stopped (SIGSTOP)"), "{dir}: {error}");
        let (records, _) = balance(&manifest["reconcile"]);
        assert!(records > 0, "{dir}");
        place.good(&format!("check {dir}"));
    }
}
