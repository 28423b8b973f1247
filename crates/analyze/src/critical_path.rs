//! Which tasks the makespan is made of, and what each nanosecond of it was.
//!
//! The *static* path is the longest chain of dependencies if nothing ever waited: no run can be shorter. The *observed*
//! path goes back from the last end: to the producer that ended last, or to the task before on any of its cores if that
//! ended later. Between a task's predecessor and its start lies a *stall*. Stalls and kernels tile the makespan exactly.

mod longest;
mod rounds;

use std::collections::BTreeMap;

use plimsoll_trace::{CoreClass, Trace};
use serde::Serialize;

pub use longest::LongestSteps;
use rounds::{first_submits, to_blame};

use crate::task_table::{NONE, TaskTable};
use crate::verdict::Blame;
use crate::waits::RecordedWaits;

/// What a stall is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The task waited for a producer.
    DataWait,
    /// The task waited for the task before on the same core.
    CoreWait,
    /// The run waited for the path's first task to begin, or for the first of a round.
    FrontGap,
}

/// The parts of a time. Those that a capture cannot tell are absent, and their time is where `folded` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Parts {
    /// Time in kernels.
    pub kernel: u64,
    /// Until a producer's completion had been seen.
    pub data_wait: Option<u64>,
    /// Until the core was seen to be free.
    pub core_wait: u64,
    /// From when data and core were there until the kernel began.
    pub scheduling: Option<u64>,
    /// Until the task had been submitted.
    pub submit: Option<u64>,
    /// Until a ring had room.
    pub ring_wait: Option<u64>,
    /// Until the recorder had a buffer.
    pub recorder_wait: Option<u64>,
    /// Waits of kernels for the lock of their interpreter; absent if none waited for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gil_wait: Option<u64>,
    /// Until the path's first task began, and between rounds until the later one's first submit began, or its first task on the path where
    /// that submit was not recorded.
    pub front_gap: u64,
}

/// A part that the capture cannot tell, and where its time went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Folded {
    /// The part.
    pub part: &'static str,
    /// The parts its time is counted in.
    pub into: &'static str,
    /// What was not recorded.
    pub because: &'static str,
}

/// One task of the observed path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Hop {
    /// The task.
    pub task: String,
    /// What it ran.
    pub func: String,
    /// Cores it ran on.
    pub cores: Vec<u16>,
    /// First start of its rows, counted from the first record that was read; the page of a report counts from the first
    /// kernel's start.
    pub start_ns: u64,
    /// Last end of its rows, counted from the same time.
    pub end_ns: u64,
    /// Kernel time on the path: without what overlaps its predecessor.
    pub kernel_ns: u64,
    /// The stall before it.
    pub wait_ns: u64,
    /// What the stall is called; absent if there is none.
    pub kind: Option<Wait>,
    /// The task it followed.
    pub pred: Option<String>,
    /// The stall, divided.
    pub parts: Parts,
}

/// What a function has on the observed path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathFunction {
    /// Its name.
    pub func: String,
    /// Tasks on the path.
    pub count: u64,
    /// Kernel time on the path.
    pub kernel_ns: u64,
    /// Stalls before its tasks.
    pub wait_ns: u64,
    /// Kernel time as a share of the makespan.
    pub share: f64,
}

/// The critical path of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CriticalPath {
    /// All but its tasks.
    #[serde(flatten)]
    pub summary: PathSummary,
    /// The observed path, first task first.
    pub path: Vec<Hop>,
}

