//! A look at the region of a run from outside, whether the run lives, is stopped or is dead. Nothing in it is touched, and
//! nobody inside has to answer.

use crate::error::Error;
use crate::recover::counted;
use crate::run_dir::{adopt, is_of};
use plimsoll_abi::board::{Activity, AgentStatus};
use plimsoll_abi::record::Kind;
use plimsoll_shm::image::{ReadAt, RegionImage};
use plimsoll_shm::{BoardLook, Region};
use plimsoll_trace::{
    BoardFacts, ClockPair, ExecutedFacts, Ledger, LooseFrame, Manifest, OrchestratorFacts, RingFacts, RunningFacts,
    SchedulerFacts, SiteFacts,
};
use std::path::{Path, PathBuf};

/// What a region says of its run.
#[derive(Clone, Debug)]
pub struct RegionLook {
    /// The directory of the run, as the run knew it.
    pub dir: PathBuf,
    /// The run's manifest, completed by facts that only the region has, such as the status board. Made from the region alone
    /// if the directory is gone. The ledger of a run that has not ended is what its pools count, and leaves out which records
    /// were collected.
    pub manifest: Manifest,
    /// Whether another run has taken that directory since: its `run.json` and its segments are not of this run.
    pub is_anothers: bool,
}

/// Looks at a region's status board. The run's directory is `dir`, or where the run says that it is.
///
/// # Errors
/// If there is no region, or none that this version can read.
pub fn look_at_region(region: &Path, dir: Option<&Path>) -> Result<RegionLook, Error> {
    let image = RegionImage::open_any(region)?;
    // The region knows its directory by an absolute path, which is wrong if the directory was moved.
    let dir = dir.map(Path::to_path_buf).or_else(|| image.run_dir()).unwrap_or_default();
    let there = Manifest::read(&dir).ok();
    let is_anothers = there.as_ref().is_some_and(|manifest| !is_of(&image, manifest));
    let ours = there.filter(|_| !is_anothers);
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut manifest = ours.unwrap_or_else(|| adopt(&name, &image, region));
    let pairs = image.clock_pairs();
    manifest.clock.pairs = pairs.iter().map(|pair| ClockPair { tick: pair.tick, ns: pair.ns }).collect();
    let sites = image.sites().into_iter();
    manifest.sites = sites.map(|(id, file, line)| SiteFacts { id: id.0, file, line }).collect();
    manifest.board = board_of(&image);
    let pools = || image.pools().iter().map(|pool| counted(pool, image.clock().0)).collect();
    manifest.reconcile.get_or_insert_with(|| Ledger::of_region(pools(), image.damage().to_vec()));
    Ok(RegionLook { dir, manifest, is_anothers })
}

/// The records that a region holds of tasks, submits and scopes. Buffers of a live run that were drained while this read
/// them are left out. So whoever reads the run's segments afterwards finds every record that was published before this call,
/// either here or there.
///
/// # Errors
/// As [`look_at_region`].
pub fn region_frames(region: &Path) -> Result<Vec<LooseFrame>, Error> {
    let mut image = RegionImage::open_any(region)?;
    let mut frames = Vec::new();
    let explains = [Kind::AicoreTask, Kind::AicpuTask, Kind::ScopeSample, Kind::ScopeRings, Kind::Submit];
    for pool in image.pools().to_vec().into_iter().filter(|pool| explains.contains(&pool.kind)) {
        for buffer in image.buffers(&pool) {
            let records = image.records(&pool, &buffer)?;
            if image.still_holds(&buffer) {
                frames.push(LooseFrame {
                    kind: pool.kind,
                    instance: pool.instance,
                    sequence: buffer.sequence,
                    records,
                });
            }
        }
    }
    Ok(frames)
}

/// The files of regions that a process has mapped, one each. A file that was removed meanwhile is named by the process's own
/// descriptor of it, in `/proc`.
///
/// # Errors
/// If there is no such process, or it may not be looked at.
pub fn regions_of_process(pid: u32) -> std::io::Result<Vec<PathBuf>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let paths = maps
        .lines()
        // Address, rights, offset, device and inode come before the path.
        .filter_map(|line| line.splitn(6, char::is_whitespace).nth(5))
        .map(str::trim_start);
    let mut found: Vec<PathBuf> = paths
        .filter_map(|path| match path.strip_suffix(REMOVED) {
            None => Some(PathBuf::from(path)).filter(|path| Region::is_named_like(path)),
            Some(before) if Region::is_named_like(Path::new(before)) => descriptor_of(pid, path),
            Some(_) => None,
        })
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// What `/proc` writes behind the path of a file that was removed.
const REMOVED: &str = " (deleted)";

/// The path in `/proc` of a process's descriptor for the file that `/proc` calls so.
fn descriptor_of(pid: u32, called: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| std::fs::read_link(path).is_ok_and(|target| target == Path::new(called)))
}

/// What a region's board says.
pub(crate) fn board_of<B: ReadAt>(image: &RegionImage<B>) -> Option<BoardFacts> {
    image.board().map(|look| board_facts(&look))
}

/// A look at a board as manifests carry it.
pub fn board_facts(look: &BoardLook) -> BoardFacts {
    let line = look.orchestrator();
    let orchestrator = OrchestratorFacts {
        activity: line.activity() as u32,
        submits: line.submits_begun,
        wanted: line.wanted().map(|(resource, ring)| (resource as u8, ring)),
        amount: line.amount,
        awaited: line.awaited().map(plimsoll_abi::TaskId::raw),
        site: line.site,
        thread: line.thread,
    };
    let running = look.executions().into_iter().map(|of| RunningFacts {
        core: of.core.0,
        task: of.task.raw(),
        kernel: of.kernel.0,
        token: of.token,
        since: of.since,
        thread: of.thread,
    });
    let both = || look.agents.iter().enumerate().chain(look.cores.iter().enumerate());
    let executed = both()
        .filter(|(_, line)| line.running().is_none() && line.ended > 0)
        .map(|(at, line)| ExecutedFacts { core: at as u16, task: line.task, token: line.ended });
    let rings = look.rings.map(|ring| RingFacts {
        head: ring.head,
        tail: ring.tail,
        watermark: ring.watermark,
        heap: ring.heap_head.saturating_sub(ring.heap_tail),
        dep_pool: ring.dep_head.saturating_sub(ring.dep_tail),
        pin: ring.pin.checked_sub(1),
        site: ring.site,
    });
    let others = || look.agents.iter().skip(1);
    let has_none =
        |line: &AgentStatus| line.running().is_none() && matches!(line.activity(), Activity::Idle | Activity::Away);
    let between = |(_, line): &(usize, &AgentStatus)| line.activity() == Activity::Schedule && line.running().is_none();
    let between = look.agents.iter().enumerate().skip(1).find(between);
    let lines = || look.agents.iter().chain(&look.cores);
    BoardFacts {
        orchestrator,
        running: running.collect(),
        executed: executed.collect(),
        ready: others().filter(|line| has_none(line)).map(|line| line.ready).max().unwrap_or(0),
        idle: others().filter(|line| has_none(line)).count() as u32,
        schedulers: others().count() as u32,
        between: between.map(|(at, line)| SchedulerFacts { agent: at as u16, thread: line.thread }),
        recorder_waits: lines().filter(|line| line.activity() == Activity::Recorder).count() as u32,
        begun: look.begun(),
        ended: lines().map(|line| u64::from(line.ended)).sum(),
        rings,
        tensormap: (look.head.tensormap, look.head.tensormap_capacity),
    }
}
