//! What the scheduler cost: cores that idle while a task they could run is ready and not dispatched, the time before and
//! after kernels, and what the scheduler's loops did.

use std::collections::BTreeMap;

use plimsoll_trace::{CoreClass, PhaseNames, Trace};
use serde::Serialize;

use crate::critical_path::{PathSummary, path_summary};
use crate::task_table::TaskTable;
use crate::verdict::{unrecorded_in, verdict};

/// What the scheduler cost.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sched {
    /// From the first kernel start to the last kernel end.
    pub makespan_ns: u64,
    /// Executions on cores.
    pub executions: u64,
    /// Shares of the makespan in which a core idled beside ready work.
    pub overhead: Overheads,
    /// Gaps between a kernel and the next one that had been dispatched before it ended.
    pub switch: Switches,
    /// From dispatch, or from the end of the task before on that core if that is later, to the start. Absent below level 2.
    pub head_ns: Option<Distribution>,
    /// From the end to where the scheduler saw it. Absent below level 2.
    pub tail_ns: Option<Distribution>,
    /// What the loops of the schedulers did. Absent below level 3.
    #[serde(rename = "loop")]
    pub loops: Option<LoopBudget>,
    /// What bounds the run: `submitting`, `ring`, `scheduling`, `recording`, `dependencies`, `cores` or `kernels`.
    pub verdict: &'static str,
    /// The share of the makespan that decided the verdict: with dependencies or cores what no schedule could beat, else what
    /// the verdict names.
    pub verdict_share: f64,
    /// The parts that the verdict takes in because they were not recorded: `submit`, `data_wait`.
    pub verdict_folds: Vec<&'static str>,
}

/// Overheads by two definitions of ready. Absent where the capture lacks what a definition needs: both need dependencies and
/// dispatches, and the second needs submits.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Overheads {
    /// Ready from the last producer's kernel end; tasks without timed producers never count.
    pub reference: Option<Overhead>,
    /// Ready from the later of the end of the submit and the producers' finish.
    pub own: Option<Overhead>,
}

/// Shares of the makespan.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Overhead {
    /// A core of the class idles while a task for it is ready and not dispatched.
    pub by_class: BTreeMap<&'static str, f64>,
    /// Every class has such a core at the same time.
    pub all: f64,
    /// Some class has such a core, and so has every class with ready work.
    pub has: f64,
}

/// Gaps between kernels, by class of core.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Switches {
    /// By class; empty below level 2, where nothing tells which gaps had been dispatched into.
    pub by_class: BTreeMap<&'static str, Switch>,
}

/// Gaps on the cores of a class that ran something.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Switch {
    /// Cores of the class that ran something.
    pub cores: u64,
    /// Gaps on all of them.
    pub count: u64,
    /// Least time of a core in gaps.
    pub min_ns: u64,
    /// Mean time of a core in gaps.
    pub mean_ns: f64,
    /// Most time of a core in gaps.
    pub max_ns: u64,
    /// Mean length of a gap.
    pub gap_ns: f64,
}

/// Order statistics: the value at place ⌊n·p⌋ of the sorted ones.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// The 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The most.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// The sum.
    pub total: u64,
}

/// What the loops of the schedulers did.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct LoopBudget {
    /// By scheduler.
    pub schedulers: Vec<SchedulerLoops>,
    /// Loops in all.
    pub loops: u64,
    /// Time of all loops.
    pub total_ns: u64,
    /// Mean time of a loop.
    pub ns_per_loop: f64,
    /// Time of the loops by phase, summed over schedulers; of workers also in kernels. `idle` is what none of it covers.
    pub phases: BTreeMap<String, u64>,
    /// Time by phase before a scheduler's first complete or dispatch record and after its last: parking, and what threads do
    /// before and after their loops.
    pub outside: BTreeMap<String, u64>,
    /// Looks into ready queues that found a task.
    pub pop_hit: u64,
    /// Looks that found none.
    pub pop_miss: u64,
    /// Hits among all looks.
    pub pop_hit_rate: f64,
}

/// The loops of one scheduler.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct SchedulerLoops {
    /// The scheduler, as tables name it.
    pub scheduler: String,
    /// Its largest loop count.
    pub loops: u64,
    /// Tasks that ran on its cores, each counted once, at the first of its cores.
    pub tasks: u64,
    /// From its first complete or dispatch record to the end of its last.
    pub total_ns: u64,
    /// Mean time of a loop.
    pub ns_per_loop: f64,
}

