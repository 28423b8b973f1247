//! Devices as a whole: more workers than CPUs, several at once, sizes that cannot be, and idleness that costs nothing.

use plimsoll_runtime::abi::ErrorCode;
use plimsoll_runtime::{
    ArchSpec, Capacities, Device, EmulatedOptions, InOut, RecordOptions, Result, RunOptions, inout, parse_bytes,
    parse_per_ring,
};
use plimsoll_trace::Manifest;
use std::time::{Duration, Instant};

/// Chains of dependent tasks side by side; the sum of all is returned.
fn chains(device: &mut Device, chains: usize, length: usize) -> Result<i64> {
    let step = device.kernel("step", |mut x: InOut<i64>| x[[0]] = (x[[0]] * 31 + 7) % 1_000_003);
    let data = device.run(|o| {
        let x = o.own(vec![1; chains], [chains])?;
        for _ in 0..length {
            o.scope(|o| (0..chains).try_for_each(|at| o.submit(&step, (inout(&x.slice(0, at..at + 1)?),)).map(drop)))?;
        }
        o.read(&x)
    })?;
    Ok(data.iter().sum())
}

fn expected(chains: usize, length: usize) -> i64 {
    chains as i64 * (0..length).fold(1, |x, _| (x * 31 + 7) % 1_000_003)
}

#[test]
fn sixteen_workers_finish_on_any_number_of_cpus() {
    for lend in [true, false] {
        let mut device = Device::builder().workers(16).lend(lend).open().expect("default sizes");
        assert_eq!(chains(&mut device, 20, 500).expect("it fits"), expected(20, 500));
        assert_eq!(device.report().workers.iter().map(|worker| worker.tasks).sum::<u64>(), 10_000);
    }
}

#[test]
fn devices_live_side_by_side_in_one_process() {
    std::thread::scope(|s| {
        for workers in [1, 2, 3, 4] {
            s.spawn(move || {
                let mut device = Device::builder().workers(workers).open().expect("default sizes");
                for round in 1..20 {
                    assert_eq!(chains(&mut device, 5, 10 * round).expect("it fits"), expected(5, 10 * round));
                }
            });
        }
    });
    // And one thread may drive two of them, one inside a run of the other.
    let mut outer = Device::builder().workers(2).open().expect("default sizes");
    let mut inner = Device::builder().workers(2).open().expect("default sizes");
    let sum = outer.run(|_| chains(&mut inner, 3, 30));
    assert_eq!(sum.expect("both fit"), expected(3, 30));
}

/// Several runs of one emulated device, and several such devices in one process: each run has a region and a directory of its
/// own, and knows which of its device's runs it is.
#[test]
fn emulated_devices_live_side_by_side_and_number_their_runs() {
    let outputs = tempfile::tempdir().expect("a temporary directory");
    std::thread::scope(|s| {
        for clusters in 1..4 {
            let outputs = outputs.path();
            s.spawn(move || {
                let arch = ArchSpec { clusters, sched_threads: 1, ..ArchSpec::A5 };
                let mut device = Device::builder().engine(EmulatedOptions::new(&arch)).open().expect("a small chip");
                let step = device.kernel("step", |mut x: InOut<i64>| x[[0]] += 1);
                let mut places = Vec::new();
                for run in 1..4 {
                    let record = RecordOptions::under(outputs).profile();
                    let options = RunOptions { record: Some(record), ..RunOptions::default() };
                    let ran = device.run_with(&options, |o| {
                        let x = o.own(vec![0; 8], [8])?;
                        (0..80)
                            .try_for_each(|at| o.submit(&step, (inout(&x.slice(0, at % 8..at % 8 + 1)?),)).map(drop))?;
                        o.read(&x)
                    });
                    assert_eq!(ran.expect("it fits"), [10; 8]);
                    let report = device.report();
                    assert!(report.ledger.as_ref().is_some_and(|ledger| ledger.lossless), "{report:?}");
                    let dir = report.dir.clone().expect("recorded");
                    let manifest = Manifest::read(&dir).expect("a manifest");
                    assert_eq!((manifest.device_run, manifest.topology.cores.len()), (run, 3 * clusters as usize));
                    assert!(!places.contains(&dir), "{dir:?}");
                    places.push(dir);
                }
            });
        }
    });
}