/// The parts that a run's makespan consists of, without the tasks of the path. On few cores nearly all tasks of a run may be on
/// the path, so this is much smaller than the path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathSummary {
    /// From the first kernel start to the last kernel end.
    pub makespan_ns: u64,
    /// The longest chain of dependencies.
    pub static_ns: u64,
    /// Tasks on that chain.
    pub static_tasks: u64,
    /// The larger of `static_ns` and the kernel time of a class over its cores: no schedule on these cores is shorter.
    pub bound_ns: u64,
    /// Which of the two it is: `dependencies` or `cores`; `kernels` if the longest chain is a single task.
    pub bound_by: &'static str,
    /// Tasks that ran.
    pub tasks: u64,
    /// Distinct pairs of tasks that wait for each other, both timed; absent if dependencies were not recorded.
    pub edges: Option<u64>,
    /// What the makespan is made of.
    pub parts: Parts,
    /// What could not be told.
    pub folded: Vec<Folded>,
    /// By function, the one with most kernel time first.
    pub functions: Vec<PathFunction>,
    /// The task of the path that has most of each part.
    #[serde(skip)]
    pub longest: LongestSteps,
    /// What the makespan is blamed on, for the verdict.
    #[serde(skip)]
    pub(crate) blame: Blame,
}

impl PathSummary {
    /// Whether the run was shorter than its lower bound, as only a file that contradicts itself says: tasks that overlap those they
    /// waited for, or the task before on their core.
    pub fn contradicts_itself(&self) -> bool {
        self.bound_ns > self.makespan_ns
    }
}

/// What the capture lets us tell apart.
#[derive(Clone)]
pub(crate) struct RecordedFacts {
    deps: bool,
    dispatch: bool,
    submit: bool,
    pub(crate) waits: Option<RecordedWaits>,
    /// When the first submit of each round began.
    rounds: Vec<(u64, u64)>,
}

impl RecordedFacts {
    pub(crate) fn of(trace: &Trace) -> Self {
        Self {
            deps: trace.deps.is_some(),
            dispatch: trace.executions.has_lifecycle(),
            submit: !trace.orch_phases.is_empty(),
            waits: RecordedWaits::of(trace),
            rounds: first_submits(trace),
        }
    }

    fn ring(&self) -> bool {
        self.submit && self.waits.is_some()
    }

    fn gil(&self) -> bool {
        self.waits.as_ref().is_some_and(RecordedWaits::has_gil)
    }

    fn recorder(&self) -> bool {
        self.dispatch && self.waits.is_some()
    }

    fn folded(&self) -> Vec<Folded> {
        let waits = if self.deps { "data_wait, core_wait" } else { "core_wait" };
        let mut folded = Vec::new();
        if !self.deps {
            // Whoever waited for data is taken to have followed the task before on its core, or nobody.
            let into = if self.dispatch { "core_wait, scheduling, front_gap" } else { "core_wait, front_gap" };
            folded.push(Folded { part: "data_wait", into, because: "no dependencies were recorded" });
        }
        if !self.dispatch {
            folded.push(Folded { part: "scheduling", into: waits, because: "no dispatches were recorded (level 2)" });
        }
        if !self.submit {
            let into = if self.dispatch { "scheduling" } else { waits };
            folded.push(Folded { part: "submit", into, because: "no submits were recorded (level 4)" });
        }
        let into = match (self.submit, self.dispatch) {
            (true, _) => "submit",
            (false, true) => "scheduling",
            (false, false) => waits,
        };
        if !self.ring() {
            folded.push(Folded { part: "ring_wait", into, because: "there are no records of waiting for a ring" });
        }
        if !self.recorder() {
            let because = "there are no records of waiting for the recorder";
            folded.push(Folded { part: "recorder_wait", into, because });
        }
        folded
    }
}

