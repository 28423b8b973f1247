//! The critical path of random graphs in virtual time is the one that an obvious search finds.

use plimsoll_analyze::critical_path;
use plimsoll_runtime::abi::{Flags, Level};
use plimsoll_runtime::{ArchSpec, Costs, Device, In, InOut, RecordOptions, RunOptions, VirtualOptions, inout, input};
use plimsoll_trace::{Trace, open};

/// Small numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Runs a random graph: tasks that read one buffer and change another, of different sizes and so of different lengths.
fn run(seed: u64, workers: usize) -> Trace {
    let mut dice = Dice(seed);
    let costs = Costs { kernel_ns: 1_000, element_ps: 40_000, ..ArchSpec::HOST.costs };
    let arch = ArchSpec { costs, ..ArchSpec::HOST };
    let mut device =
        Device::builder().engine(VirtualOptions::new(&arch, seed)).workers(workers).open().expect("a device");
    let mix = device.kernel("mix", |a: In<f32>, mut b: InOut<f32>| {
        b[[0]] += a[[0]];
    });
    let touch = device.kernel("touch", |mut b: InOut<f32>| b[[0]] += 1.0);
    let flags = Level::new(4).expect("a level").flags().with(Flags::DEP_GEN);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = RecordOptions::new(dir.path().join("run"), flags);
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    let tasks = 5 + dice.roll(40);
    let buffers = 2 + dice.roll(6);
    let submitted = device.run_with(&options, |o| {
        let mut all = Vec::new();
        for _ in 0..buffers {
            let size = 1 + dice.roll(200);
            all.push(o.own(vec![0.0f32; size], [size])?);
        }
        for _ in 0..tasks {
            let (from, to) = (dice.roll(buffers), dice.roll(buffers));
            if from == to {
                o.submit(&touch, (inout(&all[to]),))?;
            } else {
                o.submit(&mix, (input(&all[from]), inout(&all[to])))?;
            }
        }
        Ok(())
    });
    submitted.expect("a good run");
    open(&dir.path().join("run")).expect("readable")
}

/// A task as an oracle sees it: its name, core, start and end, and the names of its producers.
struct Ran {
    name: String,
    core: u16,
    start: u64,
    end: u64,
    producers: Vec<String>,
}

fn all(trace: &Trace) -> Vec<Ran> {
    let (rows, deps) = (&trace.executions, trace.deps.as_ref().expect("submits were recorded"));
    let pairs = deps.pairs();
    (0..rows.len())
        .map(|row| {
            let name = trace.task_name(rows.word(row));
            let is_own = |task: u32| trace.task_name(deps.tasks[task as usize].word) == name;
            let producers = pairs.iter().filter(|(_, succ)| is_own(*succ));
            let producers = producers.map(|(pred, _)| trace.task_name(deps.tasks[*pred as usize].word)).collect();
            Ran { core: rows.core(row), start: rows.start(row), end: rows.end(row).expect("it ended"), name, producers }
        })
        .collect()
}

/// Back from the last end: every other task is looked at for every step.
fn observed(all: &[Ran]) -> Vec<&str> {
    let mut path = Vec::new();
    let mut next = all.iter().max_by_key(|task| task.end);
    while let Some(task) = next {
        path.push(task.name.as_str());
        let producer = all.iter().filter(|other| task.producers.contains(&other.name)).max_by_key(|other| other.end);
        let on_core = all.iter().filter(|other| other.core == task.core && other.start < task.start);
        let before = on_core.max_by_key(|other| other.start);
        next = match (producer, before) {
            (Some(producer), Some(before)) if before.end > producer.end => Some(before),
            (Some(producer), _) => Some(producer),
            (None, before) => before,
        };
    }
    path.reverse();
    path
}

/// The longest chain by trying every pair as often as there are tasks.
fn longest(all: &[Ran]) -> u64 {
    let mut longest: Vec<u64> = all.iter().map(|task| task.end - task.start).collect();
    for _ in 0..all.len() {
        for at in 0..all.len() {
            let before = (0..all.len()).filter(|other| all[at].producers.contains(&all[*other].name));
            let most = before.map(|other| longest[other]).max().unwrap_or(0);
            longest[at] = most + all[at].end - all[at].start;
        }
    }
    longest.into_iter().max().unwrap_or(0)
}

#[test]
fn the_critical_path_is_the_one_an_obvious_search_finds() {
    for seed in 0..60 {
        let workers = 1 + (seed % 4) as usize;
        let trace = run(seed, workers);
        let ours = critical_path(&trace).expect("tasks ran");
        let ran = all(&trace);
        let named: Vec<&str> = ours.path.iter().map(|hop| hop.task.as_str()).collect();
        assert_eq!(named, observed(&ran), "seed {seed}");
        assert_eq!(ours.summary.static_ns, trace.clock.ns(longest(&ran)), "seed {seed}");
        let p = &ours.summary.parts;
        let told = p.data_wait.expect("dependencies") + p.scheduling.expect("dispatches") + p.submit.expect("submits");
        assert_eq!(p.kernel + p.core_wait + p.front_gap + told, ours.summary.makespan_ns, "seed {seed}");
        if workers == 1 {
            assert_eq!(ours.path.len(), ran.len(), "seed {seed}: one core's path holds every task");
        }
    }
}
