//! Every interleaving of the rotation protocol and its queues, at capacities of one to three.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-shm --release --test loom`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use plimsoll_shm::queue::{Consumer, Producer, QueueView};
use plimsoll_shm::sync::RecordSlot;
use plimsoll_shm::words::{ActiveHead, BufferHeader, Control, QueueHead};
use plimsoll_shm::{
    Counters, Drainer, HostMemory, LaneContext, Patience, Policy, PoolMemory, Reservation, Reserver, StagingRing,
    StampMemory, Sweep, Taken, Unsealed, World, Writer, stamp,
};
use std::time::Duration;

/// What stamps are before anybody wrote one: any token, as in a buffer that was used before.
const STALE: u32 = 1;

const BLOCK: Patience = Patience { policy: Policy::Block, ticks: 1, steps: u32::MAX };
const DROP: Patience = Patience { policy: Policy::Drop, ticks: 1, steps: 1 };

struct Queue {
    words: QueueHead,
    slots: Vec<AtomicU64>,
}

impl Queue {
    fn new(slots: usize) -> Self {
        let slots = (0..slots.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
        Self { words: QueueHead::default(), slots }
    }

    fn view(&self) -> QueueView<'_> {
        QueueView::new(&self.words, &self.slots)
    }
}

struct Pool {
    head: ActiveHead,
    free: Queue,
    buffers: Vec<Buffer>,
}

struct Buffer {
    header: BufferHeader,
    slots: Vec<RecordSlot<u64>>,
    /// One per slot.
    stamps: Vec<AtomicU32>,
}

/// One pool and one ready queue per agent.
struct Memory {
    control: Control,
    pools: Vec<Pool>,
    ready: Vec<Queue>,
}

impl Memory {
    fn new(agents: usize, buffers: usize, records: usize) -> Arc<Self> {
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

    fn lane(&self, agent: usize, patience: Patience) -> (LaneContext<'_, Loom>, Writer<'_, u64, View<'_>>) {
        let context = LaneContext::new(Loom, &self.control, self.ready[agent].view(), patience, 1, agent as u16);
        (context, Writer::new(Some(View { pool: &self.pools[agent], index: agent as u32 })))
    }

    /// The records of a buffer that is the host's.
    fn read(&self, pool: u32, buffer: u32, count: u32) -> Vec<u64> {
        let slots = &self.pools[pool as usize].buffers[buffer as usize].slots[..count as usize];
        // SAFETY: that nobody writes them meanwhile is what loom checks here.
        slots.iter().map(|slot| unsafe { slot.read() }).collect()
    }
}

#[derive(Clone, Copy)]
struct View<'r> {
    pool: &'r Pool,
    index: u32,
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
struct Loom;

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
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 100_000;
    builder.max_duration = Some(Duration::from_secs(60));
    builder.check(model);
}

fn stock(memory: &Memory, agents: usize) -> Drainer {
    Drainer::stock(memory, agents, agents).expect("the host has the memory mapped")
}

/// What is published and not sealed, with the counters, of a producer that has ended.
fn at_rest(memory: &Memory, drainer: &Drainer) -> (Option<Unsealed>, Counters) {
    match drainer.unsealed(memory, 0).expect("the host has the memory mapped") {
        Sweep::Settled(open, counters) => (open, counters),
        Sweep::Busy(_) => panic!("the producer has ended, and everything was drained"),
    }
}

/// Drains one buffer of an agent into `seen`; whether there was one.
fn drain_one(memory: &Memory, drainer: &mut Drainer, agent: usize, seen: &mut Vec<u64>) -> bool {
    let taken: Option<Taken> = drainer.take(memory, agent).expect("the protocol holds");
    let Some(taken) = taken else { return false };
    seen.extend(memory.read(taken.pool, taken.buffer, taken.count));
    drainer.give_back(memory, taken).expect("I1 holds");
    true
}

/// A producer that must lose nothing, and a host that drains until it has everything.
fn lossless(buffers: usize, records: usize, writes: u64) {
    explore(3, move || {
        let memory = Memory::new(1, buffers, records);
        let mut drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            (0..writes).for_each(|record| assert!(writer.push(record, &mut lane)));
            writer.release(&mut lane);
        });
        let mut seen = Vec::new();
        while (seen.len() as u64) < writes {
            if !drain_one(&memory, &mut drainer, 0, &mut seen) {
                thread::yield_now();
            }
        }
        producer.join().expect("the producer ends");
        assert_eq!(seen, (0..writes).collect::<Vec<_>>(), "nothing lost, nothing twice, in order");
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!((open, counters.published, counters.dropped), (None, writes, 0));
    });
}

