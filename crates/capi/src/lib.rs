//! Plimsoll for C and C++: what stands behind `include/plimsoll.h`.
//!
//! It is a thin layer over [`plimsoll::untyped`]: handles are opaque, every entry catches panics, errors are objects with
//! text. Each function is one row of [`entries`]; the prototypes in the header, and the table of functions that plug-ins are
//! handed, are made from the same rows, and a test holds the header against them.
//!
//! The other way round, [`plugin`] is what loads a shared object with programs in it: `plimsoll_plugin.h`.
//!
//! Kernels are functions of a [`types::CCall`], in whatever language made them: [`call::native_kernel`] is also what other
//! bindings register them with.

pub mod call;
mod device;
pub mod entries;
mod entry;
mod error;
mod orchestrator;
pub mod plugin;
pub mod settings;
pub mod types;
mod views;
pub mod wording;

pub use device::CDevice;
pub use error::CError;
pub use orchestrator::COrchestrator;
