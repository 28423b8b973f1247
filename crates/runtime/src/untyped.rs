//! The tier below the typed one: kernels by id, arguments as descriptors, scopes opened and closed by calls.
//!
//! It is what other languages stand on, and whoever decides at run time what a program is. Everything that the typed tier
//! has the compiler check is checked when it is called, with the same errors: what a kernel takes, what a tensor is made of,
//! whose run and which scope it belongs to. A refused call fails the run, as there.
//!
//! ```
//! use plimsoll_runtime::untyped::{Arg, ElementSpec, Param, Task};
//! use plimsoll_runtime::abi::Dtype;
//! use plimsoll_runtime::{CoreClass, Device, RunOptions};
//!
//! # fn main() -> plimsoll_runtime::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! const F32: ElementSpec = ElementSpec::of(Dtype::F32);
//! // SAFETY: the body reads its first argument, writes its second, and stays inside both.
//! let double = unsafe {
//!     device.kernel_untyped(CoreClass::Any, "double", Some(&[Param::read(F32), Param::write(F32)]), |call| {
//!         let [from, to] = [call.arg(0), call.arg(1)].map(|arg| arg.expect("two are declared"));
//!         for i in 0..from.len() {
//!             // SAFETY: both are dense, and `i` is below the number of elements of each.
//!             unsafe { *to.data().cast::<f32>().add(i) = *from.data().cast::<f32>().add(i) * 2.0 };
//!         }
//!         Ok(())
//!     })
//! }?;
//! let mut out = [0u8; 16];
//! device.run_untyped(&RunOptions::default(), |o| {
//!     let x = o.own(bytes_of(&[1.0, 2.0, 3.0, 4.0]), F32, &[4])?;
//!     o.open_scope()?;
//!     let mut made = Vec::new();
//!     o.submit(&Task::new(double, &[Arg::input(&x), Arg::output(F32, &[4])]), &mut made)?;
//!     o.read(&made[0], &mut out)?;
//!     o.close_scope()
//! })?;
//! assert_eq!(out[..], bytes_of(&[2.0, 4.0, 6.0, 8.0]));
//! # Ok(())
//! # }
//! # fn bytes_of(values: &[f32]) -> Vec<u8> {
//! #     values.iter().flat_map(|value| value.to_ne_bytes()).collect()
//! # }
//! ```

mod arg;
mod call;
mod keep;
mod orchestrator;
mod submit;
mod tensor;

pub use arg::{Arg, ArgSource, Task};
pub use call::{Call, CallArg};
pub use orchestrator::Orchestrator;
pub use plimsoll_abi::record::ArgMode;
pub use plimsoll_platform::Clock;
pub use plimsoll_sched::args::{ArgView, ArgWords, PackedArg};
pub use plimsoll_sched::block::{BlockContext, current, pop, push};
pub use plimsoll_sched::signature::{Access, ElementSpec, Param, Share};
pub use tensor::{Submitted, Tensor};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel;
use crate::options::RunOptions;
use plimsoll_abi::KernelId;
use plimsoll_platform::CoreClass;
use plimsoll_sched::KernelError;
use plimsoll_sched::signature::Signature;
use plimsoll_sched::site::Site;

/// A kernel of a device, by id: registered here, or [by the typed tier](crate::Kernel::untyped).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    id: KernelId,
    device: u64,
}

impl Kernel {
    /// Its number on the device.
    pub fn id(&self) -> KernelId {
        self.id
    }

    /// As plain words, for other languages.
    pub fn to_words(self) -> [u64; 2] {
        [u64::from(self.id.0), self.device]
    }

    /// The kernel that such words stand for. Submits refuse it if there is none.
    #[inline]
    pub fn from_words([id, device]: [u64; 2]) -> Self {
        Self { id: KernelId(id as u32), device }
    }
}

impl<K> kernel::Kernel<K> {
    /// The same kernel for the untyped tier.
    pub fn untyped(&self) -> Kernel {
        Kernel { id: self.id, device: self.device }
    }
}

impl<K> crate::BlockKernel<K> {
    /// The same kernel for the untyped tier.
    pub fn untyped(&self) -> Kernel {
        self.kernel.untyped()
    }
}

