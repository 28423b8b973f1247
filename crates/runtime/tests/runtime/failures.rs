//! How runs fail: at once, with an error that names what failed, and without harm to the next run of the same device.

use crate::quiet_panics::quietly;
use crate::scale;
use plimsoll_runtime::abi::ErrorCode;
use plimsoll_runtime::{CancelToken, Device, Error, In, InOut, Kernel, Orchestrator, Out, Read, ReadWrite, Result};
use plimsoll_runtime::{RunOptions, SharedBuffer, Value, Write, inout, input, output, scalar};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn open(workers: usize) -> Device {
    Device::builder().workers(workers).open().expect("default sizes")
}

type Faulty = Kernel<(Read<i64>, Write<i64>, Value<i64>)>;

/// A kernel that fails, and one that panics, if told to.
fn faulty(device: &mut Device) -> [Faulty; 2] {
    let work = |a: &In<i64>, x: &mut Out<i64>| (0..x.len()).for_each(|i| x[[i]] = a[[i]] + 1);
    [
        device.kernel("fails", move |a: In<i64>, mut x: Out<i64>, bad: i64| {
            work(&a, &mut x);
            if bad == 0 { Ok(()) } else { Err(format!("bad input {bad}")) }
        }),
        device.kernel("panics", move |a: In<i64>, mut x: Out<i64>, bad: i64| {
            work(&a, &mut x);
            assert!(bad == 0, "bad input {bad}");
        }),
    ]
}

/// Four tasks in a scope, one after the other; the third goes wrong if told to.
fn chain(o: &mut Orchestrator<'_, '_>, kernel: &Faulty, bad: i64) -> Result<Vec<i64>> {
    let host = o.own(vec![5; 4], [4])?;
    o.scope(|o| {
        let (_, a, _) = o.submit(kernel, (input(&host), output([4]), scalar(0)))?;
        let (_, b, _) = o.submit(kernel, (input(&a), output([4]), scalar(0)))?;
        let (_, c, _) = o.submit(kernel, (input(&b), output([4]), scalar(bad)))?;
        let (_, d, _) = o.submit(kernel, (input(&c), output([4]), scalar(0)))?;
        o.read(&d)
    })
}

#[test]
fn an_error_names_task_kernel_worker_scope_and_arguments() {
    for workers in [1, 2, 4] {
        let mut device = open(workers);
        let [fails, panics] = faulty(&mut device);
        let cases = [(fails, "fails", ErrorCode::KernelFailed), (panics, "panics", ErrorCode::KernelPanicked)];
        for (kernel, name, code) in cases {
            let error = quietly(|| device.run(|o| chain(o, &kernel, 7))).expect_err("the third task goes wrong");
            assert_eq!((error.code(), error.kernel()), (code, Some(name)), "{error}");
            assert_eq!(error.task().map(|task| task.to_string()).as_deref(), Some("r1t2"), "{error}");
            assert!(usize::from(error.worker().expect("it ran somewhere")) < workers, "{error}");
            let site = error.site().expect("a scope was open");
            assert!(site.starts_with(file!()), "{error}");
            let worker = format!("on worker {}", error.worker().unwrap_or_default());
            for part in [name, "r1t2", "bad input 7", site, &worker, "input i64[4]", "output i64[4]", "0x7"] {
                assert!(error.explanation().contains(part), "{part:?} is missing in: {error}");
            }
            // The same device runs the next program cleanly.
            assert_eq!(device.run(|o| chain(o, &kernel, 0)).expect("nothing is wrong with it"), [9; 4]);
            assert_eq!((device.report().tasks, device.report().dispatches), (4, 4));
        }
    }
}

fn same(a: &Error, b: &Error) -> bool {
    (a.code(), a.task(), a.explanation()) == (b.code(), b.task(), b.explanation())
}

