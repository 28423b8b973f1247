//! Regions whose runs are dead: what kills have left on shared memory, where pointers there lead, or where the runs of a directory say.

use super::recovery::{self, Recovered, is_of};
use super::{pointers, transitions};
use crate::error::Error;
use plimsoll_shm::Region;
use plimsoll_shm::image::{LockedFile, RegionImage, remove_half_made};
use plimsoll_trace::Manifest;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The permissions of a region's file once somebody was told of it. They are the mark.
const MENTIONED: u32 = 0o400;

/// A region that nobody holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its file.
    pub region: PathBuf,
    /// The directory of its run; nothing if the run was killed before its region said so, and no run that was looked at names the region.
    pub dir: Option<PathBuf>,
    /// The process that made it, if it says.
    pub pid: Option<u32>,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Time since it was made.
    pub age: Duration,
    /// Why it cannot be read, if it cannot: it is of another version, or damaged.
    pub unreadable: Option<String>,
}

/// This user's orphaned regions: those on shared memory, those that a pointer there leads to, and those that runs in `outputs` name.
pub fn orphans(outputs: &Path) -> Vec<Orphan> {
    let mut regions = Region::files_on_shared_memory();
    regions.extend(pointers::regions());
    let named = named_in(outputs);
    regions.extend(named.keys().cloned());
    regions.sort();
    regions.dedup();
    regions.iter().filter_map(|region| look(region, named.get(region))).collect()
}

/// The regions that the runs in a directory name, and the directories of those runs, as absolute paths.
fn named_in(outputs: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let entries = fs::read_dir(outputs).into_iter().flatten().flatten().map(|entry| entry.path());
    let runs =
        entries.filter(|dir| !dir.is_symlink()).filter_map(|dir| Some((Manifest::read(&dir).ok()?.region?, dir)));
    runs.filter_map(|(region, dir)| Some((region, std::path::absolute(dir).ok()?))).collect()
}

fn look(region: &Path, named_by: Option<&PathBuf>) -> Option<Orphan> {
    use plimsoll_shm::Error as Shm;
    let data = fs::symlink_metadata(region).ok()?;
    if !data.is_file() || data.uid() != rustix::process::geteuid().as_raw() || !Region::is_named_like(region) {
        return None;
    }
    let made = data.created().or_else(|_| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let age = SystemTime::now().duration_since(made).unwrap_or_default();
    let orphan =
        Orphan { region: region.to_path_buf(), dir: None, pid: None, bytes: data.len(), age, unreadable: None };
    match RegionImage::open_dead(region) {
        Ok(image) => {
            let dir = image.run_dir().map(|dir| renamed(&image, region, &dir).unwrap_or(dir));
            Some(Orphan { dir, pid: Some(image.pid()), ..orphan })
        }
        Err(Shm::HalfMade { .. }) => {
            let names = |dir: &PathBuf| Manifest::read(dir).is_ok_and(|manifest| orphan.is_named_by(&manifest));
            let dir = named_by.cloned().or_else(|| pointers::run_of(region).filter(names));
            Some(Orphan { dir, ..orphan })
        }
        Err(Shm::NotARegion { why, .. }) => Some(Orphan { dir: named_by.cloned(), unreadable: Some(why), ..orphan }),
        // The run is alive, or the region was removed meanwhile.
        Err(_) => None,
    }
}

/// Where the directory of a region's run lies, if it has another name now beside `dir`, which the region knows.
fn renamed(image: &RegionImage<LockedFile>, region: &Path, dir: &Path) -> Option<PathBuf> {
    let is_its = |dir: &PathBuf| {
        let names = |manifest: Manifest| manifest.region.as_deref() == Some(region) && is_of(image, &manifest);
        !dir.is_symlink() && Manifest::read(dir).is_ok_and(names)
    };
    if is_its(&dir.to_path_buf()) {
        return None;
    }
    fs::read_dir(dir.parent()?).ok()?.flatten().map(|entry| entry.path()).find(is_its)
}

impl Orphan {
    /// Recovers its run. Where the run's directory is gone it is made again; where another run lies there, the records go
    /// beside it. `None` for a region that was never finished and that no run names: it holds nothing, and is only removed.
    ///
    /// # Errors
    /// [`Error::Region`] if the run has come to an end by itself since, or is alive after all; else as [`recover`](crate::recover).
    /// The region is still there.
    pub fn recover(&self) -> Result<Option<(PathBuf, Recovered)>, Error> {
        let Some(dir) = &self.dir else {
            remove_half_made(&self.region)?;
            pointers::remove(&self.region);
            return Ok(None);
        };
        if self.pid.is_none() && Manifest::read(dir).is_ok_and(|manifest| self.is_named_by(&manifest)) {
            return Ok(Some((dir.clone(), recovery::recover(dir)?)));
        }
        let image = RegionImage::open_dead(&self.region)?;
        match Manifest::read(dir) {
            Ok(manifest) if self.is_named_by(&manifest) && is_of(&image, &manifest) => {
                drop(image);
                Ok(Some((dir.clone(), recovery::recover(dir)?)))
            }
            read => {
                let dir = if read.is_ok() || dir.join(Manifest::FILE).exists() { beside(dir) } else { dir.clone() };
                let recovered = self.adopt(image, &dir)?;
                Ok(Some((dir, recovered)))
            }
        }
    }

    fn is_named_by(&self, manifest: &Manifest) -> bool {
        manifest.region.as_ref().is_some_and(|named| named == &self.region)
    }

    /// Recovers a run that has lost its directory, from what the region knows of it.
    fn adopt(&self, image: RegionImage<LockedFile>, dir: &Path) -> Result<Recovered, Error> {
        fs::create_dir_all(dir).map_err(|source| super::directory::io_error("make", dir, source))?;
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let manifest = transitions::adopt(&name, &image, &self.region);
        drop(image);
        manifest.write(dir)?;
        recovery::recover(dir)
    }

    /// Whether somebody was told of it.
    pub fn is_mentioned(&self) -> bool {
        fs::metadata(&self.region).is_ok_and(|data| data.permissions().mode() & 0o777 == MENTIONED)
    }

    /// Notes that somebody was told of it.
    pub fn mention(&self) {
        // If it cannot be noted, it is told again.
        drop(fs::set_permissions(&self.region, fs::Permissions::from_mode(MENTIONED)));
    }
}

/// A directory beside another that does not exist.
fn beside(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (1u32..).map(|number| dir.with_file_name(format!("{name}-recovered-{number}")));
    numbered.into_iter().find(|path| !path.exists()).unwrap_or_else(|| dir.to_path_buf())
}
