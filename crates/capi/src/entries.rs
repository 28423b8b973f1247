//! Every function of `plimsoll.h`, one row each: what C calls, what plug-ins find in their table, and what the header says.

use crate::device::{self, CCancel, CDevice, CGraph};
use crate::entry::enter;
use crate::error::{self, CError};
use crate::orchestrator::{self, COrchestrator};
use crate::types::{
    ABI_VERSION, CArg, CDeviceOptions, CElement, CKernel, CKernelOptions, CReport, CRunOptions, CSubmitOptions, CTask,
    CTensor, ProgramFn,
};
use crate::views;
use std::ffi::{c_char, c_void};

/// A function of the header.
#[derive(Debug)]
pub struct Prototype {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static [&'static str],
    /// Names and Rust types of its parameters.
    pub params: &'static [(&'static str, &'static str)],
    /// The Rust type that it returns.
    pub returns: &'static str,
}

macro_rules! entries {
    ($($(#[doc = $about:literal])+ fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $returns:ty = $body:path;)*) => {
        $(
            $(#[doc = $about])+
            ///
            /// # Safety
            /// What `plimsoll.h` asks of its callers.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $returns {
                // Not every body is unsafe.
                #[allow(unused_unsafe)]
                // SAFETY: the header asks the caller for what the body needs.
                enter(|| unsafe { $body($($arg),*) })
            }
        )*

        /// What a plug-in is handed: every function, so that it links with nothing.
        #[derive(Debug)]
        #[repr(C)]
        pub struct HostTable {
            /// The version of this table.
            pub abi_version: u32,
            /// Its size: newer libraries append to it.
            pub size: u32,
            $(
                $(#[doc = $about])+
                pub $name: unsafe extern "C" fn($($arg: $type),*) -> $returns,
            )*
        }

        /// The functions of this library.
        pub static HOST: HostTable = HostTable { abi_version: ABI_VERSION, size: size_of::<HostTable>() as u32, $($name,)* };

        /// The rows, for whoever writes the header.
        pub const PROTOTYPES: &[Prototype] = &[$(
            Prototype {
                name: stringify!($name),
                about: &[$($about),+],
                params: &[$((stringify!($arg), stringify!($type))),*],
                returns: stringify!($returns),
            },
        )*];
    };
}

fn abi_version() -> u32 {
    ABI_VERSION
}

fn version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

entries! {
    /// The version of the interface that this library has; PLIMSOLL_ABI_VERSION is the one that a program was compiled with.
    fn plimsoll_abi_version() -> u32 = abi_version;
    /// The version of the library, such as "0.1.0".
    fn plimsoll_version() -> *const c_char = version;

    /// An error of the caller's own, for programs to return. An unknown code becomes PLIMSOLL_EXPLICIT_FATAL.
    fn plimsoll_error_new(code: u32, text: *const c_char) -> *mut CError = error::new;
    /// The stable code of an error: a plimsoll_code.
    fn plimsoll_error_code(error: *const CError) -> u32 = error::code;
    /// The code's name.
    fn plimsoll_error_name(error: *const CError) -> *const c_char = error::name;
    /// Code and explanation, to be printed.
    fn plimsoll_error_text(error: *const CError) -> *const c_char = error::text;
    /// What happened, why, and what to do.
    fn plimsoll_error_explanation(error: *const CError) -> *const c_char = error::explanation;
    /// Where the scope was opened that it happened in, as file:line; NULL if that is not known.
    fn plimsoll_error_site(error: *const CError) -> *const c_char = error::site;
    /// The kernel it happened in; NULL if it was in none.
    fn plimsoll_error_kernel(error: *const CError) -> *const c_char = error::kernel;
    /// The capacity that gets the program past this point; 0 if nothing ran out.
    fn plimsoll_error_needed(error: *const CError) -> u64 = error::needed;
    /// Frees an error and its texts. NULL is fine.
    fn plimsoll_error_free(error: *mut CError) -> () = error::free;

    /// Opens a device. NULL options are the defaults.
    fn plimsoll_device_open(options: *const CDeviceOptions, out: *mut *mut CDevice) -> *mut CError = device::open;
    /// Closes a device and ends its workers. One that runs a program stays open, and standard error says so. NULL is fine.
    fn plimsoll_device_close(device: *mut CDevice) -> () = device::close;
    /// What executes tasks: threads, or the cores of a chip.
    fn plimsoll_device_workers(device: *const CDevice) -> u32 = device::workers;
    /// Registers a kernel.
    fn plimsoll_kernel_register(device: *mut CDevice, options: *const CKernelOptions, out: *mut CKernel) -> *mut CError = device::kernel;
    /// The kernel of this name.
    fn plimsoll_kernel_named(device: *const CDevice, name: *const c_char, out: *mut CKernel) -> *mut CError = device::kernel_named;

    /// Runs a program and returns when every task has completed. NULL options are the defaults.
    fn plimsoll_run(device: *mut CDevice, options: *const CRunOptions, program: Option<ProgramFn>, context: *mut c_void) -> *mut CError = device::run;
    /// Builds a graph without running it. What the program borrows must outlive the graph. Of the options, those count that say where the program is and how long building may take: deadline, stall and orch_timeout, and on_hung. NULL options are the defaults.
    fn plimsoll_graph_build(device: *mut CDevice, options: *const CRunOptions, program: Option<ProgramFn>, context: *mut c_void, out: *mut *mut CGraph) -> *mut CError = device::build;
    /// Launches a graph as often as the options say, and returns when every task has completed.
    fn plimsoll_graph_launch(device: *mut CDevice, graph: *mut CGraph, options: *const CRunOptions) -> *mut CError = device::launch;
    /// Frees a graph. NULL is fine.
    fn plimsoll_graph_free(graph: *mut CGraph) -> () = device::graph_free;
    /// What the last run did.
    fn plimsoll_device_report(device: *const CDevice, out: *mut CReport) -> *mut CError = device::report;
    /// The directory that the last run was recorded into, until the next call on this device; NULL if it was not, or while the device runs a program.
    fn plimsoll_device_run_dir(device: *mut CDevice) -> *const c_char = device::run_dir;

    /// A token that ends the runs that are given it, from any thread.
    fn plimsoll_cancel_new() -> *mut CCancel = device::cancel_new;
    /// Ends the token's runs with PLIMSOLL_CANCELLED.
    fn plimsoll_cancel_use(cancel: *const CCancel) -> () = device::cancel;
    /// Ends the token's runs with PLIMSOLL_INTERRUPTED. Not for signal handlers: it takes a lock.
    fn plimsoll_cancel_interrupt(cancel: *const CCancel) -> () = device::interrupt;
    /// Frees a token. NULL is fine.
    fn plimsoll_cancel_free(cancel: *mut CCancel) -> () = device::cancel_free;

    /// Opens a scope: what is made in it is held until it is closed. PLIMSOLL_SCOPE(o) fills in file and line.
    fn plimsoll_scope_open(o: *mut COrchestrator, file: *const c_char, line: u32) -> *mut CError = orchestrator::open_scope;
    /// Opens a scope in which nothing is inferred: tasks wait for explicit dependencies only, and the caller makes sure that no two that run at the same time use the same elements unless both only read.
    fn plimsoll_manual_scope_open(o: *mut COrchestrator, file: *const c_char, line: u32) -> *mut CError = orchestrator::open_manual_scope;
    /// Closes the scope that was opened last.
    fn plimsoll_scope_close(o: *mut COrchestrator) -> *mut CError = orchestrator::close_scope;
    /// Enters a copy of the data as a buffer that the run owns.
    fn plimsoll_own(o: *mut COrchestrator, data: *const c_void, bytes: usize, element: CElement, shape: *const usize, ndim: usize, out: *mut CTensor) -> *mut CError = orchestrator::own;
    /// Enters memory that stays where it is. Until the run has returned nobody else writes it, and if it is writable nobody else reads it; it overlaps no other buffer of the run.
    fn plimsoll_borrow(o: *mut COrchestrator, data: *mut c_void, bytes: usize, element: CElement, shape: *const usize, ndim: usize, writable: u32, out: *mut CTensor) -> *mut CError = orchestrator::borrow;
    /// Submits a task. What it makes is written to `made`, one tensor for each output.
    fn plimsoll_submit(o: *mut COrchestrator, kernel: CKernel, args: *const CArg, arg_count: usize, made: *mut CTensor, made_room: usize) -> *mut CError = orchestrator::submit;
    /// As plimsoll_submit, with what the options say: blocks, parts, a predicate, tasks to wait for besides, or nothing to execute. `task`, if it is not NULL, is what later tasks can wait for.
    fn plimsoll_submit_with(o: *mut COrchestrator, options: *const CSubmitOptions, kernel: CKernel, args: *const CArg, arg_count: usize, made: *mut CTensor, made_room: usize, task: *mut CTask) -> *mut CError = orchestrator::submit_with;
    /// Waits for the tasks that write the tensor and copies its elements, in row-major order.
    fn plimsoll_read(o: *mut COrchestrator, tensor: *const CTensor, out: *mut c_void, bytes: usize) -> *mut CError = orchestrator::read;
    /// Waits for the tasks that use the tensor and overwrites its elements, in row-major order.
    fn plimsoll_write(o: *mut COrchestrator, tensor: *const CTensor, data: *const c_void, bytes: usize) -> *mut CError = orchestrator::write;
    /// Gives up: ends the run with PLIMSOLL_EXPLICIT_FATAL and this message. The error is for the program to return.
    fn plimsoll_fatal(o: *mut COrchestrator, message: *const c_char) -> *mut CError = orchestrator::fatal;

    /// Elements from `begin` up to `end` of one dimension.
    fn plimsoll_slice(tensor: *const CTensor, dim: usize, begin: usize, end: usize, out: *mut CTensor) -> *mut CError = views::slice;
    /// Tile number `index` when every dimension is cut into tiles of these extents.
    fn plimsoll_tile(tensor: *const CTensor, index: *const usize, extents: *const usize, ndim: usize, out: *mut CTensor) -> *mut CError = views::tile;
    /// The same elements under another shape.
    fn plimsoll_reshape(tensor: *const CTensor, shape: *const usize, ndim: usize, out: *mut CTensor) -> *mut CError = views::reshape;
    /// The dimensions in another order.
    fn plimsoll_permute(tensor: *const CTensor, order: *const usize, ndim: usize, out: *mut CTensor) -> *mut CError = views::permute;
    /// The dimensions in reverse order.
    fn plimsoll_transpose(tensor: *const CTensor, out: *mut CTensor) -> *mut CError = views::transpose;
    /// Writes the extents to `out`, which has room for PLIMSOLL_MAX_DIMS or is NULL, and gives how many there are.
    fn plimsoll_tensor_shape(tensor: *const CTensor, out: *mut usize) -> u32 = views::shape;
}
