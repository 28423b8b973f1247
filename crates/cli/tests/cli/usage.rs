//! Wrong usage exits 2 and says what, why and what to do; aliases and environment do what they should; help and README
//! name the same things.

use crate::harness::{Place, Ran, repository};
use std::collections::BTreeSet;

#[track_caller]
fn wrong(ran: &Ran, parts: &[&str]) {
    assert_eq!(ran.code, Some(2), "{}\n{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
    for part in parts {
        assert!(ran.err.contains(part), "{part:?} is not in: {}", ran.err);
    }
    assert!(!ran.err.contains("InvalidArgs (5)"), "a code is for runs: {}", ran.err);
}

#[test]
fn wrong_usage_says_what_why_and_what_to_do() {
    let place = Place::new();
    let cases: [(&str, &[&str]); 22] = [
        ("run nothing", &["no program \"nothing\"", "plimsoll list", "spelling"]),
        ("run", &["PROGRAM", "Usage"]),
        ("nothing", &["nothing", "Usage"]),
        ("run vector --set n", &["--set n is not of the form key=value", "n=64"]),
        ("run vector --set m=1", &["\"m\"", "knows n, block", "Use one of them"]),
        ("run vector --set n=x", &["n=x"]),
        ("run vector --set n=10 --set block=3", &["10", "blocks of 3"]),
        ("run vector --ring-task-window 3", &["window of ring 0 cannot be 3", "power of two", "next one is 4"]),
        ("run vector --ring-task-window -,-,5,-", &["window of ring 2 cannot be 5", "next one is 8"]),
        ("run vector --ring-task-window 4,8", &["--ring-task-window 4,8", "one value, or four", "--help"]),
        ("run vector --ring-heap 100", &["heap of ring 0 cannot be 100 bytes", "multiple of 64", "next one is 128"]),
        ("run vector --ring-heap 1x", &["--ring-heap 1x", "suffix", "--help"]),
        (
            "run vector --ring-heap 18446744073709551615",
            &["heap of ring 0", "up to 1 TiB", "largest one is 1099511627776"],
        ),
        ("run vector --arch a5 --clusters 200", &["600 cores", "at most 512 cores", "Change its clusters"]),
        ("run vector --arch a5 --sched-threads 512", &["512 scheduler threads", "511 schedulers"]),
        ("run vector --engine emulated --workers 600", &["600 cores", "at most 512", "Use fewer workers"]),
        ("run vector --ring-dep-pool 0", &["dependency pool of ring 0 cannot be 0", "at least 1", "16384"]),
        ("run vector --tensormap 0", &["tensormap cannot have 0", "at least 1", "65536"]),
        ("run vector --workers 0", &["0 workers", "at least one", "CPUs"]),
        ("run vector --rounds 16777217", &["--rounds", "16777217", "16777216"]),
        (
            "run vector --engine virtual --arch-set submit_ns=18446744073709551615",
            &["submit_ns cannot be", "from 0 to"],
        ),
        ("explain --code 6", &["no error code 6", "1 ScopeDeadlock", "Choose one"]),
    ];
    for (line, parts) in cases {
        wrong(&place.run(line), parts);
    }
    assert!(!place.path().join("outputs").exists(), "nothing was run");
}

/// A value that is not text is not taken for one that is not there.
#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let value = std::ffi::OsStr::from_bytes(b"64m\xff");
    let mut command = place.command(["run", "vector", "--no-record"]);
    let ran = Ran::of(command.env("PLIMSOLL_RING_HEAP", value).output().expect("it starts"));
    wrong(&ran, &["PLIMSOLL_RING_HEAP", "is not text", "unset"]);
}

#[test]
fn a_level_out_of_range_lists_the_levels() {
    let place = Place::new();
    let levels = ["no swimlane level 7", "0 = off", "1 = ", "2 = ", "3 = ", "4 = ", "Choose one"];
    wrong(&place.run("run vector --swimlane=7"), &levels);
    wrong(&place.run("run vector --profile --swimlane=2"), &["--swimlane"]);
    for flag in ["--dep-gen", "--transport shadow", "--region-dir .", "--on-full drop", "--host-gone-timeout 1s"] {
        wrong(&place.run(&format!("run vector --no-record {flag}")), &["--no-record"]);
    }
}

