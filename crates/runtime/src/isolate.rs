//! A device in a process of its own: the same executable, started once more, which `main` hands over to [`device_main`].
//!
//! ```text
//!  host (the process that opened the device)            device (the child)
//!    spawn, Open{arch, sizes}     ─────────────────►    opens the emulated device
//!                                 ◄─────────────────    Opened{facts}
//!    Build{program, settings}     ─────────────────►    builds the program: kernels and buffers
//!                                 ◄─────────────────    Built{kernels, sizes of buffers}
//!    Run{options}, buffers, the region's descriptor ►   copies in, runs, records into the region
//!    Stop{code}, at any time      ─────────────────►    uses the run's token
//!                                 ◄─────────────────    Ended{report, error}, buffers
//!    Close                        ─────────────────►    exits
//! ```
//!
//! Any answer may be `Failed{error}` instead. All of it goes over one socket, which also ties the two lives:
//!
//! - L1. The child reads the socket all the time, on a thread of its own. When its other end is gone, the child kills itself,
//!   whatever its kernels do.
//! - L2. Besides, the child asks the system for a SIGKILL when the thread that started it ends. That thread lives as long as the
//!   device; it is not the caller's, which may end earlier.
//! - L3. The host never waits for the child without reading the socket: when the child is gone, whoever waits is told how it
//!   ended.
//! - L4. Both processes hold the one lock of the region, so a run counts as alive until neither lives.
//!
//! Orchestrator, schedulers, cores and kernels are in the child, and so a closure cannot be run there: a program is named,
//! and built there once more ([`Registered`]). Host buffers that the program declares are copied in before a run and out after
//! it, as on a device that has memory of its own.

mod child;
mod link;
mod message;
mod program;
mod run;
mod watch;

pub use child::device_main;
pub(crate) use link::Link;
pub use program::{DeviceBuffer, DeviceProgram, ProgramCall, Registered};

use crate::error::Error;

/// A closure, or a graph made of one, was to be run on a device in a process of its own.
pub(crate) fn refuse_closure() -> Error {
    Error::invalid(
        "A device in a process of its own cannot run a closure. Its code and what it holds are in this process. Register the program by name with plimsoll::device_main and run it with Device::run_program, or open the device without isolation.",
    )
}
