//! Hangs with a known cause: a seed plants one, and what the run says of it must be right: class, root task, scope and resource.
//!
//! What is right is worked out apart from the runtime. The program tells every task's id, scope and producers; the kernels tell
//! which of them were called; the records tell which have completed. A core that hangs is found with a twin: the same seed without the
//! hang does the same up to there, and its records say which task that execution was.
//!
//! | cause | what must be said |
//! |---|---|
//! | a core hangs | running-stalled, that task and its scope |
//! | a wake-up is lost | what is ready, waits, or is done, by the account; a root that waits for nobody |
//! | a scheduler stands still for good | the same, and never that a kernel runs |
//! | open scopes hold a ring | the code, the resource, the ring, what is held, and by which task |
//! | a kernel fails and poisons those behind it | that task and its scope, and no hang |
//! | the orchestrator stands still for good | orchestrator-starved, and the scope it is in |
//! | a cohort needs cores of a scheduler that stands still | as there; while the cohort assembles, it is the root |

use crate::model;
use crate::oracle;
use crate::play::{CallLog, PlayKernels, SCOPE_LINES, play};
use crate::program::{self, BoxView, Op, ProgramSize, SimulatedProgram, SimulatedTask, Target};
use crate::records::{self, Records, ensure};
use crate::scenario::draw_device;
use plimsoll_abi::{CoreClass, ErrorCode, Flags, RINGS, StallClass, TaskId};
use plimsoll_runtime::{
    BufferSizes, Capacities, Device, Error, Hang, Pause, Random, RecordOptions, RunOptions, VirtualOptions, Who,
};
use plimsoll_trace::{Explanation, Manifest};
use std::collections::{BTreeSet, HashMap, HashSet};

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HangCause {
    /// A core's kernel does not end.
    HungCore,
    /// A wake-up is lost.
    LostWakeUp,
    /// A scheduler stands still for good.
    StoppedScheduler,
    /// Open scopes hold what the next task needs.
    PinnedRing,
    /// A kernel fails; others depend on it.
    Poisoned,
    /// The orchestrator stands still for good.
    StuckOrchestrator,
    /// The blocks of a task are to start together on all vector cores, and a scheduler stands still for good.
    WaitingCohort,
}

impl HangCause {
    /// All causes.
    pub const ALL: [HangCause; 7] = [
        HangCause::HungCore,
        HangCause::LostWakeUp,
        HangCause::StoppedScheduler,
        HangCause::PinnedRing,
        HangCause::Poisoned,
        HangCause::StuckOrchestrator,
        HangCause::WaitingCohort,
    ];
}

/// One task, as the program tells it.
struct Known {
    id: TaskId,
    salt: i64,
    depth: usize,
    /// Tasks that it has to wait for, by number.
    producers: Vec<usize>,
}

/// A seed's run.
struct Planted {
    cause: HangCause,
    program: SimulatedProgram,
    device: VirtualOptions,
    workers: Option<usize>,
    capacities: Capacities,
    /// The task whose blocks start together, and how many they are.
    cohort: Option<(usize, usize)>,
}

/// What one run left.
struct Left {
    result: Result<crate::oracle::Results, Error>,
    records: Records,
    called: HashSet<i64>,
    /// What its manifest says of its end.
    explanation: Option<Explanation>,
}

/// Runs a seed: plants its hang and checks what is said of it. `None` if it did not strike.
///
/// # Errors
/// What is wrong, with the seed.
pub fn hang(seed: u64) -> Result<Option<HangCause>, String> {
    let planted = Planted::draw(seed);
    planted.check().map_err(|what| format!("seed {seed}, {:?}: {what}", planted.cause))
}

/// Runs a seed with nothing planted: there must be no verdict, and the right result.
///
/// # Errors
/// As [`hang`].
pub fn healthy(seed: u64) -> Result<(), String> {
    let planted = Planted::healthy(seed);
    let result = planted.run(&planted.device)?.result;
    planted.is_right(&result).map_err(|what| format!("healthy seed {seed}: {what}"))
}

