//! Every fault program gives its code with fields that add up, and passes when the fault is avoided.

#![allow(clippy::unwrap_used)]

use crate::harness::{Bench, fail, pass, rings};
use plimsoll_programs::ALL;
use plimsoll_runtime::abi::{ErrorCode, Resource};
use plimsoll_runtime::{Capacities, Error};

/// Every fault program, its code, and settings that avoid the fault.
const FAULTS: &[(&str, ErrorCode, &[&str])] = &[
    ("fault-scope-deadlock", ErrorCode::ScopeDeadlock, &["tasks=16384"]),
    ("fault-heap", ErrorCode::HeapRingDeadlock, &["tasks=64"]),
    ("fault-flow-control", ErrorCode::FlowControlDeadlock, &["tasks=4096"]),
    ("fault-dep-pool", ErrorCode::DepPoolOverflow, &["consumers=163"]),
    ("fault-args", ErrorCode::InvalidArgs, &["how=0"]),
    ("fault-sync-start", ErrorCode::InvalidSyncStart, &["at=100"]),
    ("fault-wait", ErrorCode::TensorWaitTimeout, &["tasks=3", "nap-ms=1", "timeout-ms=0"]),
    ("fault-fatal", ErrorCode::ExplicitFatal, &["limit=100"]),
    ("fault-tensormap", ErrorCode::TensormapOverflow, &["tasks=8192"]),
    ("fault-kernel-error", ErrorCode::KernelFailed, &["at=1000"]),
    ("fault-panic", ErrorCode::KernelPanicked, &["at=1000"]),
    ("fault-deadline", ErrorCode::DeadlineExceeded, &["tasks=3", "nap-ms=1", "deadline-ms=0"]),
];

/// Programs that do not return, take their process with them or stand still, and settings that avoid it. What becomes of them is
/// tested with the command.
const HANGS: &[(&str, &[&str])] = &[
    ("fault-hang", &["at=1000"]),
    ("fault-spin", &["at=1000"]),
    ("fault-abort", &["at=1000"]),
    ("fault-segfault", &["at=1000"]),
    ("fault-slow-scheduler", &["at=1000"]),
    ("fault-orchestrator", &["at=100"]),
];

#[test]
fn programs_that_hang_pass_with_settings_that_avoid_it() {
    for &(name, sets) in HANGS {
        for workers in [1, 2, 4] {
            pass(name, sets, workers, Capacities::default());
        }
        if ["fault-hang", "fault-spin", "fault-orchestrator"].contains(&name) {
            pass(name, &["at=3", "for-ms=20"], 2, Capacities::default());
        }
    }
    // Where no scheduler is a thread of its own, none can be made to stand still.
    let error = fail("fault-slow-scheduler", &[], 2, Capacities::default());
    assert!(error.code() == ErrorCode::InvalidArgs && error.to_string().contains("emulated"), "{error}");
}

#[test]
fn every_fault_program_is_here() {
    let listed: Vec<&str> = FAULTS.iter().map(|(name, ..)| *name).chain(HANGS.iter().map(|(name, ..)| *name)).collect();
    // Nothing fails in that one but its result.
    let fails = |program: &&plimsoll_programs::Program| program.fault && program.name != "fault-nan";
    let there: Vec<&str> = ALL.iter().filter(fails).map(|program| program.name).collect();
    assert_eq!(listed, there);
}

#[test]
fn the_defaults_give_the_code() {
    for &(name, code, _) in FAULTS {
        for workers in [1, 2, 4] {
            let error = fail(name, &[], workers, Capacities::default());
            assert_eq!(error.code(), code, "{name} on {workers}: {error}");
        }
    }
}

#[test]
fn settings_that_avoid_the_fault_pass() {
    for &(name, _, sets) in FAULTS {
        for workers in [1, 2, 4] {
            pass(name, sets, workers, Capacities::default());
        }
    }
}

#[test]
fn a_device_runs_the_same_program_again_after_a_fault() {
    for &(name, code, _) in FAULTS {
        let mut bench = Bench::new(name, &[], 2, Capacities::default()).unwrap();
        for _ in 0..2 {
            let error = bench.run().err().unwrap();
            assert_eq!(error.code(), code, "{name}: {error}");
            bench.instance.reset().unwrap();
        }
    }
}

#[test]
fn a_spoilt_result_is_noticed() {
    for &(name, _, sets) in FAULTS {
        let mut bench = Bench::new(name, sets, 2, Capacities::default()).unwrap();
        assert!(bench.run().unwrap().verdict.verified, "{name}");
        bench.instance.spoil().unwrap();
        assert!(!bench.instance.verify().unwrap().verified, "{name}");
        bench.instance.reset().unwrap();
        assert!(bench.run().unwrap().verdict.verified, "{name}");
    }
}

