//! The graph of dependencies: who waits for whom and why, which edges others imply, and which no data needs.

mod apart;

use std::collections::{BTreeMap, HashMap};

use plimsoll_abi::record::ArgMode;
use plimsoll_trace::Trace;
use plimsoll_trace::deps::{Dependencies, Edge, EdgeSource, NO_ARG, NO_FORM, RecordedArg};
use serde::Serialize;

use self::apart::{Sharing, sharing};
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
    /// Pairs of which cannot be told whether data needs them: the file has no reasons or no views, or the views were too
    /// irregular to compare.
    pub untold_pairs: u64,
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
    /// What waiting for it costs on the observed critical path, in all rounds of a graph that is told once; 0 off the path.
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
    let (found, untold_pairs) = find_false(deps);
    let false_dependencies = in_order_of_cost(trace, &TaskTable::new(trace), deps, found);
    Some(DependencyGraph {
        tasks: deps.tasks.len() as u64,
        pairs: pairs.len() as u64,
        annotated_edges: deps.edges.len() as u64,
        tensors: deps.tensors.len() as u64,
        reduced_pairs: implied.iter().filter(|implied| !**implied).count() as u64,
        edges: edges.collect(),
        nodes,
        false_dependencies: false_dependencies.into_iter().map(|pair| told(trace, deps, &pair)).collect(),
        untold_pairs,
    })
}

