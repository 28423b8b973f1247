//! The directory itself: its lock, what a start made in it, and blocks that are reserved for the last manifest.

use crate::error::Error;
use plimsoll_trace::Manifest;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Room for what the last manifest says beyond the first: source sites and an error.
const MORE_TEXT: u64 = 1 << 20;
/// Room for a pool's row of the ledger.
const POOL_TEXT: u64 = 512;

/// The lock of a directory, held while `run.json` is changed.
pub(super) struct DirLock {
    _dir: File,
}

impl DirLock {
    /// Waits for whoever holds it: a start, an end or a recovery, which are all short.
    pub(super) fn take(dir: &Path) -> Result<Self, Error> {
        let file = File::open(dir).map_err(|source| io_error("open", dir, source))?;
        match file.try_lock() {
            Ok(()) => {}
            // On a file system that cannot lock directories, the user must not recover a run twice at the same time.
            Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => file.lock().map_err(|source| io_error("lock", dir, source))?,
        }
        Ok(Self { _dir: file })
    }
}

/// What a start has made so far, oldest first. Dropped without [`CreatedPaths::keep`], it removes that, newest first.
pub(super) struct CreatedPaths {
    paths: Vec<PathBuf>,
    /// Held until everything is removed again.
    _lock: DirLock,
}

impl CreatedPaths {
    /// Makes a directory and what is missing above it, and takes its lock.
    pub(super) fn directory(dir: &Path) -> Result<Self, Error> {
        let missing = dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        let mut paths: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        paths.reverse();
        let made = fs::create_dir_all(dir).map_err(|source| io_error("make", dir, source));
        match made.and_then(|()| DirLock::take(dir)) {
            Ok(lock) => Ok(Self { paths, _lock: lock }),
            Err(error) => {
                remove(&paths);
                Err(error)
            }
        }
    }

    /// Notes a path that is about to be made, unless something is there already.
    pub(super) fn expect(&mut self, path: PathBuf) {
        if !self.paths.contains(&path) && path.symlink_metadata().is_err() {
            self.paths.push(path);
        }
    }

    /// The start has succeeded.
    pub(super) fn keep(mut self) {
        self.paths.clear();
    }
}

impl Drop for CreatedPaths {
    fn drop(&mut self) {
        remove(&self.paths);
    }
}

/// Removes paths, the last one first. A directory goes only if it is empty: what others put there stays.
fn remove(paths: &[PathBuf]) {
    for path in paths.iter().rev() {
        let is_dir = path.symlink_metadata().is_ok_and(|data| data.is_dir());
        if is_dir { drop(fs::remove_dir(path)) } else { drop(fs::remove_file(path)) }
    }
}

/// Reserves blocks where the last manifest will be written, so that a disk that fills up meanwhile does not keep the run from
/// saying how it ended.
pub(super) fn reserve_manifest(dir: &Path, first: &Manifest, pools: usize) -> Result<(), Error> {
    let path = dir.join(Manifest::NEXT);
    let text = serde_json::to_vec_pretty(first).map_or(0, |text| text.len() as u64);
    let bytes = text + MORE_TEXT + pools as u64 * POOL_TEXT;
    let file = File::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|source| io_error("make", &path, source))?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // Some file systems cannot reserve blocks. Then a full disk is noticed by the last write.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => {
            let advice = "free some space on that file system, or choose another directory";
            let (doing, source) = ("reserve room for the run's manifest in", error.into());
            Err(Error::Io { doing, path: dir.to_path_buf(), source, advice })
        }
    }
}

/// Makes the names of a run's files survive a loss of power, where the file system can do that.
pub(super) fn sync_around(dir: &Path) {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for path in [&dir.join(crate::segment::DIRECTORY), parent] {
        drop(File::open(path).and_then(|dir| dir.sync_all()));
    }
}

pub(super) fn io_error(doing: &'static str, path: &Path, source: io::Error) -> Error {
    let advice = "check that it can be written, or choose another directory with `RecordOptions::place`";
    Error::Io { doing, path: path.to_path_buf(), source, advice }
}