/// A capacity fault: settings, what runs out where, how much it takes at the deadlock and to the end of the scope.
struct Shortage {
    name: &'static str,
    sets: &'static [&'static str],
    resource: Resource,
    ring: Option<u8>,
    used: u64,
    needed: u64,
    /// The next smaller capacity than `needed`.
    below: u64,
}

const SHORTAGES: &[Shortage] = &[
    Shortage {
        name: "fault-scope-deadlock",
        sets: &[],
        resource: Resource::TaskWindow,
        ring: Some(1),
        used: 16_384,
        needed: 32_768,
        below: 16_384,
    },
    Shortage {
        name: "fault-scope-deadlock",
        sets: &["tasks=16385", "before=3", "depth=3"],
        resource: Resource::TaskWindow,
        ring: Some(3),
        used: 16_384,
        needed: 32_768,
        below: 16_384,
    },
    Shortage {
        name: "fault-heap",
        sets: &[],
        resource: Resource::Heap,
        ring: Some(1),
        used: 64 << 20,
        needed: 80 << 20,
        below: (80 << 20) - 64,
    },
    Shortage {
        name: "fault-heap",
        sets: &["bytes=3000000", "tasks=30", "depth=2"],
        resource: Resource::Heap,
        ring: Some(2),
        used: 22 * 3_000_000,
        needed: 30 * 3_000_000,
        below: 30 * 3_000_000 - 64,
    },
    Shortage {
        name: "fault-flow-control",
        sets: &[],
        resource: Resource::TaskWindow,
        ring: Some(3),
        used: 16_384,
        needed: 32_768,
        below: 16_384,
    },
    Shortage {
        name: "fault-dep-pool",
        sets: &[],
        resource: Resource::DepPool,
        ring: Some(1),
        used: 16_300,
        needed: 20_000,
        below: 19_999,
    },
    Shortage {
        name: "fault-dep-pool",
        sets: &["producers=101", "consumers=170", "before=0"],
        resource: Resource::DepPool,
        ring: Some(1),
        used: 101 * 162,
        needed: 101 * 170,
        below: 101 * 170 - 1,
    },
    Shortage {
        name: "fault-tensormap",
        sets: &[],
        resource: Resource::Tensormap,
        ring: None,
        used: 65_536,
        needed: 72_000,
        below: 71_999,
    },
];

fn with(resource: Resource, ring: Option<u8>, value: u64) -> Capacities {
    let mut out = Capacities::default();
    let at = ring.map_or(0, usize::from);
    match resource {
        Resource::TaskWindow => out.rings[at].window = value as u32,
        Resource::Heap => out.rings[at].heap = value,
        Resource::DepPool => out.rings[at].dep_pool = value as u32,
        Resource::Tensormap => out.tensormap = value as u32,
    }
    out
}

#[track_caller]
fn check(error: &Error, s: &Shortage, capacity: u64, used: u64) {
    assert_eq!(error.resource(), Some(s.resource), "{}: {error}", s.name);
    assert_eq!(error.ring(), s.ring, "{}: {error}", s.name);
    assert_eq!(error.used(), Some(used), "{}: {error}", s.name);
    assert_eq!(error.capacity(), Some(capacity), "{}: {error}", s.name);
    assert_eq!(error.needed(), Some(s.needed), "{}: {error}", s.name);
    assert_eq!(error.needed_is_bound(), Some(false), "{}: {error}", s.name);
    assert!(error.task().is_some() && error.kernel().is_some(), "{}: {error}", s.name);
    let site = error.site().unwrap();
    assert!(site.contains("fault") && !site.contains("fault.rs"), "{} names {site}", s.name);
    assert!(error.explanation().contains(&s.needed.to_string()), "{}: {error}", s.name);
}

#[test]
fn the_fields_of_a_capacity_error_add_up() {
    for s in SHORTAGES {
        let defaults = Capacities::default();
        let capacity = match s.resource {
            Resource::TaskWindow => u64::from(defaults.rings[1].window),
            Resource::Heap => defaults.rings[1].heap,
            Resource::DepPool => u64::from(defaults.rings[1].dep_pool),
            Resource::Tensormap => u64::from(defaults.tensormap),
        };
        for workers in [1, 2, 4] {
            check(&fail(s.name, s.sets, workers, defaults), s, capacity, s.used);
        }
    }
}

#[test]
fn what_is_needed_suffices_and_one_step_less_does_not() {
    for s in SHORTAGES {
        for workers in [1, 2] {
            pass(s.name, s.sets, workers, with(s.resource, s.ring, s.needed));
            let error = fail(s.name, s.sets, workers, with(s.resource, s.ring, s.below));
            assert_eq!(error.needed(), Some(s.needed), "{}: {error}", s.name);
            assert_eq!(error.capacity(), Some(s.below), "{}: {error}", s.name);
        }
    }
}