/// A task on the path, in ticks: the stretch `from..until` of the makespan is its stall and its kernel.
#[derive(Clone, Copy)]
pub(crate) struct PathStep {
    pub(crate) task: u32,
    pub(crate) pred: u32,
    pub(crate) kind: Wait,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl PathStep {
    fn kernel(&self, table: &TaskTable) -> u64 {
        self.until.saturating_sub(table.start[self.task as usize].max(self.from))
    }

    pub(crate) fn stall(&self, table: &TaskTable) -> u64 {
        (self.until - self.from) - self.kernel(table)
    }

    /// Stall and kernel in nanoseconds. Both are rounded where they end, so that those of all steps add up to the makespan,
    /// and counted from `first`, the first kernel's start: the clock's own zero depends on what was read of the capture.
    pub(crate) fn ns(&self, trace: &Trace, table: &TaskTable, first: u64) -> (u64, u64) {
        let at = |tick: u64| trace.clock.ns(tick.saturating_sub(first));
        let begun = at(self.from + self.stall(table));
        (begun - at(self.from), at(self.until) - begun)
    }
}

/// The critical path of a trace; none if nothing ran.
pub fn critical_path(trace: &Trace) -> Option<CriticalPath> {
    critical_path_of(trace, &TaskTable::new(trace))
}

/// The same with the trace's tasks at hand.
pub(crate) fn critical_path_of(trace: &Trace, table: &TaskTable) -> Option<CriticalPath> {
    let mut path = Vec::new();
    let summary = walk(trace, table, |_, _, hop| path.push(hop()))?;
    Some(CriticalPath { summary, path })
}

/// What the critical path of a trace is made of; none if nothing ran. Shows `see` the words of its tasks, first to last,
/// and how long the path stood still before each, in nanoseconds.
pub fn path_summary(trace: &Trace, table: &TaskTable, mut see: impl FnMut(u64, u64)) -> Option<PathSummary> {
    walk(trace, table, |task, wait_ns, _| see(table.word[task as usize], wait_ns))
}

/// Adds the path up, and shows `see` each of its tasks with the wait before it.
fn walk(trace: &Trace, table: &TaskTable, mut see: impl FnMut(u32, u64, &dyn Fn() -> Hop)) -> Option<PathSummary> {
    let (first, last) = trace.executions.kernel_time().window()?;
    let known = RecordedFacts::of(trace);
    let (mut whole, mut longest) = (Ticks::default(), LongestSteps::default());
    let (mut blamed, mut between_rounds) = (Ticks::default(), 0u64);
    let mut functions: BTreeMap<Option<u32>, PathFunction> = BTreeMap::new();
    for step in &observed(trace, table, (first, last)) {
        let parts = divide(trace, table, step, &known);
        whole.add(&parts);
        let between = if step.begins_round(trace, table).is_some() { parts.front_gap } else { 0 };
        between_rounds = between_rounds.saturating_add(between);
        longest.see(table.word[step.task as usize], &Ticks { front_gap: parts.front_gap - between, ..parts });
        blamed.add(&to_blame(trace, table, step, &parts, &known));
        let row = functions.entry(table.kernel(trace, step.task)).or_insert_with(|| PathFunction {
            func: table.func(trace, step.task),
            count: 0,
            kernel_ns: 0,
            wait_ns: 0,
            share: 0.0,
        });
        let (wait_ns, kernel_ns) = step.ns(trace, table, first);
        row.count += 1;
        row.kernel_ns = row.kernel_ns.saturating_add(kernel_ns);
        row.wait_ns = row.wait_ns.saturating_add(wait_ns);
        see(step.task, wait_ns, &|| Hop { kernel_ns, wait_ns, ..hop(trace, table, step, &parts, &known) });
    }
    let makespan_ns = trace.clock.ns(last - first);
    let mut functions: Vec<PathFunction> = functions.into_values().collect();
    for row in &mut functions {
        row.share = row.kernel_ns as f64 / (makespan_ns.max(1)) as f64;
    }
    functions.sort_by(|a, b| b.kernel_ns.cmp(&a.kernel_ns).then_with(|| a.func.cmp(&b.func)));
    let (static_ticks, static_tasks) = longest_chain(table, last);
    let static_ns = trace.clock.ns(static_ticks);
    let cores_ns = busiest_class_ns(trace);
    Some(PathSummary {
        makespan_ns,
        static_ns,
        static_tasks,
        bound_ns: static_ns.max(cores_ns),
        bound_by: match static_tasks {
            _ if cores_ns > static_ns => "cores",
            0 | 1 => "kernels",
            _ => "dependencies",
        },
        tasks: table.len() as u64,
        edges: trace.deps.is_some().then(|| table.preds.len() as u64),
        parts: whole.ns(trace, &known),
        folded: known.folded(),
        functions,
        longest,
        blame: blamed.blame(trace, between_rounds),
    })
}

/// The tasks of the observed path, first to last; `(first, last)` is the makespan. What was running at the end of the
/// capture and began after the last kernel end is on no path.
pub(crate) fn observed(trace: &Trace, table: &TaskTable, (first, last): (u64, u64)) -> Vec<PathStep> {
    let mut on_path = vec![false; table.len()];
    let mut steps = Vec::new();
    let ended = (0..table.len() as u32).filter(|task| table.end[*task as usize] <= last);
    let mut next = ended.max_by_key(|task| (table.end[*task as usize], std::cmp::Reverse(*task)));
    let mut until = next.map_or(0, |task| table.end[task as usize]);
    while let Some(task) = next {
        on_path[task as usize] = true;
        let (pred, kind) = predecessor(trace, table, task, |pred| !on_path[*pred as usize]);
        // In a file that contradicts itself a predecessor may end after its successor: its end is then taken for that of the
        // successor.
        let from = pred.map_or(first, |pred| table.end[pred as usize]).min(until);
        let kind = if pred.is_some() { kind } else { Wait::FrontGap };
        steps.push(PathStep { task, pred: pred.unwrap_or(NONE), kind, from, until });
        (next, until) = (pred, from);
    }
    steps.reverse();
    steps
}

/// The steps of the observed path as pairs of executions: from the row of the earlier task that ends last to the row of
/// the later one that starts first.
pub fn critical_arrows(trace: &Trace) -> Vec<(u32, u32)> {
    let table = TaskTable::new(trace);
    let Some(window) = trace.executions.kernel_time().window() else { return Vec::new() };
    let executions = &trace.executions;
    let last_row = |task: u32| table.rows.of(task).iter().copied().max_by_key(|row| executions.end(*row as usize));
    let first_row = |task: u32| table.rows.of(task).iter().copied().min_by_key(|row| executions.start(*row as usize));
    let steps = observed(trace, &table, window);
    let followed = steps.iter().filter(|step| step.pred != NONE);
    followed.filter_map(|step| Some((last_row(step.pred)?, first_row(step.task)?))).collect()
}

/// Whom a task followed: the producer that ended last, or the task before on one of its cores if that ended later. One with neither
/// followed the round before its own, whose last task ended that round: rounds of one run follow each other. `may_be` says who is asked for:
/// in a file that contradicts itself a task may have followed one that followed it.
pub(crate) fn predecessor(
    trace: &Trace,
    table: &TaskTable,
    task: u32,
    may_be: impl Fn(&u32) -> bool,
) -> (Option<u32>, Wait) {
    let producer = table.last_producer(task).filter(&may_be);
    let before = table.last_on_cores(trace, task).filter(&may_be);
    let end = |task: u32| table.end[task as usize];
    match (producer, before) {
        (Some(producer), Some(before)) if end(before) > end(producer) => (Some(before), Wait::CoreWait),
        (Some(producer), _) => (Some(producer), Wait::DataWait),
        (None, Some(before)) => (Some(before), Wait::CoreWait),
        (None, None) => (table.last_of_round_before(trace, task).filter(may_be), Wait::FrontGap),
    }
}

/// Parts in ticks, all of them counted; those that cannot be told are zero here.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ticks {
    kernel: u64,
    data_wait: u64,
    core_wait: u64,
    scheduling: u64,
    submit: u64,
    ring_wait: u64,
    recorder_wait: u64,
    gil_wait: u64,
    front_gap: u64,
}

