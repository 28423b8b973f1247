//! Mixed tasks on a chip: their parts go to cores of one cluster, together.
//!
//! A scheduler that takes a mixed task for one of its matrix cores *gathers* that core's cluster: a core that the task needs is
//! *kept* as soon as it has room, and given nothing else. When all are kept, the parts are dispatched one after the other.
//! A kept core may still run what it held before; the part then waits behind that (dual issue).
//!
//! # Invariants
//! * K1: a cluster gathers for one task at a time, and one scheduler owns all its cores. So blocks come to all cores of a cluster in
//!   the same order, and no two of them wait for each other's cores.
//! * K2: records of all parts are reserved before the first is dispatched. A kept core is dispatched nothing meanwhile, so its
//!   reservation stays its newest one; it is given back if the parts are never dispatched.
//! * K3: a set of pipes serves one block; it is free again when every part that used it has finished.
//! * K4: a run that has failed gathers no more.

use crate::mailbox::{Mailbox, OwnedCore};
use crate::pipe::MOST_PARTS;
use crate::policy::rooms;
use crate::seats::PartCores;
use crate::shape::ShapeWords;
use crate::shared::{PIPE_SETS, Shared};
use crate::slot::SlotRef;
use plimsoll_abi::CoreId;
use plimsoll_platform::Platform;
use plimsoll_platform::ports::{ISSUE, Order, Ports};
use plimsoll_probe::{Lane, Reserved};

/// The clusters of one scheduler.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    clusters: Vec<Cluster>,
    /// Parts that use each set of pipes of all cores and have not finished.
    users: Vec<u8>,
}

#[derive(Debug, Default)]
struct Cluster {
    /// Its vector cores, by their place among the scheduler's cores.
    vector: Vec<usize>,
    gathering: Option<Gathering>,
}

/// A task for which cores are kept.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    task: SlotRef,
    parts: usize,
    /// The cores, by their place among the scheduler's.
    cores: [usize; MOST_PARTS],
    kept: [bool; MOST_PARTS],
    /// Where the records go, as far as they are reserved (K2).
    places: [Option<u64>; MOST_PARTS],
    /// A core that holds nothing has no place for its record: the host must give a buffer back.
    starved: bool,
}

impl Gathering {
    fn is_ready(&self) -> bool {
        self.kept[..self.parts].iter().all(|kept| *kept)
    }
}

