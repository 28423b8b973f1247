//! `plimsoll run`: what it prints, what it leaves behind and how it exits.

use plimsoll::abi::ErrorCode;

use crate::harness::{Place, balance};
use serde_json::Value;

/// Every field, and whether a value has its type.
type Field = (&'static str, fn(&Value) -> bool);

const FIELDS: [Field; 16] = [
    ("status", Value::is_string),
    ("error", |v| v.is_null() || v.is_object()),
    ("program", Value::is_string),
    ("engine", Value::is_string),
    ("arch", Value::is_string),
    ("virtual", Value::is_boolean),
    ("tasks", Value::is_u64),
    ("dispatches", Value::is_u64),
    ("makespan_ns", |v| v.is_null() || v.is_u64()),
    ("elapsed_ns", Value::is_u64),
    ("utilisation", |v| v.is_null() || v.is_f64()),
    ("verified", Value::is_boolean),
    ("detail", |v| v.is_null() || v.is_string()),
    ("out", |v| v.is_null() || v.is_string()),
    ("reconcile", |v| v.is_null() || v.is_object()),
    ("load", Value::is_array),
];

const ERROR_FIELDS: [Field; 12] = [
    ("code", Value::is_u64),
    ("name", Value::is_string),
    ("explanation", Value::is_string),
    ("resource", |v| v.is_null() || v.is_string()),
    ("ring", |v| v.is_null() || v.is_u64()),
    ("site", |v| v.is_null() || v.is_string()),
    ("used", |v| v.is_null() || v.is_u64()),
    ("capacity", |v| v.is_null() || v.is_u64()),
    ("needed", |v| v.is_null() || v.is_u64()),
    ("needed_is_bound", |v| v.is_null() || v.is_boolean()),
    ("task", |v| v.is_null() || v.is_string()),
    ("kernel", |v| v.is_null() || v.is_string()),
];

/// A program may say more than this, never less and never of another type.
#[track_caller]
fn has_fields(object: &Value, fields: &[Field]) {
    for (name, is_right) in fields {
        let value = object.get(name).unwrap_or_else(|| panic!("{name} is missing in {object}"));
        assert!(is_right(value), "{name} is {value}");
    }
}

fn programs(fault: bool) -> impl Iterator<Item = &'static str> {
    plimsoll_programs::ALL.iter().filter(move |program| program.fault == fault).map(|program| program.name)
}

#[test]
fn every_program_is_verified_and_prints_one_object() {
    let place = Place::new();
    for name in programs(false) {
        let ran = place.good(&format!("run {name} --json"));
        let object = ran.json();
        has_fields(&object, &FIELDS);
        assert_eq!(
            (&object["status"], &object["error"], &object["program"], &object["verified"]),
            (&"ok".into(), &Value::Null, &name.into(), &true.into())
        );
        // A task in blocks is dispatched once per block.
        let [tasks, dispatches] = ["tasks", "dispatches"].map(|field| object[field].as_u64().expect("a count"));
        let in_blocks = ["spmd", "mixed"].contains(&name);
        assert!(dispatches == tasks || (in_blocks && dispatches > tasks), "{name}: {dispatches} of {tasks}");
        // Kernels ran within the run. Of a short one the counter's rate and the pairs of the recording differ a little.
        let [makespan, elapsed] = ["makespan_ns", "elapsed_ns"].map(|field| object[field].as_u64().expect("a time"));
        assert!(makespan > 0 && elapsed + elapsed / 10 >= makespan, "{name}: {makespan} in {elapsed}");
        assert_eq!(balance(&object["reconcile"]).1, 0, "{name}");
        let out = object["out"].as_str().expect("a directory");
        let manifest = place.manifest(out);
        for field in ["status", "program", "engine", "arch", "tasks", "dispatches", "elapsed_ns", "verified"] {
            assert_eq!(manifest[field], object[field], "{name}: {field}");
        }
        assert_eq!(place.good(&format!("check {out} --json")).json()["sound"], true);
    }
    let latest = std::fs::read_link(place.path().join("outputs/latest")).expect("a link");
    assert!(latest.to_string_lossy().starts_with("decode-layer_"), "{latest:?}");
}

