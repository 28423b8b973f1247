//! A session: the recorder of one run, from its start to its account.

use crate::collector::Collector;
use crate::config::{Drive, SessionConfig};
use crate::error::Error;
use crate::recover::salvage;
use crate::segment::{self, SegmentWriter};
use plimsoll_abi::region::ClockPair;
use plimsoll_abi::{CounterGroup, Flags, KernelId, SiteId};
use plimsoll_probe::{CounterStaging, DumpPlan, Recording};
use plimsoll_shm::{Board, Doorbell, Moved, Owner, Region, Transport, TransportKind, World};
use plimsoll_trace::Ledger;
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
    shared: Arc<SessionInner>,
    thread: Option<JoinHandle<()>>,
    /// The run's directory.
    dir: PathBuf,
    /// Whether the session ends with this handle.
    ends: bool,
}

#[derive(Debug)]
struct SessionInner {
    region: Arc<Region>,
    board: Arc<Board>,
    bell: Doorbell,
    dump: Arc<DumpPlan>,
    /// What is counted and where cores stage it; none if counters are not recorded.
    counters: Option<Arc<CounterStaging>>,
    /// `None` where another process drains.
    host: Option<HostHalf>,
    stop: AtomicBool,
    /// Whether the device's process has ended in the middle of what it did.
    device_lost: AtomicBool,
    /// How long a producer waits for a buffer before it takes the host for gone.
    host_gone: Duration,
    /// Buffers after which the collector's thread stops.
    stops_after: Option<u64>,
}

/// What drains, and how it reaches the region.
#[derive(Debug)]
struct HostHalf {
    transport: Transport,
    collector: Mutex<Collector>,
}

