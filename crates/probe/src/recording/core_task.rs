//! Kind 3 of cores behind mailboxes: the scheduler reserves a record with the dispatch, the core stamps it, the scheduler
//! settles it with the finish.

use super::RecordingLane;
use super::counter_reading::CounterReader;
use crate::{CoreSpan, CountedExecution, DispatchSpan, Reserved, Stamper, TaskAmounts};
use plimsoll_abi::record::{AicoreTask, AicpuTask};
use plimsoll_abi::{CoreId, Flags};
use plimsoll_shm::{LaneContext, PoolView, Region, Reservation, ReservedSlot, Reserver, StagingRing, World, stamp};
use std::cell::RefCell;

/// Dispatches that a core holds at once: one runs, one waits.
const IN_FLIGHT: usize = 2;

type PoolReserver<'r> = Reserver<'r, AicoreTask, PoolView<'r, AicoreTask>>;

/// The records of one core that its scheduler reserved.
pub(super) struct CoreReserver<'r> {
    /// Nothing if the run does not record them.
    reserver: Option<PoolReserver<'r>>,
    /// The slots in flight, by token.
    places: [Option<ReservedSlot>; IN_FLIGHT],
}

impl<'r> CoreReserver<'r> {
    pub(super) fn new(region: &'r Region, core: u16) -> Self {
        Self { reserver: region.pool(core).map(Reserver::new), places: [None, None] }
    }

    pub(super) fn flush<W: World>(&mut self, context: &mut LaneContext<'r, W>) {
        if let Some(reserver) = &mut self.reserver {
            reserver.flush(context);
        }
    }

    /// Lets go of the pool, unless a core may still write there.
    pub(super) fn release<W: World>(&mut self, context: &mut LaneContext<'r, W>) {
        if let Some(reserver) = &mut self.reserver {
            reserver.release(context);
        }
    }
}

impl<W: World> RecordingLane<'_, W> {
    #[inline]
    pub(super) fn reserve_task(&mut self, core: CoreId, token: u32) -> Reserved {
        let CoreReserver { reserver, places } = &mut self.reservers[core.index()];
        let Some(reserver) = reserver else { return Reserved::Place(ReservedSlot::NONE) };
        match reserver.reserve(token, &mut self.context) {
            Reservation::Slot(place) => {
                let word = place.word();
                places[token as usize % IN_FLIGHT] = Some(place);
                Reserved::Place(word)
            }
            Reservation::Dropped => Reserved::Place(ReservedSlot::NONE),
            Reservation::Later => Reserved::Later,
        }
    }

    pub(super) fn cancel_task(&mut self, core: CoreId, token: u32) {
        let CoreReserver { reserver, places } = &mut self.reservers[core.index()];
        if let (Some(reserver), Some(place)) = (reserver, places[token as usize % IN_FLIGHT].take()) {
            reserver.cancel(place);
        }
    }

    #[inline]
    pub(super) fn settle_task(&mut self, core: CoreId, token: u32) {
        let CoreReserver { reserver, places } = &mut self.reservers[core.index()];
        if let (Some(reserver), Some(place)) = (reserver, places[token as usize % IN_FLIGHT].take()) {
            debug_assert_eq!(place.token(), token, "a record is settled with its own token");
            reserver.settle(place, &mut self.context);
        }
    }

    #[inline]
    pub(super) fn write_dispatch(&mut self, span: &DispatchSpan<u64>) {
        if self.flags.has(Flags::TASK_LIFECYCLE) {
            let record = AicpuTask {
                dispatch: span.dispatch,
                finish: span.finish,
                task: span.task.with_round(self.round),
                token: span.token,
                kernel: span.kernel.0,
            };
            self.cores[span.core.index()].aicpu_task.push(record, &mut self.context);
        }
    }
}

/// What one core behind a mailbox writes with.
#[derive(Debug)]
pub struct RecordingStamper<'r> {
    pool: Option<PoolView<'r, AicoreTask>>,
    /// Where the core stages what it counted, and its counters; none if they are not recorded.
    counters: Option<(&'r StagingRing, RefCell<CounterReader>)>,
}

impl<'r> RecordingStamper<'r> {
    pub(super) fn new(
        region: &'r Region,
        core: CoreId,
        counters: Option<(&'r StagingRing, RefCell<CounterReader>)>,
    ) -> Self {
        Self { pool: region.pool(core.0), counters }
    }
}

impl Stamper for RecordingStamper<'_> {
    #[inline]
    unsafe fn stamp(&self, place: u64, span: &CoreSpan) {
        let Some(pool) = self.pool else { return };
        let record = AicoreTask {
            start: span.start,
            end: span.end,
            task: span.task.with_round(span.round),
            token: span.token,
            receive_and_kernel: AicoreTask::pack(span.start.saturating_sub(span.receive), span.kernel.0),
        };
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { stamp(pool, place, span.token, record) };
    }

    #[inline]
    fn counts(&self) -> bool {
        self.counters.is_some()
    }

    #[inline]
    fn begin_counting(&self) {
        if let Some((_, reader)) = &self.counters {
            reader.borrow_mut().begin();
        }
    }

    #[inline]
    fn stage(&self, execution: &CountedExecution, stamp: u32, amounts: impl FnOnce() -> TaskAmounts) {
        if let Some((ring, reader)) = &self.counters {
            let reading = reader.borrow_mut().end(execution, execution.round, amounts);
            ring.stage(execution.token, stamp, &reading);
        }
    }
}