#[test]
fn people_read_a_verdict_times_the_load_and_what_to_do_next() {
    let place = Place::new();
    let ran = place.good("run cholesky");
    for part in ["cholesky: verified", "tasks/s", "load: ", "* fullest: ", "nothing lost", "next: plimsoll stats"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let ran = place.good("run cholesky --no-record");
    assert!(ran.out.contains("next: plimsoll run cholesky --profile"), "{}", ran.out);
}

#[test]
fn the_last_line_makes_the_page_of_this_run() {
    let place = Place::new();
    let next = |out: &str| out.lines().last().and_then(|line| line.strip_prefix("next: ")).expect("advice").to_owned();
    let elsewhere = next(&place.good("run vector --set n=2048 --out my$runs").out);
    assert!(elsewhere.contains("plimsoll report 'my$runs' --open"), "{elsewhere}");
    let newest = next(&place.good("run vector --set n=2048").out);
    assert!(newest.contains("· plimsoll report --open ·"), "{newest}");
    let elsewhere = next(&place.good("run vector --set n=2048 --out zz").out);
    assert!(elsewhere.contains("· plimsoll report zz --open ·"), "{elsewhere}");
    let failed = next(&place.run("run fault-scope-deadlock --out dead").out);
    assert!(failed.ends_with("· plimsoll report dead --open"), "{failed}");
}

#[test]
fn a_page_of_nothing_is_refused() {
    let place = Place::new();
    let ran = place.run("run cholesky --swimlane=0 --report --out l0");
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("--report cannot be used here"), "{}", ran.err);
    place.good("run cholesky --swimlane=0 --scope-stats --report --out l0");
    assert!(place.path().join("l0/report.html").is_file());
}

#[test]
fn every_fault_program_exits_1_with_its_code_and_a_whole_capture() {
    let place = Place::new();
    let codes = [1, 2, 3, 4, 5, 7, 8, 9, 11, 20, 21, 23];
    // Those that hang or crash are in `hang.rs` and `ends.rs`; in `fault-nan` nothing fails but the result.
    let other = [
        "fault-hang",
        "fault-spin",
        "fault-abort",
        "fault-segfault",
        "fault-slow-scheduler",
        "fault-orchestrator",
        "fault-nan",
    ];
    let faults = || programs(true).filter(|name| !other.contains(name));
    assert_eq!(faults().count(), codes.len());
    for (name, code) in faults().zip(codes) {
        let ran = place.run(&format!("run {name} --json"));
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.err);
        let object = ran.json();
        has_fields(&object, &FIELDS);
        let error = &object["error"];
        has_fields(error, &ERROR_FIELDS);
        assert_eq!((&object["status"], &object["verified"]), (&"failed".into(), &false.into()));
        assert_eq!(error["code"], code, "{name}: {error}");
        balance(&object["reconcile"]);
        let out = object["out"].as_str().expect("a directory");
        let manifest = place.manifest(out);
        assert_eq!(manifest["status"], "failed");
        for (field, _) in ERROR_FIELDS {
            let there = manifest["error"].get(field).unwrap_or(&Value::Null);
            assert_eq!(there, &error[field], "{name}: {field}");
        }
        check_error(name, error);
        let check = place.good(&format!("check {out} --json")).json();
        assert_eq!(balance(&check["reconcile"]), balance(&object["reconcile"]), "{name}");
        if matches!(code, 1..=4 | 11) {
            check_scopes(&place, out, error);
        }
        let explained = place.good(&format!("explain {out}"));
        assert!(explained.out.contains(error["explanation"].as_str().expect("text")), "{}", explained.out);
    }
}

