//! The graph of dependencies: who waits for whom and why, which edges others imply, and which no data needs.

use std::collections::{BTreeMap, HashMap};

use plimsoll_abi::record::ArgMode;
use plimsoll_trace::Trace;
use plimsoll_trace::deps::{Dependencies, Edge, EdgeSource, NO_ARG, RecordedArg, RecordedView};
use serde::Serialize;

use crate::critical_path::{Wait, observed};
use crate::task_table::TaskTable;

/// The graph of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DependencyGraph {
    /// Tasks, those that only allocate included.
    pub tasks: u64,
    /// Distinct pairs of tasks.
    pub pairs: u64,
    /// Edges as they were inferred: one per argument.
    pub annotated_edges: u64,
    /// Tensors.
    pub tensors: u64,
    /// Pairs that no others imply.
    pub reduced_pairs: u64,
    /// The tasks, in order of submission.
    pub nodes: Vec<Node>,
    /// The pairs, by later task; only those that no others imply, if that was asked for.
    pub edges: Vec<Pair>,
    /// Pairs that data does not need, those that cost most first.
    pub false_dependencies: Vec<FalseDependency>,
}

/// A task of the graph.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Node {
    /// The task.
    pub task: String,
    /// Its kernels for a matrix core and two vector cores; −1 where there is none.
    pub kernels: [i32; 3],
    /// The name of the first of them.
    pub func: Option<String>,
    /// Whether it only allocates.
    pub alloc: bool,
    /// How many it waits for.
    pub fanin: u32,
    /// How many wait for it.
    pub fanout: u32,
}

/// A pair of tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Pair {
    /// The earlier task.
    pub pred: String,
    /// The later task.
    pub succ: String,
    /// Why, each reason once: `explicit`, `creator`, `tensormap`, `reader`, `fanout`.
    pub sources: Vec<&'static str>,
    /// Whether other pairs imply it.
    pub implied: bool,
}

/// A pair that data does not need.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FalseDependency {
    /// The earlier task.
    pub pred: String,
    /// The later task.
    pub succ: String,
    /// `no_shared_byte`: the parts overlap only by a conservative test. `write_after_read`, `write_after_write`: another
    /// buffer would remove it.
    pub kind: &'static str,
    /// The later task's argument.
    pub arg: Option<i16>,
    /// What waiting for it costs on the observed critical path; 0 off the path.
    pub cost_ns: u64,
}

/// The graph of a trace; none if no dependencies were recorded. With `reduced`, edges that others imply are left out.
pub fn graph(trace: &Trace, reduced: bool) -> Option<DependencyGraph> {
    let deps = trace.deps.as_ref()?;
    let pairs = deps.pairs();
    let implied = implied(deps.tasks.len(), &pairs);
    let mut nodes: Vec<Node> = deps
        .tasks
        .iter()
        .map(|task| {
            let kernel = task.kernels.iter().find_map(|kernel| u32::try_from(*kernel).ok());
            Node {
                task: trace.task_name(task.word),
                kernels: task.kernels,
                func: kernel.map(|kernel| trace.kernel_name(kernel).into_owned()),
                alloc: task.implied,
                fanin: 0,
                fanout: 0,
            }
        })
        .collect();
    for (pred, succ) in &pairs {
        nodes[*pred as usize].fanout += 1;
        nodes[*succ as usize].fanin += 1;
    }
    let mut sources: BTreeMap<(u32, u32), Vec<&'static str>> = BTreeMap::new();
    for edge in &deps.edges {
        let reasons = sources.entry((edge.pred, edge.succ)).or_default();
        if !reasons.contains(&edge.source.name()) {
            reasons.push(edge.source.name());
        }
    }
    let name = |task: u32| trace.task_name(deps.tasks[task as usize].word);
    let shown = pairs.iter().zip(&implied).filter(|(_, implied)| !(reduced && **implied));
    let edges = shown.map(|((pred, succ), implied)| Pair {
        pred: name(*pred),
        succ: name(*succ),
        sources: sources.get(&(*pred, *succ)).cloned().unwrap_or_default(),
        implied: *implied,
    });
    Some(DependencyGraph {
        tasks: deps.tasks.len() as u64,
        pairs: pairs.len() as u64,
        annotated_edges: deps.edges.len() as u64,
        tensors: deps.tensors.len() as u64,
        reduced_pairs: implied.iter().filter(|implied| !**implied).count() as u64,
        edges: edges.collect(),
        nodes,
        false_dependencies: false_dependencies(trace),
    })
}

