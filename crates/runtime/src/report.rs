//! What a run did: counts, times and how close it came to its limits.

use crate::options::Capacities;
use plimsoll_abi::{RINGS, Resource};
use plimsoll_sched::submit::{PeakSites, Peaks};

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Accepted submits.
    pub tasks: u64,
    /// Executions on cores.
    pub dispatches: u64,
    /// From the first submit to the last completion, in nanoseconds.
    pub makespan_ns: u64,
    /// What each worker did.
    pub workers: Vec<WorkerReport>,
    /// The fullest moment of every ring and resource.
    pub load: Vec<Load>,
    /// Overlaps that may be false because the views are not boxes of their buffer.
    pub conservative_overlaps: u64,
    /// The account of its records, if it was recorded.
    pub ledger: Option<plimsoll_collect::Ledger>,
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
    /// There is.
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
pub(crate) fn load_of(peaks: &Peaks, sites: &PeakSites, capacities: &Capacities) -> Vec<Load> {
    let mut out = Vec::with_capacity(3 * RINGS + 1);
    for ring in 0..RINGS {
        let c = &capacities.rings[ring];
        let rows = [
            (Resource::TaskWindow, u64::from(peaks.usage.window[ring]), u64::from(c.window)),
            (Resource::Heap, peaks.usage.heap[ring], c.heap),
            (Resource::DepPool, u64::from(peaks.usage.dep_pool[ring]), u64::from(c.dep_pool)),
        ];
        for (resource, peak, capacity) in rows {
            out.push(Load { resource, ring: Some(ring as u8), peak, capacity, site: None });
        }
    }
    let (peak, capacity) = (u64::from(peaks.usage.tensormap), u64::from(capacities.tensormap));
    out.push(Load { resource: Resource::Tensormap, ring: None, peak, capacity, site: None });
    for (load, site) in out.iter_mut().zip(sites.sites()) {
        load.site = site.map(|site| format!("{}:{}", site.file(), site.line()));
    }
    out
}
