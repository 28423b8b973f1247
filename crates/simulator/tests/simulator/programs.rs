//! Built-in programs on full-size chips in virtual time, recorded in full: right, lossless, and the same bytes twice.
#![allow(clippy::unwrap_used)]

use plimsoll_abi::Flags;
use plimsoll_programs::{Settings, find};
use plimsoll_runtime::{ArchSpec, Device, RecordOptions, RunOptions, VirtualOptions};

/// Runs a program and returns its segment file and its elapsed.
fn run(name: &str, arch: &ArchSpec, seed: u64) -> (Vec<u8>, u64) {
    let program = find(name).unwrap();
    let mut device = Device::builder().engine(VirtualOptions::new(arch, seed)).open().unwrap();
    let instance = (program.build)(&mut device, &Settings::new(program.params, []).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let flags = Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN);
    let options = RunOptions { record: Some(RecordOptions::new(dir.path(), flags)), ..instance.options() };
    device.run_with(&options, |o| instance.orchestrate(o)).unwrap();
    let verdict = instance.verify().unwrap();
    assert!(verdict.verified, "{name} on {}: {}", arch.name, verdict.detail);
    let report = device.report();
    let ledger = report.ledger.as_ref().unwrap();
    assert!(ledger.lossless, "{name} on {}: {ledger:?}", arch.name);
    if !["spmd", "mixed"].contains(&name) {
        assert_eq!(report.tasks, report.dispatches);
    }
    (std::fs::read(dir.path().join("records/records.seg")).unwrap(), report.elapsed_ns)
}

#[test]
fn programs_are_right_on_every_arch_and_repeat_byte_by_byte() {
    for name in ["vector", "paged-attention", "decode-layer", "spmd", "mixed"] {
        for arch in ArchSpec::ALL {
            let (first, elapsed) = run(name, arch, 11);
            assert!(elapsed > 0);
            assert_eq!(run(name, arch, 11), (first, elapsed), "{name} on {}", arch.name);
        }
    }
}
