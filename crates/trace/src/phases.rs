//! What schedulers and orchestrators did, as columns.

use plimsoll_abi::TaskId;
use plimsoll_abi::record::SchedPhaseKind;

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

    /// Whether the time of a phase of this name is in other phases, too: it lies inside another one of the same loop, or
    /// others may lie inside it.
    pub fn is_inner(name: &str) -> bool {
        matches!(name, "resolve" | "drain_prepare" | "drain_publish" | "ring_wait" | "recorder_wait")
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
    /// How many agents there are, with or without phases.
    pub agents: u16,
}

/// One phase of a scheduler, to be added.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedPhaseRow {
    /// Which phase, by [`PhaseNames`].
    pub name: u16,
    /// Begin, in ticks.
    pub start: u64,
    /// End, in ticks.
    pub end: u64,
    /// The scheduler's loop count.
    pub loop_iter: u32,
    /// Tasks dealt with.
    pub tasks: u32,
    /// Looks into a ready queue that found a task.
    pub pop_hit: u32,
    /// Looks that found none.
    pub pop_miss: u32,
}

impl SchedPhases {
    /// How many phases there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// The name of phase `at`.
    pub fn name_of(&self, at: usize) -> &str {
        self.names.name(self.name[at])
    }

    /// Adds a phase of `agent`; agents must come in ascending order.
    pub fn push(&mut self, agent: u16, row: SchedPhaseRow) {
        self.agents = self.agents.max(agent.saturating_add(1));
        self.agent.push(agent);
        self.name.push(row.name);
        self.start.push(row.start);
        self.end.push(row.end);
        self.loop_iter.push(row.loop_iter);
        self.tasks.push(row.tasks);
        self.pop_hit.push(row.pop_hit);
        self.pop_miss.push(row.pop_miss);
    }

    /// The phases of one agent.
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
    /// How many there are.
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
