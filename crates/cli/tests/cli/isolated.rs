//! `--isolate`: the emulated device as a process of its own, which computes the same, records the same, and shares its host's
//! life but not its death.

use crate::harness::{Place, Ran, balance};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

const SMALL: &str = "--arch a5 --clusters 2 --sched-threads 1 --isolate";

#[test]
fn every_program_is_right_and_nothing_is_lost() {
    let place = Place::new();
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        let out = program.name;
        let ran =
            place.good(&format!("run {out} {SMALL} --profile --rounds 2 --require-lossless --out {out} --json")).json();
        assert_eq!((&ran["verified"], &ran["emulated"], &ran["isolated"]), (&true.into(), &true.into(), &true.into()));
        assert_eq!(balance(&ran["reconcile"]).1, 0, "{out}");
        let manifest = place.manifest(out);
        assert!(manifest["device_pid"].as_u64() != manifest["pid"].as_u64() && manifest["device_run"] == 1, "{out}");
    }
    let text = place.good(&format!("run cholesky {SMALL} --prebuilt --rounds 3")).out;
    assert!(text.contains("verified") && text.contains("in a process of its own"), "{text}");
}

/// The three ways of a shadow, and no copy at all: what is recorded is the same, and what is moved is told.
#[test]
fn records_come_over_every_transport() {
    let place = Place::new();
    for (line, kind, ways) in [
        ("--arch a5 --clusters 2 --sched-threads 1", "shadow", &["memcpy"][..]),
        ("--arch a5 --clusters 2 --sched-threads 1 --isolate", "shadow", &["process_vm_readv", "file"]),
        ("--arch a5 --clusters 2 --sched-threads 1 --isolate --transport mapped", "mapped", &[]),
        ("--transport shadow", "shadow", &["memcpy"]),
        ("--arch a2a3 --engine virtual --transport shadow", "shadow", &["memcpy"]),
        ("--arch a2a3", "mapped", &[]),
    ] {
        let ran = place.good(&format!("run vector {line} --profile --require-lossless --out run --json")).json();
        let (records, lost) = balance(&ran["reconcile"]);
        assert!(lost == 0 && records >= 1280, "{line}: {records}");
        let transport = place.manifest("run")["transport"].clone();
        assert_eq!((&transport["kind"], &transport), (&kind.into(), &ran["transport"]), "{line}");
        assert_eq!(transport["way"].as_str().is_some_and(|way| ways.contains(&way)), !ways.is_empty(), "{transport}");
        // A refusal is said; nothing else is.
        assert_eq!(transport["note"].is_string(), transport["way"] == "file", "{transport}");
        // The device's process keeps its memory until the host has read all of it.
        assert!(!transport["note"].as_str().is_some_and(|note| note.contains("gone")), "{transport}");
        let moved = |key: &str| transport[key].as_u64().expect("a number");
        assert_eq!(moved("bytes_read") > 32 * 1280 && moved("bytes_written") > 0, kind == "shadow", "{transport}");
        std::fs::remove_dir_all(place.path().join("run")).expect("removed");
    }
    let text = place.good("run vector --arch a5 --clusters 2 --sched-threads 1").out;
    assert!(text.contains("shadow transport by memcpy"), "{text}");
}

#[test]
fn bench_shapes_are_programs_by_name_too() {
    let place = Place::new();
    for line in [SMALL, "--engine emulated --workers 3 --isolate --prebuilt", "--engine emulated"] {
        let line = format!("bench graph --shape paged-attention --tasks 2000 --reps 2 {line} --json");
        let figures = place.good(&line).json();
        assert_eq!(figures["isolated"], line.contains("--isolate"), "{figures}");
        assert!(figures["ns_per_task"].as_f64() > Some(0.0) && figures["engine"] == "emulated", "{figures}");
        // That is a figure of the host engine.
        assert!(figures["submit_ns_per_task"].is_null() && figures["peak_rss_bytes"].as_u64() > Some(0), "{figures}");
    }
}

/// The scope that a program does not open itself is where the program was called, not a line of the runtime.
#[test]
fn the_outermost_scope_has_the_site_of_the_call() {
    let place = Place::new();
    let sites = |line: &str| {
        let ran = place.good(&format!("run mixed --engine emulated --workers 2 --no-record --json {line}")).json();
        let load = ran["load"].as_array().expect("resources").clone();
        load.iter().map(|of| of["site"].clone()).collect::<Vec<_>>()
    };
    let here = sites("");
    assert!(here.iter().any(|site| site.as_str().is_some_and(|site| site.contains("cli/src"))), "{here:?}");
    assert_eq!(sites("--isolate"), here);
}

