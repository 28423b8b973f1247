//! The region as a file: who may read it, where it goes, what it holds.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use plimsoll_abi::record::{AicoreTask, Kind, Record};
use plimsoll_abi::region::{ClockPair, ClockSource};
use plimsoll_abi::{Flags, KernelId};
use plimsoll_shm::image::RegionImage;
use plimsoll_shm::{BufferSizes, Error, HostMemory, Policy, PoolMemory, Region, RegionSpec, Role};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn spec(flags: Flags, cores: u16, agents: u16) -> RegionSpec {
    RegionSpec {
        flags,
        cores,
        agents: vec![Role::BOTH; agents.into()],
        policy: Policy::Block,
        host_gone_ns: 30_000_000_000,
        drop_wait_ns: 100_000,
        clock_hz: 50_000_000,
        clock_source: ClockSource::Virtual,
        sizes: BufferSizes { buffers: Some(3), records: Some(5) },
        kernel_name_bytes: 0,
    }
}

fn everything() -> Flags {
    Flags::NONE.with(Flags::ORCH_PHASES).with(Flags::SCOPE_STATS).with(Flags::DEP_GEN)
}

#[test]
fn only_its_owner_may_read_it_and_it_is_where_it_was_asked_for() {
    let (run, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let region = Region::create(&spec(everything(), 2, 2), run.path(), Some(elsewhere.path())).unwrap();
    assert!(region.path().starts_with(elsewhere.path()));
    let file = std::fs::metadata(region.path()).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert_eq!(file.len(), region.len_bytes());
    region.remove().unwrap();
    assert!(!region.path().exists());
}

#[test]
fn without_a_wish_it_is_on_shared_memory_or_in_the_run_directory() {
    let run = tempfile::tempdir().unwrap();
    let region = Region::create(&spec(everything(), 2, 2), run.path(), None).unwrap();
    assert!(Region::on_shared_memory(region.path()) || region.path().starts_with(run.path()));
    region.remove().unwrap();
}

#[test]
fn a_directory_that_is_not_there_is_an_error_that_says_what_to_do() {
    let run = tempfile::tempdir().unwrap();
    let error = Region::create(&spec(everything(), 2, 2), run.path(), Some(Path::new("/none/such"))).unwrap_err();
    assert!(error.to_string().contains("choose another place for the region"), "{error}");
}

/// A type that claims to be a record of a kind whose records are shorter.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct TooLong([u64; 512]);
// SAFETY: plain words.
unsafe impl bytemuck::Zeroable for TooLong {}
// SAFETY: plain words.
unsafe impl bytemuck::Pod for TooLong {}
impl Record for TooLong {
    const KIND: Kind = Kind::AicoreTask;
}

#[test]
#[should_panic(expected = "a record of 4096 bytes in a pool of 32")]
fn a_type_of_another_size_than_its_kind_gets_no_pool() {
    let run = tempfile::tempdir().unwrap();
    let region = Region::create(&spec(everything(), 2, 2), run.path(), None).unwrap();
    region.remove().unwrap();
    let _ = region.pool::<TooLong>(0);
}

#[test]
fn more_than_the_directory_holds_is_refused() {
    let run = tempfile::tempdir().unwrap();
    for (cores, agents) in [(513, 1), (1, 513)] {
        let error = Region::create(&spec(everything(), cores, agents), run.path(), None).unwrap_err();
        assert!(matches!(error, Error::TooMany { value: 513, limit: 512, .. }), "{error}");
    }
}

#[test]
fn buffers_of_any_size_are_made_or_refused_in_words() {
    let run = tempfile::tempdir().unwrap();
    for (flags, records) in [
        (Flags::DEP_GEN, 67_108_864),
        (Flags::DEP_GEN, 67_108_863),
        (Flags::DEP_GEN, u32::MAX),
        (Flags::CORE_TIMING, 134_217_728),
        (Flags::SCHED_PHASES, u32::MAX / 40 + 1),
        (Flags::CORE_TIMING, (64 << 20) / 32),
    ] {
        let sizes = BufferSizes { buffers: Some(1), records: Some(records) };
        let error = Region::create(&RegionSpec { sizes, ..spec(flags, 1, 1) }, run.path(), None).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::BufferTooLarge { records: given, .. } if given == records), "{said}");
        assert!(said.contains("67108864 at most") && said.contains("set fewer records per buffer"), "{said}");
    }
    let sizes = BufferSizes { buffers: Some(u32::MAX), records: Some(1) };
    let error = Region::create(&RegionSpec { sizes, ..spec(everything(), 1, 1) }, run.path(), None).unwrap_err();
    assert!(matches!(error, Error::TooMany { limit: 65_535, .. }), "{error}");
    for (sizes, what) in [
        (BufferSizes { buffers: Some(0), records: None }, "0 buffers per pool"),
        (BufferSizes { buffers: None, records: Some(0) }, "0 records per buffer"),
    ] {
        let error = Region::create(&RegionSpec { sizes, ..spec(everything(), 1, 1) }, run.path(), None).unwrap_err();
        assert!(matches!(error, Error::NoneAtAll { .. }) && error.to_string().contains(what), "{error}");
    }
    // The largest buffer there can be, to its last record.
    let records = ((64 << 20) - 64) / 32;
    let sizes = BufferSizes { buffers: Some(1), records: Some(records) };
    let largest = RegionSpec { sizes, ..spec(Flags::CORE_TIMING, 1, 1) };
    let region = Region::create(&largest, run.path(), Some(run.path())).unwrap();
    let pool = region.pool::<AicoreTask>(0).unwrap();
    assert_eq!(pool.slots(0).len(), records as usize);
    assert!(region.len_bytes() >= 64 << 20);
}

