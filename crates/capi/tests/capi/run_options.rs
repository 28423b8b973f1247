//! What the options of a run do, as C gives them: captured arguments, transports, and whom a hang is told.
#![allow(clippy::unwrap_used)]

use plimsoll::abi::{Dtype, ErrorCode};
use plimsoll::trace::{ArgsDump, Manifest};
use plimsoll_capi::entries::*;
use plimsoll_capi::types::*;
use plimsoll_capi::{CDevice, CError, COrchestrator};
use std::ffi::{CStr, CString, c_void};
use std::io::{BufRead, BufReader};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A structure of zeros, which all that cross the border may be.
fn zeros<T>() -> T {
    // SAFETY: all that are used here are numbers and pointers.
    unsafe { zeroed() }
}

#[track_caller]
fn fine(error: *mut CError) {
    if !error.is_null() {
        // SAFETY: a call gave it.
        panic!("{:?}", unsafe { CStr::from_ptr(plimsoll_error_text(error)) });
    }
}

const F32: CElement = CElement { dtype: Dtype::F32 as u32, bytes: 0, align: 0 };

/// A device with one kernel.
fn open(body: KernelFn) -> (*mut CDevice, CKernel) {
    let (mut device, mut kernel) = (null_mut(), zeros());
    let size = size_of::<CDeviceOptions>() as u32;
    let how = CDeviceOptions { abi_version: ABI_VERSION, size, workers: 2, no_lend: 1, ..zeros() };
    let size = size_of::<CKernelOptions>() as u32;
    let options =
        CKernelOptions { abi_version: ABI_VERSION, size, name: c"body".as_ptr(), body: Some(body), ..zeros() };
    // SAFETY: valid for the calls.
    unsafe {
        fine(plimsoll_device_open(&raw const how, &raw mut device));
        fine(plimsoll_kernel_register(device, &raw const options, &raw mut kernel));
    }
    (device, kernel)
}

fn run_options() -> CRunOptions {
    CRunOptions { abi_version: ABI_VERSION, size: size_of::<CRunOptions>() as u32, ..zeros() }
}

unsafe extern "C" fn fill(call: *const CCall) -> i32 {
    // SAFETY: a kernel is called with as many views as its task has arguments.
    let views = unsafe { std::slice::from_raw_parts((*call).args, (*call).count as usize) };
    for view in views {
        // SAFETY: each is one element of f32, which the task writes.
        unsafe { *view.data.cast::<f32>() = 2.5 };
    }
    0
}

/// Two tasks: one with a marked output beside one that is not, one with a marked inout.
unsafe extern "C" fn marks(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
    // SAFETY: the test's own kernel; the rest is valid for the calls.
    unsafe {
        let kernel = *context.cast::<CKernel>();
        let output = CArg { use_: uses::OUTPUT, ndim: 1, element: F32, shape: [1; MAX_DIMS], ..zeros() };
        let outputs = [output, CArg { marked: 1, ..output }];
        let mut made: [CTensor; 2] = zeros();
        fine(plimsoll_submit(o, kernel, outputs.as_ptr(), 2, made.as_mut_ptr(), 2));
        let inout = CArg { use_: uses::INOUT, tensor: &raw const made[0], marked: 1, ..zeros() };
        fine(plimsoll_submit(o, kernel, &raw const inout, 1, null_mut(), 0));
    }
    null_mut()
}

#[test]
fn marked_arguments_are_captured_and_a_shadow_moves_the_records() {
    let place = tempfile::tempdir().unwrap();
    let (device, mut kernel) = open(fill);
    for (level, captured) in [(1, 3), (2, 4)] {
        let dir = place.path().join(format!("run-{level}"));
        let out = CString::new(dir.to_str().unwrap()).unwrap();
        let options = CRunOptions {
            out: out.as_ptr(),
            program: c"marks".as_ptr(),
            dump_args: level,
            transport: c"shadow".as_ptr(),
            on_full: c"block".as_ptr(),
            ..run_options()
        };
        // SAFETY: valid for the call.
        fine(unsafe { plimsoll_run(device, &raw const options, Some(marks), (&raw mut kernel).cast()) });
        let manifest = Manifest::read(&dir).unwrap();
        assert_eq!(manifest.transport.unwrap().kind, "shadow");
        assert!(manifest.reconcile.unwrap().lossless);
        // An inout is captured before and after its task.
        assert_eq!(ArgsDump::open(&dir).unwrap().args.len(), captured, "level {level}");
    }
    // SAFETY: it is not used again.
    unsafe { plimsoll_device_close(device) };
}

#[test]
fn counters_are_counted_by_group_and_numbers_of_an_arch_change() {
    let place = tempfile::tempdir().unwrap();
    let mut kernel = zeros();
    let mut device = null_mut();
    let size = size_of::<CDeviceOptions>() as u32;
    let how = CDeviceOptions { abi_version: ABI_VERSION, size, engine: c"virtual".as_ptr(), ..zeros() };
    let changed = |changes: &'static CStr| CDeviceOptions { arch_set: changes.as_ptr(), ..how };
    // SAFETY: valid for the calls; an error is freed once.
    unsafe {
        for (changes, part) in [(c"cores=3", "no number"), (c"clusters", "key=value"), (c"clusters=x", "whole number")]
        {
            let options = changed(changes);
            let error = plimsoll_device_open(&raw const options, &raw mut device);
            assert!(CStr::from_ptr(plimsoll_error_text(error)).to_str().unwrap().contains(part));
            plimsoll_error_free(error);
        }
        let chip = CDeviceOptions { arch: c"a2a3".as_ptr(), ..changed(c"clusters=2, sched_threads=1") };
        fine(plimsoll_device_open(&raw const chip, &raw mut device));
        assert_eq!(plimsoll_device_workers(device), 6);
        let size = size_of::<CKernelOptions>() as u32;
        let options =
            CKernelOptions { abi_version: ABI_VERSION, size, name: c"body".as_ptr(), body: Some(fill), ..zeros() };
        fine(plimsoll_kernel_register(device, &raw const options, &raw mut kernel));
        let dir = place.path().join("run");
        let out = CString::new(dir.to_str().unwrap()).unwrap();
        let mut options = CRunOptions { out: out.as_ptr(), pmu: c"none".as_ptr(), ..run_options() };
        let error = plimsoll_run(device, &raw const options, Some(marks), (&raw mut kernel).cast());
        assert_eq!(plimsoll_error_code(error), ErrorCode::InvalidArgs.number());
        plimsoll_error_free(error);
        options.pmu = c"virtual".as_ptr();
        fine(plimsoll_run(device, &raw const options, Some(marks), (&raw mut kernel).cast()));
        assert_eq!(Manifest::read(&dir).unwrap().counters.unwrap().group, "virtual");
        plimsoll_device_close(device);
    }
}

