//! Graphs of known shapes, those of the peers and one more: the accesses are given, the dependencies are inferred.
//!
//! | shape | tasks |
//! |---|---|
//! | independent | no accesses |
//! | own-datum | every task updates a datum of its own |
//! | chain | every task updates the same datum |
//! | fork-join | 1 → 64 → 1, repeated; the join reads 64 data |
//! | wavefront | √n × √n; updates one datum of its row and one of its column |
//! | cholesky | tiled factorisation |
//! | paged-attention | 8 batches × 8 heads; per block QK → softmax → PV → update of an accumulator |
//! | stencil | two plates of 16 × 16 tiles in turns; a tile from its like and strips of its four neighbours |
//! | stencil-9 | the same from one view of the tile with its halo |
//! | lu | tiled factorisation by column and row panels |
//! | sliding | a ring of 16 chunks; each is overwritten in turn, then a window of 3½ chunks is read |
//! | fibonacci | every task reads what the two before it made and makes one more |

use super::grain::grind;
use super::overlaps;
use clap::ValueEnum;
use plimsoll::{Device, In, InList, InOut, Orchestrator, Out, Result, Tensor, inout, input, input_list, output};

/// The shape of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Shape {
    /// No accesses
    Independent,
    /// Every task updates a datum of its own
    OwnDatum,
    /// Every task updates the same datum
    Chain,
    /// 1 → 64 → 1, repeated
    ForkJoin,
    /// A grid; every task updates its row's and its column's datum
    Wavefront,
    /// Tiled Cholesky factorisation
    Cholesky,
    /// Attention over blocks, 8 batches × 8 heads
    PagedAttention,
    /// Two plates in turns: a tile from its like and strips of its four neighbours
    Stencil,
    /// The same from one view of the tile with its halo
    #[value(name = "stencil-9")]
    Stencil9,
    /// Tiled LU factorisation by column and row panels
    Lu,
    /// A moving window over a ring of chunks
    Sliding,
    /// Every task reads what the two before it made and makes one more
    Fibonacci,
}

/// Tasks of one scope: small enough that several fit a task window.
pub(super) const SCOPE: usize = 1024;
const BATCHES: usize = 8;
const HEADS: usize = 8;
const FORK: usize = 64;
/// Tiles along a side of a plate.
const SIDE: usize = 16;

type K<T> = plimsoll::Kernel<T>;

/// The kernels of all shapes: each grinds for its grain and touches nothing.
pub(super) struct ShapeKernels {
    none: K<()>,
    pub(super) update: K<(plimsoll::kernel::ReadWrite<f32>,)>,
    update2: K<(plimsoll::kernel::ReadWrite<f32>, plimsoll::kernel::ReadWrite<f32>)>,
    pub(super) read_update: K<(plimsoll::kernel::Read<f32>, plimsoll::kernel::ReadWrite<f32>)>,
    pub(super) read2_update:
        K<(plimsoll::kernel::Read<f32>, plimsoll::kernel::Read<f32>, plimsoll::kernel::ReadWrite<f32>)>,
    pub(super) join: K<(plimsoll::kernel::ReadList<f32>, plimsoll::kernel::ReadWrite<f32>)>,
    read_make: K<(plimsoll::kernel::Read<f32>, plimsoll::kernel::Write<f32>)>,
    read2_make: K<(plimsoll::kernel::Read<f32>, plimsoll::kernel::Read<f32>, plimsoll::kernel::Write<f32>)>,
}

impl ShapeKernels {
    pub(super) fn new(device: &mut Device, grain: u32) -> Self {
        Self {
            none: device.kernel("none", move || grind(grain)),
            update: device.kernel("update", move |_: InOut<f32>| grind(grain)),
            update2: device.kernel("update2", move |_: InOut<f32>, _: InOut<f32>| grind(grain)),
            read_update: device.kernel("read_update", move |_: In<f32>, _: InOut<f32>| grind(grain)),
            read2_update: device.kernel("read2_update", move |_: In<f32>, _: In<f32>, _: InOut<f32>| grind(grain)),
            join: device.kernel("join", move |_: InList<f32>, _: InOut<f32>| grind(grain)),
            read_make: device.kernel("read_make", move |_: In<f32>, _: Out<f32>| grind(grain)),
            read2_make: device.kernel("read2_make", move |_: In<f32>, _: In<f32>, _: Out<f32>| grind(grain)),
        }
    }
}

