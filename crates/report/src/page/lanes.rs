//! The slices of the swimlane, lane by lane: cores, schedulers, orchestrators, scopes.

use std::collections::BTreeMap;

use plimsoll_abi::record::Kind;
use plimsoll_trace::deps::TaskNode;
use plimsoll_trace::{Quality, RunClock, Trace};
use serde::Serialize;

use super::columns::{Column, ColumnPart};
use super::{Subject, gaps, html};

/// A time in nanoseconds, as far as the scripts can count: only a broken file goes past a hundred days.
pub(super) fn ns_at(clock: &RunClock, tick: u64) -> u64 {
    clock.ns_at(tick).min((1 << 53) - 1)
}

/// One row of the swimlane.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PageLane {
    /// What people call it.
    pub(super) name: String,
    /// `orchestrator`, `scheduler`, `core` or `scope`.
    pub(super) kind: &'static str,
    /// The class of a core; empty for other lanes.
    pub(super) class: &'static str,
    /// The number of a core.
    pub(super) core: Option<u16>,
    /// How many slices it has.
    pub(super) count: usize,
    /// How many slices there are from the first recovered one to its last.
    pub(super) recovered: u64,
    /// How often it waited for the recorder.
    pub(super) gaps: usize,
    /// The agent whose waits for the recorder are its own.
    #[serde(skip)]
    pub(super) agent: Option<u16>,
}

/// The columns of all slices, in order of lanes and of start within a lane.
pub(super) struct Slices {
    pub(super) lanes: Vec<PageLane>,
    /// Slices that had not ended, by number.
    pub(super) open: Vec<u64>,
    pub(super) count: u64,
    gap: Column,
    length: Column,
    name: Column,
    task: Column,
}

/// One slice, in nanoseconds.
struct Slice {
    start: u64,
    end: Option<u64>,
    name: u64,
    /// Its task's place among all tasks, from 1; 0 if it is of none.
    task: u64,
}

