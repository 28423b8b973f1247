//! How fast virtual time is in real time: tasks per second of this machine, with empty kernels.

use plimsoll_abi::Flags;
use plimsoll_runtime::{ArchSpec, CoreClass, Device, InOut, RecordOptions, Result, RunOptions, VirtualOptions, inout};
use std::time::{Duration, Instant};

/// What a measurement found.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Tasks.
    pub tasks: u64,
    /// Real time.
    pub wall: Duration,
    /// Virtual time.
    pub virtual_ns: u64,
}

/// Runs `tasks` empty tasks on 64 tiles of a buffer, recorded at level 4 unless `bare`.
pub fn measure(arch: &ArchSpec, tasks: u64, bare: bool) -> Result<Speed> {
    const TILES: usize = 64;
    let mut device = Device::builder().engine(VirtualOptions::new(arch, 1)).open()?;
    let kernels = [CoreClass::Aic, CoreClass::Aiv, CoreClass::Any]
        .map(|class| device.kernel_on(class, class.name(), |_: InOut<f32>| {}));
    let dir = tempfile::tempdir().map_err(|error| plimsoll_runtime::Error::invalid(error.to_string()))?;
    let record = (!bare).then(|| RecordOptions::new(dir.path(), Flags::NONE.with(Flags::ORCH_PHASES)));
    let options = RunOptions { record, ..RunOptions::default() };
    let begin = Instant::now();
    device.run_with(&options, |o| {
        let x = o.own(vec![0.0f32; TILES], [TILES])?;
        let tiles: Vec<_> = (0..TILES).map(|at| x.tile([at], [1])).collect::<Result<_>>()?;
        let mut left = tasks;
        while left > 0 {
            let batch = left.min(1024);
            o.scope(|o| {
                (0..batch as usize)
                    .try_for_each(|at| o.submit(&kernels[at % kernels.len()], (inout(&tiles[at % TILES]),)).map(|_| ()))
            })?;
            left -= batch;
        }
        Ok(())
    })?;
    Ok(Speed { tasks, wall: begin.elapsed(), virtual_ns: device.report().elapsed_ns })
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rate = self.tasks as f64 / self.wall.as_secs_f64();
        write!(f, "{} tasks in {:.3} s: {rate:.0} tasks/s; ", self.tasks, self.wall.as_secs_f64())?;
        write!(f, "{:.3} ms of virtual time", self.virtual_ns as f64 / 1e6)
    }
}
