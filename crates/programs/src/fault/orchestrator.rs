//! `fault-orchestrator`: the orchestration does not go on after some submits. It sleeps, or it uses the CPU.

use super::{Marks, checked_by_marks, hang};
use crate::{Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, Orchestrator, Result};
use std::time::{Duration, Instant};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-orchestrator",
    about: "code 100 with --orch-timeout: the orchestration is stuck in its own code",
    params: &[
        ProgramSetting::new("tasks", 100, 1, 8192, "tasks, each of which marks its own number"),
        ProgramSetting::new("at", 50, 0, 1 << 21, "submits before it hangs; past the last one it passes"),
        ProgramSetting::choice("how", &["sleep", "spin"], "how it hangs"),
        ProgramSetting::new("for-ms", 0, 0, 3_600_000, "time after which it goes on after all; 0 is never"),
    ],
    fault: true,
    build,
};

struct Stuck {
    marks: Marks,
    at: usize,
    step: fn(),
    ms: u64,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let step = if settings.get("how") == 0 { hang::sleep } else { hang::spin };
    let marks = Marks::new(device, settings.get("tasks"));
    Ok(Box::new(Stuck { marks, at: settings.get("at"), step, ms: settings.get("for-ms") as u64 }))
}

impl Instance for Stuck {
    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let (out, len) = (self.marks.share(o)?, self.marks.len);
        o.scope(|o| {
            self.marks.submit(o, &out, 0..len.min(self.at))?;
            let since = Instant::now();
            while self.at < len && (self.ms == 0 || since.elapsed() < Duration::from_millis(self.ms)) {
                (self.step)();
            }
            self.marks.submit(o, &out, len.min(self.at)..len)
        })
    }

    checked_by_marks!();
}
