//! Ctrl-C and SIGTERM: the first ends the run and keeps its records, the second ends the command.

mod harness;

use harness::{Place, balance};
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
