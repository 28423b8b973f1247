//! Threads of this machine in the part of a device: its schedulers and orchestrator.

use crate::{Host, HostWorld, Platform, WaitAdvice, Work};
use plimsoll_abi::AgentId;
use std::sync::Arc;

/// As [`Host`], whose places to sleep it shares, for agents that hand tasks to cores: tasks are kept apart by the class of
/// cores they want, and none is so light that an agent would rather execute it itself.
#[derive(Clone, Debug)]
pub struct DeviceThreads(pub Arc<Host>);

impl Platform for DeviceThreads {
    type World = HostWorld;
    const CLASSED: bool = true;

    fn world(&self, agent: AgentId) -> HostWorld {
        self.0.world(agent)
    }

    #[inline]
    fn relax(&self, agent: AgentId, step: u32) -> WaitAdvice {
        self.0.relax(agent, step)
    }

    fn park(&self, agent: AgentId) {
        self.0.park(agent);
    }

    fn doze(&self, agent: AgentId, micros: u32) {
        self.0.doze(agent, micros);
    }

    fn unpark(&self, agent: AgentId) {
        self.0.unpark(agent);
    }

    fn heavy_barrier(&self) {
        self.0.heavy_barrier();
    }

    #[inline]
    fn light_barrier(&self) {
        self.0.light_barrier();
    }

    #[inline]
    fn charge(&self, _: AgentId, _: Work) {}

    #[inline]
    fn charge_kernel(&self, _: AgentId, _: u32, _: impl FnOnce() -> u64) {}
}
