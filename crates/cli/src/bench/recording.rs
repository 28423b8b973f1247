//! `plimsoll bench recording`: what recording a run costs, level by level.
//!
//! Every repetition goes through all ways of recording, in another order each time, so that whatever else the machine does
//! meets them alike, and so does what a way leaves behind. A way is compared with the run without recording of the same
//! repetition. What a recording costs whatever its length (directory, region, manifests) is measured by a run without
//! tasks beside it and taken off before the rest is divided by the tasks.
//!
//! A recording of counters is compared with one way more: a device of the same kind whose kernels read the same counters
//! and throw the readings away. While a core reads, others wait for it, some of them busily, whoever it is that reads. Both
//! ways have that, so their difference is what recording adds beside the reads.

use super::grain::iterations_for;
use super::recorder::temporary;
use super::scope_cost::{ScopeCost, scope_costs};
use super::shapes::{Shape, ShapeKernels};
use super::{cpu_at_rest, cpu_ns};
use crate::exit::{refused, wrong};
use crate::program::NamedProgram;
use crate::run::counter_group;
use crate::run::machine::Machine;
use clap::{Args, ValueEnum};
use plimsoll::abi::{Flags, Level};
use plimsoll::record::{CounterChoice, CounterGroup, counter_reading_cost_ns};
use plimsoll::{Device, RecordOptions, RunOptions};
use plimsoll_programs::{Instance, Settings};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `bench recording`.
#[derive(Args)]
pub(crate) struct RecordingBench {
    /// A program, or a shape of `bench graph`: its kernels are empty
    program: String,
    /// Tasks of a shape, rounded to what it can have; makes a name that both have mean the shape [default: 200000]
    #[arg(long)]
    tasks: Option<usize>,
    /// Work of every kernel of a shape, in nanoseconds
    #[arg(long, default_value_t = 0)]
    grain_ns: u64,
    /// Change a setting of the program
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Threads in all, or cores of an emulated arch host; one per CPU if left out
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    machine: Machine,
    /// Measure counters, too: level 4 with this group, and a run without recording whose kernels read it, with which level 4
    /// is compared
    #[arg(long, value_name = "GROUP", num_args = 0..=1, require_equals = true, default_missing_value = "cycles")]
    pmu: Option<String>,
    /// Repetitions
    #[arg(long, default_value_t = 10)]
    reps: usize,
    /// Measure these swimlane levels only, which brings them closer to the runs they are compared with
    #[arg(long, value_name = "LEVEL,…", value_delimiter = ',')]
    levels: Vec<u64>,
    /// Record on this directory's file system; the current directory if left out
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is run.
enum Measured {
    Program(Box<dyn Instance>),
    Shape { shape: Shape, kernels: ShapeKernels, tasks: usize },
}

/// A way of recording.
struct Way {
    name: &'static str,
    flags: Flags,
    counters: CounterGroup,
    /// Whether it runs on the device whose kernels read the counters themselves.
    kernels_read: bool,
}

impl Way {
    fn new(name: &'static str, flags: Flags) -> Self {
        Self { name, flags, counters: CounterGroup::default(), kernels_read: false }
    }
}

/// A device, and what is run on it.
struct Bed {
    device: Device,
    subject: Measured,
}

/// One run, in nanoseconds.
#[derive(Clone, Copy)]
struct Sample {
    cpu: f64,
    /// CPU time of a run without tasks.
    fixed: f64,
    /// CPU time since the program began, less that of a run without tasks.
    work: f64,
    elapsed: f64,
}

#[derive(Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

#[derive(Serialize)]
struct Row {
    recording: &'static str,
    flags: u64,
    cpu_ns: Spread,
    elapsed_ns: Spread,
    /// CPU time of a recording without tasks.
    fixed_cpu_ns: f64,
    /// CPU time that every task costs more than without recording.
    cpu_ns_per_task_added: f64,
    /// CPU time that every task costs more, from the least times of all repetitions, since noise only adds.
    cpu_ns_per_task_added_least: f64,
    elapsed_ns_per_task_added: f64,
    /// What the reads of the counters cost; only of a way with counters.
    #[serde(flatten)]
    reads: Option<ReadCosts>,
}

/// What recording counters costs in the reads of the counters, and beside them, in nanoseconds of CPU time per task.
#[derive(Serialize)]
struct ReadCosts {
    /// The two readings of every execution by themselves: the least of many, on one thread.
    counter_reads_ns_per_task: f64,
    /// What a run without recording whose kernels make these readings costs more than one whose kernels do not: the readings,
    /// and the wait of those who wait busily for a core.
    counter_reads_in_place_ns_per_task: f64,
    /// What the recording costs more than that run: the median over pairs of the same repetition.
    cpu_ns_per_task_added_beside_reads: f64,
    /// What the recording costs more than that run, from the least times of all repetitions.
    cpu_ns_per_task_added_beside_reads_least: f64,
}

#[derive(Serialize)]
struct RecordingFigures {
    program: String,
    engine: &'static str,
    arch: String,
    /// The group that was counted, if counters were measured.
    counters: Option<&'static str>,
    workers: usize,
    tasks: u64,
    reps: usize,
    rows: Vec<Row>,
    /// Measured after the rows, which a person sees before.
    #[serde(flatten)]
    scopes: Option<ScopeFigures>,
}

#[derive(Serialize)]
struct ScopeFigures {
    /// What scope statistics cost an empty scope, whatever the program.
    scope: ScopeCost,
    /// What they cost a scope of one task.
    scope_of_one_task: ScopeCost,
}

impl RecordingBench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.reps == 0 || self.tasks == Some(0) {
            return Err(wrong(
                "There is nothing to measure. A bench takes one task and one repetition or more. Give both.",
            ));
        }
        if self.machine.is_isolated() || self.machine.is_virtual() {
            return Err(wrong(
                "There is no CPU time of this process to measure. A device in virtual time spends none, and an isolated one that of another process. Choose another engine.",
            ));
        }
        let choice = self.pmu.as_deref().map(counter_group).transpose()?.map(|group| CounterChoice::make(group, 1));
        let mut bed = self.bed()?;
        let mut reading_bed = choice.as_ref().map(|choice| self.reading_bed(choice.group)).transpose()?;
        let dir = temporary(self.dir.as_deref())?;
        let ways = self.ways(choice.as_ref())?;
        let mut samples: Vec<Vec<Sample>> = ways.iter().map(|_| Vec::with_capacity(self.reps)).collect();
        let mut order: Vec<usize> = (0..ways.len()).collect();
        for rep in 0..self.reps {
            shuffle(&mut order, rep as u64);
            for &at in &order {
                let bed = reading_bed.as_mut().filter(|_| ways[at].kernels_read).unwrap_or(&mut bed);
                samples[at].push(sample(bed, dir.path(), &ways[at])?);
            }
        }
        let device = &mut bed.device;
        let tasks = device.report().tasks;
        let mut rows: Vec<Row> =
            ways.iter().zip(&samples).map(|(way, own)| row(way, own, &samples[0], tasks)).collect();
        if let (Some(choice), [.., reading, counted]) = (&choice, &samples[..]) {
            let executions = device.report().dispatches as f64 / tasks.max(1) as f64;
            let by_themselves = counter_reading_cost_ns(choice.group).unwrap_or(0.0) * executions;
            rows[ways.len() - 1].reads = Some(read_costs(by_themselves, &samples[0], reading, counted, tasks));
        }
        if let Some(note) = choice.as_ref().and_then(|choice| choice.note.as_ref()) {
            eprintln!("plimsoll: {note}");
        }
        let machine = self.machine.facts();
        let mut figures = RecordingFigures {
            program: self.program.clone(),
            engine: machine.engine,
            arch: machine.arch.to_owned(),
            counters: choice.as_ref().map(|choice| choice.group.name()),
            workers: device.workers(),
            tasks,
            reps: self.reps,
            rows,
            scopes: None,
        };
        if !self.json {
            print(&figures);
        }
        let [scope, scope_of_one_task] = scope_costs(device, dir.path(), self.reps)?;
        let scopes = figures.scopes.insert(ScopeFigures { scope, scope_of_one_task });
        match self.json {
            true => println!("{}", serde_json::to_string(&figures)?),
            false => print_scopes(scopes),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn ways(&self, counters: Option<&CounterChoice>) -> anyhow::Result<Vec<Way>> {
        let mut ways = ways()?;
        if !self.levels.is_empty() {
            let chosen = self.levels.iter().map(|&number| Level::new(number).map(Level::flags));
            let chosen = chosen.collect::<Result<Vec<Flags>, _>>().map_err(wrong)?;
            ways.retain(|way| way.flags == Flags::NONE || chosen.contains(&way.flags));
        }
        if let Some(choice) = counters {
            let flags = Level::new(4).map_err(wrong)?.flags().with(Flags::PMU);
            ways.push(Way { kernels_read: true, ..Way::new("off + reads", Flags::NONE) });
            ways.push(Way { counters: choice.group, ..Way::new("level 4 + counters", flags) });
        }
        Ok(ways)
    }

    fn bed(&self) -> anyhow::Result<Bed> {
        let mut builder = Device::builder().engine(self.machine.engine()?);
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        let mut device = builder.open().map_err(refused)?;
        let subject = self.subject(&mut device)?;
        Ok(Bed { device, subject })
    }

    /// A device and a subject whose kernels read the counters themselves.
    fn reading_bed(&self, group: CounterGroup) -> anyhow::Result<Bed> {
        let mut bed = self.bed()?;
        bed.device.read_counters_around_kernels(group);
        Ok(bed)
    }

    fn subject(&self, device: &mut Device) -> anyhow::Result<Measured> {
        const TASKS: usize = 200_000;
        let shape = Shape::from_str(&self.program, true).ok();
        match shape.filter(|_| self.tasks.is_some() || NamedProgram::find(&self.program).is_err()) {
            Some(shape) => {
                let kernels = ShapeKernels::new(device, iterations_for(self.grain_ns));
                Ok(Measured::Shape { shape, kernels, tasks: self.tasks.unwrap_or(TASKS) })
            }
            None => {
                let program = NamedProgram::find(&self.program)?;
                let settings = Settings::new(program.params, self.set.iter().map(String::as_str)).map_err(wrong)?;
                Ok(Measured::Program(program.build(device, &settings).map_err(refused)?))
            }
        }
    }
}

fn ways() -> anyhow::Result<Vec<Way>> {
    let level = |number| Level::new(number).map(Level::flags);
    Ok(vec![
        Way::new("off", Flags::NONE),
        Way::new("level 1", level(1)?),
        Way::new("level 2", level(2)?),
        Way::new("level 3", level(3)?),
        Way::new("level 4", level(4)?),
        Way::new("level 4 + dep_gen", level(4)?.with(Flags::DEP_GEN)),
        Way::new("scope stats", Flags::SCOPE_STATS),
    ])
}

/// Another order for every `seed`.
fn shuffle(order: &mut [usize], seed: u64) {
    for left in (2..=order.len()).rev() {
        let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * left as u32);
        order.swap(left - 1, (mixed % left as u64) as usize);
    }
}

