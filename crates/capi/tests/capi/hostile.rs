//! Whatever C passes that can be told to be wrong is refused in words: null pointers, options of other sizes, numbers without
//! meaning, handles that are used where they are not valid.
#![allow(clippy::unwrap_used)]

use plimsoll::abi::{Dtype, ErrorCode};
use plimsoll_capi::entries::*;
use plimsoll_capi::types::*;
use plimsoll_capi::{CDevice, CError, COrchestrator};
use std::ffi::{CStr, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Code and text of an error, which is freed.
#[track_caller]
fn told(error: *mut CError) -> (u32, String) {
    assert!(!error.is_null(), "it was not refused");
    // SAFETY: it was given by a call, and is freed once.
    unsafe {
        let text = CStr::from_ptr(plimsoll_error_text(error)).to_str().unwrap().to_owned();
        let code = plimsoll_error_code(error);
        plimsoll_error_free(error);
        (code, text)
    }
}

#[track_caller]
fn refused(error: *mut CError, words: &str) {
    let (code, text) = told(error);
    assert_eq!(code, ErrorCode::InvalidArgs.number(), "{text}");
    assert!(text.contains(words), "{words:?} is not in {text}");
}

#[track_caller]
fn fine(error: *mut CError) {
    if !error.is_null() {
        panic!("{}", told(error).1);
    }
}

/// A structure of zeros, which all that cross the border may be.
fn zeros<T>() -> T {
    // SAFETY: all that are used here are numbers and pointers.
    unsafe { zeroed() }
}

const F32: CElement = CElement { dtype: Dtype::F32 as u32, bytes: 0, align: 0 };

fn open() -> *mut CDevice {
    let mut device = null_mut();
    let options =
        CDeviceOptions { abi_version: ABI_VERSION, size: size_of::<CDeviceOptions>() as u32, workers: 1, ..zeros() };
    // SAFETY: valid for the call.
    fine(unsafe { plimsoll_device_open(&raw const options, &raw mut device) });
    device
}

unsafe extern "C" fn nothing(_: *const CCall) -> i32 {
    0
}

fn kernel_options() -> CKernelOptions {
    let size = size_of::<CKernelOptions>() as u32;
    CKernelOptions { abi_version: ABI_VERSION, size, name: c"nothing".as_ptr(), body: Some(nothing), ..zeros() }
}

#[test]
fn null_pointers_are_refused_or_mean_nothing() {
    // SAFETY: null is what is tried; every function says that it takes it, or refuses it.
    unsafe {
        plimsoll_error_free(null_mut());
        plimsoll_device_close(null_mut());
        plimsoll_graph_free(null_mut());
        plimsoll_cancel_free(null_mut());
        plimsoll_cancel_use(null());
        plimsoll_cancel_interrupt(null());
        assert_eq!(plimsoll_error_code(null()), 0);
        assert_eq!(plimsoll_error_needed(null()), 0);
        assert!(plimsoll_error_text(null()).is_null() && plimsoll_error_name(null()).is_null());
        assert!(plimsoll_error_explanation(null()).is_null() && plimsoll_error_site(null()).is_null());
        assert!(plimsoll_error_kernel(null()).is_null() && plimsoll_device_run_dir(null_mut()).is_null());
        assert_eq!(plimsoll_device_workers(null()), 0);
        assert_eq!(plimsoll_tensor_shape(null(), null_mut()), 0);
        assert_eq!(told(plimsoll_error_new(0, null())).0, ErrorCode::ExplicitFatal.number());
        refused(plimsoll_device_open(null(), null_mut()), "null pointer");
        refused(plimsoll_kernel_register(null_mut(), null(), null_mut()), "null pointer");
        refused(plimsoll_kernel_named(null(), null(), null_mut()), "null pointer");
        refused(plimsoll_run(null_mut(), null(), None, null_mut()), "null pointer");
        refused(plimsoll_graph_build(null_mut(), null(), None, null_mut(), null_mut()), "null pointer");
        refused(plimsoll_graph_launch(null_mut(), null_mut(), null()), "null pointer");
        refused(plimsoll_device_report(null(), null_mut()), "null pointer");
        refused(plimsoll_scope_open(null_mut(), null(), 0), "null pointer");
        refused(plimsoll_manual_scope_open(null_mut(), null(), 0), "null pointer");
        refused(plimsoll_scope_close(null_mut()), "null pointer");
        refused(plimsoll_own(null_mut(), null(), 0, F32, null(), 0, null_mut()), "null pointer");
        refused(plimsoll_borrow(null_mut(), null_mut(), 0, F32, null(), 0, 0, null_mut()), "null pointer");
        refused(plimsoll_submit(null_mut(), zeros(), null(), 0, null_mut(), 0), "null pointer");
        refused(
            plimsoll_submit_with(null_mut(), null(), zeros(), null(), 0, null_mut(), 0, null_mut()),
            "null pointer",
        );
        refused(plimsoll_read(null_mut(), null(), null_mut(), 0), "null pointer");
        refused(plimsoll_write(null_mut(), null(), null(), 0), "null pointer");
        refused(plimsoll_fatal(null_mut(), null()), "null pointer");
        refused(plimsoll_slice(null(), 0, 0, 0, null_mut()), "null pointer");
        refused(plimsoll_tile(null(), null(), null(), 1, null_mut()), "null pointer");
        refused(plimsoll_reshape(null(), null(), 1, null_mut()), "null pointer");
        refused(plimsoll_permute(null(), null(), 1, null_mut()), "null pointer");
        refused(plimsoll_transpose(null(), null_mut()), "null pointer");
    }
}

#[test]
fn options_of_other_versions_and_sizes_are_refused() {
    let device = open();
    let mut kernel: CKernel = zeros();
    // SAFETY: everything is valid for its call, or null.
    unsafe {
        for (version, size) in [(ABI_VERSION + 1, 80), (ABI_VERSION, 0), (ABI_VERSION, 7), (ABI_VERSION, 4096)] {
            let options = CDeviceOptions { abi_version: version, size, ..zeros() };
            refused(plimsoll_device_open(&raw const options, &mut null_mut()), "another version of the library");
            let options = CRunOptions { abi_version: version, size, ..zeros() };
            refused(
                plimsoll_run(device, &raw const options, Some(empty), null_mut()),
                "another version of the library",
            );
            let options = CKernelOptions { abi_version: version, size, ..kernel_options() };
            refused(plimsoll_kernel_register(device, &raw const options, &raw mut kernel), "another version");
        }
        // What an older header does not have is as if it were zero.
        let older = std::mem::offset_of!(CRunOptions, op_timeout_ns) as u32;
        let strange = 0xffff_ffffu32;
        let options = CRunOptions { abi_version: ABI_VERSION, size: older, dump_args: strange, ..zeros() };
        fine(plimsoll_run(device, &raw const options, Some(empty), null_mut()));
        let current = size_of::<CRunOptions>() as u32;
        let run = |options: CRunOptions| {
            let options = CRunOptions { abi_version: ABI_VERSION, size: current, ..options };
            plimsoll_run(device, &raw const options, Some(empty), null_mut())
        };
        refused(run(CRunOptions { dump_args: strange, ..zeros() }), "level");
        refused(run(CRunOptions { record: c"5".as_ptr(), ..zeros() }), "level from 0 to 4");
        refused(run(CRunOptions { record: c"\xff".as_ptr(), ..zeros() }), "UTF-8");
        refused(run(CRunOptions { record: c"1".as_ptr(), transport: c"air".as_ptr(), ..zeros() }), "no transport");
        refused(run(CRunOptions { record: c"1".as_ptr(), on_full: c"cry".as_ptr(), ..zeros() }), "block or drop");
        refused(plimsoll_run(device, null(), None, null_mut()), "no program");

        let register = |options: CKernelOptions| plimsoll_kernel_register(device, &raw const options, &mut zeros());
        refused(register(CKernelOptions { name: null(), ..kernel_options() }), "no name");
        refused(register(CKernelOptions { body: None, ..kernel_options() }), "no body");
        refused(register(CKernelOptions { core_class: c"gpu".as_ptr(), ..kernel_options() }), "any, aic and aiv");
        refused(register(CKernelOptions { param_count: 1, ..kernel_options() }), "null pointer");
        for (access, share, dtype, words) in
            [(9, 0, 2, "no access 9"), (0, 9, 2, "no share 9"), (0, 0, 99, "no dtype 99")]
        {
            let param = CParam { access, element: CElement { dtype, bytes: 0, align: 0 }, share };
            let options = CKernelOptions { params: &raw const param, param_count: 1, ..kernel_options() };
            refused(register(options), words);
        }
        refused(plimsoll_kernel_named(device, c"none".as_ptr(), &raw mut kernel), "no kernel");
        plimsoll_device_close(device);
    }
}

unsafe extern "C" fn empty(_: *mut COrchestrator, _: *mut c_void) -> *mut CError {
    null_mut()
}

/// What a program does, with the kernel `nothing`; the run's outcome.
fn run(program: fn(*mut COrchestrator, CKernel) -> *mut CError) -> *mut CError {
    struct Called(fn(*mut COrchestrator, CKernel) -> *mut CError, CKernel);
    unsafe extern "C" fn call(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
        // SAFETY: the context below.
        let Called(program, kernel) = unsafe { &*context.cast::<Called>() };
        program(o, *kernel)
    }
    let device = open();
    // SAFETY: everything is valid for its call.
    unsafe {
        let mut kernel = zeros();
        let options = kernel_options();
        fine(plimsoll_kernel_register(device, &raw const options, &raw mut kernel));
        let mut called = Called(program, kernel);
        let error = plimsoll_run(device, null(), Some(call), (&raw mut called).cast());
        plimsoll_device_close(device);
        error
    }
}

/// Submits a task with this argument.
fn with_arg(o: *mut COrchestrator, kernel: CKernel, arg: CArg) -> *mut CError {
    // SAFETY: what is wrong with the argument is what is tried; the rest is valid for the call.
    unsafe { plimsoll_submit(o, kernel, &raw const arg, 1, null_mut(), 0) }
}

/// Submits a task of this shape.
fn with_shape(o: *mut COrchestrator, kernel: CKernel, options: CSubmitOptions) -> *mut CError {
    // SAFETY: as above.
    unsafe { plimsoll_submit_with(o, &raw const options, kernel, null(), 0, null_mut(), 0, null_mut()) }
}

fn options() -> CSubmitOptions {
    CSubmitOptions { abi_version: ABI_VERSION, size: size_of::<CSubmitOptions>() as u32, ..zeros() }
}

/// A refused call fails the run with its words, also if the program looks away.
macro_rules! refuses {
    ($words:expr, |$o:ident, $kernel:ident| $call:expr) => {
        refused(
            run(|$o, $kernel| {
                // SAFETY: what is wrong with the arguments is what is tried; the rest is valid for the call.
                #[allow(unused_unsafe)]
                refused(unsafe { $call }, $words);
                null_mut()
            }),
            $words,
        )
    };
}

#[test]
fn refused_calls_of_a_program_fail_its_run() {
    const ONE: [usize; 1] = [1];
    fn own(o: *mut COrchestrator, data: *const usize, bytes: usize, dtype: u32) -> *mut CError {
        let (element, mut out) = (CElement { dtype, bytes: 0, align: 0 }, zeros());
        // SAFETY: as above.
        unsafe { plimsoll_own(o, data.cast(), bytes, element, ONE.as_ptr(), 1, &raw mut out) }
    }
    fine(run(|_, _| null_mut()));
    refuses!("null pointer", |o, k| plimsoll_submit(o, k, null(), 1, null_mut(), 0));
    refuses!("null pointer", |o, k| with_arg(o, k, CArg { use_: uses::INPUT, ..zeros() }));
    refuses!("null pointer", |o, k| with_arg(o, k, CArg { use_: uses::INPUT, marked: 1, ..zeros() }));
    refuses!("cannot be of a type", |o, k| {
        let element = CElement { dtype: 0, bytes: 8, align: 8 };
        with_arg(o, k, CArg { use_: uses::SCALAR, element, ..zeros() })
    });
    refuses!("no use 99", |o, k| with_arg(o, k, CArg { use_: 99, ..zeros() }));
    refuses!("no call has filled in", |o, k| {
        let tensor: CTensor = zeros();
        with_arg(o, k, CArg { use_: uses::INOUT, tensor: &raw const tensor, ..zeros() })
    });
    refuses!("cannot have 6 dimensions", |o, k| {
        with_arg(o, k, CArg { use_: uses::OUTPUT, ndim: 6, element: F32, ..zeros() })
    });
    refuses!("there is room for 0", |o, k| {
        with_arg(o, k, CArg { use_: uses::OUTPUT, ndim: 1, element: F32, shape: [1; MAX_DIMS], ..zeros() })
    });
    refuses!("belongs to another device", |o, _k| plimsoll_submit(o, zeros(), null(), 0, null_mut(), 0));
    refuses!("was not opened", |o, _k| plimsoll_scope_close(o));
    refuses!("null pointer", |o, _k| own(o, null(), 4, F32.dtype));
    refuses!("no dtype 77", |o, _k| own(o, ONE.as_ptr(), 4, 77));
    refuses!("bytes", |o, _k| own(o, ONE.as_ptr(), 3, F32.dtype));
    refuses!("null pointer", |o, _k| plimsoll_read(o, null(), null_mut(), 0));
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    refuses!("another version", |o, k| with_shape(o, k, CSubmitOptions { abi_version: 9, ..options() }));
    refuses!("executed in 4 blocks", |o, k| with_shape(o, k, CSubmitOptions { blocks: 4, ..options() }));
    refuses!("null pointer", |o, k| with_shape(o, k, CSubmitOptions { after_count: 1, ..options() }));
    refuses!("null pointer", |o, k| with_shape(o, k, CSubmitOptions { part_count: 1, ..options() }));
    refuses!("at most 2", |o, k| {
        let parts = [k; 3];
        with_shape(o, k, CSubmitOptions { parts: parts.as_ptr(), part_count: 3, ..options() })
    });
    refuses!("A dummy task has no", |o, k| {
        with_shape(o, k, CSubmitOptions { parts: &raw const k, part_count: 1, dummy: 1, ..options() })
    });
    refuses!("A dummy task has no", |o, k| with_shape(o, k, CSubmitOptions { blocks: 2, dummy: 1, ..options() }));
    refuses!("A dummy task has no", |o, k| with_shape(o, k, CSubmitOptions { sync_start: 1, dummy: 1, ..options() }));
    refuses!("A dummy task has no", |o, k| {
        let tensor: CTensor = zeros();
        with_shape(o, k, CSubmitOptions { only_if: &raw const tensor, dummy: 1, ..options() })
    });
    refuses!("cannot be parts", |o, k| {
        with_shape(o, k, CSubmitOptions { parts: &raw const k, part_count: 1, ..options() })
    });
    refuses!("one predicate", |o, k| {
        let tensor: CTensor = zeros();
        with_shape(o, k, CSubmitOptions { only_if: &raw const tensor, unless: &raw const tensor, ..options() })
    });
    refuses!("of another run", |o, k| {
        let task = CTask { words: [0, 12345, 0] };
        with_shape(o, k, CSubmitOptions { after: &raw const task, after_count: 1, ..options() })
    });
}

#[test]
fn a_device_that_runs_a_program_is_used_by_nobody_else_and_not_closed() {
    /// What the program does with its own device.
    unsafe extern "C" fn within(_: *mut COrchestrator, context: *mut c_void) -> *mut CError {
        let device: *mut CDevice = context.cast();
        let (options, mut graph) = (kernel_options(), null_mut());
        // SAFETY: the device is open; that it runs is what is tried.
        unsafe {
            refused(plimsoll_run(device, null(), Some(empty), null_mut()), "runs a program already");
            refused(plimsoll_kernel_register(device, &raw const options, &mut zeros()), "runs a program already");
            let built = plimsoll_graph_build(device, null(), Some(empty), null_mut(), &raw mut graph);
            refused(built, "runs a program already");
            refused(plimsoll_device_report(device, &mut zeros()), "runs a program already");
            assert!(plimsoll_device_run_dir(device).is_null());
            plimsoll_device_close(device);
            assert_eq!(plimsoll_device_workers(device), 1);
        }
        null_mut()
    }
    let device = open();
    // SAFETY: everything is valid for its call.
    unsafe {
        fine(plimsoll_run(device, null(), Some(within), device.cast()));
        // It is free again, also after a call that was refused.
        refused(plimsoll_run(device, null(), None, null_mut()), "no program");
        fine(plimsoll_run(device, null(), Some(empty), null_mut()));
        plimsoll_device_close(device);
    }
}

#[test]
fn the_context_of_a_refused_kernel_is_released() {
    static RELEASED: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn release(_: *mut c_void) {
        RELEASED.fetch_add(1, Ordering::Relaxed);
    }
    unsafe extern "C" fn registers(_: *mut COrchestrator, device: *mut c_void) -> *mut CError {
        let options = CKernelOptions { release: Some(release), ..kernel_options() };
        // SAFETY: the device is open; that it runs is what is tried.
        unsafe { refused(plimsoll_kernel_register(device.cast(), &raw const options, &mut zeros()), "runs a program") };
        null_mut()
    }
    let device = open();
    let options = CKernelOptions { release: Some(release), ..kernel_options() };
    // SAFETY: everything is valid for its call, or null.
    unsafe {
        refused(plimsoll_kernel_register(null_mut(), &raw const options, &mut zeros()), "null pointer");
        refused(plimsoll_kernel_register(device, &raw const options, null_mut()), "null pointer");
        fine(plimsoll_run(device, null(), Some(registers), device.cast()));
        assert_eq!(RELEASED.load(Ordering::Relaxed), 3);
        fine(plimsoll_kernel_register(device, &raw const options, &mut zeros()));
        assert_eq!(RELEASED.load(Ordering::Relaxed), 3);
        plimsoll_device_close(device);
    }
    assert_eq!(RELEASED.load(Ordering::Relaxed), 4);
}

#[test]
fn an_orchestrator_that_is_kept_is_refused() {
    /// Keeps the orchestrator.
    unsafe extern "C" fn keeps(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
        // SAFETY: the context below.
        unsafe { *context.cast::<*mut COrchestrator>() = o };
        null_mut()
    }
    let device = open();
    let mut kept: *mut COrchestrator = null_mut();
    // SAFETY: handles are never freed; that the program has returned is what is tried. Another run of this process may have been given
    // the handle since; then it is another thread's.
    unsafe {
        fine(plimsoll_run(device, null(), Some(keeps), (&raw mut kept).cast()));
        refused(plimsoll_scope_open(kept, null(), 0), "The orchestrator was used");
        refused(plimsoll_manual_scope_open(kept, null(), 0), "The orchestrator was used");
        refused(plimsoll_scope_close(kept), "The orchestrator was used");
        refused(plimsoll_submit(kept, zeros(), null(), 0, null_mut(), 0), "The orchestrator was used");
        let shape = [1usize];
        let own = plimsoll_own(kept, shape.as_ptr().cast(), 4, F32, shape.as_ptr(), 1, &mut zeros());
        refused(own, "The orchestrator was used");
        refused(plimsoll_fatal(kept, c"why".as_ptr()), "The orchestrator was used");
        plimsoll_device_close(device);
    }
}

#[test]
fn an_orchestrator_is_refused_on_other_threads() {
    /// Uses the orchestrator on a thread that it waits for.
    unsafe extern "C" fn elsewhere(o: *mut COrchestrator, _: *mut c_void) -> *mut CError {
        let address = o.expose_provenance();
        let uses = move || {
            let o = std::ptr::with_exposed_provenance_mut::<COrchestrator>(address);
            // SAFETY: handles are never freed; that the thread is another one is what is tried.
            unsafe {
                refused(plimsoll_scope_open(o, null(), 0), "another thread");
                refused(plimsoll_scope_close(o), "another thread");
                refused(plimsoll_submit(o, zeros(), null(), 0, null_mut(), 0), "another thread");
            }
        };
        std::thread::spawn(uses).join().unwrap();
        null_mut()
    }
    for engine in [c"host", c"virtual"] {
        let size = size_of::<CDeviceOptions>() as u32;
        let options = CDeviceOptions { abi_version: ABI_VERSION, size, engine: engine.as_ptr(), ..zeros() };
        let mut device = null_mut();
        // SAFETY: everything is valid for its call.
        unsafe {
            fine(plimsoll_device_open(&raw const options, &raw mut device));
            fine(plimsoll_run(device, null(), Some(elsewhere), null_mut()));
            plimsoll_device_close(device);
        }
    }
}

#[test]
fn a_graph_is_of_one_device_and_tensors_of_one_run() {
    /// Enters a tensor, or reads one that another run entered.
    unsafe extern "C" fn enters(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
        let (kept, mut word) = (context.cast::<CTensor>(), 0u32);
        let shape = [1usize];
        // SAFETY: the context below.
        unsafe {
            if (*kept).get().is_ok() {
                return plimsoll_read(o, kept, (&raw mut word).cast(), 4);
            }
            plimsoll_own(o, (&raw const word).cast(), 4, F32, shape.as_ptr(), 1, kept)
        }
    }
    let (one, other) = (open(), open());
    let (mut graph, mut tensor): (_, CTensor) = (null_mut(), zeros());
    // SAFETY: everything is valid for its call; that it belongs elsewhere is what is tried.
    unsafe {
        fine(plimsoll_graph_build(one, null(), Some(empty), null_mut(), &raw mut graph));
        refused(plimsoll_graph_launch(other, graph, null()), "another device");
        fine(plimsoll_graph_launch(one, graph, null()));
        fine(plimsoll_run(one, null(), Some(enters), (&raw mut tensor).cast()));
        refused(plimsoll_run(one, null(), Some(enters), (&raw mut tensor).cast()), "another run");
        refused(plimsoll_run(other, null(), Some(enters), (&raw mut tensor).cast()), "another run");
        plimsoll_device_close(one);
        refused(plimsoll_graph_launch(other, graph, null()), "another device");
        plimsoll_graph_free(graph);
        plimsoll_device_close(other);
    }
}

#[test]
fn time_outs_that_virtual_time_cannot_keep_are_refused() {
    let mut device = null_mut();
    let size = size_of::<CDeviceOptions>() as u32;
    let options = CDeviceOptions { abi_version: ABI_VERSION, size, engine: c"virtual".as_ptr(), ..zeros() };
    let size = size_of::<CRunOptions>() as u32;
    let run = CRunOptions { abi_version: ABI_VERSION, size, ..zeros() };
    // SAFETY: everything is valid for its call.
    unsafe {
        fine(plimsoll_device_open(&raw const options, &raw mut device));
        for (run, name) in [
            (CRunOptions { op_timeout_ns: 1, ..run }, "op_timeout_ns needs threads"),
            (CRunOptions { stall_timeout_ns: 1, ..run }, "stall_timeout_ns needs threads"),
            (CRunOptions { orch_timeout_ns: 1, ..run }, "orch_timeout_ns needs threads"),
        ] {
            refused(plimsoll_run(device, &raw const run, Some(empty), null_mut()), name);
        }
        fine(plimsoll_run(device, &raw const run, Some(empty), null_mut()));
        plimsoll_device_close(device);
    }
}

/// A program that does not say where it is written is nowhere that anybody could look, and advice names the fields of the header.
#[test]
fn errors_name_no_file_and_no_call_of_the_library_s() {
    unsafe extern "C" fn fills_the_ring(o: *mut COrchestrator, context: *mut c_void) -> *mut CError {
        let output = CArg { use_: uses::OUTPUT, ndim: 1, element: F32, shape: [1; MAX_DIMS], ..zeros() };
        for _ in 0..9 {
            // SAFETY: the test's own kernel; the rest is valid for the calls.
            let error =
                unsafe { plimsoll_submit(o, *context.cast::<CKernel>(), &raw const output, 1, &mut zeros(), 1) };
            if !error.is_null() {
                return error;
            }
        }
        null_mut()
    }
    let (mut device, mut kernel): (_, CKernel) = (null_mut(), zeros());
    let size = size_of::<CDeviceOptions>() as u32;
    let options =
        CDeviceOptions { abi_version: ABI_VERSION, size, workers: 1, ring_task_window: c"4".as_ptr(), ..zeros() };
    let registered = kernel_options();
    // SAFETY: everything is valid for its call.
    unsafe {
        fine(plimsoll_device_open(&raw const options, &raw mut device));
        fine(plimsoll_kernel_register(device, &raw const registered, &raw mut kernel));
        let error = plimsoll_run(device, null(), Some(fills_the_ring), (&raw mut kernel).cast());
        let site = plimsoll_error_site(error);
        assert_eq!(CStr::from_ptr(site).to_str(), Ok("an unknown place"));
        let (_, text) = told(error);
        assert!(text.contains("`ring_task_window = \"") && !text.contains("::") && !text.contains(".rs"), "{text}");
        plimsoll_device_close(device);
    }
}

/// What a fork of this process does, by its exit code. It says nothing and panics nowhere.
fn forked(act: impl FnOnce() -> bool) -> i32 {
    let mut status = 0;
    // SAFETY: the fork uses what its own thread has, and ends without what its parent would do at its end.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(if act() { 0 } else { 1 }),
            pid => libc::waitpid(pid, &raw mut status, 0),
        }
    };
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

