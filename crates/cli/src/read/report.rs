//! `plimsoll report`: everything about a run on one page, for any browser.

use super::explain::{explain, left_of};
use super::{ReadArgs, Reading, open_with_warnings, place};
use crate::wording::wording_of;
use anyhow::Context;
use clap::Args;
use plimsoll::report::page::{self, Answers, Written, write_comparison, write_page};
use plimsoll::report::write_whole;
use plimsoll::trace::{Trace, TraceParts, for_shell};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Options of `report`.
#[derive(Args)]
pub(crate) struct ReportCommand {
    #[command(flatten)]
    subject: ReadArgs,
    /// Another run, or file of the reference: both are shown on one axis, the first as the one before
    #[arg(value_name = "B")]
    other: Option<PathBuf>,
    /// Where to write; `report.html` beside the run, or `compare.html` beside the second, if left out
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

impl ReportCommand {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        for path in [&mut self.subject.path, &mut self.other].into_iter().flatten() {
            *path = from_here(path);
        }
        let first = self.read()?;
        // The facts of the answer are those of the run that the page is of: of two, the later one.
        let (reading, file, written) = match &self.other {
            None => {
                let file = self.output.clone().unwrap_or_else(|| beside(&first.path, "report.html"));
                let written = write(&first.trace, &file)?;
                (first, file, written)
            }
            Some(other) => {
                let file = self.output.clone().unwrap_or_else(|| beside(other, "compare.html"));
                let now =
                    Reading { trace: read_other(other)?, path: other.clone(), files: String::new(), json: first.json };
                let written = compare(&first.trace, &now.trace, &file)?;
                (now, file, written)
            }
        };
        let mut answer = serde_json::to_value(&written)?;
        answer["file"] = file.display().to_string().into();
        let listed = || {
            let mut lines = format!("{} ({})\n", file.display(), size(written.bytes));
            if !written.left_out.is_empty() {
                lines += &format!("It is without {}, to keep it small.\n", written.left_out.join(", "));
            }
            lines
        };
        reading.answer(&answer, listed, if self.open { "" } else { "open it in a browser; it needs no network" })?;
        if self.open {
            open_in_browser(&file)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ReportCommand {
    /// Reads the run. Of one that was killed and not recovered, what its region still holds is on the page, too: `explain`
    /// tells of it, and the page may not say less.
    fn read(&self) -> anyhow::Result<Reading> {
        let path = place(self.subject.path.clone())?;
        let Some(trace) = left_of(&path)? else { return self.subject.open(TraceParts::ALL) };
        say_left(&path);
        Ok(Reading { trace, path, files: String::new(), json: self.subject.json })
    }
}

/// A path as seen from the current folder where it lies below that, and from the root elsewhere: the page names the run, and one run
/// has one page however its path is spelled.
pub(crate) fn from_here(path: &Path) -> PathBuf {
    let Ok(whole) = std::path::absolute(path) else { return path.to_owned() };
    let whole: PathBuf = whole.components().collect();
    let here = std::env::current_dir().ok();
    match here.as_ref().and_then(|here| whole.strip_prefix(here).ok()) {
        Some(below) if below.as_os_str().is_empty() => PathBuf::from("."),
        Some(below) => below.to_owned(),
        None => whole,
    }
}

/// Reads the run that is compared with, in the same way.
fn read_other(path: &Path) -> anyhow::Result<Trace> {
    match left_of(path)? {
        Some(trace) => {
            say_left(path);
            Ok(trace)
        }
        None => open_with_warnings(path),
    }
}

fn say_left(path: &Path) {
    eprintln!(
        "plimsoll: this run was killed and its last records are still in its region. The page has its tasks, submits and scopes; run `plimsoll recover {}` first for the records of schedulers.",
        for_shell(path)
    );
}

/// Writes the page of a run.
pub(crate) fn write(trace: &Trace, file: &Path) -> anyhow::Result<Written> {
    let answers = answers(trace);
    write_with(file, |out| write_page(page::Subject { trace, answers: &answers }, out))
}

/// Writes a page with two runs.
fn compare(before: &Trace, after: &Trace, file: &Path) -> anyhow::Result<Written> {
    let (of_before, of_after) = (answers(before), answers(after));
    let before = page::Subject { trace: before, answers: &of_before };
    write_with(file, |out| write_comparison(before, page::Subject { trace: after, answers: &of_after }, out))
}

/// The answers of the other commands, in their words.
fn answers(trace: &Trace) -> Answers {
    Answers::in_words(trace, wording_of(trace.manifest.as_ref()), |trace| explain(trace, None))
}

fn write_with(
    file: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<Written>,
) -> anyhow::Result<Written> {
    let mut written = None;
    write_whole(file, |out| {
        written = Some(write(out)?);
        Ok(())
    })
    .map_err(|error| anyhow::anyhow!("{error} Choose another place with --output."))?;
    written.context("The page was written, and its size is not known.")
}

/// Where the page of a run goes.
fn beside(path: &Path, name: &str) -> PathBuf {
    let dir = if path.is_dir() { path.to_owned() } else { path.parent().map(Path::to_owned).unwrap_or_default() };
    dir.join(name)
}

fn size(bytes: u64) -> String {
    if bytes < 1_000_000 { format!("{} KB", bytes / 1000) } else { format!("{:.1} MB", bytes as f64 / 1e6) }
}

/// Hands the page to the program that opens pages on this system.
fn open_in_browser(file: &Path) -> anyhow::Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    opened_with(opener, file).map_err(|why| {
        anyhow::anyhow!(
            "The browser cannot be opened: {opener}: {why}. The page is written. Open {} by hand.",
            file.display()
        )
    })
}

/// How long an opener has to say that it cannot. One that goes on longer has become the browser itself, or waits for it.
const OPENING: Duration = Duration::from_secs(3);

fn opened_with(opener: &str, file: &Path) -> Result<(), String> {
    let mut opening = Command::new(opener);
    opening.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = opening.spawn().map_err(|error| error.to_string())?;
    let until = Instant::now() + OPENING;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it ended with {status}")),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_one_name_however_its_path_is_spelled() {
        let here = std::env::current_dir().expect("a folder");
        for spelled in [Path::new("run"), Path::new("./run/"), &here.join("run"), &here.join(".//run/")] {
            assert_eq!(from_here(spelled), Path::new("run"), "{}", spelled.display());
        }
        assert_eq!(from_here(&here), Path::new("."));
        assert_eq!(from_here(Path::new("/elsewhere/run/")), Path::new("/elsewhere/run"));
    }

    #[test]
    fn an_opener_that_fails_is_heard() {
        let page = Path::new("report.html");
        assert!(opened_with("/nowhere/opener", page).is_err());
        assert!(opened_with("false", page).is_err_and(|why| why.contains("exit status: 1")));
        assert_eq!(opened_with("true", page), Ok(()));
    }
}
