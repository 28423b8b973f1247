//! Whole agents in every order up to a bound of preemptions, or in as many as time allows (`model_for_a_while`): the loops that take tasks, look out, sleep, wake and complete, as a run drives
//! them, on loom's atomics. A lost wake-up is a deadlock, which loom reports.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-sched --release --test loom agents`.

use crate::model::{Datum, join, model, model_for_a_while};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;
use plimsoll_abi::{AgentId, CoreId, ErrorCode, RINGS, TaskId};
use plimsoll_platform::ports::Order;
use plimsoll_platform::{CoreClass, Parker, Platform, WaitAdvice, Work};
use plimsoll_probe::Off;
use plimsoll_sched::block;
use plimsoll_sched::core_line::{CoreLine, Mail, OrderOutcome};
use plimsoll_sched::policy::{Grain, Lend};
use plimsoll_sched::ring::Capacity;
use plimsoll_sched::shape::{Configuration, write_shape};
use plimsoll_sched::shared::ORCHESTRATOR;
use plimsoll_sched::slot::SlotRef;
use plimsoll_sched::{Agent, CoreThreads, Failure, FailureCause, KernelEntry, Mailbox, Runner, Shared};
use plimsoll_shm::{Board, StagingRing};

/// A world of threads that sleep, in which both barriers are full fences: what the two of a real machine amount to. With
/// `WEIGHS`, light tasks call nobody.
struct Threads<const WEIGHS: bool> {
    parkers: Vec<Parker>,
    /// Opened when the orchestrator goes to sleep, where a model asks for it: every lock makes models longer.
    sleeps: Option<Arc<Gate>>,
}

impl<const WEIGHS: bool> Threads<WEIGHS> {
    fn new(places: usize) -> Self {
        Self { parkers: (0..places).map(|_| Parker::default()).collect(), sleeps: None }
    }
}

/// What one thread opens and others wait for.
#[derive(Default)]
struct Gate {
    open: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.changed.wait(open).unwrap();
        }
    }
}

#[derive(Clone)]
struct Clockless;

impl plimsoll_shm::World for Clockless {
    fn ticks(&self) -> u64 {
        0
    }
    fn wait_for_host(&self, _: u32) {}
    fn notify_host(&self) {}
}

impl<const WEIGHS: bool> Platform for Threads<WEIGHS> {
    type World = Clockless;
    const WEIGHS: bool = WEIGHS;
    const CLASSED: bool = !WEIGHS;

    fn light_ticks(&self) -> u32 {
        1000
    }
    fn world(&self, _: AgentId) -> Clockless {
        Clockless
    }
    fn relax(&self, _: AgentId, _: u32) -> WaitAdvice {
        WaitAdvice::Park
    }
    fn park(&self, agent: AgentId) {
        if let Some(gate) = self.sleeps.as_ref().filter(|_| agent == ORCHESTRATOR) {
            gate.open();
        }
        self.parkers[agent.index()].park();
    }
    fn doze(&self, agent: AgentId, micros: u32) {
        self.parkers[agent.index()].park_for(micros);
    }
    fn unpark(&self, agent: AgentId) {
        self.parkers[agent.index()].unpark();
    }
    fn heavy_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn light_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn charge(&self, _: AgentId, _: Work) {}
    fn charge_kernel(&self, _: AgentId, _: u32, _: impl FnOnce() -> u64) {}
}

/// A run of a few tasks without arguments, all of one kernel, which counts its calls and writes a datum of its own.
struct Run<const WEIGHS: bool> {
    platform: Threads<WEIGHS>,
    shared: Shared,
    kernels: Vec<KernelEntry>,
    board: Board,
    calls: Arc<AtomicU32>,
}

/// One scheduler and its cores.
struct Chip<const WEIGHS: bool> {
    cores: Arc<CoreThreads<Threads<WEIGHS>>>,
    /// Those of the cores, then the scheduler's.
    threads: Vec<thread::JoinHandle<()>>,
}