impl Planted {
    /// Roomy rings, any device, and pauses that end.
    fn healthy(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6861_6e67);
        let random = &mut random;
        let size = ProgramSize { tasks: random.between(3, 80) as usize, depth: random.below(6) as usize };
        let mut program = program::draw(random, size);
        program.make_ordinary();
        let (mut device, workers) = draw_device(random, seed);
        if random.once_in(2) {
            device.faults.jitter_percent = random.between(1, 50);
        }
        if random.once_in(2) {
            device.faults.preempt_ns = random.between(1, 2_000);
        }
        let agents = workers.unwrap_or(1 + device.arch.sched_threads as usize);
        for _ in 0..random.below(3) {
            let (who, from_ns) = (Who::Agent(random.below(agents as u64) as u16), random.below(60_000));
            device.faults.pauses.push(Pause { who, from_ns, to_ns: from_ns + random.between(1, 400_000) });
        }
        let capacities = roomy();
        Self { cause: HangCause::HungCore, program, device, workers, capacities, cohort: None }
    }

    fn draw(seed: u64) -> Self {
        let mut planted = Self::healthy(seed);
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        planted.cause = HangCause::ALL[(seed % HangCause::ALL.len() as u64) as usize];
        if matches!(
            planted.cause,
            HangCause::StoppedScheduler | HangCause::StuckOrchestrator | HangCause::WaitingCohort
        ) {
            // Where an agent is its own core, whoever stands still may do so in a kernel.
            while planted.workers.is_some() {
                (planted.device, planted.workers) = draw_device(&mut random, seed);
            }
        }
        let faults = &mut planted.device.faults;
        let stop = |agent: u16, random: &mut Random| Pause {
            who: Who::Agent(agent),
            from_ns: random.below(40_000),
            to_ns: Pause::FOR_GOOD,
        };
        match planted.cause {
            HangCause::HungCore => {
                let cores = planted.workers.map_or(u64::from(planted.device.arch.cores()), |workers| workers as u64);
                let (core, execution) = (random.below(cores) as u16, random.between(1, 8) as u32);
                faults.hang = Some(Hang { core, execution });
            }
            HangCause::LostWakeUp => faults.lose_wake_up = Some(random.below(40)),
            HangCause::StoppedScheduler | HangCause::WaitingCohort => {
                let arch = &planted.device.arch;
                let agent = random.between(1, u64::from(arch.sched_threads)) as u16;
                faults.pauses = vec![stop(agent, &mut random)];
                if planted.cause == HangCause::WaitingCohort {
                    let number = random.below(planted.program.tasks as u64) as usize;
                    let blocks = (0..arch.cores()).filter(|&core| arch.class_of(core) == CoreClass::Aiv).count();
                    if blocks > 0 {
                        let task = planted.program.make_cohort(number, blocks as u32);
                        planted.cohort = task.map(|task| (task, blocks));
                    }
                }
            }
            HangCause::StuckOrchestrator => faults.pauses = vec![stop(0, &mut random)],
            HangCause::PinnedRing => planted.capacities = tight(&mut random),
            HangCause::Poisoned => {
                let task = random.below(planted.program.tasks as u64) as usize;
                planted.program.fail(task);
            }
        }
        planted
    }

    fn run(&self, device: &VirtualOptions) -> Result<Left, String> {
        let mut builder = Device::builder().engine(device.clone()).capacities(self.capacities);
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        let mut device = builder.open().map_err(|error| error.to_string())?;
        let log = CallLog::default();
        let kernels = PlayKernels::register_logged(&mut device, &log);
        let dir = crate::simulate::scratch_dir()?;
        let mut record = RecordOptions::new(dir.path(), Flags::NONE.with(Flags::ORCH_PHASES));
        // Nobody has to wait for the collector, and little memory has to be cleared.
        record.sizes = BufferSizes { buffers: Some(2), records: Some(512) };
        let options = RunOptions { record: Some(record), ..RunOptions::default() };
        let result = play(&mut device, &kernels, &self.program, &options);
        let records = records::read(dir.path())?;
        let ledger = device.report().ledger.as_ref().ok_or("the run has no ledger")?;
        records.check_ledger(ledger, false)?;
        let called = log.lock().map_err(|_| "a kernel panicked")?.iter().copied().collect();
        let explanation = Manifest::read(dir.path()).map_err(|error| error.to_string())?.explanation;
        Ok(Left { result, records, called, explanation })
    }

    fn is_right(&self, result: &Result<crate::oracle::Results, Error>) -> Result<(), String> {
        match result {
            Ok(results) => ensure(*results == oracle::run(&self.program), || "the result is not the serial one".into()),
            Err(error) => Err(format!("it failed for no reason: {error}")),
        }
    }

    fn check(&self) -> Result<Option<HangCause>, String> {
        let left = self.run(&self.device)?;
        let deadlock = model::deadlock(&self.program, &self.capacities);
        let Err(error) = &left.result else {
            let must_strike = self.cause == HangCause::Poisoned || deadlock.is_some();
            ensure(!must_strike, || "it ended well".to_owned())?;
            return self.is_right(&left.result).map(|()| None);
        };
        explains(&left, error)?;
        let known = known(&self.program);
        match self.cause {
            HangCause::HungCore => self.hung_core(error, &known)?,
            HangCause::LostWakeUp => self.by_account(error, &left, &known)?,
            HangCause::StoppedScheduler | HangCause::WaitingCohort => {
                self.by_account(error, &left, &known)?;
                let class = error.stall_class();
                ensure(class != Some(StallClass::RunningStalled), || format!("no kernel runs: {error}"))?;
                if error.explanation().contains("start together") {
                    let (cohort, _) = self.cohort.ok_or_else(|| format!("there is no cohort, but {error}"))?;
                    is_about(error, &known[cohort], "the cohort")?;
                }
            }
            HangCause::StuckOrchestrator => self.stuck_orchestrator(error, &left, &known)?,
            HangCause::Poisoned => self.poisoned(error, &left, &known)?,
            HangCause::PinnedRing => {
                let deadlock = deadlock.ok_or_else(|| format!("there is room, but: {error}"))?;
                let said = (error.code(), error.resource(), error.ring(), error.used());
                let right = (deadlock.code, Some(deadlock.resource), deadlock.ring, Some(deadlock.used));
                ensure(said == right, || format!("{deadlock:?}, but {error}"))?;
                // The tensormap is shared by the rings, so nobody's head holds it.
                if let Some(pinned) = deadlock.pinned.filter(|_| deadlock.ring.is_some()) {
                    is_about(error, &known[pinned], "the task that is held")?;
                }
            }
        }
        Ok(Some(self.cause))
    }

    fn hung_core(&self, error: &Error, known: &[Known]) -> Result<(), String> {
        let mut twin = self.device.clone();
        let hang = twin.faults.hang.take().ok_or("nothing was planted")?;
        let twin = self.run(&twin)?;
        let executed = twin.records.aicore.get(&hang.core).and_then(|tasks| {
            let (id, _) = TaskId::from_word(tasks.iter().find(|task| task.token == hang.execution)?.task);
            known.iter().find(|task| task.id == id)
        });
        let executed = executed.ok_or_else(|| format!("that execution never came, but {error}"))?;
        is_stall(error, &[StallClass::RunningStalled])?;
        is_about(error, executed, "the task that hangs")?;
        ensure(error.worker() == Some(hang.core), || format!("core {} hangs, but {error}", hang.core))
    }

    /// What had been submitted, called and completed when the verdict was given decides. Of what happened at that very moment
    /// nobody can tell which came first.
    fn by_account(&self, error: &Error, left: &Left, known: &[Known]) -> Result<(), String> {
        let account = self.account(error, left, known)?;
        let mut outcome = Err(String::new());
        for done in [&account.with_the_last, &account.in_its_hands, &account.before] {
            outcome = account.judge(error, left, known, done);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn account<'k>(&self, error: &Error, left: &Left, known: &'k [Known]) -> Result<Account<'k>, String> {
        let text = error.explanation();
        let at = text.strip_prefix("at ").and_then(|rest| rest.split(' ').next()).and_then(|ns| ns.parse::<u64>().ok());
        let at = at.ok_or_else(|| format!("it does not say when: {error}"))?;
        let hz = self.device.arch.counter_hz;
        let tick = if hz == 0 { at } else { (u128::from(at) * u128::from(hz) / 1_000_000_000) as u64 };
        let records = &left.records;
        let done = |last: bool| {
            let in_time = move |finish: u64| finish < tick || (last && finish == tick);
            let tasks = records.aicpu.values().flatten().filter(move |task| in_time(task.finish));
            let mut ended: HashMap<TaskId, usize> = HashMap::new();
            for task in tasks {
                *ended.entry(TaskId::from_word(task.task).0).or_default() += 1;
            }
            let blocks =
                |id: TaskId| self.cohort.filter(|(task, _)| known[*task].id == id).map_or(1, |(_, blocks)| blocks);
            ended.into_iter().filter(|(id, rows)| *rows >= blocks(*id)).map(|(id, _)| id).collect::<HashSet<_>>()
        };
        let ids = records.submits.iter().filter(|submit| submit.end <= tick);
        let ids: HashSet<TaskId> = ids.map(|submit| TaskId::from_word(submit.task).0).collect();
        let submitted = known.iter().filter(|task| ids.contains(&task.id)).collect();
        let (before, with_the_last) = (done(false), done(true));
        let mut in_its_hands = before.clone();
        if let Some(last) = self.last_of_the_stopped(records, tick) {
            in_its_hands.remove(&last);
        }
        Ok(Account { submitted, before, with_the_last, in_its_hands })
    }

    /// The last task that the stopped scheduler saw finish. It may have stopped before it released the task's consumers.
    fn last_of_the_stopped(&self, records: &Records, tick: u64) -> Option<TaskId> {
        let stopped = self.device.faults.pauses.iter().find(|pause| pause.to_ns == Pause::FOR_GOOD)?;
        let owned = |core: &u16| Who::Agent(self.device.arch.owner(u32::from(*core)).0) == stopped.who;
        let tasks = records.aicpu.iter().filter(|(core, _)| owned(core)).flat_map(|(_, tasks)| tasks);
        let last = tasks.filter(|task| task.finish < tick).max_by_key(|task| task.finish)?;
        Some(TaskId::from_word(last.task).0)
    }

    fn stuck_orchestrator(&self, error: &Error, left: &Left, known: &[Known]) -> Result<(), String> {
        is_stall(error, &[StallClass::OrchestratorStarved])?;
        ensure(error.task().is_none(), || format!("no task is to blame: {error}"))?;
        let account = self.account(error, left, known)?;
        let open = account.submitted.iter().find(|task| !account.with_the_last.contains(&task.id));
        // The last submit may have ended at that moment only.
        let last = account.submitted.last().map(|task| task.id);
        ensure(open.is_none_or(|task| Some(task.id) == last), || format!("some were not done: {error}"))?;
        // It is in a scope that it passes between the task before and the one after. The last submit may have ended at that
        // moment, or the next one have begun.
        let (submits, between) = (account.submitted.len(), depths_between_tasks(&self.program));
        let near = between[submits.saturating_sub(1)..].iter().take(submits.min(1) + 2);
        let depths: BTreeSet<usize> = near.flatten().copied().collect();
        ensure(depths.iter().any(|&depth| is_at(error, depth)), || format!("scopes {depths:?}, but {:?}", error.site()))
    }

    fn poisoned(&self, error: &Error, left: &Left, known: &[Known]) -> Result<(), String> {
        let failing = self.program.failing().ok_or("nothing was planted")?;
        ensure(error.code() == ErrorCode::KernelFailed && error.stall_class().is_none(), || error.to_string())?;
        is_about(error, &known[failing], "the task that fails")?;
        let behind = known.iter().filter(|task| task.producers.contains(&failing));
        let called: Vec<TaskId> = behind.filter(|task| left.called.contains(&task.salt)).map(|task| task.id).collect();
        ensure(called.is_empty(), || format!("{called:?} depend on it and were executed"))
    }
}

