//! `fault-wait`: the orchestration reads a tensor that takes longer than a read may wait.
//!
//! The tensor is updated by a chain of naps rather than by one long nap: the reading thread may take one of them over
//! while it waits, and looks at the clock between two.

use super::deadline::Naps;
use crate::{Buffers, Instance, Program, ProgramSetting, Settings, Verdict};
use plimsoll_runtime::{Device, Orchestrator, Result, RunOptions};
use std::time::Duration;

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-wait",
    about: "code 8: a read waits longer than it may for a tensor's data",
    params: &[
        ProgramSetting::new("tasks", 20, 1, 10_000, "tasks, one after the other"),
        ProgramSetting::new("nap-ms", 20, 0, 10_000, "time that each takes"),
        ProgramSetting::new(
            "timeout-ms",
            50,
            0,
            3_600_000,
            "time that the read may wait; 0 is no limit, and then it passes",
        ),
    ],
    fault: true,
    build,
};

struct WaitProgram {
    timeout: Option<Duration>,
    naps: Naps,
}

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let timeout = settings.get("timeout-ms") as u64;
    let timeout = (timeout > 0).then(|| Duration::from_millis(timeout));
    Ok(Box::new(WaitProgram { timeout, naps: Naps::new(device, settings, None) }))
}

impl Instance for WaitProgram {
    fn options(&self) -> RunOptions {
        RunOptions { read_timeout: self.timeout, ..RunOptions::default() }
    }

    fn orchestrate<'env>(&'env self, o: &mut Orchestrator<'_, 'env>) -> Result<()> {
        let count = self.naps.share(o)?;
        o.scope(|o| {
            self.naps.submit(o, &count)?;
            o.read(&count)
        })?;
        Ok(())
    }

    fn buffers(&self) -> Buffers<'_> {
        vec![&self.naps.count]
    }

    fn reset(&self) -> Result<()> {
        self.naps.reset()
    }

    fn verify(&self) -> Result<Verdict> {
        self.naps.verify()
    }

    fn spoil(&self) -> Result<()> {
        self.naps.spoil()
    }
}
