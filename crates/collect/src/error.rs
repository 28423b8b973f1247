//! What can go wrong while records are collected.

use crate::ledger::Ledger;
use std::io;
use std::path::PathBuf;

/// Why a recording could not be started, ended or recovered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region. No session was started.
    #[error(transparent)]
    Region(#[from] plimsoll_shm::Error),
    /// A file or directory of the run.
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
    #[error("the recording ended early: cannot write to {}: {source}; free some space on that file system or choose another --out, and run again", path.display())]
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
    /// The run's segment file does not start as one. It was not changed.
    #[error("{} is not a segment file this version knows: its first bytes are not a header; restore it, or move it away to recover what the region still holds", path.display())]
    NotASegment {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to recover from.
    #[error("there is no region at {} and no recovered account in {}: the run has ended cleanly, or both were removed; nothing was changed", region.display(), dir.display())]
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
            Error::Write { ledger, .. } | Error::Damaged { ledger, .. } => Some(ledger),
            _ => None,
        }
    }

    /// Whether a full file system (or a quota, or a file size limit) is the cause.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Error::Write { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge),
            Error::Region(plimsoll_shm::Error::NoRoom { .. }) => true,
            _ => false,
        }
    }
}
