//! Regions and segments with any bytes: no panic, no endless loop, nothing read outside.
#![allow(clippy::unwrap_used)]

mod harness;

use harness::*;
use plimsoll_abi::segment::Origin;
use plimsoll_abi::{AgentId, Flags, KernelId};
use plimsoll_collect::{Error, Session, recover_region, segment};
use plimsoll_probe::{Lane, Probe};
use plimsoll_shm::image::RegionImage;
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

fn flags() -> Flags {
    Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS)
}

/// A run that died with sealed and unfinished buffers in its region.
fn dead_run(dir: &Path) -> PathBuf {
    let session = Session::start(driven_by_caller(dir, flags(), 1, sizes(3, 4))).unwrap();
    session.add_kernel(KernelId(1), "kernel").unwrap();
    session.site("site.rs", 1);
    let region = session.region_path().to_path_buf();
    let probe = session.probe(QuietWorld);
    let mut lane = probe.lane(AgentId(0));
    (0..4).for_each(|token| lane.task(&span(0, token)));
    lane.flush();
    session.drain_step();
    (4..10).for_each(|token| lane.task(&span(0, token)));
    std::mem::forget(lane);
    drop(session);
    region
}

fn sound_region() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::read(dead_run(dir.path())).unwrap()
    })
}

/// Offsets of words that mean something: header, tables, directory, heads, queues and buffer headers.
fn telling_offset() -> impl Strategy<Value = usize> {
    let bytes = sound_region();
    let telling: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    prop_oneof![proptest::sample::select(telling), 0..bytes.len(), 0..256usize]
}

