//! Stage `counts`: instructions per task under callgrind, against `docs/instruction-counts.json`.
//!
//! Instruction counts repeat where times do not, so a small loss shows. Every entry runs `plimsoll bench graph` on one
//! worker at two task counts; the difference per task is the entry's figure, so start-up and tear-down cancel. An entry
//! with `within` counts only inside the function that matches that pattern (callgrind's `--toggle-collect`): the pattern
//! must match one function that is not inlined, since a second match inside the first would switch counting off again. An
//! entry with `tier` has the same graph submitted by the untyped tier, or by the functions of C.
//!
//! What the status board takes of it is held against marks of its own ([`board_cost`]).

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::board_cost;
use crate::stages::StageOutcome;
use crate::workspace::{Workspace, is_installed, output, succeed};

const BASELINE: &str = "docs/instruction-counts.json";
const TOLERANCE_PERCENT: f64 = 2.0;
/// Far enough apart that what grows in steps (a table, a ring that wraps) does not tilt the difference.
pub(crate) const TASKS: [u64; 2] = [20_000, 60_000];
/// What a tier costs at most beside the one that it stands on, by the names of the entries; as everywhere here, the tolerance is
/// allowed besides.
const MARKS: [(&str, &str, f64); 2] = [("chain, C", "chain, untyped", 1.10), ("chain, untyped", "chain", 1.25)];
const BLESS: &str = "cargo xtask test --only counts --bless";

pub(crate) fn check(workspace: &Workspace, bless: bool) -> Result<StageOutcome> {
    if let Some(missing) = ["valgrind", "addr2line"].into_iter().find(|tool| !is_installed(tool)) {
        return Ok(StageOutcome::Skipped(format!("{missing} is not installed (.ci/setup installs it)")));
    }
    let path = workspace.root.join(BASELINE);
    if !path.exists() && !bless {
        return Ok(StageOutcome::Skipped(format!("there is no {BASELINE}; `{BLESS}` makes it")));
    }
    let mut baseline = if path.exists() { read(&path)? } else { first_baseline() };
    succeed(&mut workspace.cargo(["build", "--release", "--package", "plimsoll-cli"]))?;
    let compiler = output(Command::new("rustc").arg("--version"))?.trim().to_string();
    let outside = compare(workspace, &mut baseline)?;
    let above = above_marks(&baseline)?;
    ensure!(above.is_empty(), "above the marks: {}", above.join(", "));
    board_cost::check(workspace)?;
    if bless {
        drop_unmeasured(&mut baseline);
        baseline["compiler"] = json!(compiler);
        std::fs::write(&path, serde_json::to_string_pretty(&baseline)? + "\n")?;
        println!("wrote {BASELINE}");
    } else if !outside.is_empty() {
        let other = baseline["compiler"].as_str().filter(|blessed| *blessed != compiler);
        let hint =
            other.map(|blessed| format!(" (the baseline is of {blessed}, this is {compiler})")).unwrap_or_default();
        bail!("more than {TOLERANCE_PERCENT} % off: {}{hint}. If it is meant: `{BLESS}`", outside.join(", "));
    }
    Ok(StageOutcome::Passed)
}

/// Measures every entry, puts the figure into it, prints a line; returns the names of those outside the tolerance.
fn compare(workspace: &Workspace, baseline: &mut Value) -> Result<Vec<String>> {
    let tolerance = TOLERANCE_PERCENT / 100.0;
    let mut outside = Vec::new();
    let entries = baseline["counts"].as_array_mut().context("the baseline has no list `counts`")?;
    for (measured, entry) in measure(workspace, entries).into_iter().zip(entries) {
        let name = entry["name"].as_str().context("an entry has no name")?.to_string();
        let expected = entry["instructions_per_task"].as_f64();
        if let (Err(why), None) = (&measured, expected) {
            println!("{why:#}");
            continue;
        }
        let measured = measured?;
        let line = match expected {
            Some(expected) => {
                let change = measured / expected - 1.0;
                if change.abs() > tolerance {
                    outside.push(format!("{name} {:+.1} %", change * 100.0));
                }
                format!("{expected:>10.1} → {measured:>10.1}  {:+.2} %", change * 100.0)
            }
            None => format!("{:>10} → {measured:>10.1}", "new"),
        };
        println!("{name:<32} {line}");
        entry["instructions_per_task"] = json!((measured * 10.0).round() / 10.0);
    }
    Ok(outside)
}

/// The figure of each entry, in their order. One thread per CPU measures: instruction counts do not depend on who runs
/// beside.
fn measure(workspace: &Workspace, entries: &[Value]) -> Vec<Result<f64>> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut measured: Vec<(usize, Result<f64>)> = std::thread::scope(|scope| {
        let work = || {
            let indices =
                std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < entries.len()));
            indices.map(|index| (index, of_entry(workspace, &entries[index]))).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    measured.sort_by_key(|(index, _)| *index);
    measured.into_iter().map(|(_, figure)| figure).collect()
}

fn of_entry(workspace: &Workspace, entry: &Value) -> Result<f64> {
    let name = entry["name"].as_str().context("an entry has no name")?;
    let shape = entry["shape"].as_str().context("an entry has no shape")?;
    let tier = entry["tier"].as_str().unwrap_or("typed");
    per_task(workspace, &["--shape", shape, "--tier", tier], entry["within"].as_str()).with_context(|| name.to_string())
}

