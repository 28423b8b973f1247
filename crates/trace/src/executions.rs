//! Executions of tasks on cores, as columns: the core's view joined with the scheduler's.
//!
//! Both views come as rows in any order. The join key is (core, token), and the task word too where both views carry
//! it, because a run may start its tokens again in each round. Rows normally come in the same order on both sides, so
//! the join walks them side by side and falls back to a table only for a core where they do not.

use std::collections::HashMap;
use std::ops::Range;

use plimsoll_abi::TaskId;

use crate::model::task_name;
use crate::{FindingKind, KernelTime, Quality};

/// A time that was not recorded: the dispatch at level 1, or the end of what still ran.
pub const NO_TICKS: u64 = u64::MAX;
/// The kernel of an execution that no file names.
pub const NO_KERNEL: u32 = u32::MAX;

/// The cores' view, one row per execution.
#[derive(Clone, Debug, Default)]
pub struct CoreRows {
    /// The core.
    pub core: Vec<u16>,
    /// Task id and round.
    pub task: Vec<u64>,
    /// The core's dispatch token.
    pub token: Vec<u32>,
    /// The kernel, or [`NO_KERNEL`].
    pub kernel: Vec<u32>,
    /// Start, in ticks.
    pub start: Vec<u64>,
    /// End, in ticks; [`NO_TICKS`] if it still ran.
    pub end: Vec<u64>,
    /// Ticks from receipt to start.
    pub receive_to_start: Vec<u32>,
}

/// The schedulers' view, one row per dispatch.
#[derive(Clone, Debug, Default)]
pub struct DispatchRows {
    /// The core.
    pub core: Vec<u16>,
    /// Task id and round; empty where files do not carry it.
    pub task: Vec<u64>,
    /// The core's dispatch token.
    pub token: Vec<u32>,
    /// Dispatch, in ticks.
    pub dispatch: Vec<u64>,
    /// Finish, in ticks.
    pub finish: Vec<u64>,
}

/// Executions, grouped by core and by start within a core.
#[derive(Clone, Debug, Default)]
pub struct Executions {
    rows: CoreRows,
    dispatch: Vec<u64>,
    finish: Vec<u64>,
}

impl CoreRows {
    /// Number of executions.
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.core.is_empty()
    }

    fn permute(&mut self, order: &[u32]) {
        permute(&mut self.core, order);
        permute(&mut self.task, order);
        permute(&mut self.token, order);
        permute(&mut self.kernel, order);
        permute(&mut self.start, order);
        permute(&mut self.end, order);
        permute(&mut self.receive_to_start, order);
    }
}

impl DispatchRows {
    fn permute(&mut self, order: &[u32]) {
        permute(&mut self.core, order);
        permute(&mut self.task, order);
        permute(&mut self.token, order);
        permute(&mut self.dispatch, order);
        permute(&mut self.finish, order);
    }

    fn key(&self, at: usize, any_task: u64) -> (u32, u64) {
        (self.token[at], self.task.get(at).copied().unwrap_or(any_task))
    }
}

/// What a file calls its rows.
pub(crate) struct RowNames<'f> {
    /// The runtime of the reference that made the ids of tasks; empty for our own.
    pub(crate) runtime: &'f str,
    /// A token as the file has it: those of several runs in one file are numbered anew.
    pub(crate) token_in_file: &'f dyn Fn(u32) -> u32,
}

impl RowNames<'_> {
    fn task(&self, word: u64) -> String {
        task_name(self.runtime, word)
    }
}

impl Executions {
    /// Joins the two views. Without dispatches the lifecycle columns stay absent.
    ///
    /// # Panics
    /// If there are 2^32 - 1 executions or dispatches, or more: 32 bits number them.
    pub fn join(rows: CoreRows, dispatches: DispatchRows, quality: &mut Quality) -> Self {
        Self::join_named(rows, dispatches, &RowNames { runtime: "", token_in_file: &|token| token }, quality)
    }

