//! The file behind a region: reserved, locked, mapped.

use crate::error::Error;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Makes a locked file of `bytes` reserved bytes in `dir`.
pub(crate) fn reserve(dir: &Path, bytes: u64) -> Result<(PathBuf, File), Error> {
    // Asked first, because reserving more than there is fills some file systems before it fails.
    if free_bytes(dir).is_some_and(|free| free < bytes) {
        return Err(Error::NoRoom { path: dir.to_path_buf(), bytes });
    }
    let (path, file) = create(dir)?;
    let io = |doing, source| Error::Io { doing, path: path.clone(), source, advice: ADVICE };
    let prepared = file.try_lock().map_err(|error| io("lock", error.into())).and_then(|()| {
        let reserved = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            // A file system that cannot reserve has the space once it has been written.
            Err(Errno::OPNOTSUPP) => io::copy(&mut io::repeat(0).take(bytes), &mut &file).map(drop),
            reserved => reserved.map_err(io::Error::from),
        };
        reserved.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::NoRoom { path: dir.to_path_buf(), bytes }
            }
            _ => io("reserve space for", error),
        })
    });
    match prepared {
        Ok(()) => Ok((path, file)),
        Err(error) => {
            drop(std::fs::remove_file(&path));
            Err(error)
        }
    }
}

/// Makes an empty file that nobody else can read. A name that is taken is passed over: it may be a live run's, of another
/// process namespace, or a dead one's that is still to be recovered.
fn create(dir: &Path) -> Result<(PathBuf, File), Error> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32);
    loop {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("plimsoll-{}-{serial}.region", std::process::id()));
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists && serial < u32::MAX => {}
            Err(source) => return Err(Error::Io { doing: "create", path, source, advice: ADVICE }),
        }
    }
}

/// Maps the whole file.
pub(crate) fn map(path: &Path, file: &File, bytes: usize) -> Result<NonNull<u8>, Error> {
    let populate = if bytes <= POPULATE_BYTES { MapFlags::POPULATE } else { MapFlags::empty() };
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
