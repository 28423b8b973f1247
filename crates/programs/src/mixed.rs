//! `mixed`: tiles of a matrix product with an epilogue, each tile row a mixed task in blocks.
//!
//! The matrix core of a cluster computes a dot product after the other and hands each on; the two vector cores take them in turn,
//! one adds a bias, the other the row before, and write. So values go from part 0 to parts 1 and 2 while all three run. Everything
//! is computed in whole numbers, so the result is compared exactly.

use crate::noise::Noise;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    Block, BlockKernel, CoreClass, Device, Error, In, Orchestrator, PartOut, PipeError, Read, Result, SharedBuffer,
    TaskShape, Write, input, output_existing,
};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "mixed",
    about: "a matrix product whose epilogue runs on vector cores beside it, as mixed tasks",
    params: &[
        ProgramSetting::new("n", 24, 1, 1 << 10, "rows and columns"),
        ProgramSetting::new("blocks", 8, 1, 1 << 10, "blocks of a task; divides the rows"),
        ProgramSetting::new("steps", 40, 1, 1 << 16, "products, each of the result before"),
    ],
    fault: false,
    build,
};

/// a, b, and what the two vector cores write.
type MixedKernel = BlockKernel<(Read<i64>, Read<i64>, Write<i64>, Write<i64>)>;
type PipeResult = std::result::Result<(), PipeError>;

struct Mixed {
    n: usize,
    blocks: u32,
    steps: usize,
    parts: [MixedKernel; 3],
    b: SharedBuffer<i64>,
    /// Each step reads one and writes the other.
    matrices: [SharedBuffer<i64>; 2],
    checks: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, blocks, steps) = (settings.get("n"), settings.get("blocks"), settings.get("steps"));
    if !n.is_multiple_of(blocks) {
        return Err(Error::invalid(format!(
            "{n} rows cannot be divided among {blocks} blocks. Every block writes as many. Let blocks divide n."
        )));
    }
    let multiply = device.block_kernel_on(
        CoreClass::Aic,
        "multiply",
        |block: Block, a: In<i64>, b: In<i64>, _: PartOut<i64, 1>, _: PartOut<i64, 2>| -> PipeResult {
            for row in rows_of(&block, a.rows()) {
                for column in 0..b.rows() {
                    let product = dot(a.row(row), |k| b[[k, column]]);
                    block.push(1, product)?;
                    block.push(2, product)?;
                }
            }
            Ok(())
        },
    );
    let reduce = device.block_kernel_on(
        CoreClass::Aiv,
        "reduce",
        |block: Block, a: In<i64>, _: In<i64>, mut c: PartOut<i64, 1>, _: PartOut<i64, 2>| -> PipeResult {
            let Some(c) = c.own() else { return Ok(()) };
            for row in 0..rows_of(&block, a.rows()).len() {
                for value in c.row_mut(row) {
                    *value = reduced(block.pop::<i64>(0)?);
                }
            }
            Ok(())
        },
    );
    let check = device.block_kernel_on(
        CoreClass::Aiv,
        "check",
        |block: Block, a: In<i64>, _: In<i64>, _: PartOut<i64, 1>, mut sums: PartOut<i64, 2>| -> PipeResult {
            let Some(sums) = sums.own() else { return Ok(()) };
            for row in 0..rows_of(&block, a.rows()).len() {
                let mut sum = 0i64;
                for _ in 0..a.row(0).len() {
                    sum = sum.wrapping_add(block.pop::<i64>(0)?);
                }
                sums[[row]] = sum;
            }
            Ok(())
        },
    );
    let parts = [multiply, reduce, check];
    let matrices = [SharedBuffer::new(first(0, n)), SharedBuffer::new(vec![0; n * n])];
    let (b, checks) = (SharedBuffer::new(first(1, n)), SharedBuffer::new(vec![0; n]));
    Ok(Box::new(Mixed { n, blocks: blocks as u32, steps, parts, b, matrices, checks }))
}

fn first(stream: u64, n: usize) -> Vec<i64> {
    Noise::vec(stream, n * n, 1000.0).iter().map(|x: &f32| *x as i64).collect()
}

fn rows_of(block: &Block<'_>, rows: usize) -> std::ops::Range<usize> {
    let each = rows / block.count();
    block.index() * each..(block.index() + 1) * each
}

fn dot(row: &[i64], column: impl Fn(usize) -> i64) -> i64 {
    row.iter().enumerate().fold(0, |sum: i64, (k, a)| sum.wrapping_add(a.wrapping_mul(column(k))))
}

fn reduced(product: i64) -> i64 {
    product % 1009
}

impl Instance for Mixed {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let size = [self.n, self.n];
        let [one, other] = &self.matrices;
        let mut matrices = [o.share(one, size)?, o.share(other, size)?];
        let (b, checks) = (o.share(&self.b, size)?, o.share(&self.checks, [self.n])?);
        for _ in 0..self.steps {
            let [a, c] = &matrices;
            let args = (input(a), input(&b), output_existing(c), output_existing(&checks));
            o.submit_shaped(&TaskShape::blocks(self.blocks), &self.parts, args)?;
            matrices.swap(0, 1);
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.matrices[0], &self.matrices[1], &self.b, &self.checks]
    }

    fn reset(&self) -> Result<()> {
        self.matrices[0].with(|a| a.copy_from_slice(&first(0, self.n)))?;
        self.matrices[1].with(|c| c.fill(0))?;
        self.checks.with(|checks| checks.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let (n, b) = (self.n, first(1, self.n));
        let (mut a, mut sums) = (first(0, n), vec![0i64; n]);
        for _ in 0..self.steps {
            let product = |i: usize| dot(&a[i / n * n..][..n], |k| b[k * n + i % n]);
            let products: Vec<i64> = (0..n * n).map(product).collect();
            let sum = |row: &[i64]| row.iter().fold(0i64, |sum, x| sum.wrapping_add(*x));
            sums = products.chunks(n).map(sum).collect();
            a = products.into_iter().map(reduced).collect();
        }
        let result = Verdict::equal(&self.matrices[self.steps % 2].to_vec()?, &a);
        Ok(result.and(Verdict::equal(&self.checks.to_vec()?, &sums)))
    }

    fn spoil(&self) -> Result<()> {
        self.matrices[self.steps % 2].with(|c| c[self.n / 2] += 1)
    }
}
