//! Which executions each dependency joins.

use std::collections::BTreeMap;

use plimsoll_trace::deps::{Dependencies, TaskIndex};
use plimsoll_trace::{Executions, Trace};

/// Arrows by execution. A task that runs in parts sends from the part that ends last to the part that starts first.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    out: ByExecution,
    into: ByExecution,
}

/// Numbers of arrows, grouped by execution.
#[derive(Debug, Default)]
struct ByExecution {
    /// Where each execution's numbers start; one longer than there are executions, or empty.
    starts: Vec<u32>,
    ids: Vec<u64>,
}

/// The executions of each task in one round, by the task's place: the part that starts first and the one that ends last.
struct Ends {
    first: Vec<u32>,
    last: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Ends {
    fn enter(&mut self, executions: &Executions, index: &TaskIndex, round: &[u32]) {
        let end = |at: u32| executions.end(at as usize).unwrap_or(u64::MAX);
        for &at in round {
            let Some(task) = index.of_execution(executions.word(at as usize)) else { continue };
            let (first, last) = (&mut self.first[task], &mut self.last[task]);
            if *first == NONE || executions.start(at as usize) < executions.start(*first as usize) {
                *first = at;
            }
            if *last == NONE || end(at) > end(*last) {
                *last = at;
            }
        }
    }

    /// Takes back what `enter` has set, entry by entry: clearing both columns in every round would take rounds times tasks.
    fn clear(&mut self, executions: &Executions, index: &TaskIndex, round: &[u32]) {
        for task in round.iter().filter_map(|&at| index.of_execution(executions.word(at as usize))) {
            (self.first[task], self.last[task]) = (NONE, NONE);
        }
    }

    /// The executions that an arrow joins, if both tasks ran.
    fn join(&self, pred: u32, succ: u32) -> Option<(u32, u32)> {
        let (from, to) = (self.last[pred as usize], self.first[succ as usize]);
        (from != NONE && to != NONE && from != to).then_some((from, to))
    }
}

impl FlowTable {
    /// Dependencies join executions of one round. A prebuilt graph is recorded in the first and drawn in every round.
    pub(super) fn of(trace: &Trace, deps: &Dependencies) -> Self {
        let executions = &trace.executions;
        let index = deps.index();
        let mut rounds: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for at in 0..executions.len() {
            rounds.entry(trace.round(executions.word(at))).or_default().push(at as u32);
        }
        let mut pairs: BTreeMap<u64, Vec<(u32, u32)>> = BTreeMap::new();
        for pair in deps.pairs() {
            let round = trace.round(deps.tasks[pair.1 as usize].word);
            pairs.entry(round).or_default().push(pair);
        }
        let mut ends = Ends { first: vec![NONE; deps.tasks.len()], last: vec![NONE; deps.tasks.len()] };
        let mut arrows: Vec<(u32, u32)> = Vec::new();
        for (round, ran) in &rounds {
            ends.enter(executions, &index, ran);
            let own = pairs.get(round).or_else(|| pairs.get(&0));
            arrows.extend(own.into_iter().flatten().filter_map(|&(pred, succ)| ends.join(pred, succ)));
            ends.clear(executions, &index, ran);
        }
        Self::of_arrows(executions.len(), &arrows)
    }

    /// Arrows between executions.
    pub(super) fn of_arrows(executions: usize, arrows: &[(u32, u32)]) -> Self {
        Self {
            out: ByExecution::group(executions, arrows.iter().map(|a| a.0)),
            into: ByExecution::group(executions, arrows.iter().map(|a| a.1)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.out.ids.len()
    }

    #[inline]
    pub(super) fn out_of(&self, at: usize) -> &[u64] {
        self.out.of(at)
    }

    #[inline]
    pub(super) fn ending_at(&self, at: usize) -> &[u64] {
        self.into.of(at)
    }
}

impl ByExecution {
    /// Groups arrow `n`, numbered `n + 1`, under the `n`-th of `ends`.
    fn group(executions: usize, ends: impl Iterator<Item = u32> + Clone) -> Self {
        let mut starts = vec![0u32; executions + 1];
        for end in ends.clone() {
            starts[end as usize + 1] += 1;
        }
        for at in 0..executions {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut ids = vec![0; starts[executions] as usize];
        for (arrow, end) in ends.enumerate() {
            let place = &mut next[end as usize];
            ids[*place as usize] = arrow as u64 + 1;
            *place += 1;
        }
        Self { starts, ids }
    }

    #[inline]
    fn of(&self, at: usize) -> &[u64] {
        match self.starts.get(at..at + 2) {
            Some(&[from, to]) => &self.ids[from as usize..to as usize],
            _ => &[],
        }
    }
}
