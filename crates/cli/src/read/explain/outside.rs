//! Looking at a run from outside: through the region that its process has mapped, and `/proc`. Nothing in the process is
//! touched, and it may be stopped, hang or be dead.

use super::PARTS;
use plimsoll::analyze::Outside;
use plimsoll::collect::{self, Orphan, RegionLook};
use plimsoll::trace::{self, BoardFacts, Liveness, LooseFrame, Manifest, OUTPUTS, Source, Trace, TraceParts};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two looks.
pub(super) const APART: Duration = Duration::from_millis(200);
/// A clock tick of the system, in which `/proc` gives the CPU time of a thread.
const SYSTEM_TICK_NS: u64 = 10_000_000;

/// A run as it was seen.
pub(super) struct Seen {
    /// Its records, with what its status board said.
    pub(super) trace: Trace,
    /// What two looks at its process saw, if that lives.
    pub(super) outside: Option<Outside>,
    /// The directory in which the run recorded, if another run has taken it since.
    pub(super) taken: Option<PathBuf>,
}

/// A region that a process has mapped.
pub(super) struct FoundRegion {
    pub(super) region: PathBuf,
    /// The directory of its run.
    pub(super) dir: PathBuf,
}

impl FoundRegion {
    /// Whether its file was removed, so that only its process reaches it.
    pub(super) fn is_removed(&self) -> bool {
        self.region.starts_with("/proc")
    }
}

impl Seen {
    /// What two looks found: `stopped`, `progressing`, `spinning` or `frozen`; nothing of a run that has ended, or is just starting.
    pub(super) fn state(&self) -> Option<&'static str> {
        let outside = self.outside.as_ref()?;
        Some(match outside {
            _ if outside.is_stopped() => "stopped",
            Outside { moved: true, .. } => "progressing",
            // A thread that waits uses a little CPU, too: it looks around from time to time.
            _ if outside.busy.values().any(|share| *share > 0.05) => "spinning",
            // Nobody has looked twice.
            _ if outside.apart.is_zero() => return None,
            _ => "frozen",
        })
    }
}

/// The regions that a process has mapped.
pub(super) fn regions_of(pid: u32) -> anyhow::Result<Vec<FoundRegion>> {
    let found = match collect::regions_of_process(pid) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        // A process that has ended and was not waited for has no memory any more.
        Err(_) if state_of(pid).is_none_or(|state| state == 'Z') => Vec::new(),
        Err(error) => anyhow::bail!(
            "Process {pid} cannot be looked at: {error}. Its memory map belongs to another user. Ask as that user, or as root."
        ),
    };
    let looks = found.into_iter().filter_map(|region| {
        let look = collect::look_at_region(&region, None).ok()?;
        Some(FoundRegion { region, dir: look.dir })
    });
    // A region that was removed is of a run that is over, unless it went with the directory of its run.
    Ok(looks.filter(|of| !of.is_removed() || !of.dir.join(Manifest::FILE).exists()).collect())
}

/// What a dead process has left of a run.
pub(super) enum DeadRun {
    /// A region that nobody has recovered, and the directory that it names.
    Region(PathBuf, PathBuf),
    /// A directory that tells of the run itself.
    Directory(PathBuf),
}

/// What a process that is dead has left of its run, or an error that says what is missing.
pub(super) fn dead_run_of(pid: u32) -> anyhow::Result<DeadRun> {
    if state_of(pid).is_some_and(|state| state != 'Z') {
        anyhow::bail!(
            "Process {pid} has no region of a run. It runs nothing now, is just starting, or runs without a recording. Run it with --swimlane and without --no-record (a program of your own: with `RunOptions::record`, or under `plimsoll record`), and ask while it runs."
        );
    }
    // A process that was killed a moment ago may have left a device that is still ending, and holds the region until then.
    found_of(pid).or_else(|| {
        std::thread::sleep(APART);
        found_of(pid)
    }).ok_or_else(|| {
        anyhow::anyhow!(
            "There is no process {pid}, and it has left no run here. It may have recorded nothing, or elsewhere. Give the run's directory, or see `plimsoll recover --list`; a run with --swimlane leaves one."
        )
    })
}

/// What is found now of a run of a process that is dead.
fn found_of(pid: u32) -> Option<DeadRun> {
    let outputs = Path::new(OUTPUTS);
    let orphan = collect::orphans(outputs).into_iter().find(|orphan| orphan.pid == Some(pid));
    if let Some(Orphan { region, dir: Some(dir), .. }) = orphan {
        return Some(DeadRun::Region(region, dir));
    }
    let runs = fs::read_dir(outputs).into_iter().flatten().flatten().map(|entry| entry.path());
    // `latest` is another name of one of them.
    let runs = runs.filter(|dir| !dir.is_symlink());
    let of_process = |dir: &PathBuf| Manifest::read(dir).ok().filter(|manifest| manifest.pid == pid);
    let newest = runs.filter_map(|dir| Some((of_process(&dir)?.started_unix_ns, dir))).max();
    newest.map(|(_, dir)| DeadRun::Directory(dir))
}

