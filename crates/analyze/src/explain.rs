//! What ended a run or holds it up: who waits for whom, down to the one final blocker.
//!
//! A pure function of the run's records, its status board and, of a live process, what two looks from outside saw. It
//! needs nobody inside to be alive.

mod advice;
mod chain;
mod verdict;
mod wait_graph;

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_abi::board::Activity;
use plimsoll_abi::record::Kind;
use plimsoll_abi::{ErrorCode, Flags, StallCause, StallFacts, TaskId};
use plimsoll_trace::{
    Blocker, BoardFacts, EndClass, Explanation, FindingKind, Liveness, Manifest, RunningFacts, Status, Trace,
};

use wait_graph::WaitGraph;

/// What two looks at a process saw, some time apart.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outside {
    /// The process.
    pub pid: u32,
    /// Whether it is stopped (SIGSTOP, or by a debugger).
    pub stopped: bool,
    /// The process of the device, if that is another one: orchestrator, schedulers and kernels are there.
    pub device_pid: Option<u32>,
    /// Whether that one is stopped.
    pub device_stopped: bool,
    /// Whether the run moved between the looks.
    pub moved: bool,
    /// Time between the looks.
    pub apart: Duration,
    /// The tick of the run's clock at the last look, as far as it is known.
    pub tick: Option<u64>,
    /// By thread: the share of the time between the looks that it used of a CPU.
    pub busy: BTreeMap<u32, f64>,
}

impl Outside {
    /// The process that orchestrator and kernels are in, and whether it is stopped.
    pub fn worker(&self) -> (u32, bool) {
        self.device_pid.map_or((self.pid, self.stopped), |device| (device, self.device_stopped))
    }

    /// Whether one of the processes is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped_pids().next().is_some()
    }

    /// The processes that are stopped.
    fn stopped_pids(&self) -> impl Iterator<Item = u32> {
        let host = self.stopped.then_some(self.pid);
        host.into_iter().chain(self.device_pid.filter(|_| self.device_stopped))
    }
}

/// Nothing has moved for so long that it is called a stall.
const STALL_NS: u64 = 500_000_000;
/// A thread that uses more than this share of a CPU computes, rather than waits and looks from time to time.
pub(crate) const BUSY: f64 = 0.05;

/// All that an explanation is made of.
struct Case<'t> {
    trace: &'t Trace,
    manifest: &'t Manifest,
    board: Option<&'t BoardFacts>,
    outside: Option<&'t Outside>,
    unfinished: Option<WaitGraph<'t>>,
    class: EndClass,
}

/// Explains a run. `board` is a look at a run that has not ended; else what the run's manifest says of its end is taken.
/// Advice is given in calls of the library.
pub fn explain(trace: &Trace, board: Option<&BoardFacts>, outside: Option<&Outside>) -> Explanation {
    let unknown = Manifest::default();
    let manifest = trace.manifest.as_ref().unwrap_or(&unknown);
    let mut board = board.or(manifest.board.as_ref()).cloned();
    if let Some(board) = &mut board {
        // Leaves out executions that ended after the board was read, while the run was being given up; but for the one that it was
        // given up for.
        let error = manifest.error.as_ref();
        let is_blamed = |of: &RunningFacts| {
            error.is_some_and(|error| {
                error.core == Some(of.core) && error.task == Some(TaskId::from_raw(of.task).to_string())
            })
        };
        board.running.retain(|of| is_blamed(of) || !trace.executions.has_ended(of.core, of.token));
    }
    let board = board.as_ref();
    let mut case = Case { trace, manifest, board, outside, unfinished: None, class: EndClass::Unknown };
    let ended_well = manifest.status == Status::Ok || trace.manifest.is_none();
    if !ended_well && case.lost(tells_of_tasks) == 0 {
        case.unfinished = WaitGraph::of(trace, board);
    }
    case.class = if ended_well { EndClass::Ok } else { case.class() };
    let chain = case.wait_chain();
    let mut explanation = Explanation { class: case.class, ..Explanation::default() };
    (explanation.chain, explanation.closed) = (chain.links, chain.closed);
    explanation.blocker = chain.blocker;
    if let Some(unfinished) = case.unfinished.as_ref().filter(|_| case.is_about_waiting()) {
        explanation.waiting = Some(unfinished.waiting().count() as u64);
        explanation.roots = Some(unfinished.roots());
        explanation.groups = unfinished.groups();
        explanation.ready = case.board.map(|board| unfinished.ready(board).len() as u64);
    }
    explanation.unsure = case.unsure();
    if case.is_about_waiting() && manifest.left_behind > 0 && explanation.chain.is_empty() {
        explanation.unsure.push("Who did not come back, and why, is not known.".to_string());
    }
    explanation.certain = explanation.unsure.is_empty();
    explanation.verdict = case.verdict(&explanation);
    explanation.advice = case.advice(&explanation);
    explanation
}

