//! The probe that does nothing. Its stamp is the empty type `()`, so that even the code around a call vanishes.

use crate::{Lane, PhaseSpan, Probe, ScopeEvent, TaskSpan};
use plimsoll_abi::record::SubmitRecord;
use plimsoll_abi::{AgentId, Flags, TaskId};

/// Records nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Probe for Off {
    type Lane<'p> = Off;

    #[inline(always)]
    fn lane(&self, _: AgentId) -> Off {
        Off
    }
}

impl Lane for Off {
    type Stamp = ();

    #[inline(always)]
    fn on(&self, _: Flags) -> bool {
        false
    }

    #[inline(always)]
    fn stamp(&self) {}

    #[inline(always)]
    fn stamp_at(&self, _: u64) {}

    #[inline(always)]
    fn task(&mut self, _: &TaskSpan<()>) {}

    #[inline(always)]
    fn sched_phase(&mut self, _: &PhaseSpan<()>) {}

    #[inline(always)]
    fn orch_submit(&mut self, (): (), (): (), _: TaskId, _: u32) {}

    #[inline(always)]
    fn scope(&mut self, _: &ScopeEvent<'_>) {}

    #[inline(always)]
    fn submit_record(&mut self, _: &SubmitRecord) {}

    #[inline(always)]
    fn set_round(&mut self, _: u32) {}

    #[inline(always)]
    fn flush(&mut self) {}
}
