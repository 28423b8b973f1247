//! `cargo xtask peers`: other task runtimes on the same task graphs, measured beside ours.
//!
//! One process is one measurement. Within a repetition all systems run in turn on every case, in an order that rotates
//! from repetition to repetition, so that what disturbs the machine for a while disturbs them alike.

mod correctness;
mod machine;
mod measure;
mod page;
mod roster;
mod sample;
mod table;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::workspace::Workspace;
use measure::{PeerCase, PeerResults};
use roster::Roster;

pub(crate) const SHAPES: [&str; 11] = [
    "independent",
    "own-datum",
    "chain",
    "fork-join",
    "wavefront",
    "cholesky",
    "paged-attention",
    "stencil",
    "stencil-9",
    "lu",
    "sliding",
];

#[derive(Args)]
pub(crate) struct PeerOptions {
    /// Fewer tasks, empty kernels, 2 workers, 3 repetitions.
    #[arg(long)]
    quick: bool,
    /// Measurements per system and case [default: 10; 3 with --quick].
    #[arg(long)]
    reps: Option<usize>,
    /// Only these task graphs.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(SHAPES))]
    shapes: Vec<String>,
    /// Kernel lengths [default: 0,1000,10000; 0 with --quick].
    #[arg(long, value_delimiter = ',')]
    grain_ns: Vec<u64>,
    /// Numbers of worker threads [default: 1,2; 2 with --quick].
    #[arg(long, value_delimiter = ',')]
    workers: Vec<u32>,
    /// Only these systems (see the first column of the table).
    #[arg(long, value_delimiter = ',')]
    systems: Vec<String>,
    /// Leave ours out.
    #[arg(long)]
    peers_only: bool,
    /// Measure nothing: verify that every peer runs every task once, after its predecessors.
    #[arg(long)]
    check: bool,
    /// Put the tables between the markers of docs/performance.md.
    #[arg(long)]
    write: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &PeerOptions) -> Result<()> {
    let workspace = Workspace::find()?;
    let roster = Roster::assemble(&workspace, &options.systems, options.peers_only || options.check)?;
    for absent in &roster.absent {
        eprintln!("{absent}");
    }
    if options.check {
        return correctness::check(&roster, &shapes(options));
    }
    let before = machine::load_average();
    let results = measure::all(&roster, &cases(options), repetitions(options))?;
    let machine = machine::describe(&before, &results);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&machine, &roster, &results))?);
    } else {
        println!("{}", table::render(&machine, &roster, &results));
    }
    if options.write {
        page::write(&workspace, &table::render(&machine, &roster, &results))?;
    }
    Ok(())
}

fn repetitions(options: &PeerOptions) -> usize {
    options.reps.unwrap_or(if options.quick { 3 } else { 10 }).max(1)
}

fn shapes(options: &PeerOptions) -> Vec<&'static str> {
    SHAPES.into_iter().filter(|s| options.shapes.is_empty() || options.shapes.iter().any(|asked| asked == s)).collect()
}

/// Kernel by kernel, then by number of workers: the order of the tables.
fn cases(options: &PeerOptions) -> Vec<PeerCase> {
    let or = |asked: &[u64], quick: &[u64], full: &[u64]| {
        let default = if options.quick { quick } else { full };
        if asked.is_empty() { default.to_vec() } else { asked.to_vec() }
    };
    let workers: Vec<u64> = options.workers.iter().map(|&w| u64::from(w.max(1))).collect();
    let mut cases = Vec::new();
    for grain_ns in or(&options.grain_ns, &[0], &[0, 1000, 10_000]) {
        for workers in or(&workers, &[2], &[2, 1]) {
            for shape in shapes(options) {
                cases.push(PeerCase { shape, grain_ns, workers, tasks: tasks(shape, grain_ns, options.quick) });
            }
        }
    }
    cases
}

/// Enough that start-up does not show, few enough that a case takes well under a second.
fn tasks(shape: &str, grain_ns: u64, quick: bool) -> u64 {
    let tasks = match grain_ns {
        0..500 => 200_000,
        500..5000 => 50_000,
        _ => 10_000,
    };
    let tasks = if quick { tasks / 4 } else { tasks };
    // 60 tile columns, at most: as in the published figures this table is held against.
    if shape == "cholesky" { tasks.min(37_820) } else { tasks }
}

fn as_json(machine: &[String], roster: &Roster, results: &PeerResults) -> Value {
    let cell = |(case, system, cell): (&PeerCase, &str, &measure::PeerCell)| {
        let (time, cpu) = (cell.time(), cell.cpu());
        json!({
            "system": system, "shape": case.shape, "grain_ns": case.grain_ns, "workers": case.workers,
            "tasks": cell.tasks(), "samples": cell.samples.len(),
            "ns_per_task": time.map(|t| t.min), "ns_per_task_median": time.map(|t| t.median),
            "cpu_ns_per_task": cpu.map(|t| t.min), "cpu_ns_per_task_median": cpu.map(|t| t.median),
            "submit_ns_per_task": cell.submit().map(|t| t.min), "peak_rss_bytes": cell.peak_rss_bytes(),
            "ours_to_this": results.ratio(case, roster::OURS, system),
            "error": cell.failure,
        })
    };
    json!({ "machine": machine, "absent": roster.absent, "cells": results.cells().map(cell).collect::<Vec<_>>() })
}