/// The message says what its fields say.
#[track_caller]
fn check_error(name: &str, error: &Value) {
    let text = error["explanation"].as_str().expect("text");
    let number = |field: &str| error[field].as_u64().unwrap_or_else(|| panic!("{field} of {name}: {error}"));
    if error["resource"].is_null() {
        for field in ["ring", "used", "capacity", "needed", "needed_is_bound"] {
            assert!(error[field].is_null(), "{name}: {field} is {}", error[field]);
        }
    } else {
        let (used, capacity, needed) = (number("used"), number("capacity"), number("needed"));
        let asked = between(text, "the next task needs ", " more").parse::<u64>().expect("a number");
        assert!(text.contains(&format!("{used} of {capacity} are held")), "{name}: {text}");
        assert!(used <= capacity && used + asked > capacity && needed > capacity, "{name}: {text}");
        assert_eq!(error["needed_is_bound"], false, "{name}");
        assert!(text.contains(&format!("the scope needs {needed}: use --")), "{name}: {text}");
        let (site, task) = (error["site"].as_str().expect("a site"), error["task"].as_str().expect("a task"));
        assert!(text.contains(site) && text.contains(task), "{name}: {text}");
        assert_eq!(error["ring"].is_null(), error["resource"] == "tensormap", "{name}");
        assert!(error["ring"].as_u64().is_none_or(|ring| task.starts_with(&format!("r{ring}t"))), "{name}: {task}");
    }
    if matches!(number("code"), 20 | 21) {
        assert_eq!((&error["kernel"], &error["task"]), (&"write".into(), &"r1t500".into()));
    }
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} is not in {text}")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("{after:?} is not in {rest}")).0
}

/// The samples of a run that ran out of something say so, and `scopes` begins with it.
fn check_scopes(place: &Place, out: &str, error: &Value) {
    let lines = std::fs::read_to_string(place.path().join(out).join("scope_stats/scope_stats.jsonl")).expect("samples");
    let first: Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["fatal"], true, "{first}");
    let table = place.good(&format!("scopes {out}")).out;
    let line = table.lines().next().expect("a line");
    let (site, resource) = (error["site"].as_str().expect("a site"), error["resource"].as_str().expect("a resource"));
    assert!(line.contains(&format!("The scope at {site} exhausted {resource}")), "{line}");
    assert_eq!(line.contains("on ring"), !error["ring"].is_null(), "{line}");
    let table = place.good(&format!("scopes {out} --json")).json();
    assert_eq!(table["fatal"], true);
    for field in ["site", "resource", "ring", "used", "capacity", "needed", "needed_is_bound"] {
        assert_eq!(table["exhausted"][field], error[field], "{field}");
    }
    let fullest: Vec<f64> = table["scopes"]
        .as_array()
        .expect("scopes")
        .iter()
        .map(|row| row["fullest"].as_f64().expect("a share"))
        .collect();
    assert!(fullest.is_sorted_by(|a, b| a >= b), "{fullest:?}");
}

/// The flags that an error tells to use are accepted as they stand, and do what it says.
#[test]
fn what_an_error_says_to_use_can_be_pasted_and_helps() {
    let place = Place::new();
    for name in ["fault-scope-deadlock", "fault-heap", "fault-flow-control", "fault-dep-pool", "fault-tensormap"] {
        let error = place.run(&format!("run {name} --no-record --json")).json()["error"].clone();
        let text = error["explanation"].as_str().expect("text").to_owned();
        let flags = between(&text, "use ", " (or ").to_owned();
        place.good(&format!("run {name} --no-record {flags}"));
        let variable = between(&text, "(or ", ")");
        let value = flags.split_once(' ').expect("a flag and a value").1;
        let ran = place.command(["run", name, "--no-record"]).env(variable, value).output().expect("it starts");
        assert!(ran.status.success(), "{variable}={value} {name}");
    }
}