/// Which pairs others imply: a path of two or more pairs joins the same tasks. Producers are submitted before their
/// consumers, so only tasks between the two can lie on such a path; edges that run the other way, which only a broken file
/// has, are kept.
fn implied(tasks: usize, pairs: &[(u32, u32)]) -> Vec<bool> {
    let mut starts = vec![0usize; tasks + 1];
    for (_, succ) in pairs {
        starts[*succ as usize + 1] += 1;
    }
    for at in 0..tasks {
        starts[at + 1] += starts[at];
    }
    let mut implied = vec![false; pairs.len()];
    // For each task, the last task from which it was reached: so nothing has to be cleared between two searches.
    let mut reached = vec![u32::MAX; tasks];
    let mut stack = Vec::new();
    for succ in 0..tasks {
        let own = starts[succ]..starts[succ + 1];
        if own.len() < 2 {
            continue;
        }
        let oldest = pairs[own.clone()].iter().map(|(pred, _)| *pred).min().unwrap_or(0);
        let mark = succ as u32;
        stack.extend(own.clone().map(|at| pairs[at].0));
        while let Some(task) = stack.pop() {
            for (pred, _) in &pairs[starts[task as usize]..starts[task as usize + 1]] {
                if *pred >= oldest && *pred < task && reached[*pred as usize] != mark {
                    reached[*pred as usize] = mark;
                    stack.push(*pred);
                }
            }
        }
        for at in own {
            implied[at] = reached[pairs[at].0 as usize] == mark;
        }
    }
    implied
}

/// The pairs of a trace that data does not need, those that cost most first; none if no dependencies were recorded.
pub fn false_dependencies(trace: &Trace) -> Vec<FalseDependency> {
    let Some(deps) = &trace.deps else { return Vec::new() };
    let name = |task: u32| trace.task_name(deps.tasks[task as usize].word);
    let told = |pair: FalsePair| FalseDependency {
        pred: name(pair.pred),
        succ: name(pair.succ),
        kind: pair.kind.name(),
        arg: (pair.arg != NO_ARG).then_some(pair.arg),
        cost_ns: pair.cost_ns,
    };
    false_pairs(trace, &TaskTable::new(trace)).into_iter().map(told).collect()
}

/// A pair of tasks that data does not need: all of its edges are false.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FalsePair {
    /// The earlier task's number among the tasks of the graph.
    pub pred: u32,
    /// The later task's number.
    pub succ: u32,
    /// What is false about the first of its edges.
    pub kind: FalseKind,
    /// The later task's argument of that edge.
    pub arg: i16,
    /// What waiting for it costs on the observed critical path; 0 off the path.
    pub cost_ns: u64,
}

/// What is false about a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FalseKind {
    /// The parts overlap only by a conservative test.
    NoSharedByte,
    /// The later task overwrites what the earlier one reads: another buffer would remove the dependency.
    WriteAfterRead,
    /// The later task overwrites what the earlier one writes, likewise.
    WriteAfterWrite,
}

impl FalseKind {
    /// As [`FalseDependency::kind`] names it.
    pub const fn name(self) -> &'static str {
        match self {
            FalseKind::NoSharedByte => "no_shared_byte",
            FalseKind::WriteAfterRead => "write_after_read",
            FalseKind::WriteAfterWrite => "write_after_write",
        }
    }
}

/// The same pairs by number.
pub fn false_pairs(trace: &Trace, table: &TaskTable) -> Vec<FalsePair> {
    let Some(deps) = &trace.deps else { return Vec::new() };
    let mut found = find_false(deps);
    let costs = if found.is_empty() { BTreeMap::new() } else { costs(trace, table) };
    let word = |task: u32| deps.tasks[task as usize].word;
    for pair in &mut found {
        pair.cost_ns = costs.get(&(word(pair.pred), word(pair.succ))).copied().unwrap_or(0);
    }
    found.sort_by_key(|pair| (std::cmp::Reverse(pair.cost_ns), pair.pred, pair.succ));
    found
}

fn find_false(deps: &Dependencies) -> Vec<FalsePair> {
    let by_later = deps.by_later();
    let mut overlaps = Overlaps { deps, known: HashMap::new() };
    let (mut found, mut by_pred) = (Vec::new(), Vec::new());
    for edges in by_later.each_task() {
        by_pred.clear();
        by_pred.extend(edges);
        by_pred.sort_by_key(|edge: &&Edge| edge.pred);
        for pair in by_pred.chunk_by(|a, b| a.pred == b.pred) {
            let first = pair[0];
            let Some(kind) = overlaps.false_kind(first) else { continue };
            // One true reason is enough.
            if pair[1..].iter().all(|edge| overlaps.false_kind(edge).is_some()) {
                found.push(FalsePair { pred: first.pred, succ: first.succ, kind, arg: first.arg, cost_ns: 0 });
            }
        }
    }
    found
}

/// Which views share no element. That depends on the views' forms and on how far apart they begin alone, and a run has few
/// of these, so each is compared once.
struct Overlaps<'t> {
    deps: &'t Dependencies,
    known: HashMap<(u32, u32, i64), bool>,
}

