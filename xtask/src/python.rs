//! Stage `python`: the package for Python is built as a wheel, installed and tested.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::stages::StageOutcome;
use crate::workspace::{Workspace, shown, succeed};

/// The crate, a workspace of its own.
const MANIFEST: &str = "crates/python/Cargo.toml";

/// What is said where the packages are missing.
pub(crate) const MISSING: &str = "no Python packages in target/venv: .ci/setup installs them";

/// Whether target/venv has what building and testing the package needs.
pub(crate) fn is_ready(workspace: &Workspace) -> bool {
    let mut command = Command::new(workspace.target.join("venv/bin/python"));
    let asked = command.args(["-c", "import maturin, numpy, pytest, pyarrow"]).output();
    asked.is_ok_and(|output| output.status.success())
}

pub(crate) fn check(workspace: &Workspace) -> Result<StageOutcome> {
    if !is_ready(workspace) {
        return Ok(StageOutcome::Skipped(MISSING.to_owned()));
    }
    let python = workspace.target.join("venv/bin/python");
    let target = target(workspace).display().to_string();
    let lint = ["clippy", "--manifest-path", MANIFEST, "--target-dir", &target, "--", "-D", "warnings"];
    for arguments in [&["fmt", "--manifest-path", MANIFEST, "--check"][..], &lint] {
        let mut command = workspace.cargo(arguments);
        println!("$ {}", shown(&command));
        succeed(&mut command)?;
    }
    install(workspace)?;
    let mut tests = Command::new(&python);
    // The docstrings are those of the installed package.
    tests.current_dir(&workspace.root).args(["-m", "pytest", "-q", "python/tests", "--pyargs", "plimsoll"]);
    println!("$ {}", shown(&tests));
    succeed(&mut tests)?;
    Ok(StageOutcome::Passed)
}

/// A directory of its own: the crates of both workspaces have the same names there, and would replace each other.
fn target(workspace: &Workspace) -> PathBuf {
    workspace.target.join("python")
}

/// Builds the wheel and installs it into target/venv.
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    let (venv, wheels) = (workspace.target.join("venv/bin"), workspace.target.join("python/wheels"));
    // Only the wheel that is built now may be installed.
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut build = Command::new(venv.join("maturin"));
    build.current_dir(&workspace.root).args(["build", "--profile", "dev", "--out"]).arg(&wheels);
    build.arg("--target-dir").arg(target(workspace));
    println!("$ {}", shown(&build));
    succeed(&mut build)?;
    let wheel = fs::read_dir(&wheels)?.next().context("maturin built no wheel")??.path();
    let mut install = Command::new(venv.join("python"));
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--force-reinstall"]);
    succeed(install.arg(wheel))
}
