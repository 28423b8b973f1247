//! One seed: runs it, and says what is wrong with what came of it.

use crate::model::{self, Deadlock};
use crate::oracle::{self, Results};
use crate::play::{PlayKernels, play, play_prebuilt};
use crate::program::{self, ProgramSize};
use crate::records::{self, ensure};
use crate::scenario::Scenario;
use plimsoll_abi::{ErrorCode, Resource};
use plimsoll_runtime::{Capacities, Device, Error, Policy, Random, RecordOptions, RunOptions, Who};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// How many runs ended in which way: a search in which something never happens proves nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SimulationTally {
    /// Seeds.
    pub seeds: u64,
    /// Ended well.
    pub ok: u64,
    /// A ring or table was too small.
    pub deadlocks: u64,
    /// A kernel failed.
    pub failures: u64,
    /// A core hung.
    pub hangs: u64,
    /// The deadline passed.
    pub deadlines: u64,
    /// Dropped records, and said so.
    pub dropped: u64,
    /// Had to wait for the collector.
    pub waited: u64,
    /// An agent was paused.
    pub paused: u64,
    /// The collector was paused.
    pub collector_paused: u64,
    /// The recorder had one buffer per pool.
    pub one_buffer: u64,
    /// A ring had one slot.
    pub one_slot: u64,
    /// Built once and launched twice besides.
    pub prebuilt: u64,
}

impl SimulationTally {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &SimulationTally) {
        self.seeds += other.seeds;
        self.ok += other.ok;
        self.deadlocks += other.deadlocks;
        self.failures += other.failures;
        self.hangs += other.hangs;
        self.deadlines += other.deadlines;
        self.dropped += other.dropped;
        self.waited += other.waited;
        self.paused += other.paused;
        self.collector_paused += other.collector_paused;
        self.one_buffer += other.one_buffer;
        self.one_slot += other.one_slot;
        self.prebuilt += other.prebuilt;
    }
}

/// Runs one seed. An error says what is wrong, and how to see it again.
pub fn simulate(seed: u64) -> Result<SimulationTally, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| Simulation { seed, scenario: Scenario::draw(seed) }.run()));
    let outcome = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("with a value that is not text")))
    });
    outcome.map_err(|what| again(seed, &what))
}

/// What is wrong with a seed, and the command that shows it again.
pub fn again(seed: u64, what: &str) -> String {
    // A defect that is compiled in is there again only if it is compiled in again.
    let feature = if cfg!(feature = "planted-bug") { " --features planted-bug" } else { "" };
    format!("seed {seed}: {what}\n  again: cargo run -p plimsoll-simulator --release{feature} -- --seed {seed}")
}

struct Simulation {
    seed: u64,
    scenario: Scenario,
}

/// A run, as its directory and its report show it.
struct SeedOutcome {
    result: Result<Results, Error>,
    tally: SimulationTally,
    segment: Vec<u8>,
}

impl Simulation {
    fn run(&self) -> Result<SimulationTally, String> {
        let first = self.once(&self.scenario.capacities)?;
        if self.seed.is_multiple_of(8) {
            let again = self.once(&self.scenario.capacities)?;
            ensure(first.segment == again.segment, || "the same seed gave other records".to_owned())?;
        }
        self.judge(&first.result, &self.scenario.capacities)?;
        if let Err(error) = &first.result {
            self.grow(error)?;
        }
        let prebuilt = self.seed % 4 == 1 && !self.excuses_everything();
        if prebuilt {
            self.launch()?;
        }
        Ok(SimulationTally { prebuilt: u64::from(prebuilt), ..self.tally(first.tally) })
    }

    /// What the scenario itself adds to what its run did.
    fn tally(&self, run: SimulationTally) -> SimulationTally {
        let paused = |who: fn(&Who) -> bool| {
            let pauses = &self.scenario.device.faults.pauses;
            u64::from(pauses.iter().any(|pause| who(&pause.who)))
        };
        SimulationTally {
            seeds: 1,
            paused: paused(|who| matches!(who, Who::Agent(_))),
            collector_paused: paused(|who| matches!(who, Who::Collector)),
            one_buffer: u64::from(self.scenario.sizes.buffers == Some(1)),
            one_slot: u64::from(self.scenario.capacities.rings.iter().any(|ring| ring.window == 1)),
            ..run
        }
    }

