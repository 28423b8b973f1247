//! What a run says of its scopes and rings, of random programs on both engines: peaks that leave nothing out, floors that
//! suffice and cannot be lowered.
//!
//! In debug builds every scope is watched by an oracle that looks at each allocation, and a scope that closes with other
//! peaks than its oracle panics; what is read here is what was recorded of such runs.
#![allow(clippy::unwrap_used)]

use crate::scale;
use plimsoll_runtime::abi::{Flags, RINGS, Resource, Usage};
use plimsoll_runtime::{ArchSpec, Capacities, Device, Load, RecordOptions, VirtualOptions};
use plimsoll_simulator::fuzz::{TestDevice, capacities, oracle, program};
use plimsoll_trace::{FindingKind, Quality, ScopePeaks, ScopeSpan, Trace};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// What the program runs on.
#[derive(Clone, Copy, Debug)]
enum On {
    Host { workers: usize },
    Virtual { workers: usize, seed: u64 },
    Chip { clusters: u32, seed: u64 },
}

fn engines() -> impl Strategy<Value = On> {
    prop_oneof![
        (1usize..5).prop_map(|workers| On::Host { workers }),
        (1usize..5, any::<u64>()).prop_map(|(workers, seed)| On::Virtual { workers, seed }),
        (1u32..3, any::<u64>()).prop_map(|(clusters, seed)| On::Chip { clusters, seed }),
    ]
}

fn open(on: On, capacities: Capacities) -> TestDevice {
    let builder = Device::builder().capacities(capacities);
    let chip = |clusters| ArchSpec { clusters, sched_threads: 2, ..ArchSpec::A2A3 };
    let builder = match on {
        On::Host { workers } => builder.workers(workers),
        On::Virtual { workers, seed } => builder.engine(VirtualOptions::new(&ArchSpec::HOST, seed)).workers(workers),
        On::Chip { clusters, seed } => builder.engine(VirtualOptions::new(&chip(clusters), seed)),
    };
    TestDevice::open(builder).expect("the sizes are valid")
}

/// Nothing that a sample saw is above what the peaks say.
fn covers(peaks: &ScopePeaks, used: &Usage) -> bool {
    let by_ring = |ring: usize| {
        peaks.window[ring] >= u64::from(used.window[ring])
            && peaks.heap[ring] >= used.heap[ring]
            && peaks.dep[ring] >= u64::from(used.dep_pool[ring])
    };
    (0..RINGS).all(by_ring) && peaks.tensormap >= u64::from(used.tensormap)
}

/// The recorded peaks of one scope against all samples inside it and against its rings' heads and tails.
fn check_scope(trace: &Trace, span: ScopeSpan) -> TestCaseResult {
    let samples = &trace.scopes;
    let peaks = samples.peaks_of(span);
    let (begin, end) = (span.begin, span.end.unwrap());
    for inner in begin..=end {
        let used = samples.used(inner);
        prop_assert!(covers(&peaks, &used), "{peaks:?} of a scope, {used:?} inside it");
        let (sample, own) = (&samples.samples[inner], used.ring(samples.samples[inner].ring as usize));
        prop_assert_eq!(sample.window_head - sample.window_tail, u64::from(own.window));
        prop_assert_eq!(sample.heap_head - sample.heap_tail, own.heap);
        prop_assert_eq!(sample.dep_head - sample.dep_tail, u64::from(own.dep_pool));
    }
    let (first, last) = (&samples.samples[begin], &samples.samples[end]);
    let ring = first.ring as usize;
    // What was allocated in the scope, on top of what was there, is the most that can have been in use.
    prop_assert!(peaks.window[ring] <= last.window_head - first.window_tail, "{peaks:?}");
    prop_assert!(peaks.heap[ring] <= last.heap_head - first.heap_tail, "{peaks:?}");
    prop_assert!(peaks.dep[ring] <= last.dep_head - first.dep_tail, "{peaks:?}");
    for (at, capacity) in samples.capacities.rings.iter().enumerate() {
        prop_assert!(peaks.window[at] <= capacity.task_window && peaks.heap[at] <= capacity.heap, "{peaks:?}");
        prop_assert!(peaks.dep[at] <= capacity.dep_pool, "{peaks:?}");
    }
    prop_assert!(peaks.tensormap <= samples.capacities.tensormap, "{peaks:?}");
    Ok(())
}

