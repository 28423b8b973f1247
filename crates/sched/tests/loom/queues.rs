//! Interleavings, up to a bound of preemptions, of the scheduler's protocols, at capacities of one to four: the hand-over from producers to
//! consumers, the queue of ready tasks and the watermark of completed ones. Whole agents are in `agents.rs`.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-sched --release --test loom queues`.

use crate::model::{Datum, join, model};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use plimsoll_abi::RINGS;
use plimsoll_sched::done::Done;
use plimsoll_sched::ready::ReadyQueue;
use plimsoll_sched::slot::{DepNode, Slot, SlotRef};

/// Producers, consumers and dependency entries, as the rings hold them.
struct Tasks {
    producers: Vec<(Slot, Datum)>,
    consumers: Vec<(Slot, AtomicU32)>,
    nodes: Vec<DepNode>,
}

impl Tasks {
    fn new(producers: usize, consumers: usize) -> Arc<Self> {
        Arc::new(Self {
            producers: (0..producers).map(|_| (Slot::default(), Datum::new())).collect(),
            consumers: (0..consumers).map(|_| (Slot::default(), AtomicU32::new(0))).collect(),
            nodes: (0..producers * consumers).map(|_| DepNode::new(0)).collect(),
        })
    }

    /// The orchestrator's half: links `consumer` to every producer, as `Submitter::link` does.
    fn link(&self, consumer: usize) {
        let count = self.producers.len();
        let slot = &self.consumers[consumer].0;
        slot.pending.store(count as u32, Ordering::Relaxed);
        let mut refused = 0;
        for (k, (producer, _)) in self.producers.iter().enumerate() {
            let node = SlotRef::new(0, (consumer * count + k) as u32);
            let pushed = producer.fan_out.push(SlotRef::new(0, consumer as u32), || (node, &self.nodes[node.index()]));
            refused += u32::from(!pushed);
        }
        if refused > 0 && slot.take_back(refused) {
            self.ready(consumer);
        }
    }

    /// An agent's half: executes a producer and releases those that wait for it, as `Agent::complete` does.
    fn execute(&self, producer: usize) {
        let (slot, datum) = &self.producers[producer];
        datum.write(producer as u32 + 1);
        slot.fan_out.close(
            |node| &self.nodes[node.index()],
            |consumer| {
                if self.consumers[consumer.index()].0.release_one() {
                    self.ready(consumer.index());
                }
            },
        );
    }

    /// Whoever finds a task ready may run it: it reads what all its producers wrote.
    fn ready(&self, consumer: usize) {
        for (at, (_, datum)) in self.producers.iter().enumerate() {
            assert_eq!(datum.read(), at as u32 + 1, "a consumer sees what its producers wrote");
        }
        let before = self.consumers[consumer].1.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "a consumer is released once");
    }

    fn assert_all_released(&self) {
        for (_, released) in &self.consumers {
            assert_eq!(released.load(Ordering::Relaxed), 1, "no consumer is forgotten");
        }
    }
}

#[test]
fn a_consumer_of_two_producers_is_released_once() {
    model(3, || {
        let tasks = Tasks::new(2, 1);
        let agents: Vec<_> = (0..2)
            .map(|producer| {
                let tasks = Arc::clone(&tasks);
                thread::spawn(move || tasks.execute(producer))
            })
            .collect();
        tasks.link(0);
        join(agents);
        tasks.assert_all_released();
    });
}

#[test]
fn every_consumer_of_a_producer_is_released_once() {
    model(3, || {
        let tasks = Tasks::new(1, 3);
        let agent = {
            let tasks = Arc::clone(&tasks);
            thread::spawn(move || tasks.execute(0))
        };
        (0..3).for_each(|consumer| tasks.link(consumer));
        join([agent]);
        tasks.assert_all_released();
    });
}

#[test]
fn consumers_of_two_producers_that_share_them_are_released_once() {
    model(3, || {
        let tasks = Tasks::new(2, 2);
        let agents: Vec<_> = (0..2)
            .map(|producer| {
                let tasks = Arc::clone(&tasks);
                thread::spawn(move || tasks.execute(producer))
            })
            .collect();
        (0..2).for_each(|consumer| tasks.link(consumer));
        join(agents);
        tasks.assert_all_released();
    });
}

/// A ready queue whose items are written by the owner and looked at by whoever takes them.
struct Ready {
    queue: ReadyQueue,
    slots: Vec<Datum>,
    taken: Vec<AtomicU32>,
}

