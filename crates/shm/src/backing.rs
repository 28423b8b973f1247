//! The file behind a region: reserved, locked, mapped.

use crate::error::Error;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// How the name of a region's file starts.
pub(crate) const NAME_START: &str = "plimsoll-";
/// How it ends.
pub(crate) const NAME_END: &str = ".region";
const ADVICE: &str = "check that the directory exists and can be written, or choose another place for the region";
/// Regions up to this size are mapped with all their pages, so that no producer pays for the first touch.
const POPULATE_BYTES: usize = 256 << 20;

/// Whether a file system has room for a region and as much again, so that it is not filled to the brim.
pub(crate) fn has_room(dir: &Path, bytes: u64) -> bool {
    free_bytes(dir).is_some_and(|free| free / 2 >= bytes)
}

/// What a file system has left; nothing if it does not say.
fn free_bytes(dir: &Path) -> Option<u64> {
    let stats = rustix::fs::statvfs(dir).ok().filter(|stats| stats.f_blocks > 0)?;
    Some(stats.f_bavail.saturating_mul(stats.f_frsize))
}

/// A name in `dir` that no file has. Passed over are names of live runs of another process namespace, and of dead ones that
/// are still to be recovered.
pub(crate) fn free_name(dir: &Path) -> PathBuf {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    loop {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{NAME_START}{}-{serial}{NAME_END}", std::process::id()));
        if std::fs::symlink_metadata(&path).is_err() {
            return path;
        }
    }
}

/// Makes a locked file of `bytes` reserved bytes that nobody else can read; nothing if the name was taken meanwhile.
pub(crate) fn reserve(path: &Path, bytes: u64) -> Result<Option<File>, Error> {
    let dir = path.parent().unwrap_or(path);
    // Asked first, because reserving more than there is fills some file systems before it fails.
    if free_bytes(dir).is_some_and(|free| free < bytes) {
        return Err(Error::NoRoom { path: dir.to_path_buf(), bytes });
    }
    let io = |doing, source| Error::Io { doing, path: path.to_path_buf(), source, advice: ADVICE };
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32);
    let file = match options.open(path) {
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        opened => opened.map_err(|source| io("create", source))?,
    };
    // Waits, because whoever lists regions holds the lock for a moment to see whether their runs live.
    let prepared = file.lock().map_err(|error| io("lock", error)).and_then(|()| {
        if file.metadata().is_ok_and(|data| data.nlink() == 0) {
            // Somebody took the unlocked file for a dead run's and removed it.
            return Ok(false);
        }
        let reserved = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // A file system that cannot reserve has the space once it has been written.
            Err(Errno::OPNOTSUPP) => io::copy(&mut io::repeat(0).take(bytes), &mut &file).map(drop),
            reserved => reserved.map_err(io::Error::from),
        };
        reserved.map(|()| true).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::NoRoom { path: dir.to_path_buf(), bytes }
            }
            _ => io("reserve space for", error),
        })
    });
    match prepared {
        Ok(kept) => Ok(kept.then_some(file)),
        Err(error) => {
            drop(std::fs::remove_file(path));
            Err(error)
        }
    }
}

/// Maps the whole file.
pub(crate) fn map(path: &Path, file: &File, bytes: usize) -> Result<NonNull<u8>, Error> {
    let populate = if bytes <= POPULATE_BYTES { MapFlags::POPULATE } else { MapFlags::empty() };
    map_with(path, file, bytes, populate)
}

/// Maps the whole file, and none of its pages before it is touched.
pub(crate) fn map_untouched(path: &Path, file: &File, bytes: usize) -> Result<NonNull<u8>, Error> {
    map_with(path, file, bytes, MapFlags::empty())
}

fn map_with(path: &Path, file: &File, bytes: usize, populate: MapFlags) -> Result<NonNull<u8>, Error> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | populate);
    // SAFETY: a new mapping at an address of the system's choice, of a file that is `bytes` long.
    let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, file, 0) };
    let base = base.and_then(|base| NonNull::new(base.cast::<u8>()).ok_or(Errno::INVAL));
    base.map_err(|error| Error::Io {
        doing: "map",
        path: path.to_path_buf(),
        source: error.into(),
        advice: "free some memory or record less",
    })
}