#[test]
fn the_environment_sets_sizes_and_the_command_line_wins() {
    let place = Place::new();
    let run = |variable: &str, value: &str, line: &str| {
        Ran::of(place.command(line.split_whitespace()).env(variable, value).output().expect("it starts"))
    };
    let line = "run fault-scope-deadlock --set tasks=50 --no-record --json";
    let capacity = |ran: &Ran| ran.json()["error"]["capacity"].clone();
    let ran = run("PLIMSOLL_RING_TASK_WINDOW", "32", line);
    assert_eq!((ran.code, capacity(&ran)), (Some(1), 32.into()));
    let ran = run("PLIMSOLL_RING_TASK_WINDOW", "64,16,64,64", line);
    assert_eq!((ran.code, capacity(&ran)), (Some(1), 16.into()));
    let ran = run("PLIMSOLL_RING_TASK_WINDOW", "32", &format!("{line} --ring-task-window 64"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = run("PLIMSOLL_RING_HEAP", "4k", "run fault-heap --no-record --json");
    assert_eq!(capacity(&ran), 4096);
    let ran = run("PLIMSOLL_RING_DEP_POOL", "128", "run fault-dep-pool --no-record --json");
    assert_eq!(capacity(&ran), 128);
    let ran = run("PLIMSOLL_TENSORMAP", "1k", "run fault-tensormap --no-record --json");
    assert_eq!(capacity(&ran), 1024);
    wrong(&run("PLIMSOLL_RING_HEAP", "much", "run vector"), &["PLIMSOLL_RING_HEAP", "\"much\"", "Correct or unset it"]);
    wrong(&run("PLIMSOLL_RING_TASK_WINDOW", "3", "run vector"), &["window of ring 0 cannot be 3"]);
}

#[test]
fn the_references_words_are_understood_and_not_in_the_help() {
    let place = Place::new();
    for flag in ["--enable-l2-swimlane", "--enable-chip-swimlane", "--chip-swimlane", "--enable-profiling"] {
        let dir = &flag[2..];
        place.good(&format!("run vector {flag} --out {dir}"));
        assert_eq!(place.manifest(dir)["level"], 4, "{flag}");
    }
    place.good("run vector --enable-l2-swimlane=2 --enable-scope-stats --enable-dep-gen --out aliased");
    assert_eq!(place.manifest("aliased")["level"], 2);
    assert!(place.files("aliased").contains(&"deps.json".to_owned()));
    place.good("trace aliased");
    let help = place.good("run --help").out + &place.good("--help").out;
    for word in ["enable-l2-swimlane", "chip-swimlane", "overhead"] {
        assert!(!help.contains(word), "{word}");
    }
}

/// Long flags of a help text.
fn flags(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

/// The `plimsoll …` lines of a text's code blocks, without prompt, comment and what follows a pipe.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut inside = false;
    let mut out = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            continue;
        }
        let line = line.split(" #").next().unwrap_or_default().split(['|', '>']).next().unwrap_or_default();
        let line = line.trim().trim_start_matches("$ ");
        let line = line.replace("cargo run --release -- ", "plimsoll ");
        if inside && line.starts_with("plimsoll ") {
            out.push(line.split_whitespace().skip(1).map(str::to_owned).collect());
        }
    }
    out
}

#[test]
fn every_command_and_flag_of_the_readme_exists() {
    let Ok(text) = std::fs::read_to_string(repository().join("README.md")) else {
        println!("there is no README.md: passed over");
        return;
    };
    let place = Place::new();
    for words in commands(&text) {
        let mut path: Vec<&str> = vec![&words[0]];
        if words[0] == "bench" {
            path.extend(words.get(1).map(String::as_str));
        }
        if path[0].starts_with('-') || path[0].chars().all(|c| !c.is_ascii_lowercase()) {
            continue;
        }
        let ran = place.run(&format!("{} --help", path.join(" ")));
        assert_eq!(ran.code, Some(0), "README says `plimsoll {}`: {}", words.join(" "), ran.err);
        let known = flags(&ran.out);
        for word in words.iter().filter(|word| word.starts_with("--")) {
            for flag in flags(word) {
                assert!(known.contains(&flag), "README says `plimsoll {}`, which has no {flag}", words.join(" "));
            }
        }
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let place = Place::new();
    place.good("run vector --profile --out run");
    let line = format!("{} check run --json | true; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_plimsoll"));
    let output = std::process::Command::new("bash").args(["-c", &line]).current_dir(place.path()).output();
    let output = output.expect("a shell");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{err}");
}
