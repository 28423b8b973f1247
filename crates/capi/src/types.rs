//! The plain types that cross the border, as `plimsoll.h` has them.

use crate::error::CError;
use plimsoll::abi::Dtype;
use plimsoll::untyped::{self, ElementSpec};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

/// The version of everything in `plimsoll.h`. A change that older programs cannot live with raises it.
pub const ABI_VERSION: u32 = 1;

/// The most dimensions of a tensor.
pub const MAX_DIMS: usize = plimsoll::abi::MAX_DIMS;

/// What a tensor's elements are: `plimsoll_element`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CElement {
    /// A `plimsoll_dtype`; 0 is any type of the given size.
    pub dtype: u32,
    /// Size; 0 for the dtype's own.
    pub bytes: u32,
    /// Alignment; 0 for the size's or the dtype's own.
    pub align: u32,
}

impl CElement {
    /// The runtime's own form.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll::abi::ErrorCode::InvalidArgs) if there is no dtype of this number, or its elements have another size.
    pub fn spec(&self) -> plimsoll::Result<ElementSpec> {
        let dtype = u8::try_from(self.dtype).ok().and_then(Dtype::from_u8).ok_or_else(|| {
            crate::entry::invalid(format!(
                "There is no dtype {}. They are numbered from 0 to {}. Use the names of the header.",
                self.dtype,
                Dtype::ALL.len() - 1
            ))
        })?;
        let own = ElementSpec::of(dtype);
        let bytes = if self.bytes == 0 { own.bytes } else { self.bytes };
        if dtype != Dtype::User && bytes != own.bytes {
            return Err(crate::entry::invalid(format!(
                "An element of {dtype} has {} bytes, not {bytes}. Leave the size at 0, or use dtype 0.",
                own.bytes
            )));
        }
        let natural = if dtype == Dtype::User { 1 << bytes.trailing_zeros().min(3) } else { own.align };
        Ok(ElementSpec { dtype, bytes, align: if self.align == 0 { natural } else { self.align } })
    }
}

/// A tensor or a view of one: `plimsoll_tensor`. A value that may be copied; what is inside is the library's.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CTensor {
    mark: u64,
    body: [MaybeUninit<u64>; 19],
}

const _: () = assert!(size_of::<untyped::Tensor>() <= 19 * 8 && align_of::<untyped::Tensor>() <= 8);

impl std::fmt::Debug for CTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CTensor")
    }
}

impl CTensor {
    /// What tells a tensor from memory that nobody has filled.
    const MARK: u64 = 0x706c_696d_7465_6e73;

    /// As C has it.
    pub fn new(tensor: untyped::Tensor) -> Self {
        let mut out = Self { mark: Self::MARK, body: [MaybeUninit::uninit(); 19] };
        // SAFETY: the body is large enough and aligned, as asserted above.
        unsafe { out.body.as_mut_ptr().cast::<untyped::Tensor>().write(tensor) };
        out
    }

    /// The runtime's own, if it is one.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll::abi::ErrorCode::InvalidArgs) if no call has filled the structure in.
    pub fn get(&self) -> plimsoll::Result<&untyped::Tensor> {
        self.known().ok_or_else(no_tensor)
    }

    /// The runtime's own, if it is one.
    #[inline]
    pub(crate) fn known(&self) -> Option<&untyped::Tensor> {
        // SAFETY: whatever carries the mark was made by `new`, or copied from it.
        (self.mark == Self::MARK).then(|| unsafe { &*self.body.as_ptr().cast::<untyped::Tensor>() })
    }
}

#[cold]
fn no_tensor() -> plimsoll::Error {
    crate::entry::invalid(
        "A tensor was used that no call has filled in. Its memory holds something else. Pass what a call gave.",
    )
}

/// A kernel of a device: `plimsoll_kernel`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CKernel {
    /// The library's own.
    pub words: [u64; 2],
}

/// A submitted task: `plimsoll_task`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CTask {
    /// The first is the task's id as records have it; the others are the library's own.
    pub words: [u64; 3],
}

/// What an argument is: `plimsoll_use`.
pub mod uses {
    /// The task reads the tensor.
    pub const INPUT: u32 = 0;
    /// The task reads and writes the tensor.
    pub const INOUT: u32 = 1;
    /// The task overwrites the tensor.
    pub const OUTPUT_EXISTING: u32 = 2;
    /// The task makes a tensor.
    pub const OUTPUT: u32 = 3;
    /// A plain value.
    pub const SCALAR: u32 = 4;
    /// The task reads several tensors.
    pub const INPUT_LIST: u32 = 5;
    /// The task reads the tensor, and inference does not look at it.
    pub const NO_DEP: u32 = 6;
    /// The task reads and writes the tensor, and inference does not look at it.
    pub const NO_DEP_INOUT: u32 = 7;
}