impl Case<'_> {
    fn class(&self) -> EndClass {
        let error = self.manifest.error.as_ref();
        match error.and_then(|error| ErrorCode::from_number(error.code)) {
            Some(
                ErrorCode::ScopeDeadlock
                | ErrorCode::HeapRingDeadlock
                | ErrorCode::FlowControlDeadlock
                | ErrorCode::DepPoolOverflow
                | ErrorCode::TensormapOverflow,
            ) => return EndClass::CapacityDeadlock,
            Some(ErrorCode::OpTimeout) => return EndClass::RunningStalled,
            Some(ErrorCode::SchedulerTimeout) => return self.named_class().unwrap_or_else(|| self.stall()),
            Some(ErrorCode::DeviceLost) => return EndClass::Lost,
            Some(ErrorCode::Interrupted) => return EndClass::Interrupted,
            Some(_) => return EndClass::Failed,
            None => {}
        }
        match (self.manifest.status, self.trace.liveness) {
            (Status::Ok, _) => EndClass::Ok,
            (Status::Failed, _) => EndClass::Failed,
            (Status::Interrupted, _) => EndClass::Interrupted,
            (Status::Killed, _) | (Status::Running, Liveness::NeedsRecovery) => EndClass::Killed,
            (Status::Running, Liveness::RegionGone | Liveness::Ended) => EndClass::Lost,
            (Status::Hung, _) => self.stall(),
            (Status::Running, Liveness::Alive) if self.stands_still() => self.stall(),
            (Status::Running, Liveness::Alive) => EndClass::Running,
        }
    }

    /// The class that whoever ended the run has named.
    fn named_class(&self) -> Option<EndClass> {
        stall_class(self.manifest.error.as_ref()?.class.as_deref()?)
    }

    /// Whether a live run has not moved for so long that it stands still.
    fn stands_still(&self) -> bool {
        let (Some(outside), Some(board)) = (self.outside, self.board) else { return false };
        if outside.moved || board.recorder_waits > 0 {
            return false;
        }
        // If it is not known since when nothing moves, the two looks decide.
        self.is_stopped() || self.still_ns().is_none_or(|ns| ns >= STALL_NS)
    }

    /// For how long nothing has begun or ended.
    fn still_ns(&self) -> Option<u64> {
        let now = self.outside?.tick?;
        let ended = (0..self.trace.executions.len()).filter_map(|at| self.trace.executions.end(at)).max();
        let begun = self.board?.running.iter().map(|of| of.since).filter(|since| *since > 0).max();
        let last = ended.max(begun)?;
        Some(self.trace.clock.ns(now.saturating_sub(last)))
    }

    /// Why nothing moves, decided as the run's own watchdog does.
    fn stall(&self) -> EndClass {
        let Some(board) = self.board else { return EndClass::Unknown };
        let activity = board.activity();
        let waiting = self.unfinished.as_ref().map(|unfinished| unfinished.newest().is_some());
        let ready = match &self.unfinished {
            Some(unfinished) => !unfinished.ready(board).is_empty(),
            None => board.ready > 0,
        };
        // What was executed and not taken note of is in the hands of a scheduler that stands still.
        let ready = ready || self.unfinished.as_ref().is_some_and(WaitGraph::has_executed);
        let waits = matches!(activity, Activity::WaitRoom | Activity::WaitTensor | Activity::Drain);
        // Nobody without work sees what an orchestrator in its own code keeps to itself.
        let keeps = board.ready == 0 && matches!(activity, Activity::UserCode | Activity::Submit);
        let facts = StallFacts {
            running: !board.running.is_empty(),
            // Only the run itself sees who has a seat.
            assembling: false,
            ready: ready && !keeps,
            kept: ready && keeps,
            between: board.between.is_some(),
            waiting: waiting.unwrap_or(waits),
            away: matches!(activity, Activity::Away),
        };
        match facts.cause() {
            StallCause::Orchestrator if activity == Activity::WaitRoom => EndClass::CapacityDeadlock,
            cause => stall_class(cause.class().name()).unwrap_or_default(),
        }
    }

    /// Whether the explanation is about tasks that wait.
    fn is_about_waiting(&self) -> bool {
        !matches!(self.class, EndClass::Ok | EndClass::CapacityDeadlock | EndClass::Failed)
    }

    /// What is not certain.
    fn unsure(&self) -> Vec<String> {
        let mut unsure = Vec::new();
        if self.is_stopped() && self.class != EndClass::Running {
            unsure.push("A process that is stopped does nothing, so the run may go on once it is let go.".to_string());
        }
        if !self.is_about_waiting() {
            return unsure;
        }
        let never_began = self.never_began();
        if self.board.is_none() && !never_began {
            unsure.push("What ran in the end is not known: the run's status board is gone.".to_string());
        }
        if self.unfinished.is_none() && !never_began {
            unsure.push(format!("{}, so which tasks wait, and for whom, is not known.", self.missing()));
        } else if self.lost(|_| true) > 0 {
            unsure.push(format!("Of the records {} were dropped.", self.lost(|_| true)));
        }
        if self.unfinished.as_ref().is_some_and(WaitGraph::more_executed) && self.class != EndClass::Running {
            unsure.push(
                "Some cores have executed more than records tell of, so a task that is called ready may have been executed."
                    .to_string(),
            );
        }
        if self.is_code_in_doubt() {
            unsure.push(
                "In virtual time one thread executes everything, so whose code it was in at the end is not certain."
                    .to_string(),
            );
        }
        if self.class == EndClass::Running && !self.outside.is_some_and(|outside| outside.worker().1) {
            unsure.push("The run goes on meanwhile, so this is of no one instant.".to_string());
        }
        if self.class == EndClass::Unknown {
            unsure.push("What holds the run up cannot be told from what it left.".to_string());
        }
        if self.class == EndClass::Killed && self.is_of_region() {
            unsure.push("Whether it was killed, or came to its end by itself, a region does not tell.".to_string());
        }
        if self.trace.quality.findings().iter().any(|finding| self.is_damage(finding.kind)) {
            unsure.push("Some records are damaged or missing.".to_string());
        }
        unsure
    }

    /// Why it is not known which tasks wait, as the beginning of a sentence.
    fn missing(&self) -> String {
        let lost = self.lost(tells_of_tasks);
        match self.flags_lacking()[..] {
            _ if lost > 0 => format!("Of the records of submits and tasks {lost} were dropped"),
            [] => "No submit has been recorded".to_string(),
            [Flags::CORE_TIMING] => "Times of tasks were not recorded (`Flags::CORE_TIMING`)".to_string(),
            [_] => "Submits were not recorded (`Flags::DEP_GEN`)".to_string(),
            _ => {
                "Neither submits nor times of tasks were recorded (`Flags::DEP_GEN`, `Flags::CORE_TIMING`)".to_string()
            }
        }
    }

    /// The flags that would have told which tasks wait, and that the run was not given.
    fn flags_lacking(&self) -> Vec<Flags> {
        let given = Flags::from_bits(self.manifest.flags).unwrap_or_default();
        let is_lacking = |flag: &Flags| match *flag {
            Flags::DEP_GEN => self.trace.deps.is_none() && !given.has(Flags::DEP_GEN),
            _ => self.trace.facts.level == 0,
        };
        [Flags::DEP_GEN, Flags::CORE_TIMING].into_iter().filter(is_lacking).collect()
    }

    /// Records of these kinds that the run's ledger has as dropped or mismatched.
    fn lost(&self, of: impl Fn(Kind) -> bool) -> u64 {
        self.manifest.reconcile.as_ref().map_or(0, |ledger| ledger.lost(of))
    }

    /// Whether the run was still being set up, or was killed at that: it had no status board and no records yet.
    fn never_began(&self) -> bool {
        let has_pools = self.manifest.reconcile.as_ref().is_some_and(|ledger| !ledger.pools.is_empty());
        matches!(self.class, EndClass::Running | EndClass::Killed) && self.board.is_none() && !has_pools
    }

    /// Whether all that is known of the run comes from its region, because its directory is gone: a region knows neither when its
    /// run started nor how it ended.
    fn is_of_region(&self) -> bool {
        self.manifest.started_unix_ns == 0
    }

    /// Whether one of the run's processes is stopped.
    fn is_stopped(&self) -> bool {
        self.outside.is_some_and(Outside::is_stopped)
    }

    /// Whether a finding means that records are missing. A record whose counterpart was still to come is no damage. Nor is a
    /// frame that a run is just writing, or was when it was killed: the region still has its records.
    fn is_damage(&self, kind: FindingKind) -> bool {
        match kind {
            FindingKind::CutOff => !matches!(self.trace.liveness, Liveness::Alive | Liveness::NeedsRecovery),
            FindingKind::NotAFrame
            | FindingKind::BadChecksum
            | FindingKind::NotASegment
            | FindingKind::SequenceGap
            | FindingKind::BadRecord
            | FindingKind::ReportedLoss => true,
            _ => false,
        }
    }

    /// Which execution is to blame, if one is: the one that the error names, else the one that has run for longest. In virtual
    /// time one thread executes everything, and tasks that run are such whose time has not passed: its code is that of the newest.
    fn suspect<'b>(&self, board: &'b BoardFacts) -> Option<&'b RunningFacts> {
        let named = self.manifest.error.as_ref().and_then(|error| error.task.as_deref());
        let is_named = |of: &&RunningFacts| Some(TaskId::from_raw(of.task).to_string().as_str()) == named;
        let age = |of: &&RunningFacts| (self.since(of).unwrap_or(0), of.core);
        let running = &board.running;
        let by_age = || match self.manifest.virtual_time {
            true => running.iter().max_by_key(age),
            false => running.iter().min_by_key(age),
        };
        running.iter().filter(is_named).min_by_key(|of| self.rank(of)).or_else(by_age)
    }

    /// Of several executions of one task the least is the one to blame: that on the core that the error names, else the one that
    /// has run for longest.
    fn rank(&self, of: &RunningFacts) -> (bool, u64, u16) {
        let core = self.manifest.error.as_ref().and_then(|error| error.core);
        (core != Some(of.core), self.since(of).unwrap_or(0), of.core)
    }

    /// Whether everything is executed by one thread, and nobody has said which task holds it up: then it is the code that the
    /// thread is in, whoever waits for whom.
    fn is_code_to_blame(&self, board: &BoardFacts) -> bool {
        let is_named = self.manifest.error.as_ref().is_some_and(|error| error.task.is_some());
        self.manifest.virtual_time && !is_named && !board.running.is_empty()
    }

    /// Whether the thread that executes everything may have been in other code than that of the suspect.
    fn is_code_in_doubt(&self) -> bool {
        let Some(board) = self.board.filter(|board| self.is_code_to_blame(board)) else { return false };
        let newest = self.suspect(board).map(|of| of.since);
        let alike = board.running.iter().filter(|of| Some(of.since) == newest).count();
        alike > 1 || newest == Some(0) || matches!(board.activity(), Activity::UserCode | Activity::Submit)
    }

    /// For how long an execution has been under way.
    fn age_ns(&self, of: &RunningFacts) -> Option<u64> {
        let now = match self.outside {
            Some(outside) => outside.tick?,
            None => self.manifest.clock.pairs.last()?.tick,
        };
        let since = self.since(of)?;
        (now >= since).then(|| self.trace.clock.ns(now - since))
    }

    /// When an execution began: the time on its board line, but not before the end of the execution before it on the same
    /// core.
    fn since(&self, of: &RunningFacts) -> Option<u64> {
        let before = self.trace.executions.of_core(of.core).rev().find_map(|at| self.trace.executions.end(at));
        Some(of.since).filter(|since| *since > 0).max(before)
    }

    /// What a thread of a live process does: it computes or sleeps.
    fn does(&self, thread: u32) -> Option<&'static str> {
        let outside = self.outside?;
        let share = outside.busy.get(&thread)?;
        Some(match *share > BUSY {
            _ if outside.worker().1 => "stopped",
            true => "spinning: it uses the CPU",
            false => "frozen: it uses no CPU",
        })
    }

    fn kernel_name(&self, kernel: u32) -> String {
        self.trace.kernel_name(kernel).into_owned()
    }

    /// The text of a site's number.
    fn site_text(&self, site: u32) -> Option<String> {
        if site == 0 { None } else { self.manifest.site(site) }
    }
}

/// Whether records of this kind tell which tasks there are, or which of them were executed.
fn tells_of_tasks(kind: Kind) -> bool {
    matches!(kind, Kind::Submit | Kind::AicoreTask)
}

/// The class of a standstill with this name.
fn stall_class(name: &str) -> Option<EndClass> {
    EndClass::ALL.into_iter().find(|class| class.is_stall() && class.name() == name)
}

/// A chain that was followed to its end.
#[derive(Default)]
struct WaitChain {
    links: Vec<plimsoll_trace::ChainLink>,
    blocker: Blocker,
    closed: bool,
}

#[cfg(test)]
mod tests;
