//! What the models of the region's protocols share: memory with pools and queues as a region has them, the host's end, and a core.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::thread;
use plimsoll_shm::queue::QueueView;
use plimsoll_shm::sync::RecordSlot;
use plimsoll_shm::words::{ActiveHead, BufferHeader, Control, QueueHead};
use plimsoll_shm::{
    Counters, Drainer, HostMemory, LaneContext, Patience, Policy, PoolMemory, StampMemory, Sweep, Taken, Unsealed,
    World, Writer,
};
use std::time::Duration;

/// What stamps are before anybody wrote one: any token, as in a buffer that was used before.
const STALE: u32 = 1;

pub(crate) const BLOCK: Patience = Patience { policy: Policy::Block, ticks: 1, steps: u32::MAX };
pub(crate) const DROP: Patience = Patience { policy: Policy::Drop, ticks: 1, steps: 1 };

pub(crate) struct Queue {
    words: QueueHead,
    slots: Vec<AtomicU64>,
}

impl Queue {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = (0..slots.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
        Self { words: QueueHead::default(), slots }
    }

    pub(crate) fn view(&self) -> QueueView<'_> {
        QueueView::new(&self.words, &self.slots)
    }
}

pub(crate) struct Pool {
    head: ActiveHead,
    free: Queue,
    pub(crate) buffers: Vec<Buffer>,
}

pub(crate) struct Buffer {
    header: BufferHeader,
    slots: Vec<RecordSlot<u64>>,
    /// One per slot.
    pub(crate) stamps: Vec<AtomicU32>,
}

/// One pool and one ready queue per agent.
pub(crate) struct Memory {
    pub(crate) control: Control,
    pub(crate) pools: Vec<Pool>,
    ready: Vec<Queue>,
}

impl Memory {
    pub(crate) fn new(agents: usize, buffers: usize, records: usize) -> Arc<Self> {
        let buffer = |_| Buffer {
            header: BufferHeader::default(),
            slots: (0..records).map(|_| RecordSlot::new(0)).collect(),
            stamps: (0..records).map(|_| AtomicU32::new(STALE)).collect(),
        };
        let pool = |_| Pool {
            head: ActiveHead::default(),
            free: Queue::new(buffers),
            buffers: (0..buffers).map(buffer).collect(),
        };
        let ready = (0..agents).map(|_| Queue::new(buffers)).collect();
        Arc::new(Self { control: Control::default(), pools: (0..agents).map(pool).collect(), ready })
    }

    pub(crate) fn lane(&self, agent: usize, patience: Patience) -> (LaneContext<'_, Loom>, Writer<'_, u64, View<'_>>) {
        let context = LaneContext::new(Loom, &self.control, self.ready[agent].view(), patience, 1, agent as u16);
        (context, Writer::new(Some(View { pool: &self.pools[agent], index: agent as u32 })))
    }

    /// The records of a buffer that is the host's.
    pub(crate) fn read(&self, pool: u32, buffer: u32, count: u32) -> Vec<u64> {
        let slots = &self.pools[pool as usize].buffers[buffer as usize].slots[..count as usize];
        // SAFETY: that nobody writes them meanwhile is what loom checks here.
        slots.iter().map(|slot| unsafe { slot.read() }).collect()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct View<'r> {
    pub(crate) pool: &'r Pool,
    pub(crate) index: u32,
}

// SAFETY: every pool of the model has a head and slots of its own.
unsafe impl<'r> PoolMemory<'r, u64> for View<'r> {
    fn index(self) -> u32 {
        self.index
    }
    fn head(self) -> &'r ActiveHead {
        &self.pool.head
    }
    fn free(self) -> QueueView<'r> {
        self.pool.free.view()
    }
    fn buffers(self) -> u32 {
        self.pool.buffers.len() as u32
    }
    fn header(self, buffer: u32) -> &'r BufferHeader {
        &self.pool.buffers[buffer as usize].header
    }
    fn slots(self, buffer: u32) -> &'r [RecordSlot<u64>] {
        &self.pool.buffers[buffer as usize].slots
    }
}

