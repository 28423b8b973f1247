//! A dot product in blocks: products in parallel, then a chain of sums on one accumulator.
//!
//! `cargo run --release -p plimsoll --example dot`

use plimsoll::{Device, In, InOut, Out, Result, inout, input, output};

fn main() -> Result<()> {
    const N: usize = 1 << 20;
    const BLOCK: usize = 1 << 14;
    let (x, y) = (vec![0.5f32; N], vec![4.0f32; N]);
    let mut device = Device::builder().open()?;
    let multiply = device.kernel("multiply", |x: In<f32>, y: In<f32>, mut z: Out<f32>| {
        z.row_mut(0).iter_mut().zip(x.row(0).iter().zip(y.row(0))).for_each(|(z, (x, y))| *z = x * y);
    });
    let add = device.kernel("add", |z: In<f32>, mut sum: InOut<f64>| sum[[0]] += z.row(0).iter().sum::<f32>() as f64);
    let dot = device.run(|o| {
        let (x, y) = (o.borrow(&x, [N])?, o.borrow(&y, [N])?);
        let sum = o.own(vec![0.0f64], [1])?;
        for block in 0..N / BLOCK {
            let (x, y) = (x.tile([block], [BLOCK])?, y.tile([block], [BLOCK])?);
            let (.., z) = o.submit(&multiply, (input(&x), input(&y), output([BLOCK])))?;
            o.submit(&add, (input(&z), inout(&sum)))?;
        }
        o.read(&sum)
    })?;
    println!("x · y = {} in {} tasks", dot[0], device.report().tasks);
    Ok(())
}
