//! `wavefront`: the cheapest way through a field of weights, going right or down, tile by tile.
//!
//! The cost of a place is its weight plus the smaller of the costs above and to the left. So a tile needs the last row
//! of the tile above and the last column of the tile to the left, which are views of the one matrix of costs, and the
//! tiles that can run at the same time form a front that moves from corner to corner.

use crate::noise::Noise;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CoreClass, Device, Error, In, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, input, output_existing,
};
use plimsoll_runtime::{Read, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "wavefront",
    about: "cheapest path through a grid; each cell needs its left and upper neighbours",
    params: &[
        ProgramSetting::new("rows", 32, 1, 1024, "rows of cells"),
        ProgramSetting::new("cols", 32, 1, 1024, "columns of cells"),
        ProgramSetting::new("tile", 16, 1, 1024, "rows and columns of places in a cell"),
    ],
    fault: false,
    build,
};

/// Places in all: with two matrices of 4-byte numbers, 128 MiB.
const MOST_PLACES: usize = 1 << 24;

/// No way leads here. A real cost is at most 101 times the number of places on a way, which is far below.
const NO_WAY: i32 = i32::MAX / 2;

struct Wavefront {
    rows: usize,
    cols: usize,
    tile: usize,
    relax: Kernel<(Read<i32>, Read<i32>, Read<i32>, Write<i32>)>,
    weights: SharedBuffer<i32>,
    /// What lies above the first row and to the left of the first column.
    edges: [SharedBuffer<i32>; 2],
    costs: SharedBuffer<i32>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (rows, cols, tile) = (settings.get("rows"), settings.get("cols"), settings.get("tile"));
    let (height, width) = (rows * tile, cols * tile);
    if height * width > MOST_PLACES {
        return Err(Error::invalid(format!(
            "{rows} × {cols} cells of {tile} × {tile} are {} places. That is more than {MOST_PLACES}. Make rows, cols or tile smaller.",
            height * width
        )));
    }
    let relax = device.kernel_on(CoreClass::Aiv, "relax", relax);
    let weights = SharedBuffer::new(weights(height * width));
    let mut left = vec![NO_WAY; height];
    // The way starts left of the first place, at no cost.
    left[0] = 0;
    let edges = [SharedBuffer::new(vec![NO_WAY; width]), SharedBuffer::new(left)];
    let costs = SharedBuffer::new(vec![-1; height * width]);
    Ok(Box::new(Wavefront { rows, cols, tile, relax, weights, edges, costs }))
}

fn weights(places: usize) -> Vec<i32> {
    let mut noise = Noise::new(0);
    (0..places).map(|_| noise.below(100) as i32 + 1).collect()
}

/// The costs of a cell from its weights, the row above and the column to the left.
fn relax(weights: In<i32>, above: In<i32>, left: In<i32>, mut costs: Out<i32>) {
    for row in 0..costs.rows() {
        let mut beside = left[[row, 0]];
        for column in 0..costs.row(row).len() {
            let over = if row == 0 { above[[0, column]] } else { costs[[row - 1, column]] };
            beside = weights[[row, column]] + beside.min(over);
            costs[[row, column]] = beside;
        }
    }
}

impl Wavefront {
    fn cell(&self, o: &mut Orchestrator<'_, '_>, field: &Field<'_>, row: usize, col: usize) -> Result<()> {
        let (tile, size) = (self.tile, [self.tile, self.tile]);
        // The last row above is number `row · tile − 1` of the matrix, a tile of height 1; likewise to the left.
        let above = match row {
            0 => field.above.tile([0, col], [1, tile])?,
            _ => field.costs.tile([row * tile - 1, col], [1, tile])?,
        };
        let left = match col {
            0 => field.left.tile([row, 0], [tile, 1])?,
            _ => field.costs.tile([row, col * tile - 1], [tile, 1])?,
        };
        let (weights, costs) = (field.weights.tile([row, col], size)?, field.costs.tile([row, col], size)?);
        o.submit(&self.relax, (input(&weights), input(&above), input(&left), output_existing(&costs)))?;
        Ok(())
    }
}

struct Field<'s> {
    weights: Tensor<'s, i32>,
    above: Tensor<'s, i32>,
    left: Tensor<'s, i32>,
    costs: Tensor<'s, i32>,
}

impl Instance for Wavefront {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (height, width) = (self.rows * self.tile, self.cols * self.tile);
        let field = Field {
            weights: o.share(&self.weights, [height, width])?,
            above: o.share(&self.edges[0], [1, width])?,
            left: o.share(&self.edges[1], [height, 1])?,
            costs: o.share(&self.costs, [height, width])?,
        };
        for row in 0..self.rows {
            o.scope(|o| (0..self.cols).try_for_each(|col| self.cell(o, &field, row, col)))?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.weights, &self.edges[0], &self.edges[1], &self.costs]
    }

    fn reset(&self) -> Result<()> {
        self.costs.with(|costs| costs.fill(-1))
    }

    fn verify(&self) -> Result<Verdict> {
        let (height, width) = (self.rows * self.tile, self.cols * self.tile);
        let weights = weights(height * width);
        let mut golden = vec![0; height * width];
        for i in 0..height {
            for j in 0..width {
                let best = match (i, j) {
                    (0, 0) => 0,
                    (0, _) => golden[j - 1],
                    (_, 0) => golden[(i - 1) * width],
                    _ => golden[(i - 1) * width + j].min(golden[i * width + j - 1]),
                };
                golden[i * width + j] = weights[i * width + j] + best;
            }
        }
        // Whole numbers: nothing is rounded.
        Ok(Verdict::equal(&self.costs.to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.costs.with(|costs| costs[costs.len() / 2] += 1)
    }
}
