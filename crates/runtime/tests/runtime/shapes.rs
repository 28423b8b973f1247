//! Tasks that are executed other than once, on every engine, streamed and prebuilt: in blocks, predicated, not at all.

#![allow(clippy::unwrap_used)]

use plimsoll_abi::{Dtype, ErrorCode};
use plimsoll_runtime::untyped::{self, ElementSpec, Param, Task};
use plimsoll_runtime::{
    ArchSpec, Block, BlockKernel, CoreClass, Device, EmulatedOptions, In, InOut, InOutTile, Kernel, Orchestrator, Out,
    OutTile, PartInOut, PartOut, PipeError, Read, ReadWrite, Result, RunOptions, SharedBuffer, TaskShape,
    VirtualOptions, Write, inout, input, output, output_existing, scalar,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A device of every engine, with one core and with several.
fn devices() -> Vec<(&'static str, Device)> {
    let small = ArchSpec { clusters: 2, sched_threads: 2, ..ArchSpec::A5 };
    let host = |workers: usize| Device::builder().workers(workers);
    let builders = vec![
        ("host, 1 worker", host(1)),
        ("host, 3 workers", host(3)),
        ("host that does not lend", host(3).lend(false)),
        ("emulated host, 1 core", host(1).engine(EmulatedOptions::new(&ArchSpec::HOST))),
        ("emulated host, 3 cores", host(3).engine(EmulatedOptions::new(&ArchSpec::HOST))),
        ("emulated a5", Device::builder().engine(EmulatedOptions::new(&small))),
        ("virtual host", host(3).engine(VirtualOptions::new(&ArchSpec::HOST, 5))),
        ("virtual a5", Device::builder().engine(VirtualOptions::new(&small, 5))),
    ];
    builders.into_iter().map(|(name, builder)| (name, builder.open().unwrap())).collect()
}

struct Kernels {
    number: BlockKernel<(Write<i64>,)>,
    add: BlockKernel<(Read<i64>, ReadWrite<i64>)>,
    double: Kernel<(ReadWrite<i64>,)>,
}

fn register(device: &mut Device) -> Kernels {
    let number = device.block_kernel("number", |block: Block, mut x: OutTile<i64>| {
        let first = x.first_row() as i64;
        x.row_mut(0).iter_mut().enumerate().for_each(|(i, x)| *x = first + i as i64 + 1000 * block.count() as i64);
    });
    let add = device.block_kernel_on(CoreClass::Aiv, "add", |_: Block, a: In<i64>, mut x: InOutTile<i64>| {
        let first = x.first_row();
        x.row_mut(0).iter_mut().enumerate().for_each(|(i, x)| *x += a[[first + i]]);
    });
    let double = device.kernel("double", |mut x: InOut<i64>| x.row_mut(0).iter_mut().for_each(|x| *x *= 2));
    Kernels { number, add, double }
}

const N: usize = 24;

/// Numbers, to which others are added in blocks; which blocks those are says `flag`, and `others` is doubled if it is set.
fn program(o: &mut Orchestrator<'_, '_>, k: &Kernels, [out, flag, others]: &[SharedBuffer<i64>; 3]) -> Result<()> {
    let (x, flag, others) = (o.share(out, [N])?, o.share(flag, [1])?, o.share(others, [2])?);
    o.submit_shaped(&TaskShape::blocks(N as u32), &k.number, (output_existing(&x),))?;
    o.submit_dummy(&[], (inout(&x),))?;
    o.scope(|o| {
        let (a,) = o.submit_shaped(&TaskShape::blocks(3), &k.number, (output([N]),))?;
        o.submit_shaped(&TaskShape::blocks(4).only_if(&flag), &k.add, (input(&a), inout(&x)))?;
        o.submit_shaped(&TaskShape::blocks(8).unless(&flag), &k.add, (input(&a), inout(&x)))?;
        let after = o.last().unwrap();
        o.submit_shaped_after(&[after], &TaskShape::default().only_if(&flag), &k.double, (inout(&others),)).map(drop)
    })
}

/// What comes of it: both adds have the same blocks of numbers to add, one of them is executed.
fn expected(flag: i64, others: i64) -> (Vec<i64>, i64, u64) {
    let n = N as i64;
    let x = (0..n).map(|i| i + 1000 * n + i + 3000).collect();
    let dispatches = N as u64 + 3 + if flag == 0 { 8 } else { 4 + 1 };
    (x, if flag == 0 { others } else { 2 * others }, dispatches)
}

#[test]
fn blocks_predicates_and_dummies_on_every_engine() {
    for (name, mut device) in devices() {
        let kernels = register(&mut device);
        for flag in [0, 3] {
            let buffers = [vec![0; N], vec![flag], vec![5, 5]].map(SharedBuffer::new);
            device.run(|o| program(o, &kernels, &buffers)).unwrap();
            let (x, others, dispatches) = expected(flag, 5);
            assert_eq!(buffers[0].to_vec().unwrap(), x, "{name}, {flag}");
            assert_eq!(buffers[2].to_vec().unwrap(), [others; 2], "{name}, {flag}");
            assert_eq!((device.report().tasks, device.report().dispatches), (6, dispatches), "{name}, {flag}");
        }
    }
}

/// A graph is launched again: every launch claims all blocks again, and looks at the predicate again.
#[test]
fn shapes_in_a_prebuilt_graph() {
    for (name, mut device) in devices() {
        let kernels = register(&mut device);
        let buffers = [vec![0; N], vec![1], vec![5, 5]].map(SharedBuffer::new);
        let mut graph = device.prebuild(|o| program(o, &kernels, &buffers)).unwrap();
        let flags = [1, 0, 2];
        let between = |round: u32| buffers[1].with(|flag| flag[0] = flags[round as usize]);
        device.launch_rounds(&mut graph, 3, &RunOptions::default(), between).unwrap();
        assert_eq!(buffers[0].to_vec().unwrap(), expected(1, 5).0, "{name}");
        assert_eq!(buffers[2].to_vec().unwrap(), [20, 20], "{name}: doubled in two of three launches");
        let dispatches: u64 = flags.iter().map(|&flag| expected(flag, 0).2).sum();
        assert_eq!((device.report().tasks, device.report().dispatches), (18, dispatches), "{name}");
    }
}

/// A block that fails ends the run, and the same device runs the next one.
#[test]
fn a_block_that_fails() {
    for (name, mut device) in devices() {
        let kernels = register(&mut device);
        let fails = device.block_kernel("fails", |block: Block, _: InOutTile<i64>| {
            if block.index() == 5 { Err(format!("block {} of {}", block.index(), block.count())) } else { Ok(()) }
        });
        let error = device.run(|o| {
            let x = o.own(vec![0; N], [N])?;
            o.submit_shaped(&TaskShape::blocks(N as u32), &fails, (inout(&x),)).map(drop)
        });
        let error = error.unwrap_err();
        assert_eq!(error.code(), ErrorCode::KernelFailed, "{name}");
        assert!(error.to_string().contains("block 5 of 24"), "{name}: {error}");
        let buffers = [vec![0; N], vec![1], vec![5, 5]].map(SharedBuffer::new);
        device.run(|o| program(o, &kernels, &buffers)).unwrap();
        assert_eq!(buffers[0].to_vec().unwrap(), expected(1, 5).0, "{name}: the next run");
    }
}

#[test]
fn shapes_that_make_no_sense_are_refused_in_words() {
    let mut device = Device::builder().workers(2).open().unwrap();
    let kernels = register(&mut device);
    let mut refused = |what: &str, submit: &mut dyn FnMut(&mut Orchestrator<'_, '_>) -> Result<()>| {
        let error = device.run(|o| submit(o)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgs, "{error}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    };
    refused("0 blocks", &mut |o| o.submit_shaped(&TaskShape::blocks(0), &kernels.number, (output([4]),)).map(drop));
    refused("registered to be executed once", &mut |o| {
        let x = o.own(vec![0i64; 4], [4])?;
        o.submit_shaped(&TaskShape::blocks(2), &kernels.double, (inout(&x),)).map(drop)
    });
    refused("4 rows, which cannot be divided among 3 blocks", &mut |o| {
        o.submit_shaped(&TaskShape::blocks(3), &kernels.number, (output([4]),)).map(drop)
    });
    refused("has 2 elements", &mut |o| {
        let x = o.own(vec![0i64; 2], [2])?;
        let y = o.own(vec![0i64; 2], [2])?;
        o.submit_shaped(&TaskShape::default().only_if(&x), &kernels.double, (inout(&y),)).map(drop)
    });
    refused("cannot make an output", &mut |o| {
        let flag = o.own(vec![0i64], [1])?;
        o.submit_shaped(&TaskShape::default().only_if(&flag), &kernels.number, (output([4]),)).map(drop)
    });
    refused("A dummy task cannot make an output", &mut |o| o.submit_dummy(&[], (output::<i64, 1>([4]),)));
    refused("argument 0, which is written, and the predicate overlap", &mut |o| {
        let flag = o.own(vec![0i64], [1])?;
        o.submit_shaped(&TaskShape::default().only_if(&flag), &kernels.double, (inout(&flag),)).map(drop)
    });
}

/// The same shapes as descriptors, with a kernel that takes its rows itself.
#[test]
fn shapes_of_the_untyped_tier() {
    const I64: ElementSpec = ElementSpec::of(Dtype::I64);
    for (name, mut device) in devices() {
        let number = |call: &untyped::Call<'_>| -> std::result::Result<(), plimsoll_runtime::KernelError> {
            let x = call.arg(0).expect("one is declared");
            let rows = x.len() / call.blocks() as usize;
            for at in (0..rows).map(|row| call.block() as usize * rows + row) {
                // SAFETY: the argument is dense, and the row is this block's alone.
                unsafe { *x.data().cast::<i64>().add(at) += at as i64 };
            }
            Ok(())
        };
        // SAFETY: the body touches rows of its own block only.
        let number = unsafe {
            let params = [Param::read_write(I64).by_rows()];
            device.block_kernel_untyped(CoreClass::Any, "number", Some(&params), number).unwrap()
        };
        let mut out = [0u8; 8 * N];
        let ran = device.run_untyped(&RunOptions::default(), |o| {
            let (x, flag) = (o.own([0u8; 8 * N], I64, &[N])?, o.own([0u8; 8], I64, &[1])?);
            let args = [untyped::Arg::inout(&x)];
            let mut made = Vec::new();
            o.submit(&Task::new(number, &args).blocks(6), &mut made)?;
            let dummy = o.submit(&Task::dummy(&args), &mut made)?;
            o.submit(&Task::new(number, &args).blocks(2).only_if(&flag), &mut made)?;
            o.submit(&Task::new(number, &args).blocks(3).unless(&flag).after(&[dummy]), &mut made)?;
            o.read(&x, &mut out)
        });
        ran.unwrap();
        let values: Vec<i64> = out.chunks_exact(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(values, (0..N as i64).map(|i| 2 * i).collect::<Vec<_>>(), "{name}");
        assert_eq!((device.report().tasks, device.report().dispatches), (4, 9), "{name}");
        let refused = device.run_untyped(&RunOptions::default(), |o| {
            let x = o.own([0u8; 8 * N], I64, &[N])?;
            o.submit(&Task::new(number, &[untyped::Arg::inout(&x)]).blocks(7), &mut Vec::new())
        });
        assert!(refused.unwrap_err().to_string().contains("cannot be divided among 7 blocks"), "{name}");
    }
}

/// What a kernel runs on another device is no block of the kernel's own task.
#[test]
fn a_run_inside_a_block_begins_outside_of_it() {
    const I64: ElementSpec = ElementSpec::of(Dtype::I64);
    let which = |call: &untyped::Call<'_>| -> std::result::Result<(), plimsoll_runtime::KernelError> {
        // SAFETY: the argument is one element, which this task alone uses.
        unsafe {
            *call.arg(0).expect("one is declared").data().cast::<i64>() = (100 * call.block() + call.blocks()).into()
        };
        Ok(())
    };
    for (name, mut outer) in devices() {
        let blocks = outer.block_kernel("outer", move |_: Block, mut seen: OutTile<i64>| {
            let mut inner = Device::builder().workers(1).open().unwrap();
            // SAFETY: the body touches its own argument only.
            let which = unsafe {
                inner.kernel_untyped(CoreClass::Any, "which", Some(&[Param::read_write(I64)]), which).unwrap()
            };
            let mut out = [0u8; 8];
            let ran = inner.run_untyped(&RunOptions::default(), |o| {
                let x = o.own([0u8; 8], I64, &[1])?;
                o.submit(&Task::new(which, &[untyped::Arg::inout(&x)]), &mut Vec::new())?;
                o.read(&x, &mut out)
            });
            ran.unwrap();
            seen.fill(i64::from_ne_bytes(out));
        });
        let seen = outer.run(|o| {
            let (x,) = o.submit_shaped(&TaskShape::blocks(3), &blocks, (output([3]),))?;
            o.read(&x)
        });
        assert_eq!(seen.unwrap(), [1; 3], "{name}");
    }
}

/// The matrix core scales and hands on, the first vector core adds and hands on, the second writes; `back` goes the other way.
fn register_mixed(device: &mut Device) -> [BlockKernel<(Read<i64>, Write<i64>, ReadWrite<i64>)>; 3] {
    type Ended = std::result::Result<(), PipeError>;
    let rows = |b: &Block<'_>, x: &In<'_, i64>| {
        let rows = x.len() / b.count();
        b.index() * rows..(b.index() + 1) * rows
    };
    let scale = device.block_kernel_on(
        CoreClass::Aic,
        "scale",
        move |b: Block, x: In<i64>, _: PartOut<i64, 2>, mut back: PartInOut<i64, 0>| -> Ended {
            rows(&b, &x).try_for_each(|row| b.push(1, 3 * x[[row]]))?;
            let back = back.own().unwrap();
            back[[0]] += b.pop::<i64>(2)?;
            Ok(())
        },
    );
    let add = device.block_kernel_on(
        CoreClass::Aiv,
        "add",
        move |b: Block, x: In<i64>, mut out: PartOut<i64, 2>, _: PartInOut<i64, 0>| -> Ended {
            assert!(out.own().is_none() && b.parts() == 3 && b.part() == 1);
            rows(&b, &x).try_for_each(|row| b.push(2, b.pop::<i64>(0)? + row as i64))
        },
    );
    let write = device.block_kernel_on(
        CoreClass::Aiv,
        "write",
        move |b: Block, x: In<i64>, mut out: PartOut<i64, 2>, _: PartInOut<i64, 0>| -> Ended {
            let (mut sum, first) = (0, rows(&b, &x).start);
            for row in rows(&b, &x) {
                let value = b.pop::<i64>(1)?;
                sum += value;
                out.own().unwrap()[[row - first]] = value;
            }
            b.push(0, sum)
        },
    );
    [scale, add, write]
}

/// More values go through every pipe than it holds, and blocks of two tasks meet on every cluster.
#[test]
fn mixed_tasks_pass_values_between_their_parts_on_every_engine() {
    const LARGE: usize = 600;
    for (name, mut device) in devices() {
        let parts = register_mixed(&mut device);
        let x: Vec<i64> = (0..LARGE as i64).collect();
        let x = SharedBuffer::new(x);
        let outs = [SharedBuffer::new(vec![0; LARGE]), SharedBuffer::new(vec![0; LARGE])];
        let sums = [SharedBuffer::new(vec![0; 6]), SharedBuffer::new(vec![0; 4])];
        let program = |o: &mut Orchestrator<'_, '_>| {
            let x = o.share(&x, [LARGE])?;
            for (out, sums) in outs.iter().zip(&sums) {
                let blocks = sums.to_vec()?.len();
                let (out, sums) = (o.share(out, [LARGE])?, o.share(sums, [blocks])?);
                let shape = TaskShape::blocks(blocks as u32);
                o.submit_shaped(&shape, &parts, (input(&x), output_existing(&out), inout(&sums)))?;
            }
            Ok(())
        };
        let check = |launches: i64| {
            for (out, sums) in outs.iter().zip(&sums) {
                let expected: Vec<i64> = (0..LARGE as i64).map(|i| 4 * i).collect();
                assert_eq!(out.to_vec().unwrap(), expected, "{name}");
                let blocks = sums.to_vec().unwrap();
                let rows = LARGE / blocks.len();
                let sums: Vec<i64> = expected.chunks(rows).map(|rows| launches * rows.iter().sum::<i64>()).collect();
                assert_eq!(blocks, sums, "{name}");
            }
        };
        device.run(program).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(1);
        // One worker takes turns at the parts of a block; on a chip each part is an execution.
        let each = if name.ends_with("a5") { 3 } else { 1 };
        assert_eq!((device.report().tasks, device.report().dispatches), (2, 10 * each), "{name}");
        let mut graph = device.prebuild(program).unwrap();
        device.launch(&mut graph, 2, &RunOptions::default()).unwrap();
        check(3);
    }
}

/// The part that begins first ends first, after it has waited: the worker is then in no part any more.
#[test]
fn what_follows_a_mixed_task_is_no_part_of_it() {
    for (name, mut device) in devices() {
        let ask = |b: Block, _: PartInOut<i64, 1>| -> std::result::Result<(), PipeError> {
            let value = b.pop::<i64>(1)?;
            b.push(1, value + 1)
        };
        let answer = |b: Block, mut out: PartInOut<i64, 1>| -> std::result::Result<(), PipeError> {
            b.push(0, 41i64)?;
            out.own().unwrap()[[0]] = b.pop(0)?;
            Ok(())
        };
        let parts = [
            device.block_kernel_on(CoreClass::Aic, "ask", ask),
            device.block_kernel_on(CoreClass::Aiv, "answer", answer),
        ];
        let look = device.kernel("look", |z: In<i64>, mut seen: Out<i64>| {
            let now = untyped::current();
            let alone = untyped::push(1, 1) == Err(PipeError::NoPart(1));
            let numbers = [z[[0]], now.index.into(), now.count.into(), now.part.into(), now.parts.into(), alone.into()];
            seen.row_mut(0).copy_from_slice(&numbers);
        });
        let seen = device.run(|o| {
            let z = o.own(vec![0i64; 4], [4])?;
            o.submit_shaped(&TaskShape::blocks(4), &parts, (inout(&z),))?;
            let (_, seen) = o.submit(&look, (input(&z), output([6])))?;
            o.read(&seen)
        });
        assert_eq!(seen.unwrap_or_else(|error| panic!("{name}: {error}")), [42, 0, 1, 0, 1, 1], "{name}");
    }
}

/// In virtual time all parts of a block are executed where the first one is, but on the chip they have cores of their own.
#[test]
fn a_part_that_fails_is_not_told_to_have_run_on_a_core_of_another_class() {
    for (name, mut device) in devices() {
        let body = |b: Block, _: PartInOut<i64, 0>| if b.part() == 0 { Ok(()) } else { Err(std::fmt::Error) };
        let parts = [
            device.block_kernel_on(CoreClass::Aic, "one", body),
            device.block_kernel_on(CoreClass::Aiv, "other", body),
        ];
        let error = device.run(|o| {
            let x = o.own(vec![0i64], [1])?;
            o.submit_shaped(&TaskShape::default(), &parts, (inout(&x),)).map(drop)
        });
        let error = error.unwrap_err();
        assert_eq!(error.kernel(), Some("other"), "{name}: {error}");
        assert!(!error.to_string().contains("aic core"), "{name}: {error}");
    }
}

/// Parts that wait for each other, and one that waits for a part that has ended, fail in words; so does a part that panics.
#[test]
fn parts_that_cannot_go_on_fail_in_words() {
    for (name, mut device) in devices() {
        let body = |b: Block, how: i64, _: PartInOut<i64, 0>| -> std::result::Result<(), PipeError> {
            let other = 1 - b.part();
            match how {
                0 => b.pop::<i64>(other).map(drop),
                1 if b.part() == 0 => Ok(()),
                1 => b.pop::<i64>(other).map(drop),
                2 if b.part() == 0 => panic!("on purpose"),
                2 => b.pop::<i64>(other).map(drop),
                3 => (0..1000).try_for_each(|i| b.push(other, i)),
                _ => b.push(7, 0i64),
            }
        };
        let parts = [
            device.block_kernel_on(CoreClass::Aic, "one", body),
            device.block_kernel_on(CoreClass::Aiv, "other", body),
        ];
        let texts = [
            "none of the task's parts can go on",
            "part 0 has ended",
            "on purpose",
            "none of the task's parts",
            "no other part 7",
        ];
        for (how, text) in texts.into_iter().enumerate() {
            let error = device.run(|o| {
                let x = o.own(vec![0i64], [1])?;
                o.submit_shaped(&TaskShape::default(), &parts, (scalar(how as i64), inout(&x))).map(drop)
            });
            let error = error.unwrap_err();
            assert!(error.to_string().contains(text), "{name}, {how}: {error}");
            // The cause is told, whichever part learns first that another one has ended.
            let wanted = if how == 2 { ErrorCode::KernelPanicked } else { ErrorCode::KernelFailed };
            assert_eq!(error.code(), wanted, "{name}, {how}: {error}");
        }
    }
}

/// A mixed task of two parts takes the vector core of its cluster that is free, whichever that is.
#[test]
fn a_mixed_task_does_not_wait_behind_a_busy_vector_core_beside_a_free_one() {
    let small = ArchSpec { clusters: 1, sched_threads: 1, ..ArchSpec::A5 };
    let mut device = Device::builder().engine(EmulatedOptions::new(&small)).open().unwrap();
    let [begun, rounds] = std::array::from_fn(|_| Arc::new(AtomicI64::new(0)));
    let waits = {
        let (begun, rounds) = (Arc::clone(&begun), Arc::clone(&rounds));
        device.block_kernel_on(CoreClass::Aiv, "waits", move |_: Block, _: InOutTile<i64>, round: i64| {
            begun.store(round, Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < round {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let idle = device.block_kernel_on(CoreClass::Aic, "idle", |_: Block, _: PartInOut<i64, 0>| {});
    let ends = device.block_kernel_on(CoreClass::Aiv, "ends", move |_: Block, _: PartInOut<i64, 0>| {
        rounds.fetch_add(1, Ordering::Relaxed);
    });
    let options = RunOptions { op_timeout: Some(Duration::from_secs(10)), ..RunOptions::default() };
    let ran = device.run_with(&options, |o| {
        for round in 1..=4 {
            let (x, y) = (o.own(vec![0i64], [1])?, o.own(vec![0i64], [1])?);
            o.submit_shaped(&TaskShape::default(), &waits, (inout(&x), scalar(round)))?;
            while begun.load(Ordering::Relaxed) < round {
                std::thread::sleep(Duration::from_millis(1));
            }
            o.submit_shaped(&TaskShape::default(), &[idle, ends], (inout(&y),))?;
            o.read(&x)?;
        }
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let mut device = Device::builder().workers(2).open().unwrap();
    let aic = device.block_kernel_on(CoreClass::Aic, "aic", |_: Block, _: PartInOut<i64, 0>| {});
    let tiled = device.block_kernel_on(CoreClass::Aic, "tiled", |_: Block, _: InOutTile<i64>| {});
    let aiv = device.block_kernel_on(CoreClass::Aiv, "aiv", |_: Block, _: PartInOut<i64, 0>| {});
    let other = device.block_kernel_on(CoreClass::Aiv, "other", |_: Block, _: PartInOut<i64, 1>| {});
    let tiled_aiv = device.block_kernel_on(CoreClass::Aiv, "tiled-aiv", |_: Block, _: InOutTile<i64>| {});
    for (parts, what) in [
        ([aiv, aic], "on a matrix core"),
        ([aic, other], "declare their parameters differently"),
        ([tiled, tiled_aiv], "written by all parts"),
    ] {
        let error = device.run(|o| {
            let x = o.own(vec![0i64], [1])?;
            o.submit_shaped(&TaskShape::default(), &parts, (inout(&x),)).map(drop)
        });
        let error = error.unwrap_err();
        assert!(error.code() == ErrorCode::InvalidArgs && error.to_string().contains(what), "{what}: {error}");
    }
    let narrow = ArchSpec { clusters: 1, aiv_per_cluster: 1, sched_threads: 1, ..ArchSpec::A5 };
    let mut device = Device::builder().engine(EmulatedOptions::new(&narrow)).open().unwrap();
    let parts = register_mixed(&mut device);
    let error = device.run(|o| {
        let x = o.own(vec![0i64; 4], [4])?;
        let y = o.own(vec![0i64; 4], [4])?;
        o.submit_shaped(&TaskShape::default(), &parts, (input(&x), output([4]), inout(&y))).map(drop)
    });
    let error = error.unwrap_err();
    assert!(error.to_string().contains("which has room for 2"), "{error}");
}