impl Shape {
    /// The number nearest to `tasks` that the shape can have.
    pub(super) fn tasks(self, tasks: usize) -> usize {
        match self {
            Shape::Independent | Shape::OwnDatum | Shape::Chain | Shape::Fibonacci => tasks,
            Shape::ForkJoin => (tasks / (FORK + 1)).max(1) * (FORK + 1),
            Shape::Wavefront => side(tasks).pow(2),
            Shape::Cholesky => cholesky_tasks(cholesky_tiles(tasks)),
            Shape::PagedAttention => attention_blocks(tasks) * 4 * BATCHES * HEADS,
            Shape::Stencil | Shape::Stencil9 => overlaps::steps(tasks, SIDE) * SIDE * SIDE,
            Shape::Lu => overlaps::lu_tasks(overlaps::lu_tiles(tasks)),
            Shape::Sliding => overlaps::laps(tasks) * overlaps::TASKS_OF_A_LAP,
        }
    }

    /// Submits the graph.
    pub(super) fn submit(self, o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, tasks: usize) -> Result<()> {
        match self {
            Shape::Independent => in_scopes(o, tasks, |o, _| o.submit(&k.none, ())),
            Shape::OwnDatum => {
                let data = o.own(vec![0.0; tasks], [tasks])?;
                in_scopes(o, tasks, |o, i| o.submit(&k.update, (inout(&data.tile([i], [1])?),)).map(|_| ()))
            }
            Shape::Chain => {
                let datum = o.own(vec![0.0], [1])?;
                in_scopes(o, tasks, |o, _| o.submit(&k.update, (inout(&datum),)).map(|_| ()))
            }
            Shape::ForkJoin => fork_join(o, k, self.tasks(tasks)),
            Shape::Wavefront => wavefront(o, k, side(tasks)),
            Shape::Cholesky => cholesky(o, k, cholesky_tiles(tasks)),
            Shape::PagedAttention => attention(o, k, attention_blocks(tasks)),
            Shape::Stencil | Shape::Stencil9 => overlaps::stencil(o, k, self, tasks, SIDE, false),
            Shape::Lu => overlaps::lu(o, k, overlaps::lu_tiles(tasks)),
            Shape::Sliding => overlaps::sliding(o, k, overlaps::laps(tasks)),
            Shape::Fibonacci => fibonacci(o, k, tasks),
        }
    }
}

/// Calls `submit` for every number below `tasks`, in scopes of a fixed number of tasks.
fn in_scopes(
    o: &mut Orchestrator<'_, '_>,
    tasks: usize,
    mut submit: impl FnMut(&mut Orchestrator<'_, '_>, usize) -> Result<()>,
) -> Result<()> {
    for first in (0..tasks).step_by(SCOPE) {
        o.scope(|o| (first..(first + SCOPE).min(tasks)).try_for_each(|i| submit(o, i)))?;
    }
    Ok(())
}

