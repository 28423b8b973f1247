//! Where the repository and its build products are, and how to run programs on them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Honours CARGO_TARGET_DIR and cargo's configuration.
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Workspace> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let mut command = Command::new(cargo());
        command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(manifest);
        let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
        let path =
            |key: &str| metadata[key].as_str().map(PathBuf::from).with_context(|| format!("cargo says no {key}"));
        Ok(Workspace { root: path("workspace_root")?, target: path("target_directory")? })
    }

    /// A program of the release profile.
    pub(crate) fn release(&self, program: &str) -> PathBuf {
        self.target.join("release").join(program)
    }

    pub(crate) fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root).args(arguments);
        command
    }
}

/// The cargo that runs us, so that a `+toolchain` holds for what we start too.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Runs a program that shows its own output; an error if it fails.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    ensure!(status.success(), "{} failed ({status})", shown(command));
    Ok(())
}

/// What a program prints; an error with its complaints if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed ({}): {}", shown(command), output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
