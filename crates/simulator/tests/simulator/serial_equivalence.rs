//! Any program gives the result of running it serially in submission order, at any ring size that does not deadlock;
//! and one that does deadlock says so, the same way every time, and what would do.

use crate::scale;
use plimsoll_runtime::abi::{ErrorCode, RINGS, Resource};
use plimsoll_runtime::{ArchSpec, Capacities, Device, Error, Load, VirtualOptions};
use plimsoll_simulator::fuzz::{TestDevice, capacities, oracle, program};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::cell::RefCell;

fn open(workers: usize, lend: bool, capacities: Capacities) -> TestDevice {
    TestDevice::open(Device::builder().workers(workers).lend(lend || workers == 1).capacities(capacities))
        .expect("the sizes are valid")
}

/// What an error says that must not depend on timing.
fn facts(error: &Error) -> impl PartialEq + std::fmt::Debug + use<> {
    let shortage = (error.resource(), error.ring(), error.used(), error.capacity());
    (error.code(), shortage, error.needed(), error.needed_is_bound(), error.task(), error.site().map(str::to_owned))
}

fn is_capacity(code: ErrorCode) -> bool {
    matches!(code.number(), 1..=4 | 11)
}

/// The sizes with the one that ran out raised to what the error asks for.
fn enlarged(mut capacities: Capacities, error: &Error) -> Capacities {
    let needed = error.needed().expect("a capacity error says what is needed");
    let narrow = || u32::try_from(needed).expect("small");
    let ring = error.ring().map(|ring| &mut capacities.rings[ring as usize]);
    match (error.resource().expect("a capacity error names the resource"), ring) {
        (Resource::TaskWindow, Some(ring)) => ring.window = narrow(),
        (Resource::Heap, Some(ring)) => ring.heap = needed,
        (Resource::DepPool, Some(ring)) => ring.dep_pool = narrow(),
        (Resource::Tensormap, None) => capacities.tensormap = narrow(),
        other => panic!("{other:?}: rings have resources, the tensormap has none"),
    }
    capacities
}

/// Runs a program, growing what runs out as the errors say, until it passes on every one of `workers`.
fn grow_until_it_passes(
    steps: &[program::ProgramStep],
    mut capacities: Capacities,
    workers: &[usize],
    lend: bool,
) -> TestCaseResult {
    let expected = oracle::run(steps);
    for attempt in 0.. {
        prop_assert!(attempt < 200, "still asking for more at {capacities:?}");
        let mut failed = vec![];
        for &workers in workers {
            match open(workers, lend, capacities).run(steps) {
                Ok(outcome) => prop_assert_eq!(&outcome, &expected),
                Err(error) => failed.push(error),
            }
        }
        let Some(error) = failed.first() else { return Ok(()) };
        for error in &failed {
            prop_assert!(is_capacity(error.code()), "{error}");
            prop_assert!(error.used() <= error.capacity() && error.capacity() < error.needed(), "{error}");
        }
        prop_assert_eq!(failed.len(), workers.len(), "it deadlocks on any number of workers: {}", error);
        prop_assert!(failed.iter().all(|other| facts(other) == facts(error)), "{failed:?}");
        capacities = enlarged(capacities, error);
    }
    Ok(())
}

thread_local! {
    /// Devices with room for everything, one for each number of workers, for all cases: runs follow runs.
    static ROOMY: RefCell<Vec<TestDevice>> = const { RefCell::new(Vec::new()) };
}

fn config(share: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(scale::cases(3000) / share) }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn a_run_equals_serial_execution(draws in program::draws(), workers in 1usize..=8) {
        let steps = program::resolve(&draws);
        ROOMY.with_borrow_mut(|benches| {
            while benches.len() < workers {
                benches.push(open(benches.len() + 1, benches.len() % 3 != 2, Capacities::default()));
            }
            let outcome = benches[workers - 1].run(&steps);
            prop_assert_eq!(outcome.map_err(|error| TestCaseError::fail(error.to_string()))?, oracle::run(&steps));
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn a_program_that_does_not_fit_says_what_would_do(
        draws in program::draws(),
        capacities in capacities::capacities(),
        workers in 1usize..=8,
        lend in any::<bool>(),
    ) {
        let workers = [workers, 1 + workers % 4];
        grow_until_it_passes(&program::resolve(&draws), capacities, &workers, lend)?;
    }
}

/// The floors of a run, by resource and ring; or what it ran out of, and how much would do.
fn demand(steps: &[program::ProgramStep], capacities: Capacities, seed: u64) -> impl PartialEq + std::fmt::Debug {
    let options = VirtualOptions::new(&ArchSpec::HOST, seed);
    let builder = Device::builder().engine(options).workers(4).capacities(capacities);
    let mut bench = TestDevice::open(builder).expect("the sizes are valid");
    let ran = bench.run(steps);
    let floor = |load: &Load| (load.resource, load.ring, load.floor);
    ran.map(|_| bench.device.report().load.iter().map(floor).collect::<Vec<_>>()).map_err(|error| facts(&error))
}

proptest! {
    #![proptest_config(config(10))]

    /// A seed decides in virtual time who executes what and when, and so in which order tasks complete.
    #[test]
    fn what_a_program_needs_does_not_depend_on_the_order_of_completions(
        draws in program::draws(),
        tight in capacities::capacities(),
        seed in any::<u64>(),
    ) {
        let steps = program::resolve(&draws);
        for capacities in [Capacities::default(), tight] {
            let first = demand(&steps, capacities, seed);
            for other in 1..4 {
                prop_assert_eq!(&demand(&steps, capacities, seed.wrapping_add(other)), &first);
            }
        }
    }
}

const _: () = assert!(RINGS == 4, "the sizes above are drawn for four rings");