/// Which pairs others imply: a path of two or more pairs joins the same tasks. Ranks grow along pairs, so only tasks with ranks
/// between the two can lie on such a path; pairs that close a cycle, which only a broken file has, are kept.
fn implied(tasks: usize, pairs: &[(u32, u32)]) -> Vec<bool> {
    let mut starts = vec![0usize; tasks + 1];
    for (_, succ) in pairs {
        starts[*succ as usize + 1] += 1;
    }
    for at in 0..tasks {
        starts[at + 1] += starts[at];
    }
    let rank = ranks(&starts, pairs);
    let rank = |task: u32| rank[task as usize];
    let mut implied = vec![false; pairs.len()];
    // For each task, the last task from which it was reached: so nothing has to be cleared between two searches.
    let mut reached = vec![u32::MAX; tasks];
    let mut stack = Vec::new();
    for succ in 0..tasks {
        let own = starts[succ]..starts[succ + 1];
        if own.len() < 2 {
            continue;
        }
        let oldest = pairs[own.clone()].iter().map(|(pred, _)| rank(*pred)).min().unwrap_or(0);
        let mark = succ as u32;
        stack.extend(own.clone().map(|at| pairs[at].0).filter(|pred| rank(*pred) < rank(mark)));
        while let Some(task) = stack.pop() {
            for (pred, _) in &pairs[starts[task as usize]..starts[task as usize + 1]] {
                if rank(*pred) >= oldest && rank(*pred) < rank(task) && reached[*pred as usize] != mark {
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

/// Numbers tasks so that producers come before their consumers: in the order of the file where that is one, and else each task that
/// the file has too late right before the first that needs it. `starts` says where the pairs of each later task begin.
fn ranks(starts: &[usize], pairs: &[(u32, u32)]) -> Vec<u32> {
    let tasks = starts.len() - 1;
    let mut rank = vec![0u32; tasks];
    // Which of its pairs a task is to go on with: its own first one if it was not come to yet.
    let mut next = starts[..tasks].to_vec();
    let mut is_open = vec![false; tasks];
    let (mut given, mut stack) = (0, Vec::new());
    for first in 0..tasks as u32 {
        if !is_open[first as usize] {
            is_open[first as usize] = true;
            stack.push(first);
        }
        while let Some(task) = stack.last().map(|task| *task as usize) {
            if next[task] == starts[task + 1] {
                (rank[task], given) = (given, given + 1);
                stack.pop();
                continue;
            }
            let (pred, _) = pairs[next[task]];
            next[task] += 1;
            if !std::mem::replace(&mut is_open[pred as usize], true) {
                stack.push(pred);
            }
        }
    }
    rank
}

/// The pairs of a trace that data does not need, those that cost most first; none if no dependencies were recorded.
pub fn false_dependencies(trace: &Trace) -> Vec<FalseDependency> {
    let Some(deps) = &trace.deps else { return Vec::new() };
    false_pairs(trace, &TaskTable::new(trace)).iter().map(|pair| told(trace, deps, pair)).collect()
}

fn told(trace: &Trace, deps: &Dependencies, pair: &FalsePair) -> FalseDependency {
    let name = |task: u32| trace.task_name(deps.tasks[task as usize].word);
    FalseDependency {
        pred: name(pair.pred),
        succ: name(pair.succ),
        kind: pair.kind.name(),
        arg: (pair.arg != NO_ARG).then_some(pair.arg),
        cost_ns: pair.cost_ns,
    }
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
    in_order_of_cost(trace, table, deps, find_false(deps).0)
}

fn in_order_of_cost(
    trace: &Trace,
    table: &TaskTable,
    deps: &Dependencies,
    mut found: Vec<FalsePair>,
) -> Vec<FalsePair> {
    let costs = if found.is_empty() { HashMap::new() } else { costs(trace, table, deps) };
    for pair in &mut found {
        pair.cost_ns = costs.get(&(pair.pred, pair.succ)).copied().unwrap_or(0);
    }
    found.sort_by_key(|pair| (std::cmp::Reverse(pair.cost_ns), pair.pred, pair.succ));
    found
}

/// The pairs that data does not need, and how many there are of which that cannot be told.
fn find_false(deps: &Dependencies) -> (Vec<FalsePair>, u64) {
    let by_later = deps.by_later();
    let mut overlaps = Overlaps { deps, known: HashMap::new() };
    let (mut found, mut by_pred, mut untold) = (Vec::new(), Vec::new(), 0);
    for edges in by_later.each_task() {
        by_pred.clear();
        by_pred.extend(edges);
        by_pred.sort_by_key(|edge: &&Edge| edge.pred);
        for pair in by_pred.chunk_by(|a, b| a.pred == b.pred) {
            match overlaps.need_of_pair(pair) {
                Need::Needed => {}
                Need::Untold => untold += 1,
                Need::False(kind) => {
                    let first = pair[0];
                    found.push(FalsePair { pred: first.pred, succ: first.succ, kind, arg: first.arg, cost_ns: 0 });
                }
            }
        }
    }
    (found, untold)
}

/// Whether an edge, or a pair of tasks, is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// Data flows along it, or a person asked for it.
    Needed,
    /// Data does not need it.
    False(FalseKind),
    /// What was recorded does not tell.
    Untold,
}

/// Which views share no element. That depends on the views' forms and on how far apart they begin alone, and a run has few
/// of these, so each is compared once.
struct Overlaps<'t> {
    deps: &'t Dependencies,
    known: HashMap<(u32, u32, i64), Sharing>,
}

impl Overlaps<'_> {
    /// A pair is needed if one of its edges is, and false if all of them are. The kind is that of the first.
    fn need_of_pair(&mut self, pair: &[&Edge]) -> Need {
        let first = self.need(pair[0]);
        let mut all = first;
        for edge in &pair[1..] {
            if all == Need::Needed {
                break;
            }
            match self.need(edge) {
                Need::Needed => all = Need::Needed,
                Need::Untold => all = Need::Untold,
                Need::False(_) => {}
            }
        }
        all
    }

    fn need(&mut self, edge: &Edge) -> Need {
        match edge.source {
            EdgeSource::Explicit | EdgeSource::Creator => return Need::Needed,
            EdgeSource::Fanout => return Need::Untold,
            EdgeSource::Tensormap | EdgeSource::Reader => {}
        }
        let own = argument(self.deps, edge.succ, edge.arg);
        let sharing = self.sharing_of(edge, own);
        match (edge.source, own.map(|arg| arg.mode)) {
            _ if sharing == Sharing::Apart => Need::False(FalseKind::NoSharedByte),
            (EdgeSource::Reader, _) => Need::False(FalseKind::WriteAfterRead),
            (_, Some(ArgMode::OutputExisting)) => Need::False(FalseKind::WriteAfterWrite),
            (_, Some(_)) if sharing == Sharing::Shared => Need::Needed,
            _ => Need::Untold,
        }
    }

    /// Whether what the two tasks of an edge use has an element in common.
    fn sharing_of(&mut self, edge: &Edge, own: Option<&RecordedArg>) -> Sharing {
        if edge.covered {
            return Sharing::Shared;
        }
        let theirs = argument(self.deps, edge.pred, edge.pred_arg);
        if let Some((own, theirs)) = own.zip(theirs).filter(|(own, theirs)| own.dtype == theirs.dtype) {
            return self.sharing(own, theirs);
        }
        self.deps.views_of(edge).map_or(Sharing::Unknown, |(theirs, own)| sharing(&theirs, &own))
    }

    fn sharing(&mut self, a: &RecordedArg, b: &RecordedArg) -> Sharing {
        if a.form == NO_FORM || b.form == NO_FORM {
            return Sharing::Unknown;
        }
        let deps = self.deps;
        let compared = || sharing(&deps.view(a), &deps.view(b));
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

/// What the waits of the observed path cost, by pair of tasks of the graph. A graph that is told once holds in every round, so a pair
/// costs what it does in all of them.
fn costs(trace: &Trace, table: &TaskTable, deps: &Dependencies) -> HashMap<(u32, u32), u64> {
    let mut costs: HashMap<(u32, u32), u64> = HashMap::new();
    let Some(window) = trace.executions.kernel_time().window() else { return costs };
    let index = deps.index();
    let node = |task: u32| index.of_execution(table.word[task as usize]).map(|node| node as u32);
    for step in observed(trace, table, window).iter().filter(|step| step.kind == Wait::DataWait) {
        if let Some(pair) = node(step.pred).zip(node(step.task)) {
            let cost = costs.entry(pair).or_default();
            *cost = cost.saturating_add(trace.clock.ns(step.stall(table)));
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::deps::RecordedView;

    #[test]
    fn pairs_that_a_longer_path_implies_are_found() {
        // 0 → 1 → 2 → 3, and 0 → 2, 0 → 3, 1 → 3 which it implies.
        let pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)];
        assert_eq!(implied(4, &pairs), [false, true, false, true, true, false]);
        assert_eq!(implied(4, &[(0, 2), (1, 2), (1, 3)]), [false, false, false]);
    }

    /// Against whether any other path joins the two, with tasks numbered at random.
    #[test]
    fn the_order_of_tasks_changes_nothing() {
        let mut state = 5u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for _ in 0..200 {
            let tasks = 2 + below(9) as usize;
            let mut number: Vec<u32> = (0..tasks as u32).collect();
            (1..tasks).for_each(|at| number.swap(at, below(at as u64 + 1) as usize));
            let mut pairs = Vec::new();
            for succ in 0..tasks {
                pairs.extend((0..succ).filter(|_| below(3) == 0).map(|pred| (number[pred], number[succ])));
            }
            pairs.sort_by_key(|(pred, succ)| (*succ, *pred));
            let joins = |from: u32, to: u32| {
                let mut seen = vec![from];
                let mut at = 0;
                while at < seen.len() {
                    let next = pairs.iter().filter(|pair| pair.0 == seen[at] && **pair != (from, to));
                    let new: Vec<u32> = next.map(|pair| pair.1).filter(|task| !seen.contains(task)).collect();
                    seen.extend(new);
                    at += 1;
                }
                seen.contains(&to)
            };
            let expected: Vec<bool> = pairs.iter().map(|(pred, succ)| joins(*pred, *succ)).collect();
            assert_eq!(implied(tasks, &pairs), expected, "{pairs:?}");
        }
        assert_eq!(implied(2, &[(1, 0), (0, 1)]), [false, false], "a cycle");
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
        for (a, b, expected) in [
            (arg(rows, 0), arg(rows, 1), Sharing::Apart),
            (arg(rows, 10), arg(rows, 11), Sharing::Apart),
            (arg(rows, 10), arg(rows, 12), Sharing::Shared),
            (arg(rows, 10), arg(one, 11), Sharing::Apart),
            (arg(one, 10), arg(rows, 10), Sharing::Shared),
            (arg(rows, 10), arg(one, 9), Sharing::Apart),
            (arg(rows, u64::MAX), arg(rows, u64::MAX), Sharing::Shared),
        ] {
            assert_eq!(overlaps.sharing(&a, &b), expected, "{a:?} {b:?}");
        }
        assert_eq!(overlaps.known.len(), 5, "two of them are as far apart");
    }
}