/// What had been done when a verdict was given.
struct Account<'k> {
    submitted: Vec<&'k Known>,
    /// Tasks that had completed before the verdict.
    before: HashSet<TaskId>,
    /// Tasks that had completed before the verdict or at its very moment.
    with_the_last: HashSet<TaskId>,
    /// Tasks that had completed before the verdict, without the one that the scheduler may have in its hands.
    in_its_hands: HashSet<TaskId>,
}

impl Account<'_> {
    fn judge(&self, error: &Error, left: &Left, known: &[Known], done: &HashSet<TaskId>) -> Result<(), String> {
        let open: Vec<&Known> = self.submitted.iter().copied().filter(|task| !done.contains(&task.id)).collect();
        if open.is_empty() {
            // All is done: whoever was not woken has nothing to do, or is the orchestrator.
            return is_stall(error, &[StallClass::OrchestratorStarved, StallClass::Unknown, StallClass::ReadyButIdle]);
        }
        let free = |task: &&&Known| task.producers.iter().all(|&at| done.contains(&known[at].id));
        let roots: Vec<&Known> = open.iter().filter(free).copied().collect();
        // Kernels of ordinary tasks tell that they were called; of a cohort the cores' records do.
        let executed = |id: TaskId| {
            let mut tasks = left.records.aicore.values().flatten();
            tasks.any(|task| TaskId::from_word(task.task).0 == id)
        };
        let called = |task: &&&Known| left.called.contains(&task.salt) || executed(task.id);
        let uncalled: Vec<TaskId> = roots.iter().filter(|task| !called(task)).map(|task| task.id).collect();
        let right: &[StallClass] = match !uncalled.is_empty() {
            true => &[StallClass::ReadyButIdle],
            // All of them were executed, and their scheduler has not taken note. It may be on its way.
            false => &[StallClass::DependencyDeadlock, StallClass::ReadyButIdle],
        };
        is_stall(error, right).map_err(|what| format!("{uncalled:?} were not called: {what}"))?;
        let named = error.task().and_then(|id| roots.iter().find(|task| task.id == id));
        let named = named.ok_or_else(|| {
            let ids: Vec<TaskId> = roots.iter().map(|task| task.id).collect();
            format!("the roots are {ids:?}, but {:?} is named: {error}", error.task())
        })?;
        is_about(error, named, "the root")
    }
}

