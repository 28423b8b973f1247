//! After the host was killed: what the region still holds goes to the segment file, and the account is made up.

use crate::error::Error;
use crate::ledger::{Ledger, PoolLedger};
use crate::segment::{self, Frame, Scan, SegmentWriter};
use plimsoll_abi::segment::Origin;
use plimsoll_shm::Region;
use plimsoll_shm::image::{LockedFile, PoolImage, RegionImage};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What a recovery says of itself.
const FORMAT: &str = "plimsoll-recovery";
const SCHEMA: u32 = 1;

/// What came out of a dead run's region. Kept in `records/recovery.json`, because the region is removed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recovery {
    /// Always `plimsoll-recovery`.
    pub format: String,
    /// Of this file.
    pub schema: u32,
    /// What wrote it.
    pub producer: String,
    /// The account.
    pub ledger: Ledger,
    /// The run's flags.
    pub flags: u64,
    /// The clock's ticks per second.
    pub clock_hz: u64,
    /// What the clock was.
    pub clock_source: String,
    /// Readings of the clock as (tick, ns).
    pub clock_pairs: Vec<(u64, u64)>,
    /// Kernels as (id, name).
    pub kernels: Vec<(u32, String)>,
    /// Source sites as (id, file, line).
    pub sites: Vec<(u32, String, u32)>,
    /// What in the region made no sense, one line each.
    pub damage: Vec<String>,
}

/// Moves what a dead run's region still holds into the segments of `dir` and accounts for every record. Harmless when it
/// was done before, also when it was interrupted. A region on /dev/shm is removed at the end.
pub fn recover(region: &Path, dir: &Path) -> Result<Recovery, Error> {
    let mut image = match RegionImage::open_dead(region) {
        Err(plimsoll_shm::Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return recovered_before(region, dir);
        }
        opened => opened?,
    };
    let before = segment::scan(dir, |_, _| ())?;
    if before.foreign {
        // Cutting it back to nothing would destroy what it may still hold.
        return Err(Error::NotASegment { path: segment::path(dir) });
    }
    append_missing(&mut image, dir, &before)?;
    let after = segment::scan(dir, |_, _| ())?;
    let recovery = account(&image, &after);
    store(dir, &recovery)?;
    if Region::on_shared_memory(region) {
        let advice = "remove it by hand; everything is recovered";
        std::fs::remove_file(region).map_err(|source| io_error("remove", region, source, advice))?;
    }
    Ok(recovery)
}

/// Appends the buffers that the segments do not hold, pool by pool in the order of their sequence numbers.
fn append_missing(image: &mut RegionImage<LockedFile>, dir: &Path, before: &Scan) -> Result<(), Error> {
    let mut writer = SegmentWriter::reopen(dir, before.good_bytes)?;
    for pool in image.pools().to_vec() {
        for buffer in image.buffers(&pool) {
            if before.frames.contains_key(&(pool.kind, pool.instance, buffer.sequence)) {
                continue;
            }
            let records = image.records(&pool, &buffer)?;
            let frame = Frame {
                kind: pool.kind,
                instance: pool.instance,
                sequence: buffer.sequence,
                origin: Origin::Recovered,
                records: &records,
            };
            let advice = "free some space on that file system and recover again; nothing is lost yet";
            writer.append(&[frame]).map_err(|source| io_error("write", writer.path(), source, advice))?;
        }
    }
    Ok(())
}

fn account(image: &RegionImage<LockedFile>, segments: &Scan) -> Recovery {
    let (clock_hz, clock_source) = image.clock();
    let nanos = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(clock_hz)) as u64;
    let account = |pool: &PoolImage| PoolLedger {
        kind: pool.kind,
        instance: pool.instance,
        total: pool.head.published.saturating_add(pool.head.dropped).saturating_add(pool.head.mismatch),
        collected: segments.records(pool.kind, pool.instance, Origin::Collected),
        recovered: segments.records(pool.kind, pool.instance, Origin::Recovered),
        dropped: pool.head.dropped,
        mismatch: pool.head.mismatch,
        wait_ns: nanos(pool.head.wait_ticks),
    };
    Recovery {
        format: FORMAT.into(),
        schema: SCHEMA,
        producer: plimsoll_abi::region::PRODUCER.into(),
        ledger: Ledger::new(image.pools().iter().map(account).collect()),
        flags: image.flags().bits(),
        clock_hz,
        clock_source: clock_source.name().into(),
        clock_pairs: image.clock_pairs().iter().map(|pair| (pair.tick, pair.ns)).collect(),
        kernels: image.kernels().into_iter().map(|(id, name)| (id.0, name)).collect(),
        sites: image.sites().into_iter().map(|(id, file, line)| (id.0, file, line)).collect(),
        damage: image.damage().to_vec(),
    }
}

/// The account of an earlier recovery, with what the segments hold now.
fn recovered_before(region: &Path, dir: &Path) -> Result<Recovery, Error> {
    let path = account_path(dir);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::NothingToRecover { region: region.to_path_buf(), dir: dir.to_path_buf() });
        }
        read => read.map_err(|source| io_error("read", &path, source, "check that it can be read"))?,
    };
    let parsed = serde_json::from_str::<Recovery>(&text);
    let mut recovery =
        parsed.map_err(|error| io_error("understand", &path, error.into(), "was it changed by hand?"))?;
    let segments = segment::scan(dir, |_, _| ())?;
    let recount = |pool: PoolLedger| PoolLedger {
        collected: segments.records(pool.kind, pool.instance, Origin::Collected),
        recovered: segments.records(pool.kind, pool.instance, Origin::Recovered),
        ..pool
    };
    recovery.ledger = Ledger::new(recovery.ledger.pools.into_iter().map(recount).collect());
    Ok(recovery)
}

/// Puts the account beside the segments, whole or not at all.
fn store(dir: &Path, recovery: &Recovery) -> Result<(), Error> {
    let path = account_path(dir);
    let fresh = path.with_extension("json.new");
    let text = serde_json::to_vec_pretty(recovery).map_err(io::Error::from);
    let stored = text.and_then(|text| std::fs::write(&fresh, text)).and_then(|()| std::fs::rename(&fresh, &path));
    stored.map_err(|source| io_error("write", &path, source, "free some space there and recover again"))
}

fn account_path(dir: &Path) -> PathBuf {
    dir.join(segment::DIRECTORY).join("recovery.json")
}

fn io_error(doing: &'static str, path: &Path, source: io::Error, advice: &'static str) -> Error {
    Error::Io { doing, path: path.to_path_buf(), source, advice }
}
