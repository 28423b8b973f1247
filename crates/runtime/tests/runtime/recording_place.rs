//! Where runs are recorded, and what the report says of it.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{ErrorCode, Flags};
use plimsoll_runtime::*;
use plimsoll_trace::Manifest;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn run(device: &mut Device, add: &Kernel<(ReadWrite<f32>,)>, record: RecordOptions) -> Result<()> {
    let options = RunOptions { record: Some(record), ..RunOptions::default() };
    device.run_with(&options, |o| {
        let x = o.own(vec![0.0f32; 4], [4])?;
        o.submit(add, (inout(&x),)).map(|_| ())
    })
}

fn device(engine: impl Into<EngineKind>) -> (Device, Kernel<(ReadWrite<f32>,)>) {
    let mut device = Device::builder().engine(engine).workers(2).open().unwrap();
    let add = device.kernel("add", |mut x: InOut<f32>| x.row_mut(0).iter_mut().for_each(|x| *x += 1.0));
    (device, add)
}

#[test]
fn every_run_under_a_directory_has_its_own_and_latest_is_the_newest() {
    let outputs = tempfile::tempdir().unwrap();
    let (mut device, add) = device(EngineKind::Host);
    let mut record = RecordOptions::under(outputs.path());
    record.region_dir = Some(outputs.path().to_path_buf());
    let mut dirs = Vec::new();
    for _ in 0..3 {
        run(&mut device, &add, record.clone()).unwrap();
        dirs.push(device.report().dir.clone().unwrap());
    }
    dirs.dedup();
    assert_eq!(dirs.len(), 3);
    let binary = std::env::args_os().next().unwrap();
    let binary = Path::new(&binary).file_stem().unwrap().to_string_lossy().into_owned();
    for dir in &dirs {
        let manifest = Manifest::read(dir).unwrap();
        assert_eq!((&manifest.program, manifest.tasks), (&binary, 1));
        assert!(manifest.command.is_empty(), "it is no run of the command");
        assert!(dir.file_name().unwrap().to_string_lossy().starts_with(&binary));
    }
    let latest = std::fs::canonicalize(outputs.path().join("latest")).unwrap();
    assert_eq!(latest, std::fs::canonicalize(&dirs[2]).unwrap());
}

#[test]
fn a_recording_that_cannot_start_leaves_no_report_of_the_run_before() {
    for engine in [EngineKind::Host, VirtualOptions::new(&ArchSpec::HOST, 5).into()] {
        let place = tempfile::tempdir().unwrap();
        let (mut device, add) = device(engine);
        let mut record = RecordOptions::new(place.path().join("run"), Flags::CORE_TIMING);
        record.region_dir = Some(place.path().to_path_buf());
        run(&mut device, &add, record.clone()).unwrap();
        assert_eq!((device.report().tasks, device.report().dir.is_some()), (1, true));
        let error = run(&mut device, &add, record).expect_err("the directory holds a run");
        assert_eq!(error.code(), ErrorCode::RecordingFailed);
        assert_eq!((device.report().tasks, device.report().dir.as_deref()), (0, None));
        assert!(device.report().ledger.is_none());
    }
}

#[test]
fn whoever_waits_for_a_run_is_told_when_its_records_are_out() {
    let outputs = tempfile::tempdir().unwrap();
    for engine in
        [EngineKind::Host, EmulatedOptions::new(&ArchSpec::HOST).into(), VirtualOptions::new(&ArchSpec::HOST, 1).into()]
    {
        let (mut device, add) = device(engine);
        for fails in [false, true] {
            let mut record = RecordOptions::under(outputs.path());
            let out = Arc::new(AtomicBool::new(false));
            record.records_out = Some(Arc::clone(&out));
            let options = RunOptions { record: Some(record), ..RunOptions::default() };
            let ran = device.run_with(&options, |o| {
                let x = o.own(vec![0.0f32; 4], [4])?;
                o.submit(&add, (inout(&x),))?;
                assert!(!out.load(Ordering::Relaxed), "the run goes on");
                if fails { Err(o.fatal("enough")) } else { Ok(()) }
            });
            assert!(ran.is_err() == fails && out.load(Ordering::Relaxed), "{ran:?}");
        }
    }
}