impl HostHalf {
    fn new(region: &Arc<Region>, transport: TransportKind, segments: SegmentWriter) -> Result<Self, Error> {
        let transport = Transport::new(Arc::clone(region), transport)?;
        let collector = Mutex::new(Collector::new(&transport, segments)?);
        Ok(Self { transport, collector })
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        // After a panic the counts may be off; `Session::close` counts again from the files.
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionInner {
    fn drain(&self) -> usize {
        self.host.as_ref().map_or(0, |host| host.collector().drain(&host.transport))
    }

    fn run(&self) {
        let mut left = self.stops_after.unwrap_or(u64::MAX);
        loop {
            let seen = self.bell.rings();
            // Acquire: what was sealed before the stop is drained. pairs(session.stop): Release in `Session::stop`.
            let stop = self.stop.load(Ordering::Acquire);
            let drained = if left > 0 { self.drain() } else { 0 };
            left = left.saturating_sub(drained as u64);
            if drained == 0 {
                if stop {
                    return;
                }
                self.bell.sleep(seen, SLEEP);
            }
        }
    }
}

/// Where the cores of a region stage what they count, if counters are recorded.
fn staging(region: &Region, group: CounterGroup) -> Option<Arc<CounterStaging>> {
    region.flags().has(Flags::PMU).then(|| Arc::new(CounterStaging::new(group, region.cores())))
}

impl Session {
    /// Makes the region and `records/`, and starts to drain. On failure nothing is left of either.
    ///
    /// # Errors
    /// [`Error::Region`] if the region cannot be laid out or made; [`Error::Io`] if the segment file or the collector's thread cannot be.
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
        // An absolute path, so that the run is found from any working directory.
        let run_dir = std::path::absolute(&config.dir).map_err(|source| io("use", source))?;
        let owner = Owner { run_dir: &run_dir, region_dir: config.region_dir.as_deref(), tag };
        let region = Region::create_announced(&config.region_spec(), &owner, announce)?;
        Self::drain_into_segments(config, region, SessionInner::run)
    }

    /// Starts to drain a region with `run`. On failure neither region nor segment file is left.
    fn drain_into_segments(config: SessionConfig, region: Region, run: fn(&SessionInner)) -> Result<Self, Error> {
        let region = Arc::new(region);
        // D2: made after the region, so that a run without a segment file has recorded nothing.
        let segments = SegmentWriter::create(&config.dir).inspect_err(|_| drop(region.remove()))?;
        let bell = Doorbell::new(Arc::clone(&region));
        let undo = |region: &Region| {
            drop(std::fs::remove_file(segment::path(&config.dir)));
            drop(region.remove());
        };
        let host = HostHalf::new(&region, config.transport, segments).inspect_err(|_| undo(&region))?;
        let (stop, device_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let dump = Arc::new(config.dump.clone());
        let counters = staging(&region, config.counters);
        let board = Arc::new(Board::in_region(Arc::clone(&region)));
        let (host_gone, stops_after) = (config.host_gone, config.collector_stops_after);
        let host = Some(host);
        let shared =
            SessionInner { board, region, bell, dump, counters, host, stop, device_lost, host_gone, stops_after };
        let shared = Arc::new(shared);
        let spawn = || {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("plimsoll-collect".into()).spawn(move || run(&shared))
        };
        let thread = match config.drive {
            Drive::Caller => None,
            Drive::Thread => Some(spawn().map_err(|source| {
                undo(&shared.region);
                Error::Io {
                    doing: "start a collector thread for",
                    path: config.dir.clone(),
                    source,
                    advice: "allow this process more threads",
                }
            })?),
        };
        Ok(Self { shared, thread, dir: config.dir, ends: true })
    }

    /// The device's end of a session whose host half, the collector, is in another process: it records into `region`, and
    /// drains nothing. `dump` is what is captured of which tasks, `counters` what is counted, if those are recorded.
    pub fn attach(region: Region, dump: DumpPlan, counters: CounterGroup) -> Self {
        let region = Arc::new(region);
        let (bell, dir) = (Doorbell::new(Arc::clone(&region)), PathBuf::new());
        let (stop, device_lost) = (AtomicBool::new(false), AtomicBool::new(false));
        let board = Arc::new(Board::in_region(Arc::clone(&region)));
        let (dump, counters, host) = (Arc::new(dump), staging(&region, counters), None);
        let (host_gone, stops_after) = (Duration::MAX, None);
        let shared =
            SessionInner { board, region, bell, dump, counters, host, stop, device_lost, host_gone, stops_after };
        Self { shared: Arc::new(shared), thread: None, dir, ends: true }
    }

    /// Another handle of the session, for whoever records while somebody else may end it. Nothing ends with that handle.
    #[must_use]
    pub fn handle(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), thread: None, dir: self.dir.clone(), ends: false }
    }

    /// What is captured of which tasks.
    pub fn dump_plan(&self) -> &DumpPlan {
        &self.shared.dump
    }

    /// Notes that the device's process has ended in the middle of what it did: what it left in the region is then read as
    /// that of a dead run.
    pub fn device_lost(&self) {
        self.shared.device_lost.store(true, Ordering::Relaxed);
    }

    /// The device is a process of its own, which has not said yet where it has mapped the region.
    pub fn device_apart(&self) {
        if let Some(host) = &self.shared.host {
            host.transport.device_apart();
        }
    }

    /// The device is process `pid`, which has mapped the region at `base`.
    pub fn device_memory(&self, pid: u32, base: u64) {
        if let Some(host) = &self.shared.host {
            host.transport.device_memory(pid, base);
        }
    }

    /// What the transport has moved so far, and its kind.
    pub fn moved(&self) -> (TransportKind, Moved) {
        self.shared.host.as_ref().map(|host| (host.transport.kind(), host.transport.moved())).unwrap_or_default()
    }

