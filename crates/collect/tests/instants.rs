//! A run is killed at every instant of its start, its end and its recovery, and a recovery makes it whole.
//!
//! The instants are the system calls, but for reads: between two of them a process changes nothing that outlives it but the region's memory.
//! The test traces a victim, which is its own executable started again, and kills it before and after each call in turn. The
//! two share a counter that the victim raises with every record, so what was published is known to the test and not taken from
//! the recorder.
#![allow(clippy::unwrap_used)]

mod harness;
mod traced;

use harness::*;
use plimsoll_abi::record::Kind;
use plimsoll_abi::{AgentId, Flags};
use plimsoll_collect::{Ending, RunDir, orphans, recover};
use plimsoll_probe::{Lane, Probe};
use plimsoll_trace::manifest::KernelFacts;
use plimsoll_trace::{CoreClass, Manifest, Status};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use traced::Traced;

const VICTIM: &str = "PLIMSOLL_TEST_INSTANTS_DIR";
const RECORDS: u32 = 20;

/// A counter in a file that outlives the victim.
fn counter(place: &Path) -> &'static AtomicU64 {
    let path = place.join("counter");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(4096).unwrap();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of a file of 4096 bytes, never unmapped; atomics may be shared.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(base, libc::MAP_FAILED);
        &*base.cast()
    }
}

fn facts() -> Manifest {
    let mut manifest = Manifest::new("victim");
    manifest.pid = std::process::id();
    manifest.started_unix_ns = 1_794_775_685_000_000_000 + u64::from(std::process::id());
    let core_type = CoreClass::from_name("any");
    manifest.kernels = vec![KernelFacts { id: 7, name: "kernel".into(), core_type }];
    manifest
}

/// A whole run of `RECORDS` records; the buffers hold three, so that most are drained and some are not.
fn run(place: &Path) {
    let published = counter(place);
    let mut config = driven_by_caller(&place.join("run"), Flags::CORE_TIMING, 1, sizes(4, 3));
    config.region_dir = Some(place.to_path_buf());
    traced::begin();
    let mut run = RunDir::start(config, facts()).unwrap();
    run.clock_pair(1, 2);
    {
        let probe = run.session().probe(QuietWorld);
        let mut lane = probe.lane(AgentId(0));
        for token in 0..RECORDS {
            lane.task(&span(0, token));
            published.store(u64::from(token) + 1, Ordering::SeqCst);
            if token % 6 == 5 {
                run.session().drain_step();
            }
        }
    }
    run.finish(|_, account| {
        assert!(account.unwrap().lossless);
        Ending { status: Status::Ok, error: None }
    })
    .unwrap();
    traced::end();
}

fn main() {
    match std::env::var_os(VICTIM).map(PathBuf::from) {
        None => {
            a_kill_at_any_instant_of_a_run_leaves_what_recover_makes_whole();
            a_kill_at_any_instant_of_a_recovery_leaves_what_recover_makes_whole();
        }
        Some(place) if place.join("run/run.json").exists() => {
            traced::begin();
            recover(&place.join("run")).unwrap();
            traced::end();
        }
        Some(place) => run(&place),
    }
}