    /// The same program, built once and launched twice: no ring is too small, and each launch does it again.
    fn launch(&self) -> Result<(), String> {
        let program = &self.scenario.program;
        let mut device = self.device(&self.scenario.capacities)?;
        let kernels = PlayKernels::register(&mut device);
        let dir = scratch_dir()?;
        let options = RunOptions { record: Some(self.record(dir.path())), ..RunOptions::default() };
        let result = play_prebuilt(&mut device, &kernels, program, 2, &options);
        let records = records::read(dir.path())?;
        let ledger = device.report().ledger.as_ref().ok_or("the launch has no ledger")?;
        records.check_ledger(ledger, self.scenario.policy == Policy::Drop)?;
        records.check_cores(ledger.lossless, result.is_err())?;
        match (result, program.failing()) {
            (Ok(hosts), None) => {
                let once = oracle::run(program);
                let twice = oracle::run_from(program, once.hosts);
                ensure(hosts == twice.hosts, || "two launches did not give the serial result".to_owned())
            }
            (Err(error), Some(_)) => ensure(error.code() == ErrorCode::KernelFailed, || error.to_string()),
            (Ok(_), Some(task)) => Err(format!("task {task} fails, but its launches ended well")),
            (Err(error), None) => Err(format!("a launch failed for no reason: {error}")),
        }
    }

    fn record(&self, dir: &Path) -> RecordOptions {
        let mut record = RecordOptions::new(dir, self.scenario.flags);
        (record.sizes, record.policy) = (self.scenario.sizes, self.scenario.policy);
        record
    }

    fn device(&self, capacities: &Capacities) -> Result<Device, String> {
        let mut builder = Device::builder().engine(self.scenario.device.clone()).capacities(*capacities);
        if let Some(workers) = self.scenario.workers {
            builder = builder.workers(workers);
        }
        builder.open().map_err(|error| error.to_string())
    }

    /// Runs the program on a fresh device, and checks what it leaves behind.
    fn once(&self, capacities: &Capacities) -> Result<SeedOutcome, String> {
        let mut device = self.device(capacities)?;
        let kernels = PlayKernels::register(&mut device);
        let dir = scratch_dir()?;
        let record = Some(self.record(dir.path()));
        let options = RunOptions { record, deadline: self.scenario.deadline, ..RunOptions::default() };
        let result = play(&mut device, &kernels, &self.scenario.program, &options);
        let tally = self.check_records(dir.path(), &device, &result, capacities)?;
        self.check_next_run(&mut device, &kernels)?;
        let segment = std::fs::read(dir.path().join("records/records.seg")).map_err(|error| error.to_string())?;
        Ok(SeedOutcome { result, tally, segment })
    }

    fn check_records(
        &self,
        dir: &Path,
        device: &Device,
        result: &Result<Results, Error>,
        capacities: &Capacities,
    ) -> Result<SimulationTally, String> {
        let records = records::read(dir)?;
        let ledger = device.report().ledger.as_ref().ok_or("the run has no ledger")?;
        let drops = self.scenario.policy == Policy::Drop;
        records.check_ledger(ledger, drops)?;
        records.check_cores(ledger.lossless, result.is_err())?;
        records.check_scopes(capacities)?;
        if result.is_ok() && ledger.lossless {
            records.check_order(&self.scenario.program)?;
        }
        let mut tally = SimulationTally {
            dropped: u64::from(!ledger.lossless),
            waited: u64::from(ledger.pools.iter().any(|pool| pool.wait_ns > 0)),
            ..SimulationTally::default()
        };
        match result.as_ref().map_err(Error::code) {
            Ok(_) => tally.ok = 1,
            Err(ErrorCode::KernelFailed) => tally.failures = 1,
            Err(ErrorCode::SchedulerTimeout) => tally.hangs = 1,
            Err(ErrorCode::DeadlineExceeded) => tally.deadlines = 1,
            Err(_) => tally.deadlocks = 1,
        }
        Ok(tally)
    }

    /// Whatever happened, the next run on the same device is a good one.
    fn check_next_run(&self, device: &mut Device, kernels: &PlayKernels) -> Result<(), String> {
        let mut program = program::draw(&mut Random::new(self.seed), ProgramSize { tasks: 1, depth: 0 });
        program.ops.truncate(1);
        if model::deadlock(&program, device.capacities()).is_some() || self.scenario.tight_deps {
            return Ok(());
        }
        match play(device, kernels, &program, &RunOptions::default()) {
            Ok(_) => Ok(()),
            // The hang of the scenario may strike only now.
            Err(error) if self.hangs() && error.code() == ErrorCode::SchedulerTimeout => Ok(()),
            Err(error) => Err(format!("the run after it failed: {error}")),
        }
    }

    fn hangs(&self) -> bool {
        self.scenario.device.faults.hang.is_some()
    }

