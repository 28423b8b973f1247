//! What can go wrong with a region.

use std::io;
use std::path::PathBuf;

/// Why a region could not be made, opened or used. Nothing is left behind unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be made, sized, locked or mapped.
    #[error("cannot {doing} the recorder's region {}: {source}; {advice}", path.display())]
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
    /// There is no room for the region.
    #[error(
        "the recorder's region of {bytes} bytes does not fit into {}: the file system is full, or a limit on the size of files was met; choose another place for it, or record less (a lower level, smaller or fewer buffers)",
        path.display()
    )]
    NoRoom {
        /// Where it was tried last.
        path: PathBuf,
        /// What was asked for.
        bytes: u64,
    },
    /// The region is locked: its run lives.
    #[error("{} is in use: its run is still alive; wait for it to end, or end it, and try again", path.display())]
    Live {
        /// The region.
        path: PathBuf,
    },
    /// The file was made for a region and nothing describes it yet: whoever makes it is at it, or was killed before the first record.
    #[error("{} is a region that is not finished: its run is just starting, or was killed while it started; there is nothing in it", path.display())]
    HalfMade {
        /// The file.
        path: PathBuf,
    },
    /// The file is no region, or one of a schema this code does not know.
    #[error("{} is not a region that can be read: {why}", path.display())]
    NotARegion {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A word of the region is outside its range. What was read before is good.
    #[error(
        "the recorder's region is damaged: {what} is {value}, but at most {limit} is possible; what was read before is good, and another run is not concerned"
    )]
    Corrupt {
        /// The word.
        what: &'static str,
        /// What it holds.
        value: u64,
        /// What it may hold.
        limit: u64,
    },
    /// A run asks for more than the directory has room for.
    #[error("{what} is {value}, but the recorder's directory has room for {limit}; use fewer")]
    TooMany {
        /// What was counted or sized.
        what: &'static str,
        /// How many were asked for.
        value: usize,
        /// How many are possible.
        limit: usize,
    },
    /// A pool would have no buffers, or its buffers no records. Nothing was made.
    #[error(
        "0 {what} were asked for, and nothing can be recorded in them; ask for at least one, or leave the number to the recorder"
    )]
    NoneAtAll {
        /// What there would be none of.
        what: &'static str,
    },
    /// A buffer of a pool would be larger than one may be.
    #[error(
        "a buffer of {records} {kind} records takes {bytes} bytes, but one may take {limit} at most; set fewer records per buffer, and more buffers if producers wait"
    )]
    BufferTooLarge {
        /// The kind of its records.
        kind: &'static str,
        /// How many were asked for.
        records: u32,
        /// What they and the buffer's header take.
        bytes: u64,
        /// What a buffer may take.
        limit: u64,
    },
    /// The names of all kernels together do not fit the region.
    #[error("the names of the kernels take {bytes} bytes, but the recorder has room for {limit}; use shorter names")]
    NamesTooLong {
        /// What they take.
        bytes: u64,
        /// What there is room for.
        limit: u64,
    },
    /// A table of the region is full. What it holds stays valid.
    #[error("the recorder's {table} table is full ({limit} entries or bytes); use fewer or shorter names")]
    TableFull {
        /// Which table.
        table: &'static str,
        /// Its capacity.
        limit: usize,
    },
}

impl Error {
    pub(crate) fn corrupt(what: &'static str, value: impl Into<u64>, limit: impl Into<u64>) -> Self {
        Error::Corrupt { what, value: value.into(), limit: limit.into() }
    }
}