fn cpu_time() -> Duration {
    // SAFETY: zeroed memory is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for the call.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
    let part = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    part(usage.ru_utime) + part(usage.ru_stime)
}

/// Runs a test of this file in a process of its own, since the time of other tests would count. Whether this is that
/// process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "PLIMSOLL_TEST_IDLE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let me = std::env::current_exe().expect("a test is a program");
    let name = format!("devices::{test}");
    let output = std::process::Command::new(me).args(["--exact", &name]).env(ALONE, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Asserts that `wait`, which mostly sleeps, uses next to no CPU.
fn assert_idle<R>(workers: usize, wait: impl FnOnce() -> R) -> R {
    let (cpu, wall) = (cpu_time(), Instant::now());
    let result = wait();
    let (cpu, wall) = (cpu_time() - cpu, wall.elapsed());
    assert!(cpu < wall / 10, "{cpu:?} of CPU time in {wall:?} of sleep on {workers} workers");
    result
}

#[test]
fn waiting_burns_no_cpu() {
    if !is_alone("waiting_burns_no_cpu") {
        return;
    }
    for workers in [1, 2, 8] {
        let mut device = Device::builder().workers(workers).open().expect("default sizes");
        let sleep = device.kernel("sleep", |mut x: InOut<i64>| {
            std::thread::sleep(Duration::from_millis(300));
            x[[0]] += 1;
        });
        let read = assert_idle(workers, || {
            device.run(|o| {
                let x = o.own(vec![0], [1])?;
                // The second waits for the first, and everybody else for both.
                o.submit(&sleep, (inout(&x),))?;
                o.submit(&sleep, (inout(&x),))?;
                o.read(&x)
            })
        });
        assert_eq!(read.expect("it fits"), [2]);
    }
}

/// 108 cores, four schedulers and an orchestrator without work use at most 10 ms of CPU in 2 s: between runs, and in a run
/// whose orchestration thinks.
#[test]
fn an_idle_chip_burns_no_cpu() {
    if !is_alone("an_idle_chip_burns_no_cpu") {
        return;
    }
    let mut device = Device::builder().engine(EmulatedOptions::new(&ArchSpec::A5)).open().expect("a chip");
    let step = device.kernel("step", |mut x: InOut<i64>| x[[0]] += 1);
    let idle = |when: &str| {
        // Whoever is about to sleep has time to.
        std::thread::sleep(Duration::from_millis(500));
        let before = cpu_time();
        std::thread::sleep(Duration::from_secs(2));
        let used = cpu_time() - before;
        assert!(used <= Duration::from_millis(10), "{used:?} of CPU time in 2 s, {when}");
    };
    let ran = device.run(|o| {
        let x = o.own(vec![0], [1])?;
        o.submit(&step, (inout(&x),))?;
        idle("in a run");
        o.submit(&step, (inout(&x),))?;
        o.read(&x)
    });
    assert_eq!(ran.expect("it fits"), [2]);
    idle("between runs");
}

/// Tasks that a failed run leaves behind never run, and nobody looks for them while the orchestration goes on.
#[test]
fn a_failed_run_burns_no_cpu() {
    if !is_alone("a_failed_run_burns_no_cpu") {
        return;
    }
    for workers in [2, 8] {
        let mut device = Device::builder().workers(workers).open().expect("default sizes");
        let step = device.kernel("step", |mut x: InOut<i64>| x[[0]] += 1);
        let fail = device.kernel("fail", |_: InOut<i64>| Err::<(), _>("on purpose"));
        // By now the device knows that a step is light.
        device
            .run(|o| {
                let x = o.own(vec![0; 64], [64])?;
                (0..2000).try_for_each(|at| o.submit(&step, (inout(&x.slice(0, at % 64..at % 64 + 1)?),)).map(drop))
            })
            .expect("it fits");
        let failed = device.run(|o| {
            let x = o.own(vec![0; 65], [65])?;
            o.submit(&fail, (inout(&x.slice(0, 64..65)?),))?;
            // Some of these may be refused, once the failure is known.
            for at in 0..60 {
                drop(o.submit(&step, (inout(&x.slice(0, at..at + 1)?),)));
            }
            std::thread::sleep(Duration::from_millis(50));
            assert_idle(workers, || std::thread::sleep(Duration::from_millis(500)));
            Ok(())
        });
        assert_eq!(failed.expect_err("a kernel failed").code(), ErrorCode::KernelFailed);
    }
}

fn refusal(change: impl FnOnce(&mut Capacities)) -> String {
    let mut capacities = Capacities::default();
    change(&mut capacities);
    let error = Device::builder().workers(1).capacities(capacities).open().expect_err("it cannot be had");
    assert_eq!(error.code(), ErrorCode::InvalidArgs);
    error.explanation().to_owned()
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_with_what_is_wrong_and_what_would_do() {
    assert_says(&refusal(|c| c.rings[2].window = 100), &["task window of ring 2", "100", "power of two", "128"]);
    assert_says(&refusal(|c| c.rings[0].window = 0), &["task window of ring 0", "cannot be 0", "next one is 1."]);
    assert_says(&refusal(|c| c.rings[1].window = 1 << 31), &["task window of ring 1", "2147483648", "268435456"]);
    assert_says(&refusal(|c| c.rings[3].heap = 100), &["heap of ring 3", "100 bytes", "multiple of 64", "128"]);
    assert_says(&refusal(|c| c.rings[3].heap = 0), &["heap of ring 3", "0 bytes", "next one is 64."]);
    assert_says(&refusal(|c| c.rings[1].heap = u64::MAX), &["heap of ring 1", "The largest one is 1099511627776."]);
    assert_says(&refusal(|c| c.rings[1].window = u32::MAX), &["window of ring 1", "The largest one is 268435456."]);
    assert_says(&refusal(|c| c.rings[0].heap = 1 << 50), &["heap of ring 0", "1 TiB"]);
    assert_says(&refusal(|c| c.rings[1].dep_pool = 0), &["dependency pool of ring 1", "at least 1"]);
    assert_says(&refusal(|c| c.tensormap = 0), &["tensormap", "0 entries", "at least 1"]);
    assert_says(&refusal(|c| c.tensormap = u32::MAX), &["tensormap", "4294967295", "268435456"]);
}

#[test]
fn workers_that_cannot_be_are_refused() {
    for workers in [0, 100_000] {
        let error = Device::builder().workers(workers).open().expect_err("it cannot be had");
        assert_says(error.explanation(), &[&format!("{workers} workers"), "at least one", "at most"]);
    }
    let error = Device::builder().workers(1).lend(false).open().expect_err("nobody would run a task");
    assert_says(error.explanation(), &["one worker", "lend"]);
}

#[test]
fn sizes_are_read_from_text() {
    assert_eq!(parse_bytes("64m").ok(), Some(64 << 20));
    assert_eq!(parse_bytes(" 1_000 ").ok(), Some(1000));
    assert_eq!(parse_bytes("2GiB").ok(), Some(2 << 30));
    assert_eq!(parse_per_ring("8").ok(), Some([Some(8); 4]));
    assert_eq!(parse_per_ring("1,-,3k,4").ok(), Some([Some(1), None, Some(3072), Some(4)]));
    let refused = [
        ("x", "whole number"),
        ("64q", "k, m, g"),
        ("99999999999g", "too large"),
        ("99999999999999999999", "too large"),
        ("", "whole number"),
    ];
    for (text, why) in refused {
        let error = parse_bytes(text).expect_err("it is no size").to_string();
        assert_says(&error, &[why, &format!("{text:?}")]);
    }
    assert_says(&parse_per_ring("1,2").expect_err("two are no four").to_string(), &["four", "\"1,2\""]);
    let mut capacities = Capacities::default();
    capacities.set_task_window("-,32,-,64").expect("valid");
    capacities.set_heap("1m").expect("valid");
    capacities.set_dep_pool("7").expect("valid");
    capacities.set_tensormap("9k").expect("valid");
    assert_eq!(capacities.rings.map(|ring| ring.window), [16_384, 32, 16_384, 64]);
    assert!(capacities.rings.iter().all(|ring| ring.heap == 1 << 20 && ring.dep_pool == 7));
    assert_eq!(capacities.tensormap, 9216);
    let error = capacities.set_task_window("-,-,8g,-").expect_err("it does not fit 32 bits");
    assert_says(&error, &["task window", "8589934592", "ring 2", "too large"]);
}