#[test]
fn a_pool_of_one_buffer_of_one_record_makes_progress() {
    lossless(1, 1, 3);
}

#[test]
fn two_buffers_of_one_record_rotate() {
    lossless(2, 1, 3);
}

#[test]
fn buffers_of_two_records_and_a_partial_last_one() {
    lossless(2, 2, 5);
}

#[test]
fn one_buffer_of_two_records() {
    lossless(1, 2, 4);
}

#[test]
fn a_queue_hands_over_in_order() {
    explore(3, || {
        let queue = Arc::new(Queue::new(2));
        let other = Arc::clone(&queue);
        let producer = thread::spawn(move || {
            let mut end = Producer::attach(other.view());
            for value in 0..4 {
                while end.push(other.view(), value).is_err() {
                    thread::yield_now();
                }
            }
        });
        let mut end = Consumer::attach(queue.view());
        for expected in 0..4 {
            let value = loop {
                match end.take(queue.view()).expect("Q1 holds") {
                    Some(value) => break value,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(value, expected);
        }
        producer.join().expect("the producer ends");
    });
}

#[test]
fn policy_drop_counts_every_record_it_cannot_keep() {
    explore(3, || {
        let memory = Memory::new(1, 1, 1);
        let mut drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, DROP);
            let kept: Vec<u64> = (0..3).filter(|&record| writer.push(record, &mut lane)).collect();
            writer.release(&mut lane);
            kept
        });
        let mut seen = Vec::new();
        drain_one(&memory, &mut drainer, 0, &mut seen);
        let kept = producer.join().expect("the producer ends");
        while drain_one(&memory, &mut drainer, 0, &mut seen) {}
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!(open, None);
        assert_eq!(counters.published, seen.len() as u64, "what was published arrived");
        assert_eq!(counters.published + counters.dropped, 3, "the rest was counted");
        assert_eq!(seen, kept, "the producer knows which");
        assert!(seen.is_sorted() && seen.first() == Some(&0), "{seen:?}");
    });
}

/// Three threads are more than can be explored to the end, so this one stops after a minute.
#[test]
fn two_producers_that_both_wait_for_the_host() {
    const WRITES: [u64; 2] = [2, 1];
    explore(2, || {
        let memory = Memory::new(2, 1, 1);
        let mut drainer = stock(&memory, 2);
        let produce = |agent: usize| {
            let device = Arc::clone(&memory);
            thread::spawn(move || {
                let (mut lane, mut writer) = device.lane(agent, BLOCK);
                (0..WRITES[agent]).for_each(|record| assert!(writer.push(record, &mut lane)));
                writer.release(&mut lane);
            })
        };
        let producers = [produce(0), produce(1)];
        let mut seen = [Vec::new(), Vec::new()];
        while seen[0].len() < 2 || seen[1].is_empty() {
            let any = (0..2).filter(|&agent| drain_one(&memory, &mut drainer, agent, &mut seen[agent])).count();
            if any == 0 {
                thread::yield_now();
            }
        }
        producers.into_iter().for_each(|producer| producer.join().expect("the producer ends"));
        assert_eq!(seen, [vec![0, 1], vec![0]]);
    });
}

#[test]
fn a_buffer_can_be_read_up_to_its_count_while_it_is_written() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            (0..3).for_each(|record| assert!(writer.push(record, &mut lane)));
            // No release: the agent hangs with an unfinished buffer.
        });
        let mut seen = Vec::new();
        let (open, counters) = loop {
            while drain_one(&memory, &mut drainer, 0, &mut seen) {}
            match drainer.unsealed(&*memory, 0).expect("the host has the memory mapped") {
                Sweep::Settled(open, counters) => break (open, counters),
                Sweep::Busy(_) => thread::yield_now(),
            }
        };
        if let Some(Unsealed { buffer, count, .. }) = open {
            seen.extend(memory.read(0, buffer, count));
        }
        assert_eq!(seen, (0..counters.published).collect::<Vec<_>>(), "every published record, once");
        producer.join().expect("the producer ends");
    });
}

#[test]
fn the_end_of_the_recording_ends_every_wait() {
    explore(3, || {
        let memory = Memory::new(1, 1, 1);
        let drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        let producer = thread::spawn(move || {
            let (mut lane, mut writer) = device.lane(0, BLOCK);
            let kept = (0..3).filter(|&record| writer.push(record, &mut lane)).count();
            assert_eq!(kept, 1);
        });
        memory.control.end_recording();
        producer.join().expect("nobody waits for a host that takes nothing any more");
        let counters = match drainer.unsealed(&*memory, 0).expect("the host has the memory mapped") {
            Sweep::Settled(_, counters) | Sweep::Busy(counters) => counters,
        };
        assert_eq!((counters.published, counters.dropped), (1, 2));
    });
}

