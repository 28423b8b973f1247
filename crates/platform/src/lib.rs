//! The worlds a run can live in: clock, topology as data, parking.
//!
//! The scheduler and the orchestrator are generic over [`Platform`]. What differs between real threads and virtual
//! time is behind it; what differs between chips is a row of [`ArchSpec`].

mod arch;
mod clock;
mod coroutine;
#[cfg(not(loom))]
pub mod counters;
mod device_threads;
mod futex;
mod host;
mod parker;
pub mod ports;
#[cfg(feature = "coroutines")]
pub mod virtual_time;

/// The types of virtual time that are plain data, for builds without virtual time.
#[cfg(not(feature = "coroutines"))]
#[allow(dead_code)]
pub mod virtual_time {
    mod cost;
    mod fault;
    mod random;

    pub use cost::KernelCost;
    pub use fault::{Faults, Hang, Pause, Who};
    pub use random::Random;
}

pub use arch::{ArchSpec, Costs, Number, TooLarge};
pub use clock::Clock;
pub use coroutine::{TurnTaker, take_turns};
pub use device_threads::DeviceThreads;
pub use host::{Host, HostWorld};
pub use parker::Parker;
pub use plimsoll_abi::CoreClass;
#[cfg(feature = "coroutines")]
pub use virtual_time::{Virtual, VirtualWorld};

use plimsoll_abi::AgentId;
use plimsoll_shm::World;

/// What an agent should do after one step of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitAdvice {
    /// Look again.
    Again,
    /// Give up the CPU: announce the sleep, look once more, then park.
    Park,
}

/// Work that costs virtual time. On a real machine nothing is charged for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// One submit with its inference.
    Submit,
    /// Handing a task to a core.
    Dispatch,
    /// Taking note of a finished task and releasing those that waited for it.
    Complete,
}

/// The world that agents run in.
pub trait Platform: Sync {
    /// What the recorder sees of it.
    type World: World;

    /// Whether cores may be of several classes, so that ready tasks are kept apart by the class they want.
    const CLASSED: bool = false;

    /// Whether it matters where a task runs: on a real machine, handing a short one to another core costs more than
    /// running it.
    const WEIGHS: bool = false;

    /// Kernels shorter than this many ticks are light: better run where they became ready than handed to another agent.
    fn light_ticks(&self) -> u32 {
        0
    }

    /// The world of `agent`.
    fn world(&self, agent: AgentId) -> Self::World;

    /// One step of waiting without giving up the CPU; `step` counts up from 0.
    fn relax(&self, agent: AgentId, step: u32) -> WaitAdvice;

    /// Sleeps until [`Platform::unpark`] was called for this agent since its last park. May return early.
    fn park(&self, agent: AgentId);

    /// As [`Platform::park`], but not for long: about `micros` at most.
    fn doze(&self, agent: AgentId, micros: u32) {
        let _ = micros;
        self.park(agent);
    }

    /// Wakes `agent`, or lets its next park return at once.
    fn unpark(&self, agent: AgentId);

    /// Called by a sleeper between its announcement and its last look: makes sure that whoever does not see the
    /// announcement is seen. The other side pays only for [`Platform::light_barrier`].
    fn heavy_barrier(&self);

    /// Called between publishing work and looking for sleepers.
    fn light_barrier(&self);

    /// Spends virtual time.
    fn charge(&self, agent: AgentId, work: Work);

    /// Spends the virtual time of a kernel. How many elements its tensor arguments have is asked for where it matters.
    fn charge_kernel(&self, agent: AgentId, kernel: u32, elements: impl FnOnce() -> u64);

    /// Whether the run was given up, so that a kernel whose time has just been spent never ended. Only virtual time comes back
    /// from such a kernel.
    fn has_given_up(&self) -> bool {
        false
    }

    /// Nanoseconds since some moment in the past.
    fn nanos(&self) -> u64 {
        static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        ORIGIN.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }

    /// The address that records show for the run's host buffer `number`, which really is at `address`.
    #[inline]
    fn buffer_address(&self, number: u64, address: u64) -> u64 {
        let _ = number;
        address
    }

    /// Memory of a ring's heap was taken back; it will be given out again. Tests spoil it, so that a late reader shows.
    ///
    /// # Safety
    /// The bytes are mapped, and nobody reads or writes them before they are given out again.
    #[inline]
    unsafe fn reclaimed(&self, memory: *mut u8, bytes: usize) {
        let _ = (memory, bytes);
    }

    /// A kernel's body is about to run.
    #[inline]
    fn kernel_begins(&self, kernel: u32) {
        let _ = kernel;
    }

    /// The kernel's body has returned or panicked.
    #[inline]
    fn kernel_ends(&self) {}
}