impl Clusters {
    /// The clusters of these cores. Each core is given the number of its cluster.
    pub(crate) fn new<S>(cores: &mut [OwnedCore<S>], cluster_of: impl Fn(CoreId) -> u32) -> Self {
        let mut numbers: Vec<u32> = cores.iter().map(|owned| cluster_of(owned.core)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut clusters: Vec<Cluster> = numbers.iter().map(|_| Cluster::default()).collect();
        let vector = rooms::class_place(plimsoll_platform::CoreClass::Aiv);
        for (at, owned) in cores.iter_mut().enumerate() {
            owned.cluster = numbers.binary_search(&cluster_of(owned.core)).unwrap_or_default();
            if owned.class == vector {
                clusters[owned.cluster].vector.push(at);
            }
        }
        let users = cores.iter().map(|owned| (owned.core.index() + 1) * PIPE_SETS).max().unwrap_or(0);
        Self { clusters, users: vec![0; users] }
    }

    /// The cores from `first` on are a cluster, which joins the others.
    pub(crate) fn add<S>(&mut self, cores: &mut [OwnedCore<S>], first: usize) {
        let vector = rooms::class_place(plimsoll_platform::CoreClass::Aiv);
        let mut cluster = Cluster::default();
        for (at, owned) in cores.iter_mut().enumerate().skip(first) {
            owned.cluster = self.clusters.len();
            if owned.class == vector {
                cluster.vector.push(at);
            }
            let users = (owned.core.index() + 1) * PIPE_SETS;
            self.users.resize(self.users.len().max(users), 0);
        }
        self.clusters.push(cluster);
    }

    /// Number of clusters.
    pub(crate) fn count(&self) -> usize {
        self.clusters.len()
    }

    /// Whether a mixed task waits for cores of this cluster.
    pub(crate) fn is_gathering(&self, cluster: usize) -> bool {
        self.clusters.get(cluster).is_some_and(|cluster| cluster.gathering.is_some())
    }

    /// Whether a mixed task waits for cores.
    pub(crate) fn any_gathering(&self) -> bool {
        self.clusters.iter().any(|cluster| cluster.gathering.is_some())
    }

    /// Whether a mixed task has its cores, and waits for the host. What else it waits for comes with a receipt.
    pub(crate) fn any_starved(&self) -> bool {
        self.clusters.iter().any(|cluster| cluster.gathering.is_some_and(|gathering| gathering.starved))
    }

    /// Whether the scheduler's cores are in no clusters.
    pub(crate) fn are_none(&self) -> bool {
        self.clusters.is_empty()
    }

    /// The vector cores of a cluster.
    pub(crate) fn vector_cores(&self, cluster: usize) -> &[usize] {
        self.clusters.get(cluster).map_or(&[], |cluster| &cluster.vector)
    }

    /// Whether a mixed task gathers this core of the cluster.
    pub(crate) fn is_gathered(&self, cluster: usize, core: usize) -> bool {
        let gathering = self.clusters.get(cluster).and_then(|cluster| cluster.gathering.as_ref());
        gathering.is_some_and(|gathering| gathering.cores[..gathering.parts].contains(&core))
    }

    /// Marks these pipes as used by `parts` parts of a block (K3).
    pub(crate) fn begin_pipes(&mut self, shared: &Shared, pipes: u32, parts: usize) {
        if let Some(users) = self.users.get_mut(pipes as usize).filter(|_| parts > 1) {
            *users = parts as u8;
            shared.pipes[pipes as usize].begin(parts);
        }
    }

    /// A part has finished that used these pipes.
    pub(crate) fn give_back(&mut self, pipes: u32) {
        if let Some(users) = self.users.get_mut(pipes as usize) {
            *users -= 1;
        }
    }
}

/// Chooses as many vector cores of a cluster as there is space for, in their order: those that would begin a part soonest, because
/// they can be given one and hold the least. There are as many at least.
pub(crate) fn choose_soonest<S>(vector: &[usize], cores: &[OwnedCore<S>], chosen: &mut [usize]) {
    let wait = |at: usize| {
        let owned = &cores[at];
        (owned.kept || owned.withdrawn || owned.is_leaving, owned.held, at)
    };
    let most = chosen.len();
    let is_soon = |at: &&usize| vector.iter().filter(|&&other| wait(other) < wait(**at)).count() < most;
    chosen.iter_mut().zip(vector.iter().filter(is_soon)).for_each(|(place, &at)| *place = at);
}

impl<P: Platform, C: Ports, L: Lane> Mailbox<'_, '_, P, C, L> {
    /// Begins to gather the cluster of the core that was just occupied, if the task is a mixed one. False: it is not, or all
    /// its parts go to the core.
    pub(crate) fn gather(&mut self, at: usize, task: SlotRef) -> bool {
        let shared = self.agent.shared;
        let slot = shared.slot(task);
        if slot.is_ordinary() || self.clusters.clusters.is_empty() {
            return false;
        }
        let parts = ShapeWords::of(slot).parts();
        if parts == 1 {
            return false;
        }
        let owned = &self.cores[at];
        let cluster = &mut self.clusters.clusters[owned.cluster];
        if cluster.gathering.is_some() || owned.is_leaving || cluster.vector.len() + 1 < parts {
            // K1, H4. Which clusters are too small for a task is told when it is submitted.
            self.withdraw(at);
            rooms::put_back(shared, self.agent.kernels, self.agent.id(), task);
            return true;
        }
        let mut cores = [at; MOST_PARTS];
        choose_soonest(&cluster.vector, &self.cores, &mut cores[1..parts]);
        let (kept, places, starved) = ([true, false, false], [None; MOST_PARTS], false);
        cluster.gathering = Some(Gathering { task, parts, cores, kept, places, starved });
        let (cluster, class, held) = (owned.cluster, owned.class, owned.held);
        self.cores[at].kept = true;
        self.in_flight += 1;
        self.rooms.withdraw(shared, class, at, held);
        self.keep_cores(cluster);
        true
    }

