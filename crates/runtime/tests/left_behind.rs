//! A worker that does not return from its kernel can be left behind: what it may touch is kept, the device says that it has
//! lost it, and another device of the same process works. What is borrowed is waited for, whatever happens.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{ErrorCode, Flags};
use plimsoll_runtime::*;
use plimsoll_trace::{Manifest, Status};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a thread that was left behind may touch is never freed. LeakSanitizer, which asks this, would call that a leak.
#[unsafe(no_mangle)]
extern "C" fn __lsan_is_turned_off() -> i32 {
    1
}

/// A kernel that says when it has begun, and returns when it is told to.
struct Stuck {
    kernel: Kernel<(ReadWrite<i64>,)>,
    begun: Receiver<()>,
    go: Sender<()>,
    ended: Receiver<i64>,
}

impl Stuck {
    fn new(device: &mut Device) -> Self {
        let ((tell, begun), (go, wait), (end, ended)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let wait = Mutex::new(wait);
        let kernel = device.kernel("stuck", move |mut x: InOut<i64>| {
            tell.send(()).unwrap();
            // Nobody tells it any more once the test has ended.
            let told = wait.lock().unwrap().recv();
            x[[0]] += 1;
            let _ = end.send(if told.is_ok() { x[[0]] } else { 0 });
        });
        Self { kernel, begun, go, ended }
    }
}

fn open() -> Device {
    Device::builder().workers(2).lend(false).open().unwrap()
}

fn works(device: &mut Device) -> bool {
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    let sum = device.run(|o| {
        let x = o.own(vec![0i64], [1])?;
        (0..10).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop))?;
        o.read(&x)
    });
    sum.is_ok_and(|sum| sum == [10])
}

/// Runs `body` while another thread abandons the run as soon as the kernel has begun.
fn abandoned<R>(token: &CancelToken, begun: Receiver<()>, body: impl FnOnce() -> R) -> R {
    let token = token.clone();
    let other = std::thread::spawn(move || {
        begun.recv().unwrap();
        token.abandon();
    });
    let out = body();
    other.join().unwrap();
    out
}

#[track_caller]
fn has_lost_one(device: &mut Device) {
    let [lost] = device.lost() else { panic!("{:?}", device.lost()) };
    assert_eq!((lost.agent.index(), lost.task.map(|task| task.to_string())), (1, Some("r0t0".to_owned())));
    let error = device.run(|_| Ok(())).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceLost);
    assert!(error.explanation().contains("lost 1 thread ") && error.explanation().contains("kernel stuck"), "{error}");
    assert!(works(&mut open()), "another device of the same process works");
}

#[test]
fn a_worker_that_does_not_return_is_left_behind_with_all_that_it_touches() {
    let mut device = open();
    let stuck = Stuck::new(&mut device);
    let dir = tempfile::tempdir().unwrap();
    let token = CancelToken::new();
    let record = RecordOptions::new(dir.path(), Flags::CORE_TIMING);
    let options = RunOptions { cancel: Some(token.clone()), record: Some(record), ..RunOptions::default() };
    let shared = SharedBuffer::new(vec![41i64]);
    let error = abandoned(&token, stuck.begun, || {
        device.run_with(&options, |o| {
            let x = o.share(&shared, [1])?;
            o.submit(&stuck.kernel, (inout(&x),)).map(drop)
        })
    });
    assert_eq!(error.unwrap_err().code(), ErrorCode::Cancelled);
    let manifest = Manifest::read(dir.path()).unwrap();
    assert_eq!(manifest.status, Status::Failed);
    assert!(manifest.reconcile.unwrap().balanced);
    has_lost_one(&mut device);
    assert!(shared.to_vec().is_err(), "the buffer is the worker's for ever");
    drop(device);
    // It goes on in memory that is still there: rings, kernel, buffer and region.
    stuck.go.send(()).unwrap();
    assert_eq!(stuck.ended.recv().unwrap(), 42);
}

#[test]
fn a_graph_is_kept_for_a_worker_that_does_not_return() {
    let mut device = open();
    let stuck = Stuck::new(&mut device);
    let token = CancelToken::new();
    let options = RunOptions { cancel: Some(token.clone()), ..RunOptions::default() };
    let mut graph = device
        .prebuild(|o| {
            let x = o.own(vec![41i64], [1])?;
            o.submit(&stuck.kernel, (inout(&x),)).map(drop)
        })
        .unwrap();
    let error = abandoned(&token, stuck.begun, || device.launch(&mut graph, 1, &options));
    assert_eq!(error.unwrap_err().code(), ErrorCode::Cancelled);
    has_lost_one(&mut device);
    assert_eq!(device.launch(&mut graph, 1, &options).unwrap_err().code(), ErrorCode::DeviceLost);
    drop((graph, device));
    stuck.go.send(()).unwrap();
    assert_eq!(stuck.ended.recv().unwrap(), 42);
}

/// The lender gets its memory back, so nobody can be left behind with it.
#[test]
fn a_run_that_borrows_waits_for_everybody() {
    let mut device = open();
    let stuck = Stuck::new(&mut device);
    let token = CancelToken::new();
    let options = RunOptions { cancel: Some(token.clone()), ..RunOptions::default() };
    let mut lent = vec![41i64];
    let go = stuck.go;
    let returned = Arc::new(Mutex::new(false));
    let (waits, sees) = (Arc::clone(&returned), Arc::clone(&returned));
    let other = std::thread::spawn(move || {
        stuck.begun.recv().unwrap();
        token.abandon();
        // Long enough for a run that does not wait to return.
        std::thread::sleep(Duration::from_millis(100));
        let early = *waits.lock().unwrap();
        go.send(()).unwrap();
        early
    });
    let error = device.run_with(&options, |o| {
        let x = o.borrow_mut(&mut lent, [1])?;
        o.submit(&stuck.kernel, (inout(&x),)).map(drop)
    });
    *sees.lock().unwrap() = true;
    assert_eq!(error.unwrap_err().code(), ErrorCode::Cancelled);
    assert!(!other.join().unwrap(), "it returned while the kernel ran");
    assert_eq!((lent, device.lost().len()), (vec![42], 0));
    assert!(works(&mut device));
}