impl Slices {
    fn new(part: ColumnPart, names: [&'static str; 4]) -> Self {
        let [gap, length, name, task] = names.map(|name| Column::new(name, part));
        Self { lanes: Vec::new(), open: Vec::new(), count: 0, gap, length, name, task }
    }

    pub(super) fn columns(self) -> [Column; 4] {
        [self.gap, self.length, self.name, self.task]
    }

    /// Adds a lane whose slices come in order of start. A start is told as its distance from the end before it.
    fn lane(&mut self, lane: PageLane, slices: impl Iterator<Item = Slice>, still: u64) {
        let mut last = 0;
        for slice in slices {
            let end = slice.end.unwrap_or(still).max(slice.start);
            if slice.end.is_none() {
                self.open.push(self.count);
            }
            self.gap.put_signed(slice.start as i64 - last as i64);
            self.length.put(end - slice.start);
            self.name.put(slice.name);
            self.task.put_delta(slice.task);
            last = end;
            self.count += 1;
        }
        self.lanes.push(lane);
    }
}

/// All tasks, each once, in order of round, ring and number: those that ran, and those that dependencies, counters and captured
/// arguments name besides.
pub(super) struct Tasks {
    words: Vec<u64>,
    /// Those of them that no execution tells of.
    without_times: Vec<u64>,
}

impl Tasks {
    pub(super) fn of(run: Subject<'_>) -> Self {
        let executions = &run.trace.executions;
        let words = sorted((0..executions.len()).map(|at| executions.word(at)).collect());
        let mut tasks = Self { words, without_times: Vec::new() };
        let mut last = 0;
        let named = named_tasks(run).map(|(word, _)| word);
        tasks.without_times = sorted(named.filter(|word| tasks.place(*word, &mut last) == 0).collect());
        if !tasks.without_times.is_empty() {
            tasks.words.extend(&tasks.without_times);
            tasks.words.sort_unstable();
        }
        tasks
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The kernels of tasks that no execution tells of, as far as they are known.
    fn kernels_without_times<'t>(&'t self, run: Subject<'t>) -> impl Iterator<Item = (u64, u32)> + 't {
        let all = (!self.without_times.is_empty()).then(|| named_tasks(run));
        let without = |word: &u64| self.without_times.binary_search(word).is_ok();
        all.into_iter()
            .flatten()
            .filter_map(|(word, kernel)| Some((word, kernel?)))
            .filter(move |(word, _)| without(word))
    }

    /// A task's place, from 1; 0 if nothing tells of it. Tasks of a ring are numbered without gaps, so the place is mostly one
    /// step from the last one that was asked for.
    #[inline]
    pub(super) fn place(&self, word: u64, last: &mut usize) -> u64 {
        let near = [*last, *last + 1].into_iter().find(|at| self.words.get(*at) == Some(&word));
        match near.or_else(|| self.words.binary_search(&word).ok()) {
            Some(at) => {
                *last = at;
                at as u64 + 1
            }
            None => 0,
        }
    }
}

/// Words in order, each once.
fn sorted(mut words: Vec<u64>) -> Vec<u64> {
    words.sort_unstable();
    words.dedup();
    words
}

/// The tasks that dependencies, counters and captured arguments name, with a kernel of each if one is known.
fn named_tasks(run: Subject<'_>) -> impl Iterator<Item = (u64, Option<u32>)> {
    let Subject { trace, answers } = run;
    let nodes = trace.deps.iter().flat_map(|deps| &deps.tasks);
    let kernel_of = |node: &TaskNode| node.kernels.iter().find_map(|kernel| u32::try_from(*kernel).ok());
    // Some files name no kernel of any task.
    let none = nodes.clone().any(|node| kernel_of(node).is_some()).then_some(NO_KERNEL);
    let of_nodes = nodes.map(move |node| (node.word, kernel_of(node).or(none)));
    let counters = &trace.counters;
    let of_readings = (0..counters.rows.len()).map(|at| (counters.rows[at].task, counters.kernel(at)));
    let captured = answers.dump.iter().flat_map(|dump| &dump.args);
    let of_captured = captured.map(|arg| {
        (arg.task.with_round(arg.round), arg.kernel_ids.iter().find_map(|kernel| u32::try_from(*kernel).ok()))
    });
    of_nodes.chain(of_readings).chain(of_captured)
}

/// Stands for the kernel of a task that has none: it only waits, or made a buffer.
const NO_KERNEL: u32 = u32::MAX;

/// The names of all slices in one table.
pub(super) struct PageNames {
    pub(super) all: Vec<String>,
    kernels: BTreeMap<u32, u64>,
    first_sched: u64,
    first_orch: u64,
    first_site: u64,
}

impl PageNames {
    pub(super) fn of(run: Subject<'_>, tasks: &Tasks) -> Self {
        let trace = run.trace;
        let mut all = vec!["(unknown)".to_string()];
        let mut kernels = BTreeMap::new();
        let mut last = None;
        for at in 0..trace.executions.len() {
            let kernel = trace.executions.kernel(at);
            if let Some(id) = kernel.filter(|_| kernel != last) {
                kernels.entry(id).or_insert(0);
            }
            last = kernel;
        }
        kernels.extend(tasks.kernels_without_times(run).map(|(_, kernel)| (kernel, 0)));
        for (id, place) in &mut kernels {
            *place = all.len() as u64;
            all.push(match *id {
                NO_KERNEL => "(no kernel)".to_string(),
                id => html::plain(&trace.kernel_name(id)),
            });
        }
        let first_sched = all.len() as u64;
        let phases = trace.sched_phases.name.iter().max().map_or(0, |most| most + 1);
        all.extend((0..phases).map(|number| html::plain(trace.sched_phases.names.name(number))));
        let first_orch = all.len() as u64;
        all.push("submit".to_string());
        let phases = trace.orch_phases.name.iter().max().map_or(0, |most| most + 1);
        all.extend((0..phases).map(|number| html::plain(trace.orch_phases.names.name(number))));
        let first_site = all.len() as u64;
        all.extend(trace.scopes.sites.iter().map(|site| html::plain(site)));
        Self { all, kernels, first_sched, first_orch, first_site }
    }

    /// What each task would have run that no slice tells of.
    pub(super) fn of_tasks_without_times(&self, run: Subject<'_>, tasks: &Tasks) -> Option<Column> {
        if tasks.without_times.is_empty() {
            return None;
        }
        let (mut named, mut last) = (vec![0; tasks.words.len()], 0);
        for (word, kernel) in tasks.kernels_without_times(run) {
            if let (Some(name), place @ 1..) = (self.kernels.get(&kernel), tasks.place(word, &mut last)) {
                named[place as usize - 1] = *name;
            }
        }
        let mut column = Column::new("task.name", ColumnPart::Tasks);
        named.into_iter().for_each(|name| column.put(name));
        Some(column)
    }

