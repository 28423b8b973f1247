//! The owner of a run's directory: what lies in it, the order in which it comes and goes, and who may change it.
//!
//! ```text
//!            start                    finish                         the region goes
//! nothing ───────────► running ──────────────────► ok, failed, … ──────────────────────► ended
//!                         └────── recover (after a kill) ─────► killed ───────────────► ended
//! ```
//!
//! At every instant of this a kill leaves what [`recover`] makes whole, because of the order of the steps:
//!
//! - D1. `run.json` names the region before the region's file is made. So every region has a run that knows of it.
//! - D2. The segment file is made after the region is described. So a run without one has recorded nothing.
//! - D3. At the end the segments are durable, then `run.json` is, then the region goes. So the account of the records is
//!   always in one of the two. Blocks for the last `run.json` are reserved at the start.
//! - D4. A start that fails removes what it made, the segment file before the region and `run.json` last, and nothing else: a
//!   directory that holds a run is refused untouched.
//! - D5. Whoever changes `run.json` holds the lock of the directory. Whether the run lives is told by another lock, the
//!   region's, so that a recovery is never taken for the run itself.
//!
//! A region that is not on shared memory has a pointer there, by which it is found, and one that is being made has a pointer to its
//! run; see `pointers.rs`.
//!
//! What each step writes into `run.json` is in `transitions.rs`; the lock and the reserve are in `directory.rs`.

mod directory;
mod orphans;
mod pointers;
mod recovery;
mod transitions;

use crate::config::SessionConfig;
use crate::error::Error;
use crate::look::board_facts;
use crate::segment;
use crate::session::Session;
use directory::{CreatedPaths, DirLock};
use plimsoll_abi::KernelId;
use plimsoll_trace::Ledger;
use plimsoll_trace::{CapacityFacts, Explanation, Manifest, point_latest, point_latest_in, run_name};
use std::path::{Path, PathBuf};

pub use orphans::{Orphan, orphans};
pub(crate) use recovery::is_of;
pub use recovery::{Recovered, recover};
pub use transitions::Ending;
pub(crate) use transitions::adopt;

/// The directory of a run that is being recorded. Dropped without [`finish`](RunDir::finish), it leaves everything for
/// [`recover`].
#[derive(Debug)]
pub struct RunDir {
    dir: PathBuf,
    manifest: Manifest,
    session: Session,
}

impl RunDir {
    /// Makes the directory, the first manifest, the region and the segment file, and starts to drain. `manifest` has the
    /// facts of the run; its kernels are named in the region, too.
    ///
    /// # Errors
    /// If the directory holds a run, or a file cannot be made. What was made is removed.
    pub fn start(config: SessionConfig, manifest: Manifest) -> Result<Self, Error> {
        let run = Self::begin(config, manifest)?;
        // At the start and not at the end, so that a run that is killed is the newest, too.
        point_latest(&run.dir);
        Ok(run)
    }

