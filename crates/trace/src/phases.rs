//! What schedulers and orchestrators did, as columns.

use std::collections::VecDeque;

use plimsoll_abi::TaskId;
use plimsoll_abi::record::SchedPhaseKind;

use crate::NO_TICKS;

/// Names of phases by number; the first are those this build writes, the rest are what files held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhaseNames {
    names: Vec<String>,
}

impl Default for PhaseNames {
    fn default() -> Self {
        Self { names: SchedPhaseKind::ALL.iter().map(|k| k.name().to_string()).collect() }
    }
}

impl PhaseNames {
    /// Most names that are told apart; a file with more is broken and shares the last.
    const MAX: usize = 1024;

    /// The number of a name, which is added if it is new.
    pub fn intern(&mut self, name: &str) -> u16 {
        if let Some(at) = self.names.iter().position(|n| n == name) {
            return at as u16;
        }
        if self.names.len() < Self::MAX {
            self.names.push(name.to_string());
        }
        (self.names.len() - 1) as u16
    }

    /// The name with this number.
    pub fn name(&self, number: u16) -> &str {
        self.names.get(number as usize).map_or("?", String::as_str)
    }

    /// Whether a phase of this name may overlap other phases of the same loop, because it lies inside one of them or some of
    /// them lie inside it. Sums of phases leave such a phase out, so that no time counts twice.
    pub fn is_inner(name: &str) -> bool {
        matches!(name, "resolve" | "drain_prepare" | "drain_publish" | "ring_wait" | "recorder_wait" | "gil_wait")
    }

    /// Whether a phase of this name is what a thread did before and after its loops.
    pub fn is_lifecycle(name: &str) -> bool {
        matches!(
            name,
            "handshake"
                | "config"
                | "topology"
                | "context_publish"
                | "bootstrap_wait"
                | "register_release"
                | "exit_signal"
                | "exit_wait"
        )
    }

    /// Whether this build, or the reference, writes phases of this name.
    pub fn is_known(name: &str) -> bool {
        const REFERENCE: [&str; 33] = [
            "async_poll",
            "dummy",
            "early_dispatch",
            "drain",
            "drain_prepare",
            "drain_publish",
            "dummy_task",
            "predicated_skip",
            "scan",
            "poll",
            "idle",
            "fanout",
            "prestage",
            "complete",
            "dispatch",
            "release",
            "bootstrap",
            "state_probe",
            "worksteal",
            "refill",
            "resolve_standalone",
            "graph_prepare",
            "ready_claim",
            "ready_steal",
            "direct_refill",
            "handshake",
            "config",
            "topology",
            "context_publish",
            "bootstrap_wait",
            "register_release",
            "exit_signal",
            "exit_wait",
        ];
        SchedPhaseKind::ALL.iter().any(|k| k.name() == name) || REFERENCE.contains(&name)
    }
}

/// Which phases of schedulers are kept one by one. Unless it is `None`, the totals are of all phases, kept or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PhaseRows {
    /// No phase is kept, and no totals are computed.
    None,
    /// Only waits for a ring and for the recorder. They are enough to explain a run's time, and the other phases are several
    /// per task.
    Waits,
    /// Every one.
    #[default]
    All,
}

/// Scheduler phases, grouped by agent and in the order they were recorded.
#[derive(Clone, Debug, Default)]
pub struct SchedPhases {
    /// Which agent.
    pub agent: Vec<u16>,
    /// Which phase, by [`PhaseNames`].
    pub name: Vec<u16>,
    /// Begin, in ticks.
    pub start: Vec<u64>,
    /// End, in ticks.
    pub end: Vec<u64>,
    /// The scheduler's loop count.
    pub loop_iter: Vec<u32>,
    /// Tasks dealt with.
    pub tasks: Vec<u32>,
    /// Looks into a ready queue that found a task.
    pub pop_hit: Vec<u32>,
    /// Looks that found none.
    pub pop_miss: Vec<u32>,
    /// The names.
    pub names: PhaseNames,
    /// The sums over all phases of each agent, whether or not the phases are kept one by one. Agents behind the last one
    /// with phases have no entry.
    pub totals: Vec<PhaseTotals>,
    /// How many agents there are, with or without phases.
    pub agents: u16,
    keep: PhaseRows,
}