/// What the scheduler cost; none if nothing ran.
pub fn sched(trace: &Trace) -> Option<Sched> {
    let table = TaskTable::new(trace);
    let path = path_summary(trace, &table, |_, _| {})?;
    sched_beside(trace, &table, &path)
}

/// The same with the trace's tasks and critical path at hand.
pub fn sched_beside(trace: &Trace, table: &TaskTable, path: &PathSummary) -> Option<Sched> {
    let window = trace.executions.kernel_time().window()?;
    let (head_ns, tail_ns) = head_and_tail(trace);
    let verdict = verdict(path);
    Some(Sched {
        makespan_ns: path.makespan_ns,
        executions: trace.executions.len() as u64,
        overhead: Overheads {
            reference: overhead(trace, table, window, |task| ready_by_kernels(table, task)),
            own: (!trace.orch_phases.is_empty())
                .then(|| overhead(trace, table, window, |task| ready_by_scheduler(table, task)))
                .flatten(),
        },
        switch: switches(trace),
        head_ns,
        tail_ns,
        loops: loops(trace, table),
        verdict: verdict.word,
        verdict_share: verdict.share,
        verdict_folds: unrecorded_in(verdict.word, &path.parts),
    })
}

/// From the last producer's kernel end; none without timed producers.
fn ready_by_kernels(table: &TaskTable, task: u32) -> Option<u64> {
    table.last_producer(task).map(|pred| table.end[pred as usize])
}

/// From the later of the end of the submit and the producers' finish.
fn ready_by_scheduler(table: &TaskTable, task: u32) -> Option<u64> {
    let finishes = table.preds.of(task).iter().filter_map(|pred| table.finish(*pred));
    Some(finishes.fold(table.submitted(task)?, u64::max))
}

const CLASSES: [CoreClass; 3] = [CoreClass::Aic, CoreClass::Aiv, CoreClass::Any];

fn class_of(trace: &Trace, core: u16) -> usize {
    let class = trace.cores.get(core as usize).map_or(CoreClass::Any, |core| core.core_type);
    CLASSES.iter().position(|other| *other == class).unwrap_or(CLASSES.len() - 1)
}

/// What happens to a class at a moment, as one number that sorts by the moment: millions are sorted, and numbers sort
/// several times as fast as structures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change(u64);

impl Change {
    /// A core of a class begins or ends to be busy, or a task to be ready for it. Moments are ticks since the
    /// first kernel start; those past 2^59, which only a broken file has, are taken for that.
    fn new(moment: u64, class: usize, busy: bool, begins: bool) -> Self {
        Self(moment.min(1 << 59) << 4 | (class as u64) << 2 | u64::from(busy) << 1 | u64::from(begins))
    }

    fn moment(self) -> u64 {
        self.0 >> 4
    }

    fn class(self) -> usize {
        (self.0 >> 2 & 3) as usize
    }

    fn is_busy(self) -> bool {
        self.0 & 2 != 0
    }

    fn by(self) -> i64 {
        if self.0 & 1 != 0 { 1 } else { -1 }
    }
}

#[derive(Clone, Copy, Default)]
struct ClassState {
    cores: i64,
    busy: i64,
    ready: i64,
}

impl ClassState {
    fn is_starved(&self) -> bool {
        self.ready > 0 && self.busy < self.cores
    }
}

