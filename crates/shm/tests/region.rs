//! The region as a file: who may read it, where it goes, what it holds.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use plimsoll_abi::record::{AicoreTask, Kind};
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

#[test]
fn more_than_the_directory_holds_is_refused() {
    let run = tempfile::tempdir().unwrap();
    for (cores, agents) in [(513, 1), (1, 513)] {
        let error = Region::create(&spec(everything(), cores, agents), run.path(), None).unwrap_err();
        assert!(matches!(error, Error::TooMany { value: 513, limit: 512, .. }), "{error}");
    }
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
    assert_eq!(region.pools().count(), 2 * 7 + 4 * 3);
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
