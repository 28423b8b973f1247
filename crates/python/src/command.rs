//! The command's verbs.

use crate::gil;
use crate::program::number;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Does what the command would do with these words; gives its exit code.
#[pyfunction]
pub(crate) fn _command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    number(gil::released(py, || plimsoll_cli::command(words)))
}
