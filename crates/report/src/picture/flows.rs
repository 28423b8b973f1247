//! Which executions each dependency joins.

use plimsoll_trace::Executions;
use plimsoll_trace::deps::Dependencies;

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

impl FlowTable {
    pub(super) fn of(executions: &Executions, deps: &Dependencies) -> Self {
        const NONE: u32 = u32::MAX;
        let index = deps.index();
        let mut first = vec![NONE; deps.tasks.len()];
        let mut last = vec![NONE; deps.tasks.len()];
        for at in 0..executions.len() {
            let Some(task) = index.get(executions.word(at)) else { continue };
            if first[task] == NONE || executions.start(at) < executions.start(first[task] as usize) {
                first[task] = at as u32;
            }
            let end = |at: u32| executions.end(at as usize).unwrap_or(u64::MAX);
            if last[task] == NONE || end(at as u32) > end(last[task]) {
                last[task] = at as u32;
            }
        }
        let joined = |(pred, succ): (u32, u32)| (last[pred as usize], first[succ as usize]);
        let ran = |ends: &(u32, u32)| ends.0 != NONE && ends.1 != NONE && ends.0 != ends.1;
        let arrows: Vec<(u32, u32)> = deps.pairs().into_iter().map(joined).filter(ran).collect();
        Self {
            out: ByExecution::group(executions.len(), arrows.iter().map(|a| a.0)),
            into: ByExecution::group(executions.len(), arrows.iter().map(|a| a.1)),
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
