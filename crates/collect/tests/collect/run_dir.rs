//! The owner of a run's directory: what a start leaves when it fails, what an end tolerates, and who may recover.
#![allow(clippy::unwrap_used)]

use crate::harness::*;
use plimsoll_abi::{AgentId, Flags};
use plimsoll_collect::{
    Ending, Error, Ledger, RunDir, SessionConfig, look_at_region, orphans, recover, regions_of_process, segment,
};
use plimsoll_probe::{Lane, Probe};
use plimsoll_trace::manifest::KernelFacts;
use plimsoll_trace::{CoreClass, Manifest, Status};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

fn small(dir: &Path) -> SessionConfig {
    driven_by_caller(dir, Flags::CORE_TIMING, 1, sizes(4, 3))
}

fn facts(started_unix_ns: u64) -> Manifest {
    Manifest { started_unix_ns, pid: std::process::id(), ..Manifest::new("test") }
}

fn record(run: &RunDir, count: u32) {
    let probe = run.session().probe(QuietWorld);
    let mut lane = probe.lane(AgentId(0));
    (0..count).for_each(|token| lane.task(&span(0, token)));
}

fn finish(run: RunDir) -> Result<Ledger, Error> {
    run.finish(|_, account| {
        let status = if account.is_ok() { Status::Ok } else { Status::Failed };
        Ending { status, error: None }
    })
}

/// A run that was killed with eight records.
fn dead_run(dir: &Path, started_unix_ns: u64) -> PathBuf {
    let run = RunDir::start(small(dir), facts(started_unix_ns)).unwrap();
    let probe = run.session().probe(QuietWorld);
    let mut lane = probe.lane(AgentId(0));
    (0..8).for_each(|token| lane.task(&span(0, token)));
    std::mem::forget(lane);
    run.session().region_path().to_path_buf()
}

/// Every file under a directory with its contents, in order.
fn everything(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(everything(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

#[test]
fn a_run_ends_with_its_account_and_without_its_region() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::start(small(dir.path()), facts(5)).unwrap();
    let region = run.session().region_path().to_path_buf();
    let first = Manifest::read(dir.path()).unwrap();
    assert_eq!((first.status, first.region.as_deref()), (Status::Running, Some(region.as_path())));
    record(&run, 8);
    assert!(finish(run).unwrap().lossless);
    assert!(!region.exists());
    assert_eq!(Manifest::read(dir.path()).unwrap().region, None, "a region that is gone is not named");
    assert!(!dir.path().join(Manifest::NEXT).exists(), "what was reserved is used");
    let last = Manifest::read(dir.path()).unwrap();
    assert_eq!(last.status, Status::Ok);
    assert_eq!(last.reconcile.unwrap().pools[0].total, 8);
    assert!(!recover(dir.path()).unwrap().changed);
}

#[test]
fn a_region_that_somebody_removed_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::start(small(dir.path()), facts(5)).unwrap();
    fs::remove_file(run.session().region_path()).unwrap();
    record(&run, 8);
    assert_eq!(finish(run).unwrap().pools[0].collected, 8);
    assert_eq!(Manifest::read(dir.path()).unwrap().status, Status::Ok);
}

#[test]
fn a_directory_that_was_removed_leaves_the_region() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let config = SessionConfig { region_dir: Some(place.path().to_path_buf()), ..small(&dir) };
    let run = RunDir::start(config, facts(5)).unwrap();
    let region = run.session().region_path().to_path_buf();
    record(&run, 2);
    fs::remove_dir_all(&dir).unwrap();
    let error = finish(run).expect_err("there is no place for the account");
    assert!(error.to_string().contains("run"), "{error}");
    assert!(region.exists(), "the region is the one place that has it");
}

#[test]
fn a_directory_that_another_run_has_taken_since_stays_that_runs() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let config = SessionConfig { region_dir: Some(place.path().to_path_buf()), ..small(&dir) };
    let first = RunDir::start(config.clone(), facts(5)).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let second = RunDir::start(config, facts(6)).unwrap();
    record(&first, 2);
    let region = first.session().region_path().to_path_buf();
    assert!(matches!(finish(first), Err(Error::Removed { .. })));
    record(&second, 2);
    assert!(finish(second).unwrap().lossless);
    let manifest = Manifest::read(&dir).unwrap();
    assert_eq!((manifest.status, manifest.started_unix_ns), (Status::Ok, 6));
    let orphan = orphans(Path::new("none")).into_iter().find(|orphan| orphan.region == region).expect("it is listed");
    let (beside, recovered) = orphan.recover().unwrap().expect("a run");
    assert!(beside != dir && recovered.manifest.reconcile.unwrap().lossless);
}

