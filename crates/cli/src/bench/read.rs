//! `plimsoll bench read`: how fast captures are read and questions answered, of our form and of the reference's.

use super::recorder::temporary;
use super::{cpu_ns, peak_rss_bytes};
use crate::exit::wrong;
use clap::Args;
use plimsoll::trace::synthetic::Synthetic;
use plimsoll::trace::{Trace, TraceParts, open_with};
use plimsoll::{analyze, report};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Options of `bench read`.
#[derive(Args)]
pub(crate) struct ReadBench {
    /// Tasks of the captures that are made up
    #[arg(long, default_value_t = 1_000_000)]
    tasks: u32,
    /// Write the captures on this directory's file system; the current directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One step.
#[derive(Serialize)]
struct Step {
    step: &'static str,
    wall_s: f64,
    cpu_s: f64,
    /// The most memory that was resident during the step.
    peak_rss_bytes: u64,
    /// What was read, in bytes.
    bytes: u64,
}

#[derive(Serialize)]
struct ReadingFigures {
    tasks: u32,
    edges: u64,
    steps: Vec<Step>,
}

impl ReadBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.tasks == 0 {
            return Err(wrong("There is nothing to read. A capture has one task or more. Give --tasks a number."));
        }
        let dir = temporary(self.dir.as_deref())?;
        let (own, reference) = (dir.path().join("own"), dir.path().join("reference"));
        let mut figures = ReadingFigures { tasks: self.tasks, edges: 0, steps: Vec::new() };
        Synthetic { tasks: self.tasks, cores: 24, per_frame: 2048, ..Synthetic::default() }.write(&own)?;
        let size = bytes_in(&own)?;
        let trace = figures.time("own: load and join", size, || open_with(&own, TraceParts::TASKS))?;
        figures.time("own: statistics", 0, || anyhow::Ok(analyze::stats(&trace)))?;
        drop(trace);
        let trace = figures.time("own: load with edges", size, || open_with(&own, TraceParts::WAITS))?;
        figures.edges = trace.deps.as_ref().map_or(0, |deps| deps.pairs().len() as u64);
        figures.answer(&trace)?;
        drop(trace);
        let trace = open_with(&own, TraceParts::ALL)?;
        report::simpler::write_simpler(&trace, &reference)?;
        drop(trace);
        let records = reference.join("chip_swimlane_records.json");
        let deps = reference.join("deps.json");
        let aside = dir.path().join("deps.json");
        std::fs::rename(&deps, &aside)?;
        let size = records.metadata()?.len();
        drop(figures.time("reference: swimlane alone", size, || open_with(&records, TraceParts::TASKS))?);
        std::fs::rename(&aside, &deps)?;
        let size = bytes_in(&reference)?;
        let trace = figures.time("reference: with deps and scopes", size, || open_with(&reference, TraceParts::ALL))?;
        figures.answer(&trace)?;
        figures.print(self.json)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ReadingFigures {
    /// Does a step and notes what it took.
    fn time<T, E>(&mut self, step: &'static str, bytes: u64, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        reset_peak();
        let (start, cpu) = (Instant::now(), cpu_ns());
        let done = work()?;
        let wall_s = start.elapsed().as_secs_f64();
        let cpu_s = (cpu_ns() - cpu) as f64 / 1e9;
        self.steps.push(Step { step, wall_s, cpu_s, peak_rss_bytes: peak_rss_bytes(), bytes });
        Ok(done)
    }

    fn answer(&mut self, trace: &Trace) -> anyhow::Result<()> {
        self.time("critical path", 0, || anyhow::Ok(analyze::critical_path(trace)))?;
        self.time("scheduling", 0, || anyhow::Ok(analyze::sched(trace)))?;
        Ok(())
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        println!(
            "{} tasks, {} edges (the most resident memory includes what earlier steps left)",
            self.tasks, self.edges
        );
        println!("  {:<32} {:>9} {:>9} {:>10} {:>10}", "step", "wall", "CPU", "memory", "read");
        for step in &self.steps {
            let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / 1_048_576.0);
            let read = if step.bytes > 0 { mib(step.bytes) } else { String::new() };
            println!(
                "  {:<32} {:>7.3} s {:>7.3} s {:>10} {:>10}",
                step.step,
                step.wall_s,
                step.cpu_s,
                mib(step.peak_rss_bytes),
                read
            );
        }
        Ok(())
    }
}

/// Lets the system count the most resident memory anew; where it cannot, the figure is that of the whole process.
fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Bytes of all files below a directory.
fn bytes_in(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes_in(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