    /// The probe that records into this session. `world` is its clock and its way to wait; it should ring
    /// [`doorbell`](Self::doorbell) in `notify_host`, or call [`drain_step`](Self::drain_step) in `wait_for_host`
    /// if the caller drains.
    pub fn probe<W: World>(&self, world: W) -> Recording<W> {
        Recording::new(Arc::clone(&self.shared.region), world)
            .with_dump(Arc::clone(&self.shared.dump))
            .with_counters(self.shared.counters.clone())
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

    /// The status board of the run, in the region.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.shared.board)
    }

    /// What is recorded.
    pub fn flags(&self) -> Flags {
        self.shared.region.flags()
    }

    /// What is counted while a task runs; none if counters are not recorded.
    pub fn counters(&self) -> Option<CounterGroup> {
        self.shared.counters.as_ref().map(|counters| counters.group())
    }

    /// Names a kernel, for readers of the region.
    ///
    /// # Errors
    /// [`Error::Region`] if the region's table of kernels, or its room for names, is full.
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
        self.shared.drain()
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
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Damaged`], [`Error::Broken`] or [`Error::HostGone`], each with the ledger of what was kept, if the recording
    /// did not go well; [`Error::Region`] if the region cannot be removed.
    pub fn finish(mut self) -> Result<Ledger, Error> {
        let account = self.close();
        self.shared.region.remove()?;
        account
    }

    /// Ends the recording as [`finish`](Self::finish) does, with segments that would survive a loss of power, and leaves the
    /// region: until the account is stored as safely, it is the one place that has it.
    pub(crate) fn close(&mut self) -> Result<Ledger, Error> {
        let panicked = self.stop().is_err();
        let Some(host) = &self.shared.host else { return Ok(Ledger::default()) };
        let account = host.collector().finish(&host.transport);
        let lost = self.shared.device_lost.load(Ordering::Relaxed);
        let why = match &account {
            _ if panicked => "its collector panicked",
            Ok(ledger) if !ledger.balanced && lost => return self.salvage(),
            Ok(ledger) if !ledger.balanced => "its collector lost its place",
            Ok(ledger) if self.host_gone() => {
                let ledger = Box::new(ledger.clone());
                return Err(Error::HostGone { waited: self.shared.host_gone, ledger });
            }
            _ => return account,
        };
        Err(self.broken(why, account))
    }

    /// Puts the segments back if the run's directory was removed while the run recorded, so that a recovery finds them.
    pub(crate) fn restore_segments(&self) -> std::io::Result<()> {
        self.shared.host.as_ref().map_or(Ok(()), |host| host.collector().restore_segments())
    }

    /// What was left in the region goes to the segments, as if the run had died.
    fn salvage(&self) -> Result<Ledger, Error> {
        let mut image = self.shared.region.image()?;
        Ok(salvage(&mut image, &self.dir)?.ledger)
    }

    /// What a broken collector left in the region, as an error that has the account.
    fn broken(&self, why: &'static str, account: Result<Ledger, Error>) -> Error {
        let ledger = match (self.salvage(), account) {
            (Ok(ledger), _) | (Err(_), Ok(ledger)) => ledger,
            (Err(_), Err(error)) => error.ledger().cloned().unwrap_or_default(),
        };
        Error::Broken { why, ledger: Box::new(ledger) }
    }

    fn stop(&mut self) -> std::thread::Result<()> {
        // Release: pairs(session.stop): Acquire in `SessionInner::run`.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.ends {
            // Whether the collector panicked is not asked here: `finish` tells.
            drop(self.stop());
        }
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
    fn recorded_by(collector: fn(&SessionInner)) -> Error {
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
            while shared.drain() == 0 {
                std::thread::yield_now();
            }
            panic!("as the test wants it");
        });
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn a_collector_that_lost_its_place_is_a_recording_that_failed() {
        let error = recorded_by(|shared| {
            let host = shared.host.as_ref().expect("it drains");
            while !host.collector().forget_one(&host.transport) {
                std::thread::yield_now();
            }
        });
        assert!(matches!(error, Error::Broken { .. }) && error.to_string().contains("lost its place"), "{error}");
    }
}