static MAY_RETURN: AtomicBool = AtomicBool::new(false);
static TOLD: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn stuck(_: *const CCall) -> i32 {
    while !MAY_RETURN.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    0
}

unsafe extern "C" fn hung(error: *const CError, context: *mut c_void) {
    // SAFETY: the error is valid for the call, and the context is the test's own.
    unsafe {
        assert_eq!(*context.cast::<u32>(), 7);
        TOLD.store(plimsoll_error_code(error), Ordering::Relaxed);
    }
    MAY_RETURN.store(true, Ordering::Relaxed);
}

/// A task that may use what the program lent, so that the run cannot return before it has.
unsafe extern "C" fn lends(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
    // SAFETY: the memory outlives the run, and the rest is valid for the calls.
    unsafe {
        let (kernel, lent) = &mut *context.cast::<(CKernel, [f32; 1])>();
        let mut tensor: CTensor = zeros();
        fine(plimsoll_borrow(o, lent.as_mut_ptr().cast(), 4, F32, [1usize].as_ptr(), 1, 1, &raw mut tensor));
        let inout = CArg { use_: uses::INOUT, tensor: &raw const tensor, ..zeros() };
        fine(plimsoll_submit(o, *kernel, &raw const inout, 1, null_mut(), 0));
    }
    null_mut()
}

#[test]
fn a_run_that_cannot_return_tells_its_hook() {
    let (device, kernel) = open(stuck);
    let (mut lent, mut number) = ((kernel, [0f32]), 7u32);
    let options = CRunOptions {
        op_timeout_ns: 50_000_000,
        on_hung: Some(hung),
        on_hung_context: (&raw mut number).cast(),
        ..run_options()
    };
    // SAFETY: valid for the calls; nothing is used after it was freed.
    unsafe {
        let error = plimsoll_run(device, &raw const options, Some(lends), (&raw mut lent).cast());
        assert_eq!(plimsoll_error_code(error), ErrorCode::OpTimeout.number());
        plimsoll_error_free(error);
        plimsoll_device_close(device);
    }
    assert_eq!(TOLD.load(Ordering::Relaxed), ErrorCode::OpTimeout.number());
}

/// A program that goes on until one of its calls fails.
unsafe extern "C" fn never_ends(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
    loop {
        // SAFETY: the context is a kernel, and the rest is valid for the call.
        let error = unsafe { plimsoll_submit(o, *context.cast::<CKernel>(), null(), 0, null_mut(), 0) };
        if !error.is_null() {
            return error;
        }
    }
}

#[test]
fn a_graph_is_built_within_its_deadline() {
    let (device, mut kernel) = open(stuck);
    let options = CRunOptions { deadline_ns: 50_000_000, ..run_options() };
    let mut graph = null_mut();
    // SAFETY: valid for the calls; nothing is used after it was freed.
    unsafe {
        let context = (&raw mut kernel).cast();
        let error = plimsoll_graph_build(device, &raw const options, Some(never_ends), context, &raw mut graph);
        assert_eq!(plimsoll_error_code(error), ErrorCode::DeadlineExceeded.number());
        plimsoll_error_free(error);
        plimsoll_device_close(device);
    }
}

/// A run that cannot return before a while, in a process of its own, whose standard error is looked at.
#[test]
fn a_run_that_cannot_return_and_has_no_hook_tells_standard_error() {
    const CHILD: &str = "PLIMSOLL_TEST_HANGS_WITHOUT_HOOK";
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("run");
    let Some(place) = std::env::var_os(CHILD) else {
        let name = "run_options::a_run_that_cannot_return_and_has_no_hook_tells_standard_error";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name, "--nocapture"]).env(CHILD, &place);
        let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            said += &line.unwrap();
            if said.contains("the run cannot return") {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for words in ["OpTimeout", "the records are in", place.to_str().unwrap(), "the run cannot return"] {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
        return;
    };
    let (device, kernel) = open(stuck);
    let mut lent = (kernel, [0f32]);
    let out = CString::new(place.to_str().unwrap()).unwrap();
    let options = CRunOptions { op_timeout_ns: 50_000_000, record: c"1".as_ptr(), out: out.as_ptr(), ..run_options() };
    // Ends the process if nothing is said, for which the test waits.
    let later = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(60));
        MAY_RETURN.store(true, Ordering::Relaxed);
    });
    // SAFETY: valid for the calls; nothing is used after it was freed.
    unsafe {
        let error = plimsoll_run(device, &raw const options, Some(lends), (&raw mut lent).cast());
        assert_eq!(plimsoll_error_code(error), ErrorCode::OpTimeout.number());
        plimsoll_error_free(error);
        plimsoll_device_close(device);
    }
    later.join().unwrap();
}
