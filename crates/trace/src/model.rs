//! The model of a run that everything after reading works on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_abi::record::Kind;
use plimsoll_abi::{CoreClass, TaskId};
use serde::Serialize;

use crate::deps::Dependencies;
use crate::{
    CounterTable, Executions, HostPhases, Liveness, Manifest, NO_TICKS, OrchPhases, Quality, RunClock, SchedPhases,
    ScopeSamples,
};

/// What a trace was read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A run directory of ours.
    Run(PathBuf),
    /// Files of the reference system.
    Reference(Vec<PathBuf>),
}

/// The reference's runtime whose task ids have no rings.
pub(crate) const HOST_BUILD_GRAPH: &str = "host_build_graph";
/// Where ids of that runtime have ten bits that it leaves free: several runs in one file are told apart there.
pub(crate) const RINGLESS_EPOCH_BIT: u32 = 52;
/// The mask of those bits, at the bottom.
pub(crate) const RINGLESS_EPOCHS: u64 = 0x3ff;

/// What people call a task whose id is made as this runtime of the reference makes them; ring and number if it is none.
pub(crate) fn task_name(runtime: &str, word: u64) -> String {
    let (id, round) = id_and_epoch(runtime, word);
    let local = id as u32;
    let name = match id >> 62 {
        _ if runtime != HOST_BUILD_GRAPH => TaskId::from_word(id).0.to_string(),
        1 => format!("g{}t{local}", id >> 32 & 0xf_ffff),
        2 => format!("p{local}"),
        _ => format!("t{local}"),
    };
    match round {
        0 => name,
        round => format!("{name}@{round}"),
    }
}

/// The id and the round of a task whose id is made as this runtime makes them.
pub(crate) fn id_and_epoch(runtime: &str, word: u64) -> (u64, u64) {
    if runtime == HOST_BUILD_GRAPH {
        let epoch = word >> RINGLESS_EPOCH_BIT & RINGLESS_EPOCHS;
        return (word & !(RINGLESS_EPOCHS << RINGLESS_EPOCH_BIT), epoch);
    }
    let (task, round) = TaskId::from_word(word);
    (task.raw(), u64::from(round))
}

/// What a run was.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Facts {
    /// The program or test, if a file names it.
    pub program: String,
    /// The engine; empty if unknown.
    pub engine: String,
    /// The arch; empty if unknown.
    pub arch: String,
    /// Whether time is virtual.
    #[serde(rename = "virtual")]
    pub virtual_time: bool,
    /// Whether the arch is emulated.
    pub emulated: bool,
    /// The swimlane level; 0 without swimlane records.
    pub level: u8,
    /// How task ids of the reference's newest files are made; empty for all others, whose ids are ring and number.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
}

/// A compute core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Core {
    /// What it can run.
    pub core_type: CoreClass,
    /// The agent that hands it its tasks, if known.
    pub agent: Option<u16>,
}

/// What the segments of a run directory held of one pool, counted by the reader itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolCount {
    /// The record kind.
    pub kind: Kind,
    /// The core or agent.
    pub instance: u16,
    /// Records that were drained while the run lived.
    pub collected: u64,
    /// Records that were read out of the region afterwards.
    pub recovered: u64,
}

/// A run, as columns.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What it was read from.
    pub source: Source,
    /// Files of the reference that were named besides a run directory of ours.
    pub named: Vec<PathBuf>,
    /// What it was.
    pub facts: Facts,
    /// The manifest of a run directory.
    pub manifest: Option<Manifest>,
    /// Whether the run lived when it was read.
    pub liveness: Liveness,
    /// Its clock; the origin is the first tick of any record.
    pub clock: RunClock,
    /// Its cores, by number.
    pub cores: Vec<Core>,
    /// Names of agents, by number; may be shorter than there are agents.
    pub agents: Vec<String>,
    /// Executions of tasks on cores.
    pub executions: Executions,
    /// Scheduler phases.
    pub sched_phases: SchedPhases,
    /// Submits.
    pub orch_phases: OrchPhases,
    /// Samples of scopes.
    pub scopes: ScopeSamples,
    /// Tasks, arguments and edges, if they were recorded.
    pub deps: Option<Dependencies>,
    /// Readings of hardware counters, if there are some.
    pub counters: CounterTable,
    /// What the host did, if that was recorded.
    pub host_phases: HostPhases,
    /// Names of kernels, by number.
    pub kernels: BTreeMap<u32, String>,
    /// The orchestration's name, if a file has it.
    pub orchestrator: Option<String>,
    /// Records per pool, counted in the segments; empty for other sources.
    pub pools: Vec<PoolCount>,
    /// What is wrong with the input.
    pub quality: Quality,
}

impl Trace {
    /// A trace of nothing.
    pub fn empty(source: Source) -> Self {
        Self {
            source,
            named: Vec::new(),
            facts: Facts::default(),
            manifest: None,
            liveness: Liveness::Ended,
            clock: RunClock::new(1e9, 0),
            cores: Vec::new(),
            agents: Vec::new(),
            executions: Executions::default(),
            sched_phases: SchedPhases::default(),
            orch_phases: OrchPhases::default(),
            scopes: ScopeSamples::default(),
            deps: None,
            counters: CounterTable::default(),
            host_phases: HostPhases::default(),
            kernels: BTreeMap::new(),
            orchestrator: None,
            pools: Vec::new(),
            quality: Quality::default(),
        }
    }

