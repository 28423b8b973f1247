//! Graphs whose tasks use parts that overlap without being the same: halos, panels, a moving window.

use super::shapes::{Shape, ShapeKernels};
use plimsoll::abi::Resource;
use plimsoll::{Capacities, Device, Orchestrator, Result, Tensor, inout, input, input_list};

/// Elements of a tile along each side: enough that a halo of one is less than a tile.
const TILE: usize = 4;
/// Tiles along a side of a plate all of whose steps share a scope.
pub(super) const FLAT_SIDE: usize = 8;
/// The least that `plimsoll size` recommends.
const LEAST_WINDOW: u32 = 16;
const PAGE: u64 = 4096;
/// Chunks of a ring, their elements, and those of a window, which touches four chunks.
const CHUNKS: usize = 16;
const CHUNK: usize = 4;
const WINDOW: usize = 14;
const CHUNKS_OF_A_WINDOW: usize = WINDOW.div_ceil(CHUNK);
const SUMS_OF_A_LAP: usize = CHUNKS + 1 - CHUNKS_OF_A_WINDOW;
pub(super) const TASKS_OF_A_LAP: usize = CHUNKS + SUMS_OF_A_LAP;
/// Laps that share a scope.
const LAPS: usize = 32;

/// The steps of a stencil with about this many tasks.
pub(super) fn steps(tasks: usize, side: usize) -> usize {
    (tasks / (side * side)).max(1)
}

/// Tasks of a stencil that is flat.
pub(super) fn flat_tasks(tasks: usize) -> usize {
    steps(tasks, FLAT_SIDE) * FLAT_SIDE * FLAT_SIDE
}

/// Rings for a stencil that is flat, as `plimsoll size` recommends them: twice what the open scope holds in a first run.
pub(super) fn flat_capacities(shape: Shape, tasks: usize) -> anyhow::Result<Capacities> {
    let mut room = Capacities::default();
    // A task of the stencil has at most 18 producers and 6 arguments.
    room.rings[1].window = u32::try_from(tasks.next_power_of_two())?;
    room.rings[1].dep_pool = u32::try_from(18 * tasks)?;
    room.tensormap = u32::try_from(6 * tasks)?;
    let mut device = Device::builder().capacities(room).workers(1).open()?;
    let kernels = ShapeKernels::new(&mut device, 0);
    device.run(|o| stencil(o, &kernels, shape, tasks, FLAT_SIDE, true))?;
    for load in &device.report().load {
        let twice = u32::try_from(2 * load.floor)?;
        let ring = &mut room.rings[load.ring.map_or(0, usize::from)];
        match load.resource {
            Resource::TaskWindow => ring.window = twice.max(LEAST_WINDOW),
            Resource::Heap => ring.heap = u64::from(twice).next_multiple_of(PAGE),
            Resource::DepPool => ring.dep_pool = twice,
            Resource::Tensormap => room.tensormap = twice,
        }
    }
    Ok(room)
}

/// What a task of a stencil uses: a tile and strips of its neighbours, or one view; and the tile that it writes.
struct Step<'s> {
    parts: Vec<Tensor<'s, f32>>,
    out: Tensor<'s, f32>,
}

/// Rows and columns of a part.
fn part<'s>(of: &Tensor<'s, f32>, rows: [usize; 2], columns: [usize; 2]) -> Result<Tensor<'s, f32>> {
    of.slice(0, rows[0]..rows[1])?.slice(1, columns[0]..columns[1])
}

fn views<'s>(shape: Shape, from: &Tensor<'s, f32>, to: &Tensor<'s, f32>, side: usize) -> Result<Vec<Step<'s>>> {
    let mut steps = Vec::with_capacity(side * side);
    for at in 0..side * side {
        // Tiles begin behind a border of one element.
        let (row, column) = (1 + at / side * TILE, 1 + at % side * TILE);
        let out = part(to, [row, row + TILE], [column, column + TILE])?;
        if shape == Shape::Stencil9 {
            let halo = part(from, [row - 1, row + TILE + 1], [column - 1, column + TILE + 1])?;
            steps.push(Step { parts: vec![halo], out });
            continue;
        }
        let [(above, rows, below), (left, columns, right)] =
            [row, column].map(|at| ([at - 1, at], [at, at + TILE], [at + TILE, at + TILE + 1]));
        let parts = vec![
            part(from, rows, columns)?,
            part(from, above, columns)?,
            part(from, below, columns)?,
            part(from, rows, left)?,
            part(from, rows, right)?,
        ];
        steps.push(Step { parts, out });
    }
    Ok(steps)
}

