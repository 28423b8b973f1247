//! Pointers: symbolic links on shared memory by which a killed run is found from any working directory, wherever its user has put
//! what belongs to it.
//!
//! - A region that lies elsewhere than on shared memory has one that leads to it. It is made before the region's file and removed after
//!   it, so a region has one from its first byte to its last.
//! - A region that is being made, wherever it lies, has one that leads to its run's directory, until the region itself says where that
//!   is.
//!
//! Nothing depends on them: without one a region is still named by its run's manifest, and one whose region is gone is passed
//! over, and removed once it is older than a start takes.

use plimsoll_shm::Region;
use plimsoll_trace::Manifest;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How the name of a pointer starts.
const NAME_START: &str = "plimsoll-";
/// How the name of one that leads to a region ends.
const TO_REGION: &str = ".place";
/// How the name of one that leads to a run's directory ends.
const TO_RUN: &str = ".run";
/// A pointer without a region is left alone for so long: its run may be about to make the region.
const START: Duration = Duration::from_secs(60);

/// Where a pointer of a region is.
fn path(region: &Path, name_end: &str) -> PathBuf {
    // FNV-1a: the same name for the same place in every version, and no two places share one in practice. If two do, one has none.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = region.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold);
    Path::new(Region::SHARED_MEMORY).join(format!("{NAME_START}{hash:016x}{name_end}"))
}

/// Where the pointer to a region is; nothing for a region on shared memory, which is found without.
fn to_region(region: &Path) -> Option<PathBuf> {
    (!Region::on_shared_memory(region)).then(|| path(region, TO_REGION))
}

/// Where the pointers of a region are that is about to be made.
pub(super) fn paths(region: &Path) -> impl Iterator<Item = PathBuf> {
    to_region(region).into_iter().chain([path(region, TO_RUN)])
}

/// Makes the pointers of a region that is about to be made at this absolute path, for the run in `dir`.
pub(super) fn make(region: &Path, dir: &Path) {
    // Where there is no shared memory, the region is found by its run's manifest alone.
    if let Some(path) = to_region(region) {
        drop(symlink(region, path));
    }
    if let Ok(dir) = std::path::absolute(dir) {
        drop(symlink(dir, path(region, TO_RUN)));
    }
}

/// Removes the pointer to the run of a region that now says itself whose it is.
pub(super) fn region_is_made(region: &Path) {
    drop(fs::remove_file(path(region, TO_RUN)));
}

/// The directory of the run whose region was being made when it was killed.
pub(super) fn run_of(region: &Path) -> Option<PathBuf> {
    fs::read_link(path(region, TO_RUN)).ok()
}

/// Removes the pointers of a region that is gone.
pub(super) fn remove(region: &Path) {
    if let Some(path) = to_region(region).filter(|path| fs::read_link(path).is_ok_and(|found| found == region)) {
        drop(fs::remove_file(path));
    }
    region_is_made(region);
}

/// The regions that this user's pointers lead to. Pointers of regions that are not there are removed if they are old.
pub(super) fn regions() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(Region::SHARED_MEMORY).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.metadata().is_ok_and(|data| data.is_symlink() && data.uid() == user));
    let mut found = Vec::new();
    for entry in ours.filter(|entry| entry.file_name().to_string_lossy().starts_with(NAME_START)) {
        let (Ok(target), name) = (fs::read_link(entry.path()), entry.file_name()) else { continue };
        let name = name.to_string_lossy();
        let region = if name.ends_with(TO_REGION) {
            Some(target)
        } else if name.ends_with(TO_RUN) {
            Manifest::read(&target).ok().and_then(|manifest| manifest.region)
        } else {
            continue;
        };
        match region.filter(|region| fs::symlink_metadata(region).is_ok()) {
            Some(region) => found.push(region),
            None if entry.metadata().is_ok_and(|data| is_old(&data)) => drop(fs::remove_file(entry.path())),
            None => {}
        }
    }
    found
}

fn is_old(pointer: &fs::Metadata) -> bool {
    let age = pointer.modified().ok().and_then(|made| SystemTime::now().duration_since(made).ok());
    age.is_some_and(|age| age > START)
}
