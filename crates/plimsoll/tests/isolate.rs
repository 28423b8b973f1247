//! A device in a process of its own, as a program that uses the library has it. No test harness: the device's process is this
//! executable once more, and `main` must hand it over first.

use plimsoll::isolate::{DeviceBuffer, DeviceProgram, ProgramCall, Registered};
use plimsoll::kernel::ReadWrite;
use plimsoll::run::ErrorCode;
use plimsoll::trace::manifest::Manifest;
use plimsoll::{
    ArchSpec, Device, EmulatedOptions, InOut, Kernel, Orchestrator, RecordOptions, Result, RunOptions, SharedBuffer,
    inout,
};

struct Doubling {
    double: Kernel<(ReadWrite<f32>,)>,
    x: SharedBuffer<f32>,
    tiles: usize,
}

impl Doubling {
    fn build(device: &mut Device, settings: &[String]) -> Self {
        let tiles = settings.first().and_then(|tiles| tiles.parse().ok()).unwrap_or(4);
        let double = device.kernel("double", |mut x: InOut<f32>| {
            assert!(x[[0]] >= 0.0, "a negative number");
            if x[[0]] == 666.0 {
                std::process::abort();
            }
            x[[0]] *= 2.0;
        });
        Self { double, x: SharedBuffer::new(vec![1.0; tiles]), tiles }
    }
}

impl DeviceProgram for Doubling {
    fn buffers(&self) -> Vec<&dyn DeviceBuffer> {
        vec![&self.x]
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let x = o.share(&self.x, [self.tiles])?;
        (0..self.tiles).try_for_each(|tile| o.submit(&self.double, (inout(&x.tile([tile], [1])?),)).map(drop))
    }
}

fn open() -> Device {
    let engine = EmulatedOptions::new(&ArchSpec::HOST).isolated();
    Device::builder().engine(engine).workers(2).open().expect("a device in a process of its own")
}

fn main() {
    // Before anything else, it would be this executable's main that runs in the device's process.
    let early = Device::builder().engine(EmulatedOptions::new(&ArchSpec::A5).isolated()).open();
    if std::env::var_os("PLIMSOLL_DEVICE_OF").is_none() {
        let error = early.expect_err("main was not prepared");
        assert!(error.code() == ErrorCode::InvalidArgs && error.explanation().contains("device_main"), "{error}");
    }
    let doubling = Registered::new("doubling", |device, settings| Ok(Box::new(Doubling::build(device, settings))));
    plimsoll::device_main([doubling]);
    buffers_go_there_and_come_back();
    what_cannot_cross_is_refused();
    a_device_that_crashes_is_lost_and_another_works();
    println!("isolate: 3 tests passed");
}

/// Several runs of one device, and several devices in one process, each run recorded in a directory of its own.
fn buffers_go_there_and_come_back() {
    let outputs = tempfile::tempdir().expect("a temporary directory");
    let options = RunOptions { record: Some(RecordOptions::under(outputs.path())), ..RunOptions::default() };
    let mut devices = [open(), open()];
    assert_ne!(devices[0].device_pid(), devices[1].device_pid());
    for run in 1..=2 {
        for device in &mut devices {
            let here = Doubling::build(device, &[]);
            here.x.with(|x| x.fill(21.0)).expect("free");
            device.run_program(&ProgramCall::new("doubling", &[]), &here, &options).expect("it runs");
            assert_eq!(here.x.to_vec().expect("free"), vec![42.0; 4]);
            let report = device.report();
            assert!((report.tasks, report.dispatches) == (4, 4) && report.ledger.as_ref().is_some_and(|l| l.lossless));
            let manifest = Manifest::read(report.dir.as_deref().expect("recorded")).expect("a manifest");
            assert_eq!((manifest.device_run, manifest.device_pid), (run, device.device_pid()));
            assert_eq!(manifest.kernels.len(), 1, "those of the program, however often it is built here");
        }
    }
}

fn what_cannot_cross_is_refused() {
    let mut device = open();
    let refused = |error: plimsoll::Error, part: &str| {
        assert!(error.code() == ErrorCode::InvalidArgs && error.explanation().contains(part), "{error}");
    };
    refused(device.run(|_| Ok(())).expect_err("a closure"), "closure");
    refused(device.prebuild(|_| Ok(())).expect_err("a closure"), "closure");
    let here = Doubling::build(&mut device, &[]);
    let run = |device: &mut Device, call: &ProgramCall<'_>| device.run_program(call, &here, &RunOptions::default());
    refused(run(&mut device, &ProgramCall::new("tripling", &[])).expect_err("unknown"), "doubling");
    let other = ["5".to_owned()];
    refused(run(&mut device, &ProgramCall::new("doubling", &other)).expect_err("other buffers"), "[20]");
    // None of that did any harm; and errors of tasks come back whole.
    run(&mut device, &ProgramCall::new("doubling", &[])).expect("it runs");
    here.x.with(|x| x[1] = -1.0).expect("free");
    let error = run(&mut device, &ProgramCall::new("doubling", &[])).expect_err("the kernel panics");
    assert_eq!((error.code(), error.kernel()), (ErrorCode::KernelPanicked, Some("double")), "{error}");
    assert!(error.task().is_some() && error.site().is_some() && error.worker().is_some(), "{error}");
}

fn a_device_that_crashes_is_lost_and_another_works() {
    let outputs = tempfile::tempdir().expect("a temporary directory");
    let options = RunOptions { record: Some(RecordOptions::under(outputs.path()).profile()), ..RunOptions::default() };
    let mut device = open();
    let here = Doubling::build(&mut device, &[]);
    here.x.with(|x| x[3] = 666.0).expect("free");
    let error = device.run_program(&ProgramCall::new("doubling", &[]), &here, &options).expect_err("it aborts");
    assert!(error.code() == ErrorCode::DeviceLost && error.explanation().contains("SIGABRT"), "{error}");
    let ledger = device.report().ledger.clone().expect("an account");
    assert!(ledger.balanced && ledger.lossless, "{ledger:?}");
    let recovered: u64 = ledger.pools.iter().map(|pool| pool.recovered).sum();
    assert!(recovered > 0, "what was published came out: {ledger:?}");
    assert_eq!(here.x.to_vec().expect("free")[0], 1.0, "nothing was copied back");
    let error = device.run_program(&ProgramCall::new("doubling", &[]), &here, &options).expect_err("it is lost");
    assert_eq!(error.code(), ErrorCode::DeviceLost, "{error}");
    here.x.with(|x| x.fill(2.0)).expect("free");
    open().run_program(&ProgramCall::new("doubling", &[]), &here, &options).expect("another works");
    assert_eq!(here.x.to_vec().expect("free"), vec![4.0; 4]);
}
