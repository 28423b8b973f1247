//! A session: the recorder of one run, from its start to its account.

use crate::collector::Collector;
use crate::config::{Drive, SessionConfig};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::recover::salvage;
use crate::segment::{self, SegmentWriter};
use plimsoll_abi::region::ClockPair;
use plimsoll_abi::{Flags, KernelId, SiteId};
use plimsoll_probe::Recording;
use plimsoll_shm::{Doorbell, Owner, Region, World};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest sleep of an idle collector. It is woken by the doorbell; this only bounds what a lost wake-up could cost.
const SLEEP: Duration = Duration::from_secs(1);

/// The recorder of one run. Dropped without [`finish`](Session::finish), it stops draining and leaves the region
/// behind, for [`recover`](crate::recover()).
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The run's directory.
    dir: PathBuf,
}

#[derive(Debug)]
struct Shared {
    region: Arc<Region>,
    bell: Doorbell,
    collector: Mutex<Collector>,
    stop: AtomicBool,
}

impl Shared {
    fn collector(&self) -> MutexGuard<'_, Collector> {
        // After a panic the counts may be off; `Session::close` counts again from the files.
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let seen = self.bell.rings();
            // Acquire: what was sealed before the stop is drained. pairs(stop): Release in `Session::stop`.
            let stop = self.stop.load(Ordering::Acquire);
            if self.collector().drain(&self.region) == 0 {
                if stop {
                    return;
                }
                self.bell.sleep(seen, SLEEP);
            }
        }
    }
}

impl Session {
    /// Makes the region and `records/`, and starts to drain. On failure nothing is left of either.
    pub fn start(config: SessionConfig) -> Result<Self, Error> {
        Self::start_announced(config, 0, |_| Ok(()))
    }

