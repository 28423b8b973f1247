//! `fault-nan`: one task makes a NaN, which those after it pass on. Nothing fails but the result: captured arguments show who.

use crate::{Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, In, Kernel, Orchestrator, Out, Read, Result, SharedBuffer, Value, Write};
use plimsoll_runtime::{input, output_existing, scalar};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-nan",
    about: "one task makes a NaN out of numbers, and the result is wrong",
    params: &[
        ProgramSetting::new("tasks", 100, 1, 1 << 16, "tasks: each halves what the one before it made, and adds one"),
        ProgramSetting::new("n", 64, 1, 1 << 16, "numbers"),
        ProgramSetting::new("at", 50, 0, 1 << 17, "the task that makes the NaN; past the last one it passes"),
    ],
    fault: true,
    build,
};

/// Two rows of numbers in turns.
struct Rows {
    rows: [SharedBuffer<f32>; 2],
    halve: Kernel<(Value<i64>, Read<f32>, Write<f32>)>,
    tasks: usize,
    len: usize,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (tasks, len, at) = (settings.get("tasks"), settings.get("n"), settings.get("at") as i64);
    let halve = device.kernel("halve", move |index: i64, from: In<f32>, mut to: Out<f32>| {
        for i in 0..from.len() {
            to[[i]] = from[[i]] * 0.5 + 1.0;
        }
        if index == at {
            to[[from.len() / 2]] = f32::NAN;
        }
    });
    let rows = std::array::from_fn(|_| SharedBuffer::new(vec![0.0; len]));
    Ok(Box::new(Rows { rows, halve, tasks, len }))
}

impl Instance for Rows {
    fn buffers(&self) -> crate::Buffers<'_> {
        self.rows.iter().map(|row| row as _).collect()
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let rows = [o.share(&self.rows[0], [self.len])?, o.share(&self.rows[1], [self.len])?];
        const SCOPE: usize = 64;
        for first in (0..self.tasks).step_by(SCOPE) {
            o.scope(|o| {
                for index in first..self.tasks.min(first + SCOPE) {
                    let (from, to) = (&rows[index % 2], &rows[(index + 1) % 2]);
                    o.submit(&self.halve, (scalar(index as i64), input(from), output_existing(to)))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        self.rows.iter().try_for_each(|row| row.with(|row| row.fill(0.0)))
    }

    fn verify(&self) -> Result<Verdict> {
        let golden = (0..self.tasks).fold(0.0f64, |value, _| value * 0.5 + 1.0);
        let got = self.rows[self.tasks % 2].to_vec()?;
        Ok(Verdict::close(&got, &vec![golden; self.len], |_| 1e-6))
    }

    fn spoil(&self) -> Result<()> {
        self.rows[self.tasks % 2].with(|row| row[self.len / 2] += 1.0)
    }
}