/// The load of a run as the peaks of its root.
fn root_peaks(load: &[Load]) -> ScopePeaks {
    let mut out = ScopePeaks::default();
    for load in load {
        let ring = load.ring.map_or(0, usize::from);
        match load.resource {
            Resource::TaskWindow => out.window[ring] = load.peak,
            Resource::Heap => out.heap[ring] = load.peak,
            Resource::DepPool => out.dep[ring] = load.peak,
            Resource::Tensormap => out.tensormap = load.peak,
        }
    }
    out
}

fn record(draws: &[program::Draw], capacities: Capacities, on: On) -> TestCaseResult {
    let dir = tempfile::tempdir().unwrap();
    let mut options = RecordOptions::new(dir.path().join("run"), Flags::SCOPE_STATS);
    options.region_dir = Some(dir.path().to_path_buf());
    let mut bench = open(on, capacities);
    let outcome = bench.run_recorded(&program::resolve(draws), Some(options));
    let trace = plimsoll_trace::open(&dir.path().join("run")).unwrap();
    prop_assert_eq!(trace.scopes.fatal, outcome.is_err());
    let mut quality = Quality::default();
    let spans = trace.scopes.spans(&mut quality);
    prop_assert!(trace.quality.is_sound(), "{:?}", trace.quality);
    prop_assert_eq!(quality.count(FindingKind::UnpairedScope), 0, "every scope ends, also in a run that fails");
    prop_assert!(!spans.is_empty(), "the root is there");
    prop_assert_eq!(trace.scopes.samples[spans[0].begin].depth, 0);
    for &span in &spans {
        check_scope(&trace, span)?;
    }
    let root = trace.scopes.peaks_of(spans[0]);
    let inner = spans.iter().fold(ScopePeaks::default(), |most, &span| most.max(trace.scopes.peaks_of(span)));
    prop_assert_eq!(root, inner, "a scope's peaks are folded into its parent's");
    prop_assert_eq!(ScopePeaks { fanin: 0, ..root }, root_peaks(&bench.device.report().load));
    Ok(())
}

/// The capacities with one of them set.
fn with(mut capacities: Capacities, load: &Load, value: u64) -> Capacities {
    let ring = &mut capacities.rings[load.ring.map_or(0, usize::from)];
    match load.resource {
        Resource::TaskWindow => ring.window = value as u32,
        Resource::Heap => ring.heap = value,
        Resource::DepPool => ring.dep_pool = value as u32,
        Resource::Tensormap => capacities.tensormap = value as u32,
    }
    capacities
}

/// The next smaller capacity; 0 is none.
fn below(load: &Load) -> u64 {
    match load.resource {
        Resource::TaskWindow => load.floor / 2,
        Resource::Heap => load.floor - 64,
        Resource::DepPool | Resource::Tensormap => load.floor - 1,
    }
}

fn floors(draws: &[program::Draw], first: On, second: On, pick: usize) -> TestCaseResult {
    let steps = program::resolve(draws);
    let expected = oracle::run(&steps);
    let mut bench = open(first, Capacities::default());
    prop_assert_eq!(&bench.run(&steps).unwrap(), &expected);
    let load = bench.device.report().load.clone();
    let least = load.iter().fold(Capacities::default(), |capacities, load| with(capacities, load, load.floor));
    let mut bench = open(second, least);
    prop_assert_eq!(bench.run(&steps).map_err(|error| TestCaseError::fail(error.to_string()))?, expected);
    for (again, load) in bench.device.report().load.iter().zip(&load) {
        prop_assert_eq!(again.floor, load.floor, "a floor is the program's, not the run's: {:?}", load);
    }
    let lower: Vec<&Load> = load.iter().filter(|load| below(load) > 0).collect();
    let Some(load) = lower.get(pick % lower.len().max(1)) else { return Ok(()) };
    // Once with room for everything else and once with no more than needed of anything.
    for roomy in [Capacities::default(), least] {
        let error = match open(second, with(roomy, load, below(load))).run(&steps) {
            Err(error) => error,
            Ok(_) => return Err(TestCaseError::fail(format!("it passes below {load:?}"))),
        };
        prop_assert_eq!((error.resource(), error.ring()), (Some(load.resource), load.ring), "{}", error);
    }
    Ok(())
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(scale::cases(300)) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "the oracle looks in debug builds only")]
    fn peaks_leave_nothing_out(draws in program::draws(), capacities in capacities::capacities(), on in engines()) {
        record(&draws, capacities, on)?;
    }

    #[test]
    fn a_random_program_passes_at_its_floors_and_not_below(
        draws in program::draws(),
        first in engines(),
        second in engines(),
        pick in any::<prop::sample::Index>(),
    ) {
        floors(&draws, first, second, pick.index(64))?;
    }
}
