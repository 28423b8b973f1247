//! Who waits for whom, for the scripts: of every submitted task its producers, and which of those data does not need.

use std::collections::HashMap;

use plimsoll_trace::Trace;
use plimsoll_trace::deps::{Dependencies, EdgeSource};

use super::Answers;
use super::columns::{Column, ColumnPart};
use super::lanes::Tasks;

/// How an edge is told in one number: bits 0 to 2 why there is one (as [`EdgeSource`] is numbered), bit 3 whether only a
/// part of what is used was touched, bits 4 and 5 what is false about it, 0 if data needs it.
fn word(source: EdgeSource, covered: bool, false_kind: u64) -> u64 {
    source as u64 | u64::from(!covered) << 3 | false_kind << 4
}

/// PageEdges of a trace, each pair once, by later task.
struct PageEdges {
    all: Vec<(u32, u32, u64)>,
}

impl PageEdges {
    fn of(deps: &Dependencies, answers: &Answers) -> Self {
        let kinds = false_kinds(answers);
        let tell = |pred: u32, succ: u32| {
            if kinds.is_empty() {
                return 0;
            }
            let pair = (deps.tasks[pred as usize].word, deps.tasks[succ as usize].word);
            kinds.get(&pair).copied().unwrap_or(0)
        };
        let mut all: Vec<(u32, u32, u64)> =
            deps.edges.iter().map(|e| (e.succ, e.pred, word(e.source, e.covered, tell(e.pred, e.succ)))).collect();
        // One pair may have several reasons: the first by number stands for them.
        if !all.is_sorted() {
            all.sort_unstable();
        }
        all.dedup_by_key(|(succ, pred, _)| (*succ, *pred));
        Self { all }
    }
}

/// What is false about each pair of tasks that data does not need, by their words.
fn false_kinds(answers: &Answers) -> HashMap<(u64, u64), u64> {
    let all = answers.false_dependencies.iter().flatten();
    all.filter_map(|pair| {
        let kind = match pair.kind {
            "no_shared_byte" => 1,
            "write_after_read" => 2,
            _ => 3,
        };
        Some(((Trace::task_word(&pair.pred)?, Trace::task_word(&pair.succ)?), kind))
    })
    .collect()
}

/// Adds the columns of all edges, and of those along the critical path, which stay when the others are left out. Gives the
/// number of tasks whose dependencies are known, and of edges.
pub(super) fn put(trace: &Trace, answers: &Answers, tasks: &Tasks, columns: &mut Vec<Column>) -> (usize, u64) {
    let Some(deps) = &trace.deps else { return (0, 0) };
    let edges = PageEdges::of(deps, answers);
    let mut place = Column::new("node.task", ColumnPart::Edges);
    let mut count = Column::new("edge.count", ColumnPart::Edges);
    let mut back = Column::new("edge.back", ColumnPart::Edges);
    let mut why = Column::new("edge.why", ColumnPart::Edges);
    let mut last = 0;
    deps.tasks.iter().for_each(|node| place.put_delta(tasks.place(node.word, &mut last)));
    let mut next = 0;
    for node in 0..deps.tasks.len() as u32 {
        let from = next;
        while let Some((_, pred, word)) = edges.all.get(next).filter(|edge| edge.0 == node) {
            back.put_signed(i64::from(node) - i64::from(*pred));
            why.put(*word);
            next += 1;
        }
        count.put((next - from) as u64);
    }
    columns.extend([place, count, back, why, along_the_path(deps, answers, &edges)]);
    (deps.tasks.len(), next as u64)
}

/// Of every task of the critical path the edge from the task before it, plus 1; 0 if it does not wait for that one.
fn along_the_path(deps: &Dependencies, answers: &Answers, edges: &PageEdges) -> Column {
    let mut column = Column::new("path.why", ColumnPart::Tasks);
    let Some(path) = &answers.path else { return column };
    let index = deps.index();
    let node = |name: &str| index.get(Trace::task_word(name)?);
    let mut before = None;
    for hop in &path.path {
        let own = node(&hop.task);
        let found = before.zip(own).and_then(|(pred, succ): (usize, usize)| {
            let pair = (succ as u32, pred as u32);
            let at = edges.all.partition_point(|edge| (edge.0, edge.1) < pair);
            edges.all.get(at).filter(|edge| (edge.0, edge.1) == pair)
        });
        column.put(found.map_or(0, |edge| edge.2 + 1));
        before = own;
    }
    column
}
