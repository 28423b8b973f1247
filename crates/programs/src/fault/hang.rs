//! `fault-hang` and `fault-spin`: one task's kernel does not return. It sleeps, or it uses the CPU.

use super::kernel_error::Sums;
use crate::{Instance, Program, ProgramSetting, Settings};
use plimsoll_runtime::{Device, Result};
use std::time::{Duration, Instant};

const PARAMS: &[ProgramSetting] = &[
    ProgramSetting::new("tasks", 1000, 1, 1 << 20, "tasks: every tenth is a chain over the ones before it"),
    ProgramSetting::new("at", 500, 0, 1 << 21, "the task whose kernel hangs; past the last one it passes"),
    ProgramSetting::new("for-ms", 0, 0, 3_600_000, "time after which the kernel returns after all; 0 is never"),
];

/// The program whose kernel sleeps.
pub(crate) const PROGRAM: Program = Program {
    name: "fault-hang",
    about: "code 110 with --op-timeout, else 100: a kernel sleeps and never returns",
    params: PARAMS,
    fault: true,
    build: |device, settings| build(device, settings, |index, at, ms, out| hang(index == at, ms, out, index, sleep)),
};

/// The program whose kernel uses the CPU.
pub(crate) const SPIN: Program = Program {
    name: "fault-spin",
    about: "code 110 with --op-timeout: a kernel computes and never returns",
    params: PARAMS,
    fault: true,
    build: |device, settings| build(device, settings, |index, at, ms, out| hang(index == at, ms, out, index, spin)),
};

type Write = fn(i64, i64, i64, &mut [i64]) -> std::result::Result<(), plimsoll_runtime::KernelError>;

fn build(device: &mut Device, settings: &Settings, write: Write) -> Result<Box<dyn Instance>> {
    // Positive numbers have a meaning of their own there.
    let ms = -(settings.get("for-ms") as i64);
    Ok(Box::new(Sums::new(device, settings, ms, write)))
}

fn hang(
    strikes: bool,
    ms: i64,
    out: &mut [i64],
    index: i64,
    step: fn(),
) -> std::result::Result<(), plimsoll_runtime::KernelError> {
    let since = Instant::now();
    while strikes && (ms == 0 || since.elapsed() < Duration::from_millis(ms.unsigned_abs())) {
        step();
    }
    out[0] += index + 1;
    Ok(())
}

/// A short time asleep.
pub(super) fn sleep() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A short time of work.
pub(super) fn spin() {
    (0..10_000).for_each(|_| std::hint::spin_loop());
}
