//! What a ring takes back, and when: never before the task has completed, wherever in the ring it stands.

use plimsoll_runtime::{Capacities, Device, In, InOut, Out, inout, input, output, scalar};
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

/// A heap that holds a few tasks, each with outputs of odd sizes and more argument words than its slot has room for: what a task
/// takes may lie across the end of the heap.
#[test]
fn outputs_and_argument_words_pass_across_the_end_of_a_small_heap() {
    for workers in 1..=3 {
        let mut capacities = small_windows();
        capacities.rings.iter_mut().for_each(|ring| ring.heap = 4096);
        let mut device = Device::builder().workers(workers).capacities(capacities).open().expect("valid");
        let fill = |mut out: Out<i64>, from: i64| (from..).zip(out.row_mut(0)).for_each(|(value, x)| *x = value);
        let make = device.kernel("make", move |a: Out<i64>, b: Out<i64>, c: Out<i64>, x: i64, y: i64, z: i64| {
            fill(a, x);
            fill(b, y);
            fill(c, z);
        });
        let add = device.kernel("add", |a: In<i64>, b: In<i64>, c: In<i64>, mut sum: InOut<i64>| {
            sum[[0]] += [a, b, c].iter().flat_map(|part| part.row(0)).sum::<i64>();
        });
        let mut expected = 0;
        let read = device.run(|o| {
            let sum = o.own(vec![0], [1])?;
            for scope in 0..500usize {
                let sizes = [1 + scope % 23, 1 + scope % 7, 1 + scope % 41];
                let from = [scope, 2 * scope, 3 * scope].map(|from| from as i64);
                let sums = sizes.iter().zip(from).map(|(&size, from)| (from..from + size as i64).sum::<i64>());
                expected += sums.sum::<i64>();
                o.scope(|o| {
                    let made = sizes.map(|size| output::<i64, 1>([size]));
                    let [a, b, c] = made;
                    let (a, b, c, ..) =
                        o.submit(&make, (a, b, c, scalar(from[0]), scalar(from[1]), scalar(from[2])))?;
                    o.submit(&add, (input(&a), input(&b), input(&c), inout(&sum))).map(drop)
                })?;
            }
            o.read(&sum)
        });
        assert_eq!(read.expect("a scope fits the heap"), [expected], "{workers} workers");
    }
}
