//! Kernels with many or long names can be recorded.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::Flags;
use plimsoll_runtime::*;

fn record(kernels: usize, len: usize) {
    let mut device = Device::builder().workers(1).open().unwrap();
    let names = (0..kernels).map(|id| format!("{id:0len$}"));
    let kernels: Vec<_> = names.map(|name| device.kernel(&name, |mut x: InOut<f32>| x.row_mut(0)[0] += 1.0)).collect();
    let dir = tempfile::tempdir().unwrap();
    let record = Some(RecordOptions::new(dir.path().join("run"), Flags::CORE_TIMING));
    let options = RunOptions { record, ..RunOptions::default() };
    let ran = device.run_with(&options, |o| {
        let x = o.own(vec![0.0f32], [1])?;
        o.submit(&kernels[kernels.len() - 1], (inout(&x),))?;
        o.read(&x)
    });
    assert_eq!(ran.unwrap(), [1.0]);
    let ledger = device.report().ledger.clone().unwrap();
    assert!(ledger.lossless && ledger.pools.iter().map(|pool| pool.total).sum::<u64>() == 1, "{ledger:?}");
}

#[test]
fn long_names_can_be_recorded() {
    record(300, 5000);
}

#[test]
fn as_many_kernels_as_a_device_can_have_can_be_recorded() {
    record(4096, 105);
}