    /// The same for rows that a file names otherwise: what contradicts itself is told by the file's names.
    pub(crate) fn join_named(
        mut rows: CoreRows,
        mut dispatches: DispatchRows,
        names: &RowNames<'_>,
        quality: &mut Quality,
    ) -> Self {
        // The permutations number rows with 32 bits.
        assert!(rows.len() < u32::MAX as usize && dispatches.core.len() < u32::MAX as usize, "too many executions");
        if let Some(order) = order_by(rows.len(), |i| (rows.core[i], rows.start[i])) {
            rows.permute(&order);
        }
        if let Some(order) = order_by(dispatches.core.len(), |i| dispatches.core[i]) {
            dispatches.permute(&order);
        }
        let mut joined = Self { rows, dispatch: Vec::new(), finish: Vec::new() };
        joined.note_contradictions(names, quality);
        if !dispatches.core.is_empty() {
            joined.dispatch = vec![NO_TICKS; joined.len()];
            joined.finish = vec![NO_TICKS; joined.len()];
            joined.attach(&dispatches, names, quality);
        }
        joined
    }

    fn attach(&mut self, dispatches: &DispatchRows, names: &RowNames<'_>, quality: &mut Quality) {
        let mut from = 0;
        while from < dispatches.core.len() {
            let core = dispatches.core[from];
            let to = from + dispatches.core[from..].partition_point(|c| *c <= core);
            self.attach_core(dispatches, from..to, names, quality);
            from = to;
        }
        // An execution that has not ended has no dispatch record yet, and is not counted as missing one.
        let missing = |at: &usize| self.dispatch[*at] == NO_TICKS && self.end(*at).is_some();
        let count = (0..self.len()).filter(missing).count() as u64;
        quality.note_many(FindingKind::ExecutionWithoutDispatch, None, count, || {
            let at = (0..self.len()).find(missing).unwrap_or(0);
            let token = (names.token_in_file)(self.token(at));
            format!("{} on core {}, token {token}", names.task(self.word(at)), self.core(at))
        });
    }

    /// Attaches the dispatches of one core.
    fn attach_core(
        &mut self,
        dispatches: &DispatchRows,
        theirs: Range<usize>,
        names: &RowNames<'_>,
        quality: &mut Quality,
    ) {
        let core = dispatches.core[theirs.start];
        let ours = self.of_core(core);
        let mut table: Option<HashMap<(u32, u64), u32>> = None;
        let mut next = ours.start;
        for at in theirs {
            let beside = (next < ours.end).then(|| dispatches.key(at, self.rows.task[next]));
            let found = if beside.is_some_and(|key| key == (self.rows.token[next], self.rows.task[next])) {
                Some(next)
            } else {
                let any_task = u64::MAX;
                let table = table.get_or_insert_with(|| self.tokens(ours.clone(), dispatches.task.is_empty()));
                table.get(&dispatches.key(at, any_task)).map(|i| *i as usize)
            };
            match found {
                Some(i) if self.dispatch[i] != NO_TICKS => {
                    quality.note(FindingKind::DispatchWithoutExecution, None, || {
                        format!(
                            "token {} on core {core}, which another dispatch has",
                            (names.token_in_file)(dispatches.token[at])
                        )
                    });
                }
                Some(i) => {
                    if dispatches.finish[at] < dispatches.dispatch[at] {
                        quality.note(FindingKind::EndBeforeStart, None, || {
                            format!("the finish of {} on core {core}", names.task(self.word(i)))
                        });
                    }
                    self.dispatch[i] = dispatches.dispatch[at];
                    self.finish[i] = dispatches.finish[at];
                    next = i + 1;
                }
                None => quality.note(FindingKind::DispatchWithoutExecution, None, || {
                    format!("token {} on core {core}", (names.token_in_file)(dispatches.token[at]))
                }),
            }
        }
    }

    /// A core's executions by token; the first wins where a token occurs twice.
    fn tokens(&self, range: Range<usize>, token_alone: bool) -> HashMap<(u32, u64), u32> {
        let mut table = HashMap::with_capacity(range.len());
        for i in range {
            let task = if token_alone { u64::MAX } else { self.rows.task[i] };
            table.entry((self.rows.token[i], task)).or_insert(i as u32);
        }
        table
    }

