//! What a round trip through a mailbox takes, beside the least that two threads can do: for `plimsoll bench mailbox`.

use crate::core_threads::CoreThreads;
use crate::policy::sleep::Sleep;
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_platform::ports::{CoreSide, Order, Ports, Times};
use plimsoll_platform::{Host, Platform};
use plimsoll_shm::ReservedSlot;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Looks after which whoever waits lets others have the CPU: there may be only one.
const LOOKS: u32 = 1 << 14;

/// The least of all blocks, in nanoseconds of one trip.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    /// Two threads that answer each other over one cache line.
    pub floor_ns: f64,
    /// An order to a core, and its receipt: dispatch, core, completion seen.
    pub mailbox_ns: f64,
}

/// Two words of one cache line.
#[repr(align(64))]
#[derive(Default)]
struct PingPong {
    ping: AtomicU32,
    pong: AtomicU32,
}

/// A core that has nothing to compute, and tells its scheduler as every core does.
struct EmptyKernels {
    sleep: Sleep,
    platform: Host,
}

impl CoreSide for EmptyKernels {
    unsafe fn execute(&self, _: CoreId, _: &Order) -> bool {
        true
    }

    unsafe fn stamp(&self, _: CoreId, _: &Order, _: &Times) {}

    fn report(&self, owner: AgentId) {
        self.platform.light_barrier();
        self.sleep.wake(&self.platform, owner);
    }
}

/// Measures `blocks` of `trips` each, of both kinds in turns.
pub fn round_trips(blocks: u32, trips: u32) -> RoundTrips {
    let owner = AgentId(0);
    let cores = CoreThreads::new(Host::new(1), &[owner], 1);
    let side = EmptyKernels { sleep: Sleep::new(1), platform: Host::new(1) };
    let mut least = RoundTrips { floor_ns: f64::MAX, mailbox_ns: f64::MAX };
    std::thread::scope(|scope| {
        scope.spawn(|| cores.serve(CoreId(0), 0, &side));
        wait_until(|| cores.have_reported(owner));
        cores.configure(owner, |_| 0);
        let mut token = 0;
        for _ in 0..blocks {
            least.floor_ns = least.floor_ns.min(ping_pong(trips));
            // The first one wakes the core, which slept meanwhile, and is not counted.
            trip(&cores, owner, &mut token);
            let began = Instant::now();
            (0..trips).for_each(|_| trip(&cores, owner, &mut token));
            least.mailbox_ns = least.mailbox_ns.min(per_trip(began, trips));
        }
        cores.dismiss(owner);
        wait_until(|| cores.have_left(owner));
    });
    least
}

fn trip(cores: &CoreThreads<Host>, owner: AgentId, token: &mut u32) {
    *token = token.wrapping_add(1);
    let order = Order { token: *token, word: 0, execution: 0, pipes: Order::NO_PIPES, place: ReservedSlot::NONE };
    cores.dispatch(CoreId(0), order, 0, || 0);
    wait_until(|| cores.collect(owner).is_some());
}

/// One block of the floor.
fn ping_pong(trips: u32) -> f64 {
    let line = PingPong::default();
    let mut ns = 0.0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 1..=trips + 1 {
                // Acquire pairs(bench.ping): the other thread's store.
                wait_until(|| line.ping.load(Ordering::Acquire) == trip);
                // Release pairs(bench.pong).
                line.pong.store(trip, Ordering::Release);
            }
        });
        let play = |trip: u32| {
            // Release pairs(bench.ping).
            line.ping.store(trip, Ordering::Release);
            // Acquire pairs(bench.pong): the other thread's store.
            wait_until(|| line.pong.load(Ordering::Acquire) == trip);
        };
        // The first one waits for the thread to start.
        play(1);
        let began = Instant::now();
        (2..=trips + 1).for_each(play);
        ns = per_trip(began, trips);
    });
    ns
}

fn per_trip(began: Instant, trips: u32) -> f64 {
    began.elapsed().as_nanos() as f64 / f64::from(trips.max(1))
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let mut looks = 0u32;
    while !done() {
        looks += 1;
        if looks.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
