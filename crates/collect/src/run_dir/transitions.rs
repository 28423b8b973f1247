//! What each step of a run's life writes into its manifest. Nothing else in the workspace changes a manifest of a run.

use crate::recover::Recovery;
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{Flags, SiteId};
use plimsoll_shm::image::{ReadAt, RegionImage};
use plimsoll_shm::{Moved, TransportKind};
use plimsoll_trace::manifest::{ClockFacts, ClockPair, ErrorReport, KernelFacts, SiteFacts, TransportFacts};
use plimsoll_trace::{BoardFacts, CapacityFacts, CoreClass, Explanation, Ledger, Manifest, Status};
use std::path::Path;

/// How a run ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Ending {
    /// Its status: any but `running`.
    pub status: Status,
    /// Why it failed, if it did.
    pub error: Option<ErrorReport>,
}

/// Nothing → running. The region is about to be made.
pub(super) fn begin(manifest: &mut Manifest, flags: Flags, region: &Path) {
    manifest.status = Status::Running;
    manifest.flags = flags.bits();
    manifest.level = flags.level().number();
    // An absolute path, because readers may have another working directory.
    manifest.region = Some(std::path::absolute(region).unwrap_or_else(|_| region.to_path_buf()));
}

/// Nothing → running, of a run that has lost its directory: what its region knows of it.
pub(crate) fn adopt<B: ReadAt>(name: &str, image: &RegionImage<B>, region: &Path) -> Manifest {
    let mut manifest = Manifest::new(name);
    begin(&mut manifest, image.flags(), region);
    let (hz, source) = image.clock();
    manifest.clock = ClockFacts { hz: hz as f64, source: source.name().to_owned(), pairs: Vec::new() };
    manifest.virtual_time = source == ClockSource::Virtual;
    // Only the cores of a chip that is made of threads have threads of their own. Which chip it was, nobody knows.
    manifest.emulated = image.board().is_some_and(|board| board.cores.iter().any(|core| core.thread != 0));
    if manifest.emulated {
        manifest.engine = "emulated".to_owned();
    }
    manifest.pid = image.pid();
    manifest.kernels = kernel_facts(image.kernels().into_iter().map(|(id, name)| (id.0, name)));
    manifest
}

/// Kernels of which nobody knows the class.
fn kernel_facts(named: impl Iterator<Item = (u32, String)>) -> Vec<KernelFacts> {
    let core_type = CoreClass::from_name("any");
    named.map(|(id, name)| KernelFacts { id, name, core_type }).collect()
}

/// Running: the clock was read.
pub(super) fn note_clock(manifest: &mut Manifest, tick: u64, ns: u64) {
    manifest.clock.pairs.push(ClockPair { tick, ns });
}

/// Running: the last of the region has been read.
pub(super) fn note_transport(manifest: &mut Manifest, (kind, moved): (TransportKind, Moved)) {
    let Moved { bytes_read, bytes_written, way, note } = moved;
    let (kind, way) = (kind.name().to_owned(), way.to_owned());
    manifest.transport = Some(TransportFacts { kind, way, bytes_read, bytes_written, note });
}

/// Running → ended. The region is still there, and named.
pub(super) fn end(
    manifest: &mut Manifest,
    ending: Ending,
    ledger: Option<&Ledger>,
    sites: Vec<(SiteId, String, u32)>,
    board: BoardFacts,
) {
    assert_ne!(ending.status, Status::Running, "a run that has ended is not running");
    manifest.status = ending.status;
    manifest.error = ending.error;
    manifest.board = (manifest.status != Status::Ok).then_some(board);
    manifest.reconcile = ledger.cloned();
    manifest.sites = sites.into_iter().map(|(id, file, line)| SiteFacts { id: id.0, file, line }).collect();
}

/// Running → killed. The region is still there, and named.
pub(super) fn kill(manifest: &mut Manifest, recovery: &Recovery) {
    manifest.status = Status::Killed;
    manifest.reconcile = Some(recovery.ledger.clone());
    manifest.clock.pairs = recovery.clock_pairs.iter().map(|&(tick, ns)| ClockPair { tick, ns }).collect();
    let site = |(id, file, line): &(u32, String, u32)| SiteFacts { id: *id, file: file.clone(), line: *line };
    manifest.sites = recovery.sites.iter().map(site).collect();
    if manifest.kernels.is_empty() {
        manifest.kernels = kernel_facts(recovery.kernels.iter().cloned());
    }
    manifest.board.clone_from(&recovery.board);
}

/// Running → killed, of a run that was killed before it could record anything.
pub(super) fn kill_unrecorded(manifest: &mut Manifest) {
    manifest.status = Status::Killed;
    manifest.reconcile = Some(Ledger::of(Vec::new()));
}

/// Ended or killed: the region is gone.
pub(super) fn release(manifest: &mut Manifest) {
    manifest.region = None;
}

/// Ended or killed: files were made of the records, and the result may have been checked.
pub(super) fn export(manifest: &mut Manifest, verified: Option<bool>, files: Vec<String>) {
    manifest.verified = verified.or(manifest.verified);
    manifest.files = files;
    if manifest.status != Status::Running && manifest.region.as_ref().is_some_and(|region| !region.exists()) {
        release(manifest);
    }
}

/// Ended or killed: the run was explained.
pub(super) fn explain(manifest: &mut Manifest, explanation: Explanation) {
    manifest.explanation = Some(explanation);
}

/// Ended: the least capacities were tried.
pub(super) fn prove(manifest: &mut Manifest, floors: CapacityFacts) {
    manifest.floors = Some(floors);
}

/// What tells a run's region from that of another run of a process with the same number: never 0.
pub(super) fn tag(manifest: &Manifest) -> u32 {
    let started = manifest.started_unix_ns;
    ((started ^ (started >> 32)) as u32).max(1)
}
