//! Tasks that were submitted and have not completed, and who of them waits for whom.

use std::collections::{HashMap, HashSet, VecDeque};

use plimsoll_abi::TaskId;
use plimsoll_abi::record::ScopePhase;
use plimsoll_trace::deps::{Dependencies, TaskIndex, TaskNode};
use plimsoll_trace::{BoardFacts, Trace, WaitGroup};

/// What has not completed, by the task's place among all tasks.
pub(super) struct WaitGraph<'t> {
    trace: &'t Trace,
    deps: &'t Dependencies,
    /// Finds the task of the last round by an id without its round.
    index: TaskIndex,
    /// Who waits for whom: later and earlier task, both unfinished, in order.
    waits: Vec<(u32, u32)>,
    /// Tasks that have not completed, in order.
    tasks: Vec<u32>,
    /// Those of them that were executed, as the board says, with no record of it: their scheduler has not taken note.
    executed: HashSet<u32>,
    /// Whether cores have ended more executions than the records and the board tell of.
    more_executed: bool,
    scopes: ScopesOfTasks<'t>,
}

impl<'t> WaitGraph<'t> {
    /// The graph of a trace; `None` if submits or times of tasks were not recorded.
    pub(super) fn of(trace: &'t Trace, board: Option<&BoardFacts>) -> Option<Self> {
        let deps = trace.deps.as_ref()?;
        if trace.executions.is_empty() && trace.facts.level == 0 {
            return None;
        }
        let round = last_round(trace, deps);
        let mut index = TaskIndex::default();
        // Task numbers start again in every round, and the last round counts.
        deps.tasks.iter().enumerate().for_each(|(at, task)| index.replace(task.id().raw(), at as u32));
        let running: HashSet<usize> =
            board.into_iter().flat_map(|board| &board.running).filter_map(|of| index.get(of.task)).collect();
        let (done, mut ended) = completed(trace, board, deps, &index, round, &running);
        let unrecorded = Unrecorded::of(trace, board);
        let mut executed = HashSet::new();
        for at in unrecorded.tasks.iter().filter_map(|task| index.get(*task)) {
            ended[at] += 1;
            if !done[at] && !running.contains(&at) && ended[at] >= deps.tasks[at].executions() {
                executed.insert(at as u32);
            }
        }
        let mut waits: Vec<(u32, u32)> = deps
            .edges
            .iter()
            .filter(|edge| !done[edge.succ as usize] && !done[edge.pred as usize])
            .map(|edge| (edge.succ, edge.pred))
            .collect();
        waits.sort_unstable();
        waits.dedup();
        let tasks = (0..deps.tasks.len() as u32).filter(|at| !done[*at as usize]).collect();
        let (scopes, more_executed) = (ScopesOfTasks::new(trace), unrecorded.more);
        Some(Self { trace, deps, index, waits, tasks, executed, more_executed, scopes })
    }