    /// A kernel's name, or its number if no file names it.
    pub fn kernel_name(&self, kernel: u32) -> Cow<'_, str> {
        match self.kernels.get(&kernel) {
            Some(name) => Cow::Borrowed(name.as_str()),
            None => Cow::Owned(format!("kernel {kernel}")),
        }
    }

    /// What people call a task: `r2t17`, and its round if it is not the first; `t17`, `g3t17` and `p17` where ids have no
    /// rings.
    pub fn task_name(&self, word: u64) -> String {
        task_name(&self.facts.runtime, word)
    }

    /// The word of a task's name.
    pub fn task_word(name: &str) -> Option<u64> {
        let (name, round) = name.split_once('@').unwrap_or((name, "0"));
        if let Some((ring, local)) = name.strip_prefix('r').and_then(|rest| rest.split_once('t')) {
            return Some(TaskId::new(ring.parse().ok()?, local.parse().ok()?).with_round(round.parse().ok()?));
        }
        let epoch: u64 = round.parse().ok().filter(|epoch| *epoch <= RINGLESS_EPOCHS)?;
        Some(Self::ringless_word(name)? | epoch << RINGLESS_EPOCH_BIT)
    }

    fn ringless_word(name: &str) -> Option<u64> {
        if let Some((parent, local)) = name.strip_prefix('g').and_then(|rest| rest.split_once('t')) {
            let parent: u64 = parent.parse().ok().filter(|parent| *parent < 1 << 20)?;
            return Some(1 << 62 | parent << 32 | u64::from(local.parse::<u32>().ok()?));
        }
        if let Some(local) = name.strip_prefix('p') {
            return Some(2 << 62 | u64::from(local.parse::<u32>().ok()?));
        }
        name.strip_prefix('t')?.parse::<u32>().ok().map(u64::from)
    }

    /// A task's id without its round, as files with a column for the round write it, and the round.
    pub fn id_and_epoch(&self, word: u64) -> (u64, u64) {
        id_and_epoch(&self.facts.runtime, word)
    }

    /// Whether ids of tasks are ring and number.
    pub fn ids_have_rings(&self) -> bool {
        self.facts.runtime != HOST_BUILD_GRAPH
    }

    /// The round of a task.
    pub fn round(&self, word: u64) -> u64 {
        self.id_and_epoch(word).1
    }

    /// Whether cores are workers of a CPU run, which people call so.
    pub fn has_workers(&self) -> bool {
        !self.cores.is_empty() && self.cores.iter().all(|c| c.core_type == CoreClass::Any)
    }

    /// What people call a core.
    pub fn core_name(&self, core: u16) -> String {
        match self.cores.get(core as usize).map_or(CoreClass::Any, |c| c.core_type) {
            // What is not known of a chip's topology is not taken for threads of this machine.
            CoreClass::Any if self.facts.emulated && self.agents.is_empty() => format!("core {core}"),
            CoreClass::Any => format!("worker {core}"),
            typed => format!("{} core {core}", typed.name()),
        }
    }

    /// What people call an agent.
    pub fn agent_name(&self, agent: u16) -> String {
        match self.agents.get(agent as usize) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("scheduler {agent}"),
        }
    }

    /// What people call an agent as one that submits. Files of the reference number submitters apart from schedulers.
    pub fn submitter_name(&self, agent: u16) -> String {
        match (&self.source, self.agents.get(agent as usize)) {
            (Source::Reference(_), None) if self.orch_phases.agent.last().is_none_or(|last| *last == 0) => {
                "orchestrator".to_string()
            }
            (Source::Reference(_), None) => format!("orchestrator {agent}"),
            _ => self.agent_name(agent),
        }
    }

    /// The first and the last tick of any record; none if there is no record with a time.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let executions = &self.executions;
        let mut first = u64::MAX;
        let mut last = 0;
        let mut see = |tick: u64| {
            if tick != NO_TICKS {
                first = first.min(tick);
                last = last.max(tick);
            }
        };
        for at in 0..executions.len() {
            see(executions.start(at));
            see(executions.end(at).unwrap_or(NO_TICKS));
            if let Some((dispatch, finish)) = executions.lifecycle(at) {
                see(dispatch);
                see(finish);
            }
        }
        for agent in self.sched_phases.totals.iter().filter(|agent| agent.span.0 <= agent.span.1) {
            see(agent.span.0);
            see(agent.span.1);
        }
        let phases = [&self.orch_phases.start, &self.orch_phases.end];
        phases.into_iter().flatten().copied().for_each(&mut see);
        if self.scopes.timed {
            self.scopes.samples.iter().map(|s| s.at).for_each(&mut see);
        }
        // What was running at the end of the run ran to that end.
        if (0..executions.len()).any(|at| executions.end(at).is_none()) {
            let last = self.manifest.as_ref().and_then(|manifest| manifest.clock.pairs.last());
            last.iter().for_each(|pair| see(pair.tick));
        }
        (first <= last).then_some((first, last))
    }

    /// Makes the first tick of any record the clock's zero.
    pub(crate) fn settle_origin(&mut self) {
        let origin = self.extent().map_or(0, |(first, _)| first);
        self.clock = self.clock.with_origin(origin);
    }
}
