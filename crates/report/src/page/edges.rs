//! Who waits for whom, for the scripts: of every submitted task its producers, and which of those data does not need.

use plimsoll_analyze::FalseKind;
use plimsoll_trace::Trace;
use plimsoll_trace::deps::{Dependencies, Edge, EdgeSource, EdgesByLater};

use super::Answers;
use super::columns::{Column, ColumnPart, Packing};
use super::lanes::Tasks;

/// How an edge is told in one number: bits 0 to 2 why there is one (as [`EdgeSource`] is numbered), bit 3 whether only a
/// part of what is used was touched, bits 4 and 5 what is false about it, 0 if data needs it.
fn word(source: EdgeSource, covered: bool, false_kind: u64) -> u64 {
    source as u64 | u64::from(!covered) << 3 | false_kind << 4
}

/// The edges of a trace as the page tells them.
struct PageEdges<'t> {
    by_later: EdgesByLater<'t>,
    /// Pairs (later, earlier) that data does not need, in order, and what is false about each.
    false_kinds: Vec<((u32, u32), u64)>,
}

impl PageEdges<'_> {
    /// Puts the producers of a task and the words of its edges in place of what `to` holds, each producer once.
    fn producers(&self, edges: &[Edge], to: &mut Vec<(u32, u64)>) {
        to.clear();
        to.extend(edges.iter().map(|edge| {
            let found = self.false_kinds.binary_search_by_key(&(edge.succ, edge.pred), |(pair, _)| *pair);
            (edge.pred, word(edge.source, edge.covered, found.map_or(0, |at| self.false_kinds[at].1)))
        }));
        // One pair may have several reasons: the first by number stands for them.
        to.sort_unstable();
        to.dedup_by_key(|(pred, _)| *pred);
    }
}

/// What is false about each pair of tasks that data does not need.
fn false_kinds(answers: &Answers) -> Vec<((u32, u32), u64)> {
    let of = |kind: FalseKind| match kind {
        FalseKind::NoSharedByte => 1,
        FalseKind::WriteAfterRead => 2,
        FalseKind::WriteAfterWrite => 3,
    };
    let all = answers.false_dependencies.iter().flatten();
    let mut all: Vec<_> = all.map(|pair| ((pair.succ, pair.pred), of(pair.kind))).collect();
    all.sort_unstable();
    all
}

/// Adds the columns of all edges, and of those along the critical path, which stay when the others are left out. Gives the
/// number of tasks whose dependencies are known, and of edges.
pub(super) fn put(trace: &Trace, answers: &Answers, tasks: &Tasks, columns: &mut Packing) -> (usize, u64) {
    let Some(deps) = &trace.deps else { return (0, 0) };
    let edges = PageEdges { by_later: deps.by_later(), false_kinds: false_kinds(answers) };
    let mut place = Column::new("node.task", ColumnPart::Edges);
    let mut count = Column::new("edge.count", ColumnPart::Edges);
    let mut back = Column::new("edge.back", ColumnPart::Edges);
    let mut why = Column::new("edge.why", ColumnPart::Edges);
    let mut last = 0;
    deps.tasks.iter().for_each(|node| place.put_delta(tasks.place(node.word, &mut last)));
    let (mut producers, mut all) = (Vec::new(), 0);
    let mut groups = edges.by_later.each_task().peekable();
    for node in 0..deps.tasks.len() as u32 {
        let own = groups.next_if(|edges| edges[0].succ == node).unwrap_or(&[]);
        edges.producers(own, &mut producers);
        for (pred, word) in &producers {
            back.put_signed(i64::from(node) - i64::from(*pred));
            why.put(*word);
        }
        count.put(producers.len() as u64);
        all += producers.len() as u64;
    }
    drop(groups);
    columns.extend([place, count, back, why, along_the_path(deps, answers, &edges)]);
    (deps.tasks.len(), all)
}

/// For every task of the critical path: the number of the edge from the task before it, plus 1; 0 if it does not wait for
/// that task.
fn along_the_path(deps: &Dependencies, answers: &Answers, edges: &PageEdges<'_>) -> Column {
    let mut column = Column::new("path.why", ColumnPart::Tasks);
    let index = deps.index();
    let (mut before, mut producers) = (None, Vec::new());
    for task in &answers.path_tasks {
        let own = index.get(*task);
        let found = before.zip(own).and_then(|(pred, succ): (usize, usize)| {
            edges.producers(edges.by_later.to(succ as u32), &mut producers);
            let at = producers.binary_search_by_key(&(pred as u32), |(pred, _)| *pred).ok()?;
            Some(producers[at].1)
        });
        column.put(found.map_or(0, |word| word + 1));
        before = own;
    }
    column
}
