//! Back-pressure and deadlock are told apart by structure: a full ring that something will empty is waited for, however
//! long; one that nothing can empty is declared at once. In virtual time both can be asserted to the nanosecond.
#![allow(clippy::unwrap_used)]

mod scale;

use plimsoll_runtime::abi::{ErrorCode, Flags, Resource};
use plimsoll_runtime::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WINDOW: u32 = 16_384;

fn peak(device: &Device, resource: Resource, ring: u8) -> u64 {
    let load = device.report().load.iter().find(|load| load.resource == resource && load.ring == Some(ring));
    load.unwrap().peak
}

/// Submits `scopes` scopes of `tasks` tasks each, every one adding 1 to the same number.
fn count(device: &mut Device, scopes: usize, tasks: usize) -> i64 {
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    let sum = device.run(|o| {
        let x = o.own(vec![0i64], [1])?;
        for _ in 0..scopes {
            o.scope(|o| (0..tasks).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop)))?;
        }
        o.read(&x)
    });
    sum.unwrap()[0]
}

#[test]
fn half_a_million_tasks_pass_a_window_of_16384() {
    // 525,312 = 513 scopes of 1,024.
    let scopes = scale::cases(513) as usize;
    for workers in [1, 3] {
        let mut device = Device::builder().workers(workers).capacities(Capacities::default()).open().unwrap();
        assert_eq!(device.capacities().rings[1].window, WINDOW);
        assert_eq!(count(&mut device, scopes, 1024), 1024 * scopes as i64);
        assert_eq!(device.report().tasks, 1024 * scopes as u64);
    }
    // On a chip a chain is slower than its submits, so that the window is full nearly all the time.
    let engine = VirtualOptions::new(&ArchSpec::A2A3, 1);
    let mut device = Device::builder().engine(engine).capacities(Capacities::default()).open().unwrap();
    assert_eq!(count(&mut device, scopes, 1024), 1024 * scopes as i64);
    assert_eq!(device.report().tasks, 1024 * scopes as u64);
    assert_eq!(
        peak(&device, Resource::TaskWindow, 1),
        u64::from(WINDOW),
        "the ring was full, and that was no deadlock"
    );
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn memory_that_is_not_touched_costs_nothing() {
    if scale::is_sanitized() {
        // Its allocator touches the shadow of what it reserves.
        return;
    }
    let mut capacities = Capacities { tensormap: 1 << 28, ..Capacities::default() };
    capacities.rings.iter_mut().for_each(|ring| ring.window = 1 << 28);
    let before = resident();
    for engine in [EngineKind::Host, VirtualOptions::new(&ArchSpec::A2A3, 1).into()] {
        let mut device = Device::builder().engine(engine).capacities(capacities).open().unwrap();
        assert_eq!(count(&mut device, 3, 10), 30);
        assert_eq!(count(&mut device, 3, 10), 30, "and again, with the books of the first run");
        let grown = resident().saturating_sub(before);
        assert!(grown < 1 << 30, "{} MiB for a few tasks", grown >> 20);
    }
}

fn small(window: u32) -> Capacities {
    let mut capacities = Capacities::default();
    capacities.rings.iter_mut().for_each(|ring| ring.window = window);
    capacities
}

/// Scopes of four behind a task that takes its time, through a window of eight.
fn behind(device: &mut Device, slow: &Kernel<(ReadWrite<i64>,)>) -> Result<Vec<i64>> {
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    device.run(|o| {
        let x = o.own(vec![0i64], [1])?;
        o.scope(|o| o.submit(slow, (inout(&x),)).map(drop))?;
        for _ in 0..40 {
            o.scope(|o| (0..4).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop)))?;
        }
        o.read(&x)
    })
}

