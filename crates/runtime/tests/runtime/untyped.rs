//! The untyped tier checks at run time what the compiler checks for the typed one, with the same errors.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::abi::{Dtype, ErrorCode};
use plimsoll_runtime::untyped::{Arg, ElementSpec, Kernel, Orchestrator, Param, Task, Tensor};
use plimsoll_runtime::{
    ArchSpec, CoreClass, Device, In, InOut, Out, Result, RunOptions, VirtualOptions, inout, input, output,
};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const F32: ElementSpec = ElementSpec::of(Dtype::F32);
const I32: ElementSpec = ElementSpec::of(Dtype::I32);

fn open() -> Device {
    Device::builder().workers(2).open().unwrap()
}

fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Adds 1 to what it is given, by typed views.
fn add_one(device: &mut Device) -> Kernel {
    device.kernel("add", |a: In<i32>, mut b: Out<i32>| (0..a.len()).for_each(|i| b[[i]] = a[[i]] + 1)).untyped()
}

#[track_caller]
fn refused(device: &mut Device, parts: &[&str], program: impl FnOnce(&mut Orchestrator<'_, '_>) -> Result<()>) {
    let error = device.run_untyped(&RunOptions::default(), program).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgs, "{error}");
    for part in parts {
        assert!(error.explanation().contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn arguments_that_a_kernel_does_not_take_are_refused() {
    let mut device = open();
    let add = add_one(&mut device);
    type Program = fn(&mut Orchestrator<'_, '_>, &Tensor, Kernel) -> Result<()>;
    fn submit(o: &mut Orchestrator<'_, '_>, kernel: Kernel, args: &[Arg<'_>]) -> Result<()> {
        o.submit(&Task::new(kernel, args), &mut Vec::new()).map(drop)
    }
    let cases: [(&[&str], Program); 7] = [
        (&["add takes 2 arguments, and the task has 1"], |o, x, add| submit(o, add, &[Arg::input(x)])),
        (
            &["Argument 0 of kernel add is a tensor to read and write of i32", "takes a tensor to read of i32"],
            |o, x, add| submit(o, add, &[Arg::inout(x), Arg::output(I32, &[4])]),
        ),
        (&["Argument 1", "a tensor to write of f32", "takes a tensor to write of i32"], |o, x, add| {
            submit(o, add, &[Arg::input(x), Arg::output(F32, &[4])])
        }),
        (&["Argument 1", "a value of i64"], |o, x, add| submit(o, add, &[Arg::input(x), Arg::scalar(3i64)])),
        (&["overlap and one of them is written"], |o, x, add| {
            submit(o, add, &[Arg::input(x), Arg::output_existing(x)])
        }),
        (&["cannot have that shape"], |o, x, add| submit(o, add, &[Arg::input(x), Arg::output(I32, &[0])])),
        (&["more than 1099511627776 bytes"], |o, x, add| {
            submit(o, add, &[Arg::input(x), Arg::output(I32, &[1 << 31, 1 << 30])])
        }),
    ];
    for (parts, program) in cases {
        refused(&mut device, parts, |o| {
            let x = o.own(bytes(&[1, 2, 3, 4]), I32, &[4])?;
            program(o, &x, add)
        });
    }
    let other = add_one(&mut open());
    refused(&mut device, &["another device"], |o| {
        let x = o.own(bytes(&[1]), I32, &[1])?;
        submit(o, other, &[Arg::input(&x), Arg::output(I32, &[1])])
    });
}

#[test]
fn handles_end_with_their_scope_and_their_run() {
    let mut device = open();
    let add = add_one(&mut device);
    let mut kept = Vec::new();
    device
        .run_untyped(&RunOptions::default(), |o| {
            let x = o.own(bytes(&[1]), I32, &[1])?;
            o.submit(&Task::new(add, &[Arg::input(&x), Arg::output(I32, &[1])]), &mut kept).map(drop)
        })
        .unwrap();
    let before = kept[0];
    refused(&mut device, &["A tensor of another run"], |o| o.read(&before, &mut [0; 4]));
    let made_inside = |o: &mut Orchestrator<'_, '_>| {
        let x = o.own(bytes(&[1]), I32, &[1])?;
        o.open_scope()?;
        let mut made = Vec::new();
        let task = o.submit(&Task::new(add, &[Arg::input(&x), Arg::output(I32, &[1])]), &mut made)?;
        o.close_scope()?;
        // Another scope is open now, at the same depth.
        o.open_scope()?;
        Ok((x, made[0], task))
    };
    refused(&mut device, &["A tensor was used after its scope was closed"], |o| {
        let (_, made, _) = made_inside(o)?;
        o.submit(&Task::new(add, &[Arg::input(&made), Arg::output(I32, &[1])]), &mut Vec::new()).map(drop)
    });
    refused(&mut device, &["An explicit dependency was used after its scope"], |o| {
        let (x, _, task) = made_inside(o)?;
        let after = [task];
        let args = [Arg::input(&x), Arg::output(I32, &[1])];
        o.submit(&Task::new(add, &args).after(&after), &mut Vec::new()).map(drop)
    });
    refused(&mut device, &["left 1 of its scopes open"], |o| made_inside(o).map(drop));
    refused(&mut device, &["closed that was not opened"], |o| o.close_scope());
}

#[test]
fn memory_that_cannot_hold_the_elements_is_refused() {
    let mut device = open();
    refused(&mut device, &["3 bytes", "cannot hold i32"], |o| o.own([1, 2, 3], I32, &[1]).map(drop));
    refused(&mut device, &["cannot have the shape [3]"], |o| o.own(bytes(&[1, 2]), I32, &[3]).map(drop));
    refused(&mut device, &["cannot have 0 bytes"], |o| o.own([], ElementSpec::opaque(0, 1), &[1]).map(drop));
    refused(&mut device, &["cannot be aligned to 3"], |o| o.own([1; 6], ElementSpec::opaque(6, 3), &[1]).map(drop));
    let mut data = [0u64; 2];
    // SAFETY: inside the array.
    let odd = unsafe { data.as_mut_ptr().cast::<u8>().add(1) };
    refused(&mut device, &["cannot hold i32", "aligned to 4"], |o| {
        // SAFETY: four bytes of the array, which lives until the run has returned.
        unsafe { o.borrow(odd, 4, I32, &[1], true, None) }.map(drop)
    });
    let at = data.as_mut_ptr().cast::<u8>();
    refused(&mut device, &["cannot be written", "`borrow_mut`"], |o| {
        // SAFETY: as above.
        let x = unsafe { o.borrow(at, 4, I32, &[1], false, None) }?;
        o.write(&x, &[0; 4])
    });
}

#[test]
fn bodies_see_their_arguments_as_they_are() {
    let mut device = open();
    // SAFETY: it looks at shapes and scalars, and writes the one element of its last argument.
    let look = unsafe {
        device.kernel_untyped(CoreClass::Any, "look", None, |call| {
            let args: Vec<_> = call.args().collect();
            assert!(args[0].is_scalar() && !args[1].is_scalar() && args[2].is_written());
            assert_eq!((args[1].shape(), args[1].strides()), (&[3, 2][..], &[1, 3][..]));
            assert_eq!((args[1].dtype(), args[1].len()), (Dtype::I32, 6));
            *args[2].data().cast::<i32>() = args[0].bits() as i32 + args.len() as i32;
            Ok(())
        })
    };
    let look = look.unwrap();
    assert_eq!(device.kernel_named("look"), Some(look));
    let mut out = [0; 4];
    device
        .run_untyped(&RunOptions::default(), |o| {
            let x = o.own(bytes(&[0; 6]), I32, &[2, 3])?;
            let mut made = Vec::new();
            let view = x.transpose();
            let args = [Arg::scalar(7i32), Arg::input(&view), Arg::output(I32, &[1])];
            o.submit(&Task::new(look, &args), &mut made)?;
            o.read(&made[0], &mut out)
        })
        .unwrap();
    assert_eq!(i32::from_ne_bytes(out), 10);
}

/// A declared kernel takes what it declares from the untyped tier, and an element is known by its size if by nothing else.
#[test]
fn plain_old_data_is_known_by_its_size() {
    let mut device = open();
    let three = ElementSpec::opaque(3, 1);
    // SAFETY: it touches nothing.
    let kernel = unsafe { device.kernel_untyped(CoreClass::Any, "rgb", Some(&[Param::read(three)]), |_| Ok(())) };
    let kernel = kernel.unwrap();
    let run = |device: &mut Device, element: ElementSpec, data: &[u8]| {
        device.run_untyped(&RunOptions::default(), |o| {
            let x = o.own(data, element, &[2])?;
            o.submit(&Task::new(kernel, &[Arg::input(&x)]), &mut Vec::new()).map(drop)
        })
    };
    run(&mut device, three, &[0; 6]).unwrap();
    let error = run(&mut device, ElementSpec::opaque(4, 1), &[0; 8]).unwrap_err();
    assert!(
        error.explanation().contains("elements of 4 bytes, and the kernel takes a tensor to read of elements of 3"),
        "{error}"
    );
}

/// `write` waits for who reads and who writes, of manual scopes too; what is submitted later finds the new data.
#[test]
fn a_write_waits_for_readers_and_writers() {
    let mut device = Device::builder().workers(3).open().unwrap();
    let slow = device.kernel("slow", |a: In<i32>, mut b: Out<i32>| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        b[[0]] = a[[0]];
    });
    let bump = device.kernel("bump", |mut x: InOut<i32>| x[[0]] += 1);
    let (first, second, last) = device
        .run(|o| {
            let x = o.own(vec![1], [1])?;
            let (.., first) = o.submit(&slow, (input(&x), output([1])))?;
            o.write(&x, &[10])?;
            o.submit(&bump, (inout(&x),))?;
            let second = o.own(vec![0], [1])?;
            // SAFETY: the one task inside reads `x` after `bump`, and nothing else uses `second`.
            unsafe {
                let before = o.last().unwrap();
                o.manual_scope(|o| {
                    o.submit_after(&[before], &slow, (input(&x), plimsoll_runtime::output_existing(&second))).map(drop)
                })
            }?;
            o.write(&x, &[100])?;
            Ok((o.read(&first)?, o.read(&second)?, o.read(&x)?))
        })
        .unwrap();
    assert_eq!((first, second, last), (vec![1], vec![11], vec![100]));
    let wrong = device.run(|o| {
        let x = o.own(vec![1], [1])?;
        o.write(&x, &[1, 2])
    });
    assert!(wrong.unwrap_err().explanation().contains("2 elements cannot be written to a tensor of 1"));
    let built = device.prebuild(|o| {
        let x = o.own(vec![1], [1])?;
        o.write(&x, &[2])
    });
    assert!(built.unwrap_err().explanation().contains("cannot write a tensor"));
}

/// Counts how often one of its kind was dropped.
struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was entered in a scope is kept until its tasks are through, and not until the run ends; what the root entered is.
#[test]
fn what_a_scope_entered_is_let_go_of_after_it() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let options = VirtualOptions::new(&ArchSpec::HOST, 3);
    for builder in [Device::builder().workers(2), Device::builder().engine(options)] {
        let mut device = builder.open().unwrap();
        let bump = device.kernel("bump", |mut x: InOut<i32>| x[[0]] += 1).untyped();
        let (mut root, mut numbers) = ([0i32], [0i32; 40]);
        let before = dropped.load(Ordering::Relaxed);
        let seen = device.run_untyped(&RunOptions::default(), |o| {
            let keep = || Some(Box::new(CountsDrops(Arc::clone(&dropped))) as Box<dyn Any>);
            // SAFETY: the numbers outlive the run, and nobody else uses them meanwhile.
            unsafe { o.borrow((&raw mut root).cast(), 4, I32, &[1], true, keep())? };
            for number in &mut numbers {
                o.open_scope()?;
                // SAFETY: as above.
                let x = unsafe { o.borrow((&raw mut *number).cast(), 4, I32, &[1], true, keep())? };
                o.submit(&Task::new(bump, &[Arg::inout(&x)]), &mut Vec::new())?;
                o.read(&x, &mut [0; 4])?;
                o.close_scope()?;
            }
            Ok(dropped.load(Ordering::Relaxed) - before)
        });
        assert!((38..=40).contains(&seen.unwrap()));
        assert_eq!((dropped.load(Ordering::Relaxed) - before, numbers), (41, [1; 40]));
    }
}

#[test]
fn memory_of_a_closed_scope_is_the_same_buffer_again() {
    let mut device = Device::builder().workers(3).open().unwrap();
    let bump = device.kernel("bump", |mut x: InOut<i32>| {
        let before = x[[0]];
        std::thread::sleep(std::time::Duration::from_micros(50));
        x[[0]] = before + 1;
    });
    let (bump, mut number) = (bump.untyped(), 0i32);
    device
        .run_untyped(&RunOptions::default(), |o| {
            o.open_scope()?;
            // SAFETY: the number outlives the run, and nobody else uses it meanwhile.
            let mut x = unsafe { o.borrow((&raw mut number).cast(), 4, I32, &[1], true, None)? };
            for _ in 0..100 {
                o.submit(&Task::new(bump, &[Arg::inout(&x)]), &mut Vec::new())?;
                o.close_scope()?;
                assert!(!o.is_open(&x));
                o.open_scope()?;
                // SAFETY: as above.
                x = unsafe { o.borrow_again(&x, None)? };
                assert!(o.is_open(&x) && x.is_writable() && !x.read_only().is_writable());
            }
            o.close_scope()?;
            o.wait_out(&x)
        })
        .unwrap();
    assert_eq!(number, 100);
    refused(&mut device, &["cannot be written", "borrow"], |o| {
        let x = o.own(bytes(&[1]), I32, &[1])?.read_only();
        o.submit(&Task::new(bump, &[Arg::inout(&x)]), &mut Vec::new()).map(drop)
    });
}

#[test]
fn dimensions_of_one_element_come_and_go_whatever_the_gaps() {
    let mut device = open();
    device
        .run_untyped(&RunOptions::default(), |o| {
            let all = o.own(bytes(&(0..24).collect::<Vec<_>>()), I32, &[2, 3, 4])?;
            let column = all.slice(1, 1..2)?.slice(2, 2..3)?;
            for shape in [&[2][..], &[1, 2], &[2, 1], &[1, 1, 2, 1, 1], &[2, 1, 1]] {
                let view = column.with_ones(shape)?;
                let mut out = [0; 8];
                o.read(&view, &mut out)?;
                assert_eq!((out.to_vec(), view.len()), (bytes(&[6, 18]), 2));
            }
            assert_eq!(column.slice(0, 1..2)?.with_ones(&[])?.shape(), [] as [u32; 0]);
            for shape in [&[2, 2][..], &[1], &[], &[1, 1, 1, 1, 1, 2]] {
                assert!(column.with_ones(shape).is_err(), "{shape:?}");
            }
            Ok(())
        })
        .unwrap();
}
