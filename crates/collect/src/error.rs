//! What can go wrong while records are collected.

use plimsoll_trace::Ledger;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a recording could not be started, ended or recovered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region could not be made, read or removed. No session was started.
    #[error(transparent)]
    Region(#[from] plimsoll_shm::Error),
    /// A file or directory of the run could not be used.
    #[error("cannot {doing} {}: {source}; {advice}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        advice: &'static str,
    },
    /// Records could not be written, and the recording ended there. What was written before is whole and readable; the
    /// ledger counts the rest as dropped.
    #[error("the recording ended early: cannot write to {}: {source}; free some space on that file system or choose another directory with `RecordOptions::place`, and run again", path.display())]
    Write {
        /// The segment file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// The account so far.
        ledger: Box<Ledger>,
    },
    /// The device side broke the protocol. What was drained before is whole and readable.
    #[error("the recording ended early: {source}; the capture up to there is readable, please report this as a defect")]
    Damaged {
        /// What is wrong.
        source: plimsoll_shm::Error,
        /// The account so far.
        ledger: Box<Ledger>,
    },
    /// The collector failed. What it left in the region was read out as after a kill.
    #[error("the recording broke: {why}; the capture is readable, please report this as a defect")]
    Broken {
        /// What happened to the collector.
        why: &'static str,
        /// The account, counted again from the files.
        ledger: Box<Ledger>,
    },
    /// The collector took no buffer for so long that producers gave it up. What it took before and what the region still held is
    /// whole and readable; the ledger counts the rest as dropped.
    #[error(
        "the recording has gaps: its collector took no buffer for {waited:?}, and what was recorded then found no room; look at what kept this process from running, or allow more with `RecordOptions::host_gone`, and run again"
    )]
    HostGone {
        /// How long a producer waits.
        waited: Duration,
        /// The account.
        ledger: Box<Ledger>,
    },
    /// The run's manifest could not be read or written. If the run had ended, its region is still there for a recovery.
    #[error(transparent)]
    Manifest(#[from] plimsoll_trace::Error),
    /// The directory belongs to another run. It was not changed.
    #[error("{} holds a run already: {found} is there; choose another directory, or move that run away", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
        /// What was found in it.
        found: String,
    },
    /// Somebody removed the run's directory while it ran. Its region is still there, and what was drained was put back.
    #[error("{} was removed while the run recorded into it; its records are in its region: list the regions that are left with `collect::orphans`, and make a run of this one again with `Orphan::recover`", dir.display())]
    Removed {
        /// The run's directory.
        dir: PathBuf,
    },
    /// The run to be recovered lives. Nothing was changed.
    #[error("The run in {} is alive. Its region is locked by process {pid}. Wait for it to end, or end it.", dir.display())]
    Alive {
        /// The run's directory.
        dir: PathBuf,
        /// The run's process.
        pid: u32,
    },
    /// The region that the manifest names was made by another run. Nothing was changed.
    #[error("{} is the region of another run than the one in {}: this run's own was removed, and its name was taken since; recover the other run from its own directory, which `collect::orphans` tells", region.display(), dir.display())]
    AnotherRuns {
        /// The region.
        region: PathBuf,
        /// The run's directory.
        dir: PathBuf,
    },
    /// The run's segment file does not start as one. It was not changed.
    #[error("{} is not a segment file this version knows: its first bytes are not a header; restore it, or move it away to recover what the region still holds", path.display())]
    NotASegment {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to recover from.
    #[error("there is no region at {} to recover the run in {} from: it was removed, or the machine was started anew; what the segment file holds is all there is, and nothing was changed", region.display(), dir.display())]
    NothingToRecover {
        /// Where the region should be.
        region: PathBuf,
        /// The run's directory.
        dir: PathBuf,
    },
}

impl Error {
    /// The account of a recording that ended early.
    pub fn ledger(&self) -> Option<&Ledger> {
        match self {
            Error::Write { ledger, .. }
            | Error::Damaged { ledger, .. }
            | Error::Broken { ledger, .. }
            | Error::HostGone { ledger, .. } => Some(ledger),
            _ => None,
        }
    }

    /// Whether a full file system (or a quota, or a file size limit) is the cause.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let full = |source: &io::Error| matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        match self {
            Error::Write { source, .. } | Error::Io { source, .. } => full(source),
            Error::Manifest(plimsoll_trace::Error::Io { source, .. }) => full(source),
            Error::Region(plimsoll_shm::Error::NoRoom { .. }) => true,
            _ => false,
        }
    }
}
