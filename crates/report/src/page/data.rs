//! The data that the scripts of the page draw: columns, and a few facts that describe the columns.

use plimsoll_abi::RINGS;
use plimsoll_analyze::{Parts, TaskWait, TaskWaits};
use plimsoll_trace::{Manifest, Status, Trace};
use serde::Serialize;

use super::columns::{Column, ColumnPart, Packing};
use super::lanes::{self, PageLane, PageNames, Tasks, ns_at};
use super::{Answers, Subject, arguments, captured, counters, edges, gaps, html, sections, spans};

/// Facts about the columns. Small: it does not grow with the number of tasks.
#[derive(Debug, Serialize)]
pub(super) struct Meta {
    title: String,
    /// The time that the page calls zero: the first kernel's start, or the first record where no kernel has a time.
    zero_ns: u64,
    /// Where the time axis ends.
    end_ns: u64,
    makespan_ns: u64,
    /// Whether cores are workers of a CPU run.
    workers: bool,
    /// Whether times are those of a model, or of a chip that this machine's threads stood for.
    virtual_time: bool,
    emulated: bool,
    arch: String,
    names: Vec<String>,
    /// How many of the names are those of kernels.
    kernels: u64,
    /// Runs of tasks whose names differ in one number.
    groups: Vec<TaskGroup>,
    cores: Vec<PageLane>,
    agents: Vec<PageLane>,
    /// Slices of cores that had not ended, by number.
    open: Vec<u64>,
    open_agents: Vec<u64>,
    lifecycle: bool,
    /// How many tasks there are whose dependencies are known.
    nodes: usize,
    pub(super) edges: u64,
    /// What arguments look like.
    forms: Vec<arguments::ArgumentForm>,
    /// Captured arguments on the page, and in the dump.
    captured: usize,
    captured_in_all: usize,
    /// Whether records are missing, so that a task without an execution may have run.
    incomplete: bool,
    /// What hardware counters counted, and how many readings there are.
    counted: Vec<String>,
    readings: usize,
    /// Nodes of the nested scopes.
    scopes: Vec<spans::SpanNode>,
    /// How many scopes there were.
    spans: usize,
    /// Ratios of what was counted: name, what is divided, by what.
    ratios: Vec<(&'static str, usize, usize)>,
    curves: Vec<Curve>,
    /// How many tasks the critical path has.
    path: usize,
    /// The causes of waits that the capture can tell.
    waits: Vec<&'static str>,
    /// Why no dependencies are known, and how to record them; empty where they are.
    no_dependencies: String,
    /// What was left out to keep the page small.
    pub(super) left_out: Vec<&'static str>,
    /// How many slices there are, on all lanes.
    #[serde(skip)]
    pub(super) slices: u64,
}

/// Tasks whose names differ in one number, `prefix number suffix`.
#[derive(Debug, Serialize)]
struct TaskGroup {
    prefix: String,
    suffix: String,
    round: u32,
    /// Absent where tasks have no rings.
    ring: Option<u8>,
    count: usize,
}

/// A curve under the time axis.
#[derive(Debug, Serialize)]
struct Curve {
    name: String,
    unit: &'static str,
    capacity: u64,
    /// The most that was ever in use, as the load line has it: between two samples it may be more than either shows.
    peak: Option<u64>,
    count: usize,
}

impl Meta {
    /// How high the rows are in CSS pixels, about, as `page/layout.js` lays them out before it stretches them.
    pub(super) fn rows_height(&self) -> usize {
        let shown = |lanes: &[PageLane]| lanes.iter().filter(|lane| lane.count > 0).count();
        // Of a folded class, 216 and a little at most.
        shown(&self.cores).min(24) * 20
            + shown(&self.agents) * 18
            + self.curves.len() * 40
            + self.counter_rows() * 40
            + 50
    }

    /// How many counters have a row before the reader chooses: the first ratio, or the first counter.
    fn counter_rows(&self) -> usize {
        usize::from(self.readings > 0 && self.cores.iter().any(|lane| lane.count > 0))
    }