/// Prints what each tier costs beside the one that it stands on, and returns what is above its mark.
fn above_marks(measured: &Value) -> Result<Vec<String>> {
    let entries = measured["counts"].as_array().context("the baseline has no list `counts`")?;
    let of = |name: &str| {
        let entry = entries.iter().find(|entry| entry["name"] == name);
        entry.and_then(|entry| entry["instructions_per_task"].as_f64())
    };
    let mut above = Vec::new();
    for (upper, lower, most) in MARKS {
        let (Some(upper_count), Some(lower_count)) = (of(upper), of(lower)) else { continue };
        let ratio = upper_count / lower_count;
        let line = format!("{upper} takes {ratio:.3} × the instructions of {lower}; the mark is {most}");
        println!("{line}");
        if ratio > most * (1.0 + TOLERANCE_PERCENT / 100.0) {
            above.push(line);
        }
    }
    Ok(above)
}

/// A new entry whose function cannot be found has no figure and is not watched.
fn drop_unmeasured(baseline: &mut Value) {
    if let Some(counts) = baseline["counts"].as_array_mut() {
        counts.retain(|entry| entry["instructions_per_task"].is_number());
    }
}

/// Instructions per task of a graph, of all that is executed or `within` a function.
pub(crate) fn per_task(workspace: &Workspace, graph: &[&str], within: Option<&str>) -> Result<f64> {
    let (tasks_low, low) = count(workspace, graph, TASKS[0], within)?;
    let (tasks_high, high) = count(workspace, graph, TASKS[1], within)?;
    ensure!(tasks_high > tasks_low, "bench graph ran {tasks_low} tasks, then {tasks_high}");
    if let Some(pattern) = within {
        ensure!(high > low, "no function matches {pattern} (inlined or renamed?)");
    }
    Ok((high as f64 - low as f64) / (tasks_high - tasks_low) as f64)
}

/// Tasks run and instructions executed by one run.
fn count(workspace: &Workspace, graph: &[&str], tasks: u64, within: Option<&str>) -> Result<(u64, u64)> {
    let toggle = within.map(|pattern| format!("--toggle-collect={pattern}"));
    let (tasks, profiled) = callgrind(workspace, graph, tasks, &toggle.as_deref().map_or(Vec::new(), |one| vec![one]))?;
    Ok((tasks, instructions(&profiled)?))
}

/// Tasks run by one run under callgrind, and its profile.
pub(crate) fn callgrind(workspace: &Workspace, graph: &[&str], tasks: u64, options: &[&str]) -> Result<(u64, String)> {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let profile = workspace.target.join(format!("callgrind-{}-{run}.out", std::process::id()));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", profile.display()));
    command.args(options).arg(workspace.release("plimsoll")).args(["bench", "graph"]).args(graph);
    command.args(["--tasks", &tasks.to_string(), "--grain-ns", "0", "--workers", "1", "--reps", "1", "--json"]);
    let printed = output(&mut command)?;
    let result: Value = serde_json::from_str(printed.trim()).context("bench graph --json printed no JSON object")?;
    let profiled = std::fs::read_to_string(&profile)?;
    std::fs::remove_file(&profile)?;
    Ok((result["tasks"].as_u64().context("bench graph --json has no `tasks`")?, profiled))
}

/// Callgrind ends a profile with `totals: N` (of the events of the header, the first being instructions).
fn instructions(profile: &str) -> Result<u64> {
    let totals = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"));
    let first = totals.and_then(|rest| rest.split_whitespace().next()).context("the profile has no totals")?;
    Ok(first.parse()?)
}

fn read(path: &Path) -> Result<Value> {
    serde_json::from_str(&std::fs::read_to_string(path)?).with_context(|| format!("{BASELINE} is not JSON"))
}

/// What is watched when there is no baseline yet: whole tasks, and the two halves that every task passes.
fn first_baseline() -> Value {
    let entry = |name: &str, shape: &str, within: Value| json!({"name": name, "shape": shape, "within": within});
    json!({
        "format": "plimsoll-instruction-counts",
        "schema": 1,
        "counts": [
            entry("own-datum", "own-datum", Value::Null),
            entry("chain", "chain", Value::Null),
            json!({"name": "chain, untyped", "shape": "chain", "tier": "untyped", "within": null}),
            json!({"name": "chain, C", "shape": "chain", "tier": "c", "within": null}),
            entry("paged-attention", "paged-attention", Value::Null),
            // Parts that are no tiles: strips that lie in one cell each, a view of nine cells, panels, a moving window.
            entry("stencil", "stencil", Value::Null),
            entry("stencil-9", "stencil-9", Value::Null),
            entry("lu", "lu", Value::Null),
            entry("sliding", "sliding", Value::Null),
            // A submit helps now and then, so what it executes is part of it.
            entry("paged-attention, submit", "paged-attention", json!("*Submitter*SubmitSink>::submit")),
            entry("paged-attention, run and complete", "paged-attention", json!("*agent::Agent*::step")),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_costs_too_much_is_above_its_mark() -> Result<()> {
        let entry = |name: &str, count: f64| json!({"name": name, "instructions_per_task": count});
        let of = |untyped, c| json!({"counts": [entry("chain", 500.0), entry("chain, untyped", untyped), entry("chain, C", c)]});
        assert!(above_marks(&of(637.0, 714.0))?.is_empty());
        assert_eq!(above_marks(&of(638.0, 717.0))?.len(), 2);
        Ok(())
    }

    #[test]
    fn instructions_are_the_first_total() -> Result<()> {
        assert_eq!(instructions("events: Ir Dr\nfn=x\n1 5 6\ntotals: 12345 678\n")?, 12345);
        assert!(instructions("events: Ir\n").is_err());
        Ok(())
    }
}