    /// Tasks that wait for others.
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waits.chunk_by(|a, b| a.0 == b.0).map(|chunk| chunk[0].0)
    }

    /// How many tasks others wait for that wait for none themselves.
    pub(super) fn roots(&self) -> u64 {
        let waiting: HashSet<u32> = self.waiting().collect();
        let awaited: HashSet<u32> = self.waits.iter().map(|(_, pred)| *pred).collect();
        awaited.difference(&waiting).count() as u64
    }

    /// Whether a task was executed, and nobody has taken note of it.
    pub(super) fn was_executed(&self, task: u32) -> bool {
        self.executed.contains(&task)
    }

    /// Whether any task was executed, and nobody has taken note of it.
    pub(super) fn has_executed(&self) -> bool {
        !self.executed.is_empty()
    }

    /// Whether tasks may have been executed that are taken for ready here.
    pub(super) fn more_executed(&self) -> bool {
        self.more_executed
    }

    /// Tasks that wait for none, do not run and were not executed.
    pub(super) fn ready(&self, board: &BoardFacts) -> Vec<u32> {
        let waiting: HashSet<u32> = self.waiting().collect();
        let running: HashSet<u32> = board.running.iter().filter_map(|of| self.find(of.task)).collect();
        let is_ready = |task: &u32| !waiting.contains(task) && !running.contains(task) && !self.was_executed(*task);
        self.tasks.iter().copied().filter(is_ready).collect()
    }

    /// The first task that nobody takes: it is ready, or was executed with no note of it.
    pub(super) fn first_idle(&self, board: &BoardFacts) -> Option<u32> {
        self.ready(board).into_iter().chain(self.executed.iter().copied()).min()
    }

    /// The task with such a word, if it has not completed.
    pub(super) fn named(&self, is: impl Fn(u64) -> bool) -> Option<u32> {
        self.tasks.iter().copied().find(|task| is(self.word(*task)))
    }

    /// Where the task with this number lies, if it has not completed.
    pub(super) fn find(&self, task: u64) -> Option<u32> {
        let at = self.index.get(TaskId::from_word(task).0.raw())? as u32;
        self.tasks.binary_search(&at).ok().map(|_| at)
    }

    /// The oldest task of a ring that has not completed.
    pub(super) fn oldest_on(&self, ring: u8) -> Option<u32> {
        self.tasks.iter().copied().find(|at| self.deps.tasks[*at as usize].id().ring() == ring)
    }

    /// The newest task that waits for another, or the newest of all.
    pub(super) fn newest(&self) -> Option<u32> {
        self.waits.last().map(|(succ, _)| *succ).or_else(|| self.tasks.last().copied())
    }

    /// Whom a task waits for.
    fn awaited(&self, task: u32) -> &[(u32, u32)] {
        let from = self.waits.partition_point(|(succ, _)| *succ < task);
        let to = self.waits.partition_point(|(succ, _)| *succ <= task);
        &self.waits[from..to]
    }

    /// The shortest chain from a task to the best of those that it waits for in the end and that wait for none. The least
    /// `rank` is best. If there is no such task, the chain that leads back to where it was, and `true`.
    pub(super) fn chain<K: Ord>(&self, from: u32, rank: impl Fn(u32) -> K) -> (Vec<u32>, bool) {
        let mut came: HashMap<u32, u32> = HashMap::new();
        let (mut ends, mut queue) = (Vec::new(), VecDeque::from([from]));
        while let Some(task) = queue.pop_front() {
            let awaited = self.awaited(task);
            if awaited.is_empty() {
                ends.push(task);
            }
            for &(_, pred) in awaited {
                if pred != from && !came.contains_key(&pred) {
                    came.insert(pred, task);
                    queue.push_back(pred);
                }
            }
        }
        let Some(end) = ends.into_iter().min_by_key(|task| rank(*task)) else { return (self.circle(from), true) };
        let mut chain = vec![end];
        while let Some(&before) = came.get(&chain[chain.len() - 1]) {
            chain.push(before);
        }
        chain.reverse();
        (chain, false)
    }

    /// From a task along the first that each waits for, until one comes again.
    fn circle(&self, from: u32) -> Vec<u32> {
        let mut chain = vec![from];
        let mut seen = HashSet::from([from]);
        while let Some(&(_, next)) = self.awaited(chain[chain.len() - 1]).first() {
            chain.push(next);
            if !seen.insert(next) {
                break;
            }
        }
        chain
    }

    /// A task's word.
    pub(super) fn word(&self, task: u32) -> u64 {
        self.deps.tasks[task as usize].id().raw()
    }

    /// The kernel of a task, by name; none if it has none.
    pub(super) fn kernel(&self, task: u32) -> Option<String> {
        let kernel = self.deps.tasks[task as usize].kernels.into_iter().find(|kernel| *kernel >= 0)?;
        Some(self.trace.kernel_name(kernel as u32).into_owned())
    }

    /// Where the scope of a task was opened.
    pub(super) fn site(&self, task: u32) -> Option<&str> {
        self.scopes.site(self.deps.tasks[task as usize].id())
    }

    /// The tasks that wait, by kernel and scope.
    pub(super) fn groups(&self) -> Vec<WaitGroup> {
        let mut groups: Vec<WaitGroup> = Vec::new();
        let mut places: HashMap<(i32, Option<&str>), usize> = HashMap::new();
        for task in self.waiting() {
            let node = &self.deps.tasks[task as usize];
            let key = (node.kernels.into_iter().find(|kernel| *kernel >= 0).unwrap_or(-1), self.site(task));
            let place = *places.entry(key).or_insert_with(|| {
                let (kernel, site) = (self.kernel(task), key.1.map(str::to_owned));
                groups.push(WaitGroup { kernel, site, tasks: 0, first: node.id().to_string() });
                groups.len() - 1
            });
            groups[place].tasks += 1;
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.tasks));
        groups
    }
}

/// The round that a run is in, or ended in.
fn last_round(trace: &Trace, deps: &Dependencies) -> u32 {
    let executed = (0..trace.executions.len()).map(|at| trace.executions.round(at)).max();
    let submitted = deps.tasks.iter().map(|task| TaskId::from_word(task.word).1).max();
    executed.max(submitted).unwrap_or(0)
}

/// Executions that have ended, as the lines of cores say, and that no record tells of.
#[derive(Default)]
struct Unrecorded {
    /// Their tasks, as numbers.
    tasks: Vec<u64>,
    /// Whether there are more. A line names the last execution of its core alone.
    more: bool,
}

impl Unrecorded {
    fn of(trace: &Trace, board: Option<&BoardFacts>) -> Self {
        let mut found = Self::default();
        let Some(board) = board else { return found };
        let executions = &trace.executions;
        let recorded = |core: u16| {
            let ended = executions.of_core(core).filter(|at| executions.end(*at).is_some());
            ended.map(|at| executions.token(at)).max()
        };
        for last in &board.executed {
            let recorded = recorded(last.core);
            // A core that did nothing in this run has the token of its device's last run, and no task.
            if (last.task == 0 && recorded.is_none()) || executions.has_ended(last.core, last.token) {
                continue;
            }
            found.tasks.push(last.task);
            found.more |= last.token.wrapping_sub(recorded.unwrap_or(0)) > 1;
        }
        for of in &board.running {
            found.more |= recorded(of.core).is_some_and(|recorded| of.token.wrapping_sub(recorded) > 1);
        }
        found
    }
}

