//! The floors that a run reports: with them it ends, and one step below any of them it deadlocks.

#![allow(clippy::unwrap_used)]

use crate::harness::{Bench, fail, pass};
use plimsoll_programs::ALL;
use plimsoll_runtime::abi::Resource;
use plimsoll_runtime::{Capacities, Load};

/// Rings so large that nothing waits for room.
fn generous() -> Capacities {
    let mut out = Capacities { tensormap: 1 << 20, ..Capacities::default() };
    for ring in &mut out.rings {
        (ring.window, ring.heap, ring.dep_pool) = (1 << 17, 1 << 30, 1 << 20);
    }
    out
}

fn set(capacities: &mut Capacities, load: &Load, value: u64) {
    let ring = &mut capacities.rings[load.ring.map_or(0, usize::from)];
    match load.resource {
        Resource::TaskWindow => ring.window = value as u32,
        Resource::Heap => ring.heap = value,
        Resource::DepPool => ring.dep_pool = value as u32,
        Resource::Tensormap => capacities.tensormap = value as u32,
    }
}

/// The next smaller capacity, if there is one.
fn below(load: &Load) -> Option<u64> {
    let less = match load.resource {
        Resource::TaskWindow => load.floor / 2,
        Resource::Heap => load.floor - 64,
        Resource::DepPool | Resource::Tensormap => load.floor - 1,
    };
    (less > 0).then_some(less)
}

/// The floors of a program, checked one by one and all together.
fn check(name: &str, sets: &[&str]) {
    let mut bench = Bench::new(name, sets, 2, generous()).unwrap();
    assert!(bench.run().unwrap().verdict.verified, "{name}");
    let load = bench.device.report().load.clone();
    let mut least = generous();
    for load in &load {
        assert!(load.floor <= load.peak.next_power_of_two().max(64), "{name}: {load:?}");
        set(&mut least, load, load.floor);
        let Some(less) = below(load) else { continue };
        let mut capacities = generous();
        set(&mut capacities, load, less);
        let error = fail(name, sets, 2, capacities);
        assert_eq!((error.resource(), error.ring()), (Some(load.resource), load.ring), "{name}: {load:?}: {error}");
        assert!(error.needed() <= Some(load.floor), "{name}: {load:?}: {error}");
    }
    for workers in [1, 2, 4] {
        pass(name, sets, workers, least);
    }
}

#[test]
fn every_program_passes_at_its_floors_and_deadlocks_below_any_of_them() {
    for program in ALL.iter().filter(|program| !program.fault) {
        check(program.name, &[]);
    }
}

#[test]
fn the_floor_of_a_program_that_fails_for_want_of_room_is_what_it_said_it_needs() {
    let sets: &[(&str, &[&str])] = &[
        ("fault-scope-deadlock", &["tasks=300", "before=50"]),
        ("fault-heap", &["tasks=9", "bytes=3000", "depth=2"]),
        ("fault-flow-control", &["levels=9", "tasks=8"]),
        ("fault-dep-pool", &["producers=10", "consumers=7", "before=9"]),
        ("fault-tensormap", &["tasks=13", "before=9"]),
    ];
    for (name, sets) in sets {
        check(name, sets);
    }
}
