//! `fault-fatal`: the orchestration looks at a result and gives up.

use super::{Marks, checked_by_marks};
use crate::{Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, Orchestrator, Result};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-fatal",
    about: "code 9: the orchestration reads a result and gives up",
    params: &[
        ProgramSetting::new("tasks", 100, 1, 1 << 16, "tasks"),
        ProgramSetting::new(
            "limit",
            50,
            0,
            1 << 20,
            "the largest result it accepts; from the number of tasks on it passes",
        ),
    ],
    fault: true,
    build,
};

struct Fatal {
    limit: i64,
    marks: Marks,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let marks = Marks::new(device, settings.get("tasks"));
    Ok(Box::new(Fatal { limit: settings.get("limit") as i64, marks }))
}

impl Instance for Fatal {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let out = self.marks.share(o)?;
        for index in 0..self.marks.len {
            o.scope(|o| {
                self.marks.submit(o, &out, index..index + 1)?;
                let result = o.read(&out.tile([index], [1])?)?[0];
                if result > self.limit {
                    let message = format!("task {index} gave {result}, and {} is the limit", self.limit);
                    return Err(o.fatal(message));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    checked_by_marks!();
}
