//! The engine `virtual`: elapsed times worked out by hand, the same bytes for the same seed, errors in virtual time.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{ErrorCode, Flags};
use plimsoll_runtime::*;
use std::path::Path;
use std::time::Duration;

/// Costs that are easy to add up, and multiples of the 20 ns that a2a3's counter can tell apart.
const COSTS: Costs = Costs {
    submit_ns: 100,
    dispatch_ns: 200,
    complete_ns: 300,
    handover_ns: 400,
    wake_ns: 60,
    collect_ns: 0,
    kernel_ns: 10_000,
    element_ps: 0,
};
const S: u64 = COSTS.submit_ns;
const D: u64 = COSTS.dispatch_ns;
const C: u64 = COSTS.complete_ns;
const H: u64 = COSTS.handover_ns;
const W: u64 = COSTS.wake_ns;
const K: u64 = COSTS.kernel_ns;

fn small(capacities: u32) -> Capacities {
    let mut out = Capacities::default();
    out.rings.iter_mut().for_each(|ring| (ring.window, ring.heap) = (capacities, 1 << 20));
    out
}

fn chip(clusters: u32, schedulers: u32, seed: u64) -> VirtualOptions {
    let arch = ArchSpec { clusters, sched_threads: schedulers, costs: COSTS, ..ArchSpec::A2A3 };
    VirtualOptions::new(&arch, seed)
}

fn host(seed: u64) -> VirtualOptions {
    VirtualOptions::new(&ArchSpec { costs: COSTS, ..ArchSpec::HOST }, seed)
}

fn open(options: VirtualOptions) -> Device {
    Device::builder().engine(options).capacities(small(1024)).open().unwrap()
}

/// A chain: every task adds 1 to the same vector.
fn chain(device: &mut Device, tasks: usize, class: CoreClass) -> u64 {
    let add = device.kernel_on(class, "add", |mut x: InOut<f32>| x.row_mut(0).iter_mut().for_each(|x| *x += 1.0));
    let sum = device
        .run(|o| {
            let x = o.own(vec![0.0f32; 8], [8])?;
            for _ in 0..tasks {
                o.submit(&add, (inout(&x),))?;
            }
            o.read(&x)
        })
        .unwrap();
    assert_eq!(sum, vec![tasks as f32; 8]);
    device.report().elapsed_ns
}

/// `width` tasks that read one vector and write their own, and one that adds them up.
fn fork_join(device: &mut Device, width: usize) -> u64 {
    let fill = device.kernel_on(CoreClass::Aiv, "fill", |mut x: Out<f32>| x.fill(2.0));
    let copy = device.kernel_on(CoreClass::Aiv, "copy", |x: In<f32>, mut y: Out<f32>| {
        y.row_mut(0).copy_from_slice(x.row(0));
    });
    let sum = device.kernel_on(CoreClass::Aiv, "sum", |list: InList<f32>, mut y: Out<f32>| {
        y.fill(0.0);
        list.iter().for_each(|x| y.row_mut(0)[0] += x.row(0)[0]);
    });
    let total = device
        .run(|o| {
            let (x,) = o.submit(&fill, (output([4]),))?;
            let mut parts = Vec::new();
            for _ in 0..width {
                let (_, part) = o.submit(&copy, (input(&x), output([4])))?;
                parts.push(part);
            }
            let (_, total) = o.submit(&sum, (input_list(&parts), output([4])))?;
            o.read(&total)
        })
        .unwrap();
    assert_eq!(total[0], 2.0 * width as f32);
    device.report().elapsed_ns
}

#[test]
fn a_chain_on_one_worker_is_the_sum_of_its_parts() {
    for seed in 0..10 {
        let mut device = Device::builder().engine(host(seed)).workers(1).capacities(small(1024)).open().unwrap();
        // One agent does everything, one thing after the other.
        assert_eq!(chain(&mut device, 10, CoreClass::Any), 10 * (S + D + K + C));
    }
}

#[test]
fn a_chain_on_a_chip_waits_for_every_hand_over() {
    for seed in 0..10 {
        for class in CoreClass::ALL {
            let mut device = open(chip(24, 3, seed));
            // The first submit wakes the schedulers; then every task is dispatched, handed over, run, handed back and
            // completed before the next can be; the last one wakes the orchestrator. Later submits are hidden by that.
            let expected = S + W + 10 * (D + H + K + H + C) + W;
            assert_eq!(chain(&mut device, 10, class), expected, "seed {seed} {class:?}");
        }
    }
}

