//! What a stencil holds does not grow faster than its tasks: edges and floors are linear in the steps that share a scope, and
//! constant where every step has its own.

#![allow(clippy::unwrap_used)]

use crate::harness::{Bench, fail, pass, rings};
use plimsoll_runtime::abi::{Flags, Resource};
use plimsoll_runtime::{Capacities, RecordOptions, RunOptions};
use plimsoll_trace::TraceParts;

/// A stencil of 6 × 6 tiles, in rings that hold all of it.
fn stencil(sets: &[&str], steps: usize) -> Bench {
    let mut generous = Capacities { tensormap: 1 << 20, ..Capacities::default() };
    generous.rings.iter_mut().for_each(|ring| (ring.window, ring.dep_pool) = (1 << 14, 1 << 18));
    let steps = format!("steps={steps}");
    let sets = [&["n=24", "tile=4", &steps], sets].concat();
    Bench::new("stencil", &sets, 2, generous).unwrap()
}

/// Pairs of tasks that depend on each other, and the edges that say so.
fn pairs_and_edges(sets: &[&str], steps: usize) -> (usize, usize) {
    let mut bench = stencil(sets, steps);
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let record = RecordOptions::new(&dir, Flags::DEP_GEN);
    let options = RunOptions { record: Some(record), ..bench.instance.options() };
    bench.device.run_with(&options, |o| bench.instance.orchestrate(o)).unwrap();
    let trace = plimsoll_trace::open_with(&dir, TraceParts { deps: true, ..TraceParts::TASKS }).unwrap();
    let deps = trace.deps.expect("they were recorded");
    assert_eq!(deps.tasks.len(), 36 * steps, "{sets:?}");
    (deps.pairs().len(), deps.edges.len())
}

/// Every task of a step but the first waits for the tiles of its halo in the step before, because it reads them, and because they
/// have read what it overwrites; for nothing else, however many steps there were.
#[test]
fn a_task_of_a_stencil_waits_for_its_neighbours_of_the_step_before_and_for_nobody_else() {
    // Rows of tiles that are not further than one from each other: 16 of 6 × 6; and as many columns.
    let (nine, five) = (16 * 16, 36 + 4 * 30);
    for (sets, pairs_per_step) in [
        // One view with its corners, whatever the kernel makes of them.
        (&["halo=view", "points=5"][..], nine),
        (&["halo=view", "points=9"], nine),
        (&["halo=strips", "points=5"], five),
        (&["halo=strips", "points=9"], nine),
    ] {
        for flat in ["flat=false", "flat=true"] {
            for steps in [10, 20, 40] {
                let sets = [sets, &[flat]].concat();
                let (pairs, edges) = pairs_and_edges(&sets, steps);
                assert_eq!(pairs, pairs_per_step * (steps - 1), "{sets:?}, {steps} steps");
                // One edge by what is read and one by what is overwritten.
                assert!(edges <= 2 * pairs, "{sets:?}, {steps} steps: {edges} edges of {pairs} pairs");
            }
        }
    }
}

/// The floors of dependency pool and tensormap of a stencil.
fn floors(sets: &[&str], steps: usize) -> [u64; 2] {
    let mut bench = stencil(sets, steps);
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
