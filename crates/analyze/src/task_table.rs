//! Tasks as they ran: the rows of each, when it was submitted, dispatched and seen finished, and which timed tasks it
//! waited for. What the questions about waiting are answered from.

use std::collections::HashSet;

use plimsoll_trace::deps::TaskIndex;
use plimsoll_trace::{NO_TICKS, Trace};

/// No task.
pub(crate) const NONE: u32 = u32::MAX;

/// Lists of numbers, one list per task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskLists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl TaskLists {
    /// From pairs (list, item), keeping the order of items within a list.
    fn new(lists: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; lists + 1];
        for (list, _) in pairs.clone() {
            starts[list as usize + 1] += 1;
        }
        for at in 0..lists {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts[lists] as usize];
        for (list, item) in pairs {
            let place = &mut next[list as usize];
            items[*place as usize] = item;
            *place += 1;
        }
        Self { starts, items }
    }

    pub(crate) fn of(&self, list: u32) -> &[u32] {
        &self.items[self.starts[list as usize] as usize..self.starts[list as usize + 1] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}

/// The tasks of a trace that ran. Times are ticks.
#[derive(Clone, Debug)]
pub(crate) struct TaskTable {
    /// Task id and round.
    pub(crate) word: Vec<u64>,
    /// First start of its rows.
    pub(crate) start: Vec<u64>,
    /// Last end of its rows; the start of one that still ran.
    pub(crate) end: Vec<u64>,
    /// Earliest dispatch; [`NO_TICKS`] where it was not recorded.
    pub(crate) dispatch: Vec<u64>,
    /// Latest finish; [`NO_TICKS`] where it was not recorded.
    pub(crate) finish: Vec<u64>,
    /// End of its submit; [`NO_TICKS`] where it was not recorded.
    pub(crate) submitted: Vec<u64>,
    /// The task of each execution.
    pub(crate) of_row: Vec<u32>,
    /// The executions of each task.
    pub(crate) rows: TaskLists,
    /// The timed producers of each task, each once.
    pub(crate) preds: TaskLists,
    index: TaskIndex,
}

impl TaskTable {
    pub(crate) fn new(trace: &Trace) -> Self {
        let executions = &trace.executions;
        let mut index = TaskIndex::default();
        let mut word = Vec::new();
        let mut of_row = Vec::with_capacity(executions.len());
        for at in 0..executions.len() {
            let task = index.get(executions.word(at)).unwrap_or_else(|| {
                index.insert(executions.word(at), word.len() as u32);
                word.push(executions.word(at));
                word.len() - 1
            });
            of_row.push(task as u32);
        }
        let tasks = word.len();
        let mut table = Self {
            word,
            start: vec![u64::MAX; tasks],
            end: vec![0; tasks],
            dispatch: vec![NO_TICKS; tasks],
            finish: vec![NO_TICKS; tasks],
            submitted: vec![NO_TICKS; tasks],
            rows: TaskLists::new(tasks, of_row.iter().enumerate().map(|(row, task)| (*task, row as u32))),
            of_row,
            preds: TaskLists::default(),
            index,
        };
        table.take_times(trace);
        table.preds = TaskLists::new(tasks, table.pairs(trace).iter().map(|(pred, succ)| (*succ, *pred)));
        table
    }

    fn take_times(&mut self, trace: &Trace) {
        let executions = &trace.executions;
        for (row, task) in self.of_row.iter().enumerate() {
            let task = *task as usize;
            let start = executions.start(row);
            self.start[task] = self.start[task].min(start);
            self.end[task] = self.end[task].max(executions.end(row).unwrap_or(start).max(start));
            if let Some((dispatch, finish)) = executions.lifecycle(row) {
                self.dispatch[task] = self.dispatch[task].min(dispatch);
                let seen = &mut self.finish[task];
                *seen = if *seen == NO_TICKS { finish } else { (*seen).max(finish) };
            }
        }
        let orch = &trace.orch_phases;
        for at in 0..orch.len() {
            if let Some(task) = self.index.get(orch.task[at]) {
                let last = &mut self.submitted[task];
                *last = if *last == NO_TICKS { orch.end[at] } else { (*last).max(orch.end[at]) };
            }
        }
    }

    /// Distinct pairs (earlier, later) with both ends timed. The graph of a prebuilt program is recorded once, and holds
    /// in every round.
    fn pairs(&self, trace: &Trace) -> Vec<(u32, u32)> {
        let Some(deps) = &trace.deps else { return Vec::new() };
        let known = deps.index();
        // What a later round's words have set besides.
        let (mut rounds, mut seen, mut last) = (Vec::new(), HashSet::new(), 0);
        for word in self.word.iter().filter(|word| known.get(**word).is_none()) {
            let Some(task) = known.of_execution(*word) else { continue };
            let mark = word ^ deps.tasks[task].word;
            // Words of a round come together on each core, so most marks are the one before.
            if last != mark && seen.insert(mark) {
                rounds.push(mark);
            }
            last = mark;
        }
        let mut pairs = Vec::new();
        for (pred, succ) in deps.pairs() {
            let (pred, succ) = (&deps.tasks[pred as usize], &deps.tasks[succ as usize]);
            let mut join = |pred: u64, succ: u64| {
                if let (Some(pred), Some(succ)) = (self.index.get(pred), self.index.get(succ)) {
                    pairs.push((pred as u32, succ as u32));
                }
            };
            join(pred.word, succ.word);
            for mark in &rounds {
                join(pred.word ^ mark, succ.word ^ mark);
            }
        }
        pairs
    }

    pub(crate) fn len(&self) -> usize {
        self.word.len()
    }

    /// The task of a word.
    pub(crate) fn find(&self, word: u64) -> Option<u32> {
        self.index.get(word).map(|task| task as u32)
    }

    /// What a task's first row ran.
    pub(crate) fn kernel(&self, trace: &Trace, task: u32) -> Option<u32> {
        self.rows.of(task).iter().find_map(|row| trace.executions.kernel(*row as usize))
    }

    /// The name of what a task's first row ran.
    pub(crate) fn func(&self, trace: &Trace, task: u32) -> String {
        self.kernel(trace, task).map_or_else(|| "(unknown)".to_string(), |k| trace.kernel_name(k).into_owned())
    }

    /// The cores a task ran on, each once.
    pub(crate) fn cores(&self, trace: &Trace, task: u32) -> Vec<u16> {
        let mut cores: Vec<u16> = self.rows.of(task).iter().map(|row| trace.executions.core(*row as usize)).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// The agent that hands a task's first core its tasks; none of no task.
    pub(crate) fn agent(&self, trace: &Trace, task: u32) -> Option<u16> {
        let row = self.rows.of(Some(task).filter(|task| *task != NONE)?).first()?;
        trace.cores.get(trace.executions.core(*row as usize) as usize)?.agent
    }

    /// The row before on the same core, if it is of another task.
    pub(crate) fn row_before(&self, trace: &Trace, row: u32) -> Option<u32> {
        let task = self.of_row[row as usize];
        let core = trace.executions.core(row as usize);
        let before = (0..row).rev().take_while(|at| trace.executions.core(*at as usize) == core);
        before.into_iter().find(|at| self.of_row[*at as usize] != task)
    }

    /// The producer that ended last.
    pub(crate) fn last_producer(&self, task: u32) -> Option<u32> {
        self.preds.of(task).iter().copied().filter(|pred| *pred != task).max_by_key(|pred| self.end[*pred as usize])
    }

    /// The task before on any of a task's cores that ended last.
    pub(crate) fn last_on_cores(&self, trace: &Trace, task: u32) -> Option<u32> {
        let rows = self.rows.of(task).iter();
        let before = rows.filter_map(|row| self.row_before(trace, *row)).map(|row| self.of_row[row as usize]);
        before.max_by_key(|before| self.end[*before as usize])
    }

    /// Tasks in an order in which producers come before their consumers; those of a cycle, which only a broken file
    /// has, are left out.
    pub(crate) fn topological(&self) -> Vec<u32> {
        let tasks = self.len();
        let pairs = (0..tasks as u32).flat_map(|succ| self.preds.of(succ).iter().map(move |pred| (*pred, succ)));
        let succs = TaskLists::new(tasks, pairs);
        let mut waiting: Vec<u32> = (0..tasks as u32).map(|task| self.preds.of(task).len() as u32).collect();
        let mut order: Vec<u32> = (0..tasks as u32).filter(|task| waiting[*task as usize] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for succ in succs.of(order[next]) {
                waiting[*succ as usize] -= 1;
                if waiting[*succ as usize] == 0 {
                    order.push(*succ);
                }
            }
            next += 1;
        }
        order
    }
}
