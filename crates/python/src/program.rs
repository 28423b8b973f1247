//! `run mine.py:program`: the command's own flags, for a program that is called here.

use crate::device::PyDevice;
use crate::gil;
use crate::orchestrator::locked;
use crate::run::{self, RunSettings};
use plimsoll::run::Site;
use plimsoll_cli::ForeignRun;
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The number of an exit code, which the standard library keeps to itself.
pub(crate) fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

fn exit(code: ExitCode) -> PyErr {
    PySystemExit::new_err(number(code))
}

/// A run that the command's words ask for. Ends the interpreter, if they are wrong or ask for help.
#[pyclass(name = "_RunCommand", module = "plimsoll", frozen)]
pub(crate) struct PyRunCommand(Arc<ForeignRun>);

#[pymethods]
impl PyRunCommand {
    #[new]
    fn new(words: Vec<OsString>) -> PyResult<Self> {
        ForeignRun::read(words).map(|read| Self(Arc::new(read))).map_err(exit)
    }

    /// The file that the program is in.
    #[getter]
    fn file(&self) -> PathBuf {
        self.0.program().0.to_path_buf()
    }

    /// The function.
    #[getter]
    fn name(&self) -> String {
        self.0.program().1.to_owned()
    }

    /// What `--set` says, as it was written.
    #[getter]
    fn sets(&self) -> Vec<String> {
        self.0.sets().to_vec()
    }

    /// The device that was asked for.
    fn device(&self, py: Python<'_>) -> PyResult<PyDevice> {
        // A watchdog looks after the run, for which the caller executes no tasks.
        let builder = self.0.builder(2).map_err(exit)?;
        let (engine, arch) = self.0.machine();
        let opened = PyDevice::open(py, builder, (engine.to_owned(), arch), RunSettings::default());
        opened.map_err(|error| exit(ForeignRun::refuse(error)))
    }

    /// Runs the program, which is written at this place, as the words say.
    fn run(
        &self,
        py: Python<'_>,
        device: &Bound<'_, PyDevice>,
        program: &Bound<'_, PyAny>,
        file: &str,
        line: u32,
    ) -> PyResult<()> {
        let options = self.0.options().map_err(exit)?;
        let (site, device) = (Site::foreign(file, line), device.get());
        let context = &device.context;
        device.with(py, |device| {
            let options = run::hooked(py, context, site, options)?;
            let rounds = self.0.rounds();
            match self.0.prebuilt() {
                None => run::run_with(py, device, context, &options, rounds, program).map(drop),
                Some(most) => {
                    let mut graph = run::build_with(py, device, context, &options, most, program)?;
                    run::launch_with(py, device, context, &options, rounds, &mut graph)
                }
            }
        })
    }

    /// Writes what is to be written of the run and says how it went; gives the exit code.
    fn tell(&self, py: Python<'_>, device: &Bound<'_, PyDevice>) -> PyResult<u8> {
        let device = device.get();
        let report = device.with(py, |device| Ok(device.report().clone()))?;
        let error = locked(&device.context.failure).take();
        Ok(number(gil::released(py, || self.0.tell(&report, error))))
    }
}