    /// As [`start`](Self::start), but calls `announce` with every path before a region's file is made there. `tag` tells
    /// the region from those of other runs.
    pub(crate) fn start_announced(
        config: SessionConfig,
        tag: u32,
        announce: impl FnMut(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let advice = "choose another directory";
        let io = |doing, source| Error::Io { doing, path: config.dir.clone(), source, advice };
        // The region is found from wherever the user stands.
        let run_dir = std::path::absolute(&config.dir).map_err(|source| io("use", source))?;
        let owner = Owner { run_dir: &run_dir, region_dir: config.region_dir.as_deref(), tag };
        let region = Region::create_announced(&config.region_spec(), &owner, announce)?;
        Self::drain_into_segments(config, region, Shared::run)
    }

    /// Starts to drain a region with `run`. On failure neither region nor segment file is left.
    fn drain_into_segments(config: SessionConfig, region: Region, run: fn(&Shared)) -> Result<Self, Error> {
        let region = Arc::new(region);
        // After the region: where there is no segment file, nothing was recorded.
        let segments = SegmentWriter::create(&config.dir).inspect_err(|_| drop(region.remove()))?;
        let bell = Doorbell::new(Arc::clone(&region));
        let collector = Mutex::new(Collector::new(&region, segments)?);
        let shared = Arc::new(Shared { region, bell, collector, stop: AtomicBool::new(false) });
        let spawn = || {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("plimsoll-collect".into()).spawn(move || run(&shared))
        };
        let thread = match config.drive {
            Drive::Caller => None,
            Drive::Thread => Some(spawn().map_err(|source| {
                drop(std::fs::remove_file(segment::path(&config.dir)));
                drop(shared.region.remove());
                Error::Io {
                    doing: "start a collector thread for",
                    path: config.dir.clone(),
                    source,
                    advice: "allow this process more threads",
                }
            })?),
        };
        Ok(Self { shared, thread, dir: config.dir })
    }

    /// The probe that records into this session. `world` is its clock and its way to wait; it should ring
    /// [`doorbell`](Self::doorbell) in `notify_host`, or call [`drain_step`](Self::drain_step) in `wait_for_host`
    /// if the caller drains.
    pub fn probe<W: World>(&self, world: W) -> Recording<W> {
        Recording::new(Arc::clone(&self.shared.region), world)
    }

    /// The bell that wakes the collector.
    pub fn doorbell(&self) -> Doorbell {
        self.shared.bell.clone()
    }

    /// Where the region is; the manifest names it.
    pub fn region_path(&self) -> &Path {
        self.shared.region.path()
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.shared.region
    }

    /// What is recorded.
    pub fn flags(&self) -> Flags {
        self.shared.region.flags()
    }

    /// Names a kernel, for readers of the region.
    pub fn add_kernel(&self, id: KernelId, name: &str) -> Result<(), Error> {
        Ok(self.shared.region.add_kernel(id, name)?)
    }

    /// The number of a source site, the same for the same place. Allocates nothing; 0 once the table is full.
    pub fn site(&self, file: &str, line: u32) -> SiteId {
        self.shared.region.site(file, line)
    }

    /// Adds a reading of the run's clock beside the system's: at start, at the end and between.
    pub fn clock_pair(&self, tick: u64, ns: u64) {
        self.shared.region.add_clock_pair(ClockPair { tick, ns });
    }

    /// Drains what is ready and returns the number of buffers; for sessions that the caller drives.
    pub fn drain_step(&self) -> usize {
        self.shared.collector().drain(&self.shared.region)
    }

    /// Whether the recording ended early; [`finish`](Self::finish) says why.
    pub fn failed(&self) -> bool {
        self.shared.region.recording_ended()
    }

    /// Producers that wait for the collector right now. Such a wait is no lack of progress of the run.
    pub fn waiting(&self) -> u32 {
        self.shared.region.waiting()
    }

    /// Whether a producer gave up waiting for the collector.
    pub fn host_gone(&self) -> bool {
        self.shared.region.host_gone()
    }

    /// Ends the recording: drains the rest, accounts for every record, removes the region. The agents should have ended.
    pub fn finish(mut self) -> Result<Ledger, Error> {
        let account = self.close();
        self.shared.region.remove()?;
        account
    }

    /// Ends the recording as [`finish`](Self::finish) does, with segments that would survive a loss of power, and leaves the
    /// region: until the account is stored as safely, it is the one place that has it.
    pub(crate) fn close(&mut self) -> Result<Ledger, Error> {
        let panicked = self.stop().is_err();
        let account = self.shared.collector().finish(&self.shared.region);
        let why = match &account {
            _ if panicked => "its collector panicked",
            Ok(ledger) if !ledger.balanced => "its collector lost its place",
            _ => return account,
        };
        Err(self.broken(why, account))
    }

    /// What a broken collector left in the region goes to the segments, as if the run had died.
    fn broken(&self, why: &'static str, account: Result<Ledger, Error>) -> Error {
        let reread = self.shared.region.image().map_err(Error::from);
        let reread = reread.and_then(|mut image| salvage(&mut image, &self.dir));
        let ledger = match (reread, account) {
            (Ok(recovery), _) => recovery.ledger,
            (Err(_), Ok(ledger)) => ledger,
            (Err(_), Err(error)) => error.ledger().cloned().unwrap_or_default(),
        };
        Error::Broken { why, ledger: Box::new(ledger) }
    }

    fn stop(&mut self) -> std::thread::Result<()> {
        // Release: pairs(stop): Acquire in `Shared::run`.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Whoever asks how the collector fared calls `finish`.
        drop(self.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::bench::CounterWorld;
    use plimsoll_abi::{AgentId, CoreId, TaskId};
    use plimsoll_probe::{Lane, Probe, TaskSpan};

    const RECORDS: u32 = 100;

    /// A session whose collector thread runs `collector` writes some records and ends.
    fn recorded_by(collector: fn(&Shared)) -> Error {
        let dir = tempfile::tempdir().expect("temporary directory");
        let config = SessionConfig {
            sizes: plimsoll_shm::BufferSizes { buffers: Some(4), records: Some(30) },
            ..SessionConfig::new(dir.path(), Flags::CORE_TIMING, 1, vec![Role::BOTH])
        };
        let region = Region::create(&config.region_spec(), dir.path(), Some(dir.path())).expect("region");
        let mut session = Session::drain_into_segments(config, region, collector).expect("session");
        {
            let probe = session.probe(CounterWorld::new(&session));
            let mut lane = probe.lane(AgentId(0));
            for token in 0..RECORDS {
                let (task, at) = (TaskId::new(0, token), u64::from(token));
                let times = TaskSpan {
                    core: CoreId(0),
                    task,
                    kernel: KernelId(0),
                    token,
                    dispatch: at,
                    receive: at,
                    start: at,
                    end: at,
                    finish: at,
                };
                lane.task(&times);
            }
        }
        let error = session.close().expect_err("the collector broke");
        let ledger = error.ledger().expect("an account").clone();
        assert!(ledger.balanced && ledger.lossless, "{ledger:?}");
        assert_eq!(ledger.pools[0].total, u64::from(RECORDS));
        drop(session);
        let records = segment::scan(dir.path(), |_, _| ()).expect("readable");
        assert_eq!(records.frames.values().map(|frame| frame.count).sum::<u32>(), RECORDS, "nothing is lost");
        error
    }

    #[test]
    fn a_collector_that_panicked_is_a_recording_that_failed() {
        let error = recorded_by(|_| panic!("as the test wants it"));
        assert!(matches!(error, Error::Broken { .. }) && error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn a_collector_that_panicked_half_way_has_its_work_counted_once() {
        let error = recorded_by(|shared| {
            while shared.collector().drain(&shared.region) == 0 {
                std::thread::yield_now();
            }
            panic!("as the test wants it");
        });
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn a_collector_that_lost_its_place_is_a_recording_that_failed() {
        let error = recorded_by(|shared| {
            while !shared.collector().forget_one(&shared.region) {
                std::thread::yield_now();
            }
        });
        assert!(matches!(error, Error::Broken { .. }) && error.to_string().contains("lost its place"), "{error}");
    }
}
