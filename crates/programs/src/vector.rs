//! `vector`: f = ½ · ((a + b) · (a − b) + c), element by element, in blocks.
//!
//! Per block a small graph: sum and difference, in a scope of their own; inside it, in a deeper scope, their product,
//! to which c is added; then the block of f is halved in place. Blocks do not depend on each other.

use crate::noise::Noise;
use crate::verdict::UNIT_F32;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    CoreClass, Device, Error, In, InOut, Kernel, Orchestrator, Out, Result, SharedBuffer, inout, input, output,
    output_existing, scalar,
};
use plimsoll_runtime::{Read, ReadWrite, Value, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "vector",
    about: "element-wise f = ½·((a + b)·(a − b) + c) in blocks",
    params: &[
        ProgramSetting::new("n", 1 << 18, 1, 1 << 24, "elements of each vector"),
        ProgramSetting::new("block", 1 << 10, 1, 1 << 22, "elements of a block; divides n"),
    ],
    fault: false,
    build,
};

type Binary = Kernel<(Read<f32>, Read<f32>, Write<f32>)>;

struct Vector {
    n: usize,
    block: usize,
    add: Binary,
    subtract: Binary,
    multiply: Binary,
    scale: Kernel<(Value<f32>, ReadWrite<f32>)>,
    inputs: [SharedBuffer<f32>; 3],
    f: SharedBuffer<f32>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (n, block) = (settings.get("n"), settings.get("block"));
    if !n.is_multiple_of(block) {
        return Err(Error::invalid(format!(
            "{n} elements cannot be cut into blocks of {block}. The last block would be smaller. Let block divide n."
        )));
    }
    let add = binary(device, "add", |a, b| a + b);
    let subtract = binary(device, "subtract", |a, b| a - b);
    let multiply = binary(device, "multiply", |a, b| a * b);
    let scale = device.kernel_on(CoreClass::Aiv, "scale", |factor: f32, mut f: InOut<f32>| {
        f.row_mut(0).iter_mut().for_each(|f| *f *= factor);
    });
    let inputs = [0, 1, 2].map(|stream| SharedBuffer::new(Noise::vec(stream, n, 1.0)));
    let f = SharedBuffer::new(vec![0.0; n]);
    Ok(Box::new(Vector { n, block, add, subtract, multiply, scale, inputs, f }))
}

/// A kernel of its own for every operation, so that the loop is compiled with it inside.
fn binary(device: &mut Device, name: &str, apply: impl Fn(f32, f32) -> f32 + Send + Sync + 'static) -> Binary {
    device.kernel_on(CoreClass::Aiv, name, move |a: In<f32>, b: In<f32>, mut c: Out<f32>| {
        for (c, (a, b)) in c.row_mut(0).iter_mut().zip(a.row(0).iter().zip(b.row(0))) {
            *c = apply(*a, *b);
        }
    })
}

impl Instance for Vector {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (n, size) = (self.n, [self.block]);
        let [a, b, c] = &self.inputs;
        let (a, b, c, f) = (o.share(a, [n])?, o.share(b, [n])?, o.share(c, [n])?, o.share(&self.f, [n])?);
        for block in 0..n / self.block {
            let (a, b) = (a.tile([block], size)?, b.tile([block], size)?);
            let (c, f) = (c.tile([block], size)?, f.tile([block], size)?);
            o.scope(|o| {
                let (.., sum) = o.submit(&self.add, (input(&a), input(&b), output(size)))?;
                let (.., difference) = o.submit(&self.subtract, (input(&a), input(&b), output(size)))?;
                o.scope(|o| {
                    let (.., product) = o.submit(&self.multiply, (input(&sum), input(&difference), output(size)))?;
                    o.submit(&self.add, (input(&product), input(&c), output_existing(&f)))
                })?;
                o.submit(&self.scale, (scalar(0.5), inout(&f)))
            })?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.inputs[0], &self.inputs[1], &self.inputs[2], &self.f]
    }

    fn reset(&self) -> Result<()> {
        self.f.with(|f| f.fill(0.0))
    }

    fn verify(&self) -> Result<Verdict> {
        let [a, b, c] = [0, 1, 2].map(|stream| Noise::vec(stream, self.n, 1.0));
        let golden: Vec<f64> = (0..self.n)
            .map(|i| {
                let (a, b, c) = (f64::from(a[i]), f64::from(b[i]), f64::from(c[i]));
                0.5 * ((a + b) * (a - b) + c)
            })
            .collect();
        // With inputs of at most 1, in units u: sum and difference are at most 2 and off by 2u; the product by
        // 2·2u + 2·2u + 4u = 12u; with c, at most 5, by 17u; half of it by 8.5u. The rest is for terms in u².
        Ok(Verdict::close(&self.f.to_vec()?, &golden, |_| 9.0 * UNIT_F32))
    }

    fn spoil(&self) -> Result<()> {
        self.f.with(|f| f[self.n / 2] += 1e-5)
    }
}
