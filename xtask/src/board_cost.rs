//! What the status board costs: instructions per execution, per submit, and beside them.
//!
//! A release build has line tables, which name the inlined functions that every instruction comes from. So callgrind's count per
//! instruction, resolved by `addr2line`, tells what was executed for the board: in `begin` and `end` of a status line, per execution;
//! in `begin_submit` and `end_submit`, per submit; and in everything else that writes on the board, which is how full the rings are
//! (every 64 submits, where a scope ends, where the orchestrator blocks) and what somebody waits for. Stage `counts` holds the first
//! two against their marks.
//!
//! What that cannot name is what the compiler does elsewhere so that a register holds what the board is told. `cargo xtask board-cost`
//! counts it as the rest of the difference to a build whose board is not written (`--cfg no_board`).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::counts::{TASKS, callgrind, per_task};
use crate::workspace::{Workspace, is_installed, succeed};

/// A task without consumers, one with one, and one with several arguments. Each is submitted and executed once.
const SHAPES: [&str; 3] = ["own-datum", "chain", "paged-attention"];
/// Most instructions on the board's lines for one execution, and for one submit.
const MARKS: BoardSplit = BoardSplit { execution: 4.0, submit: 6.0, beside: f64::MAX };
/// Scopes, and rounds of task counts, tilt a difference by less than this.
const TOLERANCE: f64 = 0.05;

/// Instructions per task that the board takes, by what they are for.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct BoardSplit {
    execution: f64,
    submit: f64,
    beside: f64,
}

/// Prints the split of each shape, and what a build without a board saves.
pub(crate) fn run() -> Result<()> {
    ensure!(is_installed("valgrind"), "valgrind is not installed (.ci/setup installs it)");
    let with = Workspace::find()?;
    let without = Workspace { root: with.root.clone(), target: with.target.join("no-board") };
    let build = ["build", "--release", "--package", "plimsoll-cli"];
    succeed(&mut with.cargo(build))?;
    succeed(without.cargo(build).arg("--target-dir").arg(&without.target).env("RUSTFLAGS", "--cfg no_board"))?;
    let splits = print_splits(&with)?;
    println!("{:<20} {:>10} {:>10} {:>10} {:>10}", "instructions", "board", "no board", "more", "rest");
    for (shape, split) in SHAPES.into_iter().zip(splits) {
        let graph = graph(shape);
        let (board, none) = (per_task(&with, &graph, None)?, per_task(&without, &graph, None)?);
        let (more, named) = (board - none, split.execution + split.submit + split.beside);
        println!("{shape:<20} {board:>10.1} {none:>10.1} {more:>10.1} {:>10.1}", more - named);
    }
    Ok(())
}

/// Fails if an execution or a submit takes more instructions on the board than its mark. The command must have been built.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    for (shape, split) in SHAPES.into_iter().zip(print_splits(workspace)?) {
        ensure!(
            is_within(&split, &MARKS),
            "the board of {shape} takes more than {} instructions per execution or {} per submit",
            MARKS.execution,
            MARKS.submit
        );
    }
    Ok(())
}

fn is_within(split: &BoardSplit, marks: &BoardSplit) -> bool {
    // Nothing at all would mean that the functions were not found.
    (1.0..=marks.execution + TOLERANCE).contains(&split.execution)
        && (1.0..=marks.submit + TOLERANCE).contains(&split.submit)
}

fn print_splits(workspace: &Workspace) -> Result<[BoardSplit; 3]> {
    println!("{:<20} {:>10} {:>10} {:>10}", "on the board", "execution", "submit", "beside");
    let mut splits = [BoardSplit::default(); 3];
    for (shape, split) in SHAPES.into_iter().zip(&mut splits) {
        *split = split_of(workspace, shape)?;
        println!("{shape:<20} {:>10.2} {:>10.2} {:>10.2}", split.execution, split.submit, split.beside);
    }
    Ok(splits)
}

fn graph(shape: &str) -> [&str; 4] {
    ["--shape", shape, "--tier", "typed"]
}

/// As everywhere in `counts`, the difference of two runs: start-up and tear-down cancel.
fn split_of(workspace: &Workspace, shape: &str) -> Result<BoardSplit> {
    let [low, high] = TASKS.map(|tasks| callgrind(workspace, &graph(shape), tasks, &["--dump-instr=yes"]));
    let ((tasks_low, low), (tasks_high, high)) = (low?, high?);
    let binary = workspace.release("plimsoll");
    let name = binary.file_name().and_then(|name| name.to_str()).context("the command has a name")?;
    let mut counts: BTreeMap<u64, i64> = BTreeMap::new();
    for (profile, sign) in [(low, -1), (high, 1)] {
        for (address, count) in by_address(&profile, name) {
            *counts.entry(address).or_default() += sign * count as i64;
        }
    }
    counts.retain(|_, count| *count != 0);
    let addresses: Vec<u64> = counts.keys().copied().collect();
    let frames = resolve(&binary, &addresses)?;
    let mut split = BoardSplit::default();
    for (address, frames) in parse_frames(&frames) {
        let each = counts.get(&address).copied().unwrap_or(0) as f64 / (tasks_high - tasks_low) as f64;
        match purpose(&frames) {
            Some(Purpose::Execution) => split.execution += each,
            Some(Purpose::Submit) => split.submit += each,
            Some(Purpose::Beside) => split.beside += each,
            None => {}
        }
    }
    Ok(split)
}