    fn note_contradictions(&self, names: &RowNames<'_>, quality: &mut Quality) {
        let rows = &self.rows;
        let told = |i: usize| format!("{} on core {}", names.task(rows.task[i]), rows.core[i]);
        for i in 0..self.len() {
            if rows.end[i] < rows.start[i] {
                quality.note(FindingKind::EndBeforeStart, None, || told(i));
            }
            if rows.end[i] == NO_TICKS {
                quality.note(FindingKind::StillRunning, None, || told(i));
            }
            let twice = i > 0 && rows.core[i] == rows.core[i - 1] && rows.token[i] == rows.token[i - 1];
            if twice && rows.task[i] == rows.task[i - 1] {
                quality.note(FindingKind::DuplicateToken, None, || {
                    format!("token {} on core {}", (names.token_in_file)(rows.token[i]), rows.core[i])
                });
            }
        }
    }

    /// Number of executions.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether dispatch and finish were recorded.
    pub fn has_lifecycle(&self) -> bool {
        !self.dispatch.is_empty()
    }

    /// Whether the execution of a core with this token has ended.
    pub fn has_ended(&self, core: u16, token: u32) -> bool {
        // Tokens grow along a core, so it is among the last if it is there.
        let last = self.of_core(core).rev().take_while(|at| self.rows.token[*at] >= token || self.end(*at).is_none());
        last.into_iter().any(|at| self.rows.token[at] == token && self.end(at).is_some())
    }

    /// The executions of a core.
    pub fn of_core(&self, core: u16) -> Range<usize> {
        self.rows.core.partition_point(|c| *c < core)..self.rows.core.partition_point(|c| *c <= core)
    }

    /// The core of execution `at`.
    #[inline]
    pub fn core(&self, at: usize) -> u16 {
        self.rows.core[at]
    }

    /// Task id and round as one word, as records store them.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.rows.task[at]
    }

    /// The task.
    #[inline]
    pub fn task(&self, at: usize) -> TaskId {
        TaskId::from_word(self.rows.task[at]).0
    }

    /// The round.
    #[inline]
    pub fn round(&self, at: usize) -> u32 {
        TaskId::from_word(self.rows.task[at]).1
    }

    /// The core's dispatch token.
    #[inline]
    pub fn token(&self, at: usize) -> u32 {
        self.rows.token[at]
    }

    /// The kernel, if a file names it.
    #[inline]
    pub fn kernel(&self, at: usize) -> Option<u32> {
        (self.rows.kernel[at] != NO_KERNEL).then(|| self.rows.kernel[at])
    }

    /// Start, in ticks.
    #[inline]
    pub fn start(&self, at: usize) -> u64 {
        self.rows.start[at]
    }

    /// End, in ticks; none if it still ran.
    #[inline]
    pub fn end(&self, at: usize) -> Option<u64> {
        (self.rows.end[at] != NO_TICKS).then(|| self.rows.end[at])
    }

    /// Ticks in the kernel; none if it still ran.
    #[inline]
    pub fn exec(&self, at: usize) -> Option<u64> {
        self.end(at).map(|end| end.saturating_sub(self.rows.start[at]))
    }

    /// Ticks from receipt to start.
    #[inline]
    pub fn receive_to_start(&self, at: usize) -> u32 {
        self.rows.receive_to_start[at]
    }

    /// Dispatch and finish in ticks, where the scheduler's view is there.
    #[inline]
    pub fn lifecycle(&self, at: usize) -> Option<(u64, u64)> {
        let (dispatch, finish) = (*self.dispatch.get(at)?, self.finish[at]);
        (dispatch != NO_TICKS && finish != NO_TICKS).then_some((dispatch, finish))
    }

    /// When kernels ran, from which makespan and utilisation follow.
    pub fn kernel_time(&self) -> KernelTime {
        let mut time = KernelTime::default();
        (0..self.len()).for_each(|at| time.see(self.rows.start[at], self.end(at)));
        time
    }

    /// Gives every execution without a kernel the one that `of` finds for its task word and core.
    pub(crate) fn fill_kernels(&mut self, mut of: impl FnMut(u64, u16) -> u32) {
        for at in 0..self.len() {
            if self.rows.kernel[at] == NO_KERNEL {
                self.rows.kernel[at] = of(self.rows.task[at], self.rows.core[at]);
            }
        }
    }
}

/// The order that sorts `len` rows by `key`, stably; none if they are sorted.
fn order_by<K: Ord>(len: usize, key: impl Fn(usize) -> K) -> Option<Vec<u32>> {
    if (1..len).all(|i| key(i - 1) <= key(i)) {
        return None;
    }
    let mut order: Vec<u32> = (0..len as u32).collect();
    order.sort_by_key(|i| key(*i as usize));
    Some(order)
}

