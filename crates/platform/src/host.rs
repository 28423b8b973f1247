//! Real threads on this machine.

use crate::{Clock, Parker, Platform, WaitAdvice, Work};
use plimsoll_abi::AgentId;
use plimsoll_shm::World;
use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Instant;

/// How often a waiting agent looks before it yields.
const SPINS: u32 = 40;
/// The same where threads outnumber CPUs: whoever it waits for needs the CPU that it looks with.
const CROWDED_SPINS: u32 = 2;
/// How often it yields before it parks.
const YIELDS: u32 = 20;

/// About what it costs another core to fetch a task, its arguments and what they point to.
const LIGHT_NS: u128 = 300;

/// The threads of one device.
#[derive(Debug)]
pub struct Host {
    clock: Clock,
    /// What the clock showed when this was made, and when that was: tells the rate roughly, without measuring it first.
    since: (u64, Instant),
    parkers: Box<[Padded]>,
    spins: u32,
}

/// Each parker on lines of its own: sleepers do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Parker);

impl Host {
    /// Places to sleep for this many agents, all of them threads of their own.
    pub fn new(agents: usize) -> Self {
        Self::among(agents, agents)
    }

    /// Places to sleep for some of a device's threads.
    pub fn among(threads: usize, places: usize) -> Self {
        asymmetric_barriers();
        let clock = Clock::new();
        let since = (clock.ticks(), Instant::now());
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let spins = if threads > cpus { CROWDED_SPINS } else { SPINS };
        Self { clock, since, parkers: (0..places).map(|_| Padded::default()).collect(), spins }
    }

    /// Its clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

impl Platform for Host {
    type World = HostWorld;

    const WEIGHS: bool = true;

    fn light_ticks(&self) -> u32 {
        let nanos = self.since.1.elapsed().as_nanos().max(1);
        let ticks = u128::from(self.clock.ticks().saturating_sub(self.since.0));
        u32::try_from(LIGHT_NS * ticks / nanos).unwrap_or(u32::MAX).max(1)
    }

    fn world(&self, _: AgentId) -> HostWorld {
        HostWorld { clock: self.clock }
    }

    #[inline]
    fn relax(&self, _: AgentId, step: u32) -> WaitAdvice {
        if step < self.spins {
            // Waits longer between two looks each time: a look takes a cache line away from whoever publishes.
            (0..(2 + step).min(32)).for_each(|_| std::hint::spin_loop());
        } else if step < self.spins + YIELDS {
            std::thread::yield_now();
        } else {
            return WaitAdvice::Park;
        }
        WaitAdvice::Again
    }

    fn park(&self, agent: AgentId) {
        self.parkers[agent.index()].0.park();
    }

    fn doze(&self, agent: AgentId, micros: u32) {
        self.parkers[agent.index()].0.park_for(micros);
    }

    fn unpark(&self, agent: AgentId) {
        self.parkers[agent.index()].0.unpark();
    }

    fn heavy_barrier(&self) {
        if asymmetric_barriers() {
            // The process is registered, so the call cannot fail, and every running thread of the process executes a full
            // barrier before it returns.
            let _ = membarrier(MembarrierCommand::PrivateExpedited);
        }
        // SeqCst pairs(barrier.light): of two sides that store and then look, one sees the other's store.
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn light_barrier(&self) {
        // SeqCst pairs(barrier.light). If the heavy side puts a barrier into this thread, the compiler's order is enough.
        if BARRIERS.load(Ordering::Relaxed) == ASYMMETRIC {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn charge(&self, _: AgentId, _: Work) {}

    #[inline]
    fn charge_kernel(&self, _: AgentId, _: u32, _: impl FnOnce() -> u64) {}
}

const ASYMMETRIC: u32 = 1;
static BARRIERS: AtomicU32 = AtomicU32::new(0);

/// Whether the kernel can put a barrier into all our threads, so that the hot side needs none.
fn asymmetric_barriers() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        // A kernel that does not know the command says so.
        let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        if registered {
            // Relaxed: a thread that has not seen it executes a full fence, which is always right.
            BARRIERS.store(ASYMMETRIC, Ordering::Relaxed);
        }
        registered
    })
}

/// What the recorder sees of this machine.
#[derive(Clone, Copy, Debug)]
pub struct HostWorld {
    clock: Clock,
}

impl World for HostWorld {
    #[inline]
    fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    fn notify_host(&self) {
        // Does nothing: a run that records has a world of its own, which knows the collector's bell.
    }
}