impl Ready {
    fn new(capacity: usize, items: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: ReadyQueue::new(capacity).expect("memory"),
            slots: (0..items).map(|_| Datum::new()).collect(),
            taken: (0..items).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    fn push(&self, item: usize) {
        self.slots[item].write(item as u32 + 1);
        self.queue.push(item as u32);
    }

    fn got(&self, item: u32) {
        assert_eq!(self.slots[item as usize].read(), item + 1, "whoever takes a task sees its slot");
        assert_eq!(self.taken[item as usize].fetch_add(1, Ordering::AcqRel), 0, "a task is taken once");
    }

    fn take(&self) -> bool {
        self.queue.take().inspect(|&item| self.got(item)).is_some()
    }

    fn take_half(&self, most: u64) -> bool {
        self.queue.take_half(most, |item| self.got(item)).inspect(|&item| self.got(item)).is_some()
    }

    fn assert_nothing_lost(&self) {
        while self.take() {}
        assert!(self.queue.is_empty());
        for taken in &self.taken {
            assert_eq!(taken.load(Ordering::Relaxed), 1, "no task is lost");
        }
    }
}

#[test]
fn a_ready_task_is_taken_once_by_owner_or_thieves() {
    model(3, || {
        let ready = Ready::new(4, 3);
        let one = {
            let ready = Arc::clone(&ready);
            thread::spawn(move || ready.take())
        };
        let half = {
            let ready = Arc::clone(&ready);
            thread::spawn(move || ready.take_half(4))
        };
        (0..3).for_each(|item| ready.push(item));
        ready.take();
        join([one, half]);
        ready.assert_nothing_lost();
    });
}

/// The queue is as large as the tasks in flight: its places are used again while slow takers still look at them.
#[test]
fn a_taker_that_was_overtaken_by_a_whole_lap_takes_nothing_wrong() {
    model(2, || {
        let ready = Ready::new(2, 4);
        (0..2).for_each(|item| ready.push(item));
        let takers = [0, 1].map(|taker| {
            let ready = Arc::clone(&ready);
            thread::spawn(move || if taker == 0 { ready.take() } else { ready.take_half(2) })
        });
        for item in 2..4 {
            // A task that left the queue makes room for the next, as a completed one does in its ring.
            let room = ready.queue.len() < 2 || ready.take() || ready.queue.len() < 2;
            assert!(room, "a take that finds nothing leaves room");
            ready.push(item);
        }
        join(takers);
        ready.assert_nothing_lost();
    });
}

/// Windows of which ring 0 has chunks of two slots.
const WINDOWS: [usize; RINGS] = [16, 1, 1, 1];

/// The orchestrator looks from a thread that is started last: loom tries other orders from an execution in which the
/// counts were stored before they were read, not from one in which they were not.
#[test]
fn a_counted_slot_is_the_orchestrators_again() {
    model(3, || {
        let shared = Arc::new((Done::new(2, &WINDOWS), [Datum::new(), Datum::new()]));
        assert_eq!(shared.0.shift(0), 1, "slots 0 and 1 are one chunk");
        let agents = [0, 1].map(|agent| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1[agent].write(1);
                shared.0.lane(agent).count(0, agent);
            })
        });
        let orchestrator = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (done, slots) = &*shared;
                if done.in_chunk(0, 0) == 2 {
                    slots.iter().for_each(|slot| slot.write(2));
                }
            })
        };
        join(agents);
        join([orchestrator]);
        let done = &shared.0;
        assert_eq!((done.in_chunk(0, 0), done.total(), done.by(0), done.by(1)), (2, 2, 1, 1));
    });
}

#[test]
fn when_the_totals_add_up_every_slot_is_the_orchestrators() {
    model(3, || {
        let shared = Arc::new((Done::new(2, &WINDOWS), [Datum::new(), Datum::new()]));
        let agents = [0, 1].map(|agent| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1[agent].write(1);
                shared.0.lane(agent).count(0, agent);
            })
        });
        let orchestrator = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (done, slots) = &*shared;
                if done.total() == 2 {
                    assert_eq!(done.in_chunk(0, 0), 2, "D3: the watermark follows");
                    slots.iter().for_each(|slot| slot.write(2));
                }
            })
        };
        join(agents);
        join([orchestrator]);
    });
}

/// The slot is issued again once its count says so, and its next task comes after the orchestrator's writes.
#[test]
fn a_slot_is_issued_again_after_it_was_counted() {
    model(3, || {
        let shared = Arc::new((Done::new(2, &[1; RINGS]), Datum::new(), AtomicU32::new(1)));
        // Takes the task that was issued last, unless the other agent has it.
        let agent = |agent: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (done, slot, issued) = &*shared;
                let lap = issued.swap(0, Ordering::AcqRel);
                if lap != 0 {
                    assert!(lap == 1 || slot.read() == 10, "lap 2 begins after the orchestrator wrote the slot");
                    slot.write(lap);
                    done.lane(agent).count(0, 0);
                }
            })
        };
        let first = agent(0);
        let orchestrator = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (done, slot, issued) = &*shared;
                if done.in_chunk(0, 0) == 1 {
                    slot.write(10);
                    issued.store(2, Ordering::Release);
                }
            })
        };
        let second = agent(1);
        join([first, orchestrator, second]);
        let counted = shared.0.in_chunk(0, 0);
        assert!((1..=2).contains(&counted));
        assert_eq!(u64::from(counted), shared.0.total());
    });
}
