//! Captured arguments, as a user meets them: on every engine and transport, beside all other records, after abnormal ends, and
//! one task run again.

use crate::harness::{Place, Ran, balance, samples};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn rows(place: &Place, dir: &str) -> Vec<Value> {
    place.good(&format!("args {dir} --json")).json()["args"].as_array().expect("arguments").clone()
}

/// What was captured of each argument, whoever captured it and when.
fn captured(place: &Place, dir: &str) -> Vec<String> {
    let row = |row: &Value| {
        format!("{} {} {} {} {} {}", row["task"], row["kernel"], row["index"], row["stage"], row["shape"], row["stats"])
    };
    let mut rows: Vec<String> = rows(place, dir).iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn every_engine_and_transport_captures_the_same_beside_all_other_records() {
    let place = Place::new();
    let small = "--clusters 2 --sched-threads 1";
    for (at, machine) in [
        String::new(),
        "--transport shadow".to_owned(),
        format!("--arch a2a3 {small}"),
        format!("--arch a5 {small}"),
        format!("--arch a5 {small} --isolate"),
        format!("--arch a5 {small} --isolate --transport mapped"),
        "--arch a2a3 --engine virtual".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        for program in ["vector", "spmd"] {
            let dir = format!("{program}{at}");
            let line = format!("run {program} {machine} --profile --dump-args=2 --require-lossless --out {dir} --json");
            let ran = place.good(&line).json();
            assert_eq!(balance(&ran["reconcile"]).1, 0, "{line}");
            let pools = ran["reconcile"]["pools"].as_array().expect("pools").clone();
            for kind in ["arg_dump", "submit", "aicpu_orch_phase", "aicore_task"] {
                let of_kind = pools.iter().filter(|pool| pool["kind"] == kind);
                assert!(
                    of_kind.map(|pool| pool["total"].as_u64().expect("a number")).sum::<u64>() > 0,
                    "{line}: {kind}"
                );
            }
            assert_eq!(place.run(&format!("check {dir}")).code, Some(0), "{line}");
            assert_eq!(captured(&place, &dir), captured(&place, &format!("{program}0")), "{line}");
        }
    }
}

#[test]
fn a_task_that_made_a_nan_is_found_and_makes_it_again() {
    let place = Place::new();
    place.good("run fault-nan --set at=1000 --dump-args=2 --out fine");
    assert_eq!(place.run("run fault-nan --set at=30 --dump-args=2 --out spoilt").code, Some(1));
    assert_eq!(place.good("args spoilt --first-nan --json").json()["first_nan"]["task"], "r1t30");
    assert_eq!(place.good("args spoilt --diff fine --json").json()["diff"]["first"]["task"], "r1t30");
    let values = place.good("args spoilt --diff fine --json").json()["diff"]["first"]["values"].clone();
    assert!(values[0] == "NaN" && values[1].is_number(), "{values}");
    let replay = place.good("args spoilt --replay r1t30 --times 5 --json").json()["replay"].clone();
    assert_eq!((&replay["same"], &replay["times"], &replay["kernel"]), (&true.into(), &5.into(), &"halve".into()));
    assert!(replay["min_ns"].as_u64() <= replay["median_ns"].as_u64() && replay["first"].is_null(), "{replay}");
}

/// Without elements, or with a part of them, nobody can say that all is well.
#[test]
fn an_answer_says_how_much_of_the_outputs_it_has_seen() {
    let place = Place::new();
    for (dir, at, level) in [("a", 37, "3"), ("b", 1000, "3"), ("cut", 37, "2 --dump-bytes 100"), ("whole", 1000, "2")]
    {
        place.run(&format!("run fault-nan --set at={at} --dump-args={level} --out {dir}"));
    }
    for (line, nothing) in [("args a --diff b", 100), ("args cut --diff whole", 0), ("args whole --diff cut", 0)] {
        let said = place.good(line).out;
        assert!(!said.contains("All ") && !said.contains("other inputs"), "{line}: {said}");
        let diff = place.good(&format!("{line} --json")).json()["diff"].clone();
        assert_eq!((&diff["compared_tasks"], &diff["not_compared"]), (&0.into(), &100.into()), "{line}: {diff}");
        assert_eq!((&diff["nothing_compared"], &diff["first"]), (&nothing.into(), &Value::Null), "{line}: {diff}");
    }
    for dir in ["a", "cut"] {
        let said = place.good(&format!("args {dir} --first-nan")).out;
        assert!(!said.contains("No captured task") && said.contains("captured"), "{dir}: {said}");
        let answer = place.good(&format!("args {dir} --first-nan --json")).json();
        assert_eq!((&answer["first_nan"], &answer["nan_search"]["not_searched"]), (&Value::Null, &100.into()), "{dir}");
    }
    std::fs::remove_file(place.path().join("whole/args_dump/args.bin")).expect("removed");
    let said = place.good("args whole --diff whole").out;
    assert!(said.contains("Nothing was compared") && said.contains("elements are not"), "{said}");
    place.good("run vector --prebuilt --dump-args=2 --out prebuilt");
    place.good("run vector --dump-args=2 --out streamed");
    let said = place.good("args prebuilt --diff streamed").out;
    assert!(said.contains("Nothing was compared: no task is in both"), "{said}");
}

/// Strided views, lists, blocks, parts: the first task of every kernel of every program makes the same again.
#[test]
fn a_task_of_every_kernel_is_run_again() {
    let place = Place::new();
    for program in plimsoll_programs::ALL.iter().filter(|program| !program.fault) {
        let dir = program.name;
        place.good(&format!("run {dir} --dump-args=2 --out {dir}"));
        let mut seen = Vec::new();
        for row in rows(&place, dir) {
            if seen.contains(&row["kernel"]) {
                continue;
            }
            let task = row["task"].as_str().expect("a task");
            let told = place.good(&format!("args {dir} --replay {task}")).out;
            assert!(told.contains("made the same again, bit by bit"), "{dir} {task}: {told}");
            seen.push(row["kernel"].clone());
        }
        assert!(!seen.is_empty(), "{dir}");
    }
}

#[test]
fn what_cannot_be_run_again_is_said_in_words() {
    let place = Place::new();
    place.good("run vector --dump-args=2 --dump-bytes 64 --out cut");
    place.good("run vector --dump-args=3 --out shapes");
    for (line, why) in [
        ("args cut --replay r1t0", "--dump-bytes"),
        ("args shapes --replay r1t0", "--dump-args=2"),
        ("args cut --replay r9t0", "Nothing of r9t0"),
        ("args cut --replay nonsense", "names no task"),
    ] {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(2), "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(why), "{line}: {}", ran.err);
    }
    if let Some(samples) = samples() {
        let dump = samples.join("vector_example-a2a3sim/dump_args2");
        let ran = place.run(&format!("args {} --replay r0t0", dump.display()));
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains("built-in programs"), "{}", ran.err);
    }
}

