//! Every abnormal end on every engine that has it: what `docs/abnormal-ends.md` promises, cell by cell.
//!
//! Kernels of the fault programs count themselves in a file of the test's, byte by byte, before they return. The ledger of the
//! run is held against that count: part by part, and not only its sum.

use crate::harness::{Place, Ran, balance};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HOST: &str = "--workers 2";
const EMULATED: &str = "--engine emulated --workers 2";
const ISOLATED: &str = "--engine emulated --workers 2 --isolate";
const VIRTUAL: &str = "--engine virtual --workers 2";
const ALL: [&str; 4] = [HOST, EMULATED, ISOLATED, VIRTUAL];

/// One run in a place of its own, with a count of the kernels that ended.
struct Cell {
    place: Place,
    engine: &'static str,
}

/// How many records of executions there may be, against kernels that ended.
#[derive(Clone, Copy)]
enum Against {
    /// As many: everybody was let finish.
    Equal,
    /// Fewer by what was not published yet when the process died: a task of each of two workers, or two of each of two cores.
    Killed,
}

impl Cell {
    fn new(engine: &'static str) -> Self {
        Self { place: Place::new(), engine }
    }

    fn tally(&self) -> PathBuf {
        self.place.path().join("tally")
    }

    fn line(&self, program: &str) -> String {
        format!("run {program} {} --profile --json --out run --region-dir .", self.engine)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.place.command(self.line(program).split_whitespace());
        command.env("PLIMSOLL_FAULT_TALLY", self.tally());
        command
    }

    fn run(&self, program: &str) -> Ran {
        Ran::of(self.command(program).output().expect("the command starts"))
    }

    fn spawn(&self, program: &str) -> Child {
        let mut command = self.command(program);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
    }

    /// Starts a run and returns when some of its kernels have ended.
    fn start(&self, program: &str) -> Child {
        let mut child = self.spawn(program);
        while self.ended() < 5 {
            assert!(child.try_wait().expect("a child").is_none(), "{}: it ended by itself", self.engine);
            std::thread::sleep(Duration::from_millis(2));
        }
        child
    }

    /// Kernels that have ended.
    fn ended(&self) -> u64 {
        std::fs::metadata(self.tally()).map_or(0, |data| data.len())
    }

    /// The run's capture says how it ended, is reconciled, and has every record that the test counted.
    #[track_caller]
    fn check(&self, status: &str, code: Option<u32>, against: Against) -> Value {
        let manifest = self.place.manifest("run");
        assert_eq!(manifest["status"], status, "{}: {}", self.engine, manifest["error"]);
        assert_eq!(manifest["error"]["code"].as_u64(), code.map(u64::from), "{}", self.engine);
        if code.is_some() {
            let words = manifest["error"]["explanation"].as_str().expect("words");
            assert!(words.len() > 40 && words.contains(". "), "{words}");
            assert!(manifest["explanation"]["class"].is_string(), "{}: {}", self.engine, manifest["explanation"]);
        }
        self.check_ledger(&manifest["reconcile"], against);
        let check = self.place.run("check run --json");
        assert_eq!(check.code, Some(0), "{}: {}", self.engine, check.out);
        self.place.good("export run");
        manifest
    }

    /// Part by part: nothing is lost, and there are as many records as things were done.
    #[track_caller]
    fn check_ledger(&self, reconcile: &Value, against: Against) {
        assert_eq!(balance(reconcile).1, 0, "{}: nothing is lost: {reconcile}", self.engine);
        let kinds = totals(reconcile);
        let (ended, engine) = (self.ended(), self.engine);
        let executions = kinds.get("aicore_task").copied().unwrap_or_default();
        match against {
            Against::Equal => assert_eq!(executions, ended, "{engine}: {kinds:?}"),
            Against::Killed => {
                let held = if [EMULATED, ISOLATED].contains(&engine) { 4 } else { 2 };
                assert!(executions <= ended && executions + held >= ended, "{engine}: {ended}, {kinds:?}");
            }
        }
        // Whoever executes has seen the dispatch, and every execution was submitted before.
        let submits = kinds.get("submit").copied().unwrap_or_default();
        assert!(submits >= executions, "{engine}: {kinds:?}");
    }
}

