//! The loop by itself: who goes on when, and what happens when nobody can.

use super::*;
use crate::arch::ArchSpec;
use crate::ports::{CoreSide, Order, Ports, Times};
use crate::{Platform, Work};
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_shm::{ReservedSlot, World};
use std::rc::Rc;

struct NoCores;

impl CoreSide for NoCores {
    unsafe fn execute(&self, _: CoreId, _: &Order) -> bool {
        true
    }
    unsafe fn stamp(&self, _: CoreId, _: &Order, _: &Times) {}
    fn report(&self, _: AgentId) {}
}

const COSTS: Costs = Costs {
    submit_ns: 10,
    dispatch_ns: 3,
    complete_ns: 0,
    handover_ns: 5,
    wake_ns: 2,
    collect_ns: 100,
    kernel_ns: 50,
    element_ps: 0,
};

fn platform(agents: usize, seed: u64, faults: Faults) -> Virtual {
    Virtual::new(&ArchSpec { costs: COSTS, ..ArchSpec::HOST }, agents, seed, faults)
}

type Log = Rc<RefCell<Vec<(usize, u64)>>>;

fn body<'a>(run: impl FnOnce() + 'a) -> Body<'a> {
    Body { stack_bytes: 64 << 10, run: Box::new(run) }
}

/// Agents that each work three times 10 ns, and note when.
fn three_steps(agents: usize, seed: u64) -> Vec<(usize, u64)> {
    let platform = platform(agents, seed, Faults::default());
    let log = Log::default();
    let bodies = (0..agents).map(|at| {
        let (platform, log) = (&platform, Rc::clone(&log));
        body(move || {
            for _ in 0..3 {
                platform.charge(AgentId(at as u16), Work::Submit);
                log.borrow_mut().push((at, platform.now_ns()));
            }
        })
    });
    platform.run(bodies.collect(), None, Vec::new(), &NoCores, |_| {}).expect("stacks");
    log.take()
}

#[test]
fn time_is_what_was_charged_and_ties_are_the_seeds() {
    let log = three_steps(4, 1);
    let times: Vec<u64> = log.iter().map(|&(_, at)| at).collect();
    assert_eq!(times, [[10; 4], [20; 4], [30; 4]].concat());
    assert_eq!(log, three_steps(4, 1));
    assert!((2..20).any(|seed| three_steps(4, seed) != log));
}

#[test]
fn a_wake_up_is_kept_and_takes_its_time() {
    let platform = platform(2, 1, Faults::default());
    let log = Log::default();
    let sleeper = body(|| {
        platform.park(AgentId(0));
        log.borrow_mut().push((0, platform.now_ns()));
        platform.charge(AgentId(0), Work::Submit);
        // The second wake-up came while it worked.
        platform.park(AgentId(0));
        log.borrow_mut().push((0, platform.now_ns()));
    });
    let waker = body(|| {
        platform.charge(AgentId(1), Work::Submit);
        platform.unpark(AgentId(0));
        platform.charge(AgentId(1), Work::Dispatch);
        platform.unpark(AgentId(0));
    });
    platform.run(vec![sleeper, waker], None, Vec::new(), &NoCores, |_| {}).expect("stacks");
    assert_eq!(*log.borrow(), [(0, 12), (0, 22)]);
}

#[test]
fn nobody_can_go_on_is_told_and_then_a_panic() {
    let platform = platform(1, 1, Faults::default());
    let moments = std::cell::RefCell::new(Vec::new());
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let sleeper = body(|| platform.park(AgentId(0)));
        platform
            .run(vec![sleeper], None, Vec::new(), &NoCores, |moment| moments.borrow_mut().push(moment))
            .expect("stacks");
    }));
    let panic = ended.expect_err("a lost wake-up");
    assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("task 0 is Parked")));
    assert!(moments.into_inner().ends_with(&[WatchReason::Stuck, WatchReason::Broken]));
    // The next run is as good as any.
    platform.run(vec![body(|| {})], None, Vec::new(), &NoCores, |_| {}).expect("stacks");
}

#[test]
fn a_paused_agent_goes_on_when_its_pause_ends() {
    let pause = Pause { who: Who::Agent(0), from_ns: 5, to_ns: 500 };
    let platform = platform(1, 1, Faults { pauses: vec![pause], ..Faults::default() });
    let worker = body(|| platform.charge(AgentId(0), Work::Submit));
    platform.run(vec![worker], None, Vec::new(), &NoCores, |_| {}).expect("stacks");
    assert_eq!(platform.now_ns(), 500);
}

