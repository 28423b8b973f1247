//! `matmul`: C += A · B, tile by tile. Every matrix is one buffer; a tile is a view of it.

use crate::dense::multiply_add;
use crate::noise::Noise;
use crate::verdict::{UNIT_F32, roundings};
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{CoreClass, Device, Error, Kernel, Orchestrator, Result, SharedBuffer, inout, input};
use plimsoll_runtime::{Read, ReadWrite};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "matmul",
    about: "tiled C += A·B",
    params: &[
        ProgramSetting::new("n", 384, 1, 2048, "rows and columns of each matrix"),
        ProgramSetting::new("tile", 48, 1, 2048, "rows and columns of a tile; divides n at most 128 times"),
    ],
    fault: false,
    build,
};

/// Tiles along one side. The tasks of one tile of C are a scope, so more would work; but there are tiles³ of them.
const MOST_TILES: usize = 128;

struct Matmul {
    n: usize,
    tile: usize,
    gemm: Kernel<(Read<f32>, Read<f32>, ReadWrite<f32>)>,
    a: SharedBuffer<f32>,
    b: SharedBuffer<f32>,
    c: SharedBuffer<f32>,
}

/// Checks that square tiles cover a square matrix and are not too many.
pub(crate) fn check_tiles(n: usize, tile: usize, most: usize) -> Result<()> {
    if !n.is_multiple_of(tile) {
        return Err(Error::invalid(format!(
            "A matrix of {n} × {n} cannot be cut into tiles of {tile} × {tile}. The last ones would be smaller. Let tile divide n."
        )));
    }
    if n / tile > most {
        return Err(Error::invalid(format!(
            "{n} / {tile} are {} tiles along each side. That is more than {most}. Make tile at least {}.",
            n / tile,
            n.div_ceil(most)
        )));
    }
    Ok(())
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, tile) = (settings.get("n"), settings.get("tile"));
    check_tiles(n, tile, MOST_TILES)?;
    let gemm = device.kernel_on(CoreClass::Aic, "gemm", multiply_add);
    let [a, b, c] = [0, 1, 2].map(|stream| SharedBuffer::new(Noise::vec(stream, n * n, 1.0)));
    Ok(Box::new(Matmul { n, tile, gemm, a, b, c }))
}

impl Instance for Matmul {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (n, tiles, size) = (self.n, self.n / self.tile, [self.tile, self.tile]);
        let (a, b, c) = (o.share(&self.a, [n, n])?, o.share(&self.b, [n, n])?, o.share(&self.c, [n, n])?);
        for row in 0..tiles {
            for column in 0..tiles {
                let c = c.tile([row, column], size)?;
                o.scope(|o| {
                    for k in 0..tiles {
                        let (a, b) = (a.tile([row, k], size)?, b.tile([k, column], size)?);
                        o.submit(&self.gemm, (input(&a), input(&b), inout(&c)))?;
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.a, &self.b, &self.c]
    }

    fn reset(&self) -> Result<()> {
        self.c.with(|c| c.copy_from_slice(&Noise::vec(2, self.n * self.n, 1.0)))
    }

    fn verify(&self) -> Result<Verdict> {
        let n = self.n;
        let [a, b, c] = [0, 1, 2].map(|stream| Noise::vec(stream, n * n, 1.0));
        let mut golden: Vec<f64> = c.iter().map(|&c| f64::from(c)).collect();
        let mut size: Vec<f64> = golden.iter().map(|c| c.abs()).collect();
        for i in 0..n {
            for k in 0..n {
                let a = f64::from(a[i * n + k]);
                for j in 0..n {
                    let term = a * f64::from(b[k * n + j]);
                    golden[i * n + j] += term;
                    size[i * n + j] += term.abs();
                }
            }
        }
        // n products and what C held before are added up.
        let bound = roundings(n + 1) * UNIT_F32;
        Ok(Verdict::close(&self.c.to_vec()?, &golden, |i| bound * size[i]))
    }

    fn spoil(&self) -> Result<()> {
        // No term is larger than 1, so n + 1 bounds the sum of their sizes.
        let spoilt = 2.0 * roundings(self.n + 1) * UNIT_F32 * (self.n + 1) as f64;
        self.c.with(|c| c[self.n - 1] += spoilt as f32)
    }
}
