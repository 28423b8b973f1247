//! `spmd`: a smoothing of a ring of numbers, every step of which is one task in blocks.
//!
//! Each step: `advance` computes, block by block, every element from its two neighbours and itself; `decide` looks at the
//! result and says whether it is to be turned or shifted; `turn` is skipped unless it says the one, `shift` if it does; the blocks
//! of `trim` start together; a dummy ends the step. Everything is computed in whole numbers, so the result is compared exactly.

use crate::noise::Noise;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    Block, BlockKernel, CoreClass, Device, Error, In, InOutTile, Kernel, Orchestrator, Out, OutTile, Read, ReadWrite,
    Result, SharedBuffer, TaskShape, Write, inout, input, output_existing,
};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "spmd",
    about: "steps over a ring of numbers, each a task in blocks, some predicated, some that start together",
    params: &[
        ProgramSetting::new("n", 1 << 12, 1, 1 << 24, "elements of the ring"),
        ProgramSetting::new("blocks", 64, 1, 1 << 20, "blocks of a task; divides n"),
        ProgramSetting::new("steps", 12, 1, 1 << 20, "steps"),
        ProgramSetting::new("cohort", 0, 0, 1 << 20, "blocks that start together; divides n; 0: as many as can"),
    ],
    fault: false,
    build,
};

struct Spmd {
    n: usize,
    blocks: u32,
    /// Blocks of the task whose blocks start together.
    cohort: u32,
    steps: usize,
    advance: BlockKernel<(Read<i64>, Write<i64>)>,
    decide: Kernel<(Read<i64>, Write<i64>)>,
    turn: BlockKernel<(ReadWrite<i64>,)>,
    shift: BlockKernel<(ReadWrite<i64>,)>,
    trim: BlockKernel<(ReadWrite<i64>,)>,
    /// The ring before and after a step.
    rings: [SharedBuffer<i64>; 2],
    turns: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, blocks, steps) = (settings.get("n"), settings.get("blocks"), settings.get("steps"));
    if !n.is_multiple_of(blocks) {
        return Err(Error::invalid(format!(
            "{n} elements cannot be divided among {blocks} blocks. Every block writes as many. Let blocks divide n."
        )));
    }
    let advance = device.block_kernel_on(CoreClass::Aiv, "advance", |_: Block, x: In<i64>, mut y: OutTile<i64>| {
        let (all, first) = (x.row(0), y.first_row());
        y.row_mut(0).iter_mut().enumerate().for_each(|(i, y)| *y = smoothed(all, first + i));
    });
    let decide = device.kernel_on(CoreClass::Aic, "decide", |x: In<i64>, mut turns: Out<i64>| {
        turns[[0]] = decided(x.row(0));
    });
    let turn = device.block_kernel("turn", |block: Block, mut x: InOutTile<i64>| {
        debug_assert_eq!(x.first_row(), block.index() * x.len());
        x.row_mut(0).iter_mut().for_each(|x| *x = turned(*x));
    });
    let shift = device.block_kernel("shift", |_: Block, mut x: InOutTile<i64>| {
        let first = x.first_row();
        x.row_mut(0).iter_mut().enumerate().for_each(|(i, x)| *x = shifted(*x, first + i));
    });
    let trim = device.block_kernel_on(CoreClass::Aiv, "trim", |_: Block, mut x: InOutTile<i64>| {
        x.row_mut(0).iter_mut().for_each(|x| *x = trimmed(*x));
    });
    let cohort = cohort(settings.get("cohort"), n, device.limits().together(CoreClass::Aiv))?;
    let rings = [SharedBuffer::new(first_ring(n)), SharedBuffer::new(vec![0; n])];
    let turns = SharedBuffer::new(vec![0]);
    Ok(Box::new(Spmd { n, blocks: blocks as u32, cohort, steps, advance, decide, turn, shift, trim, rings, turns }))
}

/// How many blocks start together: as many as were asked for, or as divide the elements and can.
fn cohort(asked: usize, n: usize, most: usize) -> Result<u32> {
    if asked > 0 && !n.is_multiple_of(asked) {
        return Err(Error::invalid(format!(
            "{n} elements cannot be divided among {asked} blocks that start together. Every block writes as many. Let cohort divide n."
        )));
    }
    let fits = (1..=most.min(n)).rev().find(|count| n.is_multiple_of(*count)).unwrap_or(1);
    Ok(if asked > 0 { asked } else { fits } as u32)
}

fn first_ring(n: usize) -> Vec<i64> {
    Noise::vec(0, n, 1e6).iter().map(|x: &f32| *x as i64).collect()
}

fn smoothed(ring: &[i64], at: usize) -> i64 {
    let (before, after) = (ring[(at + ring.len() - 1) % ring.len()], ring[(at + 1) % ring.len()]);
    before.wrapping_add(ring[at].wrapping_mul(2)).wrapping_add(after) / 3
}

fn decided(ring: &[i64]) -> i64 {
    ring.iter().fold(0i64, |sum, x| sum.wrapping_add(*x)) & 1
}

fn turned(x: i64) -> i64 {
    x.wrapping_neg().wrapping_add(7)
}

fn shifted(x: i64, at: usize) -> i64 {
    x.wrapping_add(at as i64 % 5)
}

fn trimmed(x: i64) -> i64 {
    x.wrapping_sub(x >> 3)
}

impl Instance for Spmd {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let [one, other] = &self.rings;
        let mut rings = [o.share(one, [self.n])?, o.share(other, [self.n])?];
        let turns = o.share(&self.turns, [1])?;
        let in_blocks = TaskShape::blocks(self.blocks);
        let together = TaskShape::blocks(self.cohort).sync_start();
        for _ in 0..self.steps {
            let [x, y] = &rings;
            o.scope(|o| {
                o.submit_shaped(&in_blocks, &self.advance, (input(x), output_existing(y)))?;
                o.submit(&self.decide, (input(y), output_existing(&turns)))?;
                o.submit_shaped(&in_blocks.only_if(&turns), &self.turn, (inout(y),))?;
                o.submit_shaped(&in_blocks.unless(&turns), &self.shift, (inout(y),))?;
                o.submit_shaped(&together, &self.trim, (inout(y),))?;
                o.submit_dummy(&[], (inout(y), input(x)))
            })?;
            rings.swap(0, 1);
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.rings[0], &self.rings[1], &self.turns]
    }

    fn reset(&self) -> Result<()> {
        self.rings[0].with(|ring| ring.copy_from_slice(&first_ring(self.n)))?;
        self.rings[1].with(|ring| ring.fill(0))?;
        self.turns.with(|turns| turns.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let mut golden = first_ring(self.n);
        for _ in 0..self.steps {
            let mut next: Vec<i64> = (0..self.n).map(|at| smoothed(&golden, at)).collect();
            if decided(&next) != 0 {
                next.iter_mut().for_each(|x| *x = turned(*x));
            } else {
                next.iter_mut().enumerate().for_each(|(at, x)| *x = shifted(*x, at));
            }
            golden = next.into_iter().map(trimmed).collect();
        }
        Ok(Verdict::equal(&self.rings[self.steps % 2].to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.rings[self.steps % 2].with(|ring| ring[self.n / 2] += 1)
    }
}
