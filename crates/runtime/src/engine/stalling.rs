//! Ports of the emulated engine that make one scheduler thread stand still before one of its dispatches: for tests, and for
//! the program that shows such a hang.

use crate::error::{Error, Result};
use crate::options::RunOptions;
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_platform::Host;
use plimsoll_platform::ports::{Order, Ports, Receipt};
use plimsoll_sched::CoreThreads;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When and for how long a scheduler stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulerStall {
    /// The scheduler's agent, from 1; with 0 every one that makes so many dispatches.
    pub scheduler: u16,
    /// How many dispatches it makes first.
    pub after: u64,
    /// How long it lasts; for ever if this is not given.
    pub lasts: Option<Duration>,
}

/// One scheduler's ports to its cores.
pub(super) struct StallingPorts<'p> {
    ports: &'p CoreThreads<Host>,
    /// How long it stands still, if it does at all.
    lasts: Option<Option<Duration>>,
    /// Dispatches that are left until it stands still.
    left: AtomicU64,
}

impl<'p> StallingPorts<'p> {
    pub(super) fn new(ports: &'p CoreThreads<Host>, agent: AgentId, stall: Option<SchedulerStall>) -> Self {
        let stall = stall.filter(|stall| stall.scheduler == 0 || stall.scheduler == agent.0);
        let left = AtomicU64::new(stall.map_or(u64::MAX, |stall| stall.after));
        Self { ports, lasts: stall.map(|stall| stall.lasts), left }
    }

    #[cold]
    fn stand_still(&self, lasts: Option<Duration>) {
        let since = Instant::now();
        while lasts.is_none_or(|lasts| since.elapsed() < lasts) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Ports for StallingPorts<'_> {
    #[inline]
    fn dispatch(&self, core: CoreId, order: Order, kernel: u32, elements: impl FnOnce() -> u64) {
        if let Some(lasts) = self.lasts {
            // Relaxed: one thread alone uses it.
            let left = self.left.load(Ordering::Relaxed);
            self.left.store(left.wrapping_sub(1), Ordering::Relaxed);
            if left == 0 {
                self.stand_still(lasts);
            }
        }
        self.ports.dispatch(core, order, kernel, elements);
    }

    fn collect(&self, agent: AgentId) -> Option<Receipt> {
        self.ports.collect(agent)
    }

    fn has_receipt(&self, agent: AgentId) -> bool {
        self.ports.has_receipt(agent)
    }

    fn have_reported(&self, agent: AgentId) -> bool {
        self.ports.have_reported(agent)
    }

    fn configure(&self, agent: AgentId, last: impl Fn(CoreId) -> u32) {
        self.ports.configure(agent, last);
    }

    fn dismiss(&self, agent: AgentId) {
        self.ports.dismiss(agent);
    }

    fn have_left(&self, agent: AgentId) -> bool {
        self.ports.have_left(agent)
    }

    fn part_with(&self, agent: AgentId, core: CoreId) {
        self.ports.part_with(agent, core);
    }

    fn adopt(&self, agent: AgentId, core: CoreId) {
        self.ports.adopt(agent, core);
    }

    fn cores_lost(&self) -> bool {
        self.ports.cores_lost()
    }
}

/// Refuses to make a scheduler stand still where none is a thread of its own.
pub(super) fn refuse(options: &RunOptions) -> Result<()> {
    match options.scheduler_stall {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "No scheduler can be made to stand still here. Only on the engine `emulated` schedulers are threads of their own. Choose that engine, or settings with which none stands still.",
        )),
    }
}
