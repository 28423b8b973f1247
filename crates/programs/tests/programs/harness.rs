//! Runs a program the way the command does.

use plimsoll_programs::{Instance, Settings, Verdict, find};
use plimsoll_runtime::{Capacities, Device, Error, Result};

/// What a run that ended well tells.
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) tasks: u64,
    pub(crate) dispatches: u64,
}

/// A device and a program on it.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) instance: Box<dyn Instance>,
}

impl Bench {
    /// Builds a program.
    pub(crate) fn new(name: &str, sets: &[&str], workers: usize, capacities: Capacities) -> Result<Self> {
        let program = find(name).unwrap_or_else(|| panic!("there is no program {name}"));
        let settings = Settings::new(program.params, sets.iter().copied())
            .map_err(|error| Error::invalid(format!("{name}: {error}")))?;
        let mut device = Device::builder().workers(workers).capacities(capacities).open()?;
        let instance = (program.build)(&mut device, &settings)?;
        Ok(Self { device, instance })
    }

    /// Runs it once and checks the result.
    pub(crate) fn run(&mut self) -> Result<Outcome> {
        let instance = &self.instance;
        self.device.run_with(&instance.options(), |o| instance.orchestrate(o))?;
        let report = self.device.report();
        Ok(Outcome { verdict: instance.verify()?, tasks: report.tasks, dispatches: report.dispatches })
    }
}

/// Builds and runs a program once.
pub(crate) fn run(name: &str, sets: &[&str], workers: usize, capacities: Capacities) -> Result<Outcome> {
    Bench::new(name, sets, workers, capacities)?.run()
}

/// Builds and runs a program once; it must be right.
#[track_caller]
pub(crate) fn pass(name: &str, sets: &[&str], workers: usize, capacities: Capacities) -> Outcome {
    match run(name, sets, workers, capacities) {
        Ok(outcome) => {
            assert!(outcome.verdict.verified, "{name} {sets:?} on {workers}: {}", outcome.verdict.detail);
            if !["spmd", "mixed", "fault-sync-start"].contains(&name) {
                assert_eq!(outcome.tasks, outcome.dispatches, "{name} {sets:?} on {workers}");
            }
            outcome
        }
        Err(error) => panic!("{name} {sets:?} on {workers}: {error}"),
    }
}

/// Builds and runs a program once; it must fail.
#[track_caller]
pub(crate) fn fail(name: &str, sets: &[&str], workers: usize, capacities: Capacities) -> Error {
    match run(name, sets, workers, capacities) {
        Ok(outcome) => panic!("{name} {sets:?} on {workers} passed: {}", outcome.verdict.detail),
        Err(error) => error,
    }
}

/// Every ring with this window, heap and dependency pool.
pub(crate) fn rings(window: u32, heap: u64, dep_pool: u32, tensormap: u32) -> Capacities {
    let mut out = Capacities { tensormap, ..Capacities::default() };
    for ring in &mut out.rings {
        (ring.window, ring.heap, ring.dep_pool) = (window, heap, dep_pool);
    }
    out
}