impl Overlaps<'_> {
    /// What is false about an edge; nothing if data flows along it or a person asked for it.
    fn false_kind(&mut self, edge: &Edge) -> Option<FalseKind> {
        if matches!(edge.source, EdgeSource::Explicit | EdgeSource::Creator | EdgeSource::Fanout) {
            return None;
        }
        let own = argument(self.deps, edge.succ, edge.arg)?;
        if let Some(theirs) = argument(self.deps, edge.pred, edge.pred_arg)
            && self.are_apart(own, theirs)
        {
            return Some(FalseKind::NoSharedByte);
        }
        match (edge.source, own.mode) {
            (EdgeSource::Reader, _) => Some(FalseKind::WriteAfterRead),
            (_, ArgMode::OutputExisting) => Some(FalseKind::WriteAfterWrite),
            _ => None,
        }
    }

    fn are_apart(&mut self, a: &RecordedArg, b: &RecordedArg) -> bool {
        let deps = self.deps;
        let compared = || shares_no_element(&deps.view(a), &deps.view(b));
        let distance = i64::try_from(a.offset).ok().zip(i64::try_from(b.offset).ok()).map(|(a, b)| b - a);
        match distance {
            Some(distance) => *self.known.entry((a.form, b.form, distance)).or_insert_with(compared),
            None => compared(),
        }
    }
}

fn argument(deps: &Dependencies, task: u32, arg: i16) -> Option<&RecordedArg> {
    let idx = u16::try_from(arg).ok()?;
    deps.args_of(&deps.tasks[task as usize]).iter().find(|arg| arg.idx == idx)
}

/// Most elements of a view that are listed to compare two views one by one.
const LISTED: u64 = 1 << 12;

/// Whether two views of one buffer certainly share no element. Views too large to be listed are taken to share one.
fn shares_no_element(a: &RecordedView, b: &RecordedView) -> bool {
    let (Some(mut a), Some(mut b)) = (elements(a), elements(b)) else { return false };
    a.sort_unstable();
    b.sort_unstable();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => return false,
        }
    }
    true
}

/// The offsets of a view's elements; none if there are too many.
fn elements(view: &RecordedView) -> Option<Vec<i64>> {
    let dims = view.ndim as usize;
    let count = view.shape[..dims].iter().try_fold(1u64, |product, extent| product.checked_mul(u64::from(*extent)))?;
    if count > LISTED {
        return None;
    }
    let mut all = vec![i64::try_from(view.offset).ok()?];
    for (extent, stride) in view.shape[..dims].iter().zip(&view.strides[..dims]) {
        let steps = 0..i64::from(*extent);
        all = all.iter().flat_map(|base| steps.clone().map(move |step| base + step * i64::from(*stride))).collect();
    }
    Some(all)
}

/// What the waits of the observed path cost, by pair of words.
fn costs(trace: &Trace, table: &TaskTable) -> BTreeMap<(u64, u64), u64> {
    let Some(window) = trace.executions.kernel_time().window() else { return BTreeMap::new() };
    let steps = observed(trace, table, window);
    let waits = steps.iter().filter(|step| step.kind == Wait::DataWait);
    waits
        .map(|step| {
            let pair = (table.word[step.pred as usize], table.word[step.task as usize]);
            (pair, trace.clock.ns(step.stall(table)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_a_longer_path_implies_are_found() {
        // 0 → 1 → 2 → 3, and 0 → 2, 0 → 3, 1 → 3 which it implies.
        let pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
        assert_eq!(implied(4, &pairs), [false, true, false, true, true, false]);
        assert_eq!(implied(4, &[(0, 2), (1, 2), (1, 3)]), [false, false, false]);
    }

    #[test]
    fn a_comparison_is_used_again_for_views_as_far_apart_and_no_others() {
        let mut deps = Dependencies::default();
        let rows = deps.forms.number(&RecordedView::new(1, [4, 0, 0, 0, 0], [2, 0, 0, 0, 0], 0));
        let one = deps.forms.number(&RecordedView::new(1, [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], 0));
        let arg = |form, offset| RecordedArg {
            offset,
            tensor: 0,
            form,
            idx: 0,
            mode: ArgMode::Input,
            dtype: plimsoll_abi::Dtype::F32,
        };
        let mut overlaps = Overlaps { deps: &deps, known: HashMap::new() };
        for (a, b, apart) in [
            (arg(rows, 0), arg(rows, 1), true),
            (arg(rows, 10), arg(rows, 11), true),
            (arg(rows, 10), arg(rows, 12), false),
            (arg(rows, 10), arg(one, 11), true),
            (arg(one, 10), arg(rows, 10), false),
            (arg(rows, 10), arg(one, 9), true),
            (arg(rows, u64::MAX), arg(rows, u64::MAX), false),
        ] {
            assert_eq!(overlaps.are_apart(&a, &b), apart, "{a:?} {b:?}");
        }
        assert_eq!(overlaps.known.len(), 5, "two of them are as far apart");
    }

    #[test]
    fn views_are_compared_element_by_element() {
        let view = |offset, shape: [u32; 2], strides: [i32; 2]| {
            RecordedView::new(2, [shape[0], shape[1], 0, 0, 0], [strides[0], strides[1], 0, 0, 0], offset)
        };
        let (even, odd) = (view(0, [4, 4], [8, 2]), view(1, [4, 4], [8, 2]));
        assert!(shares_no_element(&even, &odd));
        assert!(!shares_no_element(&even, &even));
        assert!(!shares_no_element(&view(0, [1 << 20, 1 << 10], [1, 1]), &odd), "too large to tell");
    }
}
