//! Tasks as they ran: the rows of each, when it was submitted, dispatched and seen finished, and which timed tasks it
//! waited for. What the questions about waiting are answered from.

use std::collections::HashSet;

use plimsoll_trace::deps::{Dependencies, TaskIndex};
use plimsoll_trace::{NO_TICKS, Trace};

/// Stands for no task.
pub(crate) const NONE: u32 = u32::MAX;

/// Lists of numbers, one list per task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskLists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl TaskLists {
    /// From pairs (list, item), keeping the order of items within a list. `each` shows all pairs, twice the same: so
    /// they are nowhere but in the lists.
    fn new(lists: usize, each: impl Fn(&mut dyn FnMut(u32, u32))) -> Self {
        // Counts, then where each list begins, then where each list's next item goes: at last, where it ends.
        let mut starts = vec![0u32; lists + 1];
        each(&mut |list, _| starts[list as usize] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        let mut items = vec![0; sum as usize];
        each(&mut |list, item| {
            let place = &mut starts[list as usize];
            items[*place as usize] = item;
            *place += 1;
        });
        starts.rotate_right(1);
        starts[0] = 0;
        Self { starts, items }
    }

    pub(crate) fn of(&self, list: u32) -> &[u32] {
        &self.items[self.starts[list as usize] as usize..self.starts[list as usize + 1] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}

/// A time of a task in a column that is empty if none was recorded.
fn recorded_at(column: &[u64], task: u32) -> Option<u64> {
    column.get(task as usize).copied().filter(|at| *at != NO_TICKS)
}

/// The tasks of a trace that ran: what every question about waiting is answered from. Making it takes about as long as
/// answering one, so whoever asks several makes it once. Times are ticks.
#[derive(Clone, Debug)]
pub struct TaskTable {
    /// Task id and round.
    pub(crate) word: Vec<u64>,
    /// First start of its rows.
    pub(crate) start: Vec<u64>,
    /// Last end of its rows; the start of one that still ran.
    pub(crate) end: Vec<u64>,
    /// Earliest dispatch; [`NO_TICKS`] where it was not recorded, and empty if none was.
    dispatch: Vec<u64>,
    /// Latest finish, likewise.
    finish: Vec<u64>,
    /// End of its submit, likewise.
    submitted: Vec<u64>,
    /// The task of each execution.
    pub(crate) of_row: Vec<u32>,
    /// The executions of each task.
    pub(crate) rows: TaskLists,
    /// The timed producers of each task, each once.
    pub(crate) preds: TaskLists,
    /// The task of each round that ended last, by round.
    last_of_round: Vec<(u64, u32)>,
    index: TaskIndex,
}

impl TaskTable {
    /// The tasks of a trace.
    pub fn new(trace: &Trace) -> Self {
        let executions = &trace.executions;
        let mut index = TaskIndex::with_room_for((0..executions.len()).map(|at| executions.word(at)));
        let mut word = Vec::with_capacity(executions.len());
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
        let recorded = |is: bool| vec![NO_TICKS; if is { tasks } else { 0 }];
        let mut table = Self {
            word,
            start: vec![u64::MAX; tasks],
            end: vec![0; tasks],
            dispatch: recorded(executions.has_lifecycle()),
            finish: recorded(executions.has_lifecycle()),
            submitted: recorded(!trace.orch_phases.is_empty()),
            rows: TaskLists::new(tasks, |see| of_row.iter().zip(0..).for_each(|(task, row)| see(*task, row))),
            of_row,
            preds: TaskLists::default(),
            last_of_round: Vec::new(),
            index,
        };
        table.take_times(trace);
        table.preds = table.producers(trace);
        table.last_of_round = table.ends_of_rounds(trace);
        table
    }

    /// Earliest dispatch of a task; absent where it was not recorded.
    pub(crate) fn dispatch(&self, task: u32) -> Option<u64> {
        recorded_at(&self.dispatch, task)
    }

    /// Latest finish of a task; absent where it was not recorded.
    pub(crate) fn finish(&self, task: u32) -> Option<u64> {
        recorded_at(&self.finish, task)
    }

    /// End of a task's submit; absent where it was not recorded.
    pub(crate) fn submitted(&self, task: u32) -> Option<u64> {
        recorded_at(&self.submitted, task)
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

    /// The timed producers of each task. The graph of a prebuilt program is recorded once, and holds in every round.
    fn producers(&self, trace: &Trace) -> TaskLists {
        let Some(deps) = &trace.deps else { return TaskLists::new(self.len(), |_| {}) };
        let by_later = deps.by_later();
        let marks = self.round_marks(deps);
        TaskLists::new(self.len(), |see| {
            let mut ran = vec![NONE; deps.tasks.len()];
            for mark in &marks {
                for (ran, node) in ran.iter_mut().zip(&deps.tasks) {
                    *ran = self.find(node.word ^ mark).unwrap_or(NONE);
                }
                by_later.each_pair(|pred, succ| {
                    let (pred, succ) = (ran[pred as usize], ran[succ as usize]);
                    if pred != NONE && succ != NONE {
                        see(succ, pred);
                    }
                });
            }
        })
    }

    /// Per round, the bits in which its task words differ from the recorded graph's; 0 for the recorded round.
    fn round_marks(&self, deps: &Dependencies) -> Vec<u64> {
        let known = deps.index();
        let (mut marks, mut seen, mut last) = (vec![0], HashSet::new(), 0);
        for word in self.word.iter().filter(|word| known.get(**word).is_none()) {
            let Some(task) = known.of_execution(*word) else { continue };
            let mark = word ^ deps.tasks[task].word;
            // Executions of one round follow each other on each core, so the mark rarely changes.
            if last != mark && seen.insert(mark) {
                marks.push(mark);
            }
            last = mark;
        }
        marks
    }

    /// The edges of the graph in every round that it holds in: what the words of both tasks differ in from those of the graph, and the
    /// edge's number. Of a round that the graph is not told of, those of tasks that ran are given.
    pub fn edges_of_rounds(&self, deps: &Dependencies) -> Vec<(u64, u32)> {
        let mut edges = Vec::with_capacity(deps.edges.len());
        for mark in self.round_marks(deps) {
            let ran = |task: u32| self.find(deps.tasks[task as usize].word ^ mark).is_some();
            let all = deps.edges.iter().zip(0u32..);
            edges.extend(all.filter(|(edge, _)| mark == 0 || ran(edge.succ)).map(|(_, number)| (mark, number)));
        }
        edges
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

    /// A task's executions that have ended: the core of each, its start and its end.
    pub(crate) fn executions<'t>(
        &'t self,
        trace: &'t Trace,
        task: u32,
    ) -> impl Iterator<Item = (u16, u64, u64)> + use<'t> {
        let rows = self.rows.of(task).iter().map(|row| *row as usize);
        rows.filter_map(|row| {
            Some((trace.executions.core(row), trace.executions.start(row), trace.executions.end(row)?))
        })
    }

    /// The agent that hands a task's first core its tasks; none of no task.
    pub(crate) fn agent(&self, trace: &Trace, task: u32) -> Option<u16> {
        let row = self.rows.of(Some(task).filter(|task| *task != NONE)?).first()?;
        trace.cores.get(trace.executions.core(*row as usize) as usize)?.agent
    }

    /// The rows of other tasks that a task's rows follow on their cores. Where several of its rows follow each other on a core, as blocks
    /// do, the first of them tells. What ran between two blocks of the task is none of them: the task had begun.
    pub(crate) fn rows_before(&self, trace: &Trace, task: u32) -> impl Iterator<Item = u32> {
        let core = |row: u32| trace.executions.core(row as usize);
        let before = self.rows.of(task).iter().filter_map(move |row| Some((*row, row.checked_sub(1)?)));
        let of_others =
            before.filter(move |(row, before)| core(*row) == core(*before) && self.of_row[*before as usize] != task);
        let begin = self.start[task as usize];
        let ended = move |row: u32| trace.executions.end(row as usize).is_some_and(|end| end <= begin);
        of_others
            .filter(move |(row, before)| trace.executions.start(*row as usize) == begin || ended(*before))
            .map(|(_, before)| before)
    }

    /// The producer that ended last.
    pub(crate) fn last_producer(&self, task: u32) -> Option<u32> {
        self.preds.of(task).iter().copied().filter(|pred| *pred != task).max_by_key(|pred| self.end[*pred as usize])
    }

    /// The task before on any of a task's cores that ended last.
    pub(crate) fn last_on_cores(&self, trace: &Trace, task: u32) -> Option<u32> {
        let before = self.rows_before(trace, task).map(|row| self.of_row[row as usize]);
        before.max_by_key(|before| self.end[*before as usize])
    }

    fn ends_of_rounds(&self, trace: &Trace) -> Vec<(u64, u32)> {
        let mut rounds: Vec<(u64, u32)> = Vec::new();
        let mut last = 0;
        for (word, task) in self.word.iter().zip(0u32..) {
            let round = trace.round(*word);
            // Executions of one round follow each other on each core, so the round rarely changes.
            if rounds.get(last).is_none_or(|(of, _)| *of != round) {
                last = rounds.partition_point(|(of, _)| *of < round);
                if rounds.get(last).is_none_or(|(of, _)| *of != round) {
                    rounds.insert(last, (round, task));
                }
            }
            if self.end[task as usize] > self.end[rounds[last].1 as usize] {
                rounds[last].1 = task;
            }
        }
        rounds
    }

    /// The task that ended last of the round before a task's own; none in the first round, and none if it ended after this task began,
    /// as those of rounds that overlap do.
    pub(crate) fn last_of_round_before(&self, trace: &Trace, task: u32) -> Option<u32> {
        let round = trace.round(self.word[task as usize]);
        let before = self.last_of_round.partition_point(|(of, _)| *of < round).checked_sub(1)?;
        let (_, last) = self.last_of_round[before];
        (self.end[last as usize] <= self.start[task as usize]).then_some(last)
    }

    /// Tasks in an order in which producers come before their consumers; those of a cycle, which only a broken file
    /// has, are left out.
    pub(crate) fn topological(&self) -> Vec<u32> {
        let tasks = self.len();
        let succs = TaskLists::new(tasks, |see| {
            (0..tasks as u32).for_each(|succ| self.preds.of(succ).iter().for_each(|pred| see(*pred, succ)));
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a task follow each other on a core: whom they followed is the row before the first of them.
    #[test]
    fn rows_before_are_those_that_a_look_back_finds() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut state = 7u64;
        let rows: Vec<String> = (0..300u64)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (core, task) = (state >> 62, state >> 40 & 7);
                format!("[{core}, {task}, {at}, {}, {}]", at * 10, at * 10 + 9)
            })
            .collect();
        let text = format!(
            r#"{{"chip_swimlane_level": 1, "metadata": {{"clock_freq_hz": 1e9}}, "aicore_tasks": [{}]}}"#,
            rows.join(", ")
        );
        let file = dir.path().join("chip_swimlane_records.json");
        std::fs::write(&file, text).expect("written");
        let trace = plimsoll_trace::open(&file).expect("readable");
        let table = TaskTable::new(&trace);
        let core = |row: u32| trace.executions.core(row as usize);
        for task in 0..table.len() as u32 {
            let look_back = |row: &u32| {
                let same = (0..*row).rev().take_while(|at| core(*at) == core(*row));
                let before = same.into_iter().find(|at| table.of_row[*at as usize] != task)?;
                let begin = table.start[task as usize];
                let ended = trace.executions.end(before as usize).is_some_and(|end| end <= begin);
                (ended || trace.executions.start(*row as usize) == begin).then_some(before)
            };
            let mut expected: Vec<u32> = table.rows.of(task).iter().filter_map(look_back).collect();
            expected.dedup();
            assert_eq!(table.rows_before(&trace, task).collect::<Vec<_>>(), expected, "{task}");
        }
    }
}