/// Where the blocks of a cohort wait for each other: one that started alone would wait for ever, which loom reports.
#[derive(Default)]
struct Meeting {
    arrived: loom::sync::Mutex<u32>,
    changed: loom::sync::Condvar,
}

impl Meeting {
    fn meet(&self, blocks: u32) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        let wanted = arrived.div_ceil(blocks) * blocks;
        self.changed.notify_all();
        while *arrived < wanted {
            arrived = self.changed.wait(arrived).unwrap();
        }
    }
}

const TINY: Capacity = Capacity { window: 1, heap: 64, dep_pool: 1 };

impl<const WEIGHS: bool> Run<WEIGHS> {
    fn new(agents: usize, tasks: u32, classed: bool) -> Arc<Self> {
        Self::of_blocks(agents, tasks, classed, 1)
    }

    /// As [`new`](Self::new), for tasks whose blocks wait for each other, if there are several.
    fn of_blocks(agents: usize, tasks: u32, classed: bool, blocks: u32) -> Arc<Self> {
        let (datum, meeting) = (Datum::new(), Meeting::default());
        Self::of_kernel(agents, tasks, classed, None, move || {
            // Tasks of these models follow one another, so the datum has one writer at a time.
            if tasks == 1 && blocks == 1 {
                datum.write(1);
            }
            if blocks > 1 {
                meeting.meet(blocks);
            }
        })
    }

