//! `fault-scope-deadlock`: one scope submits more tasks than its ring has slots. All of them complete, but a slot comes
//! back only when the scope ends, which waits for the next submit, which waits for a slot.

use super::{Marks, checked_by_marks, nest};
use crate::{Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, Orchestrator, Result};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-scope-deadlock",
    about: "code 1: one scope submits more tasks than the task window has slots",
    params: &[
        ProgramSetting::new("tasks", 20_000, 1, 65_536, "tasks of the scope; up to the task window it passes"),
        ProgramSetting::new("before", 100, 0, 1 << 20, "tasks in small scopes before it"),
        ProgramSetting::new("depth", 1, 1, 3, "depth of the scope, which is also the ring that fills up"),
    ],
    fault: true,
    build,
};

struct ScopeDeadlock {
    before: usize,
    depth: usize,
    marks: Marks,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let before = settings.get("before");
    let marks = Marks::new(device, before + settings.get("tasks"));
    Ok(Box::new(ScopeDeadlock { before, depth: settings.get("depth"), marks }))
}

impl Instance for ScopeDeadlock {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let out = self.marks.share(o)?;
        self.marks.submit_before(o, &out, self.before)?;
        nest(o, self.depth - 1, &mut |o| o.scope(|o| self.marks.submit(o, &out, self.before..self.marks.len)))
    }

    checked_by_marks!();
}
