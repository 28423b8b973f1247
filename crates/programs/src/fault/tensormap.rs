//! `fault-tensormap`: every argument that inference looks at takes one entry of the tensormap until its task's slot
//! comes back. Tasks of many arguments use it up long before they fill the task window.

use super::tally::Tally;
use crate::noise::Noise;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, In, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, input, output_existing};
use plimsoll_runtime::{Read, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-tensormap",
    about: "code 11: tasks of many arguments in one scope use up the tensormap",
    params: &[
        ProgramSetting::new(
            "tasks",
            9000,
            1,
            16_384,
            "tasks of 8 arguments each; while 8·tasks fit the tensormap it passes",
        ),
        ProgramSetting::new("before", 100, 0, 1 << 16, "such tasks in small scopes before them"),
    ],
    fault: true,
    build,
};

const INPUTS: usize = 7;

type Seven = Kernel<(Read<i64>, Read<i64>, Read<i64>, Read<i64>, Read<i64>, Read<i64>, Read<i64>, Write<i64>)>;

struct Tensormap {
    before: usize,
    all: usize,
    add: Seven,
    x: SharedBuffer<i64>,
    out: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let before = settings.get("before");
    let all = before + settings.get("tasks");
    type X<'k> = In<'k, i64>;
    let tally = Tally::from_env();
    let add = device.kernel("add-7", move |a: X, b: X, c: X, d: X, e: X, f: X, g: X, mut out: Out<i64>| {
        out[[0]] = [a, b, c, d, e, f, g].iter().map(|x| x[[0]]).sum();
        tally.count();
    });
    Ok(Box::new(Tensormap {
        before,
        all,
        add,
        x: SharedBuffer::new(numbers(all * INPUTS)),
        out: SharedBuffer::new(vec![0; all]),
    }))
}

fn numbers(len: usize) -> Vec<i64> {
    let mut noise = Noise::new(0);
    (0..len).map(|_| noise.below(1000) as i64 + 1).collect()
}

impl Tensormap {
    fn one(
        &self,
        o: &mut Orchestrator<'_, '_>,
        x: &Tensor<'_, i64>,
        out: &Tensor<'_, i64>,
        index: usize,
    ) -> Result<()> {
        let part = |k: usize| x.tile([index * INPUTS + k], [1]);
        let (a, b, c, d) = (part(0)?, part(1)?, part(2)?, part(3)?);
        let (e, f, g) = (part(4)?, part(5)?, part(6)?);
        let out = out.tile([index], [1])?;
        let args = (input(&a), input(&b), input(&c), input(&d), input(&e), input(&f), input(&g), output_existing(&out));
        o.submit(&self.add, args)?;
        Ok(())
    }
}

impl Instance for Tensormap {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (x, out) = (o.share(&self.x, [self.all * INPUTS])?, o.share(&self.out, [self.all])?);
        for index in 0..self.before {
            o.scope(|o| self.one(o, &x, &out, index))?;
        }
        o.scope(|o| (self.before..self.all).try_for_each(|index| self.one(o, &x, &out, index)))
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.x, &self.out]
    }

    fn reset(&self) -> Result<()> {
        self.out.with(|out| out.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let golden: Vec<i64> = numbers(self.all * INPUTS).chunks(INPUTS).map(|x| x.iter().sum()).collect();
        Ok(Verdict::equal(&self.out.to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.out.with(|out| out[self.all / 2] += 1)
    }
}
