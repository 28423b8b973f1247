//! A program of the user's own is recorded without a change: `plimsoll record -- PROGRAM`, or by its environment.
//!
//! The user's program is this test's own executable, started again.

use crate::harness::{Place, Ran, balance};
use plimsoll::{Device, InOut, inout};
use std::ffi::OsString;
use std::process::{Command, Stdio};

const APP: &str = "PLIMSOLL_TEST_APP";

/// The user's program. As a test of its own it does nothing.
#[test]
fn app() {
    if std::env::var_os(APP).is_none() {
        return;
    }
    let mut device = match Device::builder().workers(2).open() {
        Ok(device) => device,
        Err(error) => panic!("{error}"),
    };
    let how = std::env::var(APP).unwrap_or_default();
    if how != "1" {
        let fail = device.kernel("fail", move || if how == "abort" { std::process::abort() } else { Err("no luck") });
        assert!(device.run(|o| o.submit(&fail, ()).map(drop)).is_err());
        return;
    }
    let add = device.kernel("add", |mut x: InOut<f32>| x.row_mut(0).iter_mut().for_each(|x| *x += 1.0));
    for _ in 0..2 {
        let sum = device.run(|o| {
            let x = o.own(vec![0.0; 4], [4])?;
            (0..8).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop))?;
            o.read(&x)
        });
        assert_eq!(sum.expect("it runs"), [8.0; 4]);
    }
}

/// The words that start the user's program.
fn program() -> [OsString; 3] {
    [std::env::current_exe().expect("this file").into(), "--exact".into(), "record::app".into()]
}