#[test]
fn a_directory_that_was_removed_with_its_region_is_made_again() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let run = RunDir::start(small(&dir), facts(5)).unwrap();
    record(&run, 8);
    run.session().drain_step();
    fs::remove_dir_all(&dir).unwrap();
    let here = regions_of_process(std::process::id()).unwrap();
    let looks = here.iter().filter_map(|region| look_at_region(region, None).ok());
    assert_eq!(looks.filter(|look| look.dir == dir).count(), 1, "whoever looks from outside still sees it: {here:?}");
    record(&run, 2);
    assert!(finish(run).unwrap().lossless);
    let manifest = Manifest::read(&dir).unwrap();
    assert_eq!((manifest.status, manifest.region), (Status::Ok, None));
    let kept = segment::scan(&dir, |_, _| ()).unwrap();
    assert_eq!(kept.frames.values().map(|frame| frame.count).sum::<u32>(), 10);
}

#[test]
fn what_was_removed_from_a_directory_is_put_back() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let config = SessionConfig { region_dir: Some(place.path().to_path_buf()), ..small(&dir) };
    let run = RunDir::start(config, facts(5)).unwrap();
    record(&run, 8);
    run.session().drain_step();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    assert!(finish(run).unwrap().lossless);
    let kept = segment::scan(&dir, |_, _| ()).unwrap();
    assert_eq!(kept.frames.values().map(|frame| frame.count).sum::<u32>(), 8);
    assert_eq!(Manifest::read(&dir).unwrap().status, Status::Ok);
}

#[test]
fn a_region_in_a_chosen_place_is_found_from_anywhere_once_its_run_is_dead() {
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = elsewhere.path().join("run");
    let found = |region: &Path| orphans(Path::new("none")).into_iter().find(|orphan| orphan.region == region);
    let run = RunDir::start(small(&dir), facts(5)).unwrap();
    let region = run.session().region_path().to_path_buf();
    assert_eq!(found(&region), None, "it is alive");
    drop(run);
    let orphan = found(&region).expect("nothing here names it");
    assert_eq!(orphan.dir.as_ref(), Some(&dir));
    orphan.recover().unwrap();
    assert!(found(&region).is_none() && pointers_to(&region).is_empty());
    let run = RunDir::start(small(&elsewhere.path().join("well")), facts(6)).unwrap();
    let region = run.session().region_path().to_path_buf();
    assert_eq!(pointers_to(&region).len(), 1);
    finish(run).unwrap();
    assert!(pointers_to(&region).is_empty(), "a clean end leaves none");
}

#[test]
fn another_runs_directory_is_refused_and_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::start(small(dir.path()), facts(5)).unwrap();
    record(&run, 8);
    finish(run).unwrap();
    let before = everything(dir.path());
    let error = RunDir::start(small(dir.path()), facts(6)).expect_err("it holds a run");
    assert!(matches!(error, Error::Occupied { .. }) && error.to_string().contains("run.json"), "{error}");
    assert_eq!(everything(dir.path()), before);
}

#[test]
fn a_start_that_fails_removes_what_it_made_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("a/b/run");
    // The manifest cannot be written.
    fs::create_dir_all(dir.join(Manifest::FILE)).unwrap();
    let before = everything(place.path());
    RunDir::start(small(&dir), facts(5)).expect_err("run.json is a directory");
    assert_eq!(everything(place.path()), before);
    // The segment file cannot be made, when the region is there already.
    let other = place.path().join("c/run");
    fs::create_dir_all(&other).unwrap();
    File::create(other.join(segment::DIRECTORY)).unwrap();
    let before = everything(place.path());
    let config = SessionConfig { region_dir: Some(place.path().to_path_buf()), ..small(&other) };
    RunDir::start(config, facts(5)).expect_err("records is a file");
    assert_eq!(everything(place.path()), before);
    // A kernel cannot be named, when everything is there already.
    let core_type = CoreClass::from_name("any");
    let kernels = (0..5000).map(|id| KernelFacts { id, name: "k".into(), core_type }).collect();
    let fresh = place.path().join("d/e/run");
    let config = SessionConfig { region_dir: Some(place.path().to_path_buf()), ..small(&fresh) };
    let error = RunDir::start(config, Manifest { kernels, ..facts(5) }).expect_err("too many kernels");
    assert!(error.to_string().contains("table is full"), "{error}");
    assert_eq!(everything(place.path()), before, "directories that were made for it are gone, too");
}

