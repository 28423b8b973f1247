//! What can go wrong while writing.

use std::path::{Path, PathBuf};

/// A report that could not be written. What was there before is there still.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("Cannot write {}. The system says: {source}. Check the path, and that the disk has room.", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path is one of the files that the capture was read from.
    #[error("Cannot write over {}. It is one of the files that were read, and a trace holds less than they do. Write to another place.", path.display())]
    OverSource {
        /// The file.
        path: PathBuf,
    },
    /// The capture does not have what the form needs.
    #[error("There is nothing to export as {form}. The capture has {missing}. {advice}")]
    NothingToExport {
        /// The form.
        form: &'static str,
        /// What is not there.
        missing: &'static str,
        /// What to do.
        advice: &'static str,
    },
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::Io { path: path.to_path_buf(), source }
    }
}
