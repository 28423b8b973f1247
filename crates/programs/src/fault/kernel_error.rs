//! `fault-kernel-error`: one task's kernel returns an error. Later tasks depend on it.

use super::tally::Tally;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{
    Device, In, InOut, Kernel, KernelError, Orchestrator, Result, SharedBuffer, inout, input, scalar,
};
use plimsoll_runtime::{Read, ReadWrite, Value};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-kernel-error",
    about: "code 20: a kernel returns an error",
    params: &[
        ProgramSetting::new("tasks", 1000, 1, 1 << 20, "tasks: every tenth is a chain over the ones before it"),
        ProgramSetting::new("at", 500, 0, 1 << 21, "the task that fails; past the last one it passes"),
    ],
    fault: true,
    build,
};

/// Tasks of a scope: the last of them adds up what the others wrote.
pub(super) const PORTION: usize = 10;

/// Tasks that each write their number, and after every nine one that adds to a sum: something to depend on the task
/// that goes wrong.
pub(super) struct Sums {
    tasks: usize,
    at: usize,
    how: i64,
    /// What happens in the orchestration before that task is submitted, if it is there that something goes wrong.
    strike: Option<fn(usize)>,
    write: Kernel<(Value<i64>, Value<i64>, Value<i64>, ReadWrite<i64>)>,
    add: Kernel<(Read<i64>, ReadWrite<i64>)>,
    numbers: SharedBuffer<i64>,
    sum: SharedBuffer<i64>,
}

impl Sums {
    /// `write` gets the task's number, the number of the task that goes wrong, and how it does.
    pub(super) fn new(
        device: &mut Device,
        settings: &Settings,
        how: i64,
        write: fn(i64, i64, i64, &mut [i64]) -> std::result::Result<(), KernelError>,
    ) -> Self {
        let tasks = settings.get("tasks");
        let (tally, added) = (Tally::from_env(), Tally::from_env());
        let write = device.kernel("write", move |index: i64, at: i64, how: i64, mut out: InOut<i64>| {
            write(index, at, how, out.row_mut(0)).inspect(|()| tally.count())
        });
        let add = device.kernel("add", move |x: In<i64>, mut sum: InOut<i64>| {
            sum[[0]] += x.row(0).iter().sum::<i64>();
            added.count();
        });
        let (numbers, sum) = (SharedBuffer::new(vec![0; tasks]), SharedBuffer::new(vec![0]));
        Self { tasks, at: settings.get("at"), how, strike: None, write, add, numbers, sum }
    }

    /// The orchestration goes wrong, and no kernel.
    pub(super) fn strikes_in_orchestration(mut self, strike: fn(usize)) -> Self {
        self.strike = Some(strike);
        self
    }

    /// Whether a task adds up the ones before it in its portion.
    fn adds(index: usize) -> bool {
        index % PORTION == PORTION - 1
    }
}

impl Instance for Sums {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (numbers, sum) = (o.share(&self.numbers, [self.tasks])?, o.share(&self.sum, [1])?);
        for first in (0..self.tasks).step_by(PORTION) {
            o.scope(|o| {
                for index in first..self.tasks.min(first + PORTION) {
                    if let Some(strike) = self.strike.filter(|_| index == self.at) {
                        strike(index);
                    }
                    if Self::adds(index) && index != self.at {
                        let before = numbers.slice(0, first..index)?;
                        o.submit(&self.add, (input(&before), inout(&sum)))?;
                        continue;
                    }
                    let at = if self.strike.is_some() { -1 } else { self.at as i64 };
                    let (at, how) = (scalar(at), scalar(self.how));
                    let number = numbers.tile([index], [1])?;
                    o.submit(&self.write, (scalar(index as i64), at, how, inout(&number)))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.numbers, &self.sum]
    }

    fn reset(&self) -> Result<()> {
        self.sum.with(|sum| sum[0] = 0)?;
        self.numbers.with(|numbers| numbers.fill(0))
    }

    fn verify(&self) -> Result<Verdict> {
        let written = |index: usize| if Self::adds(index) { 0 } else { index as i64 + 1 };
        let numbers: Vec<i64> = (0..self.tasks).map(written).collect();
        let sum = numbers[..self.tasks / PORTION * PORTION].iter().sum::<i64>();
        Ok(Verdict::equal(&self.numbers.to_vec()?, &numbers).and(Verdict::equal(&self.sum.to_vec()?, &[sum])))
    }

    fn spoil(&self) -> Result<()> {
        self.sum.with(|sum| sum[0] += 1)
    }
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    Ok(Box::new(Sums::new(device, settings, 0, |index, at, _, out| {
        if index == at {
            return Err(format!("task number {index} was told to fail").into());
        }
        out[0] += index + 1;
        Ok(())
    })))
}
