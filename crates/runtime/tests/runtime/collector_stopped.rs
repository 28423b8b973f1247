//! A collector that stops in the middle of a run: producers wait for it, give it up, and go on; what they recorded meanwhile is
//! counted, and the run says so with code 112.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{ErrorCode, Flags};
use plimsoll_runtime::*;
use plimsoll_trace::{Manifest, PoolLedger, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TASKS: u64 = 2000;

fn stopped(device: Builder, host_gone: Duration, stops_after: Option<u64>) {
    let mut device = device.open().unwrap();
    let ended = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ended);
    let add = device.kernel("add", move |mut x: InOut<i64>| {
        x[[0]] += 1;
        count.fetch_add(1, Ordering::Relaxed);
    });
    let dir = tempfile::tempdir().unwrap();
    let mut record = RecordOptions::new(dir.path(), Flags::CORE_TIMING);
    record.sizes = BufferSizes { buffers: Some(2), records: Some(16) };
    (record.host_gone, record.collector_stops_after) = (host_gone, stops_after);
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    let error = device.run_with(&options, |o| {
        let x = o.own(vec![0i64], [1])?;
        o.scope(|o| (0..TASKS).try_for_each(|_| o.submit(&add, (inout(&x),)).map(drop)))?;
        o.read(&x)
    });
    let error = error.unwrap_err();
    assert_eq!((error.code(), ended.load(Ordering::Relaxed)), (ErrorCode::HostGone, TASKS), "{error}");
    let manifest = Manifest::read(dir.path()).unwrap();
    assert_eq!((manifest.status, manifest.error.unwrap().code), (Status::Failed, 112));
    let ledger = manifest.reconcile.unwrap();
    assert!(ledger.balanced && !ledger.lossless, "{ledger:?}");
    let sum = |part: fn(&PoolLedger) -> u64| ledger.pools.iter().map(part).sum::<u64>();
    assert_eq!((sum(|pool| pool.total), sum(|pool| pool.mismatch)), (TASKS, 0));
    let kept = sum(|pool| pool.collected + pool.recovered);
    assert!(kept >= 16 && kept + sum(|pool| pool.dropped) == TASKS, "{ledger:?}");
}

#[test]
fn on_threads_of_this_machine() {
    stopped(Device::builder().workers(2), Duration::from_millis(100), Some(3));
}

#[test]
fn on_an_emulated_device() {
    let engine = EmulatedOptions::new(&ArchSpec { clusters: 1, sched_threads: 1, ..ArchSpec::A2A3 });
    stopped(Device::builder().engine(engine), Duration::from_millis(100), Some(3));
}

#[cfg(feature = "coroutines")]
#[test]
fn in_virtual_time() {
    let mut engine = VirtualOptions::new(&ArchSpec::HOST, 1);
    let (from_ns, to_ns) = (20_000, 100_000_000_000);
    engine.faults.pauses.push(Pause { who: Who::Collector, from_ns, to_ns });
    stopped(Device::builder().engine(engine), Duration::from_secs(1), None);
}
