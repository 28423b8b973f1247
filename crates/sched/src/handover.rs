//! Cores that change their scheduler: the orchestrator becomes one when it has submitted all, and gets cores of the others.
//!
//! The orchestrator *opens* the desk. A scheduler that sees it open lets clusters of its own *leave*, one after the other: their
//! cores are given no more tasks, and when they hold nothing they are laid on the desk. The orchestrator takes what lies
//! there. When the run is over it *closes* the desk, and keeps what was still on it. Where cores are in no clusters, each leaves by
//! itself.
//!
//! ```text
//!            open: the orchestrator             close: the orchestrator, who takes what is left
//!   closed ────────────────────────► open ──────────────────────────────────────────────────────► closed
//!                                   │    ▲
//!                lay: a scheduler   └────┘  take: the orchestrator
//! ```
//!
//! # Invariants
//! * H1: every core is with one scheduler, or lies on the desk.
//! * H2: a core is laid down only when it holds nothing, all its receipts were collected and the pools of its records were let go.
//!   So nothing is in flight when it changes hands, and the lock orders what its old scheduler did before what its new one does.
//! * H3: nothing is laid down once the desk is closed, so nothing stays there.
//! * H4: all cores of a cluster leave, or none: none of them gathers or takes a seat from the moment on at which they begin to.
//!   Whatever they hold ends without the help of others, so the orchestrator gets them, and takes their seats, if a cohort
//!   assembles meanwhile.

use crate::mailbox::{Mailbox, OwnedCore};
use crate::shared::{ORCHESTRATOR, Shared};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_platform::Platform;
use plimsoll_platform::ports::{ISSUE, Ports};
use plimsoll_probe::Lane;

/// Where cores change hands.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<DeskState>,
    /// Whether it is open, for a look without the lock.
    open: AtomicBool,
    /// Whether something lies there, for a look without the lock.
    laden: AtomicBool,
}

#[derive(Debug, Default)]
struct DeskState {
    open: bool,
    clusters: Vec<HandedCluster>,
}

/// Cores that change hands together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HandedCluster {
    /// Whether they are a cluster, and not a core by itself.
    pub(crate) is_cluster: bool,
    pub(crate) cores: Vec<HandedCore>,
}

/// What the new scheduler of a core has to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HandedCore {
    pub(crate) core: CoreId,
    /// The place of its class among the core classes.
    pub(crate) class: usize,
    /// The token of its last dispatch.
    pub(crate) token: u32,
    /// Ticks that kernels ran.
    pub(crate) busy: u64,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        // Nothing in here panics between two changes that belong together.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether cores are wanted.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // Relaxed: the lock decides.
        self.open.load(Ordering::Relaxed)
    }

    /// Whether something lies there.
    #[inline]
    pub(crate) fn is_laden(&self) -> bool {
        // Relaxed: the lock decides.
        self.laden.load(Ordering::Relaxed)
    }

    /// Whether something lies there for `agent`.
    #[inline]
    pub(crate) fn is_laden_for(&self, agent: AgentId) -> bool {
        self.is_laden() && agent == ORCHESTRATOR
    }

    /// Cores are wanted from now on.
    fn open(&self) {
        self.lock().open = true;
        // SeqCst pairs(sleep.announced): before the look for sleepers.
        self.open.store(true, Ordering::SeqCst);
    }

    /// Lays a cluster down, or hands it back: the desk is closed (H3).
    fn lay(&self, cluster: HandedCluster) -> Result<(), HandedCluster> {
        let mut state = self.lock();
        if !state.open {
            return Err(cluster);
        }
        state.clusters.push(cluster);
        // SeqCst pairs(sleep.announced): before the look for a sleeper.
        self.laden.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// All that lies there.
    fn take(&self) -> Vec<HandedCluster> {
        let mut state = self.lock();
        self.laden.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.clusters)
    }

    /// Closes the desk: no further cluster is accepted. Returns the clusters that nobody has taken.
    fn close(&self) -> Vec<HandedCluster> {
        let mut state = self.lock();
        state.open = false;
        self.open.store(false, Ordering::Relaxed);
        self.laden.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.clusters)
    }

    /// Closes it for the next run. Only while no agent is at work.
    pub(crate) fn reset(&self) {
        drop(self.close());
    }
}

/// How far a scheduler is with the clusters that it hands over.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// How many are still to leave; nothing before the desk was seen open.
    due: Option<usize>,
    /// The cluster that leaves next.
    cluster: Option<usize>,
}

impl Leaving {
    /// Whether the desk is open, and was not seen so before.
    #[inline]
    pub(crate) fn has_news(&self, shared: &Shared) -> bool {
        self.due.is_none() && shared.desk.is_open()
    }
}

/// The scheduler's half.
impl<P: Platform, C: Ports, L: Lane> Mailbox<'_, '_, P, C, L> {
    /// Hands clusters over, if that is wanted.
    #[inline]
    pub(crate) fn serve_desk(&mut self) {
        if self.agent.shared.desk.is_open() {
            match self.agent.id() == ORCHESTRATOR {
                true => self.take_over(),
                false => self.let_leave(),
            }
        }
    }

    /// Every scheduler gives the orchestrator as large a share of its clusters as it would own itself if there had been one
    /// scheduler more from the beginning.
    #[cold]
    fn let_leave(&mut self) {
        let shared = self.agent.shared;
        let mut due = self.leaving.due.unwrap_or(self.cluster_count() / shared.agents());
        while due > 0 && !shared.stopped() && self.begin_to_leave() && self.lay_down() {
            due -= 1;
        }
        self.leaving.due = Some(due);
    }

