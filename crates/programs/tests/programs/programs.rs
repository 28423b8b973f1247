//! Every program computes what it should, at any size, in small rings, and its check can fail.

#![allow(clippy::unwrap_used)]

use crate::harness::{Bench, Outcome, fail, pass, rings};
use plimsoll_programs::{ALL, Settings, find};
use plimsoll_runtime::Capacities;
use plimsoll_runtime::abi::ErrorCode;

/// Sizes of every program: the defaults, and ones that are small, single, uneven or narrow.
const SIZES: &[(&str, &[&[&str]])] = &[
    ("vector", &[&[], &["n=1", "block=1"], &["n=777", "block=7"], &["n=4096", "block=4096"], &["n=3000", "block=1"]]),
    (
        "matmul",
        &[
            &[],
            &["n=1", "tile=1"],
            &["n=30", "tile=30"],
            &["n=63", "tile=9"],
            &["n=13", "tile=1"],
            &["n=66", "tile=33"],
        ],
    ),
    (
        "cholesky",
        &[
            &[],
            &["n=1", "tile=1"],
            &["n=37", "tile=37"],
            &["n=105", "tile=15"],
            &["n=17", "tile=1"],
            &["n=62", "tile=31"],
        ],
    ),
    (
        "wavefront",
        &[
            &[],
            &["rows=1", "cols=1", "tile=1"],
            &["rows=1", "cols=50", "tile=3"],
            &["rows=50", "cols=1", "tile=3"],
            &["rows=17", "cols=5", "tile=1"],
            &["rows=3", "cols=7", "tile=29"],
        ],
    ),
    (
        "stencil",
        &[
            &[],
            &["n=1", "tile=1", "steps=3"],
            &["n=30", "tile=30", "points=9"],
            &["n=63", "tile=9", "halo=strips", "points=9", "steps=5"],
            &["n=13", "tile=1", "halo=strips", "steps=4"],
            &["flat=true", "steps=40"],
            &["flat=true", "steps=40", "halo=strips", "points=9"],
        ],
    ),
    (
        "lu",
        &[
            &[],
            &["n=1", "tile=1"],
            &["n=37", "tile=37"],
            &["n=105", "tile=15"],
            &["n=17", "tile=1"],
            &["n=62", "tile=31"],
        ],
    ),
    (
        "sliding",
        &[
            &[],
            &["chunk=1", "window=1", "ring=2", "steps=50"],
            &["chunk=7", "window=20", "ring=4", "steps=300", "flat=true"],
            &["chunk=3", "window=1000", "ring=1024", "steps=2000"],
        ],
    ),
    (
        "spmd",
        &[&[], &["n=1", "blocks=1", "steps=1"], &["n=7", "blocks=7", "steps=9"], &["n=600", "blocks=300", "steps=3"]],
    ),
    (
        "mixed",
        &[&[], &["n=1", "blocks=1", "steps=1"], &["n=12", "blocks=12", "steps=3"], &["n=90", "blocks=1", "steps=2"]],
    ),
    (
        "paged-attention",
        &[
            &[],
            &["batch=1", "heads=1", "group=1", "dim=1", "block=1", "tokens=1"],
            &["batch=3", "heads=2", "group=3", "dim=17", "block=5", "tokens=41"],
            &["batch=1", "tokens=7", "block=64"],
            &["batch=7", "heads=1", "group=1", "dim=33", "block=1", "tokens=9"],
        ],
    ),
    (
        "decode-layer",
        &[
            &[],
            &["batch=1", "heads=1", "dim=1", "ffn=1", "context=0", "tile=1"],
            &["batch=3", "heads=3", "dim=5", "ffn=25", "context=11", "tile=5"],
            &["batch=1", "heads=2", "dim=16", "ffn=32", "context=1", "tile=32"],
            &["batch=2", "heads=5", "dim=7", "ffn=14", "context=3", "tile=7"],
        ],
    ),
];

#[test]
fn every_program_is_right_at_every_size_on_any_number_of_workers() {
    for (name, sizes) in SIZES {
        for sets in *sizes {
            let mut tasks = None;
            for workers in [1, 2, 4] {
                let outcome = pass(name, sets, workers, Capacities::default());
                assert_eq!(*tasks.get_or_insert(outcome.tasks), outcome.tasks, "{name} {sets:?}");
            }
        }
    }
}

#[test]
fn every_program_that_should_pass_has_sizes_here() {
    let listed: Vec<&str> = SIZES.iter().map(|(name, _)| *name).collect();
    let there: Vec<&str> = ALL.iter().filter(|program| !program.fault).map(|program| program.name).collect();
    assert_eq!(listed, there);
}

#[test]
fn defaults_are_some_hundreds_to_some_thousands_of_executions() {
    for (name, _) in SIZES {
        let Outcome { tasks, dispatches, .. } = pass(name, &[], 2, Capacities::default());
        println!("{name}: {tasks} tasks, {dispatches} dispatches");
        assert!((300..5000).contains(&dispatches), "{name} has {dispatches} dispatches");
    }
}

