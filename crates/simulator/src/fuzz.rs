//! The adversary: random programs over the whole public API on every engine, against serial execution.
//!
//! A seed decides the program, where it runs and how it is meant to end. Views of every kind, tasks of every shape, nested and
//! manual scopes, reads, explicit dependencies and uses that inference does not look at are in the programs ([`program`]); failing and panicking
//! kernels and cancelled tokens are in the [`ExpectedEnding`]; prebuilt graphs are launched with other buffers in between. Devices
//! are used again from case to case, so what one leaves behind the next one meets.

pub mod capacities;
pub mod drive;
mod kernels;
pub mod oracle;
pub mod program;
mod untyped;

pub use drive::TestDevice;
pub use kernels::AS_PLANNED;

use crate::fuzz::program::{Draw, HOST, ProgramStep, planned};
use plimsoll_abi::ErrorCode;
use plimsoll_runtime::{
    ArchSpec, CancelToken, Device, EmulatedOptions, Error, Random, Result as Ran, RunOptions, VirtualOptions,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Lets panics that are planned pass without a word.
pub fn quiet_planned_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|text| text.contains(AS_PLANNED)) {
            before(info);
        }
    }));
}

/// How a program is meant to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpectedEnding {
    /// Well.
    Well,
    /// A kernel fails.
    Fails,
    /// A kernel panics.
    Panics,
    /// A kernel cancels the run, which may be too late.
    IsCancelled,
    /// The token was cancelled before.
    WasCancelled,
}

/// What is done with a program.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The device, by number.
    engine: usize,
    ending: ExpectedEnding,
    /// The task that it ends with, modulo how many there are.
    task: u64,
    prebuilt: bool,
    untyped: bool,
}

/// How many cases there were of everything: a search in which something never happens proves nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FuzzTally {
    /// Programs.
    pub programs: u64,
    /// Tasks of them.
    pub tasks: u64,
    /// Tasks that are executed other than once.
    pub shaped: u64,
    /// Those of them whose blocks start together.
    pub cohorts: u64,
    /// Programs on cores that are threads behind mailboxes.
    pub emulated: u64,
    /// Manual scopes.
    pub manual: u64,
    /// Built once and launched on several sets of buffers.
    pub prebuilt: u64,
    /// Run on the untyped tier.
    pub untyped: u64,
    /// Kernels that failed.
    pub failures: u64,
    /// Kernels that panicked.
    pub panics: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
}

impl FuzzTally {
    fn add(&mut self, other: &FuzzTally) {
        self.programs += other.programs;
        self.tasks += other.tasks;
        self.shaped += other.shaped;
        self.cohorts += other.cohorts;
        self.emulated += other.emulated;
        self.manual += other.manual;
        self.prebuilt += other.prebuilt;
        self.untyped += other.untyped;
        self.failures += other.failures;
        self.panics += other.panics;
        self.cancelled += other.cancelled;
    }
}

const ENGINES: usize = 13;
/// From this one on cores are threads behind mailboxes.
const FIRST_EMULATED: usize = 8;

/// The devices of a search.
pub struct Fuzzer {
    benches: [Option<TestDevice>; ENGINES],
}

fn open(engine: usize) -> Ran<TestDevice> {
    let builder = Device::builder();
    let seed = engine as u64;
    let chip = |arch, clusters| VirtualOptions::new(&ArchSpec { clusters, sched_threads: 2, ..arch }, seed);
    let emulated = |arch, clusters| EmulatedOptions::new(&ArchSpec { clusters, sched_threads: 2, ..arch });
    let (on_threads, in_virtual_time) = (TestDevice::on_threads, TestDevice::open);
    let register = if (5..FIRST_EMULATED).contains(&engine) { in_virtual_time } else { on_threads };
    register(match engine {
        0..4 => builder.workers(engine + 1),
        4 => builder.workers(3).lend(false),
        5 => builder.engine(VirtualOptions::new(&ArchSpec::HOST, seed)).workers(3),
        6 => builder.engine(chip(ArchSpec::A2A3, 2)),
        7 => builder.engine(chip(ArchSpec::A5, 3)),
        8 => builder.engine(EmulatedOptions::new(&ArchSpec::HOST)).workers(3),
        9 => builder.engine(emulated(ArchSpec::A2A3, 2)),
        // The orchestrator gets two of them when it has submitted all.
        10 => builder.engine(EmulatedOptions { orch_to_sched: true, ..emulated(ArchSpec::A5, 6) }),
        11 => {
            builder.engine(EmulatedOptions { orch_to_sched: true, ..EmulatedOptions::new(&ArchSpec::HOST) }).workers(4)
        }
        _ => builder.engine(emulated(ArchSpec::A5, 1)),
    })
}