/// Records of every kind.
fn totals(reconcile: &Value) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for pool in reconcile["pools"].as_array().expect("pools") {
        let kind = pool["kind"].as_str().expect("a name").to_owned();
        *kinds.entry(kind).or_default() += pool["total"].as_u64().expect("a number");
    }
    kinds
}

fn signal(child: &Child, signal: i32) {
    send(child.id(), signal);
}

fn send(pid: u32, signal: i32) {
    // SAFETY: the call touches no memory.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "process {pid} is there");
}

/// A chain of tasks that nap, which does not end by itself before it is ended.
const NAPS: &str = "fault-deadline --set tasks=10000 --set deadline-ms=0 --set nap-ms=3";

#[test]
fn a_kernel_that_never_returns() {
    for engine in [HOST, EMULATED, ISOLATED] {
        let cell = Cell::new(engine);
        let ran = cell.run("fault-hang --op-timeout 500ms");
        assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
        let manifest = cell.check("hung", Some(110), Against::Equal);
        assert_eq!(manifest["error"]["task"], "r1t500", "{engine}");
        // On a chip the scheduler does not leave its core.
        let left = manifest["left_behind"].as_u64();
        assert!(if engine == HOST { left == Some(1) } else { left >= Some(2) }, "{engine}: {left:?}");
    }
    let cell = Cell::new(VIRTUAL);
    let costs = "{\"kernels\":{\"nap\":\"never\"}}";
    let words =
        "run fault-deadline --engine virtual --set deadline-ms=0 --profile --json --out run --region-dir . --costs";
    let mut command = cell.place.command(words.split(' ').chain([costs]));
    let ran = Ran::of(command.env("PLIMSOLL_FAULT_TALLY", cell.tally()).output().expect("the command starts"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let manifest = cell.check("hung", Some(100), Against::Equal);
    assert_eq!(manifest["error"]["class"], "running-stalled", "{}", manifest["error"]);
}

#[test]
fn a_kernel_that_takes_its_process_down() {
    for program in ["fault-abort", "fault-segfault"] {
        for line in [program.to_owned(), format!("{program} --set where=orchestration --set at=600")] {
            let cell = Cell::new(ISOLATED);
            let ran = cell.run(&line);
            assert_eq!(ran.code, Some(1), "{line}: {}", ran.err);
            let manifest = cell.check("failed", Some(111), Against::Killed);
            let words = manifest["error"]["explanation"].as_str().expect("words");
            assert!(words.contains(if program == "fault-abort" { "SIGABRT" } else { "SIGSEGV" }), "{words}");
        }
        for line in [program.to_owned(), format!("{program} --set where=orchestration --set at=600")] {
            for engine in [HOST, EMULATED, VIRTUAL] {
                let cell = Cell::new(engine);
                let ran = cell.run(&line);
                assert_eq!(ran.code, None, "a signal ended it: {}", ran.err);
                cell.place.good("recover run");
                let manifest = cell.check("killed", None, Against::Killed);
                let blocker = &manifest["explanation"]["blocker"];
                let ran: Vec<&Value> = manifest["board"]["running"].as_array().expect("a board").iter().collect();
                // A task is to blame only if it ran.
                assert_eq!(blocker["core"].is_u64(), !ran.is_empty(), "{line}, {engine}: {blocker}, {ran:?}");
                if line == program {
                    assert_eq!(blocker["task"], "r1t500", "{engine}: {}", manifest["explanation"]);
                }
            }
        }
    }
}

#[test]
fn a_scheduler_that_stands_still() {
    for engine in [EMULATED, ISOLATED] {
        let cell = Cell::new(engine);
        let ran = cell.run("fault-slow-scheduler --stall-timeout 500ms");
        assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
        // It held what its cores had finished: their records are in their slots, but it has not settled them.
        let manifest = cell.check("hung", Some(100), Against::Killed);
        assert_eq!(manifest["error"]["class"], "ready-but-idle", "{engine}");
    }
}

#[test]
fn an_orchestration_that_is_stuck_in_its_own_code() {
    for engine in [HOST, EMULATED, ISOLATED] {
        let cell = Cell::new(engine);
        let ran = cell.run("fault-orchestrator --orch-timeout 500ms");
        assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
        let manifest = cell.check("hung", Some(100), Against::Equal);
        assert_eq!(manifest["error"]["class"], "orchestrator-starved", "{engine}");
    }
}

#[test]
fn deadlocks_of_each_kind() {
    for engine in ALL {
        for (program, code) in [
            ("fault-scope-deadlock", 1),
            ("fault-heap", 2),
            ("fault-flow-control", 3),
            ("fault-dep-pool", 4),
            ("fault-tensormap", 11),
        ] {
            let cell = Cell::new(engine);
            let ran = cell.run(program);
            assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
            cell.check("failed", Some(code), Against::Equal);
        }
    }
}

#[test]
fn one_signal() {
    for engine in ALL {
        for (number, exit) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
            let cell = Cell::new(engine);
            let child = cell.start(NAPS);
            signal(&child, number);
            let ran = Ran::of(child.wait_with_output().expect("it ends"));
            assert_eq!(ran.code, Some(exit), "{engine}: {}", ran.err);
            cell.check("interrupted", Some(114), Against::Equal);
        }
    }
}

#[test]
fn two_signals() {
    for engine in ALL {
        let cell = Cell::new(engine);
        let mut child = cell.start(NAPS);
        signal(&child, libc::SIGINT);
        signal(&child, libc::SIGINT);
        let code = child.wait().expect("it ends").code();
        assert_eq!(code, Some(130), "{engine}");
        // The first one may have been faster than the second.
        if cell.place.manifest("run")["status"] == "running" {
            cell.place.good("recover run");
            cell.check("killed", None, Against::Killed);
        } else {
            cell.check("interrupted", Some(114), Against::Equal);
        }
    }
}

#[test]
fn a_device_that_is_killed() {
    let cell = Cell::new(ISOLATED);
    let child = cell.start(NAPS);
    let device = cell.place.manifest("run")["device_pid"].as_u64().expect("a process") as u32;
    send(device, libc::SIGKILL);
    let ran = Ran::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    cell.check("failed", Some(111), Against::Killed);
}

#[test]
fn a_host_that_is_killed() {
    for engine in ALL {
        let cell = Cell::new(engine);
        let mut child = cell.start(NAPS);
        child.kill().expect("killed");
        child.wait().expect("it has ended");
        // A device in a process of its own follows; until it is gone it holds the region.
        while cell.place.run("recover run").code != Some(0) {
            std::thread::sleep(Duration::from_millis(5));
        }
        cell.check("killed", None, Against::Killed);
    }
}

/// Neither is a stopped process told from one that a debugger holds, until somebody asks for the run's end.
#[test]
fn a_device_that_is_stopped() {
    for (budget, exit, status, code) in [("", 143, "interrupted", 114), ("--op-timeout 1s", 1, "failed", 111)] {
        let cell = Cell::new(ISOLATED);
        let child = cell.start(&format!("{NAPS} {budget}"));
        let device = cell.place.manifest("run")["device_pid"].as_u64().expect("a process") as u32;
        send(device, libc::SIGSTOP);
        if budget.is_empty() {
            signal(&child, libc::SIGTERM);
        }
        let ran = Ran::of(child.wait_with_output().expect("it ends"));
        assert_eq!(ran.code, Some(exit), "{}", ran.err);
        cell.check(status, Some(code), Against::Killed);
    }
}

/// Does `test` on every engine at the same time: they spend it waiting.
fn on_each(engines: &[&'static str], test: impl Fn(&'static str) + Sync) {
    std::thread::scope(|scope| engines.iter().for_each(|engine| drop(scope.spawn(|| test(engine)))));
}

#[test]
fn code_that_does_not_return_after_the_deadline() {
    on_each(&[HOST, EMULATED, ISOLATED], |engine| {
        for (program, task) in [("fault-hang --set at=20", Some("r1t20")), ("fault-orchestrator", None)] {
            let cell = Cell::new(engine);
            let ran = cell.run(&format!("{program} --deadline-ms 3000"));
            assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
            let manifest = cell.check("failed", Some(23), Against::Equal);
            assert_eq!(manifest["error"]["task"].as_str(), task, "{engine}");
            assert!(manifest["left_behind"].as_u64() >= Some(1), "{engine}: {manifest}");
        }
    });
}

/// The run is given up, in virtual time by a thread beside the one that is in the code that does not return.
#[test]
fn code_that_does_not_return_after_a_signal() {
    on_each(&ALL, |engine| {
        for (program, task) in [("fault-hang --set at=20", Some("r1t20")), ("fault-orchestrator", None)] {
            let cell = Cell::new(engine);
            let mut child = cell.spawn(program);
            while cell.ended() < 10 {
                assert!(child.try_wait().expect("a child").is_none(), "{engine}: it ended by itself");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(1500));
            signal(&child, libc::SIGINT);
            let ran = Ran::of(child.wait_with_output().expect("it ends"));
            assert_eq!(ran.code, Some(130), "{engine}: {}", ran.err);
            // The code of a task may have ended whose virtual time has not passed.
            let against = if engine == VIRTUAL { Against::Killed } else { Against::Equal };
            let manifest = cell.check("interrupted", Some(114), against);
            let told = &manifest["explanation"];
            // Tasks whose virtual time has not passed run, too, while the orchestration is in its own code: that is said.
            let is_in_doubt = engine == VIRTUAL && task.is_none() && told["certain"] == false;
            assert!(is_in_doubt || told["blocker"]["task"].as_str() == task, "{engine}: {manifest}");
        }
    });
}

/// A file size limit stands for a full disk.
#[test]
fn a_disk_that_is_full() {
    for engine in ALL {
        let cell = Cell::new(engine);
        let line = cell.line("fault-kernel-error --set tasks=400000 --set at=1000000 --ring-heap 1m");
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("ulimit -f 12288; exec {} {line}", env!("CARGO_BIN_EXE_plimsoll"))]);
        let shell = shell.current_dir(cell.place.path()).env("PLIMSOLL_FAULT_TALLY", cell.tally());
        let ran = Ran::of(shell.output().expect("a shell"));
        assert_eq!(ran.code, Some(1), "{engine}: {}", ran.err);
        let manifest = cell.place.manifest("run");
        assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"failed".into(), &113.into()), "{engine}");
        assert_eq!(manifest["explanation"]["class"], "failed", "{engine}");
        let (_, lost) = balance(&manifest["reconcile"]);
        assert!(lost > 0, "{engine}: something did not fit");
        assert_eq!(totals(&manifest["reconcile"])["aicore_task"], cell.ended(), "{engine}: what is lost is counted");
        assert_eq!(cell.place.run("check run").code, Some(1), "{engine}: and told");
        cell.place.good("stats run");
    }
}