/// A stencil of `side` × `side` tiles; a scope per step, or one for all.
pub(super) fn stencil(
    o: &mut Orchestrator<'_, '_>,
    k: &ShapeKernels,
    shape: Shape,
    tasks: usize,
    side: usize,
    flat: bool,
) -> Result<()> {
    let size = side * TILE + 2;
    let plates = [o.own(vec![0.0f32; size * size], [size, size])?, o.own(vec![0.0f32; size * size], [size, size])?];
    let turns = [views(shape, &plates[0], &plates[1], side)?, views(shape, &plates[1], &plates[0], side)?];
    let step = |o: &mut Orchestrator<'_, '_>, at: usize| {
        turns[at % 2].iter().try_for_each(|Step { parts, out }| match &parts[..] {
            [halo] => o.submit(&k.read_update, (input(halo), inout(out))).map(|_| ()),
            parts => o.submit(&k.join, (input_list(parts), inout(out))).map(|_| ()),
        })
    };
    if flat {
        return o.scope(|o| (0..steps(tasks, side)).try_for_each(|at| step(o, at)));
    }
    (0..steps(tasks, side)).try_for_each(|at| o.scope(|o| step(o, at)))
}

pub(super) fn lu_tasks(tiles: usize) -> usize {
    (tiles - 1) * tiles * (2 * tiles - 1) / 6 + 2 * tiles - 1
}

/// Tiles per side whose factorisation has about this many tasks.
pub(super) fn lu_tiles(tasks: usize) -> usize {
    (1..).find(|&tiles| lu_tasks(tiles + 1) > tasks.max(1)).unwrap_or(1)
}

/// LU by panels: a column panel, the row panel to the right of it, and what is left tile by tile.
pub(super) fn lu(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, tiles: usize) -> Result<()> {
    let matrix = o.own(vec![0.0f32; tiles * tiles], [tiles, tiles])?;
    for step in 0..tiles {
        o.scope(|o| {
            let at = |i, j| matrix.tile([i, j], [1, 1]);
            o.submit(&k.update, (inout(&part(&matrix, [step, tiles], [step, step + 1])?),))?;
            if step + 1 == tiles {
                return Ok(());
            }
            let row = part(&matrix, [step, step + 1], [step + 1, tiles])?;
            o.submit(&k.read_update, (input(&at(step, step)?), inout(&row)))?;
            for i in step + 1..tiles {
                o.scope(|o| {
                    let left = at(i, step)?;
                    (step + 1..tiles).try_for_each(|j| {
                        let (above, out) = (at(step, j)?, at(i, j)?);
                        o.submit(&k.read2_update, (input(&left), input(&above), inout(&out))).map(|_| ())
                    })
                })?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn laps(tasks: usize) -> usize {
    (tasks / TASKS_OF_A_LAP).max(1)
}

/// A ring of chunks: each is overwritten in turn, then a window that ends with it is read, unless it would wrap.
pub(super) fn sliding(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, laps: usize) -> Result<()> {
    let ring = o.own(vec![0.0f32; CHUNKS * CHUNK], [CHUNKS * CHUNK])?;
    let sums = o.own(vec![0.0f32; laps * SUMS_OF_A_LAP], [laps * SUMS_OF_A_LAP])?;
    for first in (0..laps).step_by(LAPS) {
        o.scope(|o| {
            for lap in first..(first + LAPS).min(laps) {
                for chunk in 0..CHUNKS {
                    o.submit(&k.update, (inout(&ring.tile([chunk], [CHUNK])?),))?;
                    let Some(sum) = (chunk + 1).checked_sub(CHUNKS_OF_A_WINDOW) else { continue };
                    let end = (chunk + 1) * CHUNK;
                    let window = ring.slice(0, end - WINDOW..end)?;
                    let sum = sums.tile([lap * SUMS_OF_A_LAP + sum], [1])?;
                    o.submit(&k.read_update, (input(&window), inout(&sum)))?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}
