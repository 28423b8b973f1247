//! `fault-dep-pool`: every consumer waits for every producer of the same scope, and each such edge takes an entry of
//! the ring's dependency pool for as long as the scope holds both tasks.

use super::Marks;
use super::tally::Tally;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, In, Kernel, Orchestrator, Out, Result, SharedBuffer, input, output_existing};
use plimsoll_runtime::{Read, Write};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-dep-pool",
    about: "code 4: tasks with many producers in one scope use up the dependency pool",
    params: &[
        ProgramSetting::new("producers", 100, 1, 4096, "tasks that every consumer waits for"),
        ProgramSetting::new(
            "consumers",
            200,
            1,
            4096,
            "tasks that wait; while producers·consumers fit the pool it passes",
        ),
        ProgramSetting::new("before", 100, 0, 1 << 16, "tasks in small scopes before them"),
    ],
    fault: true,
    build,
};

struct DepPool {
    before: usize,
    producers: usize,
    consumers: usize,
    /// Written by the producers and by those before them.
    marks: Marks,
    sum: Kernel<(Read<i64>, Write<i64>)>,
    sums: SharedBuffer<i64>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (before, producers) = (settings.get("before"), settings.get("producers"));
    let consumers = settings.get("consumers");
    let marks = Marks::new(device, before + producers);
    let tally = Tally::from_env();
    let sum = device.kernel("sum", move |marks: In<i64>, mut sum: Out<i64>| {
        sum[[0]] = marks.row(0).iter().sum();
        tally.count();
    });
    let sums = SharedBuffer::new(vec![0; consumers]);
    Ok(Box::new(DepPool { before, producers, consumers, marks, sum, sums }))
}

impl Instance for DepPool {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let out = self.marks.share(o)?;
        let sums = o.share(&self.sums, [self.consumers])?;
        self.marks.submit_before(o, &out, self.before)?;
        o.scope(|o| {
            let range = self.before..self.before + self.producers;
            self.marks.submit(o, &out, range.clone())?;
            let produced = out.slice(0, range)?;
            for consumer in 0..self.consumers {
                o.submit(&self.sum, (input(&produced), output_existing(&sums.tile([consumer], [1])?)))?;
            }
            Ok(())
        })
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.sums, &self.marks.out]
    }

    fn reset(&self) -> Result<()> {
        self.sums.with(|sums| sums.fill(0))?;
        self.marks.reset()
    }

    fn verify(&self) -> Result<Verdict> {
        let sum = (self.before..self.before + self.producers).map(|index| index as i64 + 1).sum();
        Ok(self.marks.verify()?.and(Verdict::equal(&self.sums.to_vec()?, &vec![sum; self.consumers])))
    }

    fn spoil(&self) -> Result<()> {
        self.sums.with(|sums| sums[self.consumers / 2] += 1)
    }
}