#[test]
fn more_buffers_than_the_file_system_holds_are_refused_before_it_is_full() {
    let run = tempfile::tempdir().unwrap();
    let sizes = BufferSizes { buffers: Some(65_535), records: Some(1 << 20) };
    for place in [None, Some(run.path())] {
        let error =
            Region::create(&RegionSpec { sizes, ..spec(Flags::CORE_TIMING, 512, 512) }, run.path(), place).unwrap_err();
        assert!(matches!(error, Error::NoRoom { .. }), "{error}");
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 0, "nothing is left behind");
    }
}

#[test]
fn times_beyond_all_measure_are_the_longest_there_are() {
    let run = tempfile::tempdir().unwrap();
    let spec = RegionSpec { host_gone_ns: u64::MAX, clock_hz: u64::MAX, ..spec(Flags::CORE_TIMING, 1, 1) };
    let region = Region::create(&spec, run.path(), Some(run.path())).unwrap();
    assert_eq!(region.patience().ticks, u64::MAX);
    let slow = RegionSpec { clock_hz: 0, ..spec };
    let region = Region::create(&slow, run.path(), Some(run.path())).unwrap();
    assert_eq!(region.nanos(u64::MAX).0, u64::MAX);
}

#[test]
fn the_string_table_grows_with_the_names_of_the_kernels() {
    let run = tempfile::tempdir().unwrap();
    for (kernels, len) in [(300, 5000), (4096, 105), (1, 60_000)] {
        let name = |id: usize| format!("{id:0len$}");
        let spec = RegionSpec { kernel_name_bytes: (kernels * len) as u64, ..spec(Flags::CORE_TIMING, 1, 1) };
        let region = Region::create(&spec, run.path(), Some(run.path())).unwrap();
        (0..kernels).for_each(|id| region.add_kernel(KernelId(id as u32), &name(id)).unwrap());
        // Sites have room of their own beside them.
        let site = region.site("src/lib.rs", 42);
        let path = region.path().to_path_buf();
        drop(region);
        let image = RegionImage::open_dead(&path).unwrap();
        assert_eq!(image.sites(), [(site, "src/lib.rs".into(), 42)]);
        assert_eq!(image.kernels().len(), kernels);
        assert!(image.kernels().iter().enumerate().all(|(id, kernel)| kernel.1 == name(id)));
    }
    let spec = RegionSpec { kernel_name_bytes: 1 << 32, ..spec(Flags::CORE_TIMING, 1, 1) };
    let error = Region::create(&spec, run.path(), Some(run.path())).unwrap_err();
    assert!(error.to_string().contains("use shorter names"), "{error}");
}

