//! The orchestrator's API, scopes, ring sizes, and the life of a run.
//!
//! A [`Device`] owns rings, worker threads and kernels. A run is a closure over an [`Orchestrator`], which submits tasks
//! on [`Tensor`]s; the dependencies follow from how tasks use them.

mod arg;
mod buffer;
mod cancel;
mod conduct;
mod costs;
mod device;
mod element;
#[doc(hidden)]
pub mod engine;
mod error;
mod guard;
mod kernel;
mod options;
mod orchestrator;
mod prebuilt;
mod record;
mod record_options;
mod report;
mod seal;
mod sink;
mod tensor;
pub mod untyped;
mod view;

pub use arg::{
    Args, InputList, List, Output, ScalarArg, Scratch, SubmitArg, Untracked, Use, UseKind, inout, input, input_list,
    no_dep, no_dep_inout, output, output_existing, scalar,
};
pub use buffer::SharedBuffer;
pub use cancel::CancelToken;
pub use costs::CostTable;
pub use device::{Builder, Device};
pub use element::{Bool, Element, Pod};
pub use engine::{EmulatedOptions, EngineKind, VirtualOptions};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use kernel::{IntoKernel, Kernel, KernelReturn, Param, Read, ReadList, ReadWrite, Scalar, Value, Write};
pub use options::{Capacities, ParseSizeError, RunOptions, parse_bytes, parse_per_ring};
pub use orchestrator::{Dep, Orchestrator};
pub use prebuilt::Prebuilt;
pub use record::error_report;
pub use record_options::{RecordOptions, RunPlace};
pub use report::{Load, RunReport, WorkerReport};
pub use tensor::Tensor;
pub use view::{In, InList, InOut, Out};

pub use plimsoll_abi as abi;
pub use plimsoll_collect::{BufferSizes, Ledger, Policy};
pub use plimsoll_platform::virtual_time::{Faults, Hang, KernelCost, Pause, Random, Who};
pub use plimsoll_platform::{ArchSpec, CoreClass, Costs};
pub use plimsoll_sched::KernelError;
pub use plimsoll_sched::ring::Capacity;