    /// As [`new`](Self::new), for a kernel that does this, too. `sleeps` is opened when the orchestrator goes to sleep.
    fn of_kernel(
        agents: usize,
        tasks: u32,
        classed: bool,
        sleeps: Option<Arc<Gate>>,
        does: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let mut capacities = [TINY; RINGS];
        capacities[0].window = tasks.next_power_of_two();
        let shared = if classed { Shared::classed(agents, capacities) } else { Shared::new(agents, capacities) };
        let platform = Threads { sleeps, ..Threads::new(agents + 1) };
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        let body = move |_: plimsoll_sched::args::ArgWords<'_>| {
            counter.fetch_add(1, Ordering::Relaxed);
            does();
            Ok(())
        };
        let grain = Grain::default();
        // Light by what was measured, where that matters.
        (0..3).for_each(|_| grain.note(1, 1000));
        let kernel = KernelEntry {
            name: "count".into(),
            class: CoreClass::Any,
            signature: plimsoll_sched::signature::Signature::Any,
            in_blocks: false,
            call: Box::new(body),
            grain,
        };
        let shared = shared.expect("a small device");
        shared.set_lends(WEIGHS);
        let board = Board::new(agents, 2);
        Arc::new(Self { platform, shared, kernels: vec![kernel], board, calls })
    }

    fn agent(&self, id: AgentId) -> Agent<'_, Threads<WEIGHS>, Off> {
        Agent::new(&self.shared, &self.platform, &self.kernels, &self.board, Off, id)
    }

    /// Writes the slot of task `index`, as a submit without arguments does.
    fn write(&self, index: u32) -> SlotRef {
        let at = SlotRef::new(0, index);
        let slot = self.shared.slot(at);
        slot.fan_out.open();
        slot.set_kernel_times(0, 1);
        slot.task.store(TaskId::new(0, index).raw(), Ordering::Relaxed);
        at
    }

    /// Writes the slot of a task whose blocks start together.
    fn write_cohort(&self, index: u32, blocks: u32) -> SlotRef {
        let at = self.write(index);
        let together = Configuration { sync_start: true, ..Configuration::default() };
        write_shape(self.shared.slot(at), blocks, together);
        at
    }

    /// The orchestrator publishes cohorts of two blocks, waits for them, and closes the run.
    fn orchestrate_cohorts(&self, tasks: u32, lend: Lend) {
        let mut orchestrator = self.agent(ORCHESTRATOR);
        (0..tasks).for_each(|index| orchestrator.publish(self.write_cohort(index, 2)));
        orchestrator.work_until(tasks.into(), lend);
        self.shared.close(&self.platform);
    }

    fn spawn_worker(run: &Arc<Self>, id: u16) -> thread::JoinHandle<()> {
        let run = Arc::clone(run);
        thread::spawn(move || run.agent(AgentId(id)).work())
    }

    /// The orchestrator publishes the tasks, waits for them, and closes the run.
    fn orchestrate(&self, tasks: u32, lend: Lend) {
        let mut orchestrator = self.agent(ORCHESTRATOR);
        (0..tasks).for_each(|index| orchestrator.publish(self.write(index)));
        orchestrator.work_until(tasks.into(), lend);
        self.shared.close(&self.platform);
    }

    /// As [`orchestrate`](Self::orchestrate), in the order of a submitter: it looks whether to help after every other task, and helps
    /// or waits until all have completed.
    fn submit_and_drain(&self, tasks: u64, window_is_half_used: bool) {
        let mut orchestrator = self.agent(ORCHESTRATOR);
        for submitted in 1..=tasks {
            orchestrator.publish(self.write(submitted as u32 - 1));
            if submitted % 2 == 0 {
                orchestrator.help(submitted, window_is_half_used);
            }
        }
        self.drain(&mut orchestrator, tasks);
        self.shared.close(&self.platform);
    }

    /// The wait of `Submitter::drain`, for an orchestrator that lends a hand.
    fn drain(&self, orchestrator: &mut Agent<'_, Threads<WEIGHS>, Off>, tasks: u64) {
        loop {
            let seen = self.shared.done.total();
            if seen == tasks || self.shared.stopped() {
                return;
            }
            orchestrator.help_or_wait(seen + 1, Lend::Everything);
        }
    }

    /// What the thread of a core does.
    fn serve(&self, cores: &CoreThreads<Threads<WEIGHS>>, core: CoreId) {
        let runner = Runner {
            shared: &self.shared,
            platform: &self.platform,
            kernels: &self.kernels,
            board: &self.board,
            stampers: &[Off],
            first: core,
            round: 0,
            wrong_stamp: None,
        };
        cores.serve(core, 0, &runner);
    }

    /// Starts a scheduler, agent 1, and the threads of the cores that it owns, which are one cluster if `clustered`.
    fn spawn_chip(run: &Arc<Self>, classes: &'static [CoreClass], clustered: bool) -> Chip<WEIGHS> {
        let owners = vec![AgentId(1); classes.len()];
        let cores = Arc::new(CoreThreads::new(Threads::new(classes.len()), &owners, 2));
        let mut threads: Vec<_> = (0..classes.len() as u16)
            .map(|core| {
                let (run, cores) = (Arc::clone(run), Arc::clone(&cores));
                thread::spawn(move || run.serve(&cores, CoreId(core)))
            })
            .collect();
        let (own, ports) = (Arc::clone(run), Arc::clone(&cores));
        threads.push(thread::spawn(move || {
            let mut agent = own.agent(AgentId(1));
            let mut scheduler = Mailbox::new(&mut agent, &*ports, (0..).map(CoreId).zip(classes.iter().copied()));
            if clustered {
                scheduler.set_clusters(|_| 0);
            }
            scheduler.work();
        }));
        Chip { cores, threads }
    }

    fn assert_ran(&self, tasks: u32) {
        assert_eq!(self.calls.load(Ordering::Relaxed), tasks, "every task ran once");
        assert_eq!(self.shared.done.total(), u64::from(tasks), "and was counted once");
        assert!(!self.shared.sleep.anyone(), "S1: every sleeper is taken off the count");
    }
}

#[test]
fn a_worker_runs_what_is_published_and_leaves_when_the_run_closes() {
    model(3, || {
        let run = Run::<false>::new(2, 1, false);
        let worker = Run::spawn_worker(&run, 1);
        run.orchestrate(1, Lend::Nothing);
        join([worker]);
        run.assert_ran(1);
    });
}

