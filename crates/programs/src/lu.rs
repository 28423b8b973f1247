//! `lu`: A = L·U without pivoting, in place, by panels.
//!
//! Step k factors a column panel, which reaches from the diagonal to the last row in one view, solves the row panel to the
//! right of it, which reaches to the last column, and updates what is left tile by tile. So column panels, row panels
//! and tiles of one matrix overlap each other.

use crate::matmul::check_tiles;
use crate::noise::Noise;
use crate::verdict::UNIT_F64;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CoreClass, Device, In, InOut, Kernel, KernelError, Orchestrator, Result, SharedBuffer, Tensor, inout, input,
};
use plimsoll_runtime::{Read, ReadWrite};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "lu",
    about: "tiled LU factorisation in place with column and row panels; L·U is compared with A",
    params: &[
        ProgramSetting::new("n", 256, 1, 2048, "rows and columns of the matrix"),
        ProgramSetting::new("tile", 16, 1, 2048, "rows and columns of a tile; divides n at most 64 times"),
    ],
    fault: false,
    build,
};

const MOST_TILES: usize = 64;

struct Lu {
    n: usize,
    tile: usize,
    factor: Kernel<(ReadWrite<f64>,)>,
    solve: Kernel<(Read<f64>, ReadWrite<f64>)>,
    update: Kernel<(Read<f64>, Read<f64>, ReadWrite<f64>)>,
    a: SharedBuffer<f64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, tile) = (settings.get("n"), settings.get("tile"));
    check_tiles(n, tile, MOST_TILES)?;
    let factor = device.kernel_on(CoreClass::Aiv, "panel", factor);
    let solve = device.kernel_on(CoreClass::Aiv, "solve", solve);
    let update = device.kernel_on(CoreClass::Aic, "update", update);
    let a = SharedBuffer::new(matrix(n));
    Ok(Box::new(Lu { n, tile, factor, solve, update, a }))
}

/// Entries up to 1, and n + 2 on the diagonal besides: dominated by it, so no pivot is small.
fn matrix(n: usize) -> Vec<f64> {
    let mut noise = Noise::new(0);
    let mut a: Vec<f64> = (0..n * n).map(|_| f64::from(noise.unit())).collect();
    (0..n).for_each(|i| a[i * n + i] += n as f64 + 2.0);
    a
}

/// Takes `factor` times a row off another.
fn subtract(row: &mut [f64], factor: f64, other: &[f64]) {
    row.iter_mut().zip(other).for_each(|(a, b)| *a -= factor * b);
}

/// Factors a column panel: its first rows are the diagonal tile.
fn factor(mut a: InOut<f64>) -> std::result::Result<(), KernelError> {
    let width = a.row(0).len();
    for k in 0..width {
        let pivot = a[[k, k]];
        if pivot.is_nan() || pivot.abs() < 1.0 {
            return Err(
                format!("the matrix is not dominated by its diagonal: pivot {k} of the panel is {pivot}").into()
            );
        }
        let row_of_pivot = a.row(k)[k + 1..].to_vec();
        for i in k + 1..a.rows() {
            let row = a.row_mut(i);
            row[k] /= pivot;
            let factor = row[k];
            subtract(&mut row[k + 1..], factor, &row_of_pivot);
        }
    }
    Ok(())
}

/// L · X = X, for the unit lower triangle of a diagonal tile.
fn solve(l: In<f64>, mut x: InOut<f64>) {
    for k in 0..x.rows() {
        let solved = x.row(k).to_vec();
        for i in k + 1..x.rows() {
            subtract(x.row_mut(i), l[[i, k]], &solved);
        }
    }
}

/// C −= A·B.
fn update(a: In<f64>, b: In<f64>, mut c: InOut<f64>) {
    for i in 0..c.rows() {
        for (k, &factor) in a.row(i).iter().enumerate() {
            subtract(c.row_mut(i), factor, b.row(k));
        }
    }
}

impl Lu {
    /// One step: the panels at tile `k`, and what is right of and below them.
    fn step(&self, o: &mut Orchestrator<'_, '_>, a: &Tensor<'_, f64>, k: usize) -> Result<()> {
        let (n, tile, tiles) = (self.n, self.tile, self.n / self.tile);
        let (here, next) = (k * tile, (k + 1) * tile);
        let column = a.slice(0, here..n)?.slice(1, here..next)?;
        o.submit(&self.factor, (inout(&column),))?;
        if next == n {
            return Ok(());
        }
        let row = a.slice(0, here..next)?.slice(1, next..n)?;
        o.submit(&self.solve, (input(&a.tile([k, k], [tile, tile])?), inout(&row)))?;
        for i in k + 1..tiles {
            let left = a.tile([i, k], [tile, tile])?;
            o.scope(|o| {
                (k + 1..tiles).try_for_each(|j| {
                    let above = a.tile([k, j], [tile, tile])?;
                    let out = a.tile([i, j], [tile, tile])?;
                    o.submit(&self.update, (input(&left), input(&above), inout(&out))).map(|_| ())
                })
            })?;
        }
        Ok(())
    }
}

impl Instance for Lu {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let a = o.share(&self.a, [self.n, self.n])?;
        (0..self.n / self.tile).try_for_each(|k| o.scope(|o| self.step(o, &a, k)))
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.a]
    }

    fn reset(&self) -> Result<()> {
        self.a.with(|a| a.copy_from_slice(&matrix(self.n)))
    }

    fn verify(&self) -> Result<Verdict> {
        let n = self.n;
        let (golden, lu) = (matrix(n), self.a.to_vec()?);
        let mut product = vec![0.0; n * n];
        let mut sizes = vec![0.0; n * n];
        for i in 0..n {
            for k in 0..=i {
                let l = if k == i { 1.0 } else { lu[i * n + k] };
                for j in k..n {
                    product[i * n + j] += l * lu[k * n + j];
                    sizes[i * n + j] += (l * lu[k * n + j]).abs();
                }
            }
        }
        // |A − L·U| is at most n u |L|·|U| (Higham, Accuracy and Stability, theorem 9.3). The product above is itself off by
        // as much again.
        Ok(Verdict::close(&product, &golden, |at| 2.0 * (n as f64 + 1.0) * sizes[at] * UNIT_F64))
    }

    fn spoil(&self) -> Result<()> {
        self.a.with(|a| a[self.n * self.n - 1] += 1e-8 * self.n as f64)
    }
}
