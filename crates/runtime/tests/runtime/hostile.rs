//! What user code may do that nobody expects: errors that panic when they are told or dropped, orchestrations that panic,
//! tokens used too early, scopes nested without measure. Every engine, streamed and prebuilt.
#![allow(clippy::unwrap_used)]

use crate::quiet_panics::quietly;
use plimsoll_runtime::abi::{ErrorCode, Flags};
use plimsoll_runtime::*;
use plimsoll_trace::{Manifest, Status};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

/// Every engine: threads, also where the orchestrator executes nothing, virtual time, and cores behind mailboxes.
fn devices() -> Vec<(&'static str, Device)> {
    let open = |builder: Builder| builder.open().unwrap();
    vec![
        ("one worker", open(Device::builder().workers(1))),
        ("two workers", open(Device::builder().workers(2))),
        ("no lending", open(Device::builder().workers(2).lend(false))),
        ("virtual host", open(Device::builder().engine(VirtualOptions::new(&ArchSpec::HOST, 1)))),
        ("virtual a2a3", open(Device::builder().engine(VirtualOptions::new(&ArchSpec::A2A3, 1)))),
    ]
}

/// Panics whenever it is told or dropped.
#[derive(Debug)]
struct Bomb {
    told: bool,
    dropped: bool,
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.told, "bomb: told");
        f.write_str("a bomb")
    }
}

impl std::error::Error for Bomb {}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.dropped, "bomb: dropped");
    }
}

#[test]
fn an_error_or_a_panic_that_panics_itself_ends_the_run_and_harms_no_other() {
    for (name, mut device) in devices() {
        let throw = device.kernel("throw", |mut x: InOut<i64>, how: i64| {
            x[[0]] += 1;
            match how {
                0 => Ok(()),
                1 => Err(Bomb { told: true, dropped: false }),
                2 => Err(Bomb { told: false, dropped: true }),
                3 => Err(Bomb { told: true, dropped: true }),
                _ => std::panic::panic_any(Bomb { told: true, dropped: true }),
            }
        });
        for how in 1..5 {
            let shared = SharedBuffer::new(vec![0i64]);
            let code = if how == 4 { ErrorCode::KernelPanicked } else { ErrorCode::KernelFailed };
            let error = quietly(|| {
                device.run(|o| {
                    let x = o.share(&shared, [1])?;
                    o.submit(&throw, (inout(&x), scalar(how))).map(drop)
                })
            });
            let error = error.unwrap_err();
            assert_eq!((error.code(), error.kernel()), (code, Some("throw")), "{name}: {error}");
            // The same in a graph, whose buffers are nobody's afterwards.
            let mut graph = device
                .prebuild(|o| {
                    let x = o.share(&shared, [1])?;
                    o.submit(&throw, (inout(&x), scalar(how))).map(drop)
                })
                .unwrap();
            let error = quietly(|| device.launch(&mut graph, 1, &RunOptions::default())).unwrap_err();
            assert_eq!(error.code(), code, "{name}: {error}");
            assert_eq!(shared.to_vec().unwrap(), [2], "{name}");
            // And the next run has all its workers.
            device
                .run(|o| {
                    let x = o.share(&shared, [1])?;
                    (0..50).try_for_each(|_| o.submit(&throw, (inout(&x), scalar(0))).map(drop))
                })
                .unwrap();
            assert_eq!(shared.to_vec().unwrap(), [52], "{name}");
        }
    }
}

#[test]
fn an_orchestration_that_panics_is_recorded_as_one_that_failed() {
    for (name, mut device) in devices() {
        let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
        let dir = tempfile::tempdir().unwrap();
        let record = RecordOptions::new(dir.path(), Flags::CORE_TIMING);
        let options = RunOptions { record: Some(record), ..RunOptions::default() };
        let shared = SharedBuffer::new(vec![0i64]);
        let panic = quietly(|| {
            catch_unwind(AssertUnwindSafe(|| {
                device.run_with(&options, |o| {
                    let x = o.share(&shared, [1])?;
                    (0..3).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop))?;
                    if x.shape()[0] == 1 { panic!("bomb of the orchestration") } else { Ok(()) }
                })
            }))
        });
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "bomb of the orchestration", "{name}");
        assert_eq!((shared.to_vec().unwrap(), device.report().tasks), (vec![3], 3), "{name}");
        let manifest = Manifest::read(dir.path()).unwrap();
        let error = manifest.error.unwrap();
        assert_eq!((manifest.status, error.code, manifest.tasks), (Status::Failed, 25, 3), "{name}");
        assert!(error.explanation.contains("bomb of the orchestration"), "{name}: {}", error.explanation);
        assert_eq!(manifest.reconcile.unwrap().pools.iter().map(|pool| pool.collected).sum::<u64>(), 3, "{name}");
    }
}

