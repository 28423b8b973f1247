//! The file behind a region: reserved, locked, mapped.

use crate::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const ADVICE: &str = "check that the directory exists and can be written, or choose another place for the region";
/// Regions up to this size are mapped with all their pages, so that no producer pays for the first touch.
const POPULATE_BYTES: usize = 256 << 20;

/// Whether a file system has room for a region and as much again, so that it is not filled to the brim.
pub(crate) fn has_room(dir: &Path, bytes: u64) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(dir) = std::ffi::CString::new(dir.as_os_str().as_bytes()) else { return false };
    let mut stats = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a NUL-terminated path and room for the answer.
    let failed = unsafe { libc::statvfs(dir.as_ptr(), stats.as_mut_ptr()) } != 0;
    // SAFETY: zeroed is a valid value of this struct of integers, and the call may have filled it.
    let stats = unsafe { stats.assume_init() };
    !failed && stats.f_bavail.saturating_mul(stats.f_frsize) / 2 >= bytes
}

/// Makes a locked file of `bytes` reserved bytes in `dir`.
pub(crate) fn reserve(dir: &Path, bytes: u64) -> Result<(PathBuf, File), Error> {
    let (path, file) = create(dir)?;
    let io = |doing, source| Error::Io { doing, path: path.clone(), source, advice: ADVICE };
    let prepared = file.try_lock().map_err(|error| io("lock", error.into())).and_then(|()| {
        // SAFETY: an open descriptor and a length.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
            0 => Ok(()),
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Err(Error::NoRoom { path: dir.to_path_buf(), bytes }),
            code => Err(io("reserve space for", io::Error::from_raw_os_error(code))),
        }
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
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
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
    let populate = if bytes <= POPULATE_BYTES { libc::MAP_POPULATE } else { 0 };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the system's choice, of a file that is `bytes` long.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED | populate, file.as_raw_fd(), 0) };
    NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED).ok_or_else(|| Error::Io {
        doing: "map",
        path: path.to_path_buf(),
        source: io::Error::last_os_error(),
        advice: "free some memory or record less",
    })
}