/// One run that is recorded in this way, and one without tasks.
fn sample(bed: &mut Bed, dir: &Path, way: &Way) -> anyhow::Result<Sample> {
    let Bed { device, subject } = bed;
    let dir = tempfile::tempdir_in(dir)?;
    let options = |name: &str, mut options: RunOptions| {
        let record =
            || RecordOptions { counters: way.counters, ..RecordOptions::new(dir.path().join(name), way.flags) };
        options.record = (!way.flags.is_empty()).then(record);
        options
    };
    let mut begun = 0;
    let before = cpu_at_rest();
    device.run_with(&options("empty", RunOptions::default()), |_| {
        begun = cpu_ns();
        Ok(())
    })?;
    let between = cpu_at_rest();
    let end = between - begun;
    match subject {
        Measured::Program(instance) => device.run_with(&options("full", instance.options()), |o| {
            begun = cpu_ns();
            instance.orchestrate(o)
        })?,
        Measured::Shape { shape, kernels, tasks } => {
            device.run_with(&options("full", RunOptions::default()), |o| {
                begun = cpu_ns();
                shape.submit(o, kernels, *tasks)
            })?;
        }
    }
    let after = cpu_at_rest();
    if let Measured::Program(instance) = subject {
        instance.reset()?;
    }
    Ok(Sample {
        cpu: (after - between) as f64,
        fixed: (between - before) as f64,
        work: (after - begun) as f64 - end as f64,
        elapsed: device.report().elapsed_ns as f64,
    })
}