/// A dump whose kernel makes something else now: the bytes of an output were changed behind its back.
#[test]
fn a_task_that_makes_something_else_is_told() {
    let place = Place::new();
    place.good("run vector --dump-args=2 --out run");
    let list: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("run/args_dump/args_dump.json")).expect("a list"))
            .expect("JSON");
    let made = list["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .find(|arg| arg["stage"] == "after_completion")
        .expect("an output");
    let elements = place.path().join("run/args_dump/args.bin");
    let mut bytes = std::fs::read(&elements).expect("elements");
    bytes[made["bin_offset"].as_u64().expect("a place") as usize + 3] ^= 0x40;
    std::fs::write(&elements, bytes).expect("written");
    let task =
        u64::from_str_radix(made["task_id"].as_str().expect("a task").trim_start_matches("0x"), 16).expect("a number");
    let ran = place.run(&format!("args run --replay r{}t{} --json", task >> 32, task as u32));
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let replay = &ran.json()["replay"];
    assert_eq!((&replay["same"], &replay["first"]["elements"]), (&false.into(), &1.into()), "{replay}");
}

#[test]
fn a_run_in_which_nothing_was_marked_names_the_level_that_captures() {
    let place = Place::new();
    let ran = place.run("run vector --dump-args --out run");
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.err.contains("--dump-args=2"), "{}", ran.err);
}

#[test]
fn a_choice_of_tasks_that_captures_nothing_is_told() {
    let place = Place::new();
    for (at, (line, code, words)) in [
        ("--dump-args=2 --dump-tasks r3t999", 1, "--dump-tasks names (r3t999). Name other tasks"),
        ("--dump-args=3 --dump-tasks r3t999,r3t998", 1, "--dump-tasks names (r3t999, r3t998)"),
        ("--dump-args --dump-tasks add", 1, "no task that ran and that --dump-tasks names (add) has one"),
        ("--dump-args=2 --dump-tasks r1t0@1", 1, "--dump-tasks names (r1t0@1)"),
        ("--dump-args=2 --dump-tasks nope", 2, "--dump-tasks cannot be nope"),
        ("--dump-args=2 --dump-tasks nope --arch a5 --isolate", 2, "Its kernels are add"),
    ]
    .into_iter()
    .enumerate()
    {
        let ran = place.run(&format!("run vector {line} --out run{at} --region-dir ."));
        assert_eq!(ran.code, Some(code), "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{line}: {}", ran.err);
    }
    place.good("run vector --dump-args=2 --dump-tasks r3t999,r1t0 --out one");
}

