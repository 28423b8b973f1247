//! The watchdog of a run: what hangs is left behind and named, what borrows is waited for, what is well is left alone.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{ErrorCode, Flags, StallClass};
use plimsoll_runtime::*;
use plimsoll_trace::{Manifest, Status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// What a thread that was left behind may touch is never freed. LeakSanitizer, which asks this, would call that a leak.
#[unsafe(no_mangle)]
extern "C" fn __lsan_is_turned_off() -> i32 {
    1
}

const BUDGET: Duration = Duration::from_millis(100);

fn open(workers: usize) -> Device {
    Device::builder().workers(workers).open().unwrap()
}

/// A kernel that returns once it may.
fn stuck(device: &mut Device, may: &Arc<AtomicBool>) -> Kernel<(ReadWrite<i64>,)> {
    let may = Arc::clone(may);
    device.kernel("stuck", move |mut x: InOut<i64>| {
        while !may.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        x[[0]] += 1;
    })
}

#[test]
fn a_kernel_past_its_budget_is_left_behind_and_another_device_works() {
    let may = Arc::new(AtomicBool::new(false));
    let mut device = open(2);
    let kernel = stuck(&mut device, &may);
    let dir = tempfile::tempdir().unwrap();
    let record = Some(RecordOptions::new(dir.path(), Flags::CORE_TIMING));
    let options = RunOptions { op_timeout: Some(BUDGET), record, ..RunOptions::default() };
    let error = device
        .run_with(&options, |o| {
            let x = o.own(vec![0i64], [1])?;
            o.submit(&kernel, (inout(&x),)).map(drop)
        })
        .unwrap_err();
    assert_eq!(
        (error.code(), error.kernel(), error.worker()),
        (ErrorCode::OpTimeout, Some("stuck"), Some(1)),
        "{error}"
    );
    let manifest = Manifest::read(dir.path()).unwrap();
    assert_eq!(manifest.status, Status::Hung);
    assert!(manifest.reconcile.unwrap().balanced);
    assert_eq!(device.run(|_| Ok(())).unwrap_err().code(), ErrorCode::DeviceLost);
    let mut other = open(2);
    may.store(true, Ordering::Relaxed);
    let kernel = stuck(&mut other, &may);
    let sum = other.run(|o| {
        let x = o.own(vec![0i64], [1])?;
        o.submit(&kernel, (inout(&x),))?;
        o.read(&x)
    });
    assert_eq!(sum.unwrap(), [1]);
}

/// Two parts that exchange values, of which the second then hangs.
fn half_stuck(device: &mut Device, may: &Arc<AtomicBool>) -> [BlockKernel<(ReadWrite<i64>,)>; 2] {
    type Ended = std::result::Result<(), PipeError>;
    let may = Arc::clone(may);
    let sends = device.block_kernel_on(CoreClass::Aic, "sends", |b: Block, _: PartInOut<i64, 0>| -> Ended {
        b.pop::<i64>(1).and_then(|value| b.push(1, value))
    });
    let hangs = device.block_kernel_on(CoreClass::Aiv, "hangs", move |b: Block, _: PartInOut<i64, 0>| -> Ended {
        b.push(0, 1i64)?;
        b.pop::<i64>(0)?;
        while !may.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    [sends, hangs]
}

/// On a chip every part has a core; on the host's cores the part that has the turn is named.
#[test]
fn the_part_of_a_mixed_task_that_hangs_is_named() {
    let chip = ArchSpec { clusters: 1, sched_threads: 1, ..ArchSpec::A2A3 };
    let chip = Device::builder().engine(EmulatedOptions::new(&chip));
    let emulated = Device::builder().workers(2).engine(EmulatedOptions::new(&ArchSpec::HOST));
    let host = Device::builder().workers(2);
    for (builder, core) in [(chip, "aiv core"), (emulated, "worker"), (host, "worker")] {
        let mut device = builder.open().unwrap();
        let may = Arc::new(AtomicBool::new(false));
        let parts = half_stuck(&mut device, &may);
        // More than the part that ends may wait for the other one on a loaded machine.
        let options = RunOptions { op_timeout: Some(5 * BUDGET), ..RunOptions::default() };
        let error = device
            .run_with(&options, |o| {
                let x = o.own(vec![0i64], [1])?;
                o.submit_shaped(&TaskShape::default(), &parts, (inout(&x),)).map(drop)
            })
            .unwrap_err();
        assert_eq!((error.code(), error.kernel()), (ErrorCode::OpTimeout, Some("hangs")), "{error}");
        assert!(error.to_string().contains(core), "{error}");
        may.store(true, Ordering::Relaxed);
    }
}

/// An orchestrator that has become a scheduler does not wait for cores of its own that hang.
#[test]
fn an_orchestrator_that_schedules_leaves_its_hung_cores_behind() {
    let engine = EmulatedOptions { orch_to_sched: true, ..EmulatedOptions::new(&ArchSpec::HOST) };
    let mut device = Device::builder().workers(4).engine(engine).open().unwrap();
    let [submitted, joined, may] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
    let kernel = {
        let (joined, may) = (Arc::clone(&joined), Arc::clone(&may));
        device.block_kernel("stuck", move |_: Block, mut x: InOutTile<i64>, hangs: i64| {
            while !joined.load(Ordering::Acquire) || (hangs == 1 && !may.load(Ordering::Relaxed)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            x.row_mut(0)[0] += 1;
        })
    };
    let pulse = {
        let (submitted, joined) = (Arc::clone(&submitted), Arc::clone(&joined));
        move || joined.store(submitted.load(Ordering::Acquire), Ordering::Release)
    };
    // More than a loaded machine takes until the orchestrator has joined in.
    let op_timeout = Some(20 * BUDGET);
    let options = RunOptions { op_timeout, pulse: Some(Arc::new(pulse)), ..RunOptions::default() };
    let error = device
        .run_with(&options, |o| {
            let x = o.own(vec![0i64; 4], [4])?;
            for hangs in [0, 0, 1] {
                // Every block needs a core of its own, and so those that the orchestrator has by then.
                o.submit_shaped(&TaskShape::blocks(4).sync_start(), &kernel, (inout(&x), scalar(hangs)))?;
            }
            submitted.store(true, Ordering::Release);
            Ok(())
        })
        .unwrap_err();
    assert_eq!((error.code(), error.kernel()), (ErrorCode::OpTimeout, Some("stuck")), "{error}");
    assert_eq!(device.lost().len(), 5, "four cores and the scheduler of two of them: {:?}", device.lost());
    may.store(true, Ordering::Relaxed);
}

/// The lender gets its memory back, so the run waits; its records and its error are there before it returns.
#[test]
fn a_run_that_borrows_is_rescued_and_returns_when_its_kernel_does() {
    let may = Arc::new(AtomicBool::new(false));
    let mut device = open(2);
    let kernel = stuck(&mut device, &may);
    let dir = tempfile::tempdir().unwrap();
    let record = Some(RecordOptions::new(dir.path(), Flags::CORE_TIMING));
    let (tell, told) = mpsc::channel();
    let go = Arc::clone(&may);
    let on_hung: Arc<HungHook> = Arc::new(move |error, report| {
        let manifest = Manifest::read(report.dir.as_ref().unwrap()).unwrap();
        tell.send((error.code(), manifest.status, manifest.reconcile.unwrap().balanced)).unwrap();
        go.store(true, Ordering::Relaxed);
    });
    let options = RunOptions { op_timeout: Some(BUDGET), record, on_hung: Some(on_hung), ..RunOptions::default() };
    let mut lent = vec![41i64];
    let error = device.run_with(&options, |o| {
        let x = o.borrow_mut(&mut lent, [1])?;
        o.submit(&kernel, (inout(&x),)).map(drop)
    });
    assert_eq!(error.unwrap_err().code(), ErrorCode::OpTimeout);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(ErrorCode::OpTimeout, Status::Hung, true)]);
    assert_eq!((lent, device.lost().len()), (vec![42], 0));
    let report = device.report();
    assert_eq!((report.dir.as_deref(), report.ledger.is_some()), (Some(dir.path()), true));
}

/// A stall time-out that spares kernels has nothing to say of one that sleeps; whoever wants to know is told once what runs.
#[test]
fn a_kernel_that_sleeps_is_spared_and_told() {
    let may = Arc::new(AtomicBool::new(false));
    let mut device = open(2);
    let kernel = stuck(&mut device, &may);
    let (tell, told) = mpsc::channel();
    let go = Arc::clone(&may);
    let notice = StillNotice {
        after: BUDGET * 4,
        tell: Arc::new(move |state: &str| {
            tell.send(state.to_owned()).unwrap();
            go.store(true, Ordering::Relaxed);
        }),
    };
    let options = RunOptions {
        stall_timeout: Some(BUDGET),
        stall_spares_kernels: true,
        notice: Some(notice),
        ..RunOptions::default()
    };
    let sum = device.run_with(&options, |o| {
        let x = o.own(vec![0i64], [1])?;
        o.submit(&kernel, (inout(&x),))?;
        o.read(&x)
    });
    assert_eq!(sum.unwrap(), [1]);
    let told: Vec<String> = told.try_iter().collect();
    assert!(told.len() == 1 && told[0].contains("kernel stuck of task r0t0 has not returned"), "{told:?}");
}

/// The same kernel without that: frozen is a stall.
#[test]
fn a_kernel_that_sleeps_is_a_stall_if_it_was_asked_for() {
    let may = Arc::new(AtomicBool::new(false));
    let mut device = open(2);
    let kernel = stuck(&mut device, &may);
    let options = RunOptions { stall_timeout: Some(BUDGET), ..RunOptions::default() };
    let error = device.run_with(&options, |o| {
        let x = o.own(vec![0i64], [1])?;
        o.submit(&kernel, (inout(&x),)).map(drop)
    });
    let error = error.unwrap_err();
    let said = (error.code(), error.stall_class(), error.task().map(|task| task.to_string()));
    assert_eq!(said, (ErrorCode::SchedulerTimeout, Some(StallClass::RunningStalled), Some("r0t0".to_owned())));
    assert!(error.site().is_some_and(|site| site.contains("watchdog.rs")), "{error}");
    assert_eq!((device.report().left_behind, device.lost().len()), (1, 1));
    may.store(true, Ordering::Relaxed);
}

/// A run that is well gets no verdict.
#[test]
fn a_healthy_run_gets_no_verdict() {
    let mut device = open(2);
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    let dir = tempfile::tempdir().unwrap();
    let record = Some(RecordOptions::new(dir.path(), Flags::CORE_TIMING));
    // No kernel of this one takes anything like a minute, and it moves all the time.
    let minute = Some(Duration::from_secs(60));
    let options =
        RunOptions { op_timeout: minute, stall_timeout: minute, orch_timeout: minute, record, ..RunOptions::default() };
    let sum = device.run_with(&options, |o| {
        let x = o.own(vec![0i64], [1])?;
        (0..2000).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop))?;
        o.read(&x)
    });
    assert_eq!(sum.unwrap(), [2000]);
}

#[test]
fn times_are_read_with_their_unit() {
    let ms = |text: &str| parse_duration(text).map(|time| time.map(|time| time.as_millis()));
    assert_eq!(
        (ms("500ms"), ms(" 2s"), ms("3m"), ms("off")),
        (Ok(Some(500)), Ok(Some(2000)), Ok(Some(180_000)), Ok(None))
    );
    for wrong in ["", "1", "s", "1h", "-1s", "0ms", "1.5s", "99999999999999999999s", "9999999999999999m"] {
        assert!(ms(wrong).is_err(), "{wrong}");
    }
}