/// Which tasks have completed in the present round, and how many executions of each have ended. These have completed: a task that only an edge names, a task all of whose
/// executions ended, a task below its ring's watermark, and a task that a running or completed one had waited for.
fn completed(
    trace: &Trace,
    board: Option<&BoardFacts>,
    deps: &Dependencies,
    index: &TaskIndex,
    round: u32,
    running: &HashSet<usize>,
) -> (Vec<bool>, Vec<u64>) {
    let mut ended = vec![0u64; deps.tasks.len()];
    for at in (0..trace.executions.len()).filter(|at| trace.executions.round(*at) == round) {
        if trace.executions.end(at).is_some()
            && let Some(task) = index.get(trace.executions.task(at).raw())
        {
            ended[task] += 1;
        }
    }
    // A graph that was built beforehand is recorded in its first round alone.
    let round_of = |task: &TaskNode| TaskId::from_word(task.word).1;
    let rebuilt = deps.tasks.windows(2).any(|pair| round_of(&pair[0]) != round_of(&pair[1]));
    let mut done: Vec<bool> = deps
        .tasks
        .iter()
        .enumerate()
        .map(|(at, task)| {
            let id = task.id();
            let below = board
                .and_then(|board| board.rings.get(usize::from(id.ring())))
                .is_some_and(|ring| u64::from(id.local()) < ring.watermark);
            let earlier = rebuilt && round_of(task) != round;
            let all = task.executions() > 0 && ended[at] >= task.executions();
            !running.contains(&at) && (task.implied || earlier || below || all)
        })
        .collect();
    for edge in deps.edges.iter().rev() {
        let (succ, pred) = (edge.succ as usize, edge.pred as usize);
        done[pred] |= done[succ] || running.contains(&succ) || ended[succ] > 0;
    }
    without_executions(deps, &mut done);
    (done, ended)
}

/// A task that executes nothing has completed when all that it waited for has.
fn without_executions(deps: &Dependencies, done: &mut [bool]) {
    let mut waited = vec![false; done.len()];
    deps.edges.iter().for_each(|edge| waited[edge.succ as usize] = true);
    for (at, task) in deps.tasks.iter().enumerate() {
        done[at] |= !waited[at] && task.executions() == 0;
    }
    // In the order of submits, so whom a task waits for was looked at before.
    for edges in deps.edges.chunk_by(|a, b| a.succ == b.succ) {
        let succ = edges[0].succ as usize;
        let all = edges.iter().all(|edge| done[edge.pred as usize]);
        done[succ] |= all && deps.tasks[succ].executions() == 0;
    }
}

/// Which scope a task was submitted in: its number lies between where the ring's head was when the scope began and ended.
struct ScopesOfTasks<'t> {
    trace: &'t Trace,
    /// By ring: where the head was at the begin and at the end of each scope, and the sample of its begin.
    rings: Vec<Vec<(u64, u64, usize)>>,
}

impl<'t> ScopesOfTasks<'t> {
    fn new(trace: &'t Trace) -> Self {
        let samples = &trace.scopes.samples;
        let mut rings: Vec<Vec<(u64, u64, usize)>> = vec![Vec::new(); plimsoll_abi::RINGS];
        let mut open: HashMap<u32, (usize, usize)> = HashMap::new();
        for (at, sample) in samples.iter().enumerate() {
            let Some(ring) = rings.get_mut(usize::from(sample.ring)) else { continue };
            match sample.phase {
                ScopePhase::Begin => {
                    // Heads start again in the next round.
                    if ring.last().is_some_and(|last| last.0 > sample.window_head) {
                        ring.clear();
                    }
                    open.insert(sample.scope, (usize::from(sample.ring), ring.len()));
                    ring.push((sample.window_head, u64::MAX, at));
                }
                ScopePhase::End => {
                    let begun = open.remove(&sample.scope).filter(|(of, _)| *of == usize::from(sample.ring));
                    if let Some(scope) = begun.and_then(|(_, place)| ring.get_mut(place)) {
                        scope.1 = sample.window_head;
                    }
                }
            }
        }
        Self { trace, rings }
    }

    fn site(&self, task: TaskId) -> Option<&'t str> {
        let ring = self.rings.get(usize::from(task.ring()))?;
        let local = u64::from(task.local());
        let begun = ring.partition_point(|scope| scope.0 <= local);
        // The innermost one that had not ended. Scopes of one ring follow each other unless they are nested very deeply.
        let scope = ring[..begun].iter().rev().take(64).find(|scope| local < scope.1)?;
        Some(self.trace.scopes.site(&self.trace.scopes.samples[scope.2]))
    }
}