fn read_everything(bytes: &[u8]) {
    let Ok(mut image) = RegionImage::parse(bytes, Path::new("hostile")) else { return };
    for pool in image.pools().to_vec() {
        for buffer in image.buffers(&pool) {
            let records = image.records(&pool, &buffer).expect("what was found lies inside the region");
            assert_eq!(records.len(), buffer.count as usize * pool.kind.record_bytes());
        }
    }
    if let Some(look) = image.board() {
        let facts = plimsoll_collect::board_facts(&look);
        assert!(facts.running.len() <= bytes.len() && facts.wanted().is_none_or(|(_, ring)| ring < 4));
    }
    let names = image.kernels().len() + image.sites().len() + image.clock_pairs().len() + image.damage().len();
    assert!(names <= bytes.len());
    let facts = (image.run_dir(), image.clock(), image.flags(), image.pid());
    assert!(facts.1.0 > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_region_with_any_changes_is_read_within_its_bounds(
        changes in prop::collection::vec((telling_offset(), any::<u8>()), 1..12),
        words in prop::collection::vec((telling_offset(), prop_oneof![Just(u64::MAX), any::<u64>(), 0..1u64 << 33]), 0..4),
        cut in prop::option::of(0..sound_region().len()),
    ) {
        let mut bytes = sound_region().to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        for (at, word) in words {
            let at = (at & !7).min(bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(cut.unwrap_or(bytes.len()));
        read_everything(&bytes);
    }

    #[test]
    fn random_bytes_are_no_region(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert!(RegionImage::parse(&bytes[..], Path::new("hostile")).is_err());
    }
}

#[test]
fn a_region_of_another_schema_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let region = dead_run(dir.path());
    let at = std::mem::offset_of!(plimsoll_abi::region::RegionHeader, schema) as u64;
    let older = plimsoll_abi::region::SCHEMA - 1;
    OpenOptions::new().write(true).open(&region).unwrap().write_all_at(&older.to_le_bytes(), at).unwrap();
    let Err(Error::Region(refused)) = recover_region(&region, dir.path()) else { panic!("its schema is older") };
    let said = refused.to_string();
    assert!(said.contains(&format!("its schema is {older}")), "{said}");
    assert!(said.ends_with("Recover its run with the version of Plimsoll that recorded it"), "{said}");
    assert!(region.exists(), "the region is kept for that version");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_region_is_recovered_or_refused(
        changes in prop::collection::vec((telling_offset(), any::<u8>()), 1..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let region = dead_run(dir.path());
        let file = OpenOptions::new().write(true).open(&region).unwrap();
        changes.iter().for_each(|(at, value)| file.write_all_at(&[*value], *at as u64).unwrap());
        drop(file);
        match recover_region(&region, dir.path()) {
            Ok(recovery) => {
                let scan = segment::scan(dir.path(), |_, _| ()).unwrap();
                // Whatever the region claims: what is said to be there is in the file, and what balances adds up.
                for pool in &recovery.ledger.pools {
                    let found = |origin| pool.record_kind().map_or(0, |kind| scan.records(kind, pool.instance, origin));
                    let found = (found(Origin::Collected), found(Origin::Recovered));
                    prop_assert_eq!((pool.collected, pool.recovered), found);
                    let parts = [pool.collected, pool.recovered, pool.dropped, pool.mismatch];
                    let sum = parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
                    prop_assert!(!recovery.ledger.balanced || pool.total == sum, "{:?}", pool);
                }
                recover_region(&region, dir.path()).unwrap();
            }
            Err(error) => prop_assert!(matches!(error, Error::Region(plimsoll_shm::Error::NotARegion { .. })), "{error}"),
        }
    }

    #[test]
    fn a_device_that_scribbles_over_the_region_cannot_harm_the_collector(
        words in prop::collection::vec((telling_offset(), prop_oneof![Just(u64::MAX), any::<u64>(), 0..64u64]), 1..8),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let session = Session::start(driven_by_caller(dir.path(), flags(), 1, sizes(3, 4))).unwrap();
        let probe = session.probe(QuietWorld);
        let mut lane = probe.lane(AgentId(0));
        (0..10).for_each(|token| lane.task(&span(0, token)));
        std::mem::forget(lane);
        let file = OpenOptions::new().write(true).open(session.region_path()).unwrap();
        for (at, word) in words {
            let at = (at & !7).min(sound_region().len() - 8) as u64;
            file.write_all_at(&word.to_le_bytes(), at).unwrap();
        }
        session.drain_step();
        drop(session.finish());
        segment::scan(dir.path(), |_, _| ()).unwrap();
    }
}

/// A segment file of three frames, and where they end.
fn small_capture(dir: &Path) -> (Vec<u8>, Vec<usize>) {
    let session = Session::start(driven_by_caller(dir, Flags::CORE_TIMING, 1, sizes(4, 3))).unwrap();
    write_tasks(&session, 1, 8);
    session.finish().unwrap();
    // A header, the first record, the widths of eight columns, and a byte for each of the four that change.
    let frame = |records: usize| 32 + 32 + 8 + (records - 1) * 4;
    let ends = vec![48, 48 + frame(3), 48 + 2 * frame(3), 48 + 2 * frame(3) + frame(2)];
    (std::fs::read(segment::path(dir)).unwrap(), ends)
}

#[test]
fn a_segment_cut_off_at_every_byte_is_read_up_to_its_last_whole_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = small_capture(dir.path());
    assert_eq!(bytes.len(), ends[3]);
    for cut in 0..=bytes.len() {
        std::fs::write(segment::path(dir.path()), &bytes[..cut]).unwrap();
        let scan = segment::scan(dir.path(), |_, _| ()).unwrap();
        let whole = ends.iter().rfind(|&&end| end <= cut).copied();
        assert_eq!(scan.good_bytes, whole.unwrap_or(0) as u64, "cut {cut}");
        assert_eq!(scan.good_bytes + scan.torn_bytes, cut as u64);
        assert_eq!(scan.frames.len(), ends[1..].iter().filter(|&&end| end <= cut).count());
    }
}

/// In the eyes of a recovery and of a reader.
#[test]
fn a_flipped_bit_costs_at_most_one_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = small_capture(dir.path());
    plimsoll_trace::Manifest::new("flips").write(dir.path()).unwrap();
    for (at, bit) in (ends[0]..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        std::fs::write(segment::path(dir.path()), &damaged).unwrap();
        let mut records = 0;
        let scan = segment::scan(dir.path(), |frame, _| records += u64::from(frame.count)).unwrap();
        // Instance, sequence and origin are not covered by the checksum of the records.
        assert!(scan.frames.len() as u64 + scan.duplicates >= 2, "bit {bit} of byte {at}");
        let audit = plimsoll_trace::audit(dir.path(), &mut |_, _| ()).unwrap();
        let read: u64 = audit.pools.iter().map(|pool| pool.collected + pool.recovered).sum();
        // Of a frame whose length points behind the end of the file a reader takes what is there, and says so.
        let is_cut = audit.quality.count(plimsoll_trace::FindingKind::CutOff) > 0;
        assert!(if is_cut { read >= records } else { read == records }, "bit {bit} of byte {at}: {:?}", audit.quality);
    }
}

#[test]
fn a_frame_that_unpacks_to_other_than_it_says_is_damage_though_its_sum_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, ends) = small_capture(dir.path());
    let (frame, payload) = (ends[0], ends[0] + 32);
    let widths = payload + 32;
    for (at, value) in [(frame + 16, 2), (frame + 16, 4), (frame + 16, 64), (widths, 0), (widths + 1, 1), (widths, 5)] {
        let mut bent = bytes.clone();
        bent[at] = value;
        let sum = crc32c::crc32c(&bent[payload..ends[1]]);
        bent[frame + 28..payload].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(segment::path(dir.path()), &bent).unwrap();
        let scan = segment::scan(dir.path(), |_, _| ()).unwrap();
        let damaged = (ends[1] - ends[0]) as u64;
        assert_eq!((scan.frames.len(), scan.damaged_bytes), (2, damaged), "{value} at {at}");
    }
}

#[test]
fn a_file_that_is_no_segment_is_not_cut_back_by_a_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let region = dead_run(dir.path());
    let path = segment::path(dir.path());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = recover_region(&region, dir.path()).expect_err("its header is damaged");
    assert!(matches!(error, Error::NotASegment { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was changed");

    // Its magic is right again, and its schema is that of an older version.
    bytes[0] ^= 1;
    bytes[8] -= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = recover_region(&region, dir.path()).expect_err("its records have another form");
    assert!(matches!(error, Error::Manifest(plimsoll_trace::Error::SegmentSchema { .. })), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was changed");
}