#[test]
fn a_kernel_of_five_seconds_with_a_full_ring_behind_it_is_back_pressure() {
    // In virtual time the five seconds are exact, and nobody gave up before them.
    for arch in [&ArchSpec::A2A3, &ArchSpec::HOST] {
        let mut engine = VirtualOptions::new(arch, 1);
        engine.costs.set("slow", KernelCost::Fixed { ns: 5_000_000_000 });
        let mut device = Device::builder().engine(engine).capacities(small(8)).open().unwrap();
        let slow = device.kernel("slow", |mut x: InOut<i64>| x[[0]] = 1000);
        assert_eq!(behind(&mut device, &slow).unwrap(), [1160], "{}", arch.name);
        assert_eq!(peak(&device, Resource::TaskWindow, 1), 8);
        assert!(device.report().elapsed_ns > 5_000_000_000);
    }
    // On threads: it really takes five seconds.
    let mut device = Device::builder().workers(2).capacities(small(8)).open().unwrap();
    let slow = device.kernel("slow", |mut x: InOut<i64>| {
        std::thread::sleep(Duration::from_secs(5));
        x[[0]] = 1000;
    });
    assert_eq!(behind(&mut device, &slow).unwrap(), [1160]);
    assert_eq!(peak(&device, Resource::TaskWindow, 1), 8);
}

#[test]
fn a_scope_larger_than_its_window_is_a_deadlock_as_soon_as_its_tasks_have_ended() {
    // One cluster, one scheduler: eight tasks of a chain, and the ninth has no slot and never will.
    let mut arch = ArchSpec { clusters: 1, sched_threads: 1, ..ArchSpec::A2A3 };
    arch.costs = Costs {
        submit_ns: 100,
        dispatch_ns: 200,
        complete_ns: 300,
        handover_ns: 400,
        wake_ns: 60,
        collect_ns: 0,
        kernel_ns: 10_000,
        element_ps: 0,
    };
    let mut device = Device::builder().engine(VirtualOptions::new(&arch, 1)).capacities(small(8)).open().unwrap();
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    let error = device
        .run(|o| {
            let x = o.own(vec![0i64], [1])?;
            o.scope(|o| (0..9).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop)))
        })
        .unwrap_err();
    assert_eq!((error.code(), error.used(), error.needed()), (ErrorCode::ScopeDeadlock, Some(8), Some(16)));
    // The chain of eight, worked out by hand as in `virtual_time`: no time passes between its end and the verdict.
    assert_eq!(device.report().elapsed_ns, 100 + 60 + 8 * (200 + 400 + 10_000 + 400 + 300) + 60);
}

/// While one task of the scope runs, a full window is not a deadlock yet; with its end it is.
#[test]
fn a_deadlock_is_not_declared_while_anything_runs() {
    let mut device = Device::builder().workers(2).lend(false).capacities(small(8)).open().unwrap();
    let ended = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ended);
    let slow = device.kernel("slow", move |_: InOut<i64>| {
        // Long enough for the orchestrator to go wrong meanwhile; how long it takes is not asserted.
        std::thread::sleep(Duration::from_millis(100));
        count.fetch_add(1, Ordering::SeqCst);
    });
    let error = device
        .run(|o| {
            let x = o.own(vec![0i64], [1])?;
            o.scope(|o| (0..9).try_for_each(|_| o.submit(&slow, (inout(&x),)).map(drop)))
        })
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::ScopeDeadlock);
    assert_eq!(ended.load(Ordering::SeqCst), 8, "all that could run had run when it was declared");
}

#[test]
fn a_prebuilt_graph_has_the_limit_that_it_is_given() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    let mut build = |most: usize, tasks: usize| {
        let built = device.prebuild_within(most, |o| {
            let x = o.own(vec![0i64], [1])?;
            (0..tasks).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop))
        });
        built.map(|graph| graph.tasks())
    };
    assert_eq!(build(10, 10).unwrap(), 10);
    let error = build(10, 11).unwrap_err();
    assert_eq!((error.code(), error.kernel()), (ErrorCode::ScopeTasksOverflow, Some("add")));
    assert!(error.explanation().contains("has 10 tasks") && error.site().is_some(), "{error}");
    assert!(error.resource().is_none() && error.needed().is_none(), "{error}");
}

#[test]
fn a_run_that_cannot_be_recorded_says_so_and_the_next_one_is_clean() {
    for mut device in [
        Device::builder().workers(2).open().unwrap(),
        Device::builder().engine(VirtualOptions::new(&ArchSpec::A2A3, 1)).open().unwrap(),
    ] {
        let record = Some(RecordOptions::new("/dev/null/run", Flags::NONE.with(Flags::CORE_TIMING)));
        let error = device.run_with(&RunOptions { record, ..RunOptions::default() }, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RecordingFailed);
        assert!(error.explanation().contains("/dev/null/run"), "{error}");
        device.run(|_| Ok(())).unwrap();
    }
}
