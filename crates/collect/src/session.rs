//! A session: the recorder of one run, from its start to its account.

use crate::collector::Collector;
use crate::config::{Drive, SessionConfig};
use crate::error::Error;
use crate::ledger::Ledger;
use crate::segment::SegmentWriter;
use plimsoll_abi::region::ClockPair;
use plimsoll_abi::{Flags, KernelId, SiteId};
use plimsoll_probe::Recording;
use plimsoll_shm::{Doorbell, Region, World};
use std::path::Path;
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
        // A panic while draining leaves counts that do not balance, which the ledger says.
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
    /// Makes the region and `records/`, and starts to drain.
    pub fn start(config: SessionConfig) -> Result<Self, Error> {
        let segments = SegmentWriter::create(&config.dir)?;
        let region = Arc::new(Region::create(&config.region_spec(), &config.dir, config.region_dir.as_deref())?);
        let bell = Doorbell::new(Arc::clone(&region));
        let collector = Mutex::new(Collector::new(&region, segments));
        let shared = Arc::new(Shared { region, bell, collector, stop: AtomicBool::new(false) });
        let thread = match config.drive {
            Drive::Caller => None,
            Drive::Thread => {
                let shared = Arc::clone(&shared);
                let spawned = std::thread::Builder::new().name("plimsoll-collect".into()).spawn(move || shared.run());
                Some(spawned.map_err(|source| Error::Io {
                    doing: "start a collector thread for",
                    path: config.dir.clone(),
                    source,
                    advice: "allow this process more threads",
                })?)
            }
        };
        Ok(Self { shared, thread })
    }

    /// The probe that records into this session. `world` is its clock and its way to wait; it should ring
    /// [`doorbell`](Self::doorbell) in `notify_host`, or call [`drain_step`](Self::drain_step) in `wait_for_host`
    /// if the caller drains.
    pub fn probe<W: World>(&self, world: W) -> Recording<'_, W> {
        Recording::new(&self.shared.region, world)
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
        self.stop();
        let account = self.shared.collector().finish(&self.shared.region);
        self.shared.region.remove()?;
        account
    }

    fn stop(&mut self) {
        // Release: pairs(stop): Acquire in `Shared::run`.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A collector that panicked has drained less; `finish` drains the rest.
            drop(thread.join());
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
