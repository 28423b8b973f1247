//! `--check`: every peer runs every task once, after all its predecessors, and on the same task graphs as the others.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::measure::PeerCase;
use super::roster::Roster;
use super::sample;

const TASKS: u64 = 20_000;
/// More than one, and more than a small machine has.
const WORKERS: [u64; 2] = [2, 4];
/// Long enough that tasks overlap, short enough that thousands run in a moment.
const ITERATIONS: u64 = 50;

pub(crate) fn check(roster: &Roster, shapes: &[&'static str]) -> Result<()> {
    let mut failures = 0;
    let mut generated: BTreeMap<&str, (String, &str)> = BTreeMap::new();
    for system in &roster.systems {
        for &shape in shapes {
            for workers in WORKERS {
                let case = PeerCase { shape, grain_ns: 0, workers, tasks: TASKS };
                let mut command = system.peer(&case, TASKS, ITERATIONS);
                let line = sample::run(command.arg("--check")).with_context(|| format!("{}, {shape}", system.name))?;
                let violations = sample::count(&line, "violations")?;
                let graph = format!("{} with {} tasks, {} edges", line["fingerprint"], line["tasks"], line["edges"]);
                let (expected, first) = generated.entry(shape).or_insert_with(|| (graph.clone(), system.name));
                if violations > 0 {
                    failures += 1;
                    println!("{}, {shape}, {workers} workers: {violations} violations", system.name);
                }
                if *expected != graph {
                    failures += 1;
                    println!("{}, {shape}: generated {graph}, but {first} {expected}", system.name);
                }
            }
        }
        println!("{:<20} {} task graphs checked", system.name, shapes.len());
    }
    if failures > 0 {
        bail!("{failures} checks failed");
    }
    println!("every task ran once and after its predecessors, on the same graphs");
    Ok(())
}
