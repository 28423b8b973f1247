//! Why a task started only when it did.

use plimsoll_trace::Trace;
use serde::Serialize;

use crate::critical_path::{Parts, PathStep, RecordedFacts, Wait, divide, predecessor, submitted_within};
use crate::task_table::{NONE, TaskTable};

/// What a task waited for, from the end of whom it followed to its own start.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TaskWhy {
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
    /// Time between the end of `pred` and this task's start; without a `pred`, since the first kernel start of the run.
    pub wait_ns: u64,
    /// The task that this one followed.
    pub pred: Option<String>,
    /// Why this task followed `pred`; `front_gap` without a `pred`.
    pub kind: Wait,
    /// The wait, by cause.
    pub causes: Vec<Cause>,
    /// Its timed producers, the one that ended last first.
    pub producers: Vec<Ended>,
}

/// One cause of a wait.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Cause {
    /// `data`, `core`, `scheduler`, `submit`, `ring`, `recorder`; `front_gap` for what lies between two rounds.
    pub cause: &'static str,
    /// How long; absent if the capture cannot tell.
    pub ns: Option<u64>,
    /// Who it waited for.
    pub who: Option<String>,
}

/// A task and its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Ended {
    /// The task.
    pub task: String,
    /// Its last kernel end, counted from the first record that was read.
    pub end_ns: u64,
}

/// Why the task of a word started only when it did; none if it did not run.
pub fn why(trace: &Trace, word: u64) -> Option<TaskWhy> {
    let table = TaskTable::new(trace);
    trace.executions.kernel_time().first_start()?;
    let waits = TaskWaits::of(trace, &table);
    let (step, parts) = waits.divided(table.find(word)?);
    let (task, known) = (step.task, &waits.known);
    let name = |task: u32| trace.task_name(table.word[task as usize]);
    let mut producers: Vec<u32> = table.preds.of(task).to_vec();
    producers.sort_by_key(|pred| std::cmp::Reverse(table.end[*pred as usize]));
    Some(TaskWhy {
        task: name(task),
        func: table.func(trace, task),
        cores: table.cores(trace, task),
        start_ns: trace.clock.ns_at(table.start[task as usize]),
        end_ns: trace.clock.ns_at(table.end[task as usize]),
        wait_ns: trace.clock.ns(step.stall(&table)),
        pred: (step.pred != NONE).then(|| name(step.pred)),
        kind: step.kind,
        causes: causes(trace, &table, &step, &parts, known),
        producers: producers
            .into_iter()
            .map(|pred| Ended { task: name(pred), end_ns: trace.clock.ns_at(table.end[pred as usize]) })
            .collect(),
    })
}

/// What one task waited for, as [`why`] divides it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskWait {
    /// Whom it followed.
    pub pred: Option<u64>,
    /// Its wait, by cause.
    pub parts: Parts,
}

/// What tasks waited for: the same figures as [`why`], without its names.
pub struct TaskWaits<'t> {
    trace: &'t Trace,
    table: &'t TaskTable,
    known: RecordedFacts,
    first: u64,
}

impl<'t> TaskWaits<'t> {
    /// Of the tasks of a trace.
    pub fn of(trace: &'t Trace, table: &'t TaskTable) -> Self {
        let first = trace.executions.kernel_time().first_start().unwrap_or(0);
        Self { trace, table, known: RecordedFacts::of(trace), first }
    }

    /// What the task of a word waited for; none if it did not run.
    pub fn get(&self, word: u64) -> Option<TaskWait> {
        let (step, parts) = self.divided(self.table.find(word)?);
        Some(TaskWait { pred: (step.pred != NONE).then(|| self.table.word[step.pred as usize]), parts })
    }

    /// The step of a task by itself, and its wait by cause: the one place where the wait of a single task is divided. What
    /// lies before a task that followed nobody is divided like any other wait, and its step keeps its kind.
    pub(crate) fn divided(&self, task: u32) -> (PathStep, Parts) {
        let (trace, table) = (self.trace, self.table);
        let step = PathStep::alone(trace, table, task, self.first);
        let kind = if step.kind == Wait::FrontGap { Wait::DataWait } else { step.kind };
        let parts = divide(trace, table, &PathStep { kind, ..step }, &self.known);
        (step, parts.ns(trace, &self.known))
    }

    /// The parts of a step as they are on the path: what lies before the path's first task is its front gap.
    pub(crate) fn on_path(&self, step: &PathStep) -> Parts {
        divide(self.trace, self.table, step, &self.known).ns(self.trace, &self.known)
    }
}

fn causes(trace: &Trace, table: &TaskTable, step: &PathStep, parts: &Parts, known: &RecordedFacts) -> Vec<Cause> {
    let task = step.task;
    let name = |task: Option<u32>| task.map(|task| trace.task_name(table.word[task as usize]));
    let core = table.cores(trace, task).first().copied().unwrap_or(0);
    let scheduler = trace.cores.get(core as usize).and_then(|core| core.agent).map(|agent| trace.agent_name(agent));
    let submitter = trace.orch_phases.agent.first().map(|agent| trace.submitter_name(*agent));
    let recorder = parts.recorder_wait.filter(|ns| *ns > 0).map(|_| "the recorder".to_string());
    let cause = |cause, ns, who| Cause { cause, ns, who };
    let first_submit = step.begins_round(trace, table).and_then(|round| known.round_begin(round));
    let waited_for = first_submit.map(|_| "the first submit of its round".to_string());
    let between = (parts.front_gap > 0).then(|| cause("front_gap", Some(parts.front_gap), waited_for));
    let causes = [
        cause("data", parts.data_wait, name(table.last_producer(task))),
        cause("core", Some(parts.core_wait), name(table.last_on_cores(trace, task))),
        cause("scheduler", parts.scheduling, scheduler),
        cause("submit", parts.submit, submitter),
        cause("ring", parts.ring_wait, ring_waited_for(trace, table, step, known)),
        cause("recorder", parts.recorder_wait, recorder),
    ];
    causes.into_iter().chain(between).collect()
}

/// The ring of the longest wait for a ring within a step, and the task whose submit waited.
fn ring_waited_for(trace: &Trace, table: &TaskTable, step: &PathStep, known: &RecordedFacts) -> Option<String> {
    let (start, end) = known.waits.as_ref()?.longest_ring(step.from, submitted_within(table, step))?;
    let orch = &trace.orch_phases;
    let submit = (0..orch.len()).find(|at| orch.start[*at] <= start && end <= orch.end[*at])?;
    Some(format!("ring {}, for {}", orch.task_of(submit).0.ring(), trace.task_name(orch.task[submit])))
}

impl PathStep {
    /// The step of a task by itself, not as a part of a path.
    pub(crate) fn alone(trace: &Trace, table: &TaskTable, task: u32, first: u64) -> Self {
        let (pred, kind) = predecessor(trace, table, task, |_| true);
        let until = table.end[task as usize];
        let from = pred.map_or(first, |pred| table.end[pred as usize]).min(until);
        let kind = if pred.is_some() { kind } else { Wait::FrontGap };
        PathStep { task, pred: pred.unwrap_or(NONE), kind, from, until }
    }
}
