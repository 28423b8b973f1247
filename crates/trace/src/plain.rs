//! Opening files that somebody else named.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens a file for reading if it is a plain one. Opening a pipe would wait for its other end, for ever.
///
/// # Errors
/// `InvalidInput` if there is something else than a plain file; else what the system says, such as `NotFound`.
pub fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    File::open(path)
}