/// The process that drains is stopped, and goes on when the device has given it up and is done: more was recorded than buffers hold.
#[test]
fn a_collector_that_is_stopped() {
    const TASKS: u64 = 200_000;
    for dump in ["", "--dump-args=2 --dump-bytes 64"] {
        let cell = Cell::new(ISOLATED);
        let program = format!("fault-kernel-error --set tasks={TASKS} --set at=1000000 --ring-heap 1m");
        let child = cell.start(&format!("{program} --host-gone-timeout 300ms {dump}"));
        signal(&child, libc::SIGSTOP);
        while cell.ended() < TASKS {
            std::thread::sleep(Duration::from_millis(50));
        }
        signal(&child, libc::SIGCONT);
        let ran = Ran::of(child.wait_with_output().expect("it ends"));
        let manifest = cell.place.manifest("run");
        assert_eq!((ran.code, manifest["error"]["code"].as_u64()), (Some(1), Some(112)), "{dump}: {}", ran.err);
        let (_, lost) = balance(&manifest["reconcile"]);
        assert!(lost > 0, "{dump}: something did not fit");
        let kinds = totals(&manifest["reconcile"]);
        assert_eq!(kinds["aicore_task"], TASKS, "{dump}: what is lost is counted");
        assert_eq!(kinds.contains_key("arg_dump"), !dump.is_empty(), "{kinds:?}");
        assert_eq!(cell.place.run("check run").code, Some(1), "{dump}: and told");
        cell.place.good("stats run");
    }
}