#[test]
fn a_producer_waits_for_the_collector_no_longer_than_it_must() {
    let platform = platform(1, 1, Faults::default());
    let world = platform.recorder_world();
    let full = Cell::new(true);
    let producer = body(|| {
        world.notify_host();
        let mut step = 0;
        while full.get() {
            world.wait_for_host(step);
            step += 1;
        }
    });
    let collector = body(|| platform.serve_recorder(|| usize::from(full.replace(false))));
    platform.run(vec![producer, collector], Some(1), Vec::new(), &NoCores, |_| {}).expect("stacks");
    // The drain takes 100 ns, and the wake-up 2; the collector may have started first.
    assert!((0..=104).contains(&platform.now_ns()), "{}", platform.now_ns());
}

#[test]
fn a_kernel_that_never_ends_is_on_its_core_since_it_started() {
    let arch = ArchSpec { clusters: 1, sched_threads: 1, costs: COSTS, counter_hz: 2_000_000_000, ..ArchSpec::A2A3 };
    let platform = Virtual::new(&arch, 2, 1, Faults::default());
    let order = Order { token: 7, word: 3, execution: 0, pipes: Order::NO_PIPES, place: ReservedSlot::NONE };
    let seen = RefCell::default();
    let scheduler = body(|| {
        platform.dispatch(CoreId(1), order, 0, || 0);
        *seen.borrow_mut() = platform.on_cores();
    });
    platform.run(vec![body(|| {}), scheduler], None, vec![KernelCost::Never], &NoCores, |_| {}).expect("stacks");
    let since = 2 * COSTS.handover_ns;
    assert_eq!(seen.take(), [OnCore { core: CoreId(1), word: 3, token: 7, since }]);
}

#[test]
fn cores_hand_back_what_they_were_given_in_order() {
    struct Reports<'p>(&'p Virtual, RefCell<Vec<(u64, u64, u64)>>);
    impl CoreSide for Reports<'_> {
        unsafe fn execute(&self, _: CoreId, order: &Order) -> bool {
            order.word != 2
        }
        unsafe fn stamp(&self, _: CoreId, _: &Order, times: &Times) {
            self.1.borrow_mut().push((times.receive, times.start, times.end));
        }
        fn report(&self, owner: AgentId) {
            self.0.unpark(owner);
        }
    }
    let arch = ArchSpec { clusters: 1, sched_threads: 1, costs: COSTS, counter_hz: 1_000_000_000, ..ArchSpec::A2A3 };
    let platform = Virtual::new(&arch, 2, 1, Faults::default());
    let receipts = RefCell::new(Vec::new());
    let scheduler = body(|| {
        for word in [1, 2] {
            platform.dispatch(
                CoreId(0),
                Order { token: word, word, execution: 0, pipes: Order::NO_PIPES, place: 0 },
                0,
                || 0,
            );
        }
        while receipts.borrow().len() < 2 {
            match platform.collect(AgentId(1)) {
                Some(receipt) => receipts.borrow_mut().push((receipt, platform.now_ns())),
                None => platform.park(AgentId(1)),
            }
        }
    });
    let cores = Reports(&platform, RefCell::default());
    platform.run(vec![body(|| {}), scheduler], None, Vec::new(), &cores, |_| {}).expect("stacks");
    let seen: Vec<_> = receipts.borrow().iter().map(|(r, at)| (r.succeeded, r.busy, *at)).collect();
    assert_eq!(seen, [(true, 50, 60), (false, 50, 110)]);
    assert_eq!(cores.1.take(), [(5, 5, 55), (5, 55, 105)], "each was stamped");
}

#[test]
fn a_kernel_that_asks_to_wait_is_refused() {
    let platform = platform(1, 1, Faults::default());
    let worker = body(|| {
        platform.kernel_begins(0);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| platform.park(AgentId(0))));
        platform.kernel_ends();
        let panic = refused.expect_err("it would wait for ever");
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        assert!(text.contains("run to completion one at a time"), "{text}");
    });
    platform.run(vec![worker], None, Vec::new(), &NoCores, |_| {}).expect("stacks");
}

#[test]
fn another_thread_may_look_at_the_clock_and_nothing_else() {
    let platform = platform(1, 1, Faults::default());
    std::thread::scope(|scope| {
        let outside = scope.spawn(|| {
            assert_eq!(platform.now_ns(), 0);
            platform.unpark(AgentId(0));
        });
        assert!(outside.join().is_err(), "the loop is not this thread's");
    });
}
