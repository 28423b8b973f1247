//! Cohorts where cores stand behind mailboxes: a scheduler takes seats for cores of its own, or clusters, that hold nothing.
//!
//! A core in a seat is *kept*: it is given nothing else until the cohort has started or was abandoned. Its record is reserved
//! before the seat is taken, so that nothing stands between the start of the cohort and the dispatch of its blocks.
//!
//! # Invariants
//! * Z1: a core takes a seat only if it holds nothing, so its block starts at once when it is dispatched.
//! * Z2: a core that a mixed task gathers takes no seat. No task is taken out of a queue while a cohort assembles, so all that
//!   gather began before this scheduler took its first seat, and start without one.

use crate::cohort::Seat;
use crate::gather::choose_soonest;
use crate::mailbox::{Errand, Mailbox};
use crate::pipe::MOST_PARTS;
use crate::policy::rooms;
use crate::shape::ShapeWords;
use crate::slot::SlotRef;
use plimsoll_abi::Flags;
use plimsoll_abi::record::SchedPhaseKind;
use plimsoll_platform::ports::{Order, Ports};
use plimsoll_platform::{Platform, Work};
use plimsoll_probe::{Lane, Reserved};

/// The seats of one scheduler.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    taken: Vec<CoreSeat>,
    /// The number of the cohort that was looked at last; nothing if none assembled.
    looked_at: Option<u64>,
    /// A core that could take a seat has no place for its record: the host must give a buffer back.
    starved: bool,
}

/// A block and the cores that it goes to.
#[derive(Clone, Copy, Debug)]
struct CoreSeat {
    seat: Seat,
    cores: PartCores,
}

/// The cores of one block, with what each is told besides its task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartCores {
    pub(crate) count: usize,
    /// By their place among the scheduler's cores.
    pub(crate) cores: [usize; MOST_PARTS],
    /// Where their records go.
    pub(crate) places: [u64; MOST_PARTS],
    pub(crate) pipes: u32,
}

impl Seats {
    /// Makes room for a scheduler with so many cores: nothing is allocated later.
    pub(crate) fn make_room(&mut self, cores: usize) {
        self.taken.reserve(cores.saturating_sub(self.taken.len()));
    }

    /// Whether a core that could take a seat waits for the host.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Whether something has changed since the scheduler looked at its seats last: a cohort in which it has a seat has started,
    /// another cohort assembles, or the run has failed.
    pub(crate) fn has_news(&self, shared: &crate::Shared) -> bool {
        let stirs = |taken: &CoreSeat| shared.stopped() || shared.cohorts.has_started(&taken.seat);
        self.taken.iter().any(stirs) || (shared.calls_cohort() && self.looked_at != Some(shared.cohorts.number()))
    }
}

impl<P: Platform, C: Ports, L: Lane> Mailbox<'_, '_, P, C, L> {
    /// Hands a cohort over to all schedulers. False: the task is none.
    pub(crate) fn call_cohort(&mut self, task: SlotRef) -> bool {
        let slot = self.agent.shared.slot(task);
        if slot.is_ordinary() {
            return false;
        }
        let times = self.cores_of_block(&ShapeWords::of(slot));
        self.agent.call_cohort(task, times)
    }

    /// How many cores execute a block: one for each part, or one for all of them where cores are in no clusters.
    fn cores_of_block(&self, shape: &ShapeWords<'_>) -> usize {
        if self.clusters.are_none() { 1 } else { shape.parts() }
    }

    /// Takes seats of the cohort that assembles, and dispatches the blocks of those that have started. How many of both.
    pub(crate) fn serve_cohorts(&mut self) -> u32 {
        self.seats.starved = false;
        let shared = self.agent.shared;
        let assembling = if shared.calls_cohort() { shared.cohorts.assembling() } else { None };
        self.seats.looked_at = assembling.map(|(_, number)| number);
        let taken = assembling.map_or(0, |(task, number)| self.take_seats(task, number));
        if self.seats.taken.is_empty() { taken } else { taken + self.start_seats() }
    }

    fn take_seats(&mut self, task: SlotRef, number: u64) -> u32 {
        let shared = self.agent.shared;
        if shared.stopped() {
            return 0;
        }
        let slot = shared.slot(task);
        let wanted = rooms::class_of(self.agent.kernels, slot.kernel());
        let count = self.cores_of_block(&ShapeWords::of(slot));
        let mut taken = 0;
        for at in 0..self.cores.len() {
            if !rooms::runs(self.cores[at].class, wanted) {
                continue;
            }
            let Some(cores) = self.free_cores(at, count) else { continue };
            match shared.sit(self.agent.platform, Some(number)) {
                Some(seat) => {
                    self.keep_seated(&cores);
                    self.seats.taken.push(CoreSeat { seat, cores });
                    taken += 1;
                }
                None => {
                    self.cancel(&cores);
                    break;
                }
            }
        }
        taken
    }