#[test]
fn small_rings_make_the_same_faults_small() {
    let small = rings(64, 4096, 64, 1024);
    let error = fail("fault-scope-deadlock", &["tasks=65", "before=1000"], 2, small);
    assert_eq!((error.code(), error.used(), error.needed()), (ErrorCode::ScopeDeadlock, Some(64), Some(128)));
    let error = fail("fault-heap", &["tasks=3", "bytes=2048", "before=50"], 2, small);
    assert_eq!((error.code(), error.used(), error.needed()), (ErrorCode::HeapRingDeadlock, Some(4096), Some(6144)));
    let error = fail("fault-flow-control", &["levels=9", "tasks=8"], 2, small);
    assert_eq!((error.code(), error.used(), error.needed()), (ErrorCode::FlowControlDeadlock, Some(64), Some(128)));
    let error = fail("fault-dep-pool", &["producers=10", "consumers=7", "before=99"], 2, small);
    assert_eq!((error.code(), error.used(), error.needed()), (ErrorCode::DepPoolOverflow, Some(60), Some(70)));
    let map = Capacities { tensormap: 100, ..small };
    let error = fail("fault-tensormap", &["tasks=13", "before=99"], 2, map);
    assert_eq!((error.code(), error.used(), error.needed()), (ErrorCode::TensormapOverflow, Some(96), Some(104)));
}

#[test]
fn a_single_output_larger_than_the_heap_says_so() {
    let error = fail("fault-heap", &["tasks=1", "bytes=128m", "before=0"], 2, Capacities::default());
    assert_eq!(error.code(), ErrorCode::HeapRingDeadlock);
    assert_eq!((error.used(), error.needed()), (Some(0), Some(128 << 20)), "{error}");
    let with = with(Resource::Heap, Some(1), 128 << 20);
    pass("fault-heap", &["tasks=1", "bytes=128m", "before=0"], 2, with);
}

#[test]
fn wrong_arguments_name_the_kernel_and_what_overlaps() {
    for (how, kernel) in [("how=1", Some("add")), ("how=2", Some("swap")), ("how=3", Some("copy")), ("how=4", None)] {
        for at in ["at=0", "at=99"] {
            let error = fail("fault-args", &[how, at], 2, Capacities::default());
            assert_eq!(error.code(), ErrorCode::InvalidArgs, "{how}: {error}");
            assert_eq!(error.kernel(), kernel, "{how}: {error}");
        }
        pass("fault-args", &[how, "at=100"], 2, Capacities::default());
    }
}

#[test]
fn a_kernel_that_fails_is_named_with_its_task() {
    for (name, code, part) in [
        ("fault-kernel-error", ErrorCode::KernelFailed, "was told to fail"),
        ("fault-panic", ErrorCode::KernelPanicked, "was told to panic"),
    ] {
        for at in [0, 9, 500, 999] {
            let set = format!("at={at}");
            let error = fail(name, &[&set], 2, Capacities::default());
            assert_eq!(error.code(), code, "{error}");
            assert_eq!(error.kernel(), Some("write"), "{error}");
            assert!(error.explanation().contains(part), "{error}");
            assert!(error.explanation().contains(&format!("task number {at}")), "{error}");
            assert_eq!(error.task().map(|task| (task.ring(), task.local())), Some((1, at)), "{error}");
            assert!(error.worker().is_some() && error.site().is_some(), "{error}");
        }
    }
    for how in ["how=1", "how=2"] {
        assert_eq!(fail("fault-panic", &[how], 2, Capacities::default()).code(), ErrorCode::KernelPanicked);
    }
}

#[test]
fn a_wait_and_a_deadline_end_long_before_the_tasks_would() {
    // A chain of 500 naps takes five seconds at least, and each has a thirtieth of a second.
    for (name, sets) in [
        ("fault-wait", ["tasks=500", "nap-ms=10", "timeout-ms=30"]),
        ("fault-deadline", ["tasks=500", "nap-ms=10", "deadline-ms=30"]),
    ] {
        for workers in [1, 2, 4] {
            let mut bench = Bench::new(name, &sets, workers, Capacities::default()).unwrap();
            let error = bench.run().err().unwrap();
            let ran = bench.device.report().dispatches;
            assert!(ran < 500, "{name} on {workers}: all had run: {error}");
        }
    }
}

#[test]
fn a_task_that_cancels_the_run_ends_it() {
    for workers in [1, 2] {
        let error = fail("fault-deadline", &["deadline-ms=0", "cancel-at=3"], workers, Capacities::default());
        assert_eq!(error.code(), ErrorCode::Cancelled, "{error}");
    }
    pass("fault-deadline", &["tasks=3", "nap-ms=0", "deadline-ms=0", "cancel-at=4"], 2, Capacities::default());
}

#[test]
fn giving_up_tells_the_orchestrations_own_words() {
    let error = fail("fault-fatal", &["limit=7"], 2, Capacities::default());
    assert!(error.explanation().contains("task 7 gave 8, and 7 is the limit"), "{error}");
}
