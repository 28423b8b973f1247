//! Pointers to regions that lie elsewhere than on shared memory: one symbolic link per region, on shared memory, so that the
//! region of a killed run is found from any working directory, wherever its user has put it.
//!
//! A pointer is made before the file of its region and removed after it, so a region has one from its first byte to its last. Nothing
//! depends on it: without one a region is still named by its run's manifest, and one whose region is gone is passed
//! over, and removed once it is older than a start takes.

use plimsoll_shm::Region;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How the name of a pointer starts.
const NAME_START: &str = "plimsoll-";
/// How it ends.
const NAME_END: &str = ".place";
/// A pointer without a region is left alone for so long: its run may be about to make the region.
const START: Duration = Duration::from_secs(60);

/// Where the pointer to a region is; nothing for a region on shared memory, which is found without.
pub(super) fn path(region: &Path) -> Option<PathBuf> {
    // FNV-1a: the same name for the same place in every version, and no two places share one in practice. If two do, one has none.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = region.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold);
    let name = format!("{NAME_START}{hash:016x}{NAME_END}");
    (!Region::on_shared_memory(region)).then(|| Path::new(Region::SHARED_MEMORY).join(name))
}

/// Makes the pointer to a region that is about to be made at this absolute path.
pub(super) fn make(region: &Path) {
    if let Some(path) = path(region) {
        // Where there is no shared memory, the region is found by its run's manifest alone.
        drop(symlink(region, path));
    }
}

/// Removes the pointer to a region that is gone.
pub(super) fn remove(region: &Path) {
    if let Some(path) = path(region).filter(|path| fs::read_link(path).is_ok_and(|found| found == region)) {
        drop(fs::remove_file(path));
    }
}

/// The regions that this user's pointers lead to.
pub(super) fn regions() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(Region::SHARED_MEMORY).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_named_so = name.starts_with(NAME_START) && name.ends_with(NAME_END);
        is_named_so && entry.metadata().is_ok_and(|data| data.is_symlink() && data.uid() == user)
    });
    let mut found = Vec::new();
    for entry in ours {
        let Ok(region) = fs::read_link(entry.path()) else { continue };
        if fs::symlink_metadata(&region).is_ok() {
            found.push(region);
        } else if entry.metadata().is_ok_and(|data| is_old(&data)) {
            drop(fs::remove_file(entry.path()));
        }
    }
    found
}

fn is_old(pointer: &fs::Metadata) -> bool {
    let age = pointer.modified().ok().and_then(|made| SystemTime::now().duration_since(made).ok());
    age.is_some_and(|age| age > START)
}
