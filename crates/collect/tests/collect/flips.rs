//! A region with one flipped bit: what comes out of it is right, or is not called balanced.
#![allow(clippy::unwrap_used)]

use crate::harness::*;
use bytemuck::pod_read_unaligned;
use plimsoll_abi::record::Kind;
use plimsoll_abi::region::{ActiveHead, BufferHeader, INSTANCE_SLOTS, KindLayout, PoolEntry, RegionHeader, pool_index};
use plimsoll_abi::{AgentId, Flags};
use plimsoll_collect::{Session, recover_region};
use plimsoll_probe::{Lane, Probe};
use plimsoll_shm::image::RegionImage;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A run that died with two sealed buffers and an unfinished one in each pool of its executions, and nothing drained.
fn dead_run(dir: &Path) -> PathBuf {
    let flags = Flags::CORE_TIMING.with(Flags::SCOPE_STATS);
    let session = Session::start(driven_by_caller(dir, flags, 1, sizes(3, 4))).unwrap();
    let region = session.region_path().to_path_buf();
    let probe = session.probe(QuietWorld);
    let mut lane = probe.lane(AgentId(0));
    (0..10).for_each(|token| lane.task(&span(0, token)));
    std::mem::forget(lane);
    drop(session);
    region
}

/// By pool: how many records there are in all, and those that come out, in any order.
type Account = BTreeMap<(Kind, u16), (u64, BTreeSet<Vec<u8>>)>;

/// What a recovery makes of these bytes; nothing if it refuses them, or says that they do not balance.
fn account(bytes: &[u8]) -> Option<Account> {
    let mut image = RegionImage::parse(bytes, Path::new("flipped")).ok()?;
    let mut account = Account::new();
    for pool in image.pools().to_vec() {
        let found = image.buffers(&pool);
        // Each sequence number once, as a recovery takes them.
        let buffers: BTreeMap<u64, _> = found.iter().rev().map(|buffer| (buffer.sequence, buffer)).collect();
        let records: Vec<u8> = buffers.values().flat_map(|buffer| image.records(&pool, buffer).unwrap()).collect();
        let records: Vec<Vec<u8>> = records.chunks(pool.kind.record_bytes()).map(<[u8]>::to_vec).collect();
        let counters = pool.counters();
        if records.len() as u64 + counters.dropped + counters.mismatch != counters.total() {
            return None;
        }
        account.insert((pool.kind, pool.instance), (counters.total(), records.into_iter().collect()));
    }
    image.damage().is_empty().then_some(account)
}

fn read<T: bytemuck::AnyBitPattern>(bytes: &[u8], at: u64) -> T {
    pod_read_unaligned(&bytes[at as usize..at as usize + size_of::<T>()])
}

/// The header, and of the pool of executions layout, entry, head and the headers of its buffers.
fn telling(bytes: &[u8]) -> Vec<Range<u64>> {
    let header: RegionHeader = read(bytes, 0);
    let kind = header.kinds_offset + (Kind::AicoreTask as usize * size_of::<KindLayout>()) as u64;
    let entry = header.pools_offset + (pool_index(Kind::AicoreTask, 0) * size_of::<PoolEntry>()) as u64;
    let (layout, pool): (KindLayout, PoolEntry) = (read(bytes, kind), read(bytes, entry));
    let range = |at: u64, bytes: usize| at..at + bytes as u64;
    let buffer = |at: u32| pool.buffers_offset + u64::from(at) * u64::from(layout.buffer_stride);
    let of_pool = [
        range(0, size_of::<RegionHeader>()),
        range(kind, size_of::<KindLayout>()),
        // That of an instance that there is not, too.
        range(entry, 2 * size_of::<PoolEntry>()),
        range(pool.head_offset, size_of::<ActiveHead>()),
    ];
    of_pool.into_iter().chain((0..layout.buffers).map(|at| range(buffer(at), size_of::<BufferHeader>()))).collect()
}

#[test]
fn no_flipped_bit_makes_a_region_balance_that_lacks_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(dead_run(dir.path())).unwrap();
    let truth = account(&bytes).expect("nothing is damaged yet");
    assert_eq!(truth[&(Kind::AicoreTask, 0)].0, 10);
    for at in telling(&bytes).into_iter().flatten() {
        for bit in 0..8 {
            bytes[at as usize] ^= 1 << bit;
            let found = account(&bytes);
            assert!(found.is_none_or(|found| found == truth), "bit {bit} of byte {at}");
            bytes[at as usize] ^= 1 << bit;
        }
    }
}

#[test]
fn a_pool_that_went_from_the_directory_is_told_of_in_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let region = dead_run(dir.path());
    let mut bytes = std::fs::read(&region).unwrap();
    let header: RegionHeader = read(&bytes, 0);
    let at = header.pools_offset as usize + pool_index(Kind::AicoreTask, 0) * size_of::<PoolEntry>();
    bytes[at + std::mem::offset_of!(PoolEntry, present)] = 0;
    std::fs::write(&region, &bytes).unwrap();
    let ledger = recover_region(&region, dir.path()).unwrap().ledger;
    assert_eq!((ledger.balanced, ledger.lossless, ledger.damage.len()), (false, false, 1), "{:?}", ledger.damage);
    assert!(ledger.pools.iter().all(|pool| pool.is_balanced() && pool.kind != "aicore_task"), "{:?}", ledger.pools);
    assert!(header.instance_slots as usize == INSTANCE_SLOTS);
}