/// Every code that a command can show has one to try, which can be pasted and fails with that code.
#[test]
fn what_explain_says_to_try_gives_the_code() {
    let place = Place::new();
    for &code in ErrorCode::ALL {
        let number = code.number();
        let told = place.good(&format!("explain --code {number} --json")).json();
        assert_eq!((&told["code"], &told["name"]), (&number.into(), &code.name().into()));
        let text = place.good(&format!("explain --code {number}")).out;
        assert!(text.contains(code.name()), "{text}");
        let Some(line) = told["try"].as_str() else {
            let by_no_command = [ErrorCode::Defect, ErrorCode::DeviceLost, ErrorCode::HostGone];
            assert!(by_no_command.contains(&code), "{code} can be shown");
            continue;
        };
        assert!(line.contains("plimsoll run ") && text.contains("try: "), "{line}");
        let run = format!("{} run --json", env!("CARGO_BIN_EXE_plimsoll"));
        let line = line.replacen("plimsoll run", &run, 1);
        let ran = std::process::Command::new("bash").args(["-c", &line]).current_dir(place.path()).output();
        let ran = crate::harness::Ran::of(ran.expect("a shell"));
        if code == ErrorCode::SystemRefused {
            // There is no device, and so no run.
            assert!(ran.code == Some(1) && ran.err.contains("SystemRefused (26)"), "{line}: {}", ran.err);
            continue;
        }
        let object = ran.json();
        let exit = if code == ErrorCode::Interrupted { 130 } else { 1 };
        assert_eq!((ran.code, &object["error"]["code"]), (Some(exit), &number.into()), "{line}: {object}");
        has_fields(&object["error"], &ERROR_FIELDS);
    }
}

/// Rounds repeat a program, streamed or built once, on every engine; records carry the round.
#[test]
fn rounds_are_recorded_apart_and_joined_with_their_own_submits() {
    let place = Place::new();
    let once = place.good("run vector --no-record --json").json()["tasks"].as_u64().expect("tasks");
    let ways = ["", "--prebuilt", "--arch a2a3", "--arch a2a3 --prebuilt", "--engine virtual --prebuilt"];
    for (at, way) in ways.into_iter().enumerate() {
        let dir = format!("rounds{at}");
        let object = place.good(&format!("run vector {way} --rounds 3 --profile --json --out {dir}")).json();
        assert_eq!((&object["verified"], &object["tasks"]), (&true.into(), &(3 * once).into()), "{way}");
        assert_eq!(place.manifest(&dir)["rounds"], 3, "{way}");
        place.good(&format!("check {dir}"));
        let read = |file: &str| -> Value {
            let text = std::fs::read_to_string(place.path().join(&dir).join(file)).expect("a file");
            serde_json::from_str(&text).expect("JSON")
        };
        let words = |list: &Value, id: &dyn Fn(&Value) -> u64| -> std::collections::BTreeSet<u64> {
            list.as_array().expect("a list").iter().map(id).collect()
        };
        let ran = words(&read("chip_swimlane_records.json")["aicore_tasks"], &|row| row[1].as_u64().expect("an id"));
        let text = |value: &Value| value.as_str().and_then(|id| id.parse().ok()).expect("an id");
        let deps = read("deps.json");
        let submitted = words(&deps["tasks"], &|task| text(&task["task_id"]));
        assert_eq!(ran.len() as u64, 3 * once, "{way}");
        assert_eq!(ran, submitted, "{way}");
        let round = |word: u64| word >> 40;
        assert!((0..3).all(|r| submitted.iter().filter(|word| round(**word) == r).count() as u64 == once), "{way}");
        for edge in deps["edges"].as_array().expect("edges") {
            assert_eq!(round(text(&edge["pred"])), round(text(&edge["succ"])), "{way}: {edge}");
        }
    }
}

