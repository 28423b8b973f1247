//! Programs in Python: `plimsoll run mine.py:program` becomes `python -m plimsoll run mine.py:program` with the same flags.

use crate::exit::wrong;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that says which Python it is.
const VARIABLE: &str = "PLIMSOLL_PYTHON";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The variable by which a Python knows that the command became it.
const BECAME: &str = "PLIMSOLL_BECAME_PYTHON";

/// Becomes Python with these words, of which the first is the command's name. Returns only if that fails, with the reason.
pub(super) fn execute(words: &[OsString]) -> anyhow::Error {
    if std::env::var_os(BECAME).is_some() {
        return wrong(
            "The package plimsoll handed a program in Python back to the command. The two would do so for ever. Install the package and the command from one version.",
        );
    }
    let python = interpreter(std::env::var_os(VARIABLE), std::env::var_os("VIRTUAL_ENV"));
    if let Err(error) = check_version(&python) {
        return error;
    }
    crate::console::flush();
    let mut command = Command::new(&python);
    let error = command.args(["-m", "plimsoll"]).args(words.iter().skip(1)).env(BECAME, "1").exec();
    cannot_start(&python, &error)
}

/// Which Python: the one that is named, that of the active virtual environment, or the system's.
fn interpreter(named: Option<OsString>, environment: Option<OsString>) -> PathBuf {
    let set = |variable: Option<OsString>| variable.filter(|value| !value.is_empty()).map(PathBuf::from);
    set(named).or_else(|| set(environment).map(|place| place.join("bin/python"))).unwrap_or_else(|| "python3".into())
}

/// The package reads what this command writes and the other way round, so both are of one version.
fn check_version(python: &Path) -> anyhow::Result<()> {
    let mut asked = Command::new(python);
    asked.args(["-m", "plimsoll", "--version"]).stdin(Stdio::null());
    let answer = asked.output().map_err(|error| cannot_start(python, &error))?;
    let said = String::from_utf8_lossy(&answer.stdout);
    let version = said.split_whitespace().last().unwrap_or_default();
    if answer.status.success() && version == VERSION {
        return Ok(());
    }
    let shown = python.display();
    Err(wrong(if answer.status.success() {
        format!(
            "The package plimsoll of {shown} is of version {version:?}, and this command of {VERSION}. Both must be the same. Install that version there, or set {VARIABLE} to a Python that has it."
        )
    } else {
        let reason = String::from_utf8_lossy(&answer.stderr);
        let reason = reason.lines().last().unwrap_or("nothing");
        format!(
            "The package plimsoll cannot be used with {shown}. It says: {reason}. Install version {VERSION} of it there with pip, or set {VARIABLE} to a Python that has it."
        )
    }))
}

fn cannot_start(python: &Path, error: &std::io::Error) -> anyhow::Error {
    wrong(format!(
        "{} cannot be started. The system says: {error}. Install Python, or set {VARIABLE} to one.",
        python.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_that_is_named_comes_before_the_environments_and_the_systems() {
        let of = |named: &str, place: &str| interpreter(Some(named.into()), Some(place.into()));
        assert_eq!(of("/opt/python", "/venv"), Path::new("/opt/python"));
        assert_eq!(of("", "/venv"), Path::new("/venv/bin/python"));
        assert_eq!(of("", ""), Path::new("python3"));
        assert_eq!(interpreter(None, None), Path::new("python3"));
    }
}