/// What is left of a victim is made whole by `recover`, and nothing stays behind.
#[track_caller]
fn assert_whole(place: &Path, when: &str) {
    let dir = place.join("run");
    let published = counter(place).load(Ordering::SeqCst);
    if !dir.join(Manifest::FILE).exists() {
        // D1: without a manifest there is no region, and nothing was recorded.
        assert_eq!((regions(place), published), (vec![], 0), "{when}");
        return;
    }
    let left = regions(place);
    let found = orphans(Path::new("none"));
    assert!(
        left.iter().all(|region| found.iter().any(|orphan| orphan.region == *region)),
        "{when}: {left:?} {found:?}"
    );
    let named = Manifest::read(&dir).unwrap().region;
    // By its region, where it has left one, and from anywhere: half-made regions do not say whose they are, but a pointer does.
    let left_behind = found.into_iter().find(|orphan| left.contains(&orphan.region));
    let recovered = match &left_behind {
        Some(orphan) => orphan.recover().map(|found| found.expect("a run of its own").1),
        None => recover(&dir),
    };
    let recovered = recovered.unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(recovered.damage, Vec::<String>::new(), "{when}");
    assert_eq!(regions(place), Vec::<PathBuf>::new(), "{when}: the region is gone");
    let pointers = named.iter().flat_map(|region| pointers_to(region)).chain(pointers_to(&dir)).collect::<Vec<_>>();
    assert_eq!(pointers, Vec::<PathBuf>::new(), "{when}: and with it its pointers");
    let manifest = Manifest::read(&dir).unwrap();
    assert_eq!(manifest, recovered.manifest, "{when}");
    assert!(
        matches!(manifest.status, Status::Ok | Status::Killed) && manifest.region.is_none(),
        "{when}: {manifest:?}"
    );
    assert_eq!(manifest.kernels.len(), 1, "{when}");
    let ledger = manifest.reconcile.expect("an account");
    assert!(ledger.balanced && ledger.lossless, "{when}: {ledger:?}");
    let kind = Kind::AicoreTask.name();
    let (total, kept) = ledger
        .pools
        .iter()
        .filter(|pool| pool.kind == kind)
        .fold((0, 0), |(total, kept), pool| (total + pool.total, kept + pool.collected + pool.recovered));
    // The counter is raised after its record is published: one more may be there.
    assert!((published..=published + 1).contains(&total) && kept == total, "{when}: {kept} of {total}, {published}");
    if manifest.status == Status::Ok {
        assert_eq!(total, u64::from(RECORDS), "{when}");
    }
    assert_tokens(&tokens(&dir), 0, total as u32);
    let again = recover(&dir).unwrap();
    assert!(!again.changed && again.manifest == recovered.manifest, "{when}: a second time changes nothing");
}

fn regions(place: &Path) -> Vec<PathBuf> {
    let entries = [place.to_path_buf(), place.join("run")].into_iter().filter_map(|dir| std::fs::read_dir(dir).ok());
    let paths = entries.flatten().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "region")).collect()
}

fn a_kill_at_any_instant_of_a_run_leaves_what_recover_makes_whole() {
    let mut instant = 0;
    loop {
        let place = tempfile::tempdir().unwrap();
        let Some(when) = Traced::start(VICTIM, place.path()).kill_at(instant) else { break };
        assert_whole(place.path(), &when);
        instant += 1;
    }
    println!("a run: {instant} instants, all recovered");
    assert!(instant > 100, "start and end take more than {instant} instants");
}

fn a_kill_at_any_instant_of_a_recovery_leaves_what_recover_makes_whole() {
    let mut instant = 0;
    loop {
        let place = tempfile::tempdir().unwrap();
        killed_while_it_recorded(place.path());
        let Some(when) = Traced::start(VICTIM, place.path()).kill_at(instant) else { break };
        assert_whole(place.path(), &format!("recovery, {when}"));
        instant += 1;
    }
    println!("a recovery: {instant} instants, all recovered");
    assert!(instant > 40, "a recovery takes more than {instant} instants");
}

/// A run that died with frames in its segment file and records in its region.
fn killed_while_it_recorded(place: &Path) {
    let published = counter(place);
    let mut config = driven_by_caller(&place.join("run"), Flags::CORE_TIMING, 1, sizes(4, 3));
    config.region_dir = Some(place.to_path_buf());
    let run = RunDir::start(config, facts()).unwrap();
    let probe = run.session().probe(QuietWorld);
    let mut lane = probe.lane(AgentId(0));
    (0..5).for_each(|token| lane.task(&span(0, token)));
    run.session().drain_step();
    (5..10).for_each(|token| lane.task(&span(0, token)));
    published.store(10, Ordering::SeqCst);
    std::mem::forget(lane);
    drop(run);
    let file = OpenOptions::new().append(true).open(plimsoll_collect::segment::path(&place.join("run"))).unwrap();
    // As a kill in the middle of a write leaves it.
    std::io::Write::write_all(&mut &file, b"torn").unwrap();
}