/// Walks through the makespan and adds up how long each class was starved. None without dispatches, and none without
/// dependencies: nothing tells then when a task became ready.
fn overhead(
    trace: &Trace,
    table: &TaskTable,
    (first, last): (u64, u64),
    ready: impl Fn(u32) -> Option<u64>,
) -> Option<Overhead> {
    if trace.deps.is_none() || !trace.executions.has_lifecycle() || last == first {
        return None;
    }
    let mut classes = [ClassState::default(); CLASSES.len()];
    for core in (0..=u16::MAX).take(trace.cores.len()) {
        classes[class_of(trace, core)].cores += i64::from(!trace.executions.of_core(core).is_empty());
    }
    let mut changes = changes(trace, table, (first, last), ready);
    changes.sort_unstable();
    let present: Vec<usize> = (0..CLASSES.len()).filter(|class| classes[*class].cores > 0).collect();
    let (mut by_class, mut all, mut has) = ([0u64; CLASSES.len()], 0u64, 0u64);
    let mut at = 0;
    for change in changes {
        let span = change.moment() - at;
        if span > 0 {
            let starved = |class: &usize| classes[*class].is_starved();
            for class in present.iter().filter(|class| starved(class)) {
                by_class[*class] += span;
            }
            all += if present.iter().all(starved) { span } else { 0 };
            let working = present.iter().all(|class| classes[*class].ready == 0 || starved(class));
            has += if working && present.iter().any(starved) { span } else { 0 };
            at = change.moment();
        }
        let class = &mut classes[change.class()];
        *(if change.is_busy() { &mut class.busy } else { &mut class.ready }) += change.by();
    }
    let share = |ticks: u64| ticks as f64 / (last - first) as f64;
    let named = present.iter().map(|class| (CLASSES[*class].name(), share(by_class[*class])));
    Some(Overhead { by_class: named.collect(), all: share(all), has: share(has) })
}

fn changes(
    trace: &Trace,
    table: &TaskTable,
    (first, last): (u64, u64),
    ready: impl Fn(u32) -> Option<u64>,
) -> Vec<Change> {
    let executions = &trace.executions;
    let mut changes = Vec::with_capacity(2 * executions.len() + 2 * table.len());
    let mut span = |class: usize, busy: bool, from: u64, until: u64| {
        let (from, until) = (from.clamp(first, last), until.clamp(first, last));
        if from < until {
            changes.push(Change::new(from - first, class, busy, true));
            changes.push(Change::new(until - first, class, busy, false));
        }
    };
    for row in 0..executions.len() {
        let end = executions.end(row).unwrap_or(last);
        span(class_of(trace, executions.core(row)), true, executions.start(row), end);
    }
    for task in 0..table.len() as u32 {
        let Some((dispatch, from)) = table.dispatch(task).zip(ready(task)) else { continue };
        let mut of_task = [false; CLASSES.len()];
        for row in table.rows.of(task) {
            of_task[class_of(trace, executions.core(*row as usize))] = true;
        }
        for class in (0..CLASSES.len()).filter(|class| of_task[*class]) {
            span(class, false, from, dispatch);
        }
    }
    changes
}

/// The row before each row on its core; none for the first.
fn ends_before(trace: &Trace) -> impl Iterator<Item = (usize, Option<u64>)> + '_ {
    let executions = &trace.executions;
    (0..executions.len()).map(move |row| {
        let before = row.checked_sub(1).filter(|before| executions.core(*before) == executions.core(row));
        (row, before.map(|before| executions.end(before).unwrap_or(executions.start(before))))
    })
}

fn head_and_tail(trace: &Trace) -> (Option<Distribution>, Option<Distribution>) {
    let executions = &trace.executions;
    let (mut heads, mut tails) = (Vec::new(), Vec::new());
    for (row, before) in ends_before(trace) {
        let (Some((dispatch, finish)), Some(end)) = (executions.lifecycle(row), executions.end(row)) else { continue };
        let start = executions.start(row);
        heads.push(start.saturating_sub(before.map_or(dispatch, |before| before.max(dispatch))));
        tails.push(finish.saturating_sub(end));
    }
    (distribution(trace, heads), distribution(trace, tails))
}

fn distribution(trace: &Trace, mut ticks: Vec<u64>) -> Option<Distribution> {
    ticks.sort_unstable();
    let max = *ticks.last()?;
    let at = |p: f64| trace.clock.ns(ticks[((ticks.len() as f64 * p) as usize).min(ticks.len() - 1)]);
    let total = ticks.iter().fold(0u64, |sum, t| sum.saturating_add(*t));
    Some(Distribution {
        count: ticks.len() as u64,
        p10: at(0.1),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: trace.clock.ns(max),
        mean: trace.clock.ns_f64(total as f64 / ticks.len() as f64),
        total: trace.clock.ns(total),
    })
}

