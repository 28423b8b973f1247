//! `plimsoll report`: everything about a run on one page, for any browser.

use super::{ReadArgs, open_with_warnings};
use clap::Args;
use plimsoll::report::page::{self, Answers, Written, write_comparison, write_page};
use plimsoll::trace::{Trace, TraceParts};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

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
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(TraceParts::ALL)?;
        let (file, written) = match &self.other {
            None => {
                let file = self.output.clone().unwrap_or_else(|| beside(&reading.path, "report.html"));
                let written = write(&reading.trace, &file)?;
                (file, written)
            }
            Some(other) => {
                let file = self.output.clone().unwrap_or_else(|| beside(other, "compare.html"));
                let written = compare(&reading.trace, &open_with_warnings(other)?, &file)?;
                (file, written)
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

/// Writes the page of a run.
pub(crate) fn write(trace: &Trace, file: &Path) -> anyhow::Result<Written> {
    let answers = Answers::of(trace);
    write_with(file, |out| write_page(page::Subject { trace, answers: &answers }, out))
}

/// Writes a page with two runs.
fn compare(before: &Trace, after: &Trace, file: &Path) -> anyhow::Result<Written> {
    let (of_before, of_after) = (Answers::of(before), Answers::of(after));
    let before = page::Subject { trace: before, answers: &of_before };
    write_with(file, |out| write_comparison(before, page::Subject { trace: after, answers: &of_after }, out))
}

fn write_with(
    file: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<Written>,
) -> anyhow::Result<Written> {
    let cannot = |error: std::io::Error| {
        anyhow::anyhow!("{} cannot be written: {error}. Choose another place with --output.", file.display())
    };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file).map_err(cannot)?);
    let written = write(&mut out).map_err(cannot)?;
    out.flush().map_err(cannot)?;
    Ok(written)
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
    let started =
        Command::new(opener).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.map(drop).map_err(|error| {
        anyhow::anyhow!(
            "The browser cannot be opened: {opener}: {error}. The page is written. Open {} by hand.",
            file.display()
        )
    })
}
