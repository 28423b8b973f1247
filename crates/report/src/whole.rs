//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::Error;

/// Writes a file beside its place and then moves it there, so that a reader never finds half of it and an error leaves what was
/// there before. What is no plain file, a pipe or a terminal, is written as it is.
///
/// # Errors
/// If the file cannot be written. What was there before is there still.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), Error> {
    let in_place = fs::metadata(path).is_ok_and(|there| !there.is_file());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let target = if in_place { path.to_path_buf() } else { path.with_file_name(format!(".{name}.next")) };
    let written = File::create(&target).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        write(&mut out).and_then(|()| out.flush())
    });
    let moved = written.and_then(|()| if in_place { Ok(()) } else { fs::rename(&target, path) });
    moved.map_err(|source| {
        if !in_place {
            drop(fs::remove_file(&target));
        }
        Error::Io { path: path.to_path_buf(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_leaves_what_was_there_and_names_the_file() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("picture");
        write_whole(&path, |out| out.write_all(b"old")).expect("written");
        let failed = write_whole(&path, |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        let error = failed.expect_err("no space").to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert_eq!(fs::read(&path).expect("still there"), b"old");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "nothing half-made stays");
        write_whole(&path, |out| out.write_all(b"new")).expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        let error = write_whole(&dir.path().join("none/x"), |_| Ok(())).expect_err("no directory").to_string();
        assert!(error.contains("none/x"), "{error}");
    }

    #[test]
    fn what_is_no_plain_file_is_written_as_it_is() {
        write_whole(Path::new("/dev/null"), |out| out.write_all(b"x")).expect("written");
        let error = write_whole(Path::new("/dev/full"), |out| out.write_all(b"x")).expect_err("full").to_string();
        assert!(error.contains("/dev/full"), "{error}");
    }
}
