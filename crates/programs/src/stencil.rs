//! `stencil`: heat that spreads over a plate, step by step. Every step reads one matrix and writes the other.
//!
//! Both matrices have a border of one, which never changes, so tiles begin at 1 and what a tile needs of its neighbours
//! begins at 0. A task reads its tile with a halo of one, as a single view or as the tile and strips of its neighbours,
//! and writes the tile of the other matrix. No write covers a halo: what a halo's read waits for, and what has to wait for
//! it, is told tile by tile.

use crate::matmul::check_tiles;
use crate::noise::Noise;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CoreClass, Device, Error, In, InList, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, input, input_list,
    output_existing,
};
use plimsoll_runtime::{Read, ReadList, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "stencil",
    about: "heat on a plate, step by step; each tile needs a halo of its neighbours",
    params: &[
        ProgramSetting::new("n", 128, 1, 4096, "rows and columns of the plate"),
        ProgramSetting::new("tile", 32, 1, 4096, "rows and columns of a tile; divides n at most 128 times"),
        ProgramSetting::new("steps", 20, 1, 100_000, "steps"),
        ProgramSetting::new("points", 5, 5, 9, "places that one depends on: 5 or 9"),
        ProgramSetting::choice("halo", &["view", "strips"], "how a task gets its halo"),
        ProgramSetting::choice("flat", &["false", "true"], "whether all steps share one scope"),
    ],
    fault: false,
    build,
};

const MOST_TILES: usize = 128;

struct Stencil {
    n: usize,
    tile: usize,
    steps: usize,
    strips: bool,
    flat: bool,
    points: usize,
    from_view: Kernel<(Read<f32>, Write<f32>)>,
    from_strips: Kernel<(ReadList<f32>, Write<f32>)>,
    /// The plate before and after a step, in turns.
    plates: [SharedBuffer<f32>; 2],
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, tile, points) = (settings.get("n"), settings.get("tile"), settings.get("points"));
    check_tiles(n, tile, MOST_TILES)?;
    if points != 5 && points != 9 {
        return Err(Error::invalid(format!("A stencil of {points} points is not known. There are 5 and 9. Set one.")));
    }
    let from_view = device.kernel_on(CoreClass::Aiv, "heat", move |halo: In<f32>, out: Out<f32>| {
        spread(points, out, |row, column| halo[[row, column]]);
    });
    let from_strips = device.kernel_on(CoreClass::Aiv, "heat_strips", move |parts: InList<f32>, out: Out<f32>| {
        let parts: Vec<In<'_, f32>> = parts.iter().collect();
        let last = out.rows() + 1;
        // Above, at or below the tile, and likewise beside it: where in its part a place of the halo is.
        let side = |at: usize| {
            if at == 0 {
                (0, 0)
            } else if at == last {
                (2, 0)
            } else {
                (1, at - 1)
            }
        };
        spread(points, out, |row, column| {
            let ((down, row), (right, column)) = (side(row), side(column));
            parts[PART[down][right]][[row, column]]
        });
    });
    let plates = [SharedBuffer::new(plate(n)), SharedBuffer::new(plate(n))];
    let (steps, strips, flat) = (settings.get("steps"), settings.get("halo") == 1, settings.get("flat") == 1);
    Ok(Box::new(Stencil { n, tile, steps, strips, flat, points, from_view, from_strips, plates }))
}

/// Which part of a list is above, beside and below the tile: the tile itself, four strips, four corners.
const PART: [[usize; 3]; 3] = [[5, 1, 6], [3, 0, 4], [7, 2, 8]];

/// The plate at first, with its border.
fn plate(n: usize) -> Vec<f32> {
    Noise::vec(0, (n + 2) * (n + 2), 100.0)
}

/// What a place has after a step: of its own and of its neighbours' heat.
fn mean(points: usize, at: impl Fn(usize, usize) -> f32) -> f32 {
    let cross = at(0, 1) + at(2, 1) + at(1, 0) + at(1, 2);
    if points == 5 {
        return 0.5 * at(1, 1) + 0.125 * cross;
    }
    let corners = at(0, 0) + at(0, 2) + at(2, 0) + at(2, 2);
    0.5 * at(1, 1) + 0.09375 * cross + 0.03125 * corners
}

/// One step of a tile, from a function that knows the tile with its halo.
fn spread(points: usize, mut out: Out<f32>, halo: impl Fn(usize, usize) -> f32) {
    for row in 0..out.rows() {
        for column in 0..out.row(row).len() {
            out[[row, column]] = mean(points, |down, right| halo(row + down, column + right));
        }
    }
}

/// Rows and columns of a part of a plate.
fn part<'s>(plate: &Tensor<'s, f32>, rows: [usize; 2], columns: [usize; 2]) -> Result<Tensor<'s, f32>> {
    plate.slice(0, rows[0]..rows[1])?.slice(1, columns[0]..columns[1])
}

impl Stencil {
    fn step(&self, o: &mut Orchestrator<'_, '_>, from: &Tensor<'_, f32>, to: &Tensor<'_, f32>) -> Result<()> {
        let tile = self.tile;
        for row in (1..=self.n).step_by(tile) {
            for column in (1..=self.n).step_by(tile) {
                let out = part(to, [row, row + tile], [column, column + tile])?;
                if !self.strips {
                    let halo = part(from, [row - 1, row + tile + 1], [column - 1, column + tile + 1])?;
                    o.submit(&self.from_view, (input(&halo), output_existing(&out)))?;
                    continue;
                }
                let [rows, columns] =
                    [row, column].map(|at| [[at - 1, at], [at, at + tile], [at + tile, at + tile + 1]]);
                let of = |down: usize, right: usize| part(from, rows[down], columns[right]);
                let mut parts = vec![of(1, 1)?, of(0, 1)?, of(2, 1)?, of(1, 0)?, of(1, 2)?];
                if self.points == 9 {
                    parts.extend([of(0, 0)?, of(0, 2)?, of(2, 0)?, of(2, 2)?]);
                }
                o.submit(&self.from_strips, (input_list(&parts), output_existing(&out)))?;
            }
        }
        Ok(())
    }
}

impl Instance for Stencil {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let size = [self.n + 2, self.n + 2];
        let plates = [o.share(&self.plates[0], size)?, o.share(&self.plates[1], size)?];
        let step = |o: &mut Orchestrator<'_, '_>, at: usize| self.step(o, &plates[at % 2], &plates[(at + 1) % 2]);
        if self.flat {
            return o.scope(|o| (0..self.steps).try_for_each(|at| step(o, at)));
        }
        (0..self.steps).try_for_each(|at| o.scope(|o| step(o, at)))
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.plates[0], &self.plates[1]]
    }

    fn reset(&self) -> Result<()> {
        self.plates.iter().try_for_each(|buffer| buffer.with(|plate_now| plate_now.copy_from_slice(&plate(self.n))))
    }

    fn verify(&self) -> Result<Verdict> {
        let width = self.n + 2;
        let mut golden = plate(self.n);
        for _ in 0..self.steps {
            let before = golden.clone();
            for row in 1..=self.n {
                for column in 1..=self.n {
                    let near = |down: usize, right: usize| before[(row + down - 1) * width + column + right - 1];
                    golden[row * width + column] = mean(self.points, near);
                }
            }
        }
        // The same sums in the same order: nothing is rounded otherwise.
        Ok(Verdict::equal(&self.plates[self.steps % 2].to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        let middle = (self.n + 2) * (self.n + 2) / 2 + self.n / 2;
        self.plates[self.steps % 2].with(|plate| plate[middle] += 1.0)
    }
}
