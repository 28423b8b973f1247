//! Every interleaving of the scheduler's protocols, at capacities of one to four: the hand-over from producers to
//! consumers, the queue of ready tasks, the watermark of completed ones, and sleeping.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-sched --release --test loom`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use plimsoll_abi::{AgentId, RINGS};
use plimsoll_platform::{Parker, Patience, Platform, Work};
use plimsoll_sched::done::Done;
use plimsoll_sched::ready::ReadyQueue;
use plimsoll_sched::sleep::Sleep;
use plimsoll_sched::slot::{DepNode, Slot, SlotRef};

/// Three preemptions find what is wrong with two-word protocols; without a bound the models do not end.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(body);
}

fn join<T>(threads: impl IntoIterator<Item = thread::JoinHandle<T>>) {
    for thread in threads {
        thread.join().expect("a thread of the model ended well");
    }
}

/// What a task writes: loom complains if it is looked at without having been made visible.
struct Datum(UnsafeCell<u32>);

// SAFETY: whether it is reached by one thread at a time is what loom checks.
unsafe impl Sync for Datum {}

impl Datum {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn write(&self, value: u32) {
        // SAFETY: loom reports any access that is not ordered with this one.
        self.0.with_mut(|at| unsafe { *at = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|at| unsafe { *at })
    }
}

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
                shared.0.count(agent, 0, agent);
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
                shared.0.count(agent, 0, agent);
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
                    done.count(agent, 0, 0);
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

/// A world of threads that sleep, in which both barriers are full fences: what the two of a real machine amount to.
struct Sleepers(Vec<Parker>);

#[derive(Clone)]
struct Clockless;

impl plimsoll_shm::World for Clockless {
    fn ticks(&self) -> u64 {
        0
    }
    fn wait_for_host(&self, _: u32) {}
    fn notify_host(&self) {}
}

impl Platform for Sleepers {
    type World = Clockless;
    fn world(&self, _: AgentId) -> Clockless {
        Clockless
    }
    fn relax(&self, _: AgentId, _: u32) -> Patience {
        Patience::Park
    }
    fn park(&self, agent: AgentId) {
        self.0[agent.index()].park();
    }
    fn unpark(&self, agent: AgentId) {
        self.0[agent.index()].unpark();
    }
    fn heavy_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn light_barrier(&self) {
        fence(Ordering::SeqCst);
    }
    fn charge(&self, _: AgentId, _: Work) {}
    fn charge_kernel(&self, _: AgentId, _: u32, _: impl FnOnce() -> u64) {}
}

/// Agents that sleep while the queue is empty, until the run closes. A lost wake-up is a deadlock, which loom reports.
struct Crew {
    platform: Sleepers,
    sleep: Sleep,
    queue: ReadyQueue,
    done: AtomicU64,
    closing: AtomicBool,
}

const ORCHESTRATOR: AgentId = AgentId(0);

impl Crew {
    fn new(agents: usize) -> Arc<Self> {
        Arc::new(Self {
            platform: Sleepers((0..agents).map(|_| Parker::default()).collect()),
            sleep: Sleep::new(agents),
            queue: ReadyQueue::new(2).expect("memory"),
            done: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        })
    }

    fn publish(&self, item: u32) {
        self.queue.push(item);
        self.sleep.published(&self.platform);
    }

    fn complete(&self) {
        self.done.fetch_add(1, Ordering::Release);
        self.sleep.completed(&self.platform, ORCHESTRATOR);
    }

    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.sleep.wake_all(&self.platform);
    }

    /// What an agent does until it has executed `most` tasks or the run closes.
    fn work(&self, agent: AgentId, most: u64) {
        let mut executed = 0;
        while executed < most {
            if self.queue.take().is_some() {
                executed += 1;
                self.complete();
            } else if self.closing.load(Ordering::Acquire) {
                return;
            } else {
                let look = || self.closing.load(Ordering::Acquire) || !self.queue.is_empty();
                self.sleep.sleep(&self.platform, agent, look);
            }
        }
    }

