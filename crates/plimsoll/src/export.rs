//! The files for viewers and for the reference's tools, made of a run that has ended.

use plimsoll_collect::add_files;
use plimsoll_report::{Flows, perfetto, simpler, write_whole};
use plimsoll_trace::{Manifest, Trace, TraceParts, open_with};
use std::path::Path;

/// Above this many tasks the files are written on request only.
pub const EXPORT_LIMIT: u64 = 200_000;

/// The picture's name in a run's directory.
const PICTURE: &str = "trace.pftrace";

/// Why a run could not be exported. Its records are as they were.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Read(#[from] plimsoll_trace::Error),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] plimsoll_report::Error),
    /// The files cannot be noted in the manifest.
    #[error(transparent)]
    Note(#[from] plimsoll_collect::Error),
}

/// Writes the files for viewers beside a run's records, unless the run is large, and notes in its manifest which there are and
/// whether its result was right. Gives whether the files were written.
///
/// A run that was recorded has its account by now: what cannot be written here can be written later, from elsewhere.
///
/// # Errors
/// If the run cannot be read, or a file cannot be written. Files that could be written are whole and noted.
pub fn export_run(dir: &Path, verified: Option<bool>) -> Result<bool, ExportError> {
    let mut files = vec!["records".to_owned()];
    if Manifest::read(dir)?.tasks > EXPORT_LIMIT {
        add_files(dir, verified, files)?;
        return Ok(false);
    }
    let outcome = match open_with(dir, TraceParts::ALL) {
        Ok(trace) => write_files(&trace, dir, &mut files),
        Err(error) => Err(error.into()),
    };
    // Whatever could be written is noted.
    add_files(dir, verified, files)?;
    outcome.map(|()| true)
}

fn write_files(trace: &Trace, dir: &Path, files: &mut Vec<String>) -> Result<(), ExportError> {
    let draw = |out: &mut _| perfetto::write_perfetto(trace, Flows::None, out).map(drop);
    let drawn = write_whole(&dir.join(PICTURE), draw);
    if drawn.is_ok() {
        files.push(PICTURE.to_owned());
    }
    let forms = simpler::write_simpler(trace, dir)?;
    let relative = forms.iter().filter_map(|file| file.strip_prefix(dir).ok());
    files.extend(relative.map(|file| file.display().to_string()));
    Ok(drawn?)
}