#[test]
fn a_launched_chain_costs_no_submits_and_rounds_take_the_same_time_each() {
    for (options, expected) in [(chip(24, 3, 4), 10 * (D + H + K + H + C) + W), (host(4), 10 * (D + K + C))] {
        // Everybody begins at the same moment. If the lot lets all schedulers look before the first task is published,
        // one of them has to be woken.
        let takes = |rounds: u64, ns: u64| (0..=rounds).any(|woken| ns == rounds * expected + woken * W);
        // One worker, so that the host's chain has no hand-overs.
        let builder = Device::builder().engine(options.clone()).capacities(small(8));
        let mut device = if options.arch.cores() > 0 { builder } else { builder.workers(1) }.open().unwrap();
        let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
        let (x, y) = (SharedBuffer::new(vec![0i64]), SharedBuffer::new(vec![100i64]));
        // Ten tasks through a window of eight: ring limits do not apply.
        let mut graph = device
            .prebuild(|o| {
                let x = o.share(&x, [1])?;
                (0..10).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop))
            })
            .unwrap();
        device.launch(&mut graph, 1, &RunOptions::default()).unwrap();
        assert!(takes(1, device.report().elapsed_ns), "{} ns", device.report().elapsed_ns);
        device.launch(&mut graph, 3, &RunOptions::default()).unwrap();
        assert_eq!(device.report().rounds, 3);
        assert!(takes(3, device.report().elapsed_ns), "{} ns", device.report().elapsed_ns);
        assert_eq!((device.report().tasks, device.report().dispatches), (30, 30));
        graph.bind(&x, &y).unwrap();
        device.launch(&mut graph, 2, &RunOptions::default()).unwrap();
        assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (vec![40], vec![120]));
    }
}