/// What was drained is put back, the rest is in the region, and the list of orphans leads there.
#[test]
fn a_directory_that_is_removed() {
    for engine in ALL {
        let cell = Cell::new(engine);
        // On shared memory: nothing but the region knows of the run.
        let line = format!(
            "run fault-deadline --set tasks=300 --set deadline-ms=0 --set nap-ms=3 {engine} --profile --out run"
        );
        let mut command = cell.place.command(line.split_whitespace());
        command.env("PLIMSOLL_FAULT_TALLY", cell.tally()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        while cell.ended() < 5 {
            assert!(child.try_wait().expect("a child").is_none(), "{engine}: it ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::fs::remove_dir_all(cell.place.path().join("run")).expect("removed");
        let ran = Ran::of(child.wait_with_output().expect("it ends"));
        assert!(ran.code == Some(1) && ran.err.contains("was removed"), "{engine}: {:?} {}", ran.code, ran.err);
        let dir = std::fs::canonicalize(cell.place.path()).expect("a place").join("run");
        let orphans = plimsoll::collect::orphans(&cell.place.path().join("none"));
        assert!(orphans.iter().any(|orphan| orphan.dir.as_ref() == Some(&dir)), "{engine}: it is listed");
        // The run has put segments back, and no manifest: the region is what tells of it.
        let told = cell.place.good("explain run");
        assert!(told.err.contains("run is gone"), "{engine}: {}", told.err);
        cell.place.good("recover run");
        cell.check("killed", None, Against::Equal);
    }
}

/// The region lies in the directory and goes with it. The run puts both its records and its manifest back.
#[test]
fn a_directory_that_is_removed_with_its_region() {
    for engine in ALL {
        let cell = Cell::new(engine);
        std::fs::create_dir(cell.place.path().join("run")).expect("made");
        let line = format!(
            "run fault-deadline --set tasks=300 --set deadline-ms=0 --set nap-ms=3 {engine} --profile --out run --region-dir run"
        );
        let mut command = cell.place.command(line.split_whitespace());
        command.env("PLIMSOLL_FAULT_TALLY", cell.tally()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        while cell.ended() < 5 {
            assert!(child.try_wait().expect("a child").is_none(), "{engine}: it ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::fs::remove_dir_all(cell.place.path().join("run")).expect("removed");
        let told = cell.place.good(&format!("explain --pid {} --json", child.id()));
        assert!(told.err.contains("was removed"), "{engine}: {}", told.err);
        let ran = Ran::of(child.wait_with_output().expect("it ends"));
        assert_eq!(ran.code, Some(0), "{engine}: {}", ran.err);
        cell.check("ok", None, Against::Equal);
    }
}

/// Either side is killed at any moment, with records of every kind on: nothing that was published is lost. Twenty times, or as
/// often as `cargo xtask kill --times` says.
#[test]
fn kills_at_random_moments() {
    let times = std::env::var("PLIMSOLL_KILLS").ok().and_then(|times| times.parse().ok()).unwrap_or(20);
    for kill in 0..times {
        let engine = ALL[kill % ALL.len()];
        let cell = Cell::new(engine);
        let every = "--dump-args=2 --dump-bytes 64 --pmu";
        let mut child = cell.start(&format!("fault-kernel-error --set tasks=1000000 --set at=2000000 {every}"));
        // The last digits of the clock are as good a die as any.
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
        std::thread::sleep(Duration::from_micros(u64::from(nanos) % 300_000));
        if engine == ISOLATED && (kill / ALL.len()).is_multiple_of(2) {
            let device = cell.place.manifest("run")["device_pid"].as_u64().expect("a process") as u32;
            send(device, libc::SIGKILL);
            child.wait().expect("it ends");
            cell.check("failed", Some(111), Against::Killed);
            continue;
        }
        child.kill().expect("killed");
        child.wait().expect("it has ended");
        while cell.place.run("recover run").code != Some(0) {
            std::thread::sleep(Duration::from_millis(5));
        }
        cell.check("killed", None, Against::Killed);
    }
}
