//! The engine `emulated` in a process of its own: what the host knows of it, and the link to it. What runs there is the engine of
//! `emulated.rs`, and everything above it; see `isolate.rs`.

use super::{EmulatedOptions, Engine, EngineFacts, EngineOrder, Lead, Round, RoundOutcome, chip};
use crate::error::Result;
use crate::isolate::{Link, refuse_closure};
use crate::shape::ShapeLimits;
use plimsoll_abi::{AgentId, RINGS};
use plimsoll_collect::Drive;
use plimsoll_platform::{Clock, CoreClass};
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::{KernelEntry, Shared};

/// A device's process.
pub(super) struct IsolatedEngine {
    facts: EngineFacts,
    limits: ShapeLimits,
    link: Link,
    clock: Clock,
}

impl IsolatedEngine {
    pub(super) fn open(options: &EmulatedOptions, order: &EngineOrder) -> Result<Self> {
        let link = Link::start()?;
        let facts = link.open(options, order)?;
        let limits = chip::limits(&options.arch, facts.cores.len());
        Ok(Self { facts, limits, link, clock: Clock::new() })
    }
}

// SAFETY: it runs nothing in this process.
unsafe impl Engine for IsolatedEngine {
    fn facts(&self) -> EngineFacts {
        self.facts.clone()
    }

    fn workers(&self) -> usize {
        self.facts.cores.len()
    }

    fn limits(&self) -> ShapeLimits {
        self.limits
    }

    fn check_kernels(&self, kernels: &[KernelEntry]) -> Result<()> {
        let cores: Vec<(CoreClass, AgentId)> =
            self.facts.cores.iter().map(|&(class, owner)| (class, AgentId(owner))).collect();
        chip::check_kernels(&cores, kernels)
    }

    fn share(&self, rings: [Capacity; RINGS]) -> std::io::Result<Shared> {
        Shared::with_cores(self.facts.agents.len(), self.facts.cores.len(), rings)
    }

    fn drive(&self) -> Drive {
        Drive::Thread
    }

    fn clock_pair(&self, elapsed_ns: u64) -> (u64, u64) {
        (self.clock.ticks(), elapsed_ns)
    }

    fn run(&mut self, _: &Round<'_>, _: Lead<'_>) -> Result<RoundOutcome> {
        Err(refuse_closure())
    }

    fn link(&self) -> Option<&Link> {
        Some(&self.link)
    }
}
