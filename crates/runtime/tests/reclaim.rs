//! What a ring takes back, and when: never before the task has completed, wherever in the ring it stands.

use plimsoll_runtime::{Capacities, Device, InOut, inout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn small_windows() -> Capacities {
    let mut capacities = Capacities::default();
    capacities.rings.iter_mut().for_each(|ring| ring.window = 16);
    capacities
}

/// The slots of a window are watched in chunks. One chunk can hold a task of this lap that still runs, and one of the
/// next lap that has completed: the second must not be taken for the first.
#[test]
fn a_running_task_keeps_its_slot_when_the_next_lap_has_reached_its_chunk() {
    let mut device = Device::builder().workers(3).lend(false).capacities(small_windows()).open().expect("valid");
    let ended = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ended);
    let quick = device.kernel("quick", move || {
        count.fetch_add(1, Ordering::Release);
    });
    let slow = device.kernel("slow", |mut x: InOut<i64>| {
        // Long enough for the orchestrator to go wrong meanwhile; how long it takes is not asserted.
        std::thread::sleep(Duration::from_millis(200));
        x[[0]] = 1;
    });
    let read = device.run(|o| {
        let x = o.own(vec![0], [1])?;
        let until = |quick_ones| {
            while ended.load(Ordering::Acquire) < quick_ones {
                std::thread::yield_now();
            }
        };
        o.scope(|o| o.submit(&quick, ()))?;
        until(1);
        // The first submit on a ring takes back what it can: slot 0 of ring 1, and no more of its chunk.
        o.submit(&quick, ())?;
        o.scope(|o| o.submit(&slow, (inout(&x),)).map(drop))?;
        for _ in 2..17 {
            o.scope(|o| o.submit(&quick, ()))?;
        }
        // Task 16 stands in the slot of task 0, beside the slow task 1, and has completed.
        until(17);
        for _ in 17..20 {
            o.scope(|o| o.submit(&quick, ()))?;
        }
        o.read(&x)
    });
    assert_eq!(read.expect("the rings are large enough"), [1]);
}

/// A window of which every slot is used, over and over, by scopes that end anywhere in it.
#[test]
fn scopes_of_any_size_pass_through_a_small_window() {
    for workers in 1..=4 {
        let mut device = Device::builder().workers(workers).capacities(small_windows()).open().expect("valid");
        let bump = device.kernel("bump", |mut x: InOut<i64>| x[[0]] = x[[0]] * 3 % 1_000_003 + 1);
        let (mut tasks, mut expected) = (0, 0);
        let sizes = (0..400).map(|scope| 1 + scope * 7 % 16);
        let read = device.run(|o| {
            let x = o.own(vec![0], [1])?;
            for size in sizes.clone() {
                tasks += size;
                o.scope(|o| (0..size).try_for_each(|_| o.submit(&bump, (inout(&x),)).map(drop)))?;
            }
            o.read(&x)
        });
        (0..tasks).for_each(|_| expected = expected * 3 % 1_000_003 + 1);
        assert_eq!(read.expect("no scope has more tasks than the window"), [expected], "{workers} workers");
        assert_eq!(device.report().tasks, tasks);
    }
}