impl Device {
    /// Registers a kernel whose body takes its arguments off a [`Call`]. With `params`, tasks with other arguments are
    /// refused; without, it is called with whatever they have.
    ///
    /// # Safety
    /// The body stays inside the views it is given, writes only those whose [`Access`] says so, and keeps no address of them
    /// for after its return. Without `params` that holds for any arguments.
    ///
    /// # Errors
    /// [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if the device has [`MOST_KERNELS`](Self::MOST_KERNELS) already.
    pub unsafe fn kernel_untyped(
        &mut self,
        class: CoreClass,
        name: &str,
        params: Option<&[Param]>,
        body: impl Fn(&Call<'_>) -> std::result::Result<(), KernelError> + Send + Sync + 'static,
    ) -> Result<Kernel> {
        // SAFETY: the caller's promise.
        unsafe { self.enter_untyped(class, name, params, false, body) }
    }

    /// As [`kernel_untyped`](Self::kernel_untyped), for a kernel that may be executed in blocks. The calls of a task's blocks have
    /// the same arguments; [`Call::block`] tells them apart. Parameters [by rows](Param::by_rows) are given whole, too: that
    /// only has the submit check that their rows can be divided.
    ///
    /// # Safety
    /// As for [`kernel_untyped`](Self::kernel_untyped); and no two blocks, nor parts of a mixed task, touch an element that one of them writes.
    ///
    /// # Errors
    /// As those of [`kernel_untyped`](Self::kernel_untyped).
    pub unsafe fn block_kernel_untyped(
        &mut self,
        class: CoreClass,
        name: &str,
        params: Option<&[Param]>,
        body: impl Fn(&Call<'_>) -> std::result::Result<(), KernelError> + Send + Sync + 'static,
    ) -> Result<Kernel> {
        // SAFETY: the caller's promise.
        unsafe { self.enter_untyped(class, name, params, true, body) }
    }

    /// Registers a kernel of either kind.
    ///
    /// # Safety
    /// As for [`kernel_untyped`](Self::kernel_untyped), and [`block_kernel_untyped`](Self::block_kernel_untyped) if it is
    /// `in_blocks`.
    unsafe fn enter_untyped(
        &mut self,
        class: CoreClass,
        name: &str,
        params: Option<&[Param]>,
        in_blocks: bool,
        body: impl Fn(&Call<'_>) -> std::result::Result<(), KernelError> + Send + Sync + 'static,
    ) -> Result<Kernel> {
        let fault = params.unwrap_or_default().iter().find_map(|param| param.element.fault());
        if let Some(fault) = fault {
            return Err(Error::invalid(format!("Kernel {name} cannot be registered. {fault}. Declare what it takes.")));
        }
        let signature = params.map_or(Signature::Any, |params| Signature::Exactly(params.into()));
        let call = Box::new(move |words: plimsoll_sched::args::ArgWords<'_>| body(&Call::new(words)));
        match self.enter_kernel(class, name, signature, in_blocks, call) {
            Some(id) => Ok(Kernel { id, device: self.number() }),
            None => Err(Error::invalid(format!(
                "Kernel {name} cannot be registered. The device has {} already, and room for no more. Register each kernel once, or spread them over devices.",
                Self::MOST_KERNELS
            ))),
        }
    }

    /// The kernel of this name; the first, if several have it.
    pub fn kernel_named(&self, name: &str) -> Option<Kernel> {
        let id = self.kernel_names().position(|known| known == name)?;
        Some(Kernel { id: KernelId(id as u32), device: self.number() })
    }

    /// What a kernel of this device takes, in order; nothing if it takes whatever it is given, or is another device's.
    pub fn kernel_params(&self, kernel: Kernel) -> Option<&[Param]> {
        let entry = self.kernels().get(kernel.id.index()).filter(|_| kernel.device == self.number())?;
        match &entry.signature {
            Signature::Exactly(params) => Some(params),
            Signature::Any => None,
        }
    }

    /// As [`run_with`](Self::run_with), with the untyped orchestrator.
    ///
    /// # Errors
    /// Those of the program and of its tasks; and [`InvalidArgs`](crate::abi::ErrorCode::InvalidArgs) if it leaves a scope open.
    #[track_caller]
    pub fn run_untyped<'env, R>(
        &mut self,
        options: &RunOptions,
        program: impl FnOnce(&mut Orchestrator<'_, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.run_with(options, |o| Orchestrator::drive(o, program))
    }

    /// As [`run_rounds`](Self::run_rounds), with the untyped orchestrator.
    ///
    /// # Errors
    /// As those of [`run_untyped`](Self::run_untyped).
    #[track_caller]
    pub fn run_rounds_untyped<'env>(
        &mut self,
        options: &RunOptions,
        rounds: u32,
        mut program: impl FnMut(u32, &mut Orchestrator<'_, 'env>) -> Result<()>,
    ) -> Result<()> {
        self.run_rounds(options, rounds, |round, o| Orchestrator::drive(o, |o| program(round, o)))
    }

    /// As [`prebuild`](Self::prebuild), with the untyped orchestrator.
    ///
    /// # Errors
    /// As those of [`run_untyped`](Self::run_untyped).
    #[track_caller]
    pub fn prebuild_untyped<'env>(
        &mut self,
        program: impl FnOnce(&mut Orchestrator<'_, 'env>) -> Result<()>,
    ) -> Result<crate::Prebuilt<'env>> {
        self.prebuild_untyped_with(&RunOptions::default(), Self::MOST_PREBUILT, program)
    }

    /// As [`prebuild_untyped`](Self::prebuild_untyped), of a program that submits `most` tasks at most, within budgets: the deadline, which
    /// building has for itself and not in virtual time, [`orch_timeout`](RunOptions::orch_timeout) and
    /// [`stall_timeout`](RunOptions::stall_timeout). Once one is used up, calls of the program fail, and so does this when the program has
    /// returned; if that makes none, [`on_hung`](RunOptions::on_hung) is told. Of the other options only the
    /// [`site`](RunOptions::site) counts.
    ///
    /// # Errors
    /// As those of [`run_untyped`](Self::run_untyped).
    #[track_caller]
    pub fn prebuild_untyped_with<'env>(
        &mut self,
        options: &RunOptions,
        most: usize,
        program: impl FnOnce(&mut Orchestrator<'_, 'env>) -> Result<()>,
    ) -> Result<crate::Prebuilt<'env>> {
        let site = options.site.unwrap_or(Site::caller());
        self.prebuild_at(site, most, options, |o| Orchestrator::drive(o, program))
    }
}
