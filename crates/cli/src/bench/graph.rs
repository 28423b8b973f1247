//! `plimsoll bench graph`: time per task of a graph of a known shape.

use super::grain::{grind, iterations_for};
use super::overlaps;
use super::shapes::{Shape, ShapeKernels};
use super::tiers::{Tier, TierChain};
use super::{cpu_ns, peak_rss_of};
use crate::exit::{refused, wrong};
use crate::run::machine::Machine;
use clap::Args;
use plimsoll::isolate::{DeviceBuffer, DeviceProgram, ProgramCall, Registered};
use plimsoll::{Capacities, Device, Orchestrator, RunOptions};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Options of `bench graph`.
#[derive(Args)]
pub(crate) struct GraphBench {
    /// Shape of the graph
    #[arg(long)]
    shape: Shape,
    /// Which door of the library the tasks come through; others than `typed` for the shape chain only
    #[arg(long, value_enum, default_value_t = Tier::Typed)]
    tier: Tier,
    /// Tasks, rounded to what the shape can have
    #[arg(long, default_value_t = 200_000)]
    tasks: usize,
    /// Work of every kernel, in nanoseconds: a fixed number of multiply-adds, calibrated once
    #[arg(long, default_value_t = 0)]
    grain_ns: u64,
    /// Multiply-adds of every kernel, whatever they take: so that several programs are given the same work
    #[arg(long)]
    iterations: Option<u32>,
    /// Threads in all, or cores of an emulated arch host; 2 if left out
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    machine: Machine,
    /// Put all steps of a stencil of 8 × 8 tiles into one scope, in rings as `plimsoll size` recommends them for it
    #[arg(long)]
    flat: bool,
    /// Steps of a flat stencil, instead of tasks
    #[arg(long, requires = "flat", conflicts_with = "tasks")]
    steps: Option<usize>,
    /// Build the graph once, untimed, and time its launches
    #[arg(long)]
    prebuilt: bool,
    /// Repetitions; the minimum and the median are reported
    #[arg(long, default_value_t = 10)]
    reps: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct GraphFigures {
    shape: String,
    tier: String,
    engine: &'static str,
    arch: String,
    isolated: bool,
    prebuilt: bool,
    workers: usize,
    grain_ns: u64,
    tasks: usize,
    reps: usize,
    ns_per_task: f64,
    ns_per_task_median: f64,
    /// Measured for the typed tier of the host engine only: whoever submits to a chip's schedulers calls them, too.
    submit_ns_per_task: Option<f64>,
    cpu_ns_per_task: f64,
    /// Of the process that the device is in.
    peak_rss_bytes: u64,
}

impl GraphBench {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if let Some(steps) = self.steps {
            self.tasks = steps * overlaps::FLAT_SIDE * overlaps::FLAT_SIDE;
        }
        anyhow::ensure!(
            self.reps > 0 && self.tasks > 0,
            "there is nothing to measure: give at least one task and one repetition"
        );
        let is_stencil = matches!(self.shape, Shape::Stencil | Shape::Stencil9);
        anyhow::ensure!(is_stencil || !self.flat, "--flat is for the shapes stencil and stencil-9");
        self.check_tier()?;
        let tasks = if self.flat { overlaps::flat_tasks(self.tasks) } else { self.shape.tasks(self.tasks) };
        let grain = self.iterations.unwrap_or_else(|| iterations_for(self.grain_ns));
        let mut device = self.open(tasks)?;
        let settings = [self.shape_name(), self.tasks.to_string(), grain.to_string(), self.flat.to_string()];
        let program: Box<dyn DeviceProgram> = match self.tier {
            Tier::Typed => Box::new(ShapeProgram::build(&mut device, &settings)?),
            tier => Box::new(TierChain::build(tier, &mut device, tasks, grain)?),
        };
        let mut times = Vec::with_capacity(self.reps);
        let mut cpu = Vec::with_capacity(self.reps);
        let isolated = device.is_isolated();
        let mut graph = match self.prebuilt && !isolated {
            true => Some(device.prebuild(|o| program.orchestrate(o))?),
            false => None,
        };
        let call = ProgramCall {
            prebuilt: self.prebuilt.then_some(Device::MOST_PREBUILT),
            ..ProgramCall::new(ShapeProgram::NAME, &settings)
        };
        for _ in 0..self.reps {
            let (start, cpu_before) = (Instant::now(), device_cpu_ns(&device));
            match &mut graph {
                Some(graph) => device.launch(graph, 1, &RunOptions::default())?,
                None => device.run_program(&call, program.as_ref(), &RunOptions::default())?,
            }
            let elapsed_ns = start.elapsed().as_nanos();
            times.push(elapsed_ns as f64 / tasks as f64);
            cpu.push((device_cpu_ns(&device) - cpu_before) as f64 / tasks as f64);
        }
        let peak_rss_bytes = peak_rss_of(device.device_pid());
        let submits_here = self.tier == Tier::Typed && !self.machine.facts().is_model();
        let figures = GraphFigures {
            shape: self.shape_name(),
            tier: name_of(&self.tier),
            engine: self.machine.facts().engine,
            arch: self.machine.facts().arch,
            isolated,
            prebuilt: self.prebuilt,
            workers: device.workers(),
            grain_ns: self.grain_ns,
            tasks,
            reps: self.reps,
            ns_per_task: minimum(&times),
            ns_per_task_median: median(&mut times),
            submit_ns_per_task: submits_here.then(|| self.submit_only()).transpose()?,
            cpu_ns_per_task: minimum(&cpu),
            peak_rss_bytes,
        };
        if self.json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            self.print(&figures);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self, tasks: usize) -> anyhow::Result<Device> {
        let capacities = match self.flat {
            true => overlaps::flat_capacities(self.shape, tasks)?,
            false => Capacities::default(),
        };
        let mut builder = Device::builder().capacities(capacities).engine(self.machine.engine()?);
        if self.machine.takes_workers() {
            builder = builder.workers(self.workers.unwrap_or(2));
        } else if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        builder.open().map_err(refused)
    }

