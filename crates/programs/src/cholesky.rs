//! `cholesky`: A = L·Lᵀ, tile by tile, in place. The matrix is one buffer; a tile is a view of it.
//!
//! Step k factors the diagonal tile (potrf), solves the tiles below it (trsm) and updates what lies right of and below
//! them (syrk, gemm). A scope per step, and in it one per updated row of tiles, so that no scope grows with the square
//! of the number of tiles.

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
    name: "cholesky",
    about: "tiled Cholesky factorisation in place; L·Lᵀ is compared with A",
    params: &[
        ProgramSetting::new("n", 512, 1, 2048, "rows and columns of the matrix"),
        ProgramSetting::new("tile", 32, 1, 2048, "rows and columns of a tile; divides n at most 128 times"),
    ],
    fault: false,
    build,
};

const MOST_TILES: usize = 128;

struct Cholesky {
    n: usize,
    tile: usize,
    potrf: Kernel<(ReadWrite<f64>,)>,
    trsm: Kernel<(Read<f64>, ReadWrite<f64>)>,
    syrk: Kernel<(Read<f64>, ReadWrite<f64>)>,
    gemm: Kernel<(Read<f64>, Read<f64>, ReadWrite<f64>)>,
    a: SharedBuffer<f64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, tile) = (settings.get("n"), settings.get("tile"));
    check_tiles(n, tile, MOST_TILES)?;
    let potrf = device.kernel_on(CoreClass::Aiv, "potrf", factor);
    let trsm = device.kernel_on(CoreClass::Aiv, "trsm", solve);
    let syrk = device.kernel_on(CoreClass::Aic, "syrk", update_diagonal);
    let gemm = device.kernel_on(CoreClass::Aic, "gemm", update);
    let a = SharedBuffer::new(matrix(n));
    Ok(Box::new(Cholesky { n, tile, potrf, trsm, syrk, gemm, a }))
}

/// A symmetric matrix with entries up to 1, and n on the diagonal besides: dominated by it, hence positive definite.
fn matrix(n: usize) -> Vec<f64> {
    let mut noise = Noise::new(0);
    let mut a = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let value = f64::from(noise.unit());
            (a[i * n + j], a[j * n + i]) = (value, value);
        }
        a[i * n + i] = n as f64 + a[i * n + i].abs();
    }
    a
}

/// The inner product, in four partial sums, which may be vectorised.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4.remainder().iter().zip(b4.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a4.zip(b4) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Factors a diagonal tile. What lies above its diagonal is left alone.
fn factor(mut a: InOut<f64>) -> std::result::Result<(), KernelError> {
    for i in 0..a.rows() {
        for j in 0..i {
            let value = (a[[i, j]] - dot(&a.row(i)[..j], &a.row(j)[..j])) / a[[j, j]];
            a[[i, j]] = value;
        }
        let pivot = a[[i, i]] - dot(&a.row(i)[..i], &a.row(i)[..i]);
        if pivot.is_nan() || pivot <= 0.0 {
            return Err(format!("the matrix is not positive definite: pivot {i} of the tile is {pivot}").into());
        }
        a[[i, i]] = pivot.sqrt();
    }
    Ok(())
}

/// X · Lᵀ = X, row by row.
fn solve(l: In<f64>, mut x: InOut<f64>) {
    for i in 0..x.rows() {
        let row = x.row_mut(i);
        for j in 0..row.len() {
            let l = l.row(j);
            row[j] = (row[j] - dot(&row[..j], &l[..j])) / l[j];
        }
    }
}

/// The lower triangle of C −= A·Aᵀ.
fn update_diagonal(a: In<f64>, mut c: InOut<f64>) {
    for i in 0..c.rows() {
        for (j, c) in c.row_mut(i)[..=i].iter_mut().enumerate() {
            *c -= dot(a.row(i), a.row(j));
        }
    }
}

/// C −= A·Bᵀ.
fn update(a: In<f64>, b: In<f64>, mut c: InOut<f64>) {
    for i in 0..c.rows() {
        for (j, c) in c.row_mut(i).iter_mut().enumerate() {
            *c -= dot(a.row(i), b.row(j));
        }
    }
}

impl Cholesky {
    /// Updates row `i` of tiles with column `k`.
    fn update_row(&self, o: &mut Orchestrator<'_, '_>, a: &Tensor<'_, f64>, i: usize, k: usize) -> Result<()> {
        let size = [self.tile, self.tile];
        let left = a.tile([i, k], size)?;
        for j in k + 1..i {
            o.submit(&self.gemm, (input(&left), input(&a.tile([j, k], size)?), inout(&a.tile([i, j], size)?)))?;
        }
        o.submit(&self.syrk, (input(&left), inout(&a.tile([i, i], size)?)))?;
        Ok(())
    }
}

impl Instance for Cholesky {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (tiles, size) = (self.n / self.tile, [self.tile, self.tile]);
        let a = o.share(&self.a, [self.n, self.n])?;
        for k in 0..tiles {
            o.scope(|o| {
                let diagonal = a.tile([k, k], size)?;
                o.submit(&self.potrf, (inout(&diagonal),))?;
                for i in k + 1..tiles {
                    o.submit(&self.trsm, (input(&diagonal), inout(&a.tile([i, k], size)?)))?;
                }
                for i in k + 1..tiles {
                    o.scope(|o| self.update_row(o, &a, i, k))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.a]
    }

    fn reset(&self) -> Result<()> {
        self.a.with(|a| a.copy_from_slice(&matrix(self.n)))
    }

    fn verify(&self) -> Result<Verdict> {
        let n = self.n;
        let (golden, l) = (matrix(n), self.a.to_vec()?);
        let mut product = golden.clone();
        for i in 0..n {
            for j in 0..=i {
                let mut sum = 0.0;
                for k in 0..=j {
                    sum += l[i * n + k] * l[j * n + k];
                }
                product[i * n + j] = sum;
            }
        }
        // |A − L·Lᵀ| is at most (n + 1) u |L|·|Lᵀ| (Higham, Accuracy and Stability, theorem 10.3), and no entry of
        // |L|·|Lᵀ| is larger than A's largest, n + 1. The product above is itself off by as much again.
        let bound = 2.0 * (n as f64 + 2.0) * (n as f64 + 1.0) * UNIT_F64;
        let lower = Verdict::close(&product, &golden, |_| bound);
        let strict = |m: &[f64]| (0..n).flat_map(|i| m[i * n + i + 1..(i + 1) * n].to_vec()).collect::<Vec<f64>>();
        let upper = Verdict::equal(&strict(&l), &strict(&golden));
        if upper.verified {
            Ok(lower)
        } else {
            Ok(Verdict { detail: format!("above the diagonal: {}", upper.detail), ..upper })
        }
    }

    fn spoil(&self) -> Result<()> {
        // L's last diagonal entry is about √n: the product changes by about twice that times this.
        self.a.with(|a| a[self.n * self.n - 1] += 1e-8 * (self.n as f64))
    }
}
