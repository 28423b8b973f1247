//! What errors of the library say and lead to: calls and not flags, and the error that caused them.

#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{ErrorCode, Flags};
use plimsoll_runtime::{Capacities, Device, InOut, Kernel, Orchestrator, ReadWrite, RecordOptions, RunOptions, inout};
use std::error::Error as _;

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("row {0} is not positive")]
struct NotPositive(u32);

#[test]
fn the_source_of_a_failed_kernel_is_what_it_returned() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let fails = device.kernel("fails", |_: InOut<i64>| Err::<(), _>(NotPositive(3)));
    let error = device.run(|o| {
        let x = o.own(vec![0i64], [1])?;
        o.submit(&fails, (inout(&x),))?;
        o.read(&x)
    });
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::KernelFailed);
    assert!(error.explanation().contains("kernel fails failed in task r0t0: row 3 is not positive"), "{error}");
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&NotPositive(3)));
    drop(device);
    assert_eq!(error.clone().source().unwrap().to_string(), "row 3 is not positive", "also after the device is gone");
}

#[test]
fn the_source_of_a_recording_that_failed_is_the_systems_word() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let record = Some(RecordOptions::new("/dev/null/run", Flags::CORE_TIMING));
    let error = device.run_with(&RunOptions { record, ..RunOptions::default() }, |_| Ok(())).unwrap_err();
    let mut chain = std::iter::successors(error.source(), |&error| error.source());
    assert!(chain.any(|error| error.is::<std::io::Error>()), "{error}");
    assert!(!error.explanation().contains("--"), "the library has no flags: {error}");
}

#[test]
fn a_ring_that_is_too_small_is_advised_in_calls() {
    let mut capacities = Capacities::default();
    capacities.set_task_window("16").unwrap();
    let mut device = Device::builder().workers(1).capacities(capacities).open().unwrap();
    let touch = device.kernel("touch", |_: InOut<i64>| {});
    let forty = |o: &mut Orchestrator<'_, '_>, touch: &Kernel<(ReadWrite<i64>,)>| {
        let x = o.own(vec![0i64], [1])?;
        (0..40).try_for_each(|_| o.submit(touch, (inout(&x),)).map(drop))
    };
    let error = device.run(|o| forty(o, &touch)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ScopeDeadlock);
    assert!(!error.explanation().contains("--"), "the library has no flags: {error}");
    // The advice is a call that compiles: its argument is taken out of the text.
    let (_, advice) = error.explanation().split_once("`Capacities::set_task_window(\"").unwrap();
    let (value, _) = advice.split_once("\")`").unwrap();
    capacities.set_task_window(value).unwrap();
    let mut device = Device::builder().workers(1).capacities(capacities).open().unwrap();
    let touch = device.kernel("touch", |_: InOut<i64>| {});
    device.run(|o| forty(o, &touch)).unwrap();
}