    /// How many names are those of kernels, the unknown one among them.
    pub(super) fn kernels(&self) -> u64 {
        self.first_sched
    }
}

/// The slices of cores, never left out, with what the scheduler saw of each.
pub(super) fn cores(trace: &Trace, tasks: &Tasks, names: &PageNames, still: u64) -> (Slices, Vec<Column>) {
    let mut slices = Slices::new(ColumnPart::Tasks, ["core.gap", "core.length", "core.name", "core.task"]);
    let (executions, clock) = (&trace.executions, &trace.clock);
    let mut dispatch = Column::new("core.dispatch", ColumnPart::Scheduler);
    let mut finish = Column::new("core.finish", ColumnPart::Scheduler);
    let mut last = 0;
    for core in 0..trace.cores.len().min(1 << 16) {
        let core = core as u16;
        let range = executions.of_core(core);
        let lane = PageLane {
            name: trace.core_name(core),
            kind: "core",
            class: trace.cores[core as usize].core_type.name(),
            core: Some(core),
            count: range.len(),
            recovered: recovered_tail(trace, core),
            gaps: 0,
            agent: trace.cores[core as usize].agent.filter(|_| trace.has_workers()),
        };
        let of_core = range.map(|at| {
            let (start, end) = (ns_at(clock, executions.start(at)), executions.end(at).map(|end| ns_at(clock, end)));
            if executions.has_lifecycle() {
                let (from, to) = executions
                    .lifecycle(at)
                    .map_or((start, end.unwrap_or(start)), |(from, to)| (ns_at(clock, from), ns_at(clock, to)));
                dispatch.put_signed(start as i64 - from as i64);
                finish.put_signed(to as i64 - end.unwrap_or(start) as i64);
            }
            let name = executions.kernel(at).and_then(|kernel| names.kernels.get(&kernel)).copied().unwrap_or(0);
            Slice { start, end, name, task: tasks.place(executions.word(at), &mut last) }
        });
        slices.lane(lane, of_core, still);
    }
    let seen = if executions.has_lifecycle() { vec![dispatch, finish] } else { Vec::new() };
    (slices, seen)
}

/// How many executions there are from the first recovered one to a core's last. The recovered records are a core's last; an execution that
/// had not ended has no record, and stands among them.
fn recovered_tail(trace: &Trace, core: u16) -> u64 {
    let pools = trace.pools.iter().filter(|p| p.kind == Kind::AicoreTask && p.instance == core);
    let Some(earlier) = pools.map(|p| p.recovered as usize).sum::<usize>().checked_sub(1) else { return 0 };
    let range = trace.executions.of_core(core);
    let mut ended = range.clone().rev().filter(|at| trace.executions.end(*at).is_some());
    ended.nth(earlier).map_or(range.len(), |first| range.end - first) as u64
}

/// The slices of orchestrators, schedulers and scopes.
pub(super) fn others(trace: &Trace, tasks: &Tasks, names: &PageNames, still: u64) -> Slices {
    let mut slices = Slices::new(ColumnPart::Scheduler, ["agent.gap", "agent.length", "agent.name", "agent.task"]);
    orchestrators(trace, tasks, names, still, &mut slices);
    schedulers(trace, names, still, &mut slices);
    scopes(trace, names, still, &mut slices);
    slices
}

fn lane(name: &str, kind: &'static str, count: usize, recovered: usize) -> PageLane {
    let recovered = recovered as u64;
    PageLane { name: html::plain(name), kind, class: "", core: None, count, recovered, gaps: 0, agent: None }
}

/// Where the recovered records of a pool begin, of as many as it has: they are its last.
fn first_recovered(trace: &Trace, kind: Kind, instance: u16, records: usize) -> usize {
    let pools = trace.pools.iter().filter(|pool| (pool.kind, pool.instance) == (kind, instance));
    records.saturating_sub(pools.map(|pool| pool.recovered as usize).sum())
}

fn orchestrators(trace: &Trace, tasks: &Tasks, names: &PageNames, still: u64, slices: &mut Slices) {
    let (orch, clock) = (&trace.orch_phases, &trace.clock);
    let mut last = 0;
    for agent in (0..=u16::MAX).take(orch.agent.last().map_or(0, |last| usize::from(*last) + 1)) {
        let range = orch.of_agent(agent);
        if range.is_empty() {
            continue;
        }
        let several = orch.agent.first() != orch.agent.last();
        let name = if several { format!("orchestrator {agent}") } else { "orchestrator".to_string() };
        let first_recovered = range.start + first_recovered(trace, Kind::OrchPhase, agent, range.len());
        let order = by_start(range, |at| (orch.start[at], orch.end[at]));
        let recovered = order.iter().filter(|at| **at >= first_recovered).count();
        let of_agent = order.iter().map(|&at| Slice {
            start: ns_at(clock, orch.start[at]),
            end: Some(ns_at(clock, orch.end[at])),
            name: names.first_orch + orch.name.get(at).map_or(0, |name| u64::from(*name) + 1),
            task: tasks.place(orch.task[at], &mut last),
        });
        // The reference numbers orchestrators and schedulers apart: one whose number has another name is not that agent.
        let own = trace.agent_name(agent).starts_with("orchestrator").then_some(agent);
        let lane = PageLane { agent: own, ..lane(&name, "orchestrator", order.len(), recovered) };
        slices.lane(lane, of_agent, still);
    }
}

fn schedulers(trace: &Trace, names: &PageNames, still: u64, slices: &mut Slices) {
    let (sched, clock) = (&trace.sched_phases, &trace.clock);
    for agent in 0..sched.agents {
        let range = sched.of_agent(agent);
        let first_recovered = range.start + first_recovered(trace, Kind::SchedPhase, agent, range.len());
        let mut order = by_start(range, |at| (sched.start[at], sched.end[at]));
        // Waits for the recorder are hatched over the others, not drawn as one of them.
        order.retain(|at| sched.names.name(sched.name[*at]) != gaps::PHASE);
        if order.is_empty() {
            continue;
        }
        let recovered = order.iter().filter(|at| **at >= first_recovered).count();
        let of_agent = order.iter().map(|&at| Slice {
            start: ns_at(clock, sched.start[at]),
            end: Some(ns_at(clock, sched.end[at])),
            name: names.first_sched + u64::from(sched.name[at]),
            task: 0,
        });
        // The orchestrator has a lane of its submits already, and a worker has one of its kernels.
        let name = match trace.agent_name(agent) {
            name if name.starts_with("orchestrator") => format!("{name} helps"),
            name if name.starts_with("worker") => format!("{name} schedules"),
            name => name,
        };
        let lane = PageLane { agent: Some(agent), ..lane(&name, "scheduler", order.len(), recovered) };
        slices.lane(lane, of_agent, still);
    }
}

/// One lane per depth: scopes of one depth follow each other.
fn scopes(trace: &Trace, names: &PageNames, still: u64, slices: &mut Slices) {
    let (samples, clock) = (&trace.scopes, &trace.clock);
    if !samples.timed || samples.is_empty() {
        return;
    }
    // Scopes are sampled by one orchestrator; the rows of others would be empty.
    let recovered: u64 = trace.pools.iter().filter(|p| p.kind == Kind::ScopeSample).map(|p| p.recovered).sum();
    let first_recovered = samples.samples.len().saturating_sub(recovered as usize);
    let mut by_depth: BTreeMap<u16, (Vec<Slice>, usize)> = BTreeMap::new();
    for span in samples.spans(&mut Quality::default()) {
        let begin = &samples.samples[span.begin];
        let (of_depth, recovered) = by_depth.entry(begin.depth).or_default();
        // A scope whose end was recovered is marked, though its begin may have been drained.
        *recovered += usize::from(span.end.unwrap_or(span.begin) >= first_recovered);
        of_depth.push(Slice {
            start: ns_at(clock, begin.at),
            end: span.end.map(|end| ns_at(clock, samples.samples[end].at)),
            name: if (begin.site as usize) < samples.sites.len() {
                names.first_site + u64::from(begin.site)
            } else {
                0
            },
            task: 0,
        });
    }
    for (depth, (mut of_depth, recovered)) in by_depth {
        of_depth.sort_by_key(|slice| slice.start);
        let count = of_depth.len();
        slices.lane(lane(&format!("scopes, depth {depth}"), "scope", count, recovered), of_depth.into_iter(), still);
    }
}

/// The range in order of start, the longer first.
fn by_start(range: std::ops::Range<usize>, ends: impl Fn(usize) -> (u64, u64)) -> Vec<usize> {
    let mut order: Vec<usize> = range.collect();
    order.sort_by_key(|at| {
        let (start, end) = ends(*at);
        (start, std::cmp::Reverse(end))
    });
    order
}