/// An argument of a submit: `plimsoll_arg`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CArg {
    /// One of [`uses`].
    pub use_: u32,
    /// Dimensions of an output.
    pub ndim: u32,
    /// The tensor; of a list, the first.
    pub tensor: *const CTensor,
    /// Tensors of a list.
    pub count: usize,
    /// The elements of an output; the dtype of a plain value.
    pub element: CElement,
    /// 1 if somebody wants to see its elements: runs that capture marked arguments capture it.
    pub marked: u32,
    /// The bits of a plain value: those of a float, an integer widened with its sign.
    pub bits: u64,
    /// Extents of an output.
    pub shape: [usize; MAX_DIMS],
}

/// One argument as a kernel sees it: `plimsoll_view`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CView {
    /// The first element; null for a plain value.
    pub data: *mut c_void,
    /// The bits of a plain value.
    pub bits: u64,
    /// Extents, padded with ones.
    pub shape: [u32; MAX_DIMS],
    /// Steps from one element to the next, in elements, padded with zeros.
    pub strides: [i32; MAX_DIMS],
    /// Number of dimensions.
    pub ndim: u8,
    /// A `plimsoll_dtype`.
    pub dtype: u8,
    /// 1 for a plain value.
    pub is_scalar: u8,
    /// 1 if the task is ordered as one that writes it.
    pub is_written: u8,
    /// Zero.
    pub reserved: u32,
}

/// What a kernel is called with: `plimsoll_call`.
#[derive(Debug)]
#[repr(C)]
pub struct CCall {
    /// The size of this structure: newer libraries may append to it.
    pub size: u32,
    /// Number of arguments. A list of tensors is its length as a plain value, and then each tensor.
    pub count: u32,
    /// The arguments.
    pub args: *const CView,
    /// What the kernel was registered with.
    pub context: *mut c_void,
    /// Says why the kernel fails. The text is copied.
    pub fail: unsafe extern "C" fn(call: *const CCall, text: *const c_char),
    /// The library's own.
    pub state: *mut c_void,
    /// Which block of its task the call is, from 0.
    pub block: u32,
    /// How many blocks the task has.
    pub blocks: u32,
    /// Which part of a mixed task the call is: 0 is the one on the matrix core.
    pub part: u32,
    /// How many parts the task has.
    pub parts: u32,
    /// Gives a value to another part of the block. Waits while the pipe is full; other than 0 if nobody will take it.
    pub push: unsafe extern "C" fn(call: *const CCall, to: u32, bits: u64) -> i32,
    /// Takes the next value that another part of the block gave. Waits for it; other than 0 if none will come.
    pub pop: unsafe extern "C" fn(call: *const CCall, from: u32, bits: *mut u64) -> i32,
}

/// A kernel: 0 is fine, anything else fails the run.
pub type KernelFn = unsafe extern "C" fn(call: *const CCall) -> i32;

/// A program: submits tasks, returns null or an error.
pub type ProgramFn =
    unsafe extern "C" fn(o: *mut crate::orchestrator::COrchestrator, context: *mut c_void) -> *mut CError;

/// Hears of a run that cannot return.
pub type HungFn = unsafe extern "C" fn(error: *const CError, context: *mut c_void);

/// Lets go of a context.
pub type ReleaseFn = unsafe extern "C" fn(context: *mut c_void);

/// A parameter of a kernel: `plimsoll_param`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CParam {
    /// 0 reads, 1 writes, 2 reads and writes a tensor; 3 reads several; 4 is a plain value.
    pub access: u32,
    /// Its elements.
    pub element: CElement,
    /// Who of a task's blocks writes what of it: 0 says nothing; 1 each block rows of its own; 2, 3 and 4 the same, of part 0, 1
    /// and 2 of a mixed task alone.
    pub share: u32,
}

/// How a kernel is registered: `plimsoll_kernel_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CKernelOptions {
    /// [`ABI_VERSION`] of the header that the caller was compiled with.
    pub abi_version: u32,
    /// Size of this structure there.
    pub size: u32,
    /// Its name.
    pub name: *const c_char,
    /// Its body.
    pub body: Option<KernelFn>,
    /// What the body finds in its call.
    pub context: *mut c_void,
    /// Called with the context when the kernel is gone; may be null.
    pub release: Option<ReleaseFn>,
    /// The cores it may run on: "any", "aic" or "aiv"; null is "any".
    pub core_class: *const c_char,
    /// What it takes; null if it looks for itself.
    pub params: *const CParam,
    /// Number of parameters.
    pub param_count: usize,
    /// 1 if its tasks may be executed in blocks, or have it as a part.
    pub in_blocks: u32,
    /// Zero.
    pub reserved: u32,
}