/// A call with arguments that are wrong in themselves fails the run, also if the caller looks away; and what it
/// returned is what the run returns.
#[test]
fn a_refused_call_fails_the_run() {
    let mut device = open(2);
    let add = device.kernel("add", |mut x: InOut<i64>| x[[0]] += 1);
    let foreign = open(1).kernel("foreign", |_: InOut<i64>| ());
    let taken = SharedBuffer::new(vec![0i64; 4]);
    let outside = vec![1i64; 4];
    type Refused<'a> = &'a dyn for<'s> Fn(&mut Orchestrator<'s, 'a>, &plimsoll_runtime::Tensor<'s, i64>) -> Result<()>;
    let read_only: Refused<'_> = &|o, _| {
        let slice = o.borrow(&outside, [4])?;
        o.submit(&add, (inout(&slice),)).map(drop)
    };
    let other_device: Refused<'_> = &|o, x| o.submit(&foreign, (inout(x),)).map(drop);
    let shape: Refused<'_> = &|o, _| o.own(vec![1i64; 4], [5]).map(drop);
    let shared_twice: Refused<'_> = &|o, _| {
        o.share(&taken, [4])?;
        o.share(&taken, [4]).map(drop)
    };
    let cases = [
        (read_only, "borrowed slice cannot be written"),
        (other_device, "another device"),
        (shape, "cannot have the shape"),
        (shared_twice, "buffer"),
    ];
    for (refused, said) in cases {
        let mut returned = None;
        let outcome = device.run(|o| {
            let x = o.own(vec![0i64; 4], [4])?;
            returned = refused(o, &x).err();
            Ok(())
        });
        let error = outcome.expect_err("looking away does not help");
        assert_eq!(error.code(), ErrorCode::InvalidArgs, "{error}");
        assert!(error.explanation().contains(said), "{said}: {error}");
        assert!(error.site().is_some_and(|site| site.starts_with(file!())), "{error}");
        assert!(same(&returned.expect("the call said so"), &error), "{error}");
        let built = device.prebuild(|o| {
            let x = o.own(vec![0i64; 4], [4])?;
            let _ = refused(o, &x);
            Ok(())
        });
        assert!(built.expect_err("nor for a prebuilt graph").explanation().contains(said));
        device.run(|o| o.own(vec![0i64; 4], [4]).map(drop)).expect("the next run is clean");
    }
}