/// A system that does not let one process read another's memory: the records come over the file, and the run says why.
#[test]
fn a_refusal_to_read_the_devices_memory_costs_no_record() {
    let place = Place::new();
    let line = format!("run vector {SMALL} --profile --require-lossless --out run --json");
    let mut command = place.command(line.split_whitespace());
    // SAFETY: between fork and exec the closure makes two system calls with memory of its own, and allocates nothing.
    unsafe { command.pre_exec(refuse_process_vm_readv) };
    let ran = Ran::of(command.output().expect("the command starts"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let transport = ran.json()["transport"].clone();
    assert_eq!((&transport["kind"], &transport["way"]), (&"shadow".into(), &"file".into()), "{transport}");
    assert!(transport["note"].is_string(), "{transport}");
    assert_eq!(balance(&ran.json()["reconcile"]).1, 0);
}

/// Has every later call of `process_vm_readv` of this process and its children fail with `EPERM`.
fn refuse_process_vm_readv() -> std::io::Result<()> {
    let step = |code: u32, skip_if_not: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: skip_if_not, k };
    let mut steps = [
        // The number of the call is the first word of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_process_vm_readv as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter and its steps outlive the calls.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn errors_come_back_whole() {
    let place = Place::new();
    for program in
        ["fault-scope-deadlock", "fault-heap", "fault-kernel-error", "fault-panic", "fault-fatal", "fault-deadline"]
    {
        let error = |line: &str| place.run(&format!("run {program} {line} --json")).json()["error"].clone();
        let (host, chip) = (error(""), error(SMALL));
        for key in ["code", "needed", "needed_is_bound", "resource", "ring", "kernel", "site", "capacity"] {
            assert_eq!(chip[key], host[key], "{key} of {program}: {chip}");
        }
    }
    let refused = place.run("run vector --isolate");
    assert!(refused.code == Some(2) && refused.err.contains("--engine emulated"), "{}", refused.err);
}

/// A run that naps for minutes, once its device's process lives.
fn napping(place: &Place) -> (Child, u32) {
    let line = format!(
        "run fault-deadline {SMALL} --set tasks=10000 --set nap-ms=5 --set deadline-ms=0 --profile --out run --json"
    );
    let mut command = place.command(line.split_whitespace());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts");
    let device = loop {
        let text = std::fs::read_to_string(place.path().join("run/run.json")).unwrap_or_default();
        let pid = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|run| run["device_pid"].as_u64());
        match pid {
            Some(pid) => break pid as u32,
            None => {
                assert!(child.try_wait().expect("its status").is_none(), "the command has ended by itself");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    // Long enough that some tasks have run; that none has would be no error either.
    std::thread::sleep(Duration::from_millis(300));
    (child, device)
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: the call touches no memory.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "process {pid} is there");
}

/// Whether a process runs: one that nobody has waited for yet does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| state != "Z" && state != "X")
}

#[test]
fn a_killed_device_is_lost_and_its_records_are_not() {
    let place = Place::new();
    let (child, device) = napping(&place);
    signal(device, libc::SIGKILL);
    let ran = crate::harness::Ran::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let answer = ran.json();
    assert_eq!((&answer["error"]["code"], &answer["status"]), (&111.into(), &"failed".into()), "{answer}");
    assert_eq!(balance(&answer["reconcile"]).1, 0);
    assert!(place.good("check run").out.contains("Nothing is missing"));
}

#[test]
fn a_device_never_outlives_its_host() {
    let place = Place::new();
    let (mut child, device) = napping(&place);
    child.kill().expect("killed");
    child.wait().expect("it has ended");
    while runs(device) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(place.good("recover run").out.contains("the ledger balances"));
}

/// A host may be killed before the process that it started has looked at its parent: that process must not take itself for the
/// command, as one does that a user started.
#[test]
fn a_device_whose_host_is_gone_at_once_does_not_run_main() {
    let place = Place::new();
    let (socket, _host) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    for (stdin, is_device) in [(Stdio::from(std::os::fd::OwnedFd::from(socket)), true), (Stdio::null(), false)] {
        let mut command = place.command(["list"]);
        // No process has this number, so it is not the parent's.
        let ended = command.env("PLIMSOLL_DEVICE_OF", "4294967295").stdin(stdin).output().expect("it ends");
        assert_eq!(ended.stdout.is_empty(), is_device, "{}", String::from_utf8_lossy(&ended.stdout));
        assert_eq!(ended.status.success(), !is_device);
    }
}

/// The same at whatever moment of its start the host is killed: the device says nothing, and ends, which closes the last writing end
/// of the pipe.
#[test]
fn a_host_that_is_killed_while_it_starts_leaves_nobody_behind() {
    let place = Place::new();
    for moment in 0..40u64 {
        let mut command = place.command(format!("run vector {SMALL} --no-record").split_whitespace());
        let mut host = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts");
        std::thread::sleep(Duration::from_micros(500 + moment * 140));
        host.kill().expect("killed");
        let said = host.wait_with_output().expect("all of its processes end").stdout;
        // On a quick machine the run may have ended by itself.
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty() || said.starts_with("vector: verified"), "{said}");
    }
}

#[test]
fn a_signal_to_a_host_whose_device_is_stopped_ends_the_run_too() {
    let place = Place::new();
    let (child, device) = napping(&place);
    signal(device, libc::SIGSTOP);
    signal(child.id(), libc::SIGTERM);
    let ran = crate::harness::Ran::of(child.wait_with_output().expect("it ends"));
    assert_eq!((ran.code, &ran.json()["status"]), (Some(143), &"interrupted".into()), "{}", ran.err);
    assert!(ran.json()["error"]["message"].as_str().is_none_or(|text| text.contains("SIGSTOP")), "{}", ran.out);
    assert_eq!(balance(&ran.json()["reconcile"]).1, 0);
    assert!(!runs(device));
}

#[test]
fn a_signal_to_the_host_ends_the_run_cleanly() {
    let place = Place::new();
    let (child, device) = napping(&place);
    signal(child.id(), libc::SIGTERM);
    let ran = crate::harness::Ran::of(child.wait_with_output().expect("it ends"));
    assert_eq!((ran.code, &ran.json()["status"]), (Some(143), &"interrupted".into()), "{}", ran.err);
    assert!(!runs(device));
}