#[test]
fn a_recovery_waits_for_another_and_does_not_take_it_for_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let region = dead_run(dir.path(), 5);
    // As another recovery holds them.
    let (lock, reader) = (File::open(dir.path()).unwrap(), File::open(&region).unwrap());
    lock.lock().unwrap();
    reader.lock_shared().unwrap();
    assert!(Manifest::read(dir.path()).unwrap().needs_recovery(), "readers do not take it for the run, either");
    let recovered = std::thread::scope(|scope| {
        let second = scope.spawn(|| recover(dir.path()));
        drop(lock);
        second.join().unwrap().unwrap()
    });
    assert!(recovered.changed);
    assert_eq!(recovered.manifest.reconcile.unwrap().pools[0].recovered, 8);
    assert!(!region.exists());
}

#[test]
fn a_live_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::start(small(dir.path()), facts(5)).unwrap();
    let error = recover(dir.path()).expect_err("it lives");
    assert!(matches!(error, Error::Alive { .. }) && error.to_string().contains("is alive"), "{error}");
    record(&run, 1);
    finish(run).unwrap();
}

#[test]
fn a_region_of_another_run_that_took_the_name_is_left_alone() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let region = dead_run(first.path(), 5);
    let others = dead_run(second.path(), 6);
    fs::rename(&others, &region).unwrap();
    let error = recover(first.path()).expect_err("it is not this run's");
    assert!(matches!(error, Error::AnotherRuns { .. }) && error.to_string().contains("another run"), "{error}");
    assert!(region.exists() && Manifest::read(first.path()).unwrap().status == Status::Running);
}

#[test]
fn a_pipe_in_place_of_the_region_is_refused_and_nobody_waits() {
    let dir = tempfile::tempdir().unwrap();
    let region = dead_run(dir.path(), 5);
    fs::remove_file(&region).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&region).status().unwrap().success());
    let error = recover(dir.path()).expect_err("no file").to_string();
    assert!(error.contains("not a plain file"), "{error}");
}

#[test]
fn a_run_whose_region_was_removed_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::remove_file(dead_run(dir.path(), 5)).unwrap();
    let before = everything(dir.path());
    let error = recover(dir.path()).expect_err("there is no region");
    assert!(matches!(error, Error::NothingToRecover { .. }), "{error}");
    assert_eq!(everything(dir.path()), before);
}

#[test]
fn a_directory_that_was_renamed_is_found_beside_its_old_name() {
    let place = tempfile::tempdir().unwrap();
    let (dir, renamed) = (place.path().join("run"), place.path().join("renamed"));
    let config = SessionConfig { region_dir: Some(place.path().to_path_buf()), ..small(&dir) };
    let run = RunDir::start(config, facts(5)).unwrap();
    record(&run, 8);
    run.session().drain_step();
    let region = run.session().region_path().to_path_buf();
    drop(run);
    fs::rename(&dir, &renamed).unwrap();
    let orphan = orphans(Path::new("none")).into_iter().find(|orphan| orphan.region == region).expect("it is listed");
    assert_eq!(orphan.dir.as_ref(), Some(&renamed));
    let (recovered_in, recovered) = orphan.recover().unwrap().expect("a run");
    assert!(recovered_in == renamed && recovered.manifest.reconcile.unwrap().balanced && !dir.exists());
}

/// A device whose host was killed holds the region until it has ended, too.
#[test]
fn a_recovery_waits_for_the_device_of_a_dead_host() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let run = RunDir::start(small(&dir), facts(5)).unwrap();
    let mut host = std::process::Command::new("true").spawn().unwrap();
    let mut manifest = Manifest::read(&dir).unwrap();
    host.wait().unwrap();
    (manifest.pid, manifest.device_pid) = (host.id(), Some(std::process::id()));
    manifest.write(&dir).unwrap();
    match recover(&dir) {
        Err(Error::Alive { pid, .. }) => assert_eq!(pid, std::process::id(), "the one that lives is named"),
        other => panic!("{other:?}"),
    }
    let device = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(run);
    });
    assert!(recover(&dir).unwrap().changed);
    device.join().unwrap();
}