impl Ticks {
    fn add(&mut self, other: &Ticks) {
        self.kernel = self.kernel.saturating_add(other.kernel);
        self.data_wait = self.data_wait.saturating_add(other.data_wait);
        self.core_wait = self.core_wait.saturating_add(other.core_wait);
        self.scheduling = self.scheduling.saturating_add(other.scheduling);
        self.submit = self.submit.saturating_add(other.submit);
        self.ring_wait = self.ring_wait.saturating_add(other.ring_wait);
        self.recorder_wait = self.recorder_wait.saturating_add(other.recorder_wait);
        self.gil_wait = self.gil_wait.saturating_add(other.gil_wait);
        self.front_gap = self.front_gap.saturating_add(other.front_gap);
    }

    /// The parts in nanoseconds. Each is rounded at its end on the time axis, so that they add up to the rounded whole.
    pub(crate) fn ns(&self, trace: &Trace, known: &RecordedFacts) -> Parts {
        let mut ticks = 0u64;
        let mut part = |own: u64| {
            let from = trace.clock.ns(ticks);
            ticks = ticks.saturating_add(own);
            trace.clock.ns(ticks) - from
        };
        let (kernel, data_wait, core_wait) = (part(self.kernel), part(self.data_wait), part(self.core_wait));
        let (scheduling, submit) = (part(self.scheduling), part(self.submit));
        let (ring_wait, recorder_wait) = (part(self.ring_wait), part(self.recorder_wait));
        let (gil_wait, front_gap) = (part(self.gil_wait), part(self.front_gap));
        Parts {
            kernel,
            data_wait: known.deps.then_some(data_wait),
            core_wait,
            scheduling: known.dispatch.then_some(scheduling),
            submit: known.submit.then_some(submit),
            ring_wait: known.ring().then_some(ring_wait),
            recorder_wait: known.recorder().then_some(recorder_wait),
            gil_wait: known.gil().then_some(gil_wait),
            front_gap,
        }
    }
}