/// The name of its binary.
fn name() -> String {
    let file = std::env::current_exe().expect("this file");
    file.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn runs(place: &Place, outputs: &str) -> Vec<String> {
    place.files(outputs).into_iter().filter(|name| name != "latest").collect()
}

#[test]
fn a_program_of_the_users_own_is_recorded_and_named_after_its_binary() {
    let place = Place::new();
    for times in 1..=2 {
        let mut command = place.command(["record", "--profile", "--"]);
        let ran = Ran::of(command.args(program()).env(APP, "1").output().expect("starts"));
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        assert_eq!(ran.out.matches(&format!("{}: ok", name())).count(), 2, "each of its runs is told: {}", ran.out);
        assert_eq!(ran.out.matches(&format!("nothing lost: outputs/{}_", name())).count(), 2, "{}", ran.out);
        assert_eq!(runs(&place, "outputs").len(), 2 * times, "every run has its own directory");
    }
    let latest = place.manifest("outputs/latest");
    assert_eq!((&latest["program"], &latest["status"]), (&name().into(), &"ok".into()), "{latest}");
    assert!(balance(&latest["reconcile"]).0 > 0);
    assert_eq!((&latest["level"], &latest["tasks"]), (&4.into(), &8.into()));
    place.good("check");
    place.good("stats");
    let size = place.good("size").out;
    let advice = format!("in {}: let mut capacities", name());
    assert!(size.contains(&advice) && size.contains("capacities.set_task_window(\""), "{size}");
    assert!(size.contains("Device::builder().capacities(capacities)") && !size.contains("plimsoll run"), "{size}");
}

#[test]
fn the_environment_alone_will_do() {
    let place = Place::new();
    let app = |record: &str| {
        let [file, more @ ..] = program();
        let mut command = Command::new(file);
        command.args(more).current_dir(place.path()).env(APP, "1").env("PLIMSOLL_RECORD", record);
        command.env("PLIMSOLL_OUT", "mine").stdin(Stdio::null()).output().expect("starts")
    };
    for times in 1..=2 {
        assert!(app("2").status.success());
        assert_eq!(runs(&place, "mine").len(), 2 * times);
    }
    assert_eq!(place.manifest("mine/latest")["level"], 2);
    let refused = app("9");
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(!refused.status.success() && said.contains("PLIMSOLL_RECORD"), "{said}");
}

/// Whoever writes a program is advised in calls of the library: its runs have no flags.
#[test]
fn advice_on_a_run_of_the_users_own_is_in_calls() {
    let place = Place::new();
    let mut command = place.command(["record", "--"]);
    let ran = Ran::of(command.args(program()).env(APP, "1").output().expect("starts"));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    for command in ["deps", "critical-path", "sched", "size"] {
        let told = place.run(command);
        let text = format!("{}{}", told.out, told.err);
        for flag in ["--dep-gen", "--ring-task-window", "plimsoll size PROGRAM"] {
            assert!(!text.contains(flag), "{command}: {text}");
        }
        let call = if command == "size" { "capacities.set_task_window(" } else { "`Flags::DEP_GEN`" };
        assert!(text.contains(call), "{command}: {text}");
    }
}

#[test]
fn runs_that_did_not_end_well_are_explained_at_the_end() {
    let place = Place::new();
    let run = |how: &str| {
        let mut command = place.command(["record", "--explain-on-exit", "--"]);
        Ran::of(command.args(program()).env(APP, how).output().expect("starts"))
    };
    let ran = run("1");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = run("fail");
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let explained = place.good("explain").out;
    assert!(explained.contains("KernelFailed (20)") && ran.out.ends_with(&explained), "{} and {explained}", ran.out);
    let ran = run("abort");
    assert_eq!(ran.code, Some(134), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("recovered"), "its records were got out: {}", ran.out);
    assert!(ran.out.ends_with(&place.good("explain").out), "{}", ran.out);
    place.good("check");
}

#[test]
fn exit_codes_arguments_and_signals_are_the_programs() {
    let place = Place::new();
    let run = |script: &str| {
        let words = ["record", "--json", "--", "sh", "-c", script, "name", "-p", "trace"];
        Ran::of(place.command(words).output().expect("starts"))
    };
    let ran = run("exit 7");
    assert_eq!((ran.code, &ran.json()["exit"]), (Some(7), &7.into()));
    let ran = run("kill -TERM $$");
    assert_eq!(ran.code, Some(143), "{}", ran.err);
    let ran = run("test \"$1 $2\" = '-p trace'");
    assert_eq!(ran.code, Some(0), "arguments arrive as they were given");
    let ran = run(
        "trap 'exit 9' TERM; kill -TERM $PPID; i=0; while [ $i -lt 3000 ]; do sleep 0.01; i=$((i+1)); done; exit 1",
    );
    assert_eq!(ran.code, Some(9), "a signal to the command reaches the program");
    let ran = place.run("record -- ./no-such-program");
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("no-such-program"), "{}", ran.err);
}

/// The words that run a script of the shell under `record`, and the user's program as `$0 "$@"` in it.
fn scripted(place: &Place, flags: &[&str], script: &str) -> Command {
    let mut command = place.command(["record"].iter().chain(flags).chain(&["--", "sh", "-c", script]));
    command.args(program()).env(APP, "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn any_signal_that_means_the_program_reaches_it() {
    let place = Place::new();
    for (signal, number) in [("USR1", 10), ("USR2", 12), ("ALRM", 14), ("WINCH", 28), ("RTMIN", 34)] {
        let script = format!(
            "trap 'exit {number}' {number}; kill -{signal} $PPID; i=0; while [ $i -lt 3000 ]; do sleep 0.01; i=$((i+1)); done"
        );
        let ran = Ran::of(place.command(["record", "--", "bash", "-c", &script]).output().expect("starts"));
        assert_eq!(ran.code, Some(number), "{signal}: {}", ran.err);
    }
}

#[test]
fn what_was_ignored_stays_ignored_and_nothing_else_becomes_so() {
    let place = Place::new();
    let ignored = |script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).env("RECORD", env!("CARGO_BIN_EXE_plimsoll")).current_dir(place.path());
        let ran = Ran::of(shell.output().expect("a shell"));
        let mask = ran.out.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a line").trim().to_owned();
        u64::from_str_radix(&mask, 16).expect("a set of signals")
    };
    for before in ["true", "trap '' HUP INT USR1 XFSZ"] {
        let direct = ignored(&format!("{before}; grep SigIgn /proc/self/status"));
        let recorded = ignored(&format!("{before}; \"$RECORD\" record -- grep SigIgn /proc/self/status"));
        assert_eq!(format!("{direct:x}"), format!("{recorded:x}"), "{before}");
    }
}