/// Scopes are small enough that rings of a few slots will do. What a program holds at once is argued beside it.
#[test]
fn small_rings_suffice() {
    for workers in [1, 2, 4] {
        // One block holds two outputs of 28 bytes and three tasks on ring 1; a product and two tasks on ring 2.
        pass("vector", &["n=777", "block=7"], workers, rings(4, 128, 8, 24));
        // One tile of C holds seven tasks in a chain; the words of three matrices lie in the slot, and nothing in the heap.
        pass("matmul", &["n=63", "tile=9"], workers, rings(8, 64, 8, 32));
        // A step holds eight panel tasks on ring 1, and a row of updates at most seven on ring 2.
        pass("cholesky", &["n=120", "tile=15"], workers, rings(8, 64, 32, 64));
        // A row holds seven tasks of four arguments, whose words lie in the heap, 128 bytes a task.
        pass("wavefront", &["rows=50", "cols=7", "tile=3"], workers, rings(8, 7 * 128, 16, 32));
        // A head holds two tasks on ring 1; a page four tasks and five outputs on ring 2.
        let sets = ["batch=3", "heads=2", "group=3", "dim=17", "block=5", "tokens=41"];
        pass("paged-attention", &sets, workers, rings(4, 1152, 16, 64));
        // The layer holds about a dozen tasks of its own.
        let sets = ["batch=3", "heads=3", "dim=5", "ffn=25", "context=11", "tile=5"];
        pass("decode-layer", &sets, workers, rings(32, 8192, 128, 160));
    }
}

#[test]
fn rounds_repeat_after_a_reset_and_are_wrong_without_a_run() {
    for (name, sizes) in SIZES {
        let mut bench = Bench::new(name, sizes[2], 2, Capacities::default()).unwrap();
        for _ in 0..3 {
            assert!(!bench.instance.verify().unwrap().verified, "{name} is verified before it ran");
            let outcome = bench.run().unwrap();
            assert!(outcome.verdict.verified, "{name}: {}", outcome.verdict.detail);
            bench.instance.reset().unwrap();
        }
    }
}

#[test]
fn a_spoilt_result_is_noticed() {
    for (name, sizes) in SIZES {
        for sets in *sizes {
            let mut bench = Bench::new(name, sets, 2, Capacities::default()).unwrap();
            assert!(bench.run().unwrap().verdict.verified, "{name} {sets:?}");
            bench.instance.spoil().unwrap();
            let verdict = bench.instance.verify().unwrap();
            assert!(!verdict.verified, "{name} {sets:?} did not notice: {}", verdict.detail);
        }
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused_with_the_numbers() {
    let refused: &[(&str, &[&str], &str)] = &[
        ("vector", &["n=10", "block=3"], "blocks of 3"),
        ("vector", &["n=10", "block=20"], "blocks of 20"),
        ("matmul", &["n=10", "tile=3"], "tiles of 3"),
        ("matmul", &["n=2048", "tile=1"], "at least 16"),
        ("cholesky", &["n=100", "tile=200"], "tiles of 200"),
        ("cholesky", &["n=2048", "tile=8"], "at least 16"),
        ("wavefront", &["rows=1024", "cols=1024", "tile=1024"], "places"),
        ("paged-attention", &["batch=256", "heads=128", "tokens=65536", "dim=512", "block=1"], "elements"),
        ("paged-attention", &["batch=256", "heads=128", "group=64", "dim=512", "tokens=1"], "elements"),
        ("decode-layer", &["tile=30"], "Tiles of 30"),
        ("decode-layer", &["heads=64", "dim=256", "ffn=16384", "tile=16384"], "elements"),
        ("decode-layer", &["tile=1", "ffn=256"], "at least 2"),
    ];
    for (name, sets, part) in refused {
        let error = fail(name, sets, 1, Capacities::default());
        assert_eq!(error.code(), ErrorCode::InvalidArgs, "{name} {sets:?}: {error}");
        assert!(error.explanation().contains(part), "{name} {sets:?}: {error}");
    }
}

#[test]
fn values_outside_a_parameters_range_are_refused() {
    for program in ALL {
        for param in program.params {
            assert!(param.min <= param.default && param.default <= param.max, "{} {}", program.name, param.key);
            for value in [param.min.checked_sub(1), Some(param.max + 1)].into_iter().flatten() {
                let set = format!("{}={value}", param.key);
                let error = Settings::new(program.params, [set.as_str()]).unwrap_err();
                assert!(error.to_string().contains(param.key), "{error}");
            }
        }
    }
}

/// As many tasks in all as fit no ring: scopes hand slots back on the way.
#[test]
fn more_tasks_than_any_ring_holds_pass() {
    pass("vector", &["n=40000", "block=1"], 2, Capacities::default());
    pass("wavefront", &["rows=40", "cols=1000", "tile=1"], 2, Capacities::default());
}

/// The widest scopes that the limits allow fit rings of the default size.
#[test]
fn the_most_tiles_fit_the_default_rings() {
    pass("matmul", &["n=128", "tile=1"], 2, Capacities::default());
    pass("cholesky", &["n=128", "tile=1"], 2, Capacities::default());
    pass("decode-layer", &["heads=8", "dim=16", "ffn=128", "tile=1", "batch=2"], 2, Capacities::default());
}

#[test]
fn names_are_unique_and_found() {
    for program in ALL {
        assert_eq!(find(program.name).map(|found| found.about), Some(program.about));
        assert_eq!(program.name.starts_with("fault-"), program.fault);
    }
    let mut names: Vec<&str> = ALL.iter().map(|program| program.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    assert!(find("nothing").is_none());
}