/// Looks at a run whose region describes nothing yet: it is just starting, or was killed at that.
pub(super) fn look_at_start(dir: &Path, manifest: Manifest) -> anyhow::Result<Seen> {
    let pid = manifest.pid;
    let trace = trace::open_unended(dir, PARTS, manifest, Vec::new())?;
    let outside = || Outside { pid, stopped: is_stopped(pid), ..Outside::default() };
    let outside = (trace.liveness == Liveness::Alive).then(outside);
    Ok(Seen { trace, outside, taken: None })
}

/// Looks at a live run twice.
pub(super) fn look_twice(region: &Path, dir: Option<&Path>, pid: u32) -> Result<Seen, collect::Error> {
    let first = collect::look_at_region(region, dir)?;
    let threads = threads_of(&first);
    let (since, before) = (Instant::now(), cpu_of(&threads));
    std::thread::sleep(APART);
    // Before the segments are read: what is drained meanwhile is found in both.
    let frames = collect::region_frames(region)?;
    let look = collect::look_at_region(region, dir)?;
    let (apart, after) = (since.elapsed(), cpu_of(&threads));
    let used = |(thread, before): (&u32, &u64)| {
        let ns = after.get(thread)?.saturating_sub(*before);
        Some((*thread, ns as f64 / apart.as_nanos().max(1) as f64))
    };
    let board = |look: &RegionLook| look.manifest.board.clone().unwrap_or_default();
    let (was, is) = (board(&first), board(&look));
    let moved = was.progress() != is.progress() || was.running != is.running;
    let device_pid = look.manifest.device_pid;
    // The region names its host, whichever of the two processes was asked about.
    let pid = if device_pid == Some(pid) { look.manifest.pid } else { pid };
    let outside = Outside {
        pid,
        stopped: is_stopped(pid),
        device_pid,
        device_stopped: device_pid.is_some_and(is_stopped),
        moved,
        apart,
        tick: tick_now(&look.manifest),
        busy: before.iter().filter_map(used).collect(),
    };
    open(region, look, PARTS, frames, Some(outside))
}

/// A look at what a dead run left.
pub(super) fn look_at_dead(region: &Path, dir: Option<&Path>, parts: TraceParts) -> Result<Seen, collect::Error> {
    let frames = collect::region_frames(region)?;
    let look = collect::look_at_region(region, dir)?;
    open(region, look, parts, frames, None)
}

/// Reads what there is of a run beside its region's frames.
fn open(
    region: &Path,
    look: RegionLook,
    parts: TraceParts,
    frames: Vec<LooseFrame>,
    outside: Option<Outside>,
) -> Result<Seen, collect::Error> {
    let RegionLook { dir, manifest, is_anothers } = look;
    // Segments of another run that has taken the directory are none of this run. There are none in a region, which is a file.
    let segments_of = if is_anothers { region } else { &dir };
    let mut trace = trace::open_unended(segments_of, parts, manifest, frames)?;
    trace.source = Source::Run(dir.clone());
    Ok(Seen { trace, outside, taken: is_anothers.then_some(dir) })
}

/// The tick of a run's clock, reckoned from when the run started.
fn tick_now(manifest: &Manifest) -> Option<u64> {
    let pair = manifest.clock.pairs.first().filter(|_| !manifest.virtual_time && manifest.started_unix_ns > 0)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos() as u64;
    let ns = now.checked_sub(manifest.started_unix_ns)?.saturating_sub(pair.ns);
    Some(pair.tick + (ns as f64 * manifest.clock.hz / 1e9) as u64)
}

/// The threads that have something to do: those that execute, and the orchestrator's.
fn threads_of(look: &RegionLook) -> Vec<u32> {
    let unknown = BoardFacts::default();
    let board = look.manifest.board.as_ref().unwrap_or(&unknown);
    let mut threads: Vec<u32> = board.running.iter().map(|of| of.thread).collect();
    let in_code = board.activity() == plimsoll::abi::board::Activity::UserCode;
    threads.extend(in_code.then_some(board.orchestrator.thread));
    threads.retain(|thread| *thread > 0);
    threads
}

/// What threads have used of the CPU, in nanoseconds. A thread is found by its own number, whatever its process.
fn cpu_of(threads: &[u32]) -> BTreeMap<u32, u64> {
    threads.iter().filter_map(|thread| Some((*thread, cpu_ns(*thread)?))).collect()
}

fn cpu_ns(thread: u32) -> Option<u64> {
    let exactly = fs::read_to_string(format!("/proc/{thread}/task/{thread}/schedstat")).ok();
    let exactly = exactly.and_then(|text| text.split_whitespace().next()?.parse().ok());
    exactly.or_else(|| {
        let fields = stat_of(thread)?;
        // User and system time are fields 14 and 15; the first of these is field 3.
        let at = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some((at(14)? + at(15)?) * SYSTEM_TICK_NS)
    })
}

fn is_stopped(pid: u32) -> bool {
    matches!(state_of(pid), Some('T' | 't'))
}

/// The state of a process: `R`, `S`, `T` for stopped, `Z` for one that has ended; nothing if there is none.
fn state_of(pid: u32) -> Option<char> {
    stat_of(pid)?.first()?.chars().next()
}

/// The fields of a thread's `stat` from the third on: the second is a name in brackets that may hold anything.
fn stat_of(thread: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{thread}/task/{thread}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}
