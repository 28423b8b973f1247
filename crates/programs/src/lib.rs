//! Built-in programs. Each computes something real and checks it against an independent golden result.
//!
//! The ordinary ones keep every scope small, so that any size runs in rings of the default size. The `fault-` ones go
//! wrong on purpose, one per error code; with other settings, or larger rings, the same program passes.

#![deny(unsafe_code)]
// A kernel's type lists what it does with each argument. An alias would only move the list away from the kernel.
#![allow(clippy::type_complexity)]

mod cholesky;
mod decode_layer;
mod dense;
mod fault;
mod lu;
mod matmul;
mod mixed;
mod noise;
mod paged_attention;
mod program;
mod settings;
mod sliding;
mod spmd;
mod stencil;
mod vector;
mod verdict;
mod wavefront;

pub use program::{Buffers, Hosted, Instance, Program};
pub use settings::{ProgramSetting, Settings, SettingsError};
pub use verdict::Verdict;

/// Every program, in the order that lists show them.
pub const ALL: &[Program] = &[
    vector::PROGRAM,
    matmul::PROGRAM,
    cholesky::PROGRAM,
    wavefront::PROGRAM,
    stencil::PROGRAM,
    lu::PROGRAM,
    sliding::PROGRAM,
    spmd::PROGRAM,
    mixed::PROGRAM,
    paged_attention::PROGRAM,
    decode_layer::PROGRAM,
    fault::scope_deadlock::PROGRAM,
    fault::heap::PROGRAM,
    fault::flow_control::PROGRAM,
    fault::dep_pool::PROGRAM,
    fault::args::PROGRAM,
    fault::sync_start::PROGRAM,
    fault::wait::PROGRAM,
    fault::fatal::PROGRAM,
    fault::tensormap::PROGRAM,
    fault::kernel_error::PROGRAM,
    fault::panic::PROGRAM,
    fault::nan::PROGRAM,
    fault::deadline::PROGRAM,
    fault::hang::PROGRAM,
    fault::hang::SPIN,
    fault::crash::ABORT,
    fault::crash::SEGFAULT,
    fault::scheduler::PROGRAM,
    fault::orchestrator::PROGRAM,
];

/// Every program, for devices in processes of their own: `plimsoll::device_main(plimsoll_programs::registered())`.
pub fn registered() -> impl Iterator<Item = plimsoll_runtime::Registered> {
    ALL.iter().map(Program::registered)
}

/// The program of this name.
pub fn find(name: &str) -> Option<&'static Program> {
    ALL.iter().find(|program| program.name == name)
}