fn row(way: &Way, own: &[Sample], off: &[Sample], tasks: u64) -> Row {
    let of = |part: fn(&Sample) -> f64| -> Vec<f64> { own.iter().map(part).collect() };
    Row {
        recording: way.name,
        flags: way.flags.bits(),
        cpu_ns: spread(of(|s| s.cpu)),
        elapsed_ns: spread(of(|s| s.elapsed)),
        fixed_cpu_ns: median(&mut of(|s| s.fixed)),
        cpu_ns_per_task_added: added(own, off, tasks, |s| s.work),
        cpu_ns_per_task_added_least: added_least(own, off, tasks),
        elapsed_ns_per_task_added: added(own, off, tasks, |s| s.elapsed),
        reads: None,
    }
}

/// What the way with counters costs, in three parts: `off` and `reading` are without recording, the latter with kernels that
/// read the counters.
fn read_costs(by_themselves: f64, off: &[Sample], reading: &[Sample], counted: &[Sample], tasks: u64) -> ReadCosts {
    ReadCosts {
        counter_reads_ns_per_task: by_themselves,
        counter_reads_in_place_ns_per_task: added(reading, off, tasks, |s| s.work),
        cpu_ns_per_task_added_beside_reads: added(counted, reading, tasks, |s| s.work),
        cpu_ns_per_task_added_beside_reads_least: added_least(counted, reading, tasks),
    }
}

