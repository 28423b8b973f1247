//! Graphs that are built once: the same result as streaming, any number of launches, other buffers between them.

use plimsoll_runtime::abi::ErrorCode;
use plimsoll_runtime::*;

fn device(workers: usize) -> Device {
    Device::builder().workers(workers).open().expect("opens")
}

#[test]
fn a_graph_runs_as_often_as_it_is_launched() {
    for workers in [1, 2, 4] {
        let mut device = device(workers);
        let double = device.kernel("double", |a: In<i64>, mut b: Out<i64>| b[[0]] = a[[0]] * 2);
        let add = device
            .kernel("add", |a: In<i64>, mut sum: InOut<i64>| sum[[0]] = sum[[0]].wrapping_mul(3).wrapping_add(a[[0]]));
        let buffer = SharedBuffer::new(vec![1i64; 8]);
        let sum = SharedBuffer::new(vec![0i64]);
        let mut graph = device
            .prebuild(|o| {
                let (data, sum) = (o.share(&buffer, [8])?, o.share(&sum, [1])?);
                for i in 0..8 {
                    o.scope(|o| {
                        let (.., twice) = o.submit(&double, (input(&data.tile([i], [1])?), output([1])))?;
                        o.submit(&add, (input(&twice), inout(&sum))).map(|_| ())
                    })?;
                }
                Ok(())
            })
            .expect("built");
        assert_eq!(graph.tasks(), 16);
        assert_eq!(sum.to_vec().expect("free between launches"), [0], "building runs nothing");
        let mut expected = 0i64;
        for _ in 0..3 {
            device.launch(&mut graph, 2, &RunOptions::default()).expect("runs");
            (0..16).for_each(|_| expected = expected.wrapping_mul(3).wrapping_add(2));
            assert_eq!(sum.to_vec().expect("free between launches"), [expected]);
            assert_eq!(device.report().tasks, 32);
        }
    }
}

#[test]
fn other_buffers_can_be_bound_between_launches() {
    let mut device = device(2);
    let copy = device.kernel("copy", |a: In<i32>, mut b: InOut<i32>| b[[0]] = a[[0]]);
    let (from, to) = (SharedBuffer::new(vec![1, 2, 3]), SharedBuffer::new(vec![0; 3]));
    let mut graph = device
        .prebuild(|o| {
            let (from, to) = (o.share(&from, [3])?, o.share(&to, [3])?);
            (0..3).try_for_each(|i| {
                o.submit(&copy, (input(&from.tile([i], [1])?), inout(&to.tile([i], [1])?))).map(|_| ())
            })
        })
        .expect("built");
    device.launch(&mut graph, 1, &RunOptions::default()).expect("runs");
    assert_eq!(to.to_vec().expect("free"), [1, 2, 3]);
    let other = SharedBuffer::new(vec![7, 8, 9]);
    graph.bind(&from, &other).expect("same size");
    device.launch(&mut graph, 1, &RunOptions::default()).expect("runs");
    assert_eq!(to.to_vec().expect("free"), [7, 8, 9]);
    let short = SharedBuffer::new(vec![7]);
    assert_eq!(graph.bind(&other, &short).expect_err("too short").code(), ErrorCode::InvalidArgs);
    assert_eq!(graph.bind(&short, &other).expect_err("not used").code(), ErrorCode::InvalidArgs);
}

/// A binding names the buffer that the graph was built with, however many were bound in its place.
#[test]
fn a_place_keeps_its_name_whatever_was_bound_to_it() {
    let mut device = device(1);
    let add = device.kernel("add", |a: In<i32>, mut b: InOut<i32>| b[[0]] += a[[0]]);
    let [x, y, z, sum] = [1, 10, 100, 0].map(|value| SharedBuffer::new(vec![value]));
    let mut graph = device
        .prebuild(|o| {
            let (x, sum) = (o.share(&x, [1])?, o.share(&sum, [1])?);
            o.submit(&add, (input(&x), inout(&sum))).map(drop)
        })
        .expect("built");
    for (to, expected) in [(&y, 10), (&z, 110), (&x, 111), (&z, 211)] {
        graph.bind(&x, to).expect("the graph was built with it");
        device.launch(&mut graph, 1, &RunOptions::default()).expect("runs");
        assert_eq!(sum.to_vec().expect("free"), [expected]);
    }
    let error = graph.bind(&z, &y).expect_err("the graph was not built with it");
    assert!(error.explanation().contains("also after another was bound in its place"), "{error}");
}

