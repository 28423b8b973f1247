//! Counters around kernels: one reading per execution on every engine, of the kernel and of nothing else.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{CounterGroup, Flags};
use plimsoll_runtime::*;
use plimsoll_trace::Trace;
use std::path::Path;
use std::time::Instant;

/// Runs `tasks` tasks that each use CPU time, twice, and gives what was recorded.
fn counted(engine: EngineKind, workers: Option<usize>, record: RecordOptions, tasks: usize) -> (Trace, u64) {
    let mut builder = Device::builder().engine(engine);
    if let Some(workers) = workers {
        builder = builder.workers(workers);
    }
    let mut device = builder.open().unwrap();
    let busy = device.kernel("busy", |mut x: InOut<i64>| {
        let since = Instant::now();
        while since.elapsed().as_micros() < 200 {
            x[[0]] = std::hint::black_box(x[[0]]).wrapping_mul(3);
        }
    });
    let idle = device.kernel("idle", |mut x: InOut<i64>| x[[0]] += 1);
    let RunPlace::Exactly(dir) = record.place.clone() else { panic!("the tests say where") };
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    device
        .run_rounds(&options, 2, |_, o| {
            let (x, y) = (o.own(vec![1i64; 8], [8])?, o.own(vec![0i64], [1])?);
            for _ in 0..tasks {
                o.submit(&busy, (inout(&x),))?;
                o.submit(&idle, (inout(&y),))?;
            }
            Ok(())
        })
        .unwrap();
    (plimsoll_trace::open(&dir).unwrap(), device.report().dispatches)
}

fn options(dir: &Path, group: CounterGroup) -> RecordOptions {
    RecordOptions::new(dir.join(group.name()), Flags::CORE_TIMING).count(group)
}

fn engines() -> Vec<(EngineKind, Option<usize>)> {
    let chip = ArchSpec { clusters: 2, sched_threads: 2, ..ArchSpec::A5 };
    vec![
        (EngineKind::Host, Some(2)),
        (EmulatedOptions::new(&ArchSpec::HOST).into(), Some(2)),
        (EmulatedOptions::new(&chip).into(), None),
    ]
}

/// What a table has counted of a kernel: readings, and the sum of its first counter.
fn sums(trace: &Trace, kernel: u32) -> (u64, u64) {
    let table = &trace.counters;
    let of = (0..table.rows.len()).filter(|at| table.kernel(*at) == Some(kernel));
    of.fold((0, 0), |(count, sum), at| (count + 1, sum + table.values(at).next().unwrap()))
}

#[test]
fn every_execution_has_one_reading_of_its_own_kernel() {
    for group in [CounterGroup::Cycles, CounterGroup::Software, CounterGroup::Rusage] {
        for (engine, workers) in engines() {
            let dir = tempfile::tempdir().unwrap();
            let (trace, dispatches) = counted(engine, workers, options(dir.path(), group), 20);
            let manifest = trace.manifest.as_ref().unwrap();
            assert!(manifest.reconcile.as_ref().unwrap().lossless);
            assert_eq!((dispatches, trace.counters.rows.len()), (80, 80), "one per execution, in both rounds");
            assert_eq!((trace.counters.not_counted, trace.counters.estimated), (0, 0));
            let facts = manifest.counters.as_ref().unwrap();
            assert_eq!(facts.asked, group.name());
            assert_eq!(facts.note.is_some(), facts.asked != facts.group, "another group is explained: {facts:?}");
            // 200 µs of work against a few nanoseconds: what is counted is the kernel's.
            let ((busy, spent), (idle, little)) = (sums(&trace, 0), sums(&trace, 1));
            assert_eq!((busy, idle), (40, 40));
            assert!(spent > 2 * little, "{group:?}: {spent} and {little}");
        }
    }
}

/// The task of an execution, with its round.
fn ran_as(trace: &Trace, at: usize) -> u64 {
    trace.executions.task(at).with_round(trace.executions.round(at))
}

#[test]
fn readings_are_joined_with_executions_by_core_and_task() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, workers) = engines().remove(2);
    let (trace, _) = counted(engine, workers, options(dir.path(), CounterGroup::Software), 5);
    let mut ran: Vec<(u16, u64)> =
        (0..trace.executions.len()).map(|at| (trace.executions.core(at), ran_as(&trace, at))).collect();
    let mut read: Vec<(u16, u64)> = trace.counters.rows.iter().map(|row| (row.core, row.task)).collect();
    ran.sort_unstable();
    read.sort_unstable();
    assert_eq!(ran, read);
}

#[test]
fn counters_need_no_swimlane() {
    for (engine, workers) in engines() {
        let dir = tempfile::tempdir().unwrap();
        let record = RecordOptions::new(dir.path().join("run"), Flags::NONE).count(CounterGroup::Software);
        let (trace, _) = counted(engine, workers, record, 3);
        assert_eq!((trace.executions.len(), trace.counters.rows.len()), (0, 12));
    }
}

#[cfg(feature = "coroutines")]
#[test]
fn virtual_time_counts_elements_and_bytes_and_says_so() {
    for arch in [ArchSpec::HOST, ArchSpec { clusters: 2, sched_threads: 1, ..ArchSpec::A2A3 }] {
        let dir = tempfile::tempdir().unwrap();
        let engine = VirtualOptions::new(&arch, 1).into();
        let (trace, _) = counted(engine, None, options(dir.path(), CounterGroup::Cycles), 4);
        let facts = trace.manifest.as_ref().unwrap().counters.as_ref().unwrap();
        assert!(facts.virtual_counts && facts.group == "virtual" && facts.note.is_some(), "{facts:?}");
        assert_eq!(trace.counters.names, ["elements", "bytes"]);
        assert_eq!(trace.counters.rows.len(), 16);
        for at in 0..16 {
            let elements = if trace.counters.kernel(at) == Some(0) { 8 } else { 1 };
            assert_eq!(trace.counters.counts(at), [elements, elements * 8]);
        }
    }
}