#[test]
fn pools_lie_apart_and_inside() {
    let run = tempfile::tempdir().unwrap();
    let region = Region::create(&spec(everything(), 7, 3), run.path(), Some(run.path())).unwrap();
    let base = std::ptr::from_ref(region.control()) as usize;
    let mut spans = Vec::new();
    for (kind, _, pool) in region.pools() {
        let (buffers, records) = region.geometry(pool).expect("listed");
        let head = std::ptr::from_ref(HostMemory::head(&region, pool)) as usize;
        assert_eq!(head % 64, 0);
        spans.push((head, head + 64));
        for buffer in 0..buffers {
            let header = std::ptr::from_ref(HostMemory::header(&region, pool, buffer)) as usize;
            assert_eq!(header % 64, 0);
            spans.push((header, header + 64 + records as usize * kind.record_bytes()));
        }
    }
    assert_eq!(region.pools().count(), 2 * 7 + 5 * 3);
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "pools overlap");
    assert!(spans[0].0 > base && spans.last().unwrap().1 <= base + region.len_bytes() as usize);
}

#[test]
fn it_describes_itself() {
    let run = tempfile::tempdir().unwrap();
    let region = Region::create(&spec(Flags::CORE_TIMING, 2, 2), run.path(), Some(run.path())).unwrap();
    region.add_kernel(KernelId(3), "gemm").unwrap();
    let site = region.site("src/lib.rs", 42);
    region.add_clock_pair(ClockPair { tick: 5, ns: 100 });
    let live = RegionImage::open_dead(region.path()).unwrap_err();
    assert!(matches!(live, Error::Live { .. }), "{live}");
    let path = region.path().to_path_buf();
    drop(region);
    let image = RegionImage::open_dead(&path).unwrap();
    assert_eq!(image.flags(), Flags::CORE_TIMING);
    assert_eq!(image.run_dir().as_deref(), Some(run.path()));
    assert_eq!(image.clock(), (50_000_000, ClockSource::Virtual));
    assert_eq!(image.clock_pairs(), [ClockPair { tick: 5, ns: 100 }]);
    assert_eq!(image.kernels(), [(KernelId(3), "gemm".into())]);
    assert_eq!(image.sites(), [(site, "src/lib.rs".into(), 42)]);
    assert_eq!(image.pid(), std::process::id());
    assert!(image.pools().iter().all(|pool| pool.kind == Kind::AicoreTask) && image.pools().len() == 2);
    assert!(image.damage().is_empty());
}

#[test]
fn the_clock_table_keeps_its_first_and_its_last_reading() {
    let run = tempfile::tempdir().unwrap();
    let region = Region::create(&spec(Flags::CORE_TIMING, 1, 1), run.path(), Some(run.path())).unwrap();
    (0..1000).for_each(|tick| region.add_clock_pair(ClockPair { tick, ns: tick }));
    let bytes = std::fs::read(region.path()).unwrap();
    let pairs = RegionImage::parse(&bytes[..], region.path()).unwrap().clock_pairs();
    assert_eq!((pairs.first().unwrap().tick, pairs.last().unwrap().tick), (0, 999));
}

#[test]
fn a_pool_that_is_off_is_not_there() {
    let run = tempfile::tempdir().unwrap();
    let region = Region::create(&spec(Flags::SCOPE_STATS, 2, 2), run.path(), Some(run.path())).unwrap();
    assert!(region.pool::<AicoreTask>(0).is_none());
    assert!(region.pool::<plimsoll_abi::record::ScopeRecord>(1).is_some_and(|pool| pool.buffers() == 3));
    assert!(region.pool::<plimsoll_abi::record::ScopeRecord>(u16::MAX).is_none());
}