    /// Starts a run in a directory of its own in `outputs`, whose name starts with `name`, and makes `latest` point to it. The
    /// directory of `config` is passed over.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_under(outputs: &Path, name: &str, config: SessionConfig, manifest: Manifest) -> Result<Self, Error> {
        let mut number = 1;
        loop {
            let dir_name = run_name(name, number);
            let dir = outputs.join(&dir_name);
            number += 1;
            // The name is taken by another run of the same second and process.
            if dir.symlink_metadata().is_ok() {
                continue;
            }
            match Self::begin(SessionConfig { dir, ..config.clone() }, manifest.clone()) {
                Err(Error::Occupied { .. }) => {}
                begun => return begun.inspect(|_| point_latest_in(outputs, Path::new(&dir_name))),
            }
        }
    }

    fn begin(config: SessionConfig, mut manifest: Manifest) -> Result<Self, Error> {
        let dir = config.dir.clone();
        let mut made = CreatedPaths::directory(&dir)?;
        refuse_another_run(&dir)?;
        made.expect(dir.join(Manifest::FILE));
        made.expect(dir.join(Manifest::NEXT));
        let (tag, flags) = (transitions::tag(&manifest), config.flags);
        let session = Session::start_announced(config, tag, |region| {
            // There may have been no room where it was tried before.
            manifest.region.iter().for_each(|tried| pointers::remove(tried));
            transitions::begin(&mut manifest, flags, region);
            manifest.region.iter().flat_map(|region| pointers::paths(region)).for_each(|pointer| made.expect(pointer));
            made.expect(region.to_path_buf());
            made.expect(dir.join(segment::DIRECTORY));
            made.expect(segment::path(&dir));
            manifest.write(&dir)?;
            manifest.region.iter().for_each(|region| pointers::make(region, &dir));
            Ok(())
        })?;
        manifest.region.iter().for_each(|region| pointers::region_is_made(region));
        for kernel in &manifest.kernels {
            session.add_kernel(KernelId(kernel.id), &kernel.name)?;
        }
        directory::reserve_manifest(&dir, &manifest, session.region().pools().count())?;
        made.keep();
        Ok(Self { dir, manifest, session })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The session that drains the run's records.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Notes a reading of the run's clock beside the system's.
    pub fn clock_pair(&mut self, tick: u64, ns: u64) {
        self.session.clock_pair(tick, ns);
        transitions::note_clock(&mut self.manifest, tick, ns);
    }

    /// Ends the recording. `end` is told the account of the records and says how the run ended; it may put the run's figures
    /// into the manifest.
    ///
    /// If the manifest cannot be written, or the directory was removed, the region stays for a recovery. If the region was removed with
    /// the directory, both the records and the manifest are put back, and the run ends as any other.
    ///
    /// # Errors
    /// If the recording broke, with the ledger of what was kept; or if the manifest cannot be written.
    pub fn finish(
        mut self,
        end: impl FnOnce(&mut Manifest, Result<&Ledger, &Error>) -> Ending,
    ) -> Result<Ledger, Error> {
        let (sites, board) = (self.session.region().sites(), board_facts(&self.session.board().last_look()));
        let account = self.session.close();
        transitions::note_transport(&mut self.manifest, self.session.moved());
        let ending = end(&mut self.manifest, account.as_ref());
        let ledger = account.as_ref().map_or_else(|error| error.ledger(), Some);
        transitions::end(&mut self.manifest, ending, ledger, sites, board);
        // Or another run has taken its place since, which keeps it.
        let is_anothers = |there: Manifest| transitions::tag(&there) != transitions::tag(&self.manifest);
        let was_removed = !self.dir.exists() || Manifest::read(&self.dir).is_ok_and(is_anothers);
        // Segments that somebody removed are put back, since what follows tells of them.
        let restored = self.session.restore_segments();
        if was_removed && self.session.region_path().exists() {
            // The region knows the run, for whoever recovers it.
            return Err(Error::Removed { dir: self.dir.clone() });
        }
        // A region that went with the directory tells nobody: the run puts all of it back itself.
        restored.map_err(|source| directory::io_error("put the records back into", &self.dir, source))?;
        let _lock = DirLock::take(&self.dir)?;
        self.manifest.write_durably(&self.dir)?;
        directory::sync_around(&self.dir);
        // A region that cannot be removed does no harm: the manifest still names it, and the list of orphans shows it. A
        // manifest that names a region which is gone does no harm either: a kill at this point leaves the same.
        if self.session.region().remove().is_ok() {
            self.manifest.region.iter().for_each(|region| pointers::remove(region));
            transitions::release(&mut self.manifest);
            drop(self.manifest.write_durably(&self.dir));
        }
        account
    }
}

/// Notes the files that were made of a run that has ended, and whether its result was right.
///
/// # Errors
/// If there is no run in the directory, or its manifest cannot be written.
pub fn add_files(dir: &Path, verified: Option<bool>, files: Vec<String>) -> Result<Manifest, Error> {
    change(dir, |manifest| transitions::export(manifest, verified, files))
}

/// Notes what ended a run, or why it did not end well.
///
/// # Errors
/// As [`add_files`].
pub fn add_explanation(dir: &Path, explanation: Explanation) -> Result<(), Error> {
    change(dir, |manifest| transitions::explain(manifest, explanation)).map(drop)
}

/// Notes the least capacities with which a run that has ended would end again, after they were tried.
///
/// # Errors
/// As [`add_files`].
pub fn prove_floors(dir: &Path, floors: CapacityFacts) -> Result<(), Error> {
    change(dir, |manifest| transitions::prove(manifest, floors)).map(drop)
}

/// Changes the manifest of a run that has ended.
fn change(dir: &Path, transition: impl FnOnce(&mut Manifest)) -> Result<Manifest, Error> {
    let _lock = DirLock::take(dir)?;
    let mut manifest = Manifest::read(dir)?;
    transition(&mut manifest);
    manifest.write_durably(dir)?;
    Ok(manifest)
}

fn refuse_another_run(dir: &Path) -> Result<(), Error> {
    let taken = [dir.join(Manifest::FILE), segment::path(dir)];
    match taken.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(found) => Err(Error::Occupied { dir: dir.to_path_buf(), found: found.display().to_string() }),
        None => Ok(()),
    }
}