// SAFETY: the stamp of a slot lies beside it, under the same numbers.
unsafe impl<'r> StampMemory<'r, u64> for View<'r> {
    fn stamp_word(self, buffer: u32, slot: u32) -> Option<&'r AtomicU32> {
        self.pool.buffers.get(buffer as usize)?.stamps.get(slot as usize)
    }
    unsafe fn write_unstamped(self, buffer: u32, slot: u32, record: u64) -> bool {
        let Some(buffer) = self.pool.buffers.get(buffer as usize) else { return false };
        // SAFETY: that nobody else accesses it meanwhile is what loom checks here.
        buffer.slots.get(slot as usize).map(|slot| unsafe { slot.write(record) }).is_some()
    }
}

impl HostMemory for Memory {
    fn ready(&self, agent: usize) -> QueueView<'_> {
        self.ready[agent].view()
    }
    fn geometry(&self, pool: u32) -> Option<(u32, u32)> {
        let pool = self.pools.get(pool as usize)?;
        Some((pool.buffers.len() as u32, pool.buffers[0].slots.len() as u32))
    }
    fn head(&self, pool: u32) -> &ActiveHead {
        &self.pools[pool as usize].head
    }
    fn free(&self, pool: u32) -> QueueView<'_> {
        self.pools[pool as usize].free.view()
    }
    fn header(&self, pool: u32, buffer: u32) -> &BufferHeader {
        &self.pools[pool as usize].buffers[buffer as usize].header
    }
}

/// A world whose clock stands still and whose waits let the others run.
#[derive(Clone)]
pub(crate) struct Loom;

impl World for Loom {
    fn ticks(&self) -> u64 {
        0
    }
    fn wait_for_host(&self, _: u32) {
        thread::yield_now();
    }
    fn notify_host(&self) {}
}

/// Explores every execution with at most `preemptions` forced switches.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    builder(preemptions).check(model);
}

/// Explores executions of a model with three threads, which are more than can be explored to the end: for 20 seconds, or as many as
/// PLIMSOLL_LOOM_SECONDS says.
pub(crate) fn explore_for_a_while(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let seconds = std::env::var("PLIMSOLL_LOOM_SECONDS");
    let seconds = seconds.map_or(20, |text| text.parse().expect("PLIMSOLL_LOOM_SECONDS is a number of seconds"));
    let mut builder = builder(preemptions);
    builder.max_duration = Some(Duration::from_secs(seconds));
    // After so many executions loom looks at the time.
    builder.checkpoint_interval = 1_000;
    builder.check(model);
}

fn builder(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 100_000;
    builder
}

pub(crate) fn stock(memory: &Memory, agents: usize) -> Drainer {
    Drainer::stock(memory, agents, agents).expect("the host has the memory mapped")
}

/// What is published and not sealed, with the counters, of a producer that has ended.
pub(crate) fn at_rest(memory: &Memory, drainer: &Drainer) -> (Option<Unsealed>, Counters) {
    match drainer.unsealed(memory, 0).expect("the host has the memory mapped") {
        Sweep::Settled(open, counters) => (open, counters),
        Sweep::Busy(_) => panic!("the producer has ended, and everything was drained"),
    }
}

/// Drains one buffer of an agent into `seen`; whether there was one.
pub(crate) fn drain_one(memory: &Memory, drainer: &mut Drainer, agent: usize, seen: &mut Vec<u64>) -> bool {
    let taken: Option<Taken> = drainer.take(memory, agent).expect("the protocol holds");
    let Some(taken) = taken else { return false };
    seen.extend(memory.read(taken.pool, taken.buffer, taken.count));
    drainer.give_back(memory, taken).expect("I1 holds");
    true
}

/// A core that executes tokens in order for the scheduler that owns its pool: one runs, one may wait (dual issue).
#[derive(Default)]
pub(crate) struct Core {
    /// Place + 1 of each dispatch, at `token % 2`, 0 if it has none; written by the scheduler.
    pub(crate) sent: [AtomicU64; 2],
    /// The last token that was sent.
    pub(crate) dispatched: AtomicU32,
    /// The last token that was finished.
    pub(crate) finished: AtomicU32,
}
