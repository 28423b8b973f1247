//! The command's verbs, and what of a finished run's files is made here.

use crate::error::invalid;
use crate::gil;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Does what the command would do with these words; gives its exit code.
#[pyfunction]
pub(crate) fn _command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    let code = gil::released(py, || plimsoll_cli::command(words));
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}

/// Writes the files for viewers beside a run's records; gives whether they were written.
#[pyfunction]
#[pyo3(signature = (dir, verified=None))]
pub(crate) fn _export(py: Python<'_>, dir: PathBuf, verified: Option<bool>) -> PyResult<bool> {
    let exported = gil::released(py, || plimsoll::record::export_run(&dir, verified));
    exported.map_err(|error| {
        invalid(py, format!("The run in {} cannot be exported. {error}. Look at its run.json.", dir.display()))
    })
}
