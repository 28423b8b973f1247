//! Cohorts: tasks in blocks whose blocks start together, or not at all (sync start).
//!
//! A cohort *assembles*: whoever can execute a block takes a *seat*, which is the number of a block, and begins nothing else. An
//! agent that is its own core takes one seat and waits in it; a scheduler takes one for every core of its own, or cluster, that
//! holds nothing. With the last seat the cohort starts, and every seat is executed.
//!
//! ```text
//!          call: its holder           none assembles           sit: agents, schedulers
//!   ready ──────────────────► waiting ───────────────► assembling ────────────────────► started
//!                                                          │  a seat of a run that has failed is left
//!                                                          └───────────────────────────► abandoned
//! ```
//!
//! # Invariants
//! * C1: one cohort assembles at a time; the others wait in the order in which they were called. So no two of them hold seats
//!   that the other needs.
//! * C2: while one assembles, whoever sees it begins nothing else. Whatever runs ends without a seat's help, so every seat is
//!   taken in the end, whatever else is ready.
//! * C3: a seat is left only if the run has failed, and a cohort that was left never starts. One that has started is executed
//!   whole, also if the run fails meanwhile: its blocks may wait for each other.
//! * C4: a submit refuses a cohort of more blocks than there can be seats at the same time.

use crate::agent::Agent;
use crate::shape::ShapeWords;
use crate::shared::Shared;
use crate::slot::SlotRef;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use plimsoll_abi::Flags;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_platform::Platform;
use plimsoll_probe::Lane;

// A look from outside takes part in no protocol.
#[cfg(not(loom))]
mod look;
#[cfg(not(loom))]
pub use look::AssemblingCohort;

/// The cohorts of a run.
#[derive(Debug, Default)]
pub(crate) struct Cohorts {
    state: Mutex<CohortState>,
    /// How many have started, which is the number of the one that assembles. Written under the lock.
    started: AtomicU64,
}

#[derive(Debug, Default)]
struct CohortState {
    assembling: Option<Assembly>,
    /// The first and the last of those that wait (C1). Each names the next one in the words of its shape.
    waiting: Option<(SlotRef, SlotRef)>,
    abandoned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Assembly {
    task: SlotRef,
    taken: u32,
}

/// A block of a cohort that somebody has undertaken to execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seat {
    pub(crate) task: SlotRef,
    pub(crate) block: u32,
    /// The number of its cohort.
    number: u64,
}

impl Cohorts {
    fn lock(&self) -> MutexGuard<'_, CohortState> {
        // Nothing in here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many have started, which is the number of the one that assembles.
    pub(crate) fn number(&self) -> u64 {
        // Acquire pairs(cohort.started): whoever sees that a cohort has started sees all of its seats taken.
        self.started.load(Ordering::Acquire)
    }

    /// Whether the seat's cohort has started.
    pub(crate) fn has_started(&self, seat: &Seat) -> bool {
        self.number() > seat.number
    }

    /// The task that assembles, with the number of its cohort.
    pub(crate) fn assembling(&self) -> Option<(SlotRef, u64)> {
        let state = self.lock();
        state.assembling.map(|assembly| (assembly.task, self.number()))
    }

    /// Forgets everything, for the next run. Only while no agent is at work.
    pub(crate) fn reset(&self) {
        *self.lock() = CohortState::default();
    }
}

impl Shared {
    /// The holder of a cohort hands it over: it assembles, or waits until it is its turn (C1).
    pub(crate) fn call_cohort<P: Platform>(&self, platform: &P, task: SlotRef) {
        {
            let mut state = self.cohorts.lock();
            if state.abandoned {
                return;
            }
            if state.assembling.is_some() {
                let first = state.waiting.map_or(task, |(first, last)| {
                    ShapeWords::of(self.slot(last)).set_next_cohort(task);
                    first
                });
                state.waiting = Some((first, task));
                return;
            }
            state.assembling = Some(Assembly { task, taken: 0 });
            self.notice_cohort(true);
        }
        // After the notice was stored, so that an agent that goes to sleep meanwhile sees it.
        self.sleep.wake_all(platform);
    }

    /// Takes a seat of the cohort that assembles; of this number only, if one is given. The last one starts it.
    pub(crate) fn sit<P: Platform>(&self, platform: &P, number: Option<u64>) -> Option<Seat> {
        let (seat, starts) = {
            let mut state = self.cohorts.lock();
            let current = self.cohorts.number();
            let mut assembly = state.assembling.filter(|_| number.is_none_or(|number| number == current))?;
            let seat = Seat { task: assembly.task, block: assembly.taken, number: current };
            assembly.taken += 1;
            let starts = assembly.taken == self.slot(seat.task).blocks();
            state.assembling = Some(assembly);
            if starts {
                self.start_next(&mut state);
                // Release pairs(cohort.started).
                self.cohorts.started.store(current + 1, Ordering::Release);
            }
            (seat, starts)
        };
        if starts {
            // Wakes those in the other seats, and everybody else: tasks were left in the queues meanwhile (C2).
            self.sleep.wake_all(platform);
        }
        Some(seat)
    }

    /// A cohort has all its seats: the next one assembles.
    fn start_next(&self, state: &mut CohortState) {
        state.assembling = state.waiting.map(|(task, _)| Assembly { task, taken: 0 });
        state.waiting = state.waiting.and_then(|(first, last)| {
            let next = ShapeWords::of(self.slot(first)).next_cohort()?;
            Some((next, last))
        });
        self.notice_cohort(state.assembling.is_some());
    }