/// Rings that hold any program here, and no more: mapping them takes its time.
fn roomy() -> Capacities {
    let mut capacities = Capacities { tensormap: 4096, ..Capacities::default() };
    for ring in &mut capacities.rings {
        (ring.window, ring.heap, ring.dep_pool) = (128, 64 << 10, 4096);
    }
    capacities
}

/// Rings that are too small for most programs.
fn tight(random: &mut Random) -> Capacities {
    let mut capacities = roomy();
    for ring in &mut capacities.rings {
        ring.window = 1 << random.below(4);
        ring.heap = 64 * random.between(4, 64);
    }
    if random.once_in(3) {
        capacities.tensormap = random.between(4, 60) as u32;
    }
    capacities
}

fn is_stall(error: &Error, classes: &[StallClass]) -> Result<(), String> {
    let class = error.stall_class().filter(|_| error.code() == ErrorCode::SchedulerTimeout);
    ensure(class.is_some_and(|class| classes.contains(&class)), || format!("it should be {classes:?}, but {error}"))
}

/// The explanation blames whom the error blames.
fn explains(left: &Left, error: &Error) -> Result<(), String> {
    let told = left.explanation.as_ref().ok_or("nobody explained the end")?;
    if let Some(class) = error.stall_class() {
        ensure(told.class.name() == class.name(), || format!("explained as {}, but {error}", told.class.name()))?;
    }
    let blamed = (error.task().map(|task| task.to_string()), error.site().map(str::to_owned));
    let explained = (told.blocker.task.clone(), told.blocker.site.clone());
    ensure(explained == blamed, || format!("explained with {explained:?}, but {blamed:?}: {error}"))
}