/// Short tasks keep their arguments in the slot, long ones elsewhere: a binding reaches both.
#[test]
fn a_binding_reaches_tasks_with_few_arguments_and_with_many() {
    let mut device = device(2);
    let copy = device.kernel("copy", |a: In<i32>, mut b: InOut<i32>| b[[0]] = a[[0]]);
    let sum = device.kernel("sum", |parts: InList<i32>, mut sum: InOut<i32>| {
        sum[[0]] = parts.iter().map(|part| part[[0]]).sum();
    });
    let (from, to) = (SharedBuffer::new((0..12).collect()), SharedBuffer::new(vec![0; 4]));
    let mut graph = device
        .prebuild(|o| {
            let (from, to) = (o.share(&from, [12])?, o.share(&to, [4])?);
            let parts = (0..12).map(|i| from.tile([i], [1])).collect::<Result<Vec<_>>>()?;
            o.submit(&sum, (input_list(&parts), inout(&to.tile([0], [1])?)))?;
            o.submit(&copy, (input(&parts[5]), inout(&to.tile([1], [1])?)))?;
            o.submit(&sum, (input_list(&parts[3..]), inout(&to.tile([2], [1])?)))?;
            o.submit(&copy, (input(&parts[11]), inout(&to.tile([3], [1])?))).map(|_| ())
        })
        .expect("built");
    let mut launched = |graph: &mut Prebuilt<'_>| {
        device.launch(graph, 1, &RunOptions::default()).expect("runs");
        to.to_vec().expect("free")
    };
    assert_eq!(launched(&mut graph), [66, 5, 63, 11]);
    graph.bind(&from, &SharedBuffer::new((0..12).map(|i| 10 * i).collect())).expect("same size");
    assert_eq!(launched(&mut graph), [660, 50, 630, 110]);
}

#[test]
fn a_task_with_more_arguments_than_are_allowed_is_refused() {
    let mut device = device(2);
    let count = device.kernel("count", |parts: InList<i32>, mut sum: InOut<i32>| sum[[0]] = parts.len() as i32);
    let (from, to) = (SharedBuffer::new(vec![1; 33_000]), SharedBuffer::new(vec![0]));
    let mut built = |parts: usize| {
        device.prebuild(|o| {
            let (from, to) = (o.share(&from, [33_000])?, o.share(&to, [1])?);
            let parts = (0..parts).map(|i| from.tile([i], [1])).collect::<Result<Vec<_>>>()?;
            o.submit(&count, (input_list(&parts), inout(&to))).map(|_| ())
        })
    };
    assert_eq!(built(33_000).expect_err("too many").code(), ErrorCode::InvalidArgs);
    assert_eq!(built(32_000).expect("as many as fit").tasks(), 1);
}

#[test]
fn what_cannot_be_built_says_so() {
    let mut device = device(2);
    let zero = device.kernel("zero", |mut a: Out<i32>| a.fill(0));
    let error = device
        .prebuild(|o| {
            let (a,) = o.submit(&zero, (output([4]),))?;
            o.read(&a).map(|_| ())
        })
        .expect_err("nothing to read");
    assert_eq!(error.code(), ErrorCode::InvalidArgs);
    assert!(error.explanation().contains("cannot read"), "{error}");
    let buffer = SharedBuffer::new(vec![0; 4]);
    let mut graph = device
        .prebuild(|o| {
            let data = o.share(&buffer, [4])?;
            o.submit(&zero, (output_existing(&data),)).map(|_| ())
        })
        .expect("built");
    let taken = buffer.with(|_| device.launch(&mut graph, 1, &RunOptions::default()));
    assert_eq!(taken.expect("ours").expect_err("taken").code(), ErrorCode::InvalidArgs);
    device.launch(&mut graph, 1, &RunOptions::default()).expect("free again");
}

#[test]
fn a_kernel_that_fails_ends_the_launch_and_the_next_one_is_clean() {
    let mut device = device(2);
    let fussy = device.kernel("fussy", |a: In<i32>| if a[[0]] < 0 { Err("negative") } else { Ok(()) });
    let buffer = SharedBuffer::new(vec![-1]);
    let mut graph = device
        .prebuild(|o| {
            let data = o.share(&buffer, [1])?;
            (0..50).try_for_each(|_| o.submit(&fussy, (input(&data),)).map(|_| ()))
        })
        .expect("built");
    let error = device.launch(&mut graph, 1, &RunOptions::default()).expect_err("negative");
    assert_eq!((error.code(), error.kernel()), (ErrorCode::KernelFailed, Some("fussy")));
    buffer.with(|data| data[0] = 1).expect("free");
    device.launch(&mut graph, 3, &RunOptions::default()).expect("clean");
    assert_eq!(device.report().dispatches, 150);
}

#[test]
fn more_tasks_than_any_ring_holds() {
    let mut device = device(2);
    let step = device.kernel("step", |mut x: InOut<u8>| x[[0]] = x[[0]].wrapping_add(1));
    let cell = SharedBuffer::new(vec![0u8]);
    const TASKS: usize = 100_000;
    let mut graph = device
        .prebuild(|o| {
            let cell = o.share(&cell, [1])?;
            (0..TASKS).try_for_each(|_| o.submit(&step, (inout(&cell),)).map(|_| ()))
        })
        .expect("ring limits do not apply");
    device.launch(&mut graph, 3, &RunOptions::default()).expect("runs");
    assert_eq!(cell.to_vec().expect("free"), [(3 * TASKS % 256) as u8]);
}