#[test]
fn a_killed_run_gives_what_it_had_captured() {
    let place = Place::new();
    let line = "run paged-attention --set tokens=16384 --set batch=8 --dump-tensor=2 --out run --region-dir .";
    let mut command = place.command(line.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let segment = place.path().join("run/records/records.seg");
    let begun = Instant::now();
    while segment.metadata().map_or(0, |file| file.len()) < 1 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().expect("a child").is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let unrecovered = place.run("args run");
    assert!(unrecovered.err.contains("was killed") && unrecovered.err.contains("recover run"), "{}", unrecovered.err);
    let recovered = place.good("recover run --json").json();
    assert_eq!(balance(&recovered["reconcile"]).1, 0);
    let rows = rows(&place, "run");
    assert!(rows.len() > 100, "{}", rows.len());
    assert_eq!(place.good("args run --json").json()["dump_args_level"], 2, "however it was asked for");
    let task = rows.iter().find(|row| row["stage"] == "after_completion").expect("an output")["task"].clone();
    let told = place.good(&format!("args run --replay {}", task.as_str().expect("a task"))).out;
    assert!(told.contains("made the same again"), "{told}");
}

/// The reference gives one number to arguments that it cannot tell apart, and a damaged list may ask for more bytes than there are.
#[test]
fn only_whole_tensors_become_files_and_each_has_its_own() {
    let place = Place::new();
    place.good("run vector --set n=64 --set block=32 --dump-args=2 --out run");
    let file = place.path().join("run/args_dump/args_dump.json");
    let mut list: Value = serde_json::from_slice(&std::fs::read(&file).expect("a list")).expect("JSON");
    let args = list["args"].as_array_mut().expect("arguments");
    let tensors = args.iter().filter(|arg| arg["kind"] == "tensor").count();
    let output = args.iter().position(|arg| arg["stage"] == "after_completion").expect("an output");
    args.push(args[output].clone());
    args[0]["bin_size"] = 4.into();
    std::fs::write(&file, list.to_string()).expect("written");
    let ran = place.good("args run --npy npy");
    let files = place.files("npy");
    assert_eq!(files.len(), tensors, "one more, one less: {files:?}");
    assert!(files.iter().any(|name| name.ends_with("_after_completion_2.npy")), "{files:?}");
    assert!(ran.err.contains("1 tensors were left out"), "{}", ran.err);
}

/// What was captured before the disk was full is there, and what is lost is not told as less than it is.
#[test]
fn a_run_that_filled_the_disk_gives_what_it_had_captured() {
    let place = Place::new();
    let line = "run vector --set n=160000 --set block=4 --ring-heap 1m --dump-args=2 --region-dir . --out full";
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &format!("ulimit -f 12288; exec {} {line}", env!("CARGO_BIN_EXE_plimsoll"))]);
    let ran = Ran::of(shell.current_dir(place.path()).output().expect("a shell"));
    assert_eq!((ran.code, &place.manifest("full")["error"]["code"]), (Some(1), &113.into()), "{}", ran.err);
    let listed = place.good("args full --json").json();
    assert!(listed["args"].as_array().expect("arguments").len() > 100);
    let ledger = place.manifest("full")["reconcile"]["pools"].as_array().expect("pools").clone();
    let lines = ledger.iter().filter(|pool| pool["kind"] == "arg_dump").map(|pool| pool["dropped"].as_u64());
    let lost: u64 = lines.map(|lines| lines.expect("a number")).sum();
    let notes = listed["notes"].to_string();
    assert!(lost > 0 && notes.contains("At least") && notes.contains(&format!("{lost} lost lines")), "{lost}: {notes}");
    // Whoever removed the folder, or had no room for it, gets it again.
    std::fs::remove_dir_all(place.path().join("full/args_dump")).expect("removed");
    assert_eq!(place.good("args full --json").json()["args"], listed["args"]);
}