/// How a task is executed, and what it waits for besides: `plimsoll_submit_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSubmitOptions {
    /// [`ABI_VERSION`] of the header that the caller was compiled with.
    pub abi_version: u32,
    /// Size of this structure there.
    pub size: u32,
    /// Tasks that it waits for.
    pub after: *const CTask,
    /// Number of those.
    pub after_count: usize,
    /// Executions; 0 is 1.
    pub blocks: u32,
    /// 1 if it executes nothing; its kernel is not looked at.
    pub dummy: u32,
    /// The kernels of a mixed task's parts behind the first.
    pub parts: *const CKernel,
    /// Number of those.
    pub part_count: usize,
    /// It is executed only if the one element of this tensor is not zero; may be null.
    pub only_if: *const CTensor,
    /// It is executed only if the one element of this tensor is zero; may be null.
    pub unless: *const CTensor,
    /// 1 if its blocks start together, or not at all.
    pub sync_start: u32,
    /// 0.
    pub reserved: u32,
}

/// How a device is opened: `plimsoll_device_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CDeviceOptions {
    /// [`ABI_VERSION`] of the header that the caller was compiled with.
    pub abi_version: u32,
    /// Size of this structure there.
    pub size: u32,
    /// Threads in all; 0 for one per CPU.
    pub workers: u32,
    /// 1 if the calling thread executes no tasks.
    pub no_lend: u32,
    /// "host", "emulated" or "virtual"; null for what the arch implies.
    pub engine: *const c_char,
    /// An arch; null is "host".
    pub arch: *const c_char,
    /// The seed of virtual time.
    pub seed: u64,
    /// What kernels cost in virtual time: a file, or JSON.
    pub costs: *const c_char,
    /// Task windows, as the command's flag has them; null for the environment's or the default.
    pub ring_task_window: *const c_char,
    /// Sizes of the heaps, as the command's flag has them; null for the environment's or the default.
    pub ring_heap: *const c_char,
    /// Sizes of the dependency pools, as the command's flag has them; null for the environment's or the default.
    pub ring_dep_pool: *const c_char,
    /// Entries of the tensormap, as the command's flag has them; null for the environment's or the default.
    pub tensormap: *const c_char,
    /// Changes numbers of the arch: KEY=VALUE, with commas between them; may be null.
    pub arch_set: *const c_char,
}

/// How a run is made: `plimsoll_run_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CRunOptions {
    /// [`ABI_VERSION`] of the header that the caller was compiled with.
    pub abi_version: u32,
    /// Size of this structure there.
    pub size: u32,
    /// Times to run it; 0 is 1.
    pub rounds: u32,
    /// The source line of the call.
    pub line: u32,
    /// The source file of the call; null if it is not known.
    pub file: *const c_char,
    /// Ends the run when it has taken this long; 0 for never.
    pub deadline_ns: u64,
    /// Bounds every wait of a read; 0 for no bound.
    pub read_timeout_ns: u64,
    /// Ends the run when it is used; may be null.
    pub cancel: *const crate::device::CCancel,
    /// What to record: a level from "0" to "4", or "profile"; null for what the environment says.
    pub record: *const c_char,
    /// The run's directory; null for one of its own under `outputs`.
    pub out: *const c_char,
    /// The program's name in the recording; null for the binary's.
    pub program: *const c_char,
    /// How long one kernel may take; 0 for any time.
    pub op_timeout_ns: u64,
    /// How long nothing may move; 0 for any time.
    pub stall_timeout_ns: u64,
    /// How long the program may be in its own code; 0 for any time.
    pub orch_timeout_ns: u64,
    /// Is told of a run that was given up and cannot return; may be null.
    pub on_hung: Option<HungFn>,
    /// What it is told with.
    pub on_hung_context: *mut c_void,
    /// How the collector reaches records: "mapped" or "shadow"; null for as the arch has it.
    pub transport: *const c_char,
    /// Where the shared region goes; null for where there is room.
    pub region_dir: *const c_char,
    /// What a recorder does that finds no buffer: "block" or "drop"; null is "block".
    pub on_full: *const c_char,
    /// Captures arguments: 1 those that are marked, 2 all, 3 shapes of all and elements of marked ones; 0 none.
    pub dump_args: u32,
    /// 1 if submits are recorded.
    pub dep_gen: u32,
    /// Of which tasks arguments are captured, by kernel or as r2t17, with commas between them; null for all.
    pub dump_tasks: *const c_char,
    /// The most bytes of an argument that are captured; 0 for the default.
    pub dump_bytes: u64,
    /// The group of counters that is read around every kernel, such as "cycles"; null for none.
    pub pmu: *const c_char,
}

/// What a run did: `plimsoll_report`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CReport {
    /// Tasks that were submitted.
    pub tasks: u64,
    /// From the first submit to the last completion.
    pub elapsed_ns: u64,
    /// Records that there should be.
    pub records: u64,
    /// 1 if the run was recorded and nothing was lost.
    pub lossless: u32,
    /// Workers, or cores.
    pub workers: u32,
}