    /// The cores of a block whose first part goes to this core, with their records reserved; nothing unless all are free (Z1, Z2).
    fn free_cores(&mut self, at: usize, count: usize) -> Option<PartCores> {
        let mut cores = PartCores { count, cores: [at; MOST_PARTS], places: [0; MOST_PARTS], pipes: Order::NO_PIPES };
        if count > 1 {
            let vector = self.clusters.vector_cores(self.cores[at].cluster);
            if vector.len() < count - 1 {
                return None;
            }
            choose_soonest(vector, &self.cores, &mut cores.cores[1..count]);
            cores.pipes = self.free_pipes(at)?;
        }
        let is_free = |&core: &usize| {
            let owned = &self.cores[core];
            // H4.
            let stays = !owned.kept && !owned.is_leaving;
            owned.held == 0 && !owned.withdrawn && stays && !self.clusters.is_gathered(owned.cluster, core)
        };
        if !cores.cores[..count].iter().all(is_free) {
            return None;
        }
        for part in 0..count {
            let owned = &self.cores[cores.cores[part]];
            match self.agent.lane.reserve(owned.core, owned.token + 1) {
                Reserved::Place(place) => cores.places[part] = place,
                Reserved::Later => {
                    self.seats.starved = true;
                    cores.count = part;
                    self.cancel(&cores);
                    return None;
                }
            }
        }
        Some(cores)
    }

    fn keep_seated(&mut self, cores: &PartCores) {
        for &core in &cores.cores[..cores.count] {
            let owned = &mut self.cores[core];
            owned.kept = true;
            self.rooms.keep(self.agent.shared, owned.class, core, 0);
        }
        self.in_flight += 1;
    }

    fn cancel(&mut self, cores: &PartCores) {
        for &core in &cores.cores[..cores.count] {
            let owned = &self.cores[core];
            self.agent.lane.cancel(owned.core, owned.token + 1);
        }
    }

    /// Dispatches the blocks of cohorts that have started, and leaves the seats of a run that has failed. How many executions.
    fn start_seats(&mut self) -> u32 {
        let (shared, mut count, mut at) = (self.agent.shared, 0, 0);
        let has_started = |seat: &Seat| shared.cohorts.has_started(seat);
        let begins: usize =
            self.seats.taken.iter().filter(|taken| has_started(&taken.seat)).map(|taken| taken.cores.count).sum();
        self.charge_dispatches(begins);
        while let Some(&CoreSeat { seat, cores }) = self.seats.taken.get(at) {
            let started = has_started(&seat) || (shared.stopped() && !shared.leave_seat(&seat));
            if started {
                self.dispatch_parts(seat.task, seat.block, &cores);
                count += cores.count as u32;
            } else if shared.stopped() {
                // The cores stay kept: nothing is dispatched any more, so nobody asks what room they have.
                self.cancel(&cores);
            } else {
                at += 1;
                continue;
            }
            self.seats.taken.swap_remove(at);
            self.in_flight -= 1;
        }
        if count > 0 && self.agent.lane.on(Flags::SCHED_PHASES) {
            self.agent.phase(SchedPhaseKind::Dispatch, count, count);
        }
        count
    }

    /// Spends the time of so many dispatches, before the first of them: so their executions begin together in virtual time.
    pub(crate) fn charge_dispatches(&self, count: usize) {
        (0..count).for_each(|_| self.agent.platform.charge(self.agent.id(), Work::Dispatch));
    }

    /// Dispatches a block, or its parts, to cores that were kept for it. The time for it was charged.
    pub(crate) fn dispatch_parts(&mut self, task: SlotRef, block: u32, parts: &PartCores) {
        let PartCores { count, cores, places, pipes } = *parts;
        self.clusters.begin_pipes(self.agent.shared, pipes, count);
        let shape = ShapeWords::of(self.agent.shared.slot(task));
        for part in 0..count {
            let execution = block * count as u32 + part as u32;
            let errand = Errand { execution, kernel: shape.part_kernel(part), pipes, place: places[part] };
            self.send(cores[part], task, errand);
            let owned = &mut self.cores[cores[part]];
            owned.kept = false;
            self.rooms.readmit(self.agent.shared, owned.class, cores[part], owned.held);
        }
    }
}