    fn cluster_count(&self) -> usize {
        if self.clusters.are_none() { self.cores.len() } else { self.clusters.count() }
    }

    /// The cores of a cluster, by their place among this scheduler's.
    fn members(&self, cluster: usize) -> Vec<usize> {
        let alone = self.clusters.are_none();
        let is_member = |at: &usize| if alone { *at == cluster } else { self.cores[*at].cluster == cluster };
        (0..self.cores.len()).filter(is_member).collect()
    }

    /// Whether a cluster is about to leave: one of which no core is kept for anything else (H4).
    fn begin_to_leave(&mut self) -> bool {
        if self.leaving.cluster.is_some() {
            return true;
        }
        let may = |cluster: &usize| {
            let stays = |at: &usize| !self.cores[*at].kept && !self.cores[*at].is_leaving;
            !self.clusters.is_gathering(*cluster) && self.members(*cluster).iter().all(stays)
        };
        let Some(cluster) = (0..self.cluster_count()).rev().find(may) else { return false };
        self.leaving.cluster = Some(cluster);
        for at in self.members(cluster) {
            self.cores[at].is_leaving = true;
            self.keep_leaving(at);
        }
        true
    }

    /// A core that is about to leave is given nothing more, once it has room.
    pub(crate) fn keep_leaving(&mut self, at: usize) {
        let owned = &mut self.cores[at];
        if owned.is_leaving && !owned.kept && !owned.withdrawn && owned.held < ISSUE {
            owned.kept = true;
            self.rooms.keep(self.agent.shared, owned.class, at, owned.held);
        }
    }

    /// Lays the cluster that is about to leave down. False: it holds something, or nobody wants it any more.
    fn lay_down(&mut self) -> bool {
        let Some(cluster) = self.leaving.cluster else { return false };
        let members = self.members(cluster);
        members.iter().for_each(|&at| self.keep_leaving(at));
        if !members.iter().all(|&at| self.cores[at].kept && self.cores[at].held == 0) {
            return false;
        }
        let mut cores = Vec::with_capacity(members.len());
        for &at in &members {
            let OwnedCore { core, class, token, busy, .. } = self.cores[at];
            self.agent.lane.let_go(core);
            cores.push(HandedCore { core, class, token, busy });
        }
        let handed = HandedCluster { is_cluster: !self.clusters.are_none(), cores };
        if self.agent.shared.desk.lay(handed).is_err() {
            return false;
        }
        for at in members {
            self.cores[at].handed_over = true;
            self.ports.part_with(self.agent.id(), self.cores[at].core);
        }
        self.leaving.cluster = None;
        self.agent.platform.light_barrier();
        self.agent.shared.sleep.wake(self.agent.platform, ORCHESTRATOR);
        true
    }
}

/// The orchestrator's half.
impl<P: Platform, C: Ports, L: Lane> Mailbox<'_, '_, P, C, L> {
    /// Schedules the cores that the others hand over, until `total` tasks have completed or the run has failed. Calls `over` then:
    /// the others may leave, and cores that are dismissed must not come back to this run. Waits for what its cores hold unless
    /// `gives_up` says otherwise. For an orchestrator that has submitted all, without cores so far.
    pub fn join_in(&mut self, total: u64, gives_up: impl Fn() -> bool, over: impl FnOnce()) {
        let (ports, shared, own) = (self.ports, self.agent.shared, self.agent.id());
        let is_over = || shared.stopped() || shared.done.total() == total;
        if is_over() {
            return;
        }
        // It hands nothing over itself.
        self.leaving.due = Some(0);
        shared.desk.open();
        shared.sleep.wake_all(self.agent.platform);
        self.schedule(|_| is_over());
        // H3: what was laid down meanwhile is dismissed with the others.
        let left = shared.desk.close();
        self.adopt(left);
        over();
        self.schedule(|in_flight| in_flight == 0 || ports.cores_lost() || gives_up());
        self.rooms.retire(shared);
        ports.dismiss(own);
        let gone = || ports.cores_lost() || ports.have_left(own) || gives_up();
        while !gone() {
            self.agent.idle_until(|_, _| gone());
        }
    }

    #[cold]
    fn take_over(&mut self) {
        if self.agent.shared.desk.is_laden() {
            let laid = self.agent.shared.desk.take();
            self.adopt(laid);
        }
    }
}

/// Interleavings, up to a bound of preemptions, of a scheduler that lays clusters down and an orchestrator that takes them and leaves.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn every_core_is_with_one_of_them_in_the_end() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        builder.check(|| {
            let desk = Arc::new(Desk::default());
            desk.open();
            let scheduler = {
                let desk = Arc::clone(&desk);
                thread::spawn(move || {
                    let cluster = |core: u16| HandedCluster {
                        is_cluster: true,
                        cores: vec![HandedCore { core: CoreId(core), class: 0, token: 0, busy: 0 }],
                    };
                    (0..2).filter_map(|core| desk.lay(cluster(core)).err()).collect::<Vec<_>>()
                })
            };
            let mut all = desk.take();
            all.extend(desk.close());
            all.extend(scheduler.join().unwrap());
            let mut cores: Vec<u16> = all.iter().map(|cluster| cluster.cores[0].core.0).collect();
            cores.sort_unstable();
            assert_eq!(cores, [0, 1], "H1");
            assert!(desk.take().is_empty() && !desk.is_laden(), "H3");
        });
    }
}