    /// Compares the result with what it should be.
    fn judge(&self, result: &Result<Results, Error>, capacities: &Capacities) -> Result<(), String> {
        let program = &self.scenario.program;
        let deadlock = model::deadlock(program, capacities);
        let failing = program.failing().filter(|&task| deadlock.is_none_or(|deadlock| task < deadlock.task));
        let error = match result {
            Ok(results) => {
                ensure(failing.is_none(), || format!("task {failing:?} fails, but the run ended well"))?;
                ensure(deadlock.is_none(), || format!("there was no room ({deadlock:?}), but the run ended well"))?;
                let expected = oracle::run(program);
                return ensure(*results == expected, || "the result is not the serial one".to_owned());
            }
            Err(error) => error,
        };
        let excused = match error.code() {
            ErrorCode::SchedulerTimeout => self.hangs(),
            ErrorCode::DeadlineExceeded => self.scenario.deadline.is_some(),
            ErrorCode::DepPoolOverflow => self.scenario.tight_deps,
            _ => false,
        };
        if excused {
            return Ok(());
        }
        match (failing, deadlock) {
            (Some(_), _) => {
                ensure(error.code() == ErrorCode::KernelFailed && error.to_string().contains("as planned"), || {
                    format!("a kernel fails, but the error is {error}")
                })
            }
            (None, Some(deadlock)) => {
                ensure(names(error, &deadlock), || format!("there is no room ({deadlock:?}), but the error is {error}"))
            }
            (None, None) => Err(format!("it failed for no reason: {error}")),
        }
    }

    /// What a shortage says is needed is enough to pass that point, and the next smaller size is not.
    fn grow(&self, error: &Error) -> Result<(), String> {
        let mut capacities = self.scenario.capacities;
        let mut error = error.clone();
        for _ in 0..12 {
            let (Some(resource), Some(needed), Some(had)) = (error.resource(), error.needed(), error.capacity()) else {
                return Ok(());
            };
            ensure(needed > had, || format!("{needed} of {resource} are said to be needed, and there were {had}"))?;
            let below = one_below(resource, needed);
            let exact = error.needed_is_bound() == Some(false);
            if exact && below > had && !self.excuses_everything() {
                let mut smaller = capacities;
                set(&mut smaller, resource, error.ring(), below);
                // If something else runs out first, nothing follows.
                let result = self.once(&smaller)?.result;
                self.judge(&result, &smaller)?;
                ensure(result.is_err(), || {
                    format!("{needed} of {resource} are said to be needed, but {below} are enough")
                })?;
            }
            set(&mut capacities, resource, error.ring(), needed);
            let result = self.once(&capacities)?.result;
            self.judge(&result, &capacities)?;
            match result {
                Ok(_) => return Ok(()),
                Err(next) => {
                    let same = next.resource() == Some(resource) && next.ring() == error.ring();
                    let more = next.needed().is_some_and(|next| next > needed);
                    ensure(!same || more, || format!("{needed} of {resource} were said to be enough, but: {next}"))?;
                    error = next;
                }
            }
        }
        Ok(())
    }

    /// Whether a run may end for a reason that depends on times, so that nothing follows from how it ends.
    fn excuses_everything(&self) -> bool {
        self.hangs() || self.scenario.deadline.is_some()
    }
}

/// A directory in memory where there is one: the manifest of every run is synced, and a disk takes its time.
pub(crate) fn scratch_dir() -> Result<tempfile::TempDir, String> {
    let in_memory = tempfile::tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).map_err(|error| error.to_string())
}

fn names(error: &Error, deadlock: &Deadlock) -> bool {
    let said = (error.code(), error.resource(), error.ring(), error.used());
    said == (deadlock.code, Some(deadlock.resource), deadlock.ring, Some(deadlock.used))
}

/// The largest valid size below `needed`.
fn one_below(resource: Resource, needed: u64) -> u64 {
    match resource {
        Resource::TaskWindow => needed / 2,
        Resource::Heap => needed - 64,
        Resource::DepPool | Resource::Tensormap => needed - 1,
    }
}

fn set(capacities: &mut Capacities, resource: Resource, ring: Option<u8>, value: u64) {
    let at = ring.unwrap_or(0) as usize;
    match resource {
        Resource::TaskWindow => capacities.rings[at].window = value as u32,
        Resource::Heap => capacities.rings[at].heap = value,
        Resource::DepPool => capacities.rings[at].dep_pool = value as u32,
        Resource::Tensormap => capacities.tensormap = value as u32,
    }
}
