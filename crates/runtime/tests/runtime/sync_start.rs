//! Tasks whose blocks start together: blocks that wait for each other go on, whatever else there is to do, and what can never
//! start together is refused.

#![allow(clippy::unwrap_used)]

use plimsoll_abi::{Dtype, ErrorCode};
use plimsoll_runtime::untyped::{self, ElementSpec, Param, Task};
use plimsoll_runtime::{
    ArchSpec, Block, BlockKernel, Builder, CoreClass, Device, EmulatedOptions, InOut, InOutTile, KernelError,
    Orchestrator, PartInOut, ReadWrite, Result, RunOptions, SharedBuffer, TaskShape, VirtualOptions, inout,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// A chip of three clusters, of which two schedulers share the cores.
fn chip() -> ArchSpec {
    ArchSpec { clusters: 3, sched_threads: 2, ..ArchSpec::A5 }
}

/// Devices whose blocks run at the same time on threads, with how many blocks of a kernel for vector cores, and how many
/// mixed ones, can start together.
fn threaded() -> Vec<(&'static str, Builder, [u32; 2])> {
    let host = |workers: usize| Device::builder().workers(workers);
    // The one scheduler hands a cluster over while cohorts assemble.
    let one_scheduler = ArchSpec { sched_threads: 1, ..chip() };
    let joining = |arch: &ArchSpec| EmulatedOptions { orch_to_sched: true, ..EmulatedOptions::new(arch) };
    vec![
        ("host", host(4), [4, 4]),
        ("host that does not lend", host(4).lend(false), [3, 3]),
        ("emulated host", host(4).engine(EmulatedOptions::new(&ArchSpec::HOST)), [4, 4]),
        ("emulated a5", Device::builder().engine(EmulatedOptions::new(&chip())), [6, 3]),
        ("emulated host whose orchestrator joins in", host(4).engine(joining(&ArchSpec::HOST)), [4, 4]),
        ("emulated a5 whose orchestrator joins in", Device::builder().engine(joining(&one_scheduler)), [6, 3]),
    ]
}

/// Every engine.
fn all() -> Vec<(&'static str, Builder, [u32; 2])> {
    let mut devices = threaded();
    let host = Device::builder().workers(3);
    devices.push(("virtual host", host.clone().engine(VirtualOptions::new(&ArchSpec::HOST, 5)), [3, 3]));
    devices.push((
        "virtual host that does not lend",
        host.lend(false).engine(VirtualOptions::new(&ArchSpec::HOST, 5)),
        [2, 2],
    ));
    devices.push(("virtual a5", Device::builder().engine(VirtualOptions::new(&chip(), 5)), [6, 3]));
    devices
}

/// A kernel each of whose blocks waits for all the others.
fn meeting(device: &mut Device, blocks: u32) -> BlockKernel<(ReadWrite<i64>,)> {
    let barrier = Barrier::new(blocks as usize);
    device.block_kernel_on(CoreClass::Aiv, &format!("meet-{blocks}"), move |_: Block, mut x: InOutTile<i64>| {
        barrier.wait();
        x.row_mut(0).iter_mut().for_each(|x| *x += 1);
    })
}

const N: usize = 60;
const STEPS: usize = 20;

/// Cohorts of two sizes one after the other and beside each other, among ordinary tasks of which some take a while.
fn program(
    o: &mut Orchestrator<'_, '_>,
    cohorts: &[(u32, BlockKernel<(ReadWrite<i64>,)>)],
    nap: &plimsoll_runtime::Kernel<(ReadWrite<i64>,)>,
    buffers: &[SharedBuffer<i64>],
) -> Result<()> {
    let tensors: Vec<_> = buffers.iter().map(|buffer| o.share(buffer, [N])).collect::<Result<_>>()?;
    for _ in 0..STEPS {
        o.scope(|o| {
            for (at, x) in tensors.iter().enumerate() {
                let (blocks, meet) = &cohorts[at % cohorts.len()];
                o.submit_shaped(&TaskShape::blocks(*blocks).sync_start(), meet, (inout(x),))?;
                for row in 0..4 {
                    o.submit(nap, (inout(&x.slice(0, row * 15..row * 15 + 15)?),))?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn buffers() -> Vec<SharedBuffer<i64>> {
    (0..4).map(|_| SharedBuffer::new(vec![0; N])).collect()
}

#[test]
fn blocks_that_wait_for_each_other_go_on_among_ordinary_tasks() {
    for (name, builder, [most, _]) in threaded() {
        let mut device = builder.open().unwrap();
        let cohorts: Vec<_> = [most, 2].map(|blocks| (blocks, meeting(&mut device, blocks))).into();
        let nap = device.kernel("nap", |mut x: InOut<i64>| {
            std::thread::sleep(std::time::Duration::from_micros(20));
            x.row_mut(0).iter_mut().for_each(|x| *x += 1);
        });
        let out = buffers();
        device.run(|o| program(o, &cohorts, &nap, &out)).unwrap();
        let executions = 16 + 2 * (most as usize + 2);
        assert_eq!(device.report().dispatches as usize, STEPS * executions, "{name}");
        let expected = vec![2 * STEPS as i64; N];
        out.iter().for_each(|x| assert_eq!(x.to_vec().unwrap(), expected, "{name}, streamed"));
        let mut graph = device.prebuild(|o| program(o, &cohorts, &nap, &out)).unwrap();
        for launch in 1..3 {
            device.launch(&mut graph, 1, &RunOptions::default()).unwrap();
            let expected = vec![(2 + 2 * launch) * STEPS as i64; N];
            out.iter().for_each(|x| assert_eq!(x.to_vec().unwrap(), expected, "{name}, launch {launch}"));
        }
    }
}

/// A run that may give a kernel up executes tasks on threads that can be left behind; the orchestrator's seat counts all the same.
#[test]
fn a_budget_takes_no_seat_away() {
    let options = RunOptions { op_timeout: Some(std::time::Duration::from_secs(60)), ..RunOptions::default() };
    for (name, builder, [most, _]) in all() {
        let mut device = builder.open().unwrap();
        let meet = match name.contains("virtual") {
            // There a block ends before the next one is called.
            true => device.block_kernel_on(CoreClass::Aiv, "count", |_: Block, mut x: InOutTile<i64>| {
                x.row_mut(0).iter_mut().for_each(|x| *x += 1);
            }),
            false => meeting(&mut device, most),
        };
        let out = SharedBuffer::new(vec![0; N]);
        let program = |o: &mut Orchestrator<'_, '_>| {
            let x = o.share(&out, [N])?;
            (0..3)
                .try_for_each(|_| o.submit_shaped(&TaskShape::blocks(most).sync_start(), &meet, (inout(&x),)).map(drop))
        };
        device.run_with(&options, program).unwrap();
        let mut graph = device.prebuild(program).unwrap();
        device.launch(&mut graph, 1, &options).unwrap();
        assert_eq!(out.to_vec().unwrap(), [6; N], "{name}");
    }
}

/// The parts of all blocks are there at the same time, too: they exchange values and wait for the other blocks.
#[test]
fn mixed_blocks_start_together() {
    for (name, builder, [_, most]) in threaded() {
        let mut device = builder.open().unwrap();
        let barrier = Arc::new(Barrier::new(most as usize));
        let classes = [CoreClass::Aic, CoreClass::Aiv, CoreClass::Aiv];
        let mut part = 0;
        let parts = classes.map(|class| {
            part += 1;
            let barrier = Arc::clone(&barrier);
            let body = move |block: Block, mut x: PartInOut<i64, 1>| -> std::result::Result<(), KernelError> {
                if let Some(x) = x.own() {
                    let index = block.pop::<i64>(0)? + block.pop::<i64>(2)?;
                    x.row_mut(0).iter_mut().for_each(|x| *x += index);
                    return Ok(());
                }
                if block.part() == 0 {
                    barrier.wait();
                }
                Ok(block.push(1, block.index() as i64)?)
            };
            device.block_kernel_on(class, &format!("part-{part}"), body)
        });
        let out = SharedBuffer::new(vec![0i64; 12]);
        device
            .run(|o| {
                let x = o.share(&out, [12])?;
                for _ in 0..STEPS {
                    o.submit_shaped(&TaskShape::blocks(most).sync_start(), &parts, (inout(&x),))?;
                }
                Ok(())
            })
            .unwrap();
        let rows = 12 / most as usize;
        let expected: Vec<i64> = (0..12).map(|row| (2 * STEPS * (row / rows)) as i64).collect();
        assert_eq!(out.to_vec().unwrap(), expected, "{name}");
    }
}

#[test]
fn a_cohort_of_every_worker_waits_for_the_orchestrator_to_have_time() {
    let mut device = Device::builder().workers(3).open().unwrap();
    let meet = meeting(&mut device, 3);
    let out = SharedBuffer::new(vec![0i64; 3]);
    device
        .run(|o| {
            let x = o.share(&out, [3])?;
            for _ in 0..500 {
                o.submit_shaped(&TaskShape::blocks(3).sync_start(), &meet, (inout(&x),))?;
            }
            let read = o.read(&x)?;
            assert_eq!(read, [500; 3], "a read lends a hand");
            o.submit_shaped(&TaskShape::blocks(3).sync_start(), &meet, (inout(&x),))?;
            // Others wait in their seats meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(())
        })
        .unwrap();
    assert_eq!(out.to_vec().unwrap(), [501; 3]);
}

#[test]
fn every_engine_gives_the_same_result_and_refuses_what_never_fits() {
    for (name, builder, [most, mixed]) in all() {
        let mut device = builder.open().unwrap();
        let add = device.block_kernel_on(CoreClass::Aiv, "add", |block: Block, mut x: InOutTile<i64>| {
            x.row_mut(0).iter_mut().for_each(|x| *x += block.index() as i64);
        });
        let part = |class, name: &str, device: &mut Device| {
            device.block_kernel_on(class, name, |_: Block, mut x: PartInOut<i64, 1>| {
                if let Some(x) = x.own() {
                    x.row_mut(0).iter_mut().for_each(|x| *x += 1);
                }
            })
        };
        let parts = [part(CoreClass::Aic, "matrix", &mut device), part(CoreClass::Aiv, "vector", &mut device)];
        let n = 840;
        let out = SharedBuffer::new(vec![0i64; n]);
        let submit = |o: &mut Orchestrator<'_, '_>, blocks: u32, mixed: u32| -> Result<()> {
            let x = o.share(&out, [n])?;
            o.submit_shaped(&TaskShape::blocks(blocks).sync_start(), &add, (inout(&x),))?;
            o.submit_shaped(&TaskShape::blocks(mixed).sync_start(), &parts, (inout(&x),)).map(drop)
        };
        device.run(|o| submit(o, most, mixed)).unwrap();
        let rows = n / most as usize;
        let expected: Vec<i64> = (0..n).map(|row| (row / rows) as i64 + 1).collect();
        assert_eq!(out.to_vec().unwrap(), expected, "{name}");
        for [blocks, mixed] in [[most + 1, mixed], [most, mixed + 1]] {
            // As many rows as can be divided among them.
            let wrong = |o: &mut Orchestrator<'_, '_>| submit(o, blocks, mixed);
            let error = device.run(wrong).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidSyncStart, "{name}: {error}");
            assert_eq!(device.prebuild(wrong).unwrap_err().code(), ErrorCode::InvalidSyncStart, "{name}, prebuilt");
        }
        device.run(|o| submit(o, most, mixed)).unwrap();
    }
}

#[test]
fn a_cohort_of_one_block_is_a_block() {
    let mut device = Device::builder().workers(1).open().unwrap();
    let meet = meeting(&mut device, 1);
    let out = SharedBuffer::new(vec![0i64; 4]);
    let submit = |o: &mut Orchestrator<'_, '_>| {
        let x = o.share(&out, [4])?;
        o.submit_shaped(&TaskShape::blocks(1).sync_start(), &meet, (inout(&x),)).map(drop)
    };
    device.run(submit).unwrap();
    assert_eq!(out.to_vec().unwrap(), [1; 4]);
}

/// A run that fails while a cohort assembles, or waits for its turn, ends; and the device works on.
#[test]
fn a_run_that_fails_while_cohorts_assemble_ends() {
    for (name, builder, [most, _]) in threaded() {
        let mut device = builder.open().unwrap();
        let meet = meeting(&mut device, most);
        let begun = Arc::new(AtomicUsize::new(0));
        let fail = {
            let begun = Arc::clone(&begun);
            device.kernel_on(CoreClass::Aiv, "fail", move |mut x: InOut<i64>| {
                begun.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(5));
                x[[0]] += 1;
                Err::<(), _>("as it should")
            })
        };
        let out = buffers();
        for _ in 0..10 {
            let error = device
                .run(|o| {
                    let wrong = o.own(vec![0i64], [1])?;
                    o.submit(&fail, (inout(&wrong),))?;
                    for x in &out {
                        let x = o.share(x, [N])?;
                        o.submit_shaped(&TaskShape::blocks(most).sync_start(), &meet, (inout(&x),))?;
                    }
                    Ok(())
                })
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::KernelFailed, "{name}: {error}");
        }
        assert_eq!(begun.load(Ordering::Relaxed), 10, "{name}");
        device
            .run(|o| {
                let x = o.share(&out[0], [N])?;
                o.submit_shaped(&TaskShape::blocks(most).sync_start(), &meet, (inout(&x),)).map(drop)
            })
            .unwrap();
    }
}

#[test]
fn the_untyped_tier_starts_blocks_together_and_refuses_as_the_typed_one() {
    const I64: ElementSpec = ElementSpec::of(Dtype::I64);
    for (name, builder, [most, _]) in threaded() {
        let mut device = builder.open().unwrap();
        let barrier = Barrier::new(most as usize);
        let add = move |call: &untyped::Call<'_>| -> std::result::Result<(), KernelError> {
            let x = call.arg(0).unwrap();
            barrier.wait();
            // SAFETY: every block has an element of its own.
            unsafe { *x.data().cast::<i64>().add(call.block() as usize) += i64::from(call.block()) };
            Ok(())
        };
        // SAFETY: the body touches the row of its own block only.
        let add = unsafe {
            let params = [Param::read_write(I64).by_rows()];
            device.block_kernel_untyped(CoreClass::Aiv, "add", Some(&params), add).unwrap()
        };
        let rows = most as usize;
        let mut out = vec![0u8; 8 * rows];
        let ran = device.run_untyped(&RunOptions::default(), |o| {
            let x = o.own(vec![0u8; 8 * rows], I64, &[rows])?;
            let args = [untyped::Arg::inout(&x)];
            o.submit(&Task::new(add, &args).blocks(most).sync_start(), &mut Vec::new())?;
            o.read(&x, &mut out)
        });
        ran.unwrap();
        let values: Vec<i64> = out.chunks_exact(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(values, (0..i64::from(most)).collect::<Vec<_>>(), "{name}");
        let refused = device.run_untyped(&RunOptions::default(), |o| {
            let x = o.own(vec![0u8; 8 * (rows + 1)], I64, &[rows + 1])?;
            o.submit(&Task::new(add, &[untyped::Arg::inout(&x)]).blocks(most + 1).sync_start(), &mut Vec::new())
        });
        assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidSyncStart, "{name}");
    }
}
