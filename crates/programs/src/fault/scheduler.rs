//! `fault-slow-scheduler`: a scheduler thread stands still before one of its dispatches. It needs an engine whose schedulers are
//! threads of their own.

use super::{Marks, checked_by_marks};
use crate::{Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, Orchestrator, Result, RunOptions, SchedulerStall};
use std::time::Duration;

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-slow-scheduler",
    about: "code 100 with --stall-timeout on --engine emulated: a scheduler stands still",
    params: &[
        ProgramSetting::new("tasks", 1000, 1, 8192, "tasks, each of which marks its own number"),
        ProgramSetting::new(
            "at",
            100,
            0,
            1 << 21,
            "dispatches of that scheduler before it strikes; past the tasks it passes",
        ),
        // Which schedulers get how much to do is a matter of chance, but one of them gets this far.
        ProgramSetting::new("scheduler", 0, 0, 1024, "the scheduler, from 1; 0 is whichever makes so many dispatches"),
        ProgramSetting::new("for-ms", 0, 0, 3_600_000, "time after which it goes on after all; 0 is never"),
    ],
    fault: true,
    build,
};

struct Slow {
    marks: Marks,
    stall: Option<SchedulerStall>,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let (tasks, at, ms) = (settings.get("tasks"), settings.get("at"), settings.get("for-ms") as u64);
    let (after, lasts) = (at as u64, (ms > 0).then(|| Duration::from_millis(ms)));
    let stall = SchedulerStall { scheduler: settings.get("scheduler") as u16, after, lasts };
    Ok(Box::new(Slow { marks: Marks::new(device, tasks), stall: (at < tasks).then_some(stall) }))
}

impl Instance for Slow {
    fn options(&self) -> RunOptions {
        RunOptions { scheduler_stall: self.stall, ..RunOptions::default() }
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let out = self.marks.share(o)?;
        o.scope(|o| self.marks.submit(o, &out, 0..self.marks.len))
    }

    checked_by_marks!();
}