#[test]
fn a_fork_is_refused_the_device_of_its_parent() {
    /// Forks, and comes back twice.
    unsafe extern "C" fn forks(_: *mut COrchestrator, context: *mut c_void) -> *mut CError {
        // SAFETY: the context below; the fork ends where it comes back.
        unsafe { *context.cast::<i32>() = libc::fork() };
        null_mut()
    }
    let device = open();
    let is_refused = |error: *mut CError| {
        // SAFETY: a call gave it, or it is null.
        let text = unsafe { plimsoll_error_explanation(error) };
        // SAFETY: as above.
        !text.is_null() && unsafe { CStr::from_ptr(text) }.to_str().is_ok_and(|text| text.contains("a fork of that"))
    };
    // SAFETY: everything is valid for its call; that a fork has another's device is what is tried.
    unsafe {
        fine(plimsoll_run(device, null(), Some(empty), null_mut()));
        let code = forked(|| {
            let ran = is_refused(plimsoll_run(device, null(), Some(empty), null_mut()));
            let asked = is_refused(plimsoll_device_report(device, &mut zeros()));
            plimsoll_device_close(device);
            ran && asked
        });
        assert_eq!(code, 0);
        let (mut pid, mut status) = (0i32, 0);
        fine(plimsoll_run(device, null(), Some(forks), (&raw mut pid).cast()));
        libc::waitpid(pid, &raw mut status, 0);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 1));
        plimsoll_device_close(device);
    }
}

#[test]
fn a_file_that_cannot_be_loaded_is_refused_with_the_systems_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, [b'x'; 4096]).unwrap();
    // SAFETY: it has no code.
    let error = unsafe { plimsoll_capi::plugin::load(file.path()) }.unwrap_err().to_string();
    assert!(error.contains("invalid ELF header"), "{error}");
}
