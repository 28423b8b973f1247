//! Tensors as views of buffers, and the dependencies that follow from how tasks use them.
//!
//! Pure: nothing here knows of threads, rings or clocks. The orchestrator runs this code with a bounded table on the
//! device side; the host runs the same code with an unbounded one to write the dependencies down.
#![forbid(unsafe_code)]

mod footprint;
mod layout;
mod tensormap;

pub use footprint::{BufferShape, Footprint};
pub use layout::{Layout, LayoutError};
pub use tensormap::{BufferRef, BufferUse, Conflict, Dependency, DependencySource, Edges, Mark, Tensormap, User};