    /// Keeps the cores that a cluster's mixed task needs and that have room.
    pub(crate) fn keep_cores(&mut self, cluster: usize) {
        let Some(Cluster { gathering: Some(gathering), .. }) = self.clusters.clusters.get_mut(cluster) else { return };
        for part in 0..gathering.parts {
            let owned = &mut self.cores[gathering.cores[part]];
            if !gathering.kept[part] && owned.held < ISSUE && !owned.withdrawn && !owned.kept {
                (gathering.kept[part], owned.kept) = (true, true);
                self.rooms.keep(self.agent.shared, owned.class, gathering.cores[part], owned.held);
            }
        }
    }

    /// Dispatches the mixed tasks that have all their cores. How many executions those were.
    pub(crate) fn start_gathered(&mut self) -> u32 {
        let mut count = 0;
        for cluster in 0..self.clusters.clusters.len() {
            let Some(gathering) = self.clusters.clusters[cluster].gathering else { continue };
            if self.agent.shared.stopped() {
                // K4. The cores stay kept: nothing is dispatched any more, so nobody asks what room they have.
                self.clusters.clusters[cluster].gathering = None;
                self.in_flight -= 1;
                for part in 0..gathering.parts {
                    let owned = &self.cores[gathering.cores[part]];
                    if gathering.places[part].is_some() {
                        self.agent.lane.cancel(owned.core, owned.token + 1);
                    }
                }
            } else {
                self.keep_cores(cluster);
                count += self.start(cluster);
            }
        }
        count
    }

    fn start(&mut self, cluster: usize) -> u32 {
        let Some(gathering) = self.clusters.clusters[cluster].gathering.filter(Gathering::is_ready) else { return 0 };
        let Gathering { task, parts, cores, .. } = gathering;
        let Some(pipes) = self.free_pipes(cores[0]) else { return 0 };
        let Some(places) = self.reserve_all(cluster) else { return 0 };
        self.clusters.clusters[cluster].gathering = None;
        self.in_flight -= 1;
        let block = self.claim(task, parts);
        self.charge_dispatches(parts);
        self.dispatch_parts(task, block, &PartCores { count: parts, cores, places, pipes });
        parts as u32
    }

    /// A set of pipes of a matrix core that nobody uses (K3).
    pub(crate) fn free_pipes(&self, at: usize) -> Option<u32> {
        if self.agent.shared.pipes.is_empty() {
            return Some(Order::PARTS_TOGETHER);
        }
        let first = self.cores[at].core.index() * PIPE_SETS;
        (first..first + PIPE_SETS).find(|&set| self.clusters.users[set] == 0).map(|set| set as u32)
    }

    /// Reserves the records of all parts, as far as they are not yet (K2). Nothing: one has no place now.
    fn reserve_all(&mut self, cluster: usize) -> Option<[u64; MOST_PARTS]> {
        let gathering = self.clusters.clusters[cluster].gathering.as_mut()?;
        let mut places = [0; MOST_PARTS];
        gathering.starved = false;
        for (part, place) in places.iter_mut().enumerate().take(gathering.parts) {
            let owned = &self.cores[gathering.cores[part]];
            *place = match gathering.places[part] {
                Some(place) => place,
                None => match self.agent.lane.reserve(owned.core, owned.token + 1) {
                    Reserved::Place(place) => place,
                    Reserved::Later => {
                        gathering.starved = owned.held == 0;
                        return None;
                    }
                },
            };
            gathering.places[part] = Some(*place);
        }
        Some(places)
    }
}
