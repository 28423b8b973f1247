//! The probe that does nothing. Its stamp is the empty type `()`, so that even the code around a call vanishes.

use crate::{CoreSpan, DispatchSpan, Lane, PhaseSpan, Probe, Reserved, ReservedSlot, ScopeEvent, Stamper, TaskSpan};
use plimsoll_abi::record::SubmitRecord;
use plimsoll_abi::{AgentId, CoreId, Flags, TaskId};

/// Records nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Probe for Off {
    type Lane<'p> = Off;

    #[inline]
    fn lane(&self, _: AgentId) -> Off {
        Off
    }

    type Stamper<'p> = Off;

    #[inline]
    fn stamper(&self, _: CoreId) -> Off {
        Off
    }
}

impl Stamper for Off {
    #[inline]
    unsafe fn stamp(&self, _: u64, _: &CoreSpan) {}
}

impl Lane for Off {
    type Stamp = ();

    #[inline]
    fn on(&self, _: Flags) -> bool {
        false
    }

    #[inline]
    fn meets(&self, _: Flags) -> bool {
        false
    }

    #[inline]
    fn stamp(&self) {}

    #[inline]
    fn ticks((): ()) -> Option<u64> {
        None
    }

    #[inline]
    fn gil_wait(&mut self, _: CoreId, _: u64, _: u64) {}

    #[inline]
    fn task(&mut self, _: &TaskSpan<()>) {}

    #[inline]
    fn reserve(&mut self, _: CoreId, _: u32) -> Reserved {
        Reserved::Place(ReservedSlot::NONE)
    }

    #[inline]
    fn cancel(&mut self, _: CoreId, _: u32) {}

    fn let_go(&mut self, _: CoreId) {}

    #[inline]
    fn settle(&mut self, _: CoreId, _: u32) {}

    #[inline]
    fn dispatched(&mut self, _: &DispatchSpan<()>) {}

    #[inline]
    fn wait_for_host(&mut self, _: u32) {}

    #[inline]
    fn sched_phase(&mut self, _: &PhaseSpan<()>) {}

    #[inline]
    fn orch_submit(&mut self, (): (), (): (), _: TaskId, _: u32) {}

    #[inline]
    fn scope(&mut self, _: &ScopeEvent<'_>) {}

    #[inline]
    fn submit_record(&mut self, _: &SubmitRecord) {}

    #[inline]
    fn set_round(&mut self, _: u32) {}

    #[inline]
    fn flush(&mut self) {}
}