/// The error names this task and its scope.
fn is_about(error: &Error, task: &Known, what: &str) -> Result<(), String> {
    ensure(error.task() == Some(task.id), || {
        format!("{what} is {}, but {:?} is named: {error}", task.id, error.task())
    })?;
    ensure(is_at(error, task.depth), || format!("{what} is at depth {}, but {:?}", task.depth, error.site()))
}

/// Whether the error's scope is one of this depth.
fn is_at(error: &Error, depth: usize) -> bool {
    let line = error.site().and_then(|site| site.rsplit_once(":")).and_then(|(_, line)| line.parse::<u32>().ok());
    match depth {
        0 => line.is_some_and(|line| !SCOPE_LINES.contains(&line)),
        _ => line == Some(SCOPE_LINES[depth % SCOPE_LINES.len()]),
    }
}

/// The tasks of a program in order of submission.
fn known(program: &SimulatedProgram) -> Vec<Known> {
    let (mut known, mut tasks, mut numbers) = (Vec::new(), Vec::new(), [0; RINGS]);
    walk(&program.ops, 0, &mut |task, depth| {
        let ring = depth.min(RINGS - 1);
        let id = TaskId::new(ring as u8, numbers[ring]);
        numbers[ring] += 1;
        let producers = (0..tasks.len()).filter(|&at| must_wait(task, tasks[at])).collect();
        known.push(Known { id, salt: task.salt, depth, producers });
        tasks.push(task);
    });
    known
}