#[test]
fn one_of_two_workers_runs_the_task_and_both_leave() {
    model(1, || {
        let run = Run::<false>::new(3, 1, false);
        let workers = [1, 2].map(|id| Run::spawn_worker(&run, id));
        run.orchestrate(1, Lend::Nothing);
        join(workers);
        run.assert_ran(1);
    });
}

#[test]
fn closing_a_run_without_work_wakes_every_sleeper() {
    model(3, || {
        let run = Run::<false>::new(3, 1, false);
        let workers = [1, 2].map(|id| Run::spawn_worker(&run, id));
        run.shared.close(&run.platform);
        join(workers);
        run.assert_ran(0);
    });
}

/// Light tasks call nobody while an agent is on the lookout, and the orchestrator does not execute them here: a lookout
/// takes them, also one that was just going to sleep.
#[test]
fn light_tasks_are_not_left_behind_by_the_last_lookout() {
    model(2, || {
        let run = Run::<true>::new(2, 1, false);
        let worker = Run::spawn_worker(&run, 1);
        run.orchestrate(1, Lend::Nothing);
        join([worker]);
        run.assert_ran(1);
    });
}

#[test]
fn an_orchestrator_that_lends_a_hand_shares_light_tasks_with_a_worker() {
    model(1, || {
        let run = Run::<true>::new(2, 2, false);
        let worker = Run::spawn_worker(&run, 1);
        run.orchestrate(2, Lend::Everything);
        join([worker]);
        run.assert_ran(2);
    });
}

/// Between submits, light tasks and then what fills the window are executed here; the wait behind them helps, too, or sleeps
/// until the worker has completed what it took.
#[test]
fn an_orchestrator_helps_between_submits_and_while_it_waits() {
    for window_is_half_used in [false, true] {
        model_for_a_while(1, move || {
            let run = Run::<true>::new(2, 2, false);
            let worker = Run::spawn_worker(&run, 1);
            run.submit_and_drain(2, window_is_half_used);
            join([worker]);
            run.assert_ran(2);
        });
    }
}

/// Tasks that are not light call the worker, so a look between submits leaves them to it, unless the window is half used.
#[test]
fn an_orchestrator_helps_with_tasks_that_call() {
    for window_is_half_used in [false, true] {
        model(1, move || {
            let run = Run::<false>::new(2, 2, false);
            let worker = Run::spawn_worker(&run, 1);
            run.submit_and_drain(2, window_is_half_used);
            join([worker]);
            run.assert_ran(2);
        });
    }
}

/// The only agent of a run leaves tasks in flight between submits, and executes all of them while it waits.
#[test]
fn an_orchestrator_without_workers_executes_everything() {
    model(3, || {
        let run = Run::<true>::new(1, 4, false);
        run.submit_and_drain(4, false);
        run.assert_ran(4);
    });
}

/// Before it would begin at the front of the heap again, the orchestrator executes its light tasks. A worker that looks meanwhile
/// takes one or none, and is waited for.
#[test]
fn light_tasks_are_run_before_a_wait_for_room() {
    model_for_a_while(1, || {
        let run = Run::<true>::new(2, 2, false);
        let worker = Run::spawn_worker(&run, 1);
        let mut orchestrator = run.agent(ORCHESTRATOR);
        (0..2).for_each(|index| orchestrator.publish(run.write(index)));
        orchestrator.run_light_tasks();
        run.drain(&mut orchestrator, 2);
        run.shared.close(&run.platform);
        join([worker]);
        run.assert_ran(2);
    });
}

