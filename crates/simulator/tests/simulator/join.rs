//! An orchestrator that becomes a scheduler when it has submitted all: it gets cores, schedules them, and nothing is lost.

#![allow(clippy::unwrap_used)]

use plimsoll_abi::Flags;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_runtime::{
    ArchSpec, Block, BufferSizes, Builder, Costs, Device, EmulatedOptions, InOutTile, RecordOptions, RunOptions,
    SharedBuffer, TaskShape, VirtualOptions, inout,
};
use plimsoll_simulator::records;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Three clusters of one scheduler, who hands one of them over.
fn chip() -> ArchSpec {
    // In virtual time all is submitted before the first task ends.
    let costs = Costs { submit_ns: 10, kernel_ns: 100_000, ..ArchSpec::A5.costs };
    ArchSpec { clusters: 3, sched_threads: 1, costs, ..ArchSpec::A5 }
}

/// Devices, with whether their cores are threads.
fn devices() -> Vec<(&'static str, Builder, bool)> {
    let emulated = |arch: &ArchSpec| EmulatedOptions { orch_to_sched: true, ..EmulatedOptions::new(arch) };
    let in_virtual_time = VirtualOptions { orch_to_sched: true, ..VirtualOptions::new(&chip(), 3) };
    vec![
        ("emulated host", Device::builder().workers(4).engine(emulated(&ArchSpec::HOST)), true),
        ("emulated a5", Device::builder().engine(emulated(&ArchSpec { costs: ArchSpec::A5.costs, ..chip() })), true),
        ("virtual a5", Device::builder().engine(in_virtual_time), false),
    ]
}

/// Cohorts that need every core, one after the other. The first one ends when the orchestrator has become a scheduler, so those after
/// it cannot start without the cores that were handed over.
#[test]
fn the_orchestrator_schedules_after_its_last_submit() {
    const COHORTS: i64 = 12;
    for (name, builder, on_threads) in devices() {
        for rounds in [1, 3] {
            let mut device = builder.clone().open().unwrap();
            let (submitted, joined) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(!on_threads)));
            let waits = Arc::clone(&joined);
            let add = device.block_kernel("add", move |_: Block, mut x: InOutTile<i64>| {
                while !waits.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                x.row_mut(0).iter_mut().for_each(|x| *x += 1);
            });
            let blocks = device.limits().together(plimsoll_runtime::CoreClass::Any);
            let out = SharedBuffer::new(vec![0i64; blocks]);
            let dir = tempfile::tempdir().unwrap();
            let flags = Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::PMU);
            let sizes = BufferSizes { buffers: Some(2), records: Some(3) };
            let record = RecordOptions { sizes, ..RecordOptions::new(dir.path(), flags) };
            let pulse = {
                let (submitted, joined) = (Arc::clone(&submitted), Arc::clone(&joined));
                move || joined.store(!on_threads || submitted.load(Ordering::Acquire), Ordering::Release)
            };
            let options = RunOptions { record: Some(record), pulse: Some(Arc::new(pulse)), ..RunOptions::default() };
            let ran = device.run_rounds(&options, rounds, |_, o| {
                submitted.store(false, Ordering::Release);
                joined.store(!on_threads, Ordering::Release);
                let x = o.share(&out, [blocks])?;
                for _ in 0..COHORTS {
                    o.submit_shaped(&TaskShape::blocks(blocks as u32).sync_start(), &add, (inout(&x),))?;
                }
                submitted.store(true, Ordering::Release);
                Ok(())
            });
            ran.unwrap_or_else(|error| panic!("{name}: {error}"));
            let expected = vec![i64::from(rounds) * COHORTS; blocks];
            assert_eq!(out.to_vec().unwrap(), expected, "{name}");
            let ledger = device.report().ledger.as_ref().unwrap();
            assert!(ledger.lossless, "{name}: {ledger:?}");
            let found = records::read(dir.path()).unwrap();
            found.check_ledger(ledger, false).unwrap_or_else(|what| panic!("{name}: {what}"));
            found.check_cores(true, false).unwrap_or_else(|what| panic!("{name}: {what}"));
            let last = found.submits.iter().map(|submit| submit.end).max().unwrap();
            let phases = &found.phases[&0];
            for kind in [SchedPhaseKind::Dispatch, SchedPhaseKind::Complete] {
                let after = phases.iter().filter(|phase| phase.start >= last && phase.kind == kind as u32);
                assert!(after.count() > 0, "{name}: {kind:?} after the last submit");
            }
        }
    }
}
