//! The graph of dependencies: who waits for whom and why, which edges others imply, and which no data needs.

use std::collections::BTreeMap;

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
        false_dependencies: false_dependencies(trace, deps),
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
    // Marks which tasks were reached from the present one; a number per task, so that nothing has to be cleared.
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

/// Pairs all of whose edges are false, with what they cost.
fn false_dependencies(trace: &Trace, deps: &Dependencies) -> Vec<FalseDependency> {
    let mut kinds: BTreeMap<(u32, u32), Option<(&'static str, i16)>> = BTreeMap::new();
    for edge in &deps.edges {
        let kind = false_kind(deps, edge).map(|kind| (kind, edge.arg));
        let pair = kinds.entry((edge.pred, edge.succ)).or_insert(kind);
        // One true reason is enough.
        if kind.is_none() {
            *pair = None;
        }
    }
    let costs = costs(trace);
    let word = |task: u32| deps.tasks[task as usize].word;
    let mut found: Vec<FalseDependency> = kinds
        .into_iter()
        .filter_map(|((pred, succ), kind)| {
            let (kind, arg) = kind?;
            Some(FalseDependency {
                pred: trace.task_name(word(pred)),
                succ: trace.task_name(word(succ)),
                kind,
                arg: (arg != NO_ARG).then_some(arg),
                cost_ns: costs.get(&(word(pred), word(succ))).copied().unwrap_or(0),
            })
        })
        .collect();
    found.sort_by_key(|dependency| std::cmp::Reverse(dependency.cost_ns));
    found
}

/// What is false about an edge; nothing if data flows along it or a person asked for it.
fn false_kind(deps: &Dependencies, edge: &Edge) -> Option<&'static str> {
    if matches!(edge.source, EdgeSource::Explicit | EdgeSource::Creator | EdgeSource::Fanout) {
        return None;
    }
    let own = argument(deps, edge.succ, edge.arg)?;
    if let Some(theirs) = argument(deps, edge.pred, edge.pred_arg)
        && shares_no_element(&own.view, &theirs.view)
    {
        return Some("no_shared_byte");
    }
    match (edge.source, own.mode) {
        (EdgeSource::Reader, _) => Some("write_after_read"),
        (_, ArgMode::OutputExisting) => Some("write_after_write"),
        _ => None,
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
fn costs(trace: &Trace) -> BTreeMap<(u64, u64), u64> {
    let Some((first, _)) = trace.executions.kernel_time().window() else { return BTreeMap::new() };
    let table = TaskTable::new(trace);
    let steps = observed(trace, &table, first);
    let waits = steps.iter().filter(|step| step.kind == Wait::DataWait);
    waits
        .map(|step| {
            let pair = (table.word[step.pred as usize], table.word[step.task as usize]);
            (pair, trace.clock.ns(step.stall(&table)))
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
