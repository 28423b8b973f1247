//! `plimsoll bench virtual`: how fast virtual time is in real time.

use super::cpu_ns;
use super::recorder::temporary;
use super::shapes::{Shape, ShapeKernels};
use crate::exit::{refused, wrong};
use clap::Args;
use plimsoll::abi::Level;
use plimsoll::{ArchSpec, Device, RecordOptions, RunOptions, VirtualOptions};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Options of `bench virtual`.
#[derive(Args)]
pub(crate) struct VirtualTimeBench {
    /// The arch
    #[arg(long, default_value = "a2a3")]
    arch: String,
    /// Shape of the graph, as in `bench graph`; its kernels are empty
    #[arg(long, default_value = "own-datum")]
    shape: Shape,
    /// Tasks, rounded to what the shape can have
    #[arg(long, default_value_t = 300_000)]
    tasks: usize,
    /// Swimlane level that is recorded; 0 is nothing
    #[arg(long, default_value_t = 4)]
    level: u64,
    /// Decides ties and interleavings
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Repetitions; the best is reported, since noise only takes away
    #[arg(long, default_value_t = 3)]
    reps: usize,
    /// Record on this directory's file system; the current directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct VirtualTimeFigures {
    engine: &'static str,
    #[serde(rename = "virtual")]
    is_virtual: bool,
    arch: String,
    cores: usize,
    level: u8,
    tasks: u64,
    reps: usize,
    lossless: Option<bool>,
    /// Tasks per second of real time, and per second of this process's CPU time, which other processes do not slow down.
    tasks_per_s: f64,
    tasks_per_cpu_s: f64,
    elapsed_ns: u64,
}

impl VirtualTimeBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.reps == 0 || self.tasks == 0 {
            return Err(wrong(
                "There is nothing to measure. A bench takes one task and one repetition or more. Give both.",
            ));
        }
        let Some(arch) = ArchSpec::named(&self.arch) else {
            let names: Vec<&str> = ArchSpec::ALL.iter().map(|arch| arch.name).collect();
            let names = names.join(", ");
            return Err(wrong(format!("There is no arch {:?}. The archs are {names}. Choose one.", self.arch)));
        };
        let level = Level::new(self.level).map_err(|error| wrong(format!("{error}. Choose one of them.")))?;
        let dir = temporary(self.dir.as_deref())?;
        let (mut wall, mut cpu) = (f64::MAX, f64::MAX);
        let mut last = None;
        for rep in 0..self.reps {
            let mut device = Device::builder().engine(VirtualOptions::new(arch, self.seed)).open().map_err(refused)?;
            let kernels = ShapeKernels::new(&mut device, 0);
            let flags = level.flags();
            let record = (!flags.is_empty()).then(|| RecordOptions::new(dir.path().join(rep.to_string()), flags));
            let options = RunOptions { record, ..RunOptions::default() };
            let (start, before) = (Instant::now(), cpu_ns());
            device.run_with(&options, |o| self.shape.submit(o, &kernels, self.tasks))?;
            wall = wall.min(start.elapsed().as_secs_f64());
            cpu = cpu.min((cpu_ns() - before) as f64 / 1e9);
            last = Some((device.report().clone(), device.workers()));
        }
        let Some((report, cores)) = last else { return Ok(ExitCode::FAILURE) };
        let figures = VirtualTimeFigures {
            engine: "virtual",
            is_virtual: true,
            arch: self.arch.clone(),
            cores,
            level: level.number(),
            tasks: report.tasks,
            reps: self.reps,
            lossless: report.ledger.as_ref().map(|ledger| ledger.lossless),
            tasks_per_s: report.tasks as f64 / wall,
            tasks_per_cpu_s: report.tasks as f64 / cpu,
            elapsed_ns: report.elapsed_ns,
        };
        figures.print(self.json)?;
        Ok(if figures.lossless == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

impl VirtualTimeFigures {
    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        println!(
            "virtual time on {} ({} cores), level {}: {:.0} tasks per second of real time, {:.0} per second of CPU time",
            self.arch, self.cores, self.level, self.tasks_per_s, self.tasks_per_cpu_s
        );
        let lost = match self.lossless {
            Some(true) => "nothing lost",
            Some(false) => "RECORDS LOST",
            None => "not recorded",
        };
        println!("  {} empty tasks, {:.3} ms of virtual time, {lost}", self.tasks, self.elapsed_ns as f64 / 1e6);
        Ok(())
    }
}