    /// Makes the columns of a run, and tells what they are of.
    pub(super) fn of(run: Subject<'_>, columns: &mut Packing) -> Self {
        let Subject { trace, answers } = run;
        let clock = &trace.clock;
        let end_ns = end_ns(trace);
        let makespan_ns = trace.executions.kernel_time().makespan_ns(clock).unwrap_or(0);
        let zero_ns = (0..trace.executions.len()).map(|at| trace.executions.start(at)).min();
        let tasks = Tasks::of(run);
        let names = PageNames::of(run, &tasks);
        let groups = task_groups(trace, &tasks, columns);
        let (mut cores, lifecycle) = lanes::cores(trace, &tasks, &names, end_ns);
        let mut agents = lanes::others(trace, &tasks, &names, end_ns);
        let (mut core_lanes, open) = (std::mem::take(&mut cores.lanes), std::mem::take(&mut cores.open));
        let (mut agent_lanes, open_agents) = (std::mem::take(&mut agents.lanes), std::mem::take(&mut agents.open));
        let slices = cores.count + agents.count;
        columns.extend(cores.columns());
        columns.extend(lifecycle);
        columns.extend(agents.columns());
        gaps::put(trace, core_lanes.iter_mut().chain(&mut agent_lanes), columns);
        let (nodes, edges) = edges::put(trace, answers, &tasks, columns);
        let forms = arguments::put(trace, columns);
        let (captured, captured_in_all) = captured::put(answers, &tasks, columns);
        let (counted, readings) = counters::put(trace, &tasks, columns);
        let (scopes, spans) = spans::put(trace, answers, columns);
        let curves = curves(trace, answers, columns);
        let ratios = counters::ratios(answers, readings);
        let path = path(answers, &tasks, columns);
        columns.extend(names.of_tasks_without_times(run, &tasks));
        let waits = waits(trace, answers, &tasks, columns);
        Self {
            title: html::plain(&trace.facts.program),
            zero_ns: zero_ns.map_or(0, |tick| ns_at(clock, tick)),
            end_ns,
            makespan_ns,
            workers: trace.has_workers(),
            virtual_time: trace.facts.virtual_time,
            emulated: trace.facts.emulated,
            arch: html::plain(&trace.facts.arch),
            kernels: names.kernels(),
            names: names.all,
            groups,
            cores: core_lanes,
            agents: agent_lanes,
            open,
            open_agents,
            lifecycle: trace.executions.has_lifecycle(),
            nodes,
            edges,
            forms,
            captured,
            captured_in_all,
            incomplete: sections::misses_records(answers),
            counted,
            readings,
            scopes,
            spans,
            ratios,
            curves,
            path,
            waits,
            no_dependencies: if nodes > 0 { String::new() } else { sections::no_dependencies(trace, answers) },
            left_out: Vec::new(),
            slices,
        }
    }
}

/// The end of the run: the last time of anything but schedulers that sleep on. What had not ended, or a run that was ended from outside,
/// goes on to the last time that is known.
fn end_ns(trace: &Trace) -> u64 {
    let (executions, sched) = (&trace.executions, &trace.sched_phases);
    let ended = |manifest: &Manifest| matches!(manifest.status, Status::Ok | Status::Failed);
    let unended = trace.manifest.as_ref().filter(|manifest| !ended(manifest));
    let last = if unended.is_some() || (0..executions.len()).any(|at| executions.end(at).is_none()) {
        trace.extent().map(|(_, last)| last)
    } else {
        let kernels = (0..executions.len())
            .filter_map(|at| executions.lifecycle(at).map(|(_, seen)| seen).max(executions.end(at)));
        let awake =
            (0..sched.start.len()).filter(|at| sched.names.name(sched.name[*at]) != "park").map(|at| sched.end[at]);
        let scopes = trace.scopes.samples.iter().filter(|_| trace.scopes.timed).map(|sample| sample.at);
        kernels.chain(awake).chain(trace.orch_phases.end.iter().copied()).chain(scopes).max()
    };
    let first = trace.extent().map_or(0, |(first, _)| ns_at(&trace.clock, first));
    let elapsed = unended.map_or(0, |manifest| first.saturating_add(manifest.elapsed_ns));
    last.map_or(0, |last| ns_at(&trace.clock, last).max(elapsed))
}

/// The numbers of all tasks within their groups: those of a round and ring.
fn task_groups(trace: &Trace, tasks: &Tasks, columns: &mut Packing) -> Vec<TaskGroup> {
    let mut local = Column::new("task.local", ColumnPart::Tasks);
    let mut groups: Vec<TaskGroup> = Vec::new();
    let mut last = None;
    for word in tasks.words() {
        local.put_delta(*word & 0xffff_ffff);
        if last != Some(*word >> 32) {
            last = Some(*word >> 32);
            groups.push(TaskGroup::of(trace, *word));
        }
        if let Some(group) = groups.last_mut() {
            group.count += 1;
        }
    }
    columns.push(local);
    groups
}

impl TaskGroup {
    fn of(trace: &Trace, word: u64) -> Self {
        let name = trace.task_name(word);
        let (name, round) = name.split_once('@').unwrap_or((&name, ""));
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let ring = prefix.strip_prefix('r').and_then(|rest| rest.trim_end_matches('t').parse().ok());
        let suffix = if round.is_empty() { String::new() } else { format!("@{round}") };
        Self { prefix: prefix.to_string(), suffix, round: round.parse().unwrap_or(0), ring, count: 0 }
    }
}

/// What the rings and the tensormap held, where that changed; what never left zero is left out.
fn curves(trace: &Trace, answers: &Answers, columns: &mut Packing) -> Vec<Curve> {
    let (scopes, clock) = (&trace.scopes, &trace.clock);
    let mut curves = Vec::new();
    if !scopes.timed || scopes.is_empty() {
        return curves;
    }
    let ends = outermost_ends(answers, scopes.samples.len());
    let last_sample = scopes.samples.iter().map(|sample| ns_at(clock, sample.at)).max().unwrap_or(0);
    let mut gap = Column::new("curve.gap", ColumnPart::Counters);
    let mut value = Column::new("curve.value", ColumnPart::Counters);
    let mut add =
        |ring: Option<u8>, resource: &'static str, unit: &'static str, capacity: u64, steps: Vec<(usize, u64)>| {
            if steps.iter().all(|(_, amount)| *amount == 0) {
                return;
            }
            let steps = known_stretches(steps, &ends);
            let mut points: Vec<(u64, Option<u64>)> =
                steps.iter().map(|(at, amount)| (ns_at(clock, scopes.samples[*at].at), *amount)).collect();
            points.sort_by_key(|(at, _)| *at);
            // A curve holds its value until the last sample: what was in use after that is not known.
            points.extend(points.last().filter(|(at, _)| *at < last_sample).map(|(_, amount)| (last_sample, *amount)));
            let mut last = 0;
            for (at, amount) in &points {
                gap.put(at - last);
                value.put_delta(amount.map_or(0, |amount| amount.saturating_add(1)));
                last = *at;
            }
            let name = sections::ring_and_resource(ring, resource);
            let peak = sections::peak_of(answers, ring, resource);
            curves.push(Curve { name, unit, capacity, peak, count: points.len() });
        };
    for ring in 0..RINGS {
        let (number, capacity) = (Some(ring as u8), scopes.capacities.rings[ring]);
        let changes = || scopes.changes(ring);
        let window = changes().map(|(at, now)| (at, u64::from(now.window))).collect();
        add(number, "task_window", "slots", capacity.task_window, window);
        add(number, "heap", "bytes", capacity.heap, changes().map(|(at, now)| (at, now.heap)).collect());
        let deps = changes().map(|(at, now)| (at, u64::from(now.dep_pool))).collect();
        add(number, "dep_pool", "entries", capacity.dep_pool, deps);
    }
    let tensormap = scopes.samples.iter().enumerate().map(|(at, sample)| (at, u64::from(sample.tensormap))).collect();
    add(None, "tensormap", "entries", scopes.capacities.tensormap, tensormap);
    columns.extend([gap, value]);
    curves
}

/// The samples after which nothing is known until the next: ends of outermost scopes, which are those of rounds. That of the last
/// sample is not among them.
fn outermost_ends(answers: &Answers, samples: usize) -> Vec<usize> {
    let tree = &answers.scope_tree;
    let outermost = tree.spans.iter().filter(|(_, node)| tree.nodes[*node as usize].parent.is_none());
    let mut ends: Vec<usize> = outermost.filter_map(|(span, _)| span.end).filter(|end| end + 1 < samples).collect();
    ends.sort_unstable();
    ends
}

/// Steps of a curve, each a sample and the amount from there on; nothing is known from an end to the sample after it.
fn known_stretches(steps: Vec<(usize, u64)>, ends: &[usize]) -> Vec<(usize, Option<u64>)> {
    let mut known = Vec::with_capacity(steps.len() + 2 * ends.len());
    let mut steps = steps.into_iter().peekable();
    let mut now = 0;
    for end in ends {
        while let Some((at, amount)) = steps.next_if(|(at, _)| at <= end) {
            now = amount;
            known.push((at, Some(amount)));
        }
        known.push((*end, None));
        if steps.peek().is_none_or(|(at, _)| *at > end + 1) {
            known.push((end + 1, Some(now)));
        }
    }
    known.extend(steps.map(|(at, amount)| (at, Some(amount))));
    known
}

/// The tasks of the critical path, first to last.
fn path(answers: &Answers, tasks: &Tasks, columns: &mut Packing) -> usize {
    let path = &answers.path_tasks;
    let mut column = Column::new("path.task", ColumnPart::Tasks);
    let mut last = 0;
    path.iter().for_each(|word| column.put_delta(tasks.place(*word, &mut last)));
    if !path.is_empty() {
        columns.push(column);
    }
    path.len()
}

/// A cause of waiting: what the page calls it, its column, and its part of a wait.
type WaitCause = (&'static str, &'static str, fn(&Parts) -> Option<u64>);

/// In the order of time.
const WAIT_CAUSES: [WaitCause; 7] = [
    ("front gap", "wait.front", |parts| Some(parts.front_gap)),
    ("submit", "wait.submit", |parts| parts.submit),
    ("ring wait", "wait.ring", |parts| parts.ring_wait),
    ("recorder wait", "wait.recorder", |parts| parts.recorder_wait),
    ("data wait", "wait.data", |parts| parts.data_wait),
    ("core wait", "wait.core", |parts| Some(parts.core_wait)),
    ("scheduling", "wait.scheduling", |parts| parts.scheduling),
];

/// What every task waited for, by cause, and whom it followed.
fn waits(trace: &Trace, answers: &Answers, tasks: &Tasks, columns: &mut Packing) -> Vec<&'static str> {
    let waits = TaskWaits::of(trace, &answers.table);
    let wait = |word: &u64| waits.get(*word).unwrap_or(TaskWait { pred: None, parts: Parts::default() });
    // A cause that the capture cannot tell has no column. Of tasks that did not run it tells none.
    let first = tasks.words().iter().find_map(|word| waits.get(*word));
    let told: Vec<&WaitCause> =
        WAIT_CAUSES.iter().filter(|(_, _, of)| first.is_some_and(|wait| of(&wait.parts).is_some())).collect();
    let mut follows = Column::new("wait.pred", ColumnPart::Scheduler);
    let mut causes: Vec<Column> = told.iter().map(|(_, name, _)| Column::new(name, ColumnPart::Scheduler)).collect();
    let mut last = 0;
    for (place, word) in (1i64..).zip(tasks.words()) {
        let wait = wait(word);
        let pred = wait.pred.map_or(0, |word| tasks.place(word, &mut last));
        follows.put_signed(if pred > 0 { place - pred as i64 } else { 0 });
        for (column, (_, _, of)) in causes.iter_mut().zip(&told) {
            column.put(of(&wait.parts).unwrap_or(0));
        }
    }
    columns.push(follows);
    columns.extend(causes);
    told.iter().map(|(cause, ..)| *cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_between_the_end_of_a_round_and_the_next_sample() {
        let steps = vec![(0, 0), (1, 7), (3, 2), (6, 0)];
        let known = known_stretches(steps, &[2, 5]);
        let wanted = [(0, Some(0)), (1, Some(7)), (2, None), (3, Some(2)), (5, None), (6, Some(0))];
        assert_eq!(known, wanted);
        let held = known_stretches(vec![(0, 5)], &[1, 3]);
        assert_eq!(held, [(0, Some(5)), (1, None), (2, Some(5)), (3, None), (4, Some(5))]);
    }
}
