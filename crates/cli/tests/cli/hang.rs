//! Runs that hang are given up: the command says what hangs, keeps the records and exits 1.

use crate::harness::{Place, balance};
use std::process::{Command, Stdio};

/// Runs a line that hangs; its outcome as JSON, after the checks that hold for every hang.
fn hung(place: &Place, line: &str, code: u32) -> serde_json::Value {
    let ran = place.run(&format!("run {line} --swimlane --json --out run --region-dir ."));
    let object = ran.json();
    assert_eq!(
        (ran.code, &object["status"], &object["error"]["code"]),
        (Some(1), &"hung".into(), &code.into()),
        "{line}"
    );
    let manifest = place.manifest("run");
    assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"hung".into(), &code.into()), "{line}");
    let (records, lost) = balance(&manifest["reconcile"]);
    assert!(records > 0 && lost == 0, "{line}: {records} records, {lost} lost");
    assert_eq!(manifest["dispatches"], object["dispatches"], "{line}");
    std::fs::remove_dir_all(place.path().join("run")).expect("a directory");
    object
}

fn text(object: &serde_json::Value) -> &str {
    object["error"]["explanation"].as_str().expect("words")
}

#[test]
fn a_makespan_ends_where_the_last_kernel_ended() {
    let place = Place::new();
    place.run("run fault-hang --profile --op-timeout 300ms --workers 2 --out run");
    let stats = place.good("stats run --json").json();
    let [makespan, wall] = ["makespan_ns", "wall_ns"].map(|field| stats[field].as_u64().expect("a time"));
    assert!(stats["open"] == 1 && makespan <= wall, "{makespan} {wall}");
    let path = place.good("critical-path run --json").json();
    assert_eq!(path["makespan_ns"].as_u64(), Some(makespan));
    let last = path["path"].as_array().and_then(|path| path.last()).expect("a step");
    assert!(last["kernel_ns"].as_u64() > Some(0), "the path ends with a kernel that ended: {last}");
}

#[test]
fn a_kernel_that_does_not_return_is_named_and_the_records_are_kept() {
    let place = Place::new();
    // On one worker it is the caller's own thread that hangs.
    for engine in ["--workers 2", "--workers 1", "--arch a2a3 --clusters 1", "--engine emulated --workers 2 --isolate"]
    {
        let object = hung(&place, &format!("fault-hang --op-timeout 500ms {engine}"), 110);
        assert_eq!(
            (&object["error"]["kernel"], &object["error"]["task"]),
            (&"write".into(), &"r1t500".into()),
            "{engine}"
        );
        assert!(text(&object).contains("frozen") && text(&object).contains("--op-timeout"), "{engine}: {object}");
        // At least what comes before the hung task, also where its scheduler was left behind with it.
        let dispatches = object["dispatches"].as_u64().expect("a number");
        assert!((500..1000).contains(&dispatches), "{engine}: {dispatches} dispatches");
        if engine == "--workers 1" {
            assert_eq!(dispatches, 500, "the one that hangs has not ended");
        }
        assert!(object["elapsed_ns"].as_u64() >= Some(500_000_000), "{engine}: it took its budget at least: {object}");
    }
    let object = hung(&place, "fault-spin --op-timeout 500ms --workers 2", 110);
    assert!(text(&object).contains("spinning"), "{object}");
}

#[test]
fn a_run_in_which_nothing_moves_says_the_class() {
    let place = Place::new();
    for (line, class) in [
        ("fault-hang --stall-timeout 500ms --workers 2", "running-stalled"),
        ("fault-orchestrator --orch-timeout 500ms --workers 2", "orchestrator-starved"),
        ("fault-orchestrator --orch-timeout 500ms --workers 2 --set how=spin", "orchestrator-starved"),
        ("fault-orchestrator --stall-timeout 500ms --arch a2a3 --clusters 1", "orchestrator-starved"),
        ("fault-orchestrator --stall-timeout 500ms --workers 2", "orchestrator-starved"),
        ("fault-orchestrator --stall-timeout 500ms --workers 1", "orchestrator-starved"),
        ("fault-orchestrator --orch-timeout 500ms --engine emulated --workers 2 --isolate", "orchestrator-starved"),
        ("fault-slow-scheduler --stall-timeout 500ms --engine emulated --workers 2", "ready-but-idle"),
        // On a loaded machine the other scheduler may dispatch hundreds of tasks before this one dispatches any.
        (
            "fault-slow-scheduler --stall-timeout 500ms --arch a2a3 --clusters 3 --set scheduler=2 --set at=1 --set tasks=8192",
            "ready-but-idle",
        ),
        ("fault-slow-scheduler --stall-timeout 500ms --engine emulated --workers 2 --isolate", "ready-but-idle"),
    ] {
        let object = hung(&place, line, 100);
        assert_eq!(object["error"]["class"], class, "{line}: {object}");
        assert!(text(&object).contains(class), "{line}: {object}");
        assert!(object["error"]["site"].as_str().is_some_and(|site| site.contains("fault/")), "{line}: {object}");
        assert!(object["left_behind"].as_u64() > Some(0), "{line}: {object}");
    }
}