fn fork_join(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, tasks: usize) -> Result<()> {
    let hub = o.own(vec![0.0f32], [1])?;
    let data = o.own(vec![0.0f32; FORK], [FORK])?;
    let spokes: Vec<Tensor<'_, f32>> = (0..FORK).map(|j| data.tile([j], [1])).collect::<Result<_>>()?;
    let rounds = tasks / (FORK + 1);
    const ROUNDS: usize = SCOPE / (FORK + 1);
    for first in (0..rounds).step_by(ROUNDS) {
        o.scope(|o| {
            for _ in first..(first + ROUNDS).min(rounds) {
                o.submit(&k.join, (input_list(&spokes), inout(&hub)))?;
                for spoke in &spokes {
                    o.submit(&k.read_update, (input(&hub), inout(spoke)))?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn side(tasks: usize) -> usize {
    tasks.isqrt().max(1)
}

fn wavefront(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, side: usize) -> Result<()> {
    let rows = o.own(vec![0.0f32; side], [side])?;
    let columns = o.own(vec![0.0f32; side], [side])?;
    in_scopes(o, side * side, |o, at| {
        let (row, column) = (rows.tile([at / side], [1])?, columns.tile([at % side], [1])?);
        o.submit(&k.update2, (inout(&row), inout(&column))).map(|_| ())
    })
}

fn cholesky_tasks(tiles: usize) -> usize {
    tiles * (tiles + 1) * (tiles + 2) / 6
}

/// Tiles per side whose factorisation has about this many tasks; 60 for the 37,820 of the peers.
fn cholesky_tiles(tasks: usize) -> usize {
    (1..).find(|&tiles| cholesky_tasks(tiles + 1) > tasks.max(1)).unwrap_or(1)
}

fn cholesky(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, tiles: usize) -> Result<()> {
    let matrix = o.own(vec![0.0f32; tiles * tiles], [tiles, tiles])?;
    for step in 0..tiles {
        o.scope(|o| {
            let at = |i, j| matrix.tile([i, j], [1, 1]);
            let corner = at(step, step)?;
            o.submit(&k.update, (inout(&corner),))?;
            let below: Vec<_> = (step + 1..tiles).map(|i| at(i, step)).collect::<Result<_>>()?;
            for tile in &below {
                o.submit(&k.read_update, (input(&corner), inout(tile)))?;
            }
            for (i, left) in (step + 1..).zip(&below) {
                for (j, above) in (step + 1..i).zip(&below) {
                    o.submit(&k.read2_update, (input(left), input(above), inout(&at(i, j)?)))?;
                }
                o.submit(&k.read_update, (input(left), inout(&at(i, i)?)))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn attention_blocks(tasks: usize) -> usize {
    (tasks / (4 * BATCHES * HEADS)).max(1)
}

fn attention(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, blocks: usize) -> Result<()> {
    let queries = o.own(vec![0.0f32; BATCHES * HEADS], [BATCHES * HEADS])?;
    let keys = o.own(vec![0.0f32; BATCHES * blocks], [BATCHES * blocks])?;
    let values = o.own(vec![0.0f32; BATCHES * blocks], [BATCHES * blocks])?;
    let sums = o.own(vec![0.0f32; BATCHES * HEADS], [BATCHES * HEADS])?;
    for batch in 0..BATCHES {
        for head in 0..HEADS {
            let at = batch * HEADS + head;
            let (query, sum) = (queries.tile([at], [1])?, sums.tile([at], [1])?);
            const BLOCKS: usize = SCOPE / 4;
            for first in (0..blocks).step_by(BLOCKS) {
                o.scope(|o| {
                    for block in first..(first + BLOCKS).min(blocks) {
                        let key = keys.tile([batch * blocks + block], [1])?;
                        let value = values.tile([batch * blocks + block], [1])?;
                        let (.., score) = o.submit(&k.read2_make, (input(&query), input(&key), output([1])))?;
                        let (.., weight) = o.submit(&k.read_make, (input(&score), output([1])))?;
                        let (.., part) = o.submit(&k.read2_make, (input(&weight), input(&value), output([1])))?;
                        o.submit(&k.read_update, (input(&part), inout(&sum)))?;
                    }
                    Ok(())
                })?;
            }
        }
    }
    Ok(())
}

fn fibonacci(o: &mut Orchestrator<'_, '_>, k: &ShapeKernels, tasks: usize) -> Result<()> {
    let seeds = [o.own(vec![0.0f32], [1])?, o.own(vec![0.0f32], [1])?];
    for first in (0..tasks).step_by(SCOPE) {
        o.scope(|o| {
            let (.., seed) = o.submit(&k.read2_make, (input(&seeds[0]), input(&seeds[1]), output([1])))?;
            let mut pair = [seed; 2];
            for at in first + 1..(first + SCOPE).min(tasks) {
                // The two handles are overwritten in turns, so that none is moved.
                (.., pair[at % 2]) = o.submit(&k.read2_make, (input(&pair[0]), input(&pair[1]), output([1])))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