    /// The run has failed: the seat is left, and its cohort never starts. False: it has started already (C3).
    pub(crate) fn leave_seat(&self, seat: &Seat) -> bool {
        let mut state = self.cohorts.lock();
        if self.cohorts.has_started(seat) {
            return false;
        }
        *state = CohortState { abandoned: true, ..CohortState::default() };
        self.notice_cohort(false);
        true
    }
}

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Hands a cohort that this agent holds over to all of them, each block to be executed `times`. False: it is none.
    pub(crate) fn call_cohort(&mut self, task: SlotRef, times: usize) -> bool {
        let slot = self.shared.slot(task);
        let shape = ShapeWords::of(slot);
        if !shape.starts_together() {
            return false;
        }
        // Relaxed, as the stores above: the lock orders it before every execution.
        slot.set_unfinished(shape.blocks() * times as u32);
        if self.lane.on(Flags::TENSOR_DUMP) {
            self.dump(slot, false);
        }
        self.shared.call_cohort(self.platform, task);
        true
    }

    /// Deals with a notice: the run has stopped, or a cohort assembles. Returns whether this agent has executed something.
    #[cold]
    #[inline(never)]
    pub(crate) fn heed(&mut self) -> bool {
        if self.shared.stopped() {
            return false;
        }
        self.take_seat() || self.execute_next()
    }

    /// Takes a seat of the cohort that assembles, and executes its block once the cohort has started. `false` if no seat is left.
    pub(crate) fn take_seat(&mut self) -> bool {
        let seat = self.shared.sit(self.platform, None);
        seat.inspect(|seat| self.execute_seat(seat)).is_some()
    }

    /// Waits in the seat until its cohort starts, and executes the block.
    fn execute_seat(&mut self, seat: &Seat) {
        // Gives up the task that this agent would run next: another agent takes it once the cohort has started.
        self.lay_down();
        self.call_thieves();
        while !self.shared.cohorts.has_started(seat) {
            if self.shared.stopped() && self.shared.leave_seat(seat) {
                return;
            }
            self.await_start(seat);
        }
        if self.lane.on(Flags::SCHED_PHASES) {
            self.phase(SchedPhaseKind::Park, 0, 0);
        }
        self.execute_block(seat.task, seat.block);
    }
}

/// Interleavings, up to a bound of preemptions, of calls and seats.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::ring::Capacity;
    use crate::shape::{Configuration, write_shape};
    use loom::sync::Arc;
    use loom::thread;
    use plimsoll_abi::{AgentId, RINGS};
    use plimsoll_platform::{WaitAdvice, Work};

    /// A world in which nobody sleeps.
    struct Awake;

    #[derive(Clone)]
    struct Clockless;

    impl plimsoll_shm::World for Clockless {
        fn ticks(&self) -> u64 {
            0
        }
        fn wait_for_host(&self, _: u32) {}
        fn notify_host(&self) {}
    }

    impl Platform for Awake {
        type World = Clockless;

        fn world(&self, _: AgentId) -> Clockless {
            Clockless
        }
        fn relax(&self, _: AgentId, _: u32) -> WaitAdvice {
            WaitAdvice::Again
        }
        fn park(&self, _: AgentId) {}
        fn unpark(&self, _: AgentId) {}
        fn heavy_barrier(&self) {}
        fn light_barrier(&self) {}
        fn charge(&self, _: AgentId, _: Work) {}
        fn charge_kernel(&self, _: AgentId, _: u32, _: impl FnOnce() -> u64) {}
    }

    fn shared(cohorts: u32) -> Arc<Shared> {
        let tiny = Capacity { window: 1, heap: 64, dep_pool: 1 };
        let mut capacities = [tiny; RINGS];
        capacities[0].window = cohorts.next_power_of_two();
        let shared = Shared::new(1, capacities).expect("a small device");
        let together = Configuration { sync_start: true, ..Configuration::default() };
        (0..cohorts).for_each(|task| write_shape(shared.slot(SlotRef::new(0, task)), 2, together));
        Arc::new(shared)
    }

    fn check(body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(body);
    }

    fn sit(shared: &Shared) -> Seat {
        loop {
            if let Some(seat) = shared.sit(&Awake, None) {
                return seat;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn every_seat_is_taken_once_and_one_cohort_at_a_time() {
        check(|| {
            let shared = shared(2);
            let caller = |task: u32| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.call_cohort(&Awake, SlotRef::new(0, task));
                    [sit(&shared), sit(&shared)]
                })
            };
            let threads = [caller(0), caller(1)];
            let mut seats: Vec<Seat> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            seats.sort_by_key(|seat| (seat.number, seat.block));
            let places: Vec<_> = seats.iter().map(|seat| (seat.number, seat.block)).collect();
            assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1)], "C1");
            assert!(seats[0].task == seats[1].task && seats[2].task == seats[3].task && seats[0].task != seats[2].task);
            assert!(!shared.has_notice() && seats.iter().all(|seat| shared.cohorts.has_started(seat)));
        });
    }

    #[test]
    fn a_cohort_is_left_or_starts_and_never_both() {
        check(|| {
            let shared = shared(1);
            shared.call_cohort(&Awake, SlotRef::new(0, 0));
            let seat = sit(&shared);
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.sit(&Awake, Some(0)))
            };
            let left = shared.leave_seat(&seat);
            let joined = other.join().unwrap();
            assert_eq!(left, joined.is_none(), "C3: who joins starts it, and it cannot be left any more");
            assert_eq!(shared.cohorts.has_started(&seat), !left);
            assert!(!shared.has_notice(), "nobody is called any more");
        });
    }
}