/// It does not return, so its figures come from its status board.
#[test]
fn a_run_that_cannot_return_has_figures() {
    let place = Place::new();
    for engine in ["--workers 2", "--arch a2a3 --clusters 1", "--engine emulated --workers 2 --isolate"] {
        let object = hung(&place, &format!("fault-orchestrator --orch-timeout 500ms {engine}"), 100);
        assert_eq!((&object["tasks"], &object["dispatches"]), (&50.into(), &50.into()), "{engine}: {object}");
        assert!(object["elapsed_ns"].as_u64() >= Some(500_000_000), "{engine}: it took its budget at least: {object}");
    }
    // The caller's thread executes the kernel that hangs. A launch submits nothing.
    let object = hung(&place, "fault-hang --prebuilt --op-timeout 500ms --workers 1", 110);
    assert_eq!((&object["tasks"], &object["dispatches"]), (&1000.into(), &500.into()), "{object}");
}

/// While a graph is built there is no run that could leave a directory.
#[test]
fn a_program_that_hangs_while_it_builds_a_graph_ends_the_command() {
    let place = Place::new();
    for budget in ["--orch-timeout 500ms", "--orch-timeout 500ms --set how=spin", "--stall-timeout 500ms"] {
        for engine in ["--workers 2", "--engine emulated --workers 2"] {
            let line = format!("fault-orchestrator --prebuilt {budget} {engine}");
            let ran = place.run(&format!("run {line} --swimlane --json --out run"));
            let object = ran.json();
            assert_eq!((ran.code, &object["error"]["code"]), (Some(1), &100.into()), "{line}: {object}");
            assert_eq!(object["error"]["class"], "orchestrator-starved", "{line}: {object}");
            assert!(object["dir"].is_null(), "{line}: {object}");
        }
    }
    place.good("run fault-orchestrator --prebuilt --set for-ms=100 --orch-timeout 60s --no-record");
}

#[test]
fn what_returns_after_all_is_no_hang() {
    let place = Place::new();
    place.good("run fault-hang --set for-ms=100 --op-timeout 60s --no-record");
    place.good("run fault-spin --set for-ms=300 --stall-timeout 100ms --no-record");
    place.good("run fault-orchestrator --set for-ms=100 --orch-timeout 60s --no-record");
    place.good("run fault-hang --set at=1000 --op-timeout 60s --stall-timeout off --no-record");
}

/// After ten seconds a person at a terminal is told what runs. Whoever reads a file or a pipe is not.
#[test]
fn a_terminal_is_told_what_runs() {
    use std::io::Read;
    use std::os::fd::FromRawFd;
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both numbers outlive the call, and nothing else is asked for.
    assert_eq!(unsafe { libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), none.cast()) }, 0);
    // SAFETY: the call above made both, and nobody else closes them.
    let (mut master, slave) = unsafe { (std::fs::File::from_raw_fd(master), std::fs::File::from_raw_fd(slave)) };
    let place = Place::new();
    let words = "run fault-hang --set for-ms=11500 --workers 2 --no-record";
    let mut command = place.command(words.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(slave).spawn().expect("the command starts");
    // The command holds the other end, too.
    drop(command);
    let mut said = String::new();
    let mut bytes = [0; 512];
    // A terminal that nobody holds any more says so by an error.
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        said += &String::from_utf8_lossy(&bytes[..count]);
    }
    assert!(child.wait().expect("ended").success(), "{said}");
    let pid = format!("plimsoll explain --pid {}", child.id());
    assert!(said.contains("kernel write of task r1t500 has not returned") && said.contains(&pid), "{said}");
    assert_eq!(said.matches("explain --pid").count(), 1, "once: {said}");
}

#[test]
fn times_that_make_no_sense_are_refused_in_words() {
    let place = Place::new();
    for (flag, wrong) in
        [("--op-timeout 3", "ms, s, m"), ("--stall-timeout x", "whole number"), ("--orch-timeout 0s", "off")]
    {
        let ran = place.run(&format!("run vector {flag}"));
        assert!(ran.code == Some(2) && ran.err.contains(wrong), "{flag}: {}", ran.err);
    }
    let ran = place.run("run vector --engine virtual --op-timeout 1s");
    assert!(ran.code == Some(2) && ran.err.contains("virtual time"), "{}", ran.err);
}

/// One signal is enough, although the kernel does not return.
#[test]
fn a_signal_ends_a_command_whose_kernel_does_not_return() {
    let place = Place::new();
    for (at, workers) in [1, 2].into_iter().enumerate() {
        let dir = format!("run{at}");
        let line = format!("run fault-hang --workers {workers} --swimlane --json --out {dir} --region-dir .");
        let mut command = place.command(line.split_whitespace());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        while !place.path().join(&dir).join("run.json").is_file() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        let ended = child.wait_with_output().expect("ended");
        assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
        let object: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("one object");
        assert_eq!((&object["status"], &object["error"]["code"]), (&"interrupted".into(), &114.into()));
        assert!(text(&object).contains("kernel write of task r1t500 has not returned"), "{object}");
        let manifest = place.manifest(&dir);
        assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"interrupted".into(), &114.into()));
        assert_eq!(balance(&manifest["reconcile"]).1, 0);
    }
}