    /// The orchestrator waits for completions, as `Agent::await_progress` does.
    fn await_done(&self, tasks: u64) {
        loop {
            let seen = self.done.load(Ordering::Acquire);
            if seen == tasks {
                return;
            }
            self.sleep.watch(true);
            self.sleep.sleep(&self.platform, ORCHESTRATOR, || self.done.load(Ordering::Acquire) != seen);
            self.sleep.watch(false);
        }
    }
}

#[test]
fn published_work_wakes_a_sleeper() {
    model(3, || {
        let crew = Crew::new(2);
        let worker = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(AgentId(1), 2))
        };
        crew.publish(1);
        crew.publish(2);
        join([worker]);
        assert!(!crew.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// A wake-up may come late, when its sleeper has gone to sleep again, and the next one right behind it.
#[test]
fn completions_one_after_the_other_wake_the_orchestrator() {
    model(3, || {
        let crew = Crew::new(1);
        let agent = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || (0..3).for_each(|_| crew.complete()))
        };
        crew.await_done(3);
        join([agent]);
    });
}

#[test]
fn a_completion_wakes_the_orchestrator() {
    model(3, || {
        let crew = Crew::new(2);
        let worker = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.complete())
        };
        crew.await_done(1);
        join([worker]);
        assert!(!crew.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

#[test]
fn closing_wakes_every_sleeper() {
    model(3, || {
        let crew = Crew::new(3);
        let workers = [1, 2].map(|agent| {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(AgentId(agent), u64::MAX))
        });
        crew.close();
        join(workers);
        assert!(!crew.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// Work is published, waited for, and the run closes.
#[test]
fn a_run_ends() {
    model(3, || {
        let crew = Crew::new(2);
        let worker = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(AgentId(1), u64::MAX))
        };
        crew.publish(1);
        crew.await_done(1);
        crew.close();
        join([worker]);
        assert!(!crew.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// The last agent on the lookout goes to sleep while light work is published, which calls nobody as long as somebody is on
/// the lookout: one of the two notices the other.
#[test]
fn light_work_is_not_left_behind_by_the_last_lookout() {
    model(3, || {
        let crew = Crew::new(2);
        let worker = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || {
                crew.sleep.begin_lookout();
                while crew.queue.take().is_none() {
                    crew.sleep.end_lookout();
                    crew.sleep.sleep(&crew.platform, AgentId(1), || !crew.queue.is_empty());
                    crew.sleep.begin_lookout();
                }
                crew.sleep.end_lookout();
            })
        };
        crew.queue.push(1);
        crew.sleep.published_light(&crew.platform);
        join([worker]);
        assert!(!crew.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}

/// Of two on the lookout one stays, whoever goes first; what it then finds, it finds without a call.
#[test]
fn one_of_two_lookouts_stays() {
    model(2, || {
        let crew = Crew::new(3);
        crew.sleep.begin_lookout();
        crew.sleep.begin_lookout();
        let leave = |crew: &Arc<Crew>| {
            let crew = Arc::clone(crew);
            thread::spawn(move || crew.sleep.leave_lookout_to_others())
        };
        let (one, other) = (leave(&crew), leave(&crew));
        let left = [one, other].map(|thread| thread.join().expect("a thread of the model ended well"));
        assert_ne!(left[0], left[1], "exactly one leaves");
        assert!(crew.sleep.end_lookout(), "the other was the last");
    });
}

/// Whoever is awake runs what is published, and a wake-up that goes to a worker who has nothing left to do harms nobody.
#[test]
fn two_sleepers_share_the_work() {
    model(2, || {
        let crew = Crew::new(3);
        let workers = [1, 2].map(|agent| {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(AgentId(agent), u64::MAX))
        });
        crew.publish(1);
        crew.await_done(1);
        crew.close();
        join(workers);
        assert!(!crew.sleep.anyone(), "S1: every sleeper is taken off the count");
    });
}
