//! What is done after the host was killed, or its collector failed: records that the region still holds go to the segment
//! file, and the account is made up. It can be repeated, also after it was interrupted.

use crate::error::Error;
use crate::look::board_of;
use crate::segment::{self, FrameToWrite, Scan, SegmentWriter};
use plimsoll_abi::segment::{Origin, SCHEMA};
use plimsoll_shm::image::{PoolImage, ReadAt, RegionImage};
use plimsoll_trace::{BoardFacts, Ledger, PoolLedger};
use std::io;
use std::path::Path;

/// What came out of a region.
#[derive(Clone, PartialEq, Debug)]
pub struct Recovery {
    /// The account.
    pub ledger: Ledger,
    /// The run's flags.
    pub flags: u64,
    /// The clock's ticks per second.
    pub clock_hz: u64,
    /// What the clock was.
    pub clock_source: &'static str,
    /// Readings of the clock as (tick, ns).
    pub clock_pairs: Vec<(u64, u64)>,
    /// Kernels as (id, name).
    pub kernels: Vec<(u32, String)>,
    /// Source sites as (id, file, line).
    pub sites: Vec<(u32, String, u32)>,
    /// What the status board said last.
    pub board: Option<BoardFacts>,
    /// What in the region made no sense, one line each.
    pub damage: Vec<String>,
}

/// Moves what a dead run's region still holds into the segments of `dir` and accounts for every record. The region stays.
///
/// # Errors
/// [`Error::Region`] if the region is missing, no region, or its run lives; [`Error::NotASegment`], [`Error::Manifest`] or [`Error::Io`] if the
/// segment file is another file, holds records of another schema, or cannot be read or written. The region is not changed.
pub fn recover_region(region: &Path, dir: &Path) -> Result<Recovery, Error> {
    salvage(&mut RegionImage::open_dead(region)?, dir)
}

/// Appends what the segments lack of a region, so that it would survive a loss of power, and accounts for every record.
pub(crate) fn salvage<B: ReadAt>(image: &mut RegionImage<B>, dir: &Path) -> Result<Recovery, Error> {
    let before = segment::scan(dir, |_, _| ())?;
    // Cutting it back to nothing would destroy what it may still hold.
    if let Some(found) = before.other_schema {
        return Err(plimsoll_trace::Error::SegmentSchema { path: segment::path(dir), found, known: SCHEMA }.into());
    }
    if before.foreign {
        return Err(Error::NotASegment { path: segment::path(dir) });
    }
    append_missing(image, dir, &before)?;
    let after = segment::scan(dir, |_, _| ())?;
    Ok(account(image, &after))
}

/// Appends the buffers that the segments do not hold, pool by pool in the order of their sequence numbers.
fn append_missing<B: ReadAt>(image: &mut RegionImage<B>, dir: &Path, before: &Scan) -> Result<(), Error> {
    let mut writer = SegmentWriter::reopen(dir, before.good_bytes)?;
    for pool in image.pools().to_vec() {
        for buffer in image.buffers(&pool) {
            if before.frames.contains_key(&(pool.kind, pool.instance, buffer.sequence)) {
                continue;
            }
            let records = image.records(&pool, &buffer)?;
            let frame = FrameToWrite {
                kind: pool.kind,
                instance: pool.instance,
                sequence: buffer.sequence,
                origin: Origin::Recovered,
                records: &records,
            };
            writer.append(&[frame]).map_err(|source| no_space(writer.path(), source))?;
        }
    }
    writer.close().map_err(|source| no_space(writer.path(), source))
}

fn account<B: ReadAt>(image: &RegionImage<B>, segments: &Scan) -> Recovery {
    let (clock_hz, clock_source) = image.clock();
    let account = |pool: &PoolImage| PoolLedger {
        collected: segments.records(pool.kind, pool.instance, Origin::Collected),
        recovered: segments.records(pool.kind, pool.instance, Origin::Recovered),
        ..counted(pool, clock_hz)
    };
    Recovery {
        ledger: Ledger::of_region(image.pools().iter().map(account).collect(), image.damage().to_vec()),
        flags: image.flags().bits(),
        clock_hz,
        clock_source: clock_source.name(),
        clock_pairs: image.clock_pairs().iter().map(|pair| (pair.tick, pair.ns)).collect(),
        kernels: image.kernels().into_iter().map(|(id, name)| (id.0, name)).collect(),
        sites: image.sites().into_iter().map(|(id, file, line)| (id.0, file, line)).collect(),
        board: board_of(image),
        damage: image.damage().to_vec(),
    }
}

/// What a pool of a region counts itself: all but which of its records were collected.
pub(crate) fn counted(pool: &PoolImage, clock_hz: u64) -> PoolLedger {
    let counters = pool.counters();
    PoolLedger {
        kind: pool.kind.name().to_owned(),
        instance: pool.instance,
        total: counters.total(),
        dropped: counters.dropped,
        mismatch: counters.mismatch,
        wait_ns: (u128::from(counters.wait_ticks) * 1_000_000_000 / u128::from(clock_hz)) as u64,
        ..PoolLedger::default()
    }
}

fn no_space(path: &Path, source: io::Error) -> Error {
    let advice = "free some space on that file system and recover again; nothing is lost yet";
    Error::Io { doing: "write", path: path.to_path_buf(), source, advice }
}