#[test]
fn a_pool_passes_from_one_owner_to_the_next() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = stock(&memory, 1);
        let device = Arc::clone(&memory);
        thread::spawn(move || {
            for owner in 0..2 {
                let (mut lane, mut writer) = device.lane(0, BLOCK);
                writer.push(owner, &mut lane);
                writer.release(&mut lane);
            }
        })
        .join()
        .expect("both owners end");
        let mut seen = Vec::new();
        while drain_one(&memory, &mut drainer, 0, &mut seen) {}
        assert_eq!(seen, [0, 1]);
    });
}

/// A core that executes tokens in order for the scheduler that owns its pool: one runs, one may wait (dual issue).
#[derive(Default)]
struct Core {
    /// Place + 1 of each dispatch, at `token % 2`, 0 if it has none; written by the scheduler.
    sent: [AtomicU64; 2],
    /// The last token that was sent.
    dispatched: AtomicU32,
    /// The last token that was finished.
    finished: AtomicU32,
}

/// A core that executes `tokens`. What it stamps each with, `stamp_of` says.
fn execute(memory: &Memory, core: &Core, tokens: u32, stamp_of: fn(u32) -> u32) {
    let view = View { pool: &memory.pools[0], index: 0 };
    for token in 1..=tokens {
        while core.dispatched.load(Ordering::Acquire) < token {
            thread::yield_now();
        }
        let place = core.sent[token as usize % 2].load(Ordering::Relaxed);
        if place != 0 {
            // SAFETY: sent for this token, and stamped once, before the token is finished.
            unsafe { stamp(view, place - 1, stamp_of(token), u64::from(token)) };
        }
        core.finished.store(token, Ordering::Release);
    }
}

/// A scheduler that dispatches `tokens` two at a time, settles what has finished, and lets go of the pool at the end.
/// Which tokens have a record.
fn schedule(memory: &Memory, core: &Core, tokens: u32, patience: Patience) -> Vec<u64> {
    let mut lane = memory.lane(0, patience).0;
    let mut reserver = Reserver::new(View { pool: &memory.pools[0], index: 0 });
    let (mut places, mut kept) = (std::collections::VecDeque::new(), Vec::new());
    let (mut next, mut done) = (1, 0);
    while done < tokens {
        if next <= tokens && next - done <= 2 {
            let reserved = match reserver.reserve(next, &mut lane) {
                Reservation::Slot(place) => Some(Some(place)),
                Reservation::Dropped => Some(None),
                Reservation::Later => None,
            };
            if let Some(place) = reserved {
                let word = place.as_ref().map_or(0, |place| place.word() + 1);
                core.sent[next as usize % 2].store(word, Ordering::Relaxed);
                core.dispatched.store(next, Ordering::Release);
                kept.extend(place.is_some().then_some(u64::from(next)));
                places.push_back(place);
                next += 1;
                continue;
            }
        }
        if core.finished.load(Ordering::Acquire) > done {
            done += 1;
            if let Some(place) = places.pop_front().expect("dispatched before it finished") {
                reserver.settle(place, &mut lane);
            }
        } else {
            thread::yield_now();
        }
    }
    assert!(reserver.release(&mut lane), "nothing is in flight");
    kept
}

/// Everything that is sealed, with the stamps that were void left out.
fn drain_good(memory: &Memory, drainer: &mut Drainer, seen: &mut Vec<u64>) -> bool {
    let Some(taken) = drainer.take(memory, 0).expect("the protocol holds") else { return false };
    let stamps = &memory.pools[0].buffers[taken.buffer as usize].stamps;
    let records = memory.read(taken.pool, taken.buffer, taken.count);
    let good = records.into_iter().zip(stamps).filter(|(_, stamp)| stamp.load(Ordering::Relaxed) != 0);
    let before = seen.len();
    seen.extend(good.map(|(record, _)| record));
    assert_eq!((seen.len() - before) as u32, taken.count - taken.void, "the header counts the void ones");
    drainer.give_back(memory, taken).expect("I1 holds");
    true
}

/// A scheduler with a core, and a host that drains at the end: there are buffers for everything.
#[test]
fn slots_of_two_tasks_at_a_time_are_published_in_order() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, 3, |token| token));
        assert_eq!(schedule(&memory, &core, 3, BLOCK), [1, 2, 3]);
        executor.join().expect("the core ends");
        let mut seen = Vec::new();
        while drain_good(&memory, &mut drainer, &mut seen) {}
        assert_eq!(seen, [1, 2, 3]);
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!((open, counters.published, counters.mismatch, counters.dropped), (None, 3, 0, 0));
    });
}