#[test]
fn a_launch_ends_by_failure_deadline_or_cancellation_and_the_next_is_clean() {
    for options in [host(5), chip(4, 2, 5)] {
        let mut device = open(options);
        let token = CancelToken::new();
        let from_kernel = token.clone();
        let step = device.kernel("step", move |mut x: InOut<i64>| -> std::result::Result<(), KernelError> {
            x[[0]] += 1;
            match x[[0]] {
                -5 => Err("minus five".into()),
                1005 => {
                    from_kernel.cancel();
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        let x = SharedBuffer::new(vec![-10i64]);
        let mut graph = device
            .prebuild(|o| {
                let x = o.share(&x, [1])?;
                (0..50).try_for_each(|_| o.submit(&step, (inout(&x),)).map(drop))
            })
            .unwrap();
        let mut launch = |from: i64, options: RunOptions| {
            x.with(|x| x[0] = from).unwrap();
            device.launch(&mut graph, 1, &options).map_err(|error| error.code())
        };
        assert_eq!(launch(-10, RunOptions::default()), Err(ErrorCode::KernelFailed));
        let deadline = Some(Duration::from_micros(100));
        assert_eq!(launch(0, RunOptions { deadline, ..RunOptions::default() }), Err(ErrorCode::DeadlineExceeded));
        let cancel = Some(token.clone());
        assert_eq!(launch(1000, RunOptions { cancel, ..RunOptions::default() }), Err(ErrorCode::Cancelled));
        assert_eq!(launch(0, RunOptions::default()), Ok(()));
        assert_eq!(x.to_vec().unwrap(), [50]);
    }
}

#[test]
fn a_kernel_that_no_core_could_run_is_refused() {
    let arch = ArchSpec { aic_per_cluster: 0, ..ArchSpec::A2A3 };
    let mut device = open(VirtualOptions::new(&arch, 1));
    device.run(|_| Ok(())).unwrap();
    device.kernel_on(CoreClass::Aic, "gemm", |_: InOut<f32>| {});
    let error = device.run(|_| Ok(())).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgs);
    assert!(error.explanation().contains("Kernel gemm wants a core of class aic"), "{error}");
    let none = ArchSpec { clusters: 0, ..ArchSpec::A2A3 };
    let error = Device::builder().engine(VirtualOptions::new(&none, 1)).open().unwrap_err();
    assert!(error.explanation().contains("no cores"), "{error}");
}

#[test]
fn two_tasks_on_two_cores_overlap_and_on_one_core_do_not() {
    let run = |clusters| {
        let arch = ArchSpec {
            clusters,
            aic_per_cluster: 1,
            aiv_per_cluster: 0,
            sched_threads: 1,
            costs: COSTS,
            ..ArchSpec::A2A3
        };
        let mut device = open(VirtualOptions::new(&arch, 1));
        let fill = device.kernel_on(CoreClass::Aic, "fill", |mut x: Out<f32>| x.fill(1.0));
        device
            .run(|o| {
                o.submit(&fill, (output([4]),))?;
                o.submit(&fill, (output([4]),))?;
                Ok(())
            })
            .unwrap();
        device.report().elapsed_ns
    };
    // The scheduler is woken by the first submit and busy with it when the second comes; then it dispatches that one.
    let second_dispatched = S + W + D + D;
    // Both are done at the same distance from their dispatch; the second ends last, and completing the first, whose
    // receipt comes D earlier, takes longer than D.
    let first_seen = S + W + D + H + K + H;
    assert_eq!(run(2), first_seen + C + C + W);
    assert!(second_dispatched + H + K + H <= first_seen + C);
    // On one core the second waits in the pending slot: it starts when the first ends.
    assert_eq!(run(1), S + W + D + H + K + K + H + C + W);
}

#[test]
fn fork_and_join_take_the_longest_way() {
    for seed in 0..10 {
        // One scheduler hands out four tasks in turn to four idle cores and completes them in turn.
        let mut device = open(chip(2, 1, seed));
        let width = 4;
        let first = S + W + D + H + K + H + C;
        let last_dispatched = first + width * D;
        let last_seen = last_dispatched + H + K + H;
        // The receipts come D apart and each takes C > D to complete: the first one's plus all completions is later.
        let joined = (first + D + H + K + H + width * C).max(last_seen + C);
        let expected = joined + D + H + K + H + C + W;
        assert_eq!(fork_join(&mut device, width as usize), expected, "seed {seed}");
    }
}

fn segments(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join("records").join("records.seg")).unwrap()
}

/// A wide graph with many ties, recorded in full.
fn recorded(options: VirtualOptions, workers: Option<usize>) -> (Vec<u8>, Device) {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = Device::builder().engine(options).capacities(small(64));
    if let Some(workers) = workers {
        builder = builder.workers(workers);
    }
    let mut device = builder.open().unwrap();
    let fill = device.kernel_on(CoreClass::Aic, "fill", |mut x: Out<f32>| x.fill(2.0));
    let double =
        device.kernel_on(CoreClass::Aiv, "double", |mut x: InOut<f32>| x.row_mut(0).iter_mut().for_each(|x| *x *= 2.0));
    let flags = Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN);
    let mut record = RecordOptions::new(dir.path(), flags);
    record.sizes = BufferSizes { buffers: Some(2), records: Some(16) };
    let run = RunOptions { record: Some(record), ..RunOptions::default() };
    device
        .run_with(&run, |o| {
            let shared = o.own(vec![1.0f32; 64], [8, 8])?;
            for round in 0..20usize {
                o.scope(|o| {
                    for _ in 0..5 {
                        let (x,) = o.submit(&fill, (output([4]),))?;
                        o.submit(&double, (inout(&x),))?;
                    }
                    o.submit(&double, (inout(&shared.slice(0, round % 8..round % 8 + 1)?),))
                })?;
            }
            Ok(())
        })
        .unwrap();
    let ledger = device.report().ledger.clone().unwrap();
    assert!(ledger.lossless, "{ledger:?}");
    (segments(dir.path()), device)
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
    let runs: [(fn(u64) -> VirtualOptions, Option<usize>); 3] =
        [(host, Some(3)), (|seed| chip(24, 3, seed), None), (|seed| VirtualOptions::new(&ArchSpec::A5, seed), None)];
    for (options, workers) in runs {
        let (first, device) = recorded(options(7), workers);
        assert_eq!(device.report().tasks, 220);
        let ledger = device.report().ledger.clone().unwrap();
        let bytes: u64 =
            ledger.pools.iter().map(|pool| pool.total * pool.record_kind().expect("ours").record_bytes() as u64).sum();
        assert!(bytes > 220 * (32 + 32 + 32 + 64), "all kinds are there: {bytes} bytes");
        assert_eq!(first, recorded(options(7), workers).0);
        assert!((8..72).any(|seed| recorded(options(seed), workers).0 != first), "seeds make no difference");
    }
}

#[test]
fn a_deadline_is_one_of_virtual_time() {
    for options in [host(3), chip(4, 2, 3)] {
        let mut device = open(options);
        let add = device.kernel("add", |mut x: InOut<f32>| x.fill(1.0));
        let mut go = |deadline| {
            let options = RunOptions { deadline: Some(Duration::from_micros(deadline)), ..RunOptions::default() };
            device.run_with(&options, |o| {
                let x = o.own(vec![0.0f32; 8], [8])?;
                for _ in 0..100 {
                    o.submit(&add, (inout(&x),))?;
                }
                Ok(())
            })
        };
        let error = go(500).unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
        assert!(error.to_string().contains("virtual time"), "{error}");
        go(5_000).unwrap();
        let options = RunOptions { deadline: Some(Duration::from_micros(5_000)), ..RunOptions::default() };
        let error = device.run_rounds(&options, 1_000, |_, o| {
            let x = o.own(vec![0.0f32; 8], [8])?;
            o.submit(&add, (inout(&x),)).map(drop)
        });
        assert_eq!(error.unwrap_err().code(), ErrorCode::DeadlineExceeded, "all rounds together");
    }
}

#[test]
fn a_run_is_cancelled_at_a_point_of_the_program() {
    for options in [host(3), chip(4, 2, 3)] {
        let mut device = open(options);
        let token = CancelToken::new();
        let from_kernel = token.clone();
        let add = device.kernel("add", move |mut x: InOut<f32>| {
            x.row_mut(0)[0] += 1.0;
            if x.row(0)[0] == 5.0 {
                from_kernel.cancel();
            }
        });
        let options = RunOptions { cancel: Some(token), ..RunOptions::default() };
        let outcome = device.run_with(&options, |o| {
            let x = o.own(vec![0.0f32; 8], [8])?;
            for _ in 0..100 {
                o.submit(&add, (inout(&x),))?;
            }
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::Cancelled);
        // The loop looks around after 64 charges at the latest, and a task has two or three.
        assert!(device.report().dispatches < 40, "{}", device.report().dispatches);
    }
}

#[test]
fn a_kernel_that_does_not_end_is_said_to_hang_and_the_next_run_is_clean() {
    for mut options in [host(3), chip(4, 2, 3)] {
        options.costs.set("stuck", KernelCost::Never);
        let mut device = open(options);
        let good = device.kernel("good", |mut x: InOut<f32>| x.row_mut(0)[0] += 1.0);
        let stuck = device.kernel("stuck", |mut x: InOut<f32>| x.row_mut(0)[0] += 1.0);
        let error = device
            .run(|o| {
                let x = o.own(vec![0.0f32; 8], [8])?;
                o.submit(&good, (inout(&x),))?;
                o.submit(&stuck, (inout(&x),))?;
                o.submit(&good, (inout(&x),))?;
                o.read(&x)
            })
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::SchedulerTimeout, "{error}");
        let x = device
            .run(|o| {
                let x = o.own(vec![0.0f32; 8], [8])?;
                o.submit(&good, (inout(&x),))?;
                o.read(&x)
            })
            .unwrap();
        assert_eq!(x[0], 1.0);
    }
}

#[test]
fn failures_panics_and_deadlocks_are_those_of_other_engines() {
    for options in [host(5), chip(4, 2, 5)] {
        let mut device = Device::builder().engine(options).capacities(small(8)).open().unwrap();
        let fail = device.kernel("fail", |_: In<f32>| -> std::result::Result<(), KernelError> { Err("no".into()) });
        let panic = device.kernel("panic", |_: In<f32>| -> () { panic!("oh") });
        let good = device.kernel("good", |mut x: InOut<f32>| x.row_mut(0)[0] += 1.0);
        let mut one = |kernel| {
            device
                .run(|o| {
                    let x = o.own(vec![0.0f32; 8], [8])?;
                    o.submit(kernel, (input(&x),))
                })
                .unwrap_err()
        };
        let error = one(&fail);
        assert_eq!((error.code(), error.kernel()), (ErrorCode::KernelFailed, Some("fail")));
        let error = one(&panic);
        assert_eq!((error.code(), error.kernel()), (ErrorCode::KernelPanicked, Some("panic")));
        let error = device
            .run(|o| {
                let x = o.own(vec![0.0f32; 8], [8])?;
                (0..12).try_for_each(|_| o.submit(&good, (inout(&x),)).map(|_| ()))
            })
            .unwrap_err();
        assert_eq!((error.code(), error.needed()), (ErrorCode::ScopeDeadlock, Some(16)), "{error}");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            device.run(|_| -> Result<()> { panic!("the program itself") })
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"the program itself"));
        device.run(|_| Ok(())).unwrap();
    }
}

#[test]
fn a_chip_has_cores_and_no_workers() {
    let error = Device::builder().engine(chip(4, 2, 5)).workers(3).open().unwrap_err();
    assert!(error.to_string().contains("12 cores, not workers"), "{error}");
    let error = Device::builder().engine(chip(4, 0, 5)).open().unwrap_err();
    assert!(error.to_string().contains("at least one scheduler"), "{error}");
    assert_eq!(open(VirtualOptions::new(&ArchSpec::A2A3, 0)).workers(), 72);
    assert_eq!(open(VirtualOptions::new(&ArchSpec::A5, 0)).workers(), 108);
}
