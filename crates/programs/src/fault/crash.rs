//! `fault-abort` and `fault-segfault`: a kernel, or the orchestration, takes its whole process down. With `--isolate` that is the
//! device's process and not the command's.

use super::kernel_error::Sums;
use crate::{Instance, Program, ProgramSetting, Settings};
use plimsoll_runtime::{Device, KernelError, Result};
use std::time::Duration;

const PARAMS: &[ProgramSetting] = &[
    ProgramSetting::new("tasks", 1000, 1, 1 << 20, "tasks: every tenth is a chain over the ones before it"),
    ProgramSetting::new("at", 500, 0, 1 << 21, "the task that strikes; past the last one it passes"),
    ProgramSetting::choice("where", &["kernel", "orchestration"], "in that task's kernel, or before it is submitted"),
    ProgramSetting::new("after-ms", 0, 0, 3_600_000, "time that the kernel has taken by then"),
];

/// The program that aborts.
pub(crate) const ABORT: Program = Program {
    name: "fault-abort",
    about: "code 111 with --isolate: a kernel aborts its process",
    params: PARAMS,
    fault: true,
    build: |device, settings| build(device, settings, |index, at, ms, out| write(index, at, ms, out, abort), abort),
};

/// The program that touches memory which is not there.
pub(crate) const SEGFAULT: Program = Program {
    name: "fault-segfault",
    about: "code 111 with --isolate: a kernel touches memory that is not there",
    params: PARAMS,
    fault: true,
    build: |device, settings| {
        build(device, settings, |index, at, ms, out| write(index, at, ms, out, segfault), segfault)
    },
};

type Write = fn(i64, i64, i64, &mut [i64]) -> std::result::Result<(), KernelError>;

fn build(device: &mut Device, settings: &Settings, write: Write, crash: fn(usize)) -> Result<Box<dyn Instance>> {
    let sums = Sums::new(device, settings, settings.get("after-ms") as i64, write);
    Ok(Box::new(if settings.get("where") == 0 { sums } else { sums.strikes_in_orchestration(crash) }))
}

fn write(
    index: i64,
    at: i64,
    after_ms: i64,
    out: &mut [i64],
    crash: fn(usize),
) -> std::result::Result<(), KernelError> {
    if index == at {
        std::thread::sleep(Duration::from_millis(after_ms.unsigned_abs()));
        crash(index as usize);
    }
    out[0] += index + 1;
    Ok(())
}

fn abort(_: usize) {
    std::process::abort();
}

#[allow(unsafe_code, reason = "there is no other way to touch memory that is not there")]
fn segfault(at: usize) {
    let nowhere = std::ptr::without_provenance::<u8>(8 + at % 8);
    // SAFETY: none. The first page of a process is never mapped, so the read ends the process, which is what was asked for.
    std::hint::black_box(unsafe { nowhere.read_volatile() });
}