/// In a namespace in which nobody else has regions on shared memory: `--all` recovers those of everybody.
#[test]
fn all_killed_runs_give_what_they_had_captured() {
    let place = Place::new();
    let script = format!(
        "mount -t tmpfs none /dev/shm || exit 77
        for dir in kept removed; do
            {0} run paged-attention --set tokens=16384 --set batch=8 --dump-args=2 --out $dir >/dev/null 2>&1 &
            until [ -s $dir/records/records.seg ]; do sleep 0.01; done
            sleep 0.2; kill -KILL $!; wait
        done 2>/dev/null
        rm -r removed
        {0} explain removed
        {0} recover --all",
        env!("CARGO_BIN_EXE_plimsoll")
    );
    let mut shell = std::process::Command::new("unshare");
    shell.args(["--user", "--map-root-user", "--mount", "bash", "-c", &script]).current_dir(place.path());
    let Ok(output) = shell.output() else { return println!("there is no unshare: passed over") };
    let ran = Ran::of(output);
    if ran.code == Some(77) || ran.err.contains("unshare failed") {
        return println!("no namespace can be made here: passed over");
    }
    assert!(ran.err.contains("removed is gone"), "{}", ran.err);
    // What had been drained into the directory that was removed is gone.
    assert!(ran.code == Some(1) && ran.out.contains("does not balance"), "{}{}", ran.out, ran.err);
    for dir in ["kept", "removed"] {
        assert!(!rows(&place, dir).is_empty(), "{dir}");
    }
}

#[test]
fn a_task_that_failed_is_run_again_and_fails_again() {
    let place = Place::new();
    let ran = place.run("run fault-panic --workers 1 --dump-args=2 --out run");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let ran = place.run("args run --replay r1t500");
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("failed when it was run again") && ran.err.contains("told to panic"), "{}", ran.err);
    let replay = place.good("args run --replay r1t0 --json").json()["replay"].clone();
    assert_eq!((&replay["same"], &replay["not_compared"]), (&true.into(), &0.into()), "{replay}");
}

#[test]
fn advice_on_a_run_of_a_program_of_ones_own_names_calls() {
    let place = Place::new();
    place.good("run cholesky --swimlane --out run");
    let by_command = place.run("args run");
    assert!(by_command.err.contains("--dump-args=2"), "{}", by_command.err);
    let mut manifest = place.manifest("run");
    manifest["command"] = serde_json::json!([]);
    std::fs::write(place.path().join("run/run.json"), manifest.to_string()).expect("written");
    let by_library = place.run("args run");
    assert!(by_library.err.contains("DumpRules::ALL") && !by_library.err.contains("--dump"), "{}", by_library.err);
    let arrows = place.good("export run --flows all");
    assert!(arrows.err.contains("Flags::DEP_GEN") && !arrows.err.contains("--dep-gen"), "{}", arrows.err);
    place.good("report run");
    let page = std::fs::read_to_string(place.path().join("run/report.html")).expect("written");
    assert!(page.contains("Dependencies were not recorded. Record them with <code>Flags::DEP_GEN</code>"));
    assert!(!page.contains("--scope-stats") && !page.contains("--dep-gen"), "flags are none of a program's own");
}

/// A kernel that hung does so again: its time is limited, a signal ends it, and nothing is left.
#[test]
fn a_task_that_hung_is_given_up_when_it_is_run_again() {
    let place = Place::new();
    let ran = place.run("run fault-hang --workers 2 --op-timeout 200ms --dump-args=2 --out run --region-dir .");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let temporary = place.path().join("temporary");
    std::fs::create_dir(&temporary).expect("made");
    let mut command = place.command("args run --replay r1t500 --op-timeout 200ms".split_whitespace());
    let ran = Ran::of(command.env("TMPDIR", &temporary).output().expect("the command starts"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("OpTimeout") && ran.err.contains("run again"), "{}", ran.err);
    let signalled = |signal: &str| {
        let mut command = place.command("args run --replay r1t500".split_whitespace());
        command.env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the command starts");
        while place.files("temporary").is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        child.wait().expect("ended").code()
    };
    assert_eq!(signalled("-TERM"), Some(143));
    assert_eq!(place.files("temporary"), Vec::<String>::new());
    // What a replay that is killed leaves is all in its temporary directory.
    assert_eq!(signalled("-KILL"), None);
    std::fs::remove_dir_all(&temporary).expect("removed");
    let left = place.run("recover --list").out;
    assert!(!left.contains(&temporary.display().to_string()), "{left}");
}

#[test]
fn filters_are_refused_where_they_would_not_count() {
    let place = Place::new();
    place.good("run vector --dump-args=2 --out run");
    for line in
        ["--first-nan --task r1t3", "--replay r1t0 --kernel add", "--diff run --role input", "--first-nan --round 1"]
    {
        let ran = place.run(&format!("args run {line}"));
        assert_eq!(ran.code, Some(2), "{line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("cannot be used with"), "{line}: {}", ran.err);
    }
    place.good("args run --replay r1t0 --round 0");
    assert_eq!(
        place.good("args run --task r1t0@0 --json").json()["args"],
        place.good("args run --task r1t0 --json").json()["args"]
    );
    let none = place.run("args run --task r1t0@1");
    assert!(none.code == Some(2) && none.err.contains("is like that"), "{}{}", none.out, none.err);
}