/// Tasks that are submitted behind a manual scope wait for each other, however the scope ended.
#[test]
fn a_panic_that_is_caught_closes_the_scopes_it_passed() {
    for (name, mut device) in devices() {
        let add = device.kernel("add", |mut x: InOut<i64>| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            x[[0]] += 10;
        });
        let copy = device.kernel("copy", |x: In<i64>, mut y: Out<i64>| y[[0]] = x[[0]]);
        let program = |o: &mut Orchestrator<'_, '_>, untyped: bool| {
            let (x, y) = (o.own(vec![0i64], [1])?, o.own(vec![0i64], [1])?);
            let caught = quietly(|| {
                catch_unwind(AssertUnwindSafe(|| -> Result<()> {
                    if untyped {
                        return untyped::Orchestrator::drive(o, |o| {
                            o.open_scope()?;
                            // SAFETY: nothing is submitted inside.
                            unsafe { o.open_manual_scope() };
                            panic!("bomb of a program")
                        });
                    }
                    // SAFETY: nothing is submitted inside.
                    unsafe { o.manual_scope(|_| panic!("bomb of a scope")) }
                }))
            });
            assert!(caught.is_err(), "{name}");
            o.submit(&add, (inout(&x),))?;
            o.submit(&copy, (input(&x), output_existing(&y)))?;
            o.read(&y)
        };
        assert_eq!(device.run(|o| program(o, false)).unwrap(), [10], "{name}");
        assert_eq!(device.run(|o| program(o, true)).unwrap(), [10], "{name}");
    }
}

#[test]
fn a_token_that_was_used_before_the_run_ends_it_before_its_first_task() {
    for (name, mut device) in devices() {
        let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
        let shared = SharedBuffer::new(vec![0i64]);
        let token = CancelToken::new();
        let options = RunOptions { cancel: Some(token.clone()), ..RunOptions::default() };
        let one = |o: &mut Orchestrator<'_, '_>| {
            let x = o.share(&shared, [1])?;
            o.submit(&add, (inout(&x),)).map(drop)
        };
        let mut graph = device.prebuild(one).unwrap();
        token.cancel();
        let codes = [
            device.run_with(&options, one).unwrap_err().code(),
            device.run_with(&options, |_| Ok(())).unwrap_err().code(),
            device.launch(&mut graph, 1, &options).unwrap_err().code(),
        ];
        assert_eq!((codes, shared.to_vec().unwrap()), ([ErrorCode::Cancelled; 3], vec![0]), "{name}");
        let interrupted = CancelToken::new();
        interrupted.interrupt();
        let options = RunOptions { cancel: Some(interrupted), ..RunOptions::default() };
        assert_eq!(device.run_with(&options, one).unwrap_err().code(), ErrorCode::Interrupted, "{name}");
        device.run(one).unwrap();
    }
}

/// The kernel writes only when the test lets it, which is after the read began to wait, or would have returned.
#[test]
fn a_read_waits_for_writes_that_inference_was_not_told_of() {
    for how in 0..2 {
        let mut device = Device::builder().workers(2).lend(false).open().unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let write = device.kernel("write", move |mut x: InOut<i64>| {
            wait.lock().unwrap().recv().unwrap();
            // Long enough for a read that does not wait to return with what was there before.
            std::thread::sleep(std::time::Duration::from_millis(100));
            x[[0]] += 7;
        });
        let mut lent = vec![1i64; 4];
        let read = device.run(|o| {
            let x = o.borrow_mut(&mut lent, [4])?;
            let part = x.slice(0, 2..3)?;
            if how == 0 {
                // SAFETY: nothing else uses the tensor.
                unsafe { o.manual_scope(|o| o.submit(&write, (inout(&part),)).map(drop))? };
            } else {
                // SAFETY: nothing else uses the tensor.
                o.submit(&write, (unsafe { no_dep_inout(&part) },))?;
            }
            go.send(()).unwrap();
            o.read(&x)
        });
        assert_eq!(read.unwrap(), [1, 1, 8, 1], "way {how}");
    }
}

/// Scopes so deep that any step for each scope that is open, taken for each that closes, would be felt for minutes.
#[test]
fn scopes_nest_deeply_and_hold_what_they_hold() {
    const DEPTH: usize = 20_000;
    fn nest(o: &mut Orchestrator<'_, '_>, add: &Kernel<(ReadWrite<i64>,)>, left: usize) -> Result<()> {
        if left > 0 {
            return o.scope(|o| nest(o, add, left - 1));
        }
        let x = o.own(vec![0i64], [1])?;
        (0..5).try_for_each(|_| o.submit(add, (inout(&x),)).map(drop))
    }
    let run = || {
        let mut device = Device::builder().workers(1).open().unwrap();
        let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
        device.run(|o| nest(o, &add, DEPTH)).unwrap();
        let report = device.report();
        let window = report.load.iter().find(|load| load.ring == Some(3)).unwrap();
        (report.tasks, window.peak, window.floor)
    };
    let deep = std::thread::Builder::new().stack_size(256 << 20).spawn(run).unwrap();
    assert_eq!(deep.join().unwrap(), (5, 5, 8));
}
