//! Runs the built command in a directory of its own.

use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A current directory for commands.
pub(crate) struct Place(TempDir);

/// What a command did.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, with none of its variables in the environment.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(words).current_dir(self.path()).stdin(Stdio::null());
        for variable in ["TASK_WINDOW", "HEAP", "DEP_POOL"] {
            command.env_remove(format!("PLIMSOLL_RING_{variable}"));
        }
        command.env_remove("PLIMSOLL_TENSORMAP");
        command
    }

    /// Runs the words of a line.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(line.split_whitespace()).output().expect("the command starts"))
    }

    /// Runs the words of a line, which must exit with 0.
    #[track_caller]
    pub(crate) fn good(&self, line: &str) -> Ran {
        let ran = self.run(line);
        assert_eq!(ran.code, Some(0), "{line}\n{}\n{}", ran.out, ran.err);
        ran
    }

    /// The manifest of a run, given relative to this place.
    #[track_caller]
    pub(crate) fn manifest(&self, dir: &str) -> Value {
        let text = std::fs::read_to_string(self.path().join(dir).join("run.json")).expect("a manifest");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The files of a directory given relative to this place, in order.
    pub(crate) fn files(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path().join(dir)).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The one object that was printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one line and nothing else: {}{}", self.out, self.err);
        let value: Value = serde_json::from_str(&self.out).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }
}

/// Every record of a ledger as JSON is accounted for; returns how many there are and how many are lost.
#[track_caller]
pub(crate) fn balance(reconcile: &Value) -> (u64, u64) {
    assert_eq!(reconcile["balanced"], true, "{reconcile}");
    let (mut total, mut lost) = (0, 0);
    for pool in reconcile["pools"].as_array().expect("pools") {
        let part = |name: &str| pool[name].as_u64().unwrap_or_else(|| panic!("{name} in {pool}"));
        let parts = part("collected") + part("recovered") + part("dropped") + part("mismatch");
        assert_eq!(part("total"), parts, "{pool}");
        assert!(pool["kind"].is_string() && pool["instance"].is_u64() && pool["wait_ns"].is_u64(), "{pool}");
        total += part("total");
        lost += part("dropped") + part("mismatch");
    }
    assert_eq!(reconcile["lossless"], lost == 0, "{reconcile}");
    (total, lost)
}

/// The repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository")
}

/// Genuine files of the reference system beside the repository, if they are there.
pub(crate) fn samples() -> Option<PathBuf> {
    let samples = repository().parent()?.join("shared/samples");
    if !samples.is_dir() {
        println!("there are no samples of the reference beside the repository: their part is passed over");
        return None;
    }
    Some(samples)
}