/// A wake-up may come late, when the orchestrator has gone to sleep again, and the next one right behind it.
#[test]
fn completions_one_after_the_other_wake_the_orchestrator() {
    model(3, || {
        let run = Run::<false>::new(2, 4, false);
        let worker = {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                for index in 0..3 {
                    run.shared.done.lane(1).count(0, index);
                    run.shared.sleep.completed(&run.platform, ORCHESTRATOR, || run.shared.done.total());
                }
            })
        };
        run.agent(ORCHESTRATOR).work_until(3, Lend::Nothing);
        join([worker]);
        assert!(!run.shared.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// Two agents count the last two tasks at the same time: one of them wakes the orchestrator, which waits for both.
#[test]
fn the_last_of_two_completions_wakes_the_orchestrator() {
    model(2, || {
        let run = Run::<false>::new(3, 2, false);
        let workers = [1, 2].map(|worker| {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                run.shared.done.lane(worker).count(0, worker - 1);
                run.shared.sleep.completed(&run.platform, ORCHESTRATOR, || run.shared.done.total());
            })
        });
        run.agent(ORCHESTRATOR).work_until(2, Lend::Nothing);
        join(workers);
        assert!(!run.shared.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// A failure stops dispatch and ends every wait; what was published before it is left.
#[test]
fn a_failure_ends_every_wait() {
    model(2, || {
        let run = Run::<true>::new(2, 1, false);
        let worker = Run::spawn_worker(&run, 1);
        let orchestrator = {
            let run = Arc::clone(&run);
            thread::spawn(move || run.orchestrate(1, Lend::Nothing))
        };
        let failure = Failure::new(ErrorCode::Cancelled, FailureCause::Cancelled);
        run.shared.fail(&run.platform, failure);
        join([worker, orchestrator]);
        assert!(!run.shared.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// One scheduler and one core with room for two tasks, of which the second waits behind the first (dual issue): from the
/// handshake to the farewell.
#[test]
fn a_scheduler_hands_two_tasks_to_one_core_and_completes_both() {
    model(1, || {
        let run = Run::<false>::new(2, 2, true);
        let chip = Run::spawn_chip(&run, &[CoreClass::Aic], false);
        run.orchestrate(2, Lend::Nothing);
        join(chip.threads);
        run.assert_ran(2);
    });
}

#[test]
fn a_worker_and_a_lending_orchestrator_start_a_cohort_together() {
    model(1, || {
        let run = Run::<false>::of_blocks(2, 1, false, 2);
        let worker = Run::spawn_worker(&run, 1);
        run.orchestrate_cohorts(1, Lend::Everything);
        join([worker]);
        assert_eq!((run.calls.load(Ordering::Relaxed), run.shared.done.total()), (2, 1));
    });
}

/// A seat that nobody joins is left when the run fails; and a cohort that has started meanwhile is executed whole.
#[test]
fn a_failure_ends_the_wait_in_a_seat() {
    for workers in [1, 2] {
        model(if workers == 1 { 3 } else { 1 }, move || {
            let run = Run::<false>::of_blocks(1 + workers, 1, false, 2);
            run.agent(ORCHESTRATOR).publish(run.write_cohort(0, 2));
            let threads: Vec<_> = (1..=workers as u16).map(|id| Run::spawn_worker(&run, id)).collect();
            let failure = Failure::new(ErrorCode::Cancelled, FailureCause::Cancelled);
            run.shared.fail(&run.platform, failure);
            run.shared.close(&run.platform);
            join(threads);
            assert!([0, 2].contains(&run.calls.load(Ordering::Relaxed)), "together or not at all");
            assert!(!run.shared.sleep.anyone(), "S1: every sleeper is taken off the count");
        });
    }
}

/// One scheduler with two cores, which take a seat each.
#[test]
fn a_scheduler_starts_a_cohort_on_two_cores_together() {
    model(0, || {
        let run = Run::<false>::of_blocks(2, 1, true, 2);
        let chip = Run::spawn_chip(&run, &[CoreClass::Aic, CoreClass::Aic], false);
        run.orchestrate_cohorts(1, Lend::Nothing);
        join(chip.threads);
        assert_eq!((run.calls.load(Ordering::Relaxed), run.shared.done.total()), (2, 1));
    });
}

/// The orchestrator has submitted two tasks and becomes a scheduler: one of the two cores leaves the other scheduler, and whoever
/// has it in the end dismisses it.
#[test]
fn an_orchestrator_joins_in_and_gets_a_core() {
    model(0, || {
        let run = Run::<false>::new(2, 2, true);
        let chip = Run::spawn_chip(&run, &[CoreClass::Aic, CoreClass::Aic], false);
        let mut orchestrator = run.agent(ORCHESTRATOR);
        (0..2).for_each(|task| orchestrator.publish(run.write(task)));
        Mailbox::new(&mut orchestrator, &*chip.cores, []).join_in(2, || false, || ());
        run.shared.close(&run.platform);
        join(chip.threads);
        run.assert_ran(2);
    });
}

/// Both cores run a task when the orchestrator becomes a scheduler, and go on until it waits for one of them: the core that leaves is
/// handed over when its receipt has been collected, not before (H2), also if its scheduler has gone to sleep meanwhile.
#[test]
fn a_core_that_holds_a_task_is_handed_over_when_it_has_finished() {
    model(0, || {
        // Two kernels and the orchestrator.
        const ALL: u32 = 3;
        let (started, sleeps) = (Arc::new(Meeting::default()), Arc::new(Gate::default()));
        let (starts, waits) = (Arc::clone(&started), Arc::clone(&sleeps));
        let run = Run::<false>::of_kernel(2, 2, true, Some(sleeps), move || {
            starts.meet(ALL);
            waits.pass();
        });
        let chip = Run::spawn_chip(&run, &[CoreClass::Aic, CoreClass::Aic], false);
        let mut orchestrator = run.agent(ORCHESTRATOR);
        (0..2).for_each(|task| orchestrator.publish(run.write(task)));
        started.meet(ALL);
        Mailbox::new(&mut orchestrator, &*chip.cores, []).join_in(2, || false, || ());
        run.shared.close(&run.platform);
        join(chip.threads);
        run.assert_ran(2);
    });
}

/// A mixed task of two parts: the scheduler keeps both cores of the cluster, and the parts exchange a value.
#[test]
fn a_scheduler_gathers_the_cores_of_a_mixed_task() {
    model(0, || {
        let body = |_: plimsoll_sched::args::ArgWords<'_>| {
            match block::current().part {
                0 => block::push(1, 7)?,
                _ => assert_eq!(block::pop(0)?, 7),
            }
            Ok(())
        };
        let kernels = [(CoreClass::Aic, "matrix"), (CoreClass::Aiv, "vector")].map(|(class, name)| KernelEntry {
            name: name.into(),
            class,
            signature: plimsoll_sched::signature::Signature::Any,
            in_blocks: true,
            call: Box::new(body),
            grain: Grain::default(),
        });
        let shared = Shared::with_cores(2, 2, [TINY; RINGS]).expect("a small device");
        let run = Arc::new(Run::<false> {
            platform: Threads::new(4),
            shared,
            kernels: kernels.into(),
            board: Board::new(2, 2),
            calls: Arc::new(AtomicU32::new(0)),
        });
        let chip = Run::spawn_chip(&run, &[CoreClass::Aic, CoreClass::Aiv], true);
        let mixed = Configuration { others: [Some(1), None], ..Configuration::default() };
        let task = run.write(0);
        write_shape(run.shared.slot(task), 1, mixed);
        let mut orchestrator = run.agent(ORCHESTRATOR);
        orchestrator.publish(task);
        orchestrator.work_until(1, Lend::Nothing);
        run.shared.close(&run.platform);
        join(chip.threads);
        assert!(run.shared.failure().is_none() && run.shared.done.total() == 1);
    });
}

/// A task of two executions completes once, after both, wherever they ran.
#[test]
fn a_task_of_two_executions_completes_after_both() {
    model(3, || {
        let shared = Arc::new((plimsoll_sched::slot::Slot::default(), [Datum::new(), Datum::new()], AtomicU32::new(0)));
        shared.0.set_kernel_times(0, 2);
        let cores = [0, 1].map(|core| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (slot, data, completed) = &*shared;
                data[core].write(1);
                if slot.finish_execution() {
                    assert_eq!((data[0].read(), data[1].read()), (1, 1), "the last one sees what both wrote");
                    completed.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        join(cores);
        assert_eq!(shared.2.load(Ordering::Relaxed), 1, "one of them was the last");
    });
}

/// The line alone: what the scheduler sends is what the core sees, what the core's kernels wrote is what the scheduler
/// sees, and a core that is dismissed has finished everything.
#[test]
fn a_core_line_hands_orders_over_in_both_directions() {
    model(3, || {
        let shared = Arc::new((CoreLine::default(), [Datum::new(), Datum::new()]));
        let core = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (line, data) = &*shared;
                let mut last = 0;
                line.report(last);
                loop {
                    match line.mail(last) {
                        Mail::Order(Order { token, word, execution, place, .. }) => {
                            line.acknowledge(token);
                            assert_eq!((execution, place), (word + 10, u64::from(word) + 20), "each with its own");
                            assert_eq!(data[word as usize].read(), 7, "the slot is visible to the core");
                            data[word as usize].write(token);
                            line.finish(token, OrderOutcome { succeeded: true, waited: false });
                            last = token;
                        }
                        Mail::Nothing => thread::yield_now(),
                        Mail::Dismissed => break,
                    }
                }
                assert_eq!(last, 2, "L3: everything that was sent is finished");
                line.leave();
            })
        };
        let (line, data) = &*shared;
        while !line.has_reported() {
            thread::yield_now();
        }
        line.configure();
        for token in [1, 2] {
            data[token as usize - 1].write(7);
            let word = token - 1;
            line.send(&Order {
                token,
                word,
                execution: word + 10,
                pipes: Order::NO_PIPES,
                place: u64::from(word) + 20,
            });
        }
        line.dismiss();
        while line.finished() != 2 {
            thread::yield_now();
        }
        assert_eq!((data[0].read(), data[1].read()), (1, 2), "what the kernels wrote is visible to the scheduler");
        let fine = OrderOutcome { succeeded: true, waited: false };
        assert_eq!((line.outcome(1), line.outcome(2)), ((0, fine), (1, fine)));
        join([core]);
        assert!(line.has_left());
    });
}

/// The line with the staging ring, at dual issue: of every order the scheduler finds what the core staged for it, though the core
/// has gone on to the next one.
#[test]
fn what_a_core_stages_waits_for_its_scheduler_while_the_next_order_runs() {
    model(2, || {
        let shared = Arc::new((CoreLine::default(), StagingRing::default()));
        let core = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (line, ring) = &*shared;
                let mut last = 0;
                line.report(last);
                loop {
                    match line.mail(last) {
                        Mail::Order(Order { token, word, .. }) => {
                            line.acknowledge(token);
                            ring.stage(token, token, &[u64::from(word), u64::from(word) + 1]);
                            line.finish(token, OrderOutcome { succeeded: true, waited: false });
                            last = token;
                        }
                        Mail::Nothing => thread::yield_now(),
                        Mail::Dismissed => break,
                    }
                }
                line.leave();
            })
        };
        let (line, ring) = &*shared;
        while !line.has_reported() {
            thread::yield_now();
        }
        line.configure();
        let send = |token: u32| {
            let word = token + 10;
            line.send(&Order { token, word, execution: 0, pipes: Order::NO_PIPES, place: u64::MAX });
        };
        send(1);
        send(2);
        for token in 1..=3 {
            while line.finished() < token {
                thread::yield_now();
            }
            let word = u64::from(token) + 10;
            assert_eq!(ring.staged(token), Some([word, word + 1]), "G1: nobody has written over it");
            assert_eq!(ring.staged::<[u64; 2]>(token + 2), None, "G3");
            if token == 1 {
                send(token + 2);
            }
        }
        line.dismiss();
        join([core]);
    });
}
