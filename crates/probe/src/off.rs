//! The probe that does nothing. Its stamp is the empty type `()`, so that even the code around a call vanishes.

use crate::{CoreSpan, DispatchSpan, Lane, PhaseSpan, Probe, Reserved, ReservedSlot, ScopeEvent, Stamper, TaskSpan};
use plimsoll_abi::record::SubmitRecord;
use plimsoll_abi::{AgentId, CoreId, Flags, TaskId};

/// Records nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Probe for Off {
    type Lane<'p> = Off;

    #[inline(always)]
    fn lane(&self, _: AgentId) -> Off {
        Off
    }

    type Stamper<'p> = Off;

    #[inline(always)]
    fn stamper(&self, _: CoreId) -> Off {
        Off
    }
}

impl Stamper for Off {
    #[inline(always)]
    unsafe fn stamp(&self, _: u64, _: &CoreSpan) {}
}

impl Lane for Off {
    type Stamp = ();

    #[inline(always)]
    fn on(&self, _: Flags) -> bool {
        false
    }

    #[inline(always)]
    fn meets(&self, _: Flags) -> bool {
        false
    }

    #[inline(always)]
    fn stamp(&self) {}

    #[inline(always)]
    fn ticks((): ()) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn gil_wait(&mut self, _: u64, _: u64) {}

    #[inline(always)]
    fn task(&mut self, _: &TaskSpan<()>) {}

    #[inline(always)]
    fn reserve(&mut self, _: CoreId, _: u32) -> Reserved {
        Reserved::Place(ReservedSlot::NONE)
    }

    #[inline(always)]
    fn cancel(&mut self, _: CoreId, _: u32) {}

    #[inline(always)]
    fn settle(&mut self, _: CoreId, _: u32) {}

    #[inline(always)]
    fn dispatched(&mut self, _: &DispatchSpan<()>) {}

    #[inline(always)]
    fn wait_for_host(&mut self, _: u32) {}

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