/// What an instruction is executed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Execution,
    Submit,
    Beside,
}

/// By the outermost function of the board among those that an instruction is inlined in.
fn purpose(frames: &[(&str, &str)]) -> Option<Purpose> {
    let is_board = |place: &str| place.contains("shm/src/board.rs") || place.contains("sched/src/submit/status.rs");
    let (function, _) = frames.iter().rev().find(|(_, place)| is_board(place))?;
    Some(match *function {
        "begin" | "end" => Purpose::Execution,
        "begin_submit" | "end_submit" => Purpose::Submit,
        _ => Purpose::Beside,
    })
}

/// What the command's own instructions cost, by their address in its file.
fn by_address(profile: &str, binary: &str) -> BTreeMap<u64, u64> {
    let mut objects: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut counts, mut address, mut is_ours, mut is_call) = (BTreeMap::new(), 0u64, false, false);
    for line in profile.lines() {
        let object = line.strip_prefix("ob=").or_else(|| line.strip_prefix("cob="));
        if let Some(object) = object {
            // A name stands at its first use only; later its number stands for it.
            let (number, name) = object.split_once(' ').unwrap_or((object, ""));
            if !name.is_empty() {
                objects.insert(number, name);
            }
            if line.starts_with("ob=") {
                is_ours = objects.get(number).is_some_and(|name| name.ends_with(&format!("/{binary}")));
            }
            continue;
        }
        if line.starts_with("calls=") {
            is_call = true;
            continue;
        }
        let mut words = line.split(' ');
        let (Some(position), Some(_), Some(count)) = (words.next(), words.next(), words.next()) else { continue };
        let Some(next) = moved(address, position) else { continue };
        address = next;
        // The line behind a call has what was executed inside it.
        if !std::mem::take(&mut is_call) && is_ours {
            *counts.entry(address).or_default() += count.parse().unwrap_or(0);
        }
    }
    counts
}

/// An address as callgrind writes it: whole, or by its distance to the one before.
fn moved(address: u64, position: &str) -> Option<u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    match position.chars().next()? {
        '*' => Some(address),
        '+' => Some(address + number(&position[1..])?),
        '-' => address.checked_sub(number(&position[1..])?),
        _ if position.starts_with("0x") => number(position),
        _ => None,
    }
}

/// What addr2line says of these addresses: each, then the functions it is inlined in and their places, innermost first.
fn resolve(binary: &Path, addresses: &[u64]) -> Result<String> {
    let mut command = Command::new("addr2line");
    command.args(["--inlines", "--functions", "--demangle", "--addresses", "--exe"]).arg(binary);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("addr2line has an input")?;
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    // Written beside the reading: either pipe may fill.
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    ensure!(output.status.success(), "addr2line failed on {}", binary.display());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse_frames(resolved: &str) -> Vec<(u64, Vec<(&str, &str)>)> {
    let mut all: Vec<(u64, Vec<(&str, &str)>)> = Vec::new();
    let mut function = None;
    for line in resolved.lines() {
        let address = line.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        match (address, function, all.last_mut()) {
            (Some(address), ..) => all.push((address, Vec::new())),
            (None, None, _) => function = Some(line),
            (None, Some(name), Some((_, frames))) => {
                frames.push((name, line));
                function = None;
            }
            (None, Some(_), None) => function = None,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_count_where_they_are_and_not_again_at_the_call() {
        let profile = "positions: instr line\nevents: Ir\nob=(1) /usr/lib/libc.so\nfn=(1) f\n0x10 1 9\nob=(2) /t/plimsoll\n\
                       fn=(2) g\n0x20 1 5\n+4 * 6\ncob=(1)\ncfn=(1)\ncalls=3 0x10 1\n* * 99\n-2 7 1\nob=(1)\n+1 1 9\n";
        assert_eq!(by_address(profile, "plimsoll"), BTreeMap::from([(0x20, 5), (0x24, 6), (0x22, 1)]));
    }

    #[test]
    fn an_instruction_is_for_what_the_outermost_function_of_the_board_is_for() {
        let resolved = "0x10\nstore\ncore/atomic.rs:9\nadd_one\n/w/shm/src/board.rs:3\nend\n/w/shm/src/board.rs:2\nexecute\n/w/agent.rs:1\n\
                        0x11\nstore\n??:0\nbegin_submit\n/w/shm/src/board.rs:7 (discriminator 2)\n0x12\nnote_ring<P>\n/w/sched/src/submit/status.rs:1\n0x13\nexecute\n/w/agent.rs:1\n";
        let purposes: Vec<_> = parse_frames(resolved).iter().map(|(at, frames)| (*at, purpose(frames))).collect();
        let expected = [Some(Purpose::Execution), Some(Purpose::Submit), Some(Purpose::Beside), None];
        assert_eq!(purposes, (0x10..).zip(expected).collect::<Vec<_>>());
    }

    #[test]
    fn a_split_that_is_above_a_mark_or_was_not_found_is_refused() {
        let of = |execution, submit| is_within(&BoardSplit { execution, submit, beside: 1.0 }, &MARKS);
        assert!(of(4.0, 4.0) && of(4.01, 6.0));
        assert!(!of(5.0, 4.0) && !of(4.0, 7.0) && !of(0.0, 4.0) && !of(4.0, 0.0));
    }
}