/// By number of submits: the depths of the innermost scope from the task before to the one after.
fn depths_between_tasks(program: &SimulatedProgram) -> Vec<BTreeSet<usize>> {
    fn pass(ops: &[Op], depth: usize, between: &mut Vec<BTreeSet<usize>>) {
        let note_depth = |between: &mut Vec<BTreeSet<usize>>| {
            if let Some(last) = between.last_mut() {
                last.insert(depth);
            }
        };
        note_depth(between);
        for op in ops {
            match op {
                Op::Task(_) => between.push(BTreeSet::from([depth])),
                Op::Scope(ops) => {
                    pass(ops, depth + 1, between);
                    note_depth(between);
                }
                Op::Read(_) => {}
            }
        }
    }
    let mut between = vec![BTreeSet::new()];
    pass(&program.ops, 0, &mut between);
    between
}

fn walk<'p>(ops: &'p [Op], depth: usize, each: &mut impl FnMut(&'p SimulatedTask, usize)) {
    for op in ops {
        match op {
            Op::Task(task) => each(task, depth),
            Op::Scope(ops) => walk(ops, depth + 1, each),
            Op::Read(_) => {}
        }
    }
}

/// Whether a task has to wait for an earlier one: it says so, or one of them writes what both use.
fn must_wait(task: &SimulatedTask, earlier: &SimulatedTask) -> bool {
    let writes = |task: &SimulatedTask| match &task.target {
        Target::Make { tensor, len } => BoxView { tensor: *tensor, rows: 0..1, columns: 0..*len },
        Target::Update(view) | Target::Replace(view) => view.clone(),
    };
    let (ours, theirs) = (writes(task), writes(earlier));
    task.after.contains(&earlier.number)
        || ours.overlaps(&theirs)
        || task.reads().any(|view| view.overlaps(&theirs))
        || earlier.reads().any(|view| view.overlaps(&ours))
}
