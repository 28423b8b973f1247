//! `fault-panic`: one task's kernel panics. The panic is caught; the process and the device go on.

use super::kernel_error::Sums;
use crate::{Instance, Program, ProgramSetting, Settings};
use plimsoll_runtime::{Device, Result};

/// The program.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-panic",
    about: "code 21: a kernel panics; or the orchestration (code 25)",
    params: &[
        ProgramSetting::new("tasks", 1000, 1, 1 << 20, "tasks: every tenth is a chain over the ones before it"),
        ProgramSetting::new("at", 500, 0, 1 << 21, "the task that panics; past the last one it passes"),
        ProgramSetting::new(
            "how",
            0,
            0,
            3,
            "0 with a message, 1 by an index, 2 by a division by zero, 3 in the orchestration",
        ),
    ],
    fault: true,
    build,
};

fn build(device: &mut Device, settings: &Settings) -> Result<Box<dyn Instance>> {
    let how = settings.get("how") as i64;
    let sums = Sums::new(device, settings, how, |index, at, how, out| {
        match how {
            _ if index != at => out[0] += index + 1,
            1 => out[out.len()] = index,
            2 => out[0] = index / (index - at),
            _ => panic!("task number {index} was told to panic"),
        }
        Ok(())
    });
    Ok(Box::new(match how {
        3 => sums.strikes_in_orchestration(|index| panic!("told to panic before task {index}")),
        _ => sums,
    }))
}