/// Divides the stall of a step. Until the end of the task's submit it is submitting; then, until the scheduler had seen the
/// predecessor's completion, it is waiting for data or a core; the rest is scheduling. The submitter's waits for a ring are
/// taken out of submitting, and waits for the recorder are taken out of all three. Before a task that followed one of another
/// round, what lies before the first submit of its round is a front gap: all of the stall where that submit was not recorded, as those of
/// prebuilt rounds are not.
pub(crate) fn divide(trace: &Trace, table: &TaskTable, step: &PathStep, known: &RecordedFacts) -> Ticks {
    let mut ticks = Ticks { kernel: step.kernel(table), ..Ticks::default() };
    let stall = step.stall(table);
    if let Some(waits) = known.waits.as_ref().filter(|waits| waits.has_gil()) {
        let begin = table.start[step.task as usize].max(step.from);
        let executions = table.executions(trace, step.task);
        let executions = executions.map(|(core, start, end)| (core, (start.max(begin), end.min(step.until))));
        ticks.gil_wait = waits.gil(executions).min(ticks.kernel);
        ticks.kernel -= ticks.gil_wait;
    }
    if step.kind == Wait::FrontGap && step.pred == NONE {
        ticks.front_gap = stall;
        return ticks;
    }
    let until = step.from + stall;
    let from = match step.begins_round(trace, table) {
        Some(round) => known.round_begin(round).map_or(until, |begin| begin.clamp(step.from, until)),
        None => step.from,
    };
    ticks.front_gap = from - step.from;
    let submitted = if known.submit { submitted_within(table, step).max(from) } else { from };
    ticks.submit = submitted - from;
    let seen = if known.dispatch { seen_finished(trace, table, step) } else { until };
    let seen = seen.clamp(submitted, until);
    let mut until_seen = seen - submitted;
    ticks.scheduling = until - seen;
    if let Some(waits) = &known.waits {
        if known.ring() {
            ticks.ring_wait = waits.ring(from, submitted);
            ticks.recorder_wait = waits.submitter(from, submitted);
            ticks.submit -= ticks.ring_wait + ticks.recorder_wait;
        }
        if known.recorder() {
            let agents = [step.pred, step.task].map(|task| table.agent(trace, task));
            let before_seen = waits.recorder(agents, submitted, seen);
            until_seen -= before_seen;
            let after = waits.recorder(agents, seen, until);
            ticks.scheduling -= after;
            ticks.recorder_wait += before_seen + after;
        }
    }
    match step.kind {
        Wait::DataWait | Wait::FrontGap if known.deps => ticks.data_wait = until_seen,
        _ => ticks.core_wait = until_seen,
    }
    ticks
}

