//! After a device is open and has run once, tasks allocate nothing, on any thread; and memory does not grow with them.
//!
//! One test, because the counter is the process's.

mod scale;

use plimsoll_runtime::{Capacities, Device, InOut, Kernel, Orchestrator, Out, ReadWrite, Result, Site, Value, Write};
use plimsoll_runtime::{In, Read, inout, input, output, output_existing, scalar};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

type FourTiles = (Read<i64>, Read<i64>, Read<i64>, Read<i64>, ReadWrite<i64>);

struct Kernels {
    make: Kernel<(Write<i64>, Value<i64>)>,
    add: Kernel<(Read<i64>, ReadWrite<i64>)>,
    sum: Kernel<FourTiles>,
    halo: Kernel<(Read<i64>, Write<i64>)>,
}

fn register(device: &mut Device) -> Kernels {
    Kernels {
        make: device.kernel("make", |mut x: Out<i64>, value: i64| x.fill(value)),
        add: device.kernel("add", |a: In<i64>, mut x: InOut<i64>| {
            for i in 0..x.len() {
                x[[i]] = x[[i]].wrapping_mul(3).wrapping_add(a[[i]]);
            }
        }),
        sum: device.kernel("sum", |a: In<i64>, b: In<i64>, c: In<i64>, d: In<i64>, mut x: InOut<i64>| {
            x[[0]] += a[[0, 0]] + b[[0, 0]] + c[[0, 0]] + d[[0, 0]];
        }),
        halo: device.kernel("halo", |a: In<i64>, mut x: Out<i64>| {
            for i in 0..4 {
                for j in 0..4 {
                    x[[i, j]] = a[[i, j]].wrapping_add(a[[i + 2, j + 2]]);
                }
            }
        }),
    }
}

/// Tasks of one scope: outputs, tiles, explicit dependencies, arguments that do not fit their slot, a nested scope, and a step of
/// a stencil over four tiles, each of which reads its halo from one plate and writes its tile of the other.
const TASKS: u64 = 14;

fn scope(o: &mut Orchestrator<'_, '_>, kernels: &Kernels, host: &Host<'_>, turn: u64) -> Result<()> {
    o.scope(|o| {
        let (a, _) = o.submit(&kernels.make, (output([16]), scalar(3)))?;
        let (b, _) = o.submit(&kernels.make, (output([16]), scalar(4)))?;
        o.submit(&kernels.add, (input(&a), inout(&b)))?;
        let last = o.last().expect("a task was submitted");
        o.submit_after(&[last], &kernels.add, (input(&b), inout(&a)))?;
        let tile = |i, j| host.matrix.tile([i, j], [4, 4]);
        let (p, q, r, s) = (tile(0, 0)?, tile(0, 1)?, tile(1, 0)?, tile(1, 1)?);
        o.submit(&kernels.sum, (input(&p), input(&q), input(&r), input(&s), inout(&host.vector)))?;
        o.submit(&kernels.make, (output_existing(&tile(1, 0)?.slice(0, 0..1)?.reshape([4])?), scalar(5)))?;
        o.scope(|o| {
            let (c, _) = o.submit(&kernels.make, (output([16]), scalar(1)))?;
            o.submit(&kernels.add, (input(&a), inout(&c)))?;
            o.submit(&kernels.add, (input(&c), inout(&host.vector)))?;
            Ok(())
        })?;
        o.submit(&kernels.add, (input(&b), inout(&host.vector)))?;
        let [from, to] = if turn.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let halo = host.plates[from].slice(0, 4 * i..4 * i + 6)?.slice(1, 4 * j..4 * j + 6)?;
            let rows = host.plates[to].slice(0, 4 * i + 1..4 * i + 5)?;
            let tile = rows.slice(1, 4 * j + 1..4 * j + 5)?;
            o.submit(&kernels.halo, (input(&halo), output_existing(&tile)))?;
        }
        Ok(())
    })
}

struct Host<'s> {
    matrix: plimsoll_runtime::Tensor<'s, i64>,
    vector: plimsoll_runtime::Tensor<'s, i64>,
    /// Two plates of 8 × 8 with a border of one.
    plates: [plimsoll_runtime::Tensor<'s, i64>; 2],
}

/// Runs that many tasks and returns the allocations and the resident bytes afterwards.
fn run(device: &mut Device, kernels: &Kernels, tasks: u64) -> (u64, u64) {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    device
        .run(|o| {
            let plates = [o.own(vec![1; 100], [10, 10])?, o.own(vec![2; 100], [10, 10])?];
            let host = Host { matrix: o.own(vec![1; 64], [8, 8])?, vector: o.own(vec![0; 16], [16])?, plates };
            (0..tasks / TASKS).try_for_each(|turn| scope(o, kernels, &host, turn))
        })
        .expect("the program is valid");
    let allocations = ALLOCATIONS.load(Ordering::SeqCst) - before;
    assert_eq!(device.report().tasks, tasks);
    (allocations, resident_bytes())
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    // SAFETY: a query without memory.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// How much of a pool is touched depends on how far the submitter gets ahead of the workers, and so on who has the CPU. Of small
/// ones all is touched soon.
fn small_capacities() -> Capacities {
    let mut capacities = Capacities { tensormap: 8192, ..Capacities::default() };
    for ring in &mut capacities.rings {
        (ring.window, ring.heap, ring.dep_pool) = (1024, 1 << 20, 2048);
    }
    capacities
}

/// Programs in C and Python name the site of every scope that they open.
fn naming_a_site_again_allocates_nothing() {
    let site = Site::foreign("mine.c", 7);
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    for _ in 0..100 {
        assert_eq!(Site::foreign("mine.c", 7), site);
    }
    let allocations = ALLOCATIONS.load(Ordering::SeqCst) - before;
    // The harness has a thread of its own, which may allocate now and then.
    assert!(allocations < 10, "{allocations} allocations of 100 lookups");
}

#[test]
fn tasks_allocate_nothing_and_memory_does_not_grow_with_them() {
    naming_a_site_again_allocates_nothing();
    let scaled = |tasks| u64::from(scale::cases(tasks)).next_multiple_of(TASKS);
    for workers in [1, 2, 4] {
        let mut device = Device::builder().workers(workers).capacities(small_capacities()).open().expect("valid sizes");
        let kernels = register(&mut device);
        run(&mut device, &kernels, 20 * TASKS);
        let (few, _) = run(&mut device, &kernels, 20 * TASKS);
        let (many, _) = run(&mut device, &kernels, scaled(100_000));
        // A run makes its tables, its report and the boxes of four host buffers.
        assert!(few < 40, "{few} allocations of a run of {} tasks on {workers} workers", 20 * TASKS);
        // A worker that enters a run makes a box or two for it. It may come too late for a run of few tasks.
        let late = 2 * (workers as u64 - 1);
        assert!(many <= few + late, "{few} allocations became {many} with the number of tasks, on {workers} workers");
        if scale::is_sanitized() {
            // What the sanitizer keeps for itself would be measured too.
            continue;
        }
        let (_, small) = run(&mut device, &kernels, 200_000_u64.next_multiple_of(TASKS));
        let (_, large) = run(&mut device, &kernels, 1_000_000_u64.next_multiple_of(TASKS));
        // Less than three bytes per task: whatever a task leaves behind is more.
        assert!(large < small + (2 << 20), "{small} resident bytes became {large} on {workers} workers");
    }
}