fn switches(trace: &Trace) -> Switches {
    let executions = &trace.executions;
    if !executions.has_lifecycle() {
        return Switches::default();
    }
    let mut by_core: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (row, before) in ends_before(trace) {
        let core = by_core.entry(executions.core(row)).or_default();
        let (Some((dispatch, _)), Some(before)) = (executions.lifecycle(row), before) else { continue };
        if dispatch < before {
            core.0 += 1;
            core.1 = core.1.saturating_add(executions.start(row).saturating_sub(before));
        }
    }
    let mut by_class: BTreeMap<&'static str, Switch> = BTreeMap::new();
    for (core, (count, ticks)) in by_core {
        let ns = trace.clock.ns(ticks);
        let class = by_class.entry(CLASSES[class_of(trace, core)].name()).or_default();
        class.min_ns = if class.cores == 0 { ns } else { class.min_ns.min(ns) };
        class.max_ns = class.max_ns.max(ns);
        class.cores += 1;
        class.count += count;
        // A sum up to here; it is divided below, once all cores are in.
        class.mean_ns += ns as f64;
    }
    for class in by_class.values_mut() {
        class.gap_ns = class.mean_ns / (class.count.max(1)) as f64;
        class.mean_ns /= class.cores.max(1) as f64;
    }
    Switches { by_class }
}

/// How many tasks each scheduler's cores ran.
fn tasks_by_agent(trace: &Trace, table: &TaskTable) -> BTreeMap<u16, u64> {
    let mut tasks = BTreeMap::new();
    for task in 0..table.len() as u32 {
        let core = table.rows.of(task).first().map(|row| trace.executions.core(*row as usize));
        if let Some(agent) = core.and_then(|core| trace.cores.get(core as usize)?.agent) {
            *tasks.entry(agent).or_default() += 1;
        }
    }
    tasks
}

fn loops(trace: &Trace, table: &TaskTable) -> Option<LoopBudget> {
    let phases = &trace.sched_phases;
    if !phases.were_recorded() {
        return None;
    }
    let mut budget = LoopBudget::default();
    let mut covered = 0u64;
    let tasks = tasks_by_agent(trace, table);
    for (agent, totals) in (0..=u16::MAX).zip(&phases.totals).filter(|(_, totals)| totals.count > 0) {
        let mut own = SchedulerLoops { scheduler: trace.agent_name(agent), ..SchedulerLoops::default() };
        own.loops = totals.loops();
        budget.pop_hit += totals.pop_hit;
        budget.pop_miss += totals.pop_miss;
        for (number, (_, ticks)) in (0..=u16::MAX).zip(&totals.by_name).filter(|(_, (count, _))| *count > 0) {
            let name = phases.names.name(number);
            let lifecycle = PhaseNames::is_lifecycle(name);
            let inside = totals.in_loops.get(usize::from(number)).copied().filter(|_| !lifecycle).unwrap_or(0);
            let add = |to: &mut BTreeMap<String, u64>, ticks: u64| {
                if ticks > 0 {
                    let phase = to.entry(name.to_string()).or_default();
                    *phase = phase.saturating_add(ticks);
                }
            };
            add(&mut budget.phases, inside);
            add(&mut budget.outside, ticks.saturating_sub(inside));
            if !PhaseNames::is_inner(name) {
                covered = covered.saturating_add(inside);
            }
        }
        own.tasks = tasks.get(&agent).copied().unwrap_or(0);
        own.total_ns = trace.clock.ns(totals.loop_ticks());
        own.ns_per_loop = own.total_ns as f64 / own.loops.max(1) as f64;
        budget.loops += own.loops;
        budget.total_ns = budget.total_ns.saturating_add(own.total_ns);
        budget.schedulers.push(own);
    }
    for ticks in budget.phases.values_mut().chain(budget.outside.values_mut()) {
        *ticks = trace.clock.ns(*ticks);
    }
    // A worker is scheduler and core at once: time that its phases do not cover is counted as kernels first.
    if trace.has_workers() {
        let kernels = trace.executions.kernel_time().ticks();
        covered = covered.saturating_add(kernels);
        budget.phases.insert("kernel".to_string(), trace.clock.ns(kernels));
    }
    let idle = budget.total_ns.saturating_sub(trace.clock.ns(covered));
    let own_idle = budget.phases.entry("idle".to_string()).or_default();
    *own_idle = own_idle.saturating_add(idle);
    budget.ns_per_loop = budget.total_ns as f64 / budget.loops.max(1) as f64;
    let looks = budget.pop_hit + budget.pop_miss;
    budget.pop_hit_rate = if looks > 0 { budget.pop_hit as f64 / looks as f64 } else { 0.0 };
    Some(budget)
}