/// One buffer, which is full before the host has had it: the scheduler goes on completing, and nothing is lost.
fn one_buffer(records: usize, tokens: u32) {
    explore(2, move || {
        let memory = Memory::new(1, 1, records);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, tokens, |token| token));
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let scheduler = thread::spawn(move || schedule(&device, &other, tokens, BLOCK));
        let mut seen = Vec::new();
        while seen.len() < tokens as usize {
            if !drain_good(&memory, &mut drainer, &mut seen) {
                thread::yield_now();
            }
        }
        let all: Vec<u64> = (1..=tokens.into()).collect();
        assert_eq!(scheduler.join().expect("the scheduler ends"), all);
        executor.join().expect("the core ends");
        assert_eq!(seen, all);
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!((open, counters.published, counters.dropped), (None, u64::from(tokens), 0));
    });
}

#[test]
fn one_buffer_of_one_slot_is_reserved_again_and_again() {
    one_buffer(1, 2);
}

#[test]
fn one_buffer_of_two_slots_is_reserved_by_two_tasks_at_a_time() {
    one_buffer(2, 3);
}

#[test]
fn a_reservation_under_policy_drop_is_dropped_and_counted_and_its_task_runs() {
    explore(3, || {
        let memory = Memory::new(1, 1, 1);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, 3, |token| token));
        let kept = schedule(&memory, &core, 3, DROP);
        executor.join().expect("the core ends");
        let mut seen = Vec::new();
        while drain_good(&memory, &mut drainer, &mut seen) {}
        let (_, counters) = at_rest(&memory, &drainer);
        assert_eq!((seen, kept.clone()), (vec![1], kept));
        assert_eq!((counters.published, counters.dropped, counters.mismatch), (1, 2, 0));
    });
}

#[test]
fn a_slot_with_a_wrong_stamp_keeps_its_place_and_is_void() {
    explore(3, || {
        let memory = Memory::new(1, 1, 3);
        let mut drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let wrong = |token| if token == 2 { 7 } else { token };
        let executor = thread::spawn(move || execute(&device, &other, 3, wrong));
        schedule(&memory, &core, 3, BLOCK);
        executor.join().expect("the core ends");
        let mut seen = Vec::new();
        while drain_good(&memory, &mut drainer, &mut seen) {}
        let (_, counters) = at_rest(&memory, &drainer);
        assert_eq!((seen, counters.published, counters.mismatch), (vec![1, 3], 2, 1));
    });
}

/// A core hangs: its slot is in flight for ever. What was published before it can be read, and the pool stays its owner's.
#[test]
fn a_slot_in_flight_is_neither_sealed_nor_read() {
    explore(3, || {
        let memory = Memory::new(1, 2, 2);
        let drainer = stock(&memory, 1);
        let core = Arc::new(Core::default());
        let (device, other) = (Arc::clone(&memory), Arc::clone(&core));
        let executor = thread::spawn(move || execute(&device, &other, 1, |token| token));
        let mut lane = memory.lane(0, BLOCK).0;
        let mut reserver = Reserver::new(View { pool: &memory.pools[0], index: 0 });
        let mut reserve = |token, lane: &mut _| match reserver.reserve(token, lane) {
            Reservation::Slot(place) => place,
            other => panic!("{other:?}"),
        };
        let (first, _second) = (reserve(1, &mut lane), reserve(2, &mut lane));
        assert_eq!(reserver.reserve(3, &mut lane), Reservation::Later, "full, and not settled");
        core.sent[1].store(first.word() + 1, Ordering::Relaxed);
        core.dispatched.store(1, Ordering::Release);
        while core.finished.load(Ordering::Acquire) < 1 {
            thread::yield_now();
        }
        assert!(reserver.settle(first, &mut lane));
        assert!(!reserver.release(&mut lane) && reserver.in_flight() == 1);
        executor.join().expect("the core ends");
        let (open, counters) = at_rest(&memory, &drainer);
        let open = open.expect("one record is published");
        assert_eq!((memory.read(0, open.buffer, open.count), counters.published), (vec![1], 1));
    });
}