#[test]
fn every_later_call_returns_the_first_error() {
    let mut device = open(2);
    let [fails, panics] = faulty(&mut device);
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let after = device.kernel("after", move |_: InOut<i64>| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let foreign = open(1).kernel("foreign", |_: InOut<i64>| ());
    let outside = [1i64; 4];
    let mut later = vec![];
    let outcome = quietly(|| {
        device.run(|o| {
            let host = o.own(vec![1; 4], [4])?;
            let (_, made, _) = o.submit(&fails, (input(&host), output([4]), scalar(1)))?;
            later.push(o.read(&made).map(drop).expect_err("its producer failed"));
            later.push(o.submit(&after, (inout(&host),)).map(drop).expect_err("the run has failed"));
            later.push(o.submit(&panics, (input(&host), output([4]), scalar(2))).map(drop).expect_err("failed"));
            later.push(o.scope(|o| o.submit(&after, (inout(&host),)).map(drop)).expect_err("failed"));
            later.push(o.scope(|_| Ok(())).expect_err("not even an empty scope passes"));
            later.push(o.read(&host).map(drop).expect_err("failed"));
            later.push(o.fatal("a second failure"));
            later.push(o.own(vec![1; 4], [4]).map(drop).expect_err("failed"));
            later.push(o.own(vec![1; 4], [5]).map(drop).expect_err("also with arguments that are wrong by themselves"));
            later.push(o.borrow(&outside, [3]).map(drop).expect_err("failed"));
            later.push(o.submit(&foreign, (inout(&host),)).map(drop).expect_err("failed"));
            let too_many = (input(&host), output([0]), scalar(1));
            later.push(o.submit(&fails, too_many).map(drop).expect_err("failed"));
            Ok(())
        })
    });
    let error = outcome.expect_err("whoever ignores errors still gets the first at the end");
    assert_eq!(error.code(), ErrorCode::KernelFailed);
    for (call, other) in later.iter().enumerate() {
        assert!(same(other, &error), "call {call} gave {other} after {error}");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0, "nothing is dispatched after a failure");
}

#[test]
fn what_runs_finishes_and_nothing_is_left_for_the_next_run() {
    let rounds = scale::cases(200);
    let mut device = open(4);
    let [fails, _] = faulty(&mut device);
    let bump = device.kernel("bump", |mut x: InOut<i64>| x[[0]] = x[[0]].wrapping_mul(31).wrapping_add(1));
    for round in 0..rounds {
        let bad = device.run(|o| {
            let host = o.own(vec![1; 4], [4])?;
            for task in 0..50 {
                o.submit(&fails, (input(&host), output([4]), scalar(i64::from(task == round % 50))))?;
            }
            Ok(())
        });
        assert_eq!(bad.expect_err("one of them fails").code(), ErrorCode::KernelFailed);
        let good = device.run(|o| {
            let x = o.own(vec![0], [1])?;
            (0..20).try_for_each(|_| o.submit(&bump, (inout(&x),)).map(drop))?;
            o.read(&x)
        });
        let expected = (0..20).fold(0i64, |x, _| x.wrapping_mul(31).wrapping_add(1));
        assert_eq!(good.expect("nothing is wrong with it"), [expected], "round {round}");
    }
}

/// A kernel that takes long enough for something else to happen first, on a worker of its own.
fn slow(device: &mut Device, ended: &Arc<AtomicU32>) -> Kernel<(ReadWrite<i64>,)> {
    let ended = Arc::clone(ended);
    device.kernel("slow", move |mut x: InOut<i64>| {
        std::thread::sleep(Duration::from_millis(30));
        x[[0]] += 1;
        ended.fetch_add(1, Ordering::SeqCst);
    })
}

/// A chain of slow tasks that takes longer than anybody waits.
fn long_run(device: &mut Device, kernel: &Kernel<(ReadWrite<i64>,)>, options: &RunOptions) -> Error {
    let outcome = device.run_with(options, |o| {
        let x = o.own(vec![0], [1])?;
        (0..100).try_for_each(|_| o.submit(kernel, (inout(&x),)).map(drop))?;
        o.read(&x)
    });
    outcome.map(drop).expect_err("it is ended early")
}

/// No round takes long, and a deadline that began again with each would never pass.
#[test]
fn a_deadline_is_one_of_all_rounds() {
    let mut device = open(2);
    let nap = device.kernel("nap", |_: InOut<i64>| std::thread::sleep(Duration::from_millis(2)));
    let options = RunOptions { deadline: Some(Duration::from_millis(100)), ..RunOptions::default() };
    let round = |o: &mut Orchestrator<'_, '_>| {
        let x = o.own(vec![0], [1])?;
        o.submit(&nap, (inout(&x),)).map(drop)
    };
    let error = device.run_rounds(&options, 1_000, |_, o| round(o)).expect_err("it takes two seconds at least");
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    let mut graph = device.prebuild(round).expect("a graph");
    let error = device.launch(&mut graph, 1_000, &options).expect_err("it takes two seconds at least");
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
    assert!(device.report().rounds < 60, "{} rounds", device.report().rounds);
    device.run_with(&options, round).expect("a run of one round has time");
}

#[test]
fn a_deadline_a_token_and_a_time_out_end_a_run() {
    let ms = |ms| Some(Duration::from_millis(ms));
    for workers in [1, 2, 4] {
        let mut device = open(workers);
        let ended = Arc::new(AtomicU32::new(0));
        let kernel = slow(&mut device, &ended);
        let late = RunOptions { deadline: ms(50), ..RunOptions::default() };
        let error = long_run(&mut device, &kernel, &late);
        assert_eq!(error.code(), ErrorCode::DeadlineExceeded, "{error}");
        assert!(error.explanation().contains("50ms"), "{error}");

        let token = CancelToken::new();
        let cancelled = RunOptions { cancel: Some(token.clone()), ..RunOptions::default() };
        let error = std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                token.cancel();
            });
            long_run(&mut device, &kernel, &cancelled)
        });
        assert_eq!(error.code(), ErrorCode::Cancelled, "{error}");
        let error = long_run(&mut device, &kernel, &cancelled);
        assert_eq!(error.code(), ErrorCode::Cancelled, "a token stays used: {error}");

        let impatient = RunOptions { read_timeout: ms(50), ..RunOptions::default() };
        let error = long_run(&mut device, &kernel, &impatient);
        assert_eq!(error.code(), ErrorCode::TensorWaitTimeout, "{error}");
        assert_eq!(error.kernel(), Some("slow"), "{error}");
        assert!(error.explanation().contains("50ms") && error.task().is_some(), "{error}");

        let before = ended.load(Ordering::SeqCst);
        let fine = device.run(|o| {
            let x = o.own(vec![0], [1])?;
            o.submit(&kernel, (inout(&x),))?;
            o.read(&x)
        });
        assert_eq!(fine.expect("the next run knows nothing of it"), [1]);
        assert_eq!(ended.load(Ordering::SeqCst), before + 1, "no task of an earlier run was still going");
    }
}

