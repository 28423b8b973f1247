//! `fault-heap`: one scope makes more output than its ring's heap holds. The memory of an output comes back only when
//! the scope ends, because a later task of it may read the output.

use super::nest;
use super::tally::Tally;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    Device, In, Kernel, Orchestrator, Out, Result, SharedBuffer, Tensor, input, output, output_existing, scalar,
};
use plimsoll_runtime::{Read, Value, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-heap",
    about: "code 2: the outputs of one scope do not fit the heap",
    params: &[
        ProgramSetting::new(
            "tasks",
            80,
            1,
            4096,
            "outputs of the scope; as long as they fit the heap together it passes",
        ),
        ProgramSetting::new("bytes", 1 << 20, 8, 1 << 30, "size of each, rounded up to a multiple of 8"),
        ProgramSetting::new("before", 4, 0, 4096, "outputs in small scopes before it"),
        ProgramSetting::new("depth", 1, 1, 3, "depth of the scope, which is also the ring whose heap fills up"),
    ],
    fault: true,
    build,
};

struct Heap {
    before: usize,
    tasks: usize,
    depth: usize,
    words: usize,
    make: Kernel<(Value<i64>, Write<i64>)>,
    take: Kernel<(Read<i64>, Write<i64>)>,
    out: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (before, tasks) = (settings.get("before"), settings.get("tasks"));
    // Only the ends are written: the point is what is reserved, not what the machine has to find.
    let (tally, taken) = (Tally::from_env(), Tally::from_env());
    let make = device.kernel("make", move |index: i64, mut made: Out<i64>| {
        let last = made.len() - 1;
        made[[0]] = index;
        made[[last]] = index + 1;
        tally.count();
    });
    let take = device.kernel("take", move |made: In<i64>, mut out: Out<i64>| {
        out[[0]] = made[[made.len() - 1]];
        taken.count();
    });
    Ok(Box::new(Heap {
        before,
        tasks,
        depth: settings.get("depth"),
        words: settings.get("bytes").div_ceil(size_of::<i64>()),
        make,
        take,
        out: SharedBuffer::new(vec![0; before + tasks]),
    }))
}

impl Heap {
    fn one(&self, o: &mut Orchestrator<'_, '_>, out: &Tensor<'_, i64>, index: usize) -> Result<()> {
        let (_, made) = o.submit(&self.make, (scalar(index as i64), output([self.words])))?;
        o.submit(&self.take, (input(&made), output_existing(&out.tile([index], [1])?)))?;
        Ok(())
    }
}

impl Instance for Heap {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let all = self.before + self.tasks;
        let out = o.share(&self.out, [all])?;
        for index in 0..self.before {
            o.scope(|o| self.one(o, &out, index))?;
        }
        nest(o, self.depth - 1, &mut |o| o.scope(|o| (self.before..all).try_for_each(|index| self.one(o, &out, index))))
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.out]
    }

    fn reset(&self) -> Result<()> {
        self.out.with(|out| out.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let golden: Vec<i64> = (1..=(self.before + self.tasks) as i64).collect();
        Ok(Verdict::equal(&self.out.to_vec()?, &golden))
    }

    fn spoil(&self) -> Result<()> {
        self.out.with(|out| out[out.len() / 2] += 1)
    }
}