/// What the phases of one scheduler add up to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhaseTotals {
    /// Number of records of the phase.
    pub count: u64,
    /// The largest loop count of the run that was added last.
    loops: u32,
    /// Looks into ready queues that found a task.
    pub pop_hit: u64,
    /// Looks that found none.
    pub pop_miss: u64,
    /// Count and sum of ticks of each phase, by its number in [`PhaseNames`].
    pub by_name: Vec<(u64, u64)>,
    /// From the first begin to the last end of any phase; the first is later than the last if there is none.
    pub span: (u64, u64),
    /// From the first begin to the last end of a complete or dispatch phase of the run that was added last; the first is later than
    /// the last if there is none.
    loop_span: (u64, u64),
    /// Which run of a file that holds several was added last, and the loops and the ticks of loop spans of those before it.
    epoch: Option<u64>,
    loops_before: u64,
    loop_ticks_before: u64,
    /// Ticks of each phase inside the loop spans, by its number in [`PhaseNames`].
    pub in_loops: Vec<u64>,
    /// Ticks of each phase after the last complete or dispatch phase. The next complete or dispatch phase extends `loop_span`
    /// beyond them, and they are added to `in_loops`.
    since: Vec<u64>,
    /// The newest phases recorded before the first complete or dispatch phase. A phase is recorded when it ends, so phases that
    /// lie inside that first one are among these.
    early: VecDeque<(u16, u64, u64)>,
}

/// Most phases that are recorded before a complete or dispatch phase that they lie in.
const MOST_EARLY: usize = 64;

impl Default for PhaseTotals {
    fn default() -> Self {
        let none = (u64::MAX, 0);
        Self {
            count: 0,
            loops: 0,
            pop_hit: 0,
            pop_miss: 0,
            by_name: Vec::new(),
            span: none,
            loop_span: none,
            epoch: None,
            loops_before: 0,
            loop_ticks_before: 0,
            in_loops: Vec::new(),
            since: Vec::new(),
            early: VecDeque::new(),
        }
    }
}

impl PhaseTotals {
    /// The largest loop count, summed over the runs of a file that holds several.
    pub fn loops(&self) -> u64 {
        self.loops_before + u64::from(self.loops)
    }

    /// Ticks from the first begin to the last end of a complete or dispatch phase, summed likewise.
    pub fn loop_ticks(&self) -> u64 {
        let (first, last) = self.loop_span;
        self.loop_ticks_before.saturating_add(last.saturating_sub(first))
    }

    /// Begins another run: loop counts start again in it, and what lies before its first loop is in no loop.
    fn begin_epoch(&mut self, epoch: u64) {
        if self.epoch.replace(epoch).is_none_or(|before| before == epoch) {
            return;
        }
        (self.loops_before, self.loop_ticks_before) = (self.loops(), self.loop_ticks());
        (self.loops, self.loop_span) = (0, (u64::MAX, 0));
        self.since.fill(0);
        self.early.clear();
    }

    fn add(&mut self, row: &SchedPhaseRow) {
        if let Some(epoch) = row.epoch {
            self.begin_epoch(epoch);
        }
        self.count += 1;
        self.loops = self.loops.max(row.loop_iter);
        self.pop_hit += u64::from(row.pop_hit);
        self.pop_miss += u64::from(row.pop_miss);
        let name = usize::from(row.name);
        if self.by_name.len() <= name {
            self.by_name.resize(name + 1, (0, 0));
        }
        let (count, ticks) = &mut self.by_name[name];
        *count += 1;
        *ticks = ticks.saturating_add(row.end.saturating_sub(row.start));
        for at in [row.start, row.end].into_iter().filter(|at| *at != NO_TICKS) {
            self.span = (self.span.0.min(at), self.span.1.max(at));
        }
        if matches!(row.name, COMPLETE | DISPATCH) {
            self.extend_loops(row);
        } else if self.loop_span.0 > self.loop_span.1 {
            self.early.push_back((row.name, row.start, row.end));
            if self.early.len() > MOST_EARLY {
                self.early.pop_front();
            }
        } else {
            self.place(row.name, row.start, row.end);
        }
    }

