//! Where runs lie, and which is the newest.

mod civil;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use crate::{Error, Manifest};

/// The directory that runs are written to unless told otherwise.
pub const OUTPUTS: &str = "outputs";
/// The link in it that points to the newest.
pub const LATEST: &str = "latest";

/// The newest run of a directory of runs: the one `latest` points to, else the one whose manifest is youngest.
///
/// # Errors
/// If no directory in `outputs` holds a run.
pub fn newest_run(outputs: &Path) -> Result<PathBuf, Error> {
    let latest = outputs.join(LATEST);
    if latest.join(Manifest::FILE).is_file() {
        // The link's target, so that what is printed names the same run after later runs, too.
        return Ok(match fs::read_link(&latest) {
            Ok(target) if target.is_relative() => outputs.join(target),
            Ok(target) => target,
            Err(_) => latest,
        });
    }
    let entries = match fs::read_dir(outputs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::NoRuns { path: outputs.into() }),
        Err(source) => return Err(Error::Io { action: "list", path: outputs.into(), source }),
    };
    let runs = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let written = fs::metadata(path.join(Manifest::FILE)).ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some((written, path))
    });
    runs.max().map(|(_, path)| path).ok_or_else(|| Error::NoRuns { path: outputs.into() })
}

/// The most bytes of a program's name in the name of a run's directory. File systems take names of 255 bytes.
const PROGRAM_BYTES: usize = 200;

/// The name of a new run's directory: the program's name, the present time, the process id, and a number if `number` is 2 or
/// more. Of the program's name stays what no shell reads as anything but a name, and of a long one its beginning.
pub fn run_name(program: &str, number: u32) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    let program: String = program.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let program = program[..program.floor_char_boundary(PROGRAM_BYTES)].trim_matches(['-', '.']);
    let program = if program.is_empty() { "run" } else { program };
    let again = if number > 1 { format!("-{number}") } else { String::new() };
    format!("{program}_{}-{}{again}", civil::stamp(), std::process::id())
}

/// A path or another word as a shell takes it, for commands that are shown to be copied.
pub fn for_shell(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    // Only a word with a zero byte cannot be quoted, and no path has one.
    shlex::try_quote(&word).map_or_else(|_| word.to_string(), Cow::into_owned)
}

/// Makes `latest` point to a run that lies in [`OUTPUTS`]; a run elsewhere is ignored. A link that cannot be made is no
/// error: it is only a convenience.
pub fn point_latest(run: &Path) {
    if let Ok(name) = run.strip_prefix(OUTPUTS) {
        point_latest_in(Path::new(OUTPUTS), name);
    }
}

/// Makes `latest` in a directory of runs point to one of them.
pub fn point_latest_in(outputs: &Path, name: &Path) {
    let temporary = outputs.join(format!(".{LATEST}-{}", std::process::id()));
    if std::os::unix::fs::symlink(name, &temporary).is_ok() && fs::rename(&temporary, outputs.join(LATEST)).is_err() {
        let _ = fs::remove_file(&temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_can_be_copied_into_a_shell() {
        for (program, begin) in [("<lambda>", "lambda_"), ("a b/c$", "a-b-c_"), ("größe.2", "größe.2_"), ("--", "run_")]
        {
            let name = run_name(program, 1);
            assert!(name.starts_with(begin), "{name}");
        }
        let name = run_name(&"ö".repeat(120), 1000);
        assert!(name.starts_with(&format!("{}_", "ö".repeat(100))) && name.len() <= 255, "{name}");
        assert_eq!(for_shell(Path::new("outputs/chain_1-2")), "outputs/chain_1-2");
        assert_eq!(for_shell(Path::new("my runs/$x")), "'my runs/$x'");
    }

    #[test]
    fn the_link_wins_then_the_youngest_manifest_and_nothing_is_an_error() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert!(matches!(newest_run(&dir.path().join("absent")), Err(Error::NoRuns { .. })));
        assert!(matches!(newest_run(dir.path()), Err(Error::NoRuns { .. })));
        for (name, age) in [("b_1", 10), ("a_2", 5), ("c_0", 20)] {
            fs::create_dir(dir.path().join(name)).expect("run");
            Manifest::new(name).write(&dir.path().join(name)).expect("manifest");
            let file =
                fs::File::options().write(true).open(dir.path().join(name).join(Manifest::FILE)).expect("opened");
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).expect("aged");
        }
        fs::create_dir(dir.path().join("no_manifest")).expect("other");
        assert_eq!(newest_run(dir.path()).expect("youngest"), dir.path().join("a_2"));
        std::os::unix::fs::symlink("c_0", dir.path().join(LATEST)).expect("link");
        assert_eq!(newest_run(dir.path()).expect("link"), dir.path().join("c_0"));
    }
}
