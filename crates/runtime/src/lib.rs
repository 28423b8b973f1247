//! The orchestrator's API, scopes, ring sizes, and the life of a run.
//!
//! A [`Device`] owns rings, worker threads and kernels. A run is a closure over an [`Orchestrator`], which submits tasks
//! on [`Tensor`]s; the dependencies follow from how tasks use them.

mod arg;
mod block;
mod buffer;
mod cancel;
mod conduct;
mod costs;
mod counted_kernels;
mod device;
mod element;
#[doc(hidden)]
pub mod engine;
mod error;
#[cfg(feature = "coroutines")]
mod guard;
mod isolate;
mod kernel;
mod options;
mod orchestrator;
mod prebuilt;
mod record;
mod record_options;
mod report;
mod rescue;
mod seal;
mod shape;
mod sink;
mod tensor;
pub mod untyped;
mod view;

pub use arg::{
    ArgList, Args, InputList, MarkedOutput, MarkedUse, Output, ScalarArg, Scratch, SubmitArg, TensorUse, Untracked,
    UseKind, inout, input, input_list, no_dep, no_dep_inout, output, output_existing, scalar,
};
pub use block::{Block, BlockKernel, BlockParam, BlockParams, InOutTile, IntoBlockKernel, OutTile, PartInOut, PartOut};
pub use buffer::SharedBuffer;
pub use bytemuck;
pub use cancel::CancelToken;
pub use costs::CostTable;
pub use device::{Builder, Device};
pub use element::{Bool, Element};
#[doc(hidden)]
pub use engine::SchedulerStall;
pub use engine::{EmulatedOptions, EngineKind, Straggler, VirtualOptions};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use isolate::{DeviceBuffer, DeviceProgram, ProgramCall, Registered, device_main};
pub use kernel::{IntoKernel, Kernel, KernelReturn, Param, Read, ReadList, ReadWrite, Scalar, Value, Write};
pub use options::{
    Capacities, HungHook, ParseDurationError, ParseSizeError, RunOptions, StillNotice, parse_bytes, parse_duration,
    parse_per_ring,
};
pub use orchestrator::{Dep, Orchestrator};
pub use plimsoll_probe::DumpRules;
pub use prebuilt::Prebuilt;
pub use record::{error_report, explain_run};
pub use record_options::{RecordOptions, RunPlace};
pub use report::{Load, RunReport, WorkerReport};
pub use shape::{BlockRoom, ShapeLimits, ShapedKernel, TaskShape};
pub use tensor::Tensor;
pub use view::{In, InList, InOut, Out};

pub use plimsoll_abi as abi;
pub use plimsoll_collect::{BufferSizes, Ledger, Policy, TransportKind};
#[doc(hidden)]
pub use plimsoll_platform::counters::{CounterChoice, reading_cost_ns as counter_reading_cost_ns};
pub use plimsoll_platform::virtual_time::{Faults, Hang, KernelCost, Pause, Random, Who};
pub use plimsoll_platform::{ArchSpec, CoreClass, Costs, Number, TooLarge};
pub use plimsoll_sched::agent::Pulse;
#[doc(hidden)]
pub use plimsoll_sched::bench::{RoundTrips, round_trips as mailbox_round_trips};
pub use plimsoll_sched::pipe::PipeError;
pub use plimsoll_sched::ring::Capacity;
pub use plimsoll_sched::site::Site;
pub use plimsoll_sched::{KernelError, WrongStamp};