/// A graph that cannot be built is a failed run, with its directory.
#[test]
fn a_graph_that_cannot_be_built_leaves_its_directory() {
    let place = Place::new();
    for (line, code) in [("fault-fatal --prebuilt", 5), ("vector --prebuilt --prebuilt-limit 100", 10)] {
        let ran = place.run(&format!("run {line} --json --out {code}"));
        assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(1), &code.into()), "{line}");
        let manifest = place.manifest(&code.to_string());
        assert_eq!((&manifest["status"], &manifest["error"]["code"]), (&"failed".into(), &code.into()));
        place.good(&format!("check {code}"));
    }
}

#[test]
fn levels_record_what_they_say_and_nothing_else() {
    let place = Place::new();
    let core = ["aicore_task", "scope_rings", "scope_sample"].as_slice();
    let all = ["aicore_task", "aicpu_orch_phase", "aicpu_sched_phase", "aicpu_task", "scope_rings", "scope_sample"]
        .as_slice();
    let every: Vec<&str> = all.iter().copied().chain(["submit"]).collect();
    let cases: [(&str, u64, &[&str], bool); 8] = [
        ("", 1, core, false),
        ("--swimlane=1", 1, core, false),
        ("--swimlane=2", 2, &["aicore_task", "aicpu_task", "scope_rings", "scope_sample"], false),
        ("--swimlane=3", 3, &["aicore_task", "aicpu_sched_phase", "aicpu_task", "scope_rings", "scope_sample"], false),
        ("--swimlane=4", 4, all, false),
        ("--swimlane", 4, all, false),
        ("--profile", 4, &every, true),
        ("--swimlane=0 --scope-stats", 0, &["scope_rings", "scope_sample"], false),
    ];
    for (at, (flags, level, kinds, deps)) in cases.into_iter().enumerate() {
        let dir = format!("run{at}");
        let object = place.good(&format!("run vector {flags} --out {dir} --json")).json();
        assert_eq!(object["out"], dir.as_str());
        let manifest = place.manifest(&dir);
        assert_eq!(manifest["level"], level, "{flags}");
        let pools = object["reconcile"]["pools"].as_array().expect("pools");
        let mut found: Vec<&str> = pools.iter().map(|pool| pool["kind"].as_str().expect("a kind")).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, kinds, "{flags}");
        let files = place.files(&dir);
        let has = |name: &str| files.iter().any(|file| file == name);
        assert!(has("run.json") && has("records") && has("scope_stats"), "{flags}: {files:?}");
        assert_eq!(has("deps.json"), deps, "{flags}: {files:?}");
        assert_eq!(has("chip_swimlane_records.json"), level > 0, "{flags}: {files:?}");
        let listed: Vec<&str> =
            manifest["files"].as_array().expect("files").iter().map(|file| file.as_str().expect("a name")).collect();
        assert!(listed.iter().all(|file| place.path().join(&dir).join(file).exists()), "{flags}: {listed:?}");
        place.good(&format!("check {dir}"));
    }
    let object = place.good("run vector --no-record --json").json();
    assert!(object["out"].is_null() && object["reconcile"].is_null());
    assert_eq!(place.good("run vector --swimlane=0 --json").json()["out"], Value::Null);
}

#[test]
fn nothing_is_dropped_unless_asked_and_require_lossless_notices() {
    let place = Place::new();
    let big = "run vector --set n=400000 --set block=8 --profile --json";
    let object = place.good(&format!("{big} --require-lossless --out block")).json();
    assert_eq!(balance(&object["reconcile"]).1, 0);
    place.good("check block");
    let ran = place.run(&format!("{big} --on-full drop --require-lossless --out drop"));
    let (total, lost) = balance(&ran.json()["reconcile"]);
    assert!(total > 0);
    let code = i32::from(lost > 0);
    assert_eq!(ran.code, Some(code), "{lost} of {total} lost: {}", ran.err);
    assert_eq!(place.run("check drop").code, Some(code));
}
