//! The watermark of completed tasks, without a shared counter.
//!
//! The slots of a ring are divided into chunks. Every agent counts the tasks it completed in each chunk, in counters
//! of its own that only grow; the orchestrator, who knows how many tasks it issued in a chunk, adds them up when it
//! wants to know. So a completion is a plain store to a line that no other agent writes.
//!
//! # Invariants
//! * D1: an agent counts a task after its last touch of the slot, so that a counted slot may be used again.
//! * D2: a chunk is complete when the counts add up to all that was issued in it since the start of the run. A chunk may
//!   hold the last tasks of one lap and the first of the next, and counts cannot tell them apart: so nothing less than
//!   all of them will do. It always comes to that, since what was submitted runs without the orchestrator.
//! * D3: when the totals add up to all that was issued, every submitted task has completed.

use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded};
use plimsoll_abi::RINGS;

/// Chunks a ring is divided into at most, and slots of a chunk at most.
const CHUNKS: usize = 1024;
const CHUNK_SLOTS: usize = 64;

/// The counters of all agents.
#[derive(Debug)]
pub struct Done {
    lanes: Box<[Padded<DoneLane>]>,
}

/// The counters of one agent.
#[derive(Debug)]
pub struct DoneLane {
    total: AtomicU64,
    chunks: [Box<[AtomicU32]>; RINGS],
    /// Slots of a chunk, as a power of two.
    shifts: [u32; RINGS],
}

impl Done {
    /// Counters for rings with these windows, each a power of two.
    pub fn new(agents: usize, windows: &[usize; RINGS]) -> Self {
        let shifts = windows.map(|window| {
            let slots = CHUNK_SLOTS.min(window / 8).max(1).max(window / CHUNKS);
            slots.trailing_zeros()
        });
        let lane = || DoneLane {
            total: AtomicU64::new(0),
            chunks: std::array::from_fn(|ring| (0..windows[ring] >> shifts[ring]).map(|_| AtomicU32::new(0)).collect()),
            shifts,
        };
        Self { lanes: (0..agents).map(|_| Padded(lane())).collect() }
    }

    /// Slots of a chunk, as a power of two.
    #[inline]
    pub fn shift(&self, ring: usize) -> u32 {
        self.lanes[0].shifts[ring]
    }

    /// The counters of `agent`.
    pub fn lane(&self, agent: usize) -> &DoneLane {
        &self.lanes[agent]
    }

    /// Tasks completed in a chunk since the start of the run, modulo 2^32.
    #[inline]
    pub fn in_chunk(&self, ring: usize, chunk: usize) -> u32 {
        // Acquire pairs(done.counted).
        self.lanes.iter().fold(0, |sum, lane| sum.wrapping_add(lane.chunks[ring][chunk].load(Ordering::Acquire)))
    }

    /// Tasks completed since the start of the run.
    #[inline]
    pub fn total(&self) -> u64 {
        // Acquire pairs(done.counted).
        self.lanes.iter().map(|lane| lane.total.load(Ordering::Acquire)).sum()
    }

    /// Tasks that `agent` completed since the start of the run.
    pub fn by(&self, agent: usize) -> u64 {
        // Acquire pairs(done.counted).
        self.lanes[agent].total.load(Ordering::Acquire)
    }

    /// Back to zero. Only while no agent is at work.
    pub fn reset(&self) {
        for lane in &self.lanes {
            lane.total.store(0, Ordering::Relaxed);
            for counter in lane.chunks.iter().flatten() {
                counter.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl DoneLane {
    /// The agent completed the task in slot `index` of `ring`, and is done with the slot.
    #[inline]
    pub fn count(&self, ring: usize, index: usize) {
        let chunk = &self.chunks[ring][index >> self.shifts[ring]];
        // D1. Release pairs(done.counted): the agent's last touch of the slot comes before.
        chunk.store(chunk.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // Release pairs(done.counted), and pairs(sleep.totals): if the orchestrator waits, a fence follows.
        self.total.store(self.total.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}