/// When the task of a step counts as submitted: within the step's stall.
pub(crate) fn submitted_within(table: &TaskTable, step: &PathStep) -> u64 {
    table.submitted(step.task).map_or(step.from, |at| at.clamp(step.from, step.from + step.stall(table)))
}

/// When the scheduler had seen that what the task waited for was done.
fn seen_finished(trace: &Trace, table: &TaskTable, step: &PathStep) -> u64 {
    if step.kind == Wait::DataWait {
        let producers = table.preds.of(step.task).iter();
        return producers.filter_map(|pred| table.finish(*pred)).max().unwrap_or(step.from);
    }
    let own = table.rows_before(trace, step.task).filter(|row| table.of_row[*row as usize] == step.pred);
    own.filter_map(|row| trace.executions.lifecycle(row as usize)).map(|(_, seen)| seen).max().unwrap_or(step.from)
}

/// A step without its times on the path, which the walk has.
fn hop(trace: &Trace, table: &TaskTable, step: &PathStep, parts: &Ticks, known: &RecordedFacts) -> Hop {
    let (start, end) = (table.start[step.task as usize], table.end[step.task as usize]);
    Hop {
        task: trace.task_name(table.word[step.task as usize]),
        func: table.func(trace, step.task),
        cores: table.cores(trace, step.task),
        start_ns: trace.clock.ns_at(start),
        end_ns: trace.clock.ns_at(end),
        kernel_ns: 0,
        wait_ns: 0,
        kind: (step.stall(table) > 0).then_some(step.kind),
        pred: (step.pred != NONE).then(|| trace.task_name(table.word[step.pred as usize])),
        parts: Ticks { kernel: 0, gil_wait: 0, ..*parts }.ns(trace, known),
    }
}

/// The longest chain of dependencies in ticks, and how many tasks it has. A task takes from its first start to its last
/// end. Those that are on no path for they end behind `last`, the last kernel end, are on no chain.
fn longest_chain(table: &TaskTable, last: u64) -> (u64, u64) {
    let mut longest = vec![(0u64, 0u64); table.len()];
    let mut most = (0, 0);
    for task in table.topological() {
        let (start, end) = (table.start[task as usize], table.end[task as usize]);
        let (own, is_task) = if end <= last { (end - start, 1) } else { (0, 0) };
        let before = table.preds.of(task).iter().map(|pred| longest[*pred as usize]).max().unwrap_or((0, 0));
        longest[task as usize] = (before.0.saturating_add(own), before.1 + is_task);
        most = most.max(longest[task as usize]);
    }
    most
}

/// Kernel time per core, in nanoseconds, of the class of cores in which that is largest.
fn busiest_class_ns(trace: &Trace) -> u64 {
    let mut classes: BTreeMap<CoreClass, (u64, u64)> = BTreeMap::new();
    for (core, facts) in trace.cores.iter().enumerate().take(1 << 16) {
        let class = classes.entry(facts.core_type).or_default();
        class.1 += 1;
        let rows = trace.executions.of_core(core as u16);
        class.0 = rows.filter_map(|row| trace.executions.exec(row)).fold(class.0, u64::saturating_add);
    }
    classes.values().map(|(ticks, cores)| trace.clock.ns(*ticks) / (*cores).max(1)).max().unwrap_or(0)
}