fn permute<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
    if !column.is_empty() {
        *column = order.iter().map(|i| column[*i as usize]).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core_rows(rows: &[(u16, u64, u32, u64, u64)]) -> CoreRows {
        let mut out = CoreRows::default();
        for (core, task, token, start, end) in rows {
            out.core.push(*core);
            out.task.push(*task);
            out.token.push(*token);
            out.kernel.push(NO_KERNEL);
            out.start.push(*start);
            out.end.push(*end);
            out.receive_to_start.push(0);
        }
        out
    }

    #[test]
    fn rows_join_on_core_and_token_in_any_order() {
        let rows = core_rows(&[(1, 7, 2, 50, 60), (0, 5, 1, 10, 20), (1, 6, 1, 30, 40)]);
        let dispatches = DispatchRows {
            core: vec![1, 0, 1, 3],
            task: Vec::new(),
            token: vec![2, 1, 1, 9],
            dispatch: vec![45, 5, 25, 0],
            finish: vec![65, 22, 44, 1],
        };
        let mut quality = Quality::default();
        let joined = Executions::join(rows, dispatches, &mut quality);
        let seen: Vec<_> = (0..3).map(|i| (joined.core(i), joined.token(i), joined.lifecycle(i))).collect();
        assert_eq!(seen, [(0, 1, Some((5, 22))), (1, 1, Some((25, 44))), (1, 2, Some((45, 65)))]);
        assert_eq!(quality.count(FindingKind::DispatchWithoutExecution), 1);
        assert_eq!(joined.of_core(1), 1..3);
        assert_eq!(joined.of_core(2), 3..3);
    }

    #[test]
    fn tokens_that_start_again_in_each_round_are_told_apart_by_the_task_word() {
        let (first, second) = (TaskId::new(0, 3).with_round(0), TaskId::new(0, 3).with_round(1));
        let rows = core_rows(&[(0, first, 1, 10, 20), (0, second, 1, 30, 40)]);
        let dispatches = DispatchRows {
            core: vec![0, 0],
            task: vec![second, first],
            token: vec![1, 1],
            dispatch: vec![25, 5],
            finish: vec![45, 22],
        };
        let mut quality = Quality::default();
        let joined = Executions::join(rows, dispatches, &mut quality);
        assert_eq!(joined.lifecycle(0), Some((5, 22)));
        assert_eq!(joined.lifecycle(1), Some((25, 45)));
        assert_eq!((joined.round(1), joined.task(1)), (1, TaskId::new(0, 3)));
        assert!(quality.is_sound());
    }

    #[test]
    fn of_two_dispatches_with_one_token_the_first_is_kept_and_the_other_told() {
        let rows = core_rows(&[(0, 5, 1, 10, 20), (0, 6, 2, 30, 40)]);
        let dispatches = DispatchRows {
            core: vec![0; 3],
            task: Vec::new(),
            token: vec![1, 2, 1],
            dispatch: vec![5, 25, 7],
            finish: vec![22, 44, 900],
        };
        let mut quality = Quality::default();
        let joined = Executions::join(rows, dispatches, &mut quality);
        assert_eq!([0, 1].map(|at| joined.lifecycle(at)), [Some((5, 22)), Some((25, 44))]);
        assert_eq!(quality.count(FindingKind::DispatchWithoutExecution), 1);
        assert_eq!(quality.findings()[0].first, "token 1 on core 0, which another dispatch has");
    }

    #[test]
    fn contradictions_are_counted_and_survived() {
        let rows = core_rows(&[(0, 1, 1, 20, 10), (0, 1, 1, 30, 40), (0, 2, 2, 50, NO_TICKS)]);
        let mut quality = Quality::default();
        let joined = Executions::join(rows, DispatchRows::default(), &mut quality);
        assert_eq!(quality.count(FindingKind::EndBeforeStart), 1);
        assert_eq!(quality.count(FindingKind::DuplicateToken), 1);
        assert_eq!(quality.count(FindingKind::StillRunning), 1);
        assert_eq!((joined.exec(0), joined.exec(2)), (Some(0), None));
        assert!(!joined.has_lifecycle() && joined.lifecycle(0).is_none());
    }
}
