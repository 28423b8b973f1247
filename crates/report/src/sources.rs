//! The files that a trace was read from, over which nothing is written.

use std::path::Path;

use plimsoll_trace::{Source, Trace};

use crate::Error;

/// Refuses to write over one of the reference's files that the trace was read from: a trace holds less than they do. A run of ours
/// has its records in files that no export writes, so there it is the files that were named besides.
///
/// # Errors
/// If `path` is such a file.
pub fn spare_sources(trace: &Trace, path: &Path) -> Result<(), Error> {
    let sources = match &trace.source {
        Source::Reference(files) => files,
        Source::Run(_) => &trace.named,
    };
    // A path that leads nowhere yet is no source.
    let Ok(target) = path.canonicalize() else { return Ok(()) };
    match sources.iter().any(|source| source.canonicalize().is_ok_and(|source| source == target)) {
        true => Err(Error::OverSource { path: path.to_path_buf() }),
        false => Ok(()),
    }
}