    /// Makes the loop span reach to the end of a complete or dispatch phase, and counts what it covers now.
    fn extend_loops(&mut self, row: &SchedPhaseRow) {
        self.loop_span = (self.loop_span.0.min(row.start), self.loop_span.1.max(row.end));
        for (inside, since) in self.in_loops.iter_mut().zip(&mut self.since) {
            *inside = inside.saturating_add(std::mem::take(since));
        }
        for (name, start, end) in std::mem::take(&mut self.early) {
            self.place(name, start, end);
        }
        self.place(row.name, row.start, row.end);
    }

    /// Counts the part of a phase that lies in the loop span, and keeps the part behind it.
    fn place(&mut self, name: u16, start: u64, end: u64) {
        let (first, last) = self.loop_span;
        let at = usize::from(name);
        if self.in_loops.len() <= at {
            self.in_loops.resize(at + 1, 0);
            self.since.resize(at + 1, 0);
        }
        let inside = end.min(last).saturating_sub(start.max(first));
        self.in_loops[at] = self.in_loops[at].saturating_add(inside);
        self.since[at] = self.since[at].saturating_add(end.saturating_sub(start.max(last)));
    }
}

const COMPLETE: u16 = SchedPhaseKind::Complete as u16;
const DISPATCH: u16 = SchedPhaseKind::Dispatch as u16;
const RING_WAIT: u16 = SchedPhaseKind::RingWait as u16;
const RECORDER_WAIT: u16 = SchedPhaseKind::RecorderWait as u16;
const GIL_WAIT: u16 = SchedPhaseKind::GilWait as u16;

/// One phase of a scheduler, to be added.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedPhaseRow {
    /// Which phase, by [`PhaseNames`].
    pub name: u16,
    /// Begin, in ticks.
    pub start: u64,
    /// End, in ticks.
    pub end: u64,
    /// The scheduler's loop count; of a `gil_wait` the core.
    pub loop_iter: u32,
    /// Tasks dealt with.
    pub tasks: u32,
    /// Looks into a ready queue that found a task.
    pub pop_hit: u32,
    /// Looks that found none.
    pub pop_miss: u32,
    /// Which run of a file that holds several; absent where files do not say.
    pub epoch: Option<u64>,
}

impl SchedPhases {
    /// No phases yet; says which of those to come are kept.
    pub fn keeping(keep: PhaseRows) -> Self {
        Self { keep, ..Self::default() }
    }

    /// How many phases are kept.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Whether there were phases, kept or not.
    pub fn were_recorded(&self) -> bool {
        !self.totals.is_empty()
    }

    /// The name of phase `at`.
    pub fn name_of(&self, at: usize) -> &str {
        self.names.name(self.name[at])
    }

    /// Makes room for so many phases, if they will be kept.
    pub fn reserve(&mut self, phases: usize) {
        if self.keep != PhaseRows::All {
            return;
        }
        self.agent.reserve_exact(phases);
        self.name.reserve_exact(phases);
        self.start.reserve_exact(phases);
        self.end.reserve_exact(phases);
        for column in [&mut self.loop_iter, &mut self.tasks, &mut self.pop_hit, &mut self.pop_miss] {
            column.reserve_exact(phases);
        }
    }

    /// Adds a phase of `agent`; agents must come in ascending order.
    pub fn push(&mut self, agent: u16, row: SchedPhaseRow) {
        if self.keep == PhaseRows::None {
            return;
        }
        if self.totals.len() <= usize::from(agent) {
            self.totals.resize_with(usize::from(agent) + 1, PhaseTotals::default);
        }
        self.agents = self.agents.max(agent.saturating_add(1));
        self.totals[usize::from(agent)].add(&row);
        if self.keep == PhaseRows::Waits && !matches!(row.name, RING_WAIT | RECORDER_WAIT | GIL_WAIT) {
            return;
        }
        self.agent.push(agent);
        self.name.push(row.name);
        self.start.push(row.start);
        self.end.push(row.end);
        self.loop_iter.push(row.loop_iter);
        self.tasks.push(row.tasks);
        self.pop_hit.push(row.pop_hit);
        self.pop_miss.push(row.pop_miss);
    }

    /// The phases of one agent that are kept.
    pub fn of_agent(&self, agent: u16) -> std::ops::Range<usize> {
        range_of(&self.agent, agent)
    }
}