    fn print(&self, figures: &GraphFigures) {
        let submit = figures.submit_ns_per_task.map_or(String::new(), |ns| format!(" submit alone {ns:.1} ns;"));
        println!(
            "{}{}: {:.1} ns per task (median {:.1}) with {} threads, {:.1} ns of CPU;{submit} {} tasks, {} MiB",
            self.machine.facts().title(),
            figures.shape,
            figures.ns_per_task,
            figures.ns_per_task_median,
            figures.workers,
            figures.cpu_ns_per_task,
            figures.tasks,
            figures.peak_rss_bytes >> 20,
        );
    }

    fn check_tier(&self) -> anyhow::Result<()> {
        if self.tier != Tier::Typed && (self.shape != Shape::Chain || self.machine.is_isolated()) {
            return Err(wrong(
                "--tier is for the shape chain on a device of this process. The other shapes are written by the typed tier only. Use --shape chain.",
            ));
        }
        Ok(())
    }

    fn shape_name(&self) -> String {
        name_of(&self.shape)
    }

    /// Time per submit while nothing is executed: the only worker is kept busy and the graph fits the rings.
    fn submit_only(&self) -> anyhow::Result<f64> {
        const TASKS: usize = 8_000;
        // Room for everything at once: a full ring would wait for the worker that is kept busy.
        let mut capacities = Capacities { tensormap: 1 << 17, ..Capacities::default() };
        capacities.rings.iter_mut().for_each(|ring| ring.dep_pool = 1 << 18);
        let mut device = Device::builder().workers(2).lend(false).capacities(capacities).open()?;
        let kernels = ShapeKernels::new(&mut device, 0);
        let release = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&release);
        let hold = device.kernel("hold", move || {
            // Acquire pairs(bench.release).
            while !held.load(Ordering::Acquire) {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        let mut best = f64::MAX;
        for _ in 0..self.reps.clamp(3, 10) {
            // Release pairs(bench.release).
            release.store(false, Ordering::Release);
            device.run(|o| {
                o.submit(&hold, ())?;
                grind(100_000);
                let start = Instant::now();
                let submitted = self.shape.submit(o, &kernels, TASKS);
                best = best.min(start.elapsed().as_nanos() as f64 / self.shape.tasks(TASKS) as f64);
                // Release pairs(bench.release).
                release.store(true, Ordering::Release);
                submitted
            })?;
        }
        Ok(best)
    }
}

/// A graph of a shape, as devices run it.
pub(crate) struct ShapeProgram {
    shape: Shape,
    kernels: ShapeKernels,
    tasks: usize,
    flat: bool,
}

impl ShapeProgram {
    const NAME: &str = "bench-graph";

    /// The program, for devices in processes of their own.
    pub(crate) fn registered() -> Registered {
        Registered::new(Self::NAME, |device, settings| Ok(Box::new(Self::build(device, settings)?)))
    }

    /// Shape, tasks, multiply-adds of a kernel, whether it is flat.
    fn build(device: &mut Device, settings: &[String]) -> plimsoll::Result<Self> {
        let wrong =
            || plimsoll::Error::invalid("A graph of a shape has four settings: shape, tasks, iterations and flat.");
        let [shape, tasks, grain, flat] = settings else { return Err(wrong()) };
        let shape = <Shape as clap::ValueEnum>::from_str(shape, false).map_err(|_| wrong())?;
        let (tasks, grain) = (tasks.parse().map_err(|_| wrong())?, grain.parse().map_err(|_| wrong())?);
        Ok(Self { shape, kernels: ShapeKernels::new(device, grain), tasks, flat: flat == "true" })
    }
}

impl DeviceProgram for ShapeProgram {
    /// None: nobody looks at what the kernels compute.
    fn buffers(&self) -> Vec<&dyn DeviceBuffer> {
        Vec::new()
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> plimsoll::Result<()> {
        match self.flat {
            true => overlaps::stencil(o, &self.kernels, self.shape, self.tasks, overlaps::FLAT_SIDE, true),
            false => self.shape.submit(o, &self.kernels, self.tasks),
        }
    }
}

/// A value as the command line has it.
fn name_of(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Processor time of the process that a device is in, in nanoseconds.
fn device_cpu_ns(device: &Device) -> u64 {
    let Some(pid) = device.device_pid() else { return cpu_ns() };
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: the number and the time are valid for the calls to fill.
    match unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) } {
        // SAFETY: as above.
        0 if unsafe { libc::clock_gettime(clock, &raw mut time) } == 0 => {
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        }
        _ => 0,
    }
}

fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
