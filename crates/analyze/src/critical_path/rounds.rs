//! Where rounds begin on a path, and what its parts are blamed on: the verdict leaves out what lies between two rounds.

use plimsoll_trace::Trace;

use super::{PathStep, RecordedFacts, Ticks, Wait, divide};
use crate::task_table::{NONE, TaskTable};
use crate::verdict::Blame;

/// When the first submit of each round began.
pub(super) fn first_submits(trace: &Trace) -> Vec<(u64, u64)> {
    let orch = &trace.orch_phases;
    let mut rounds: Vec<(u64, u64)> = Vec::new();
    // Submits of one round follow each other, so the round that was seen last is nearly always the one.
    let mut last = 0;
    for at in 0..orch.len() {
        let round = trace.round(orch.task[at]);
        if rounds.get(last).is_none_or(|(of, _)| *of != round) {
            last = rounds.iter().position(|(of, _)| *of == round).unwrap_or_else(|| {
                rounds.push((round, u64::MAX));
                rounds.len() - 1
            });
        }
        rounds[last].1 = rounds[last].1.min(orch.start[at]);
    }
    rounds
}

impl RecordedFacts {
    pub(crate) fn round_begin(&self, round: u64) -> Option<u64> {
        self.rounds.iter().find(|(of, _)| *of == round).map(|(_, begin)| *begin)
    }
}

impl PathStep {
    /// The round of the step's task, if the task that it followed is of another one.
    pub(crate) fn begins_round(&self, trace: &Trace, table: &TaskTable) -> Option<u64> {
        let round = |task: u32| trace.round(table.word[task as usize]);
        (self.pred != NONE && round(self.pred) != round(self.task)).then(|| round(self.task))
    }
}

/// The parts of a step that the verdict weighs. What lies before the path's first task is divided by its causes, as any
/// other wait, if submits tell them. What lies between rounds is left out.
pub(super) fn to_blame(
    trace: &Trace,
    table: &TaskTable,
    step: &PathStep,
    parts: &Ticks,
    known: &RecordedFacts,
) -> Ticks {
    match step.begins_round(trace, table) {
        Some(_) => Ticks { front_gap: 0, ..*parts },
        None if step.kind == Wait::FrontGap && known.submit => {
            divide(trace, table, &PathStep { kind: Wait::DataWait, ..*step }, known)
        }
        // What lies before the path's first task may have been anything.
        None if !known.submit => {
            Ticks { scheduling: parts.scheduling.saturating_add(parts.front_gap), front_gap: 0, ..*parts }
        }
        None => *parts,
    }
}

impl Ticks {
    /// What the parts of a whole path are blamed on.
    pub(super) fn blame(&self, trace: &Trace, between_rounds: u64) -> Blame {
        let ns = |parts: &[u64]| trace.clock.ns(parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part)));
        Blame {
            kernel_ns: ns(&[self.kernel, self.gil_wait]),
            // What of a front gap no submit explains counts as one: nothing that the task needed ran before it.
            submit_ns: ns(&[self.submit, self.front_gap]),
            ring_ns: ns(&[self.ring_wait]),
            wait_ns: ns(&[self.scheduling, self.data_wait, self.core_wait]),
            recorder_ns: ns(&[self.recorder_wait]),
            between_rounds_ns: ns(&[between_rounds]),
        }
    }
}
