//! Making a run whole that was killed: at its start, while it recorded, at its end, or while it was being recovered.

use super::directory::{DirLock, sync_around};
use super::{pointers, transitions};
use crate::error::Error;
use crate::recover::salvage;
use crate::segment;
use plimsoll_shm::image::{LockedFile, ReadAt, RegionImage};
use plimsoll_shm::remove_region;
use plimsoll_trace::{Manifest, Status};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a recovery found.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovered {
    /// The run's manifest as it is now.
    pub manifest: Manifest,
    /// Whether anything was to be done: `false` if the run had ended by itself, or was recovered before.
    pub changed: bool,
    /// What in the region made no sense, one line each.
    pub damage: Vec<String>,
}

/// What is there of the region that a manifest names.
enum Found {
    /// The whole region, locked by this process.
    Ours(Box<RegionImage<LockedFile>>),
    /// The run was killed before it had described the region.
    HalfMade,
    /// There is no region.
    Gone,
}

/// Makes a run whole that was killed, from its region: appends what the segments lack, accounts for every record, and removes
/// the region once that is stored. Waits for another recovery of the same run; a live run is refused. Harmless when it was
/// done before, also when it was killed itself.
///
/// # Errors
/// If the run lives, if its region is another run's or is gone, or if a file cannot be written. The directory and the region
/// are such that a recovery can be tried again.
pub fn recover(dir: &Path) -> Result<Recovered, Error> {
    let _lock = DirLock::take(dir)?;
    let mut manifest = Manifest::read(dir)?;
    let Some(region) = manifest.region.clone() else {
        return Ok(Recovered { manifest, changed: false, damage: Vec::new() });
    };
    let changed = manifest.status == Status::Running;
    let mut found = match find(&region, dir, &manifest) {
        Ok(found) => found,
        // The run has its account already. Another run may have taken the name of its region since.
        Err(_) if !changed => Found::Gone,
        Err(error) => return Err(error),
    };
    let mut damage = Vec::new();
    if changed {
        match &mut found {
            Found::Ours(image) => {
                let recovery = salvage(image, dir)?;
                transitions::kill(&mut manifest, &recovery);
                damage = recovery.damage;
            }
            // D2: nothing was recorded where there is no segment file.
            Found::HalfMade | Found::Gone if !segment::path(dir).exists() => {
                transitions::kill_unrecorded(&mut manifest);
            }
            Found::HalfMade | Found::Gone => return Err(Error::NothingToRecover { region, dir: dir.to_path_buf() }),
        }
        manifest.write_durably(dir)?;
        sync_around(dir);
    }
    if !matches!(found, Found::Gone) {
        remove_region(&region)?;
    }
    pointers::remove(&region);
    transitions::release(&mut manifest);
    manifest.write_durably(dir)?;
    Ok(Recovered { manifest, changed, damage })
}

fn find(region: &Path, dir: &Path, manifest: &Manifest) -> Result<Found, Error> {
    use plimsoll_shm::Error as Shm;
    match open_dead(region, manifest) {
        Ok(image) if is_of(&image, manifest) => Ok(Found::Ours(Box::new(image))),
        Ok(_) => Err(Error::AnotherRuns { region: region.to_path_buf(), dir: dir.to_path_buf() }),
        Err(Shm::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Found::Gone),
        Err(Shm::HalfMade { .. }) => Ok(Found::HalfMade),
        Err(Shm::Live { .. }) => {
            let device = manifest.device_pid.filter(|device| !lives(manifest.pid) && lives(*device));
            Err(Error::Alive { dir: dir.to_path_buf(), pid: device.unwrap_or(manifest.pid) })
        }
        Err(error) => Err(error.into()),
    }
}

/// How long a device whose host was killed may take to end. It holds the region until then.
const DYING: Duration = Duration::from_secs(1);

/// Opens the region of a dead run, and waits for the device of a dead host.
fn open_dead(region: &Path, manifest: &Manifest) -> Result<RegionImage<LockedFile>, plimsoll_shm::Error> {
    let since = Instant::now();
    loop {
        match RegionImage::open_dead(region) {
            Err(plimsoll_shm::Error::Live { .. }) if since.elapsed() < DYING && !lives(manifest.pid) => {
                std::thread::sleep(DYING / 50);
            }
            opened => return opened,
        }
    }
}

/// Whether a process is there, and not one that has ended and was not waited for.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Whether a region is the one that this manifest's run made.
pub(crate) fn is_of<B: ReadAt>(image: &RegionImage<B>, manifest: &Manifest) -> bool {
    // A manifest that was made from its region does not know when the run started.
    let adopted = manifest.started_unix_ns == 0 && image.pid() == manifest.pid;
    adopted || image.run_tag() == transitions::tag(manifest)
}