#[test]
fn a_panic_of_the_orchestration_comes_through_after_the_kernels_have_ended() {
    for workers in [1, 2, 4] {
        let mut device = open(workers);
        let ended = Arc::new(AtomicU32::new(0));
        let kernel = slow(&mut device, &ended);
        let mut lent = vec![0, 0, 0];
        let panic = quietly(|| {
            catch_unwind(AssertUnwindSafe(|| {
                device.run(|o| {
                    let x = o.borrow_mut(&mut lent, [3])?;
                    for at in 0..3 {
                        o.submit(&kernel, (inout(&x.slice(0, at..at + 1)?),))?;
                    }
                    o.scope(|_| -> Result<()> { panic!("bad input to the orchestration") })
                })
            }))
        });
        let text = panic.expect_err("it panics").downcast::<&str>().expect("with its own message");
        assert_eq!(*text, "bad input to the orchestration");
        // What was lent is this thread's again: every kernel has ended, and all of them ran.
        assert_eq!((lent, ended.load(Ordering::SeqCst)), (vec![1, 1, 1], 3), "{workers} workers");
        let next = device.run(|o| {
            let x = o.own(vec![0], [1])?;
            o.submit(&kernel, (inout(&x),))?;
            o.read(&x)
        });
        assert_eq!(next.expect("the device is as good as new"), [1]);
    }
}

#[test]
fn arguments_that_overlap_and_foreign_handles_are_refused() {
    let (mut device, mut other) = (open(2), open(1));
    let pair = device.kernel("pair", |_: In<i64>, _: InOut<i64>| {});
    let stranger = other.kernel("stranger", || {});
    let error = device.run(|o| {
        let x = o.own(vec![0; 16], [4, 4])?;
        let (left, lower) = (x.slice(1, 0..2)?, x.slice(0, 1..4)?);
        o.submit(&pair, (input(&left), inout(&lower))).map(drop)
    });
    let error = error.expect_err("they share elements");
    assert_eq!((error.code(), error.kernel()), (ErrorCode::InvalidArgs, Some("pair")), "{error}");
    assert!(error.explanation().contains("overlap"), "{error}");
    let error = device.run(|o| o.submit(&stranger, ())).expect_err("it is another device's");
    assert!(error.code() == ErrorCode::InvalidArgs && error.explanation().contains("another device"), "{error}");
    let read_only = vec![0; 4];
    let bump = device.kernel("bump", |_: InOut<i64>| {});
    let error = device.run(|o| {
        let x = o.borrow(&read_only, [4])?;
        o.submit(&bump, (inout(&x),))
    });
    let error = error.expect_err("it was lent to read");
    assert!(error.code() == ErrorCode::InvalidArgs && error.explanation().contains("borrow_mut"), "{error}");
}
