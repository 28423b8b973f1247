//! What a stencil holds does not grow faster than its tasks: edges and floors are linear in the steps that share a scope, and
//! constant where every step has its own.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Bench, fail, pass, rings};
use plimsoll_runtime::Capacities;
use plimsoll_runtime::abi::Resource;

/// The floors of dependency pool and tensormap of a stencil of 6 × 6 tiles.
fn floors(sets: &[&str], steps: usize) -> [u64; 2] {
    let mut generous = Capacities { tensormap: 1 << 20, ..Capacities::default() };
    generous.rings.iter_mut().for_each(|ring| (ring.window, ring.dep_pool) = (1 << 14, 1 << 18));
    let steps = format!("steps={steps}");
    let sets = [&["n=24", "tile=4", &steps], sets].concat();
    let mut bench = Bench::new("stencil", &sets, 2, generous).unwrap();
    assert!(bench.run().unwrap().verdict.verified, "{sets:?}");
    let report = bench.device.report();
    let floor = |resource| report.load.iter().filter(|load| load.resource == resource).map(|load| load.floor).sum();
    [floor(Resource::DepPool), floor(Resource::Tensormap)]
}

#[test]
fn edges_and_floors_of_a_stencil_are_linear_in_steps_that_share_a_scope() {
    for sets in
        [&["halo=view", "flat=true"][..], &["halo=strips", "flat=true"], &["halo=strips", "points=9", "flat=true"]]
    {
        let [ten, twenty, forty] = [10, 20, 40].map(|steps| floors(sets, steps));
        for resource in 0..2 {
            assert_eq!(
                forty[resource] - twenty[resource],
                2 * (twenty[resource] - ten[resource]),
                "{sets:?}: {ten:?} {twenty:?} {forty:?}"
            );
        }
        // A dependency takes one entry: nine by what is read, nine by what is overwritten.
        assert!(forty[0] <= 18 * 36 * 40, "{sets:?}: {forty:?}");
    }
}

#[test]
fn floors_of_a_stencil_do_not_depend_on_steps_that_have_their_own_scope() {
    for sets in [&["halo=view"][..], &["halo=strips"]] {
        let [ten, twenty, forty] = [10, 20, 40].map(|steps| floors(sets, steps));
        assert!(ten == twenty && twenty == forty, "{sets:?}: {ten:?} {twenty:?} {forty:?}");
    }
}

#[test]
fn a_scope_that_a_scope_per_iteration_would_relieve_is_told_so() {
    let small = rings(1 << 14, 1 << 20, 512, 1 << 16);
    let error = fail("stencil", &["flat=true", "steps=40"], 2, small).to_string();
    assert!(error.contains("open a scope per iteration"), "{error}");
    pass("stencil", &["steps=40"], 2, small);
    // Scopes inside one that has tasks on the last ring share that ring.
    let error = fail("fault-flow-control", &[], 2, Capacities::default()).to_string();
    assert!(!error.contains("open a scope per iteration"), "{error}");
}