/// Submits of orchestrators, grouped by agent and in order of submission.
#[derive(Clone, Debug, Default)]
pub struct OrchPhases {
    /// Which agent.
    pub agent: Vec<u16>,
    /// Begin, in ticks.
    pub start: Vec<u64>,
    /// End, in ticks.
    pub end: Vec<u64>,
    /// Task id and round.
    pub task: Vec<u64>,
    /// How many submits came before.
    pub submit_idx: Vec<u32>,
    /// Which phase, for the older files that told several apart; empty if all are submits.
    pub name: Vec<u16>,
    /// The names.
    pub names: PhaseNames,
}

impl OrchPhases {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Adds a submit of `agent`; agents must come in ascending order.
    pub fn push(&mut self, agent: u16, start: u64, end: u64, task: u64, submit_idx: u32) {
        self.agent.push(agent);
        self.start.push(start);
        self.end.push(end);
        self.task.push(task);
        self.submit_idx.push(submit_idx);
        if !self.name.is_empty() {
            let submit = self.names.intern("orch_submit");
            self.name.push(submit);
        }
    }

    /// Says that the phase added last is not a plain submit.
    pub fn name_last(&mut self, name: &str) {
        let submit = self.names.intern("orch_submit");
        let number = self.names.intern(name);
        self.name.resize(self.start.len(), submit);
        if let Some(last) = self.name.last_mut() {
            *last = number;
        }
    }

    /// The name of phase `at`.
    pub fn name_of(&self, at: usize) -> &str {
        self.name.get(at).map_or("orch_submit", |n| self.names.name(*n))
    }

    /// The task that submit `at` made, and its round.
    pub fn task_of(&self, at: usize) -> (TaskId, u32) {
        TaskId::from_word(self.task[at])
    }

    /// The submits of one agent.
    pub fn of_agent(&self, agent: u16) -> std::ops::Range<usize> {
        range_of(&self.agent, agent)
    }
}

fn range_of(agents: &[u16], agent: u16) -> std::ops::Range<usize> {
    agents.partition_point(|a| *a < agent)..agents.partition_point(|a| *a <= agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_clipped_to_the_span_of_complete_and_dispatch() {
        let mut phases = SchedPhases::keeping(PhaseRows::Waits);
        let park = phases.names.intern("park");
        let row = |name: u16, start: u64, end: u64| SchedPhaseRow { name, start, end, ..SchedPhaseRow::default() };
        let resolve = SchedPhaseKind::Resolve as u16;
        for phase in [
            row(park, 0, 90),
            row(resolve, 112, 118),
            row(COMPLETE, 110, 120),
            row(park, 120, 150),
            row(DISPATCH, 150, 160),
            row(park, 155, 1_000),
        ] {
            phases.push(0, phase);
        }
        phases.push(1, row(park, 0, 50));
        let totals = &phases.totals[0];
        assert_eq!(totals.loop_span, (110, 160));
        let inside = |name: u16| totals.in_loops[usize::from(name)];
        assert_eq!((inside(COMPLETE), inside(DISPATCH), inside(resolve), inside(park)), (10, 10, 6, 35));
        assert_eq!(totals.by_name[usize::from(park)], (3, 90 + 30 + 845));
        assert!(phases.totals[1].in_loops.is_empty(), "without loops everything lies outside");
    }

    #[test]
    fn loops_of_several_runs_are_summed() {
        let mut phases = SchedPhases::default();
        let mut add = |epoch: Option<u64>, name: u16, start: u64, loop_iter: u32| {
            let end = start + 10;
            phases.push(0, SchedPhaseRow { name, start, end, loop_iter, epoch, ..SchedPhaseRow::default() });
        };
        add(Some(7), DISPATCH, 100, 1);
        add(Some(7), COMPLETE, 190, 50);
        add(None, RING_WAIT, 500, 0);
        add(Some(8), DISPATCH, 1000, 1);
        add(Some(8), COMPLETE, 1040, 40);
        let totals = &phases.totals[0];
        assert_eq!((totals.loops(), totals.loop_ticks()), (90, 100 + 50));
        assert_eq!(totals.in_loops[usize::from(DISPATCH)], 20);
        assert_eq!(totals.in_loops[usize::from(RING_WAIT)], 0, "what lies between two runs is in no loop");
    }
}
