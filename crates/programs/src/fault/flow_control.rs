//! `fault-flow-control`: scopes nested past depth 3 share ring 3. Each would fit, but as the outer ones stay open while
//! the inner ones submit, they fill it together.

use super::{Marks, checked_by_marks, nest};
use crate::{Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, Orchestrator, Result, Tensor};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-flow-control",
    about: "code 3: scopes nested past depth 3 fill ring 3 together",
    params: &[
        ProgramSetting::new("levels", 4, 2, 16, "scopes on ring 3, one inside the other"),
        ProgramSetting::new(
            "tasks",
            5000,
            1,
            16_384,
            "tasks of each; up to the task window divided by levels it passes",
        ),
        ProgramSetting::new("before", 100, 0, 1 << 20, "tasks in small scopes before them"),
    ],
    fault: true,
    build,
};

/// Depth of the first scope on the last ring.
const LAST_RING_DEPTH: usize = 3;

struct FlowControl {
    before: usize,
    levels: usize,
    tasks: usize,
    marks: Marks,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (before, levels, tasks) = (settings.get("before"), settings.get("levels"), settings.get("tasks"));
    let marks = Marks::new(device, before + levels * tasks);
    Ok(Box::new(FlowControl { before, levels, tasks, marks }))
}

impl FlowControl {
    /// The tasks of one level, and inside its scope the levels after it.
    fn level(&self, o: &mut Orchestrator<'_, '_>, out: &Tensor<'_, i64>, level: usize) -> Result<()> {
        if level == self.levels {
            return Ok(());
        }
        o.scope(|o| {
            let first = self.before + level * self.tasks;
            self.marks.submit(o, out, first..first + self.tasks)?;
            self.level(o, out, level + 1)
        })
    }
}

impl Instance for FlowControl {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let out = self.marks.share(o)?;
        self.marks.submit_before(o, &out, self.before)?;
        nest(o, LAST_RING_DEPTH - 1, &mut |o| self.level(o, &out, 0))
    }

    checked_by_marks!();
}