/// What a task takes more in `own` than in the run of `off` of the same repetition: the median.
fn added(own: &[Sample], off: &[Sample], tasks: u64, part: fn(&Sample) -> f64) -> f64 {
    let mut pairs: Vec<f64> = own.iter().zip(off).map(|(own, off)| part(own) - part(off)).collect();
    median(&mut pairs) / tasks.max(1) as f64
}

/// The CPU time that a task takes more in the least run of `own` than in the least of `off`.
fn added_least(own: &[Sample], off: &[Sample], tasks: u64) -> f64 {
    let least = |samples: &[Sample]| samples.iter().map(|sample| sample.work).fold(f64::MAX, f64::min);
    (least(own) - least(off)) / tasks.max(1) as f64
}

fn spread(mut values: Vec<f64>) -> Spread {
    let median = median(&mut values);
    Spread { median, min: values[0], max: values[values.len() - 1] }
}

/// The middle of the values, which are left in order.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(figures: &RecordingFigures) {
    let RecordingFigures { program, engine, workers, tasks, reps, rows, .. } = figures;
    println!(
        "{program} on {engine}: {tasks} tasks, {workers} workers, {reps} repetitions (CPU time and elapsed: median, least–most)"
    );
    println!(
        "  {:<18} {:>27} {:>27} {:>15} {:>9} {:>11}",
        "recording", "CPU ms", "elapsed ms", "CPU ns/task", "least", "fixed CPU"
    );
    for row in rows {
        let shown = |s: &Spread| format!("{:.2} ({:.2}–{:.2})", s.median / 1e6, s.min / 1e6, s.max / 1e6);
        println!(
            "  {:<18} {:>27} {:>27} {:>+15.1} {:>+9.1} {:>8.2} ms",
            row.recording,
            shown(&row.cpu_ns),
            shown(&row.elapsed_ns),
            row.cpu_ns_per_task_added,
            row.cpu_ns_per_task_added_least,
            row.fixed_cpu_ns / 1e6,
        );
        if let Some(reads) = &row.reads {
            let group = figures.counters.unwrap_or_default();
            println!(
                "    of that, {:.1} ns are the reads of the counters ({group}) and of those who wait for them ({:.1} ns the reads by themselves)",
                reads.counter_reads_in_place_ns_per_task, reads.counter_reads_ns_per_task
            );
            println!(
                "    beside the reads, against off + reads in pairs: {:+.1} ns (least {:+.1})",
                reads.cpu_ns_per_task_added_beside_reads, reads.cpu_ns_per_task_added_beside_reads_least
            );
        }
    }
}

fn print_scopes(figures: &ScopeFigures) {
    let ScopeFigures { scope, scope_of_one_task } = figures;
    for (name, scope) in [("an empty scope", scope), ("a scope of one task", scope_of_one_task)] {
        println!(
            "  scope statistics add to {name} {:+.1} ns of the submitter's CPU (least {:+.1}), {:+.1} ns with the collector's (least {:+.1}), and {:.0} bytes",
            scope.submitter_ns_per_scope_added,
            scope.submitter_ns_per_scope_added_least,
            scope.cpu_ns_per_scope_added,
            scope.cpu_ns_per_scope_added_least,
            scope.bytes_per_scope,
        );
    }
}
