//! `plimsoll bench start`: what it takes to open a device, and to run nothing on it.

use crate::exit::{refused, wrong};
use clap::Args;
use plimsoll::Device;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;

/// Options of `bench start`.
#[derive(Args)]
pub(crate) struct StartBench {
    /// Worker threads; the machine's CPUs if left out
    #[arg(long)]
    workers: Option<usize>,
    /// How many devices are opened, and how many empty runs each of them does
    #[arg(long, default_value_t = 20)]
    reps: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct StartFigures {
    workers: usize,
    reps: usize,
    /// Opening a device: in a process that has had none, least and median of all.
    first_open_us: f64,
    open_us: f64,
    open_us_median: f64,
    /// A run without tasks on an open device: the first in a process that has had none, the first on each device, and those
    /// after it.
    first_run_us: f64,
    device_first_run_us: f64,
    empty_run_us: f64,
    empty_run_us_median: f64,
}

impl StartBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.reps == 0 {
            return Err(wrong("There is nothing to measure. A bench takes one repetition or more. Give --reps."));
        }
        let (mut opens, mut firsts, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        let mut workers = 0;
        for _ in 0..self.reps {
            let began = Instant::now();
            let builder = Device::builder();
            let builder = if let Some(workers) = self.workers { builder.workers(workers) } else { builder };
            let mut device = builder.open().map_err(refused)?;
            opens.push(micros(began));
            workers = device.workers();
            for rep in 0..=self.reps {
                let began = Instant::now();
                device.run(|_| Ok(()))?;
                if rep == 0 { &mut firsts } else { &mut runs }.push(micros(began));
            }
        }
        let (first_open_us, first_run_us) = (opens[0], firsts[0]);
        let ((open_us, open_us_median), (empty_run_us, empty_run_us_median)) = (summary(opens), summary(runs));
        let (device_first_run_us, _) = summary(firsts);
        let reps = self.reps;
        let figures = StartFigures {
            workers,
            reps,
            first_open_us,
            open_us,
            open_us_median,
            first_run_us,
            device_first_run_us,
            empty_run_us,
            empty_run_us_median,
        };
        if self.json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            println!("{workers} workers, {reps} devices with {reps} empty runs each (least, median)");
            println!("  opening a device  {open_us:.0} µs, {open_us_median:.0} µs; the first {first_open_us:.0} µs");
            println!(
                "  an empty run      {empty_run_us:.1} µs, {empty_run_us_median:.1} µs; a device's first {device_first_run_us:.1} µs, the very first {first_run_us:.1} µs"
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

/// Least and median.
fn summary(mut values: Vec<f64>) -> (f64, f64) {
    let median = super::recording::median(&mut values);
    (values.into_iter().fold(f64::MAX, f64::min), median)
}