impl Default for Fuzzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Fuzzer {
    /// A search whose devices are opened when they are first used.
    pub fn new() -> Self {
        Self { benches: [const { None }; ENGINES] }
    }

    /// Runs one seed. An error says what is wrong with the smallest program that still shows it, and how to see it again.
    pub fn case(&mut self, seed: u64) -> Result<FuzzTally, String> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut tree = program::draws().new_tree(&mut runner).map_err(|reason| reason.to_string())?;
        let plan = Plan::draw(seed);
        let first = match self.attempt(&tree.current(), plan) {
            Ok(tally) => return Ok(tally),
            Err(what) => what,
        };
        let (mut smallest, mut what) = (tree.current(), first);
        let begin = Instant::now();
        while begin.elapsed() < SHRINKING {
            let failed = self.attempt(&tree.current(), plan);
            let moved = match failed {
                Err(said) => {
                    (smallest, what) = (tree.current(), said);
                    tree.simplify()
                }
                Ok(_) => tree.complicate(),
            };
            if !moved {
                break;
            }
        }
        let steps = program::resolve(&smallest);
        Err(format!(
            "seed {seed}: {what}\n{plan:?}\n{steps:?}\n  again: cargo run -p plimsoll-simulator --release -- --program {seed}"
        ))
    }

    /// Runs a program as planned; after a defect the device is not used again.
    fn attempt(&mut self, draws: &[Draw], plan: Plan) -> Result<FuzzTally, String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let bench = match &mut self.benches[plan.engine] {
                Some(bench) => bench,
                none => none.insert(open(plan.engine).map_err(|error| error.to_string())?),
            };
            plan.run(bench, program::resolve(draws))
        }));
        let outcome = outcome.unwrap_or_else(|_| Err("it panicked".to_owned()));
        if outcome.is_err() {
            self.benches[plan.engine] = None;
        }
        outcome
    }

    /// Runs seeds from `first` on until `enough` says so.
    pub fn search(&mut self, first: u64, enough: impl Fn(u64) -> bool) -> Result<FuzzTally, String> {
        let mut tally = FuzzTally::default();
        for seed in first.. {
            if enough(seed) {
                break;
            }
            tally.add(&self.case(seed)?);
        }
        Ok(tally)
    }
}

/// How long a program that shows a defect is made smaller.
const SHRINKING: Duration = Duration::from_secs(30);

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let engine = random.below(ENGINES as u64) as usize;
        let ending = match random.below(12) {
            0 => ExpectedEnding::Fails,
            1 => ExpectedEnding::Panics,
            2 => ExpectedEnding::IsCancelled,
            3 => ExpectedEnding::WasCancelled,
            _ => ExpectedEnding::Well,
        };
        Self { engine, ending, task: random.bits(), prebuilt: random.once_in(4), untyped: random.once_in(3) }
    }

    fn run(self, bench: &mut TestDevice, mut steps: Vec<ProgramStep>) -> Result<FuzzTally, String> {
        let StepCounts { manual, shaped, cohorts } = count_steps(&steps);
        let mut tasks = program::tasks(&mut steps);
        let count = tasks.len() as u64;
        let k = match self.ending {
            ExpectedEnding::Fails => Some(planned::FAILURE),
            ExpectedEnding::Panics => Some(planned::PANIC),
            ExpectedEnding::IsCancelled => Some(planned::CANCEL),
            ExpectedEnding::Well | ExpectedEnding::WasCancelled => None,
        };
        if let (Some(k), Some(at)) = (k, self.task.checked_rem(count)) {
            *tasks[at as usize] = k;
        }
        let ends = k.is_none() || count > 0;
        let token =
            matches!(self.ending, ExpectedEnding::IsCancelled | ExpectedEnding::WasCancelled).then(CancelToken::new);
        if self.ending == ExpectedEnding::WasCancelled {
            token.iter().for_each(CancelToken::cancel);
        }
        let options = RunOptions { cancel: token, ..RunOptions::default() };
        let error = match (self.prebuilt, self.untyped) {
            (true, _) => launch(bench, &program::without_copies(&steps), &options)?,
            (false, false) => stream(&steps, bench.run_with(&steps, &options))?,
            (false, true) => stream(&steps, bench.run_untyped(&steps, &options))?,
        };
        let ending = if ends { self.ending } else { ExpectedEnding::Well };
        judge(ending, error.as_ref())?;
        let happened = |what: ExpectedEnding| u64::from(ending == what && error.is_some());
        Ok(FuzzTally {
            programs: 1,
            tasks: count,
            shaped,
            cohorts,
            emulated: u64::from(self.engine >= FIRST_EMULATED),
            manual,
            prebuilt: u64::from(self.prebuilt),
            untyped: u64::from(self.untyped && !self.prebuilt),
            failures: happened(ExpectedEnding::Fails),
            panics: happened(ExpectedEnding::Panics),
            cancelled: happened(ExpectedEnding::IsCancelled) + happened(ExpectedEnding::WasCancelled),
        })
    }
}

