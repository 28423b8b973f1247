//! Runs of one device with different flags in every order: each records what it was asked for and nothing of another.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::record::Kind;
use plimsoll_runtime::abi::{Flags, Level};
use plimsoll_runtime::*;

const SCOPES: u64 = 7;
const TASKS: u64 = 3 * SCOPES;

fn ways() -> Vec<Flags> {
    let level = |number| Level::new(number).unwrap().flags();
    let all = level(4).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN);
    vec![Flags::NONE, level(1), level(2), level(3), level(4), Flags::SCOPE_STATS, Flags::DEP_GEN, all]
}

/// The flag that turns a kind on, and how many records the program makes of it; none where timing decides.
fn expected(kind: Kind) -> (Flags, Option<u64>) {
    match kind {
        Kind::AicoreTask => (Flags::CORE_TIMING, Some(TASKS)),
        Kind::AicpuTask => (Flags::TASK_LIFECYCLE, Some(TASKS)),
        Kind::SchedPhase => (Flags::SCHED_PHASES, None),
        Kind::OrchPhase => (Flags::ORCH_PHASES, Some(TASKS)),
        // Two per scope, the root included.
        Kind::ScopeSample => (Flags::SCOPE_STATS, Some(2 * (SCOPES + 1))),
        // The buffer; per task itself and its argument.
        Kind::Submit => (Flags::DEP_GEN, Some(1 + 2 * TASKS)),
        // When something is given back is a matter of timing.
        other => (other.flag(), None),
    }
}

fn run(device: &mut Device, add: &Kernel<(ReadWrite<f32>,)>, flags: Flags) {
    let dir = tempfile::tempdir().unwrap();
    let record = (!flags.is_empty()).then(|| {
        let mut record = RecordOptions::new(dir.path().join("run"), flags);
        record.region_dir = Some(dir.path().to_path_buf());
        record.sizes = BufferSizes { buffers: Some(1), records: Some(3) };
        record
    });
    let options = RunOptions { record, ..RunOptions::default() };
    let sum = device.run_with(&options, |o| {
        let x = o.own(vec![0.0f32; 4], [4])?;
        for _ in 0..SCOPES {
            o.scope(|o| (0..3).try_for_each(|_| o.submit(add, (inout(&x),)).map(|_| ())))?;
        }
        o.read(&x)
    });
    assert_eq!(sum.unwrap(), vec![TASKS as f32; 4]);
    let Some(ledger) = &device.report().ledger else {
        assert!(flags.is_empty(), "{flags:?} was not recorded");
        return;
    };
    assert!(ledger.balanced && ledger.lossless, "{flags:?}: {ledger:?}");
    for kind in Kind::ALL {
        let (flag, count) = expected(kind);
        let pools: Vec<_> = ledger.pools.iter().filter(|pool| pool.record_kind() == Some(kind)).collect();
        assert_eq!(!pools.is_empty(), flags.has(flag), "{flags:?}: {}", kind.name());
        let total: u64 = pools.iter().map(|pool| pool.total).sum();
        let right = count.map_or(total > 0, |count| total == count);
        assert!(right || !flags.has(flag), "{flags:?}: {total} of {}", kind.name());
    }
}

fn in_every_order(mut device: Device) {
    let add = device.kernel("add", |mut x: InOut<f32>| x.row_mut(0).iter_mut().for_each(|x| *x += 1.0));
    for &first in &ways() {
        for &second in &ways() {
            run(&mut device, &add, first);
            run(&mut device, &add, second);
        }
    }
}

#[test]
fn flags_in_every_order_on_this_machines_cpus() {
    in_every_order(Device::builder().workers(3).open().unwrap());
}

#[test]
fn flags_in_every_order_in_virtual_time() {
    in_every_order(Device::builder().engine(VirtualOptions::new(&ArchSpec::HOST, 5)).workers(3).open().unwrap());
    in_every_order(Device::builder().engine(VirtualOptions::new(&ArchSpec::A2A3, 5)).open().unwrap());
}
