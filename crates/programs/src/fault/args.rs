//! `fault-args`: a task whose arguments make no sense together. Tasks of the same kernel before it are in order.

use crate::noise::Noise;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    Device, In, InOut, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, inout, input, output_existing,
};
use plimsoll_runtime::{Read, ReadWrite, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-args",
    about: "code 5: two arguments of one task overlap and one of them is written",
    params: &[
        ProgramSetting::new("tasks", 100, 1, 1 << 16, "tasks"),
        ProgramSetting::new("at", 50, 0, 1 << 20, "the task that is wrong; past the last one it passes"),
        ProgramSetting::new(
            "how",
            1,
            0,
            4,
            "what is wrong: 0 nothing, 1 reads what it updates, 2 updates two parts that overlap, 3 overwrites what it reads, 4 a view outside its tensor",
        ),
    ],
    fault: true,
    build,
};

/// Elements of a task's block.
const BLOCK: usize = 16;

struct Args {
    tasks: usize,
    at: usize,
    how: usize,
    add: Kernel<(Read<i64>, ReadWrite<i64>)>,
    swap: Kernel<(ReadWrite<i64>, ReadWrite<i64>)>,
    copy: Kernel<(Read<i64>, Write<i64>)>,
    x: SharedBuffer<i64>,
    y: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let tasks = settings.get("tasks");
    let add = device.kernel("add", |x: In<i64>, mut y: InOut<i64>| {
        y.row_mut(0).iter_mut().zip(x.row(0)).for_each(|(y, x)| *y += x);
    });
    let swap = device.kernel("swap", |mut x: InOut<i64>, mut y: InOut<i64>| {
        x.row_mut(0).swap_with_slice(y.row_mut(0));
    });
    let copy = device.kernel("copy", |x: In<i64>, mut y: Out<i64>| y.row_mut(0).copy_from_slice(x.row(0)));
    let (at, how) = (settings.get("at"), settings.get("how"));
    let (x, y) = (SharedBuffer::new(numbers(0, tasks)), SharedBuffer::new(numbers(1, tasks)));
    Ok(Box::new(Args { tasks, at, how, add, swap, copy, x, y }))
}

fn numbers(stream: u64, tasks: usize) -> Vec<i64> {
    let mut noise = Noise::new(stream);
    (0..tasks * BLOCK).map(|_| noise.below(1000) as i64).collect()
}

impl Args {
    /// A task that cannot be submitted.
    fn wrong(&self, o: &mut Orchestrator<'_, '_>, y: &Tensor<'_, i64>, index: usize) -> Result<()> {
        let first = index * BLOCK;
        let block = y.slice(0, first..first + BLOCK)?;
        match self.how {
            1 => o.submit(&self.add, (input(&block), inout(&block))).map(|_| ()),
            2 => {
                let (left, right) = (y.slice(0, first..first + BLOCK - 1)?, y.slice(0, first + 1..first + BLOCK)?);
                o.submit(&self.swap, (inout(&left), inout(&right))).map(|_| ())
            }
            3 => o.submit(&self.copy, (input(y), output_existing(&block))).map(|_| ()),
            _ => y.slice(0, first..self.tasks * BLOCK + 1).map(|_| ()),
        }
    }
}

impl Instance for Args {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let len = self.tasks * BLOCK;
        let (x, y) = (o.share(&self.x, [len])?, o.share(&self.y, [len])?);
        for index in 0..self.tasks {
            let (from, to) = (x.tile([index], [BLOCK])?, y.tile([index], [BLOCK])?);
            o.scope(|o| {
                if self.how != 0 && index == self.at {
                    self.wrong(o, &y, index)?;
                }
                o.submit(&self.add, (input(&from), inout(&to)))
            })?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.x, &self.y]
    }

    fn reset(&self) -> Result<()> {
        self.y.with(|y| y.copy_from_slice(&numbers(1, self.tasks)))
    }

    fn verify(&self) -> Result<Verdict> {
        let golden: Vec<i64> = numbers(0, self.tasks).iter().zip(numbers(1, self.tasks)).map(|(x, y)| x + y).collect();
        Ok(Verdict::equal(&self.y.to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.y.with(|y| y[0] += 1)
    }
}