/// One thread executes a task and another looks twice: what is told is whole words of that line, counts never go back, and
/// once the writer has ended the look is exact (B1, B2).
#[test]
fn a_look_at_the_board_sees_whole_words_and_never_an_earlier_count() {
    use plimsoll_abi::board::Activity;
    use plimsoll_abi::{AgentId, TaskId};
    use plimsoll_shm::Board;
    const TASK: TaskId = TaskId::new(1, 7);
    explore(1, || {
        let board = Arc::new(Board::new(1, 0));
        let writer = {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                let line = board.agent(AgentId(0));
                line.begin(TASK.raw(), 3);
                line.end();
                line.set(Activity::Idle);
            })
        };
        let line = board.agent(AgentId(0));
        let (one, two) = (line.look(), line.look());
        for look in [one, two] {
            assert!([0, TASK.raw()].contains(&look.task) && [0, 3].contains(&look.kernel), "B2: {look:?}");
            assert!(look.begun <= 1 && look.ended <= 1, "B2: {look:?}");
        }
        assert!(one.begun <= two.begun && one.ended <= two.ended, "B1: {one:?}, then {two:?}");
        writer.join().unwrap();
        let last = line.look();
        assert_eq!((last.begun, last.ended, last.kernel, last.running()), (1, 1, 3, None));
        assert_eq!((last.task, last.activity()), (TASK.raw(), Activity::Idle));
    });
}

/// A core that executes `tokens` and stages a record of each. What it stages each with, `stamp_of` says.
fn execute_staged(ring: &StagingRing, core: &Core, tokens: u32, stamp_of: fn(u32) -> u32) {
    for token in 1..=tokens {
        while core.dispatched.load(Ordering::Acquire) < token {
            thread::yield_now();
        }
        ring.stage(token, stamp_of(token), &(u64::from(token) * 10));
        core.finished.store(token, Ordering::Release);
    }
}

/// A scheduler that dispatches `tokens` two at a time (dual issue) and commits what was staged for each that has finished.
fn commit_staged(memory: &Memory, ring: &StagingRing, core: &Core, tokens: u32) -> Vec<bool> {
    let (mut lane, mut writer) = memory.lane(0, BLOCK);
    let (mut next, mut committed) = (1, Vec::new());
    while (committed.len() as u32) < tokens {
        let done = committed.len() as u32;
        if next <= tokens && next - done <= 2 {
            core.dispatched.store(next, Ordering::Release);
            next += 1;
        } else if core.finished.load(Ordering::Acquire) > done {
            committed.push(ring.commit(done + 1, &mut writer, &mut lane));
        } else {
            thread::yield_now();
        }
    }
    writer.release(&mut lane);
    committed
}

/// What is drained of three tokens that a core staged, the third in the slot of the first, with what was committed and the counters.
fn staged(stamp_of: fn(u32) -> u32, records: usize, check: fn(Vec<u64>, u32, Vec<bool>, Counters)) {
    explore(2, move || {
        let memory = Memory::new(1, 3, records);
        let mut drainer = stock(&memory, 1);
        let (ring, core) = (Arc::new(StagingRing::default()), Arc::new(Core::default()));
        let (own_ring, own_core) = (Arc::clone(&ring), Arc::clone(&core));
        let executor = thread::spawn(move || execute_staged(&own_ring, &own_core, 3, stamp_of));
        let committed = commit_staged(&memory, &ring, &core, 3);
        executor.join().expect("the core ends");
        let (mut seen, mut void) = (Vec::new(), 0);
        while let Some(taken) = drainer.take(&*memory, 0).expect("the protocol holds") {
            seen.extend(memory.read(taken.pool, taken.buffer, taken.count));
            void += taken.void;
            drainer.give_back(&*memory, taken).expect("I1 holds");
        }
        let (open, counters) = at_rest(&memory, &drainer);
        assert_eq!(open, None, "the writer let go of its pool");
        check(seen, void, committed, counters);
    });
}

#[test]
fn what_a_core_stages_is_committed_with_its_own_token() {
    for records in [1, 3] {
        staged(
            |token| token,
            records,
            |seen, void, committed, counters| {
                assert_eq!((seen, void, committed), (vec![10, 20, 30], 0, vec![true; 3]));
                assert_eq!((counters.published, counters.mismatch, counters.dropped), (3, 0, 0));
            },
        );
    }
}

#[test]
fn a_wrong_token_in_the_ring_is_a_mismatch_and_not_in_the_data() {
    staged(
        |token| if token == 2 { 7 } else { token },
        2,
        |seen, void, committed, counters| {
            assert_eq!((seen, void), (vec![10, 0, 30], 1), "the void one keeps its place and is empty");
            assert_eq!(committed, [true, false, true]);
            assert_eq!((counters.published, counters.mismatch, counters.dropped), (2, 1, 0));
        },
    );
}
