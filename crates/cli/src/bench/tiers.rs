//! The chain through the tiers below the typed one: the untyped tier, and the C functions over it.

use super::grain::grind;
use super::shapes::SCOPE;
use clap::ValueEnum;
use plimsoll::abi::Dtype;
use plimsoll::isolate::{DeviceBuffer, DeviceProgram};
use plimsoll::untyped::{self, Arg, ElementSpec, Param, Task};
use plimsoll::{CoreClass, Device, Error, Orchestrator, Result};
use plimsoll_capi::entries::{HOST, HostTable};
use plimsoll_capi::plugin::{CPlugin, CPluginProgram, CSetting, PluginInstance, programs_of};
use plimsoll_capi::types::{ABI_VERSION, CArg, CCall, CElement, CKernel, CKernelOptions, CParam, CTensor, uses};
use plimsoll_capi::{CDevice, CError, COrchestrator};
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

/// Which of the library's doors tasks come through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Tier {
    /// Arguments are checked by the compiler
    Typed,
    /// Kernels by id, arguments as descriptors
    Untyped,
    /// The functions of plimsoll.h
    C,
}

/// The chain, as devices run it.
pub(super) enum TierChain {
    Untyped { update: untyped::Kernel, tasks: usize },
    C(PluginInstance),
}

const F32: ElementSpec = ElementSpec::of(Dtype::F32);

impl TierChain {
    pub(super) fn build(tier: Tier, device: &mut Device, tasks: usize, grain: u32) -> Result<Self> {
        if tier == Tier::C {
            // SAFETY: the description is as its functions are, and stays.
            let programs = unsafe { programs_of(described()) }.map_err(Error::invalid)?;
            return Ok(Self::C(programs[0].build(device, &[tasks as u64, u64::from(grain)])?));
        }
        let params = [Param::read_write(F32)];
        // SAFETY: the body touches nothing.
        let update = unsafe {
            device.kernel_untyped(CoreClass::Any, "update", Some(&params), move |call| {
                // Looked at, as kernels in C find their arguments unpacked.
                black_box(call.args().next().map(|arg| arg.data()));
                grind(grain);
                Ok(())
            })
        }?;
        Ok(Self::Untyped { update, tasks })
    }
}

impl DeviceProgram for TierChain {
    fn buffers(&self) -> Vec<&dyn DeviceBuffer> {
        Vec::new()
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        match self {
            Self::C(instance) => instance.orchestrate(o),
            Self::Untyped { update, tasks } => untyped::Orchestrator::drive(o, |o| untyped_chain(o, *update, *tasks)),
        }
    }
}

fn untyped_chain(o: &mut untyped::Orchestrator<'_, '_>, update: untyped::Kernel, tasks: usize) -> Result<()> {
    let datum = o.own([0; 4], F32, &[1])?;
    // Every task has the same arguments.
    let args = [Arg::inout(&datum)];
    let mut made = Vec::new();
    for first in (0..tasks).step_by(SCOPE) {
        o.open_scope()?;
        for _ in first..(first + SCOPE).min(tasks) {
            o.submit(&Task::new(update, &args), &mut made)?;
        }
        o.close_scope()?;
    }
    Ok(())
}

/// The functions as a plug-in has them: behind pointers, so that nothing of them is merged with their caller.
fn host() -> &'static HostTable {
    black_box(&HOST)
}

const F32_IN_C: CElement = CElement { dtype: Dtype::F32 as u32, bytes: 0, align: 0 };

struct ChainInC {
    update: CKernel,
    tasks: usize,
}

/// The chain as a plug-in, as somebody writes it in C.
fn described() -> *const CPlugin {
    let setting = |key: &'static std::ffi::CStr| CSetting {
        key: key.as_ptr(),
        about: null(),
        words: null(),
        usual: 0,
        min: 0,
        max: u64::MAX,
    };
    let settings = Box::leak(Box::new([setting(c"tasks"), setting(c"grain")]));
    let program = CPluginProgram {
        name: c"chain".as_ptr(),
        about: null(),
        file: null(),
        line: 0,
        setting_count: settings.len() as u32,
        settings: settings.as_ptr(),
        build: Some(build),
        orchestrate: Some(orchestrate),
        reset: None,
        verify: None,
        release: Some(release),
    };
    Box::leak(Box::new(CPlugin {
        abi_version: ABI_VERSION,
        size: size_of::<CPlugin>() as u32,
        program_size: size_of::<CPluginProgram>() as u32,
        program_count: 1,
        programs: Box::leak(Box::new(program)),
    }))
}

unsafe extern "C" fn update(call: *const CCall) -> i32 {
    // SAFETY: a kernel is called with a valid call.
    grind(unsafe { (*call).context } as usize as u32);
    0
}

unsafe extern "C" fn build(device: *mut CDevice, settings: *const u64, instance: *mut *mut c_void) -> *mut CError {
    // SAFETY: the description has two settings.
    let [tasks, grain] = unsafe { settings.cast::<[u64; 2]>().read() };
    // SAFETY: a parameter is numbers, which may be zero.
    let params = [CParam { access: 2, element: F32_IN_C, ..unsafe { zeroed() } }];
    let options = CKernelOptions {
        abi_version: ABI_VERSION,
        size: size_of::<CKernelOptions>() as u32,
        name: c"update".as_ptr(),
        body: Some(update),
        context: grain as usize as *mut c_void,
        params: params.as_ptr(),
        param_count: params.len(),
        // SAFETY: options are numbers and pointers, which may be zero.
        ..unsafe { zeroed() }
    };
    let mut chain = Box::new(ChainInC { update: CKernel { words: [0; 2] }, tasks: tasks as usize });
    // SAFETY: all of it is valid for the call, and the device is the one that was lent.
    unsafe {
        let error = (host().plimsoll_kernel_register)(device, &raw const options, &raw mut chain.update);
        instance.write(Box::into_raw(chain).cast());
        error
    }
}

unsafe extern "C" fn release(instance: *mut c_void) {
    // SAFETY: `build` made it, and it is not used again.
    drop(unsafe { Box::from_raw(instance.cast::<ChainInC>()) });
}

/// Returns with the error of a call, if it gave one.
macro_rules! check {
    ($call:expr) => {{
        // SAFETY: all arguments are valid for the call, as plimsoll.h asks.
        let error = unsafe { $call };
        if !error.is_null() {
            return error;
        }
    }};
}

unsafe extern "C" fn orchestrate(o: *mut COrchestrator, instance: *mut c_void) -> *mut CError {
    // SAFETY: `build` made it.
    let chain = unsafe { &*instance.cast::<ChainInC>() };
    let host = host();
    // SAFETY: a tensor is words, which may be zero.
    let mut datum: CTensor = unsafe { zeroed() };
    let (data, shape) = ([0f32], [1usize]);
    check!((host.plimsoll_own)(o, data.as_ptr().cast(), 4, F32_IN_C, shape.as_ptr(), 1, &raw mut datum));
    // SAFETY: an argument is numbers and pointers, which may be zero.
    let args = [CArg { use_: uses::INOUT, tensor: &raw const datum, ..unsafe { zeroed() } }];
    for first in (0..chain.tasks).step_by(SCOPE) {
        check!((host.plimsoll_scope_open)(o, c"chain.c".as_ptr(), 1));
        for _ in first..(first + SCOPE).min(chain.tasks) {
            check!((host.plimsoll_submit)(o, chain.update, args.as_ptr(), 1, null_mut(), 0));
        }
        check!((host.plimsoll_scope_close)(o));
    }
    null_mut()
}
