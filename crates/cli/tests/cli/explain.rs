//! What ended a run or holds it up, told from its directory and from outside: of processes that hang, are stopped or dead.

use crate::harness::{Place, Ran};
use plimsoll::abi::Flags;
use plimsoll_collect::{Role, Session, SessionConfig};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that is killed when the test is over.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Process {
    /// Starts a run of this line. With a time-out its caller runs no kernel, so all tasks are submitted, and of three workers one runs what can run.
    fn run(place: &Place, line: &str) -> Self {
        let mut command = place.command(format!("run {line} --region-dir .").split_whitespace());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.pid().to_string()]).status().expect("kill");
        assert!(sent.success());
    }

    /// The explanation once it is of this class; the test does not end if it never is.
    fn explained(&self, place: &Place, class: &str) -> Value {
        loop {
            let ran = place.run(&format!("explain --pid {} --json", self.pid()));
            if ran.code == Some(0) && ran.json()["class"] == class {
                return ran.json();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The fields that every explanation has, as they are spelled.
fn check_fields(object: &Value) {
    for field in ["verdict", "class", "blocker", "chain", "groups", "certain", "try"] {
        assert!(object.get(field).is_some(), "{field}: {object}");
    }
    for field in ["task", "kernel", "core", "site", "ring", "resource"] {
        assert!(object["blocker"].get(field).is_some(), "{field}: {object}");
    }
    assert!(object["chain"].is_array() && object["groups"].is_array() && object["try"].is_array());
}

/// `fault-hang` and `fault-spin`: 1,000 tasks, every tenth a chain over those before it, of which r1t500 does not end.
fn check_hung(object: &Value, with_submits: bool) {
    check_fields(object);
    let blocker = &object["blocker"];
    assert_eq!((&blocker["task"], &blocker["kernel"]), (&"r1t500".into(), &"write".into()), "{object}");
    assert!(blocker["core"].is_u64() && blocker["ring"].is_null() && blocker["resource"].is_null(), "{object}");
    let chain = object["chain"].as_array().expect("links");
    assert_eq!(chain[chain.len() - 1]["task"], "r1t500", "{object}");
    assert_eq!((&object["certain"], &object["closed"]), (&with_submits.into(), &false.into()), "{object}");
    let groups = object["groups"].as_array().expect("groups");
    if !with_submits {
        assert!(chain.len() <= 2 && groups.is_empty(), "{object}");
        return;
    }
    // r1t509, r1t519, … r1t999 wait for r1t500 in turn.
    assert_eq!((groups.len(), &groups[0]["tasks"], &object["waiting"]), (1, &50.into(), &50.into()), "{object}");
    assert_eq!((&groups[0]["kernel"], &groups[0]["first"]), (&"add".into(), &"r1t509".into()), "{object}");
    assert_eq!(groups[0]["site"], blocker["site"], "one scope has all of them");
    assert!(blocker["site"].as_str().is_some_and(|site| site.contains(".rs:")), "{object}");
}

#[test]
fn a_process_that_hangs_is_stopped_or_dead_is_explained_from_outside() {
    let place = Place::new();
    for (program, flag, state) in [("fault-hang", "--dep-gen", "frozen"), ("fault-spin", "--swimlane", "spinning")] {
        let process =
            Process::run(&place, &format!("{program} {flag} --stall-timeout off --op-timeout 600s --workers 3"));
        let object = process.explained(&place, "running-stalled");
        let with_submits = flag == "--dep-gen";
        check_hung(&object, with_submits);
        assert_eq!((&object["state"], &object["status"]), (&state.into(), &"running".into()), "{object}");
        assert!(object["blocker"]["since_ns"].as_u64().is_some_and(|ns| ns >= 500_000_000), "{object}");
        process.signal("-STOP");
        let stopped = loop {
            let object = process.explained(&place, "running-stalled");
            if object["state"] == "stopped" {
                break object;
            }
        };
        // What stands still may go on once it is let go.
        assert_eq!(stopped["certain"], false, "{stopped}");
        assert!(stopped["try"][0].as_str().is_some_and(|advice| advice.contains("kill -CONT")), "{stopped}");
        let mut hung = stopped.clone();
        hung["certain"] = with_submits.into();
        check_hung(&hung, with_submits);
        assert!(stopped["verdict"].as_str().is_some_and(|words| words.contains("is stopped")), "{stopped}");
        process.signal("-KILL");
        let killed = process.explained(&place, "killed");
        check_hung(&killed, with_submits);
        drop(process);
    }
}

/// The run's own watchdog and a look from outside give a scheduler that stands still the same class, and name it.
#[test]
fn a_scheduler_that_stands_still_is_told_from_a_deadlock() {
    let place = Place::new();
    for flag in ["--dep-gen", "--swimlane"] {
        let line =
            format!("fault-slow-scheduler --arch a2a3 --clusters 2 --sched-threads 1 --stall-timeout off {flag}");
        let object = Process::run(&place, &line).explained(&place, "ready-but-idle");
        check_fields(&object);
        let last = object["chain"].as_array().and_then(|chain| chain.last()).expect("a chain");
        assert_eq!((&last["what"], &last["name"]), (&"scheduler".into(), &"scheduler 1".into()), "{object}");
    }
    let line = "fault-slow-scheduler --arch a2a3 --clusters 2 --sched-threads 1 --stall-timeout 500ms --dep-gen";
    let ran = place.run(&format!("run {line} --out named --json"));
    let explained = place.run("explain named --json").json();
    assert_eq!(
        (&ran.json()["error"]["class"], &explained["class"]),
        (&"ready-but-idle".into(), &"ready-but-idle".into())
    );
    assert_eq!(ran.json()["error"]["task"], explained["blocker"]["task"], "{explained}");
}

/// The page of a killed run says what `explain` says of it, in the same flags, and shows what ran.
fn check_page(place: &Place, explained: &serde_json::Value) {
    place.good("report run --output page.html");
    let page = std::fs::read_to_string(place.path().join("page.html")).expect("written");
    let shown = page.split("</main>").next().expect("a page");
    let links = explained["chain"].as_array().expect("a chain").len();
    let drawn = shown.split("<ol class=chain id=hang>").nth(1).and_then(|rest| rest.split("</ol>").next());
    assert_eq!(drawn.map(|chain| chain.matches("<li").count()), Some(links), "{shown}");
    assert!(shown.contains("50 tasks wait, 1 root") && shown.contains("--isolate"), "{shown}");
    assert!(!shown.contains("EmulatedOptions") && !shown.contains("status board is gone"), "{shown}");
    assert!(shown.contains("\"chip b\">killed<") && !shown.contains(">running</span>"), "{shown}");
    assert!(!shown.contains("id=tasks data-v=\"0\""), "what ran is on the page: {shown}");
}

#[test]
fn a_run_that_was_killed_is_explained_from_its_directory_before_and_after_its_recovery() {
    let place = Place::new();
    let process =
        Process::run(&place, "fault-hang --dep-gen --stall-timeout off --op-timeout 600s --workers 3 --out run");
    process.explained(&place, "running-stalled");
    let live = place.good("explain --live run --json").json();
    check_hung(&live, true);
    drop(process);
    for recovered in [false, true] {
        if recovered {
            place.good("recover run");
        }
        let object = place.good("explain run --json").json();
        assert_eq!(object["class"], "killed", "{object}");
        check_hung(&object, true);
        let text = place.good("explain run").out;
        assert!(text.contains("50 tasks wait, 1 root") && text.contains("r1t500 (write)"), "{text}");
        check_page(&place, &object);
    }
    assert_eq!(place.manifest("run")["explanation"]["class"], "killed");
    // What had not ended is an open slice: beside the records, and in no sum.
    let stats = place.good("stats run --json").json();
    assert_eq!(stats["open"], 1, "{stats}");
    place.good("check run");
}

#[test]
fn a_hung_run_says_in_run_json_what_explain_says() {
    let place = Place::new();
    for (flag, with_submits) in [("--dep-gen", true), ("--swimlane", false)] {
        let ran = place.run(&format!("run fault-hang {flag} --op-timeout 500ms --workers 2 --out run --region-dir ."));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let mut object = place.good("explain run --json").json();
        assert_eq!((&object["class"], &object["status"]), (&"running-stalled".into(), &"hung".into()));
        check_hung(&object, with_submits);
        let stored = place.manifest("run")["explanation"].clone();
        let fields = stored.as_object().expect("an object").keys();
        fields.for_each(|field| assert_eq!(stored[field], object[field].take(), "{field}"));
        let advice = object["try"].take();
        assert!(advice.is_null(), "it was compared");
        std::fs::remove_dir_all(place.path().join("run")).expect("a directory");
    }
}

#[test]
fn a_full_ring_is_a_closed_chain_through_the_scope_that_pins_it() {
    let place = Place::new();
    for (program, ring, resource, flag) in [
        ("fault-scope-deadlock", 1, "task_window", "--ring-task-window"),
        ("fault-heap", 1, "heap", "--ring-heap"),
        ("fault-flow-control", 3, "task_window", "--ring-task-window"),
        ("fault-dep-pool", 1, "dep_pool", "--ring-dep-pool"),
        ("fault-tensormap", 4, "tensormap", "--tensormap"),
    ] {
        place.run(&format!("run {program} --out {program}"));
        let object = place.good(&format!("explain {program} --json")).json();
        check_fields(&object);
        let told = (&object["class"], &object["closed"], &object["certain"]);
        assert_eq!(told, (&"capacity-deadlock".into(), &true.into(), &true.into()), "{object}");
        let blocker = &object["blocker"];
        let expected: Value = if ring < 4 { ring.into() } else { Value::Null };
        assert_eq!((&blocker["ring"], &blocker["resource"]), (&expected, &resource.into()), "{object}");
        assert!(blocker["site"].as_str().is_some_and(|site| site.contains(".rs:")), "{object}");
        let advice = object["try"].as_array().expect("advice");
        assert!(advice.len() == 3 && advice[0].as_str().is_some_and(|words| words.contains(flag)), "{object}");
    }
}

#[test]
fn what_fails_and_what_ends_well_has_its_class() {
    let place = Place::new();
    place.run("run fault-kernel-error --out failed");
    let object = place.good("explain failed --json").json();
    check_fields(&object);
    assert_eq!((&object["class"], &object["blocker"]["task"]), (&"failed".into(), &"r1t500".into()), "{object}");
    place.good("run vector --out good");
    let object = place.good("explain good --json").json();
    check_fields(&object);
    assert_eq!((&object["class"], &object["certain"]), (&"ok".into(), &true.into()), "{object}");
    assert!(object["chain"].as_array().is_some_and(Vec::is_empty) && object["blocker"]["task"].is_null());
}

/// Names of slices of a Chrome picture that begin and do not end.
fn open_slices(place: &Place, dir: &str) -> Vec<String> {
    place.good(&format!("export {dir} --format chrome --output trace.json"));
    let text = std::fs::read_to_string(place.path().join("trace.json")).expect("written");
    let picture: Value = serde_json::from_str(&text).expect("JSON");
    let mut open: std::collections::BTreeMap<(u64, u64), Vec<String>> = std::collections::BTreeMap::new();
    for event in picture["traceEvents"].as_array().expect("events") {
        let lane = (event["pid"].as_u64().unwrap_or(0), event["tid"].as_u64().unwrap_or(0));
        match event["ph"].as_str() {
            Some("B") => open.entry(lane).or_default().push(event["name"].as_str().expect("a name").to_string()),
            Some("E") => drop(open.get_mut(&lane).and_then(Vec::pop).expect("an end has a begin")),
            _ => {}
        }
    }
    open.into_values().flatten().collect()
}

#[test]
fn what_was_running_at_the_end_is_an_open_slice_in_every_output() {
    let place = Place::new();
    for engine in ["--workers 2", "--workers 1", "--arch a2a3 --clusters 1", "--engine emulated --workers 2 --isolate"]
    {
        let line = format!("run fault-hang --profile --op-timeout 500ms {engine} --out run --region-dir .");
        let ran = place.run(&line);
        assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
        let object = place.good("explain run --json").json();
        let blocker = &object["blocker"];
        assert_eq!((&object["class"], &blocker["task"]), (&"running-stalled".into(), &"r1t500".into()), "{object}");
        assert!(blocker["since_ns"].as_u64().is_some_and(|ns| ns >= 500_000_000), "{engine}: {object}");
        assert_eq!(object["certain"], true, "{engine}: {object}");
        let stats = place.good("stats run --json").json();
        assert_eq!(stats["open"], 1, "{engine}: {stats}");
        let check = place.good("check run --json").json();
        assert_eq!((&check["open"], &check["sound"]), (&1.into(), &true.into()), "{engine}: {check}");
        let open = open_slices(&place, "run");
        let tasks = open.iter().filter(|name| name.contains("write")).count();
        assert_eq!(tasks, 1, "{engine}: {open:?}");
        // The reference has no way to say it: what it reads has ended.
        let read = place.good("stats run/chip_swimlane_records.json --json").json();
        assert_eq!(read["open"], 0, "{engine}: {read}");
        place.good("report run");
        let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("a page");
        assert!(page.contains("The run ended with OpTimeout.") && page.contains("id=hang"), "{engine}");
        std::fs::remove_dir_all(place.path().join("run")).expect("a directory");
    }
}

/// In virtual time no thread is inside a kernel that never ends: the platform knows when the core started it, and a worker comes
/// back from it when the run is given up.
#[test]
fn what_never_ends_in_virtual_time_is_an_open_slice_too() {
    let place = Place::new();
    for arch in ["--arch a2a3 --clusters 1", "--arch a5 --sched-threads 2", "--workers 2"] {
        let line =
            format!("run fault-deadline --engine virtual {arch} --set deadline-ms=0 --profile --out run --costs");
        let mut command = place.command(line.split(' ').chain([r#"{"kernels":{"nap":"never"}}"#]));
        let ran = Ran::of(command.output().expect("the command starts"));
        assert_eq!(ran.code, Some(1), "{arch}: {}", ran.err);
        let object = place.good("explain run --json").json();
        let (class, task) = (&object["class"], &object["blocker"]["task"]);
        assert_eq!((class, task), (&"running-stalled".into(), &"r1t0".into()), "{arch}: {object}");
        assert!(object["blocker"]["since_ns"].as_u64() > Some(0), "{arch}: {object}");
        assert_eq!(place.good("stats run --json").json()["open"], 1, "{arch}");
        assert_eq!(place.good("check run --json").json()["open"], 1, "{arch}");
        let open = open_slices(&place, "run");
        assert_eq!(open.iter().filter(|name| name.contains("nap")).count(), 1, "{arch}: {open:?}");
        std::fs::remove_dir_all(place.path().join("run")).expect("a directory");
    }
}

/// A recording of nothing that lives in this process.
fn session(place: &Place, name: &str) -> Session {
    let config = SessionConfig {
        region_dir: Some(place.path().to_path_buf()),
        ..SessionConfig::new(place.path().join(name), Flags::CORE_TIMING, 1, vec![Role::BOTH])
    };
    std::fs::create_dir(&config.dir).expect("a directory");
    Session::start(config).expect("a session")
}

#[test]
fn several_regions_are_listed_and_none_is_an_error_that_says_what_makes_one() {
    let place = Place::new();
    let pid = std::process::id();
    let of = |flag: &str| -> Ran { place.run(&format!("explain --pid {pid} {flag}")) };
    let none = of("--json");
    assert!(none.code == Some(1) && none.err.contains("--swimlane"), "{}", none.err);
    let first = session(&place, "one");
    let object = of("--json").json();
    check_fields(&object);
    let second = session(&place, "two");
    let several = of("--json").json();
    let dirs: Vec<&str> =
        several["regions"].as_array().expect("regions").iter().filter_map(|of| of["dir"].as_str()).collect();
    assert!(dirs.len() == 2 && dirs.iter().all(|dir| dir.ends_with("one") || dir.ends_with("two")), "{several}");
    let text = of("").out;
    assert!(text.matches("plimsoll explain --live").count() == 2, "{text}");
    drop((first.finish().expect("an end"), second.finish().expect("an end")));
    let gone = place.run("explain --pid 4194305 --json");
    assert!(gone.code == Some(1) && gone.err.contains("no process 4194305"), "{}", gone.err);
}

/// Everything in an advice that can be pasted, with the words of a run: flags, and commands in backticks.
fn pastes(advice: &str) -> (Vec<String>, Vec<String>) {
    let (mut flags, mut commands) = (Vec::new(), Vec::new());
    for (at, part) in advice.split('`').enumerate() {
        if at % 2 == 1 {
            commands.extend(part.strip_prefix("plimsoll ").map(str::to_owned));
            continue;
        }
        let words: Vec<&str> = part.split_whitespace().collect();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| word.starts_with("--")) {
            flags.push(word.trim_end_matches(['.', ',']).to_owned());
            let value = words.get(at + 1).filter(|next| !next.starts_with("--") && !word.ends_with(['.', ',']));
            flags.extend(value.map(|value| value.trim_end_matches('.').to_owned()));
        }
    }
    (flags, commands)
}

/// Three things to try, each of which does something when it is pasted behind the run's own words.
#[test]
fn what_is_advised_can_be_pasted() {
    let place = Place::new();
    let never = "--costs {\"default\":\"never\"}";
    for (at, (line, spared)) in [
        ("fault-hang --op-timeout 300ms --workers 2", "--set at=1000000"),
        ("fault-hang --op-timeout 300ms --arch a5 --clusters 2 --isolate --dep-gen", "--set at=1000000"),
        ("fault-hang --stall-timeout 300ms --workers 2 --dump-args=2", "--set at=1000000"),
        ("fault-orchestrator --orch-timeout 300ms", "--set at=1000000"),
        ("fault-orchestrator --orch-timeout 300ms --swimlane=0 --scope-stats", "--set at=1000000"),
        ("fault-slow-scheduler --stall-timeout 300ms --arch a2a3 --dep-gen", "--set at=1000000"),
        (&format!("vector --engine virtual --arch a5 {never}"), ""),
        (&format!("vector --engine virtual --arch a5 {never} --dep-gen"), ""),
        ("fault-abort --workers 2", "--set at=1000000"),
        ("fault-abort --workers 2 --dep-gen", "--set at=1000000"),
        ("fault-abort --arch a5 --clusters 2 --dep-gen", "--set at=1000000"),
        ("fault-abort --arch a5 --clusters 2 --isolate", "--set at=1000000"),
        ("fault-panic", "--set at=1000000"),
        ("fault-sync-start", ""),
        ("fault-scope-deadlock", ""),
        ("vector", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = format!("run{at}");
        place.run(&format!("run {line} --out {dir} --region-dir ."));
        let told = place.good(&format!("explain {dir} --json")).json();
        let advice = told["try"].as_array().expect("things to try").clone();
        assert_eq!(advice.len(), 3, "{line}: {advice:?}");
        for (number, what) in advice.iter().enumerate() {
            let (flags, commands) = pastes(what.as_str().expect("words"));
            for command in commands {
                let ran = place.run(&command);
                assert!(!matches!(ran.code, Some(2) | None), "{line}: {what}: {}", ran.err);
            }
            if !flags.is_empty() {
                let words = flags.join(" ");
                let ran = place.run(&format!("run {line} {spared} --out {dir}-{number} --region-dir . {words}"));
                assert!(!matches!(ran.code, Some(2) | None), "{line}: {what}: {}", ran.err);
            }
        }
    }
}

#[test]
fn a_scope_is_named_where_the_orchestration_is_stuck() {
    let place = Place::new();
    let stuck = Process::run(&place, "fault-orchestrator --stall-timeout off --out run");
    let site = stuck.explained(&place, "orchestrator-starved")["blocker"]["site"].clone();
    assert!(site.as_str().is_some_and(|site| site.contains("fault/orchestrator.rs")), "{site}");
    let ran = place.run("run fault-orchestrator --orch-timeout 300ms --out ended");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let told = place.good("explain ended --json").json();
    assert_eq!((&told["blocker"]["site"], &told["error"]["site"]), (&site, &site));
    // One signal: the orchestration is to blame.
    stuck.signal("-TERM");
    while place.manifest("run")["status"] == "running" {
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = place.good("explain run --json").json();
    assert_eq!((&told["class"], &told["blocker"]["site"]), (&"interrupted".into(), &site), "{told}");
    assert_eq!(told["chain"][0]["what"], "orchestrator", "{told}");
}

/// Kernels are in the device's process: that is the one to look into, and the one that may be stopped.
#[test]
fn a_device_of_its_own_is_told_from_its_host() {
    let place = Place::new();
    let line = "fault-hang --arch a5 --clusters 2 --isolate --stall-timeout off --out run";
    let host = Process::run(&place, line);
    let told = host.explained(&place, "running-stalled");
    let device = place.manifest("run")["device_pid"].as_u64().expect("another process");
    assert!(told["try"][0].as_str().expect("words").contains(&format!("gdb -p {device} ")), "{told}");
    host.signal("-STOP");
    let told = host.explained(&place, "running-stalled");
    let verdict = told["verdict"].as_str().expect("words").to_owned();
    assert!(verdict.contains(&format!("Process {} is stopped", host.pid())), "{verdict}");
    assert!(!verdict.contains(&format!("Process {device}")) && !verdict.contains("thread is stopped"), "{verdict}");
    host.signal("-CONT");
    let stopped = Command::new("kill").args(["-STOP", &device.to_string()]).status().expect("kill");
    assert!(stopped.success());
    let told = host.explained(&place, "running-stalled");
    let verdict = told["verdict"].as_str().expect("words").to_owned();
    assert!(verdict.contains(&format!("Process {device}, the device's, is stopped")), "{verdict}");
    assert!(!verdict.contains(&format!("Process {} is", host.pid())), "{verdict}");
}

/// The region is this run's, and the directory another's: nothing of that one is told.
#[test]
fn a_run_whose_directory_another_has_taken_is_explained_from_its_region_alone() {
    let place = Place::new();
    let line = "fault-hang --dep-gen --stall-timeout off --op-timeout 600s --workers 3 --out w1";
    let process = Process::run(&place, line);
    process.explained(&place, "running-stalled");
    std::fs::remove_dir_all(place.path().join("w1")).expect("a directory");
    place.run("run fault-kernel-error --set tasks=3000 --set at=2990 --dep-gen --workers 2 --out w1 --region-dir .");
    assert_eq!(place.manifest("w1")["status"], "failed");
    let check = |object: &Value, recover: &str| {
        check_fields(object);
        assert_eq!((&object["blocker"]["task"], &object["certain"]), (&"r1t500".into(), &false.into()), "{object}");
        let said = object.to_string();
        assert!(said.contains("Another run has taken w1") || said.contains("/w1 since"), "{object}");
        assert!(!said.contains("r1t2") && said.contains(recover), "{object}");
        let advice = object["try"].as_array().expect("things to try");
        assert!(advice.iter().all(|what| !what.as_str().expect("words").contains("w1`")), "{object}");
    };
    check(&process.explained(&place, "running-stalled"), "");
    process.signal("-KILL");
    check(&process.explained(&place, "killed"), "`plimsoll recover --all`");
    assert_eq!(place.good("explain w1 --json").json()["class"], "failed", "the directory tells of the other");
}

/// The host's `run.json` tells what the device's watchdog saw: whoever was well has left the run when the host looks.
#[test]
fn the_waiter_and_its_ring_are_in_the_chain_of_an_isolated_run_too() {
    let place = Place::new();
    let line = "fault-hang --op-timeout 300ms --ring-task-window 64 --arch a2a3 --arch-set clusters=2 --region-dir .";
    for (dir, isolate) in [("here", ""), ("apart", "--isolate")] {
        assert_eq!(place.run(&format!("run {line} {isolate} --out {dir}")).code, Some(1));
        let told = place.good(&format!("explain {dir} --json")).json();
        let chain = told["chain"].as_array().expect("links");
        let links: Vec<&str> = chain.iter().filter_map(|link| link["what"].as_str()).collect();
        assert_eq!(links, ["orchestrator", "ring", "task"], "{dir}: {told}");
        assert_eq!(
            (&told["blocker"]["ring"], &told["blocker"]["resource"]),
            (&1.into(), &"task_window".into()),
            "{told}"
        );
        assert_eq!(place.manifest(dir)["board"]["orchestrator"]["wanted"], serde_json::json!([0, 1]), "{told}");
    }
}

/// A run is just starting as long as nothing describes its region; if nobody holds that any more, the run was killed at it.
#[test]
fn a_run_that_is_just_starting_or_was_killed_at_that_is_explained() {
    let place = Place::new();
    let (dir, region) = (place.path().join("run"), place.path().join("region"));
    std::fs::create_dir(&dir).expect("a directory");
    let mut manifest = plimsoll::trace::Manifest::new("vector");
    (manifest.pid, manifest.flags) = (std::process::id(), Flags::DEP_GEN.bits());
    (manifest.started_unix_ns, manifest.region) = (1, Some(region.clone()));
    manifest.write(&dir).expect("written");
    let file = std::fs::File::create(&region).expect("a file");
    file.set_len(4096).expect("its size");
    file.lock().expect("locked");
    for line in ["explain run --json", "explain --live run --json"] {
        let object = place.good(line).json();
        check_fields(&object);
        let verdict = object["verdict"].as_str().expect("words");
        assert!(object["class"] == "running" && verdict.contains("just starting"), "{object}");
        assert!(!object.to_string().contains("--dep-gen"), "{object}");
    }
    drop(file);
    let killed = |object: Value| {
        let verdict = object["verdict"].as_str().expect("words");
        assert!(object["class"] == "killed" && verdict.contains("killed while it started"), "{object}");
        assert!(!object.to_string().contains("--dep-gen"), "{object}");
    };
    killed(place.good("explain run --json").json());
    place.good("recover run");
    killed(place.good("explain run --json").json());
}