#[test]
fn a_binary_with_a_long_name_is_recorded() {
    let place = Place::new();
    let long = place.path().join("n".repeat(240));
    std::fs::copy(std::env::current_exe().expect("this file"), &long).expect("copied");
    let mut command = place.command(["record", "--"]);
    let ran = Ran::of(command.arg(&long).args(["--exact", "record::app"]).env(APP, "1").output().expect("starts"));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(runs(&place, "outputs").len(), 2, "{}", ran.out);
    assert!(place.manifest("outputs/latest")["program"].as_str().is_some_and(|name| name.len() == 240));
}

#[test]
fn the_runs_of_another_program_are_not_told() {
    let place = Place::new();
    // Both have begun before either ends, and both have made their runs by then.
    let script = |own: &str, other: &str| {
        format!(
            ": >{own}.begun; until [ -e {other}.begun ]; do sleep 0.01; done; \"$0\" \"$@\" >log.{own} && : >{own}.done; until [ -e {other}.done ]; do sleep 0.01; done"
        )
    };
    let flags = ["--out", "cc", "--json"];
    let children = [("a", "b"), ("b", "a")]
        .map(|(own, other)| scripted(&place, &flags, &script(own, other)).spawn().expect("starts"));
    let ran = children.map(|child| Ran::of(child.wait_with_output().expect("ends")));
    assert_eq!(runs(&place, "cc").len(), 4);
    for ran in ran {
        let runs = ran.json()["runs"].as_array().expect("runs").clone();
        assert_eq!(runs.len(), 2, "{}", ran.out);
    }
}

#[test]
fn many_runs_are_told_in_their_order_and_on_one_line_each() {
    let place = Place::new();
    let odd = "an\nodd name";
    std::fs::copy(std::env::current_exe().expect("this file"), place.path().join(odd)).expect("copied");
    let script = format!("for i in 1 2 3 4 5 6; do './{odd}' --exact record::app || exit 1; done");
    let ran = Ran::of(scripted(&place, &[], &script).output().expect("starts"));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(ran.out.matches("an\\u000aodd name: ok\n").count(), 12, "{}", ran.out);
    let dirs = ran.out.lines().filter_map(|line| line.split_once("nothing lost: "));
    let started = dirs.map(|(_, dir)| place.manifest(dir)["started_unix_ns"].as_u64().expect("a time"));
    let started: Vec<u64> = started.collect();
    assert!(started.len() == 12 && started.is_sorted(), "{started:?}");
    for command in ["size", "explain"] {
        let told = place.good(command).out;
        assert!(told.contains("an\\u000aodd name") && !told.contains(odd), "{command}: {told}");
    }
}

/// The program's own code says more than that its runs could not be told.
#[test]
fn a_program_that_fails_keeps_its_code_where_nothing_can_be_written() {
    let place = Place::new();
    for (code, seen) in [(5, 5), (0, 1)] {
        let mut command = scripted(&place, &["--json"], &format!("exit {code}"));
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let ran = Ran::of(command.stdout(full).output().expect("starts"));
        assert_eq!(ran.code, Some(seen), "{}", ran.err);
        assert!(ran.err.contains("Standard output cannot be written"), "{}", ran.err);
    }
}

#[test]
fn the_command_itself_is_not_turned_on_by_the_environment() {
    let place = Place::new();
    let mut command = place.command(["run", "vector", "--no-record"]);
    let ran = Ran::of(command.env("PLIMSOLL_RECORD", "4").output().expect("starts"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(place.files("."), Vec::<String>::new());
}
