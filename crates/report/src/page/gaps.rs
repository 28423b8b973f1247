//! When agents waited for the recorder, by lane: the swimlane hatches these times.

use std::collections::BTreeMap;

use plimsoll_trace::Trace;

use super::columns::{Column, ColumnPart, Packing};
use super::lanes::{PageLane, ns_at};

/// The scheduler phase that such a wait is recorded as.
pub(super) const PHASE: &str = "recorder_wait";

/// Adds the waits of all lanes, in the order of the lanes, and tells each lane how many are its own. An agent's waits are on
/// its own lane and, if it executes tasks itself, on its worker's.
pub(super) fn put<'l>(trace: &Trace, lanes: impl Iterator<Item = &'l mut PageLane>, columns: &mut Packing) {
    let waits = by_agent(trace);
    if waits.is_empty() {
        return;
    }
    let mut gap = Column::new("gap.gap", ColumnPart::Scheduler);
    let mut length = Column::new("gap.length", ColumnPart::Scheduler);
    for lane in lanes {
        let own = lane.agent.and_then(|agent| waits.get(&agent)).map_or(&[][..], Vec::as_slice);
        lane.gaps = own.len();
        let mut last = 0;
        for (start, end) in own {
            gap.put_signed(*start as i64 - last as i64);
            length.put(end - start);
            last = *end;
        }
    }
    columns.extend([gap, length]);
}

/// Start and end of every wait in nanoseconds, in order of time, by agent.
fn by_agent(trace: &Trace) -> BTreeMap<u16, Vec<(u64, u64)>> {
    let phases = &trace.sched_phases;
    let mut waits = BTreeMap::new();
    for agent in 0..phases.agents {
        let own = phases.of_agent(agent).filter(|at| phases.names.name(phases.name[*at]) == PHASE);
        let mut own: Vec<(u64, u64)> = own
            .map(|at| {
                let start = ns_at(&trace.clock, phases.start[at]);
                (start, ns_at(&trace.clock, phases.end[at]).max(start))
            })
            .collect();
        if !own.is_empty() {
            own.sort_unstable();
            waits.insert(agent, own);
        }
    }
    waits
}
