//! What a run did: counts, times and how close it came to its limits.

use crate::options::Capacities;
use plimsoll_abi::{RINGS, Resource};
use plimsoll_sched::ring::HEAP_ALIGN;
use plimsoll_sched::submit::{Guesses, PeakSites, RunPeaks};

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Rounds that were begun.
    pub rounds: u32,
    /// Accepted submits.
    pub tasks: u64,
    /// Executions on cores.
    pub dispatches: u64,
    /// From the first submit to the end of the run, in nanoseconds. The makespan, first kernel start to last kernel end, is
    /// known of recorded runs (`plimsoll_trace::kernel_time`).
    pub elapsed_ns: u64,
    /// What each worker did.
    pub workers: Vec<WorkerReport>,
    /// The fullest moment of every ring and resource.
    pub load: Vec<Load>,
    /// Overlaps that may be false: because a view is no box of its buffer, or because many different parts of a buffer were in
    /// use and one write came to stand for all of them. Of a prebuilt graph, each launch counts those that its building met.
    pub conservative_overlaps: u64,
    /// How many of them were met in which scopes, by where those were opened, most first.
    pub conservative_sites: Vec<(String, u64)>,
    /// Threads that did not come back from the run and were left behind, with all that they may touch.
    pub left_behind: u32,
    /// The account of its records, if it was recorded.
    pub ledger: Option<plimsoll_collect::Ledger>,
    /// The directory that it was recorded into, if it was. A run whose recording could not start has none.
    pub dir: Option<std::path::PathBuf>,
}

impl RunReport {
    /// Adds what the next round did. Its `elapsed_ns` counts from the first submit of the first one.
    pub(crate) fn add(&mut self, other: &RunReport) {
        self.rounds += 1;
        self.tasks += other.tasks;
        self.dispatches += other.dispatches;
        self.left_behind += other.left_behind;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.conservative_overlaps += other.conservative_overlaps;
        for (site, count) in &other.conservative_sites {
            match self.conservative_sites.iter_mut().find(|(known, _)| known == site) {
                Some((_, sum)) => *sum += count,
                None => self.conservative_sites.push((site.clone(), *count)),
            }
        }
        self.workers.resize(other.workers.len(), WorkerReport::default());
        for (sum, worker) in self.workers.iter_mut().zip(&other.workers) {
            sum.tasks += worker.tasks;
            sum.busy_ns += worker.busy_ns;
        }
        if self.load.is_empty() {
            self.load.clone_from(&other.load);
        }
        for (most, load) in self.load.iter_mut().zip(&other.load) {
            let floor = most.floor.max(load.floor);
            if load.peak > most.peak {
                most.clone_from(load);
            }
            most.floor = floor;
        }
    }
}

/// Where overlaps were met that may be false, as `file:line`.
pub(crate) fn sites_of(guesses: &Guesses) -> Vec<(String, u64)> {
    guesses.by_site().iter().map(|(site, count)| (site.to_string(), *count)).collect()
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerReport {
    /// Tasks it completed.
    pub tasks: u64,
    /// Time it had something to do, in nanoseconds.
    pub busy_ns: u64,
}

/// How full a resource was at most.
#[derive(Clone, Debug)]
pub struct Load {
    /// The resource.
    pub resource: Resource,
    /// Its ring; none for the tensormap.
    pub ring: Option<u8>,
    /// In use at most.
    pub peak: u64,
    /// The least capacity with which the run ends; below it, it deadlocks. Only a lower bound for a run that failed.
    pub floor: u64,
    /// Configured capacity.
    pub capacity: u64,
    /// The scope in which it was fullest, as `file:line`.
    pub site: Option<String>,
}

impl Load {
    /// Share of the capacity that was in use.
    pub fn share(&self) -> f64 {
        self.peak as f64 / self.capacity.max(1) as f64
    }
}

/// The load of every ring and resource from the peaks of a run.
pub(crate) fn load_of(peaks: &RunPeaks, sites: &PeakSites, capacities: &Capacities) -> Vec<Load> {
    let mut out = Vec::with_capacity(3 * RINGS + 1);
    let (used, held) = (&peaks.usage, &peaks.held);
    for at in 0..RINGS {
        let (c, ring) = (&capacities.rings[at], Some(at as u8));
        let floor = u64::from(held.window[at]).next_power_of_two();
        let (peak, capacity) = (u64::from(used.window[at]), u64::from(c.window));
        out.push(Load { resource: Resource::TaskWindow, ring, peak, floor, capacity, site: None });
        let floor = held.heap[at].max(HEAP_ALIGN);
        out.push(Load { resource: Resource::Heap, ring, peak: used.heap[at], floor, capacity: c.heap, site: None });
        let floor = u64::from(held.dep_pool[at]).max(1);
        let (peak, capacity) = (u64::from(used.dep_pool[at]), u64::from(c.dep_pool));
        out.push(Load { resource: Resource::DepPool, ring, peak, floor, capacity, site: None });
    }
    let (peak, capacity) = (u64::from(used.tensormap), u64::from(capacities.tensormap));
    let floor = u64::from(held.tensormap).max(1);
    out.push(Load { resource: Resource::Tensormap, ring: None, peak, floor, capacity, site: None });
    for (load, site) in out.iter_mut().zip(sites.sites()) {
        load.site = site.map(|site| site.to_string());
    }
    out
}