/// What a program has of what not every program has.
#[derive(Clone, Copy, Default)]
struct StepCounts {
    /// Manual scopes.
    manual: u64,
    /// Tasks that are executed other than once.
    shaped: u64,
    /// Those of them whose blocks start together.
    cohorts: u64,
}

fn count_steps(steps: &[ProgramStep]) -> StepCounts {
    let mut counts = StepCounts::default();
    for step in steps {
        match step {
            ProgramStep::Scope(steps) | ProgramStep::Manual(steps) => {
                let inside = count_steps(steps);
                counts.manual += inside.manual + u64::from(matches!(step, ProgramStep::Manual(_)));
                counts.shaped += inside.shaped;
                counts.cohorts += inside.cohorts;
            }
            ProgramStep::Task { kind, .. } => {
                counts.shaped += u64::from(kind.is_shaped());
                counts.cohorts += u64::from(kind.is_cohort());
            }
            ProgramStep::Read(_) | ProgramStep::Write(..) => {}
        }
    }
    counts
}

/// Whether a run that is meant to end so may end with this.
fn judge(ending: ExpectedEnding, error: Option<&Error>) -> Result<(), String> {
    let planned = |code| error.is_some_and(|e| e.code() == code && e.explanation().contains(AS_PLANNED));
    let cancelled = error.is_some_and(|error| error.code() == ErrorCode::Cancelled);
    let fits = match ending {
        ExpectedEnding::Well => error.is_none(),
        ExpectedEnding::Fails => planned(ErrorCode::KernelFailed),
        ExpectedEnding::Panics => planned(ErrorCode::KernelPanicked),
        ExpectedEnding::IsCancelled => error.is_none() || cancelled,
        ExpectedEnding::WasCancelled => cancelled,
    };
    match (fits, error) {
        (true, _) => Ok(()),
        (false, Some(error)) => Err(format!("it was to end as {ending:?}, and ended with {error}")),
        (false, None) => Err(format!("it was to end as {ending:?}, and ended well")),
    }
}

/// What a program computes must be what the oracle does.
fn stream(steps: &[ProgramStep], outcome: Ran<oracle::VisibleData>) -> Result<Option<Error>, String> {
    match outcome {
        Err(error) => Ok(Some(error)),
        Ok(outcome) if outcome == oracle::run(steps) => Ok(None),
        Ok(outcome) => Err(format!("the result is not the serial one but {outcome:?}")),
    }
}

/// Builds the program once and launches it on several sets of buffers.
fn launch(bench: &mut TestDevice, steps: &[ProgramStep], options: &RunOptions) -> Result<Option<Error>, String> {
    let hosts = |add: i64| -> Vec<Vec<i64>> {
        (0..HOST.len()).map(|at| oracle::host_data(at).iter().map(|value| value + add).collect()).collect()
    };
    let left = match bench.launch(steps, &[hosts(1), hosts(2)], options) {
        Err(error) => return Ok(Some(error)),
        Ok(left) => left,
    };
    for (add, left) in (0..).zip(left) {
        let (_, expected) = oracle::run_from(steps, hosts(add));
        if left != expected {
            return Err(format!("launch {add} did not leave the serial result but {left:?}"));
        }
    }
    Ok(None)
}
