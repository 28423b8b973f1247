//! Kind 8: what counters counted during an execution. An agent that is its own core records it itself; a core behind a mailbox
//! stages it, and its scheduler commits it.

use super::RecordingLane;
use crate::{CountedExecution, TaskAmounts};
use plimsoll_abi::record::CounterReading;
use plimsoll_abi::{CoreId, CounterGroup};
use plimsoll_shm::{CounterValues, StagingRing, ThreadCounters, World};
use std::fmt;

/// What a run counts, and where cores behind mailboxes stage it. Lives as long as the recording, so every core has one address for
/// all rounds.
#[derive(Debug)]
pub struct CounterStaging {
    group: CounterGroup,
    rings: Box<[StagingRing]>,
}

impl CounterStaging {
    /// The staging of a run that counts `group` on `cores` cores.
    pub fn new(group: CounterGroup, cores: u16) -> Self {
        Self { group, rings: (0..cores).map(|_| StagingRing::default()).collect() }
    }

    /// What is counted.
    pub fn group(&self) -> CounterGroup {
        self.group
    }

    /// Where a core stages.
    pub(super) fn ring(&self, core: CoreId) -> &StagingRing {
        &self.rings[core.index()]
    }
}

/// The counters of one thread: read before and after each execution.
pub(super) struct CounterReader {
    group: CounterGroup,
    /// None if the system gave none, or the cost table says what is counted.
    counters: Option<Box<dyn ThreadCounters>>,
    /// The reading before the execution, if there is one.
    before: Option<CounterValues>,
}

impl fmt::Debug for CounterReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CounterReader({:?}, {})", self.group, self.counters.is_some())
    }
}

impl CounterReader {
    /// The counters of the calling thread.
    pub(super) fn open<W: World>(group: CounterGroup, world: &W) -> Self {
        let counters = if group == CounterGroup::Virtual { None } else { world.thread_counters(group) };
        Self { group, counters, before: None }
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        if let Some(counters) = &mut self.counters {
            self.before = counters.read();
        }
    }

    /// What was counted since `begin`.
    #[inline]
    pub(super) fn end(
        &mut self,
        execution: &CountedExecution,
        round: u32,
        amounts: impl FnOnce() -> TaskAmounts,
    ) -> CounterReading {
        let (counts, quality) = match &mut self.counters {
            Some(counters) => match (self.before, counters.read()) {
                (Some(before), Some(after)) => counted(&before, &after),
                _ => NOTHING,
            },
            None if self.group == CounterGroup::Virtual => {
                let TaskAmounts { elements, bytes } = amounts();
                ([elements, bytes, 0, 0], CounterReading::EXACT)
            }
            None => NOTHING,
        };
        CounterReading {
            task: execution.task.with_round(round),
            counts,
            token: execution.token,
            kernel: execution.kernel.0,
            group: self.group.number(),
            quality,
            pad: 0,
        }
    }
}

/// The reading of an execution during which nothing could be counted.
const NOTHING: ([u64; CounterGroup::MOST], u16) = ([0; CounterGroup::MOST], CounterReading::NOT_COUNTED);

/// What was counted between two readings, and how well.
fn counted(before: &CounterValues, after: &CounterValues) -> ([u64; CounterGroup::MOST], u16) {
    let wanted = after.wanted_ns.saturating_sub(before.wanted_ns);
    let counting = after.counted_ns.saturating_sub(before.counted_ns);
    let mut counts = std::array::from_fn(|at| after.counts[at].saturating_sub(before.counts[at]));
    match (wanted, counting) {
        _ if wanted == counting => (counts, CounterReading::EXACT),
        (_, 0) => NOTHING,
        _ => {
            for count in &mut counts {
                let all = u128::from(*count) * u128::from(wanted) / u128::from(counting);
                *count = u64::try_from(all).unwrap_or(u64::MAX);
            }
            (counts, CounterReading::ESTIMATED)
        }
    }
}

/// The counters of one agent's lane.
pub(super) struct LaneCounters<'r> {
    /// What is counted; none if counters are not recorded.
    staging: Option<&'r CounterStaging>,
    /// The counters of an agent that executes tasks itself; `None` before its first execution.
    reader: Option<CounterReader>,
}

impl<'r> LaneCounters<'r> {
    pub(super) fn new(staging: Option<&'r CounterStaging>) -> Self {
        Self { staging, reader: None }
    }
}

impl<W: World> RecordingLane<'_, W> {
    pub(super) fn read_counters(&mut self) {
        let LaneCounters { staging, reader } = &mut self.counters;
        if let Some(staging) = staging {
            reader.get_or_insert_with(|| CounterReader::open(staging.group, &self.context.world)).begin();
        }
    }

    pub(super) fn write_reading(&mut self, execution: &CountedExecution, amounts: impl FnOnce() -> TaskAmounts) {
        let Some(reader) = &mut self.counters.reader else { return };
        let reading = reader.end(execution, self.round, amounts);
        self.cores[execution.core.index()].counter_reading.push(reading, &mut self.context);
    }

    /// Commits what a core behind a mailbox has staged for a token that it has finished.
    #[inline]
    pub(super) fn commit_reading(&mut self, core: CoreId, token: u32) {
        if let Some(staging) = self.counters.staging {
            let writer = &mut self.cores[core.index()].counter_reading;
            staging.ring(core).commit(token, writer, &mut self.context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: u64, wanted_ns: u64, counted_ns: u64) -> CounterValues {
        CounterValues { counts: [count, 0, 0, 0], wanted_ns, counted_ns }
    }

    #[test]
    fn counters_that_were_shared_are_scaled_up_and_said_to_be() {
        assert_eq!(counted(&values(5, 10, 10), &values(9, 30, 30)), ([4, 0, 0, 0], CounterReading::EXACT));
        assert_eq!(counted(&values(5, 10, 10), &values(9, 30, 20)), ([8, 0, 0, 0], CounterReading::ESTIMATED));
        assert_eq!(counted(&values(5, 10, 10), &values(5, 30, 10)), ([0; 4], CounterReading::NOT_COUNTED));
    }
}
