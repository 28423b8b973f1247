//! Recording a run: what a device tells the owner of the run's directory ([`RunDir`]) of itself at the start and at the end.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::options::{Capacities, RunOptions};
use crate::record_options::{RecordOptions, RunPlace};
use crate::report::{Load, RunReport};
use plimsoll_abi::region::ClockSource;
use plimsoll_abi::{CounterGroup, ErrorCode, Flags, KernelId, Resource, TaskId};
use plimsoll_collect::{Doorbell, Drive, Ending, Ledger, Role, RunDir, Session, SessionConfig, TransportKind};
use plimsoll_platform::counters::{self, CounterChoice};
use plimsoll_platform::{Clock, CoreClass};
use plimsoll_probe::DumpPlan;
use plimsoll_shm::{ThreadCounters, World};
use plimsoll_trace::manifest as facts;
use plimsoll_trace::{Explanation, Manifest, Status, TraceParts};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The threads and cores of a run, as its manifest shows them.
pub(crate) struct RunFacts<'a> {
    pub(crate) engine: &'a str,
    pub(crate) arch: &'a str,
    pub(crate) virtual_time: bool,
    pub(crate) emulated: bool,
    pub(crate) device_pid: Option<u32>,
    /// Which run of its device it is, from 1.
    pub(crate) device_run: u64,
    pub(crate) agents: Vec<(String, Role)>,
    /// Type and owning agent of every core.
    pub(crate) cores: Vec<(CoreClass, u16)>,
    pub(crate) capacities: &'a Capacities,
    /// Name and class of every kernel.
    pub(crate) kernels: Vec<(String, CoreClass)>,
    pub(crate) clock_hz: u64,
    pub(crate) host_mapped: bool,
    pub(crate) clock_source: ClockSource,
}

/// A recording under way.
pub(crate) struct Recorder {
    run_dir: RunDir,
    started: Instant,
    /// The level of the tensor dump, if there is one.
    dump_level: Option<u64>,
    /// See [`RecordOptions::wording`].
    wording: Option<fn(&str) -> String>,
    /// See [`RecordOptions::records_out`].
    records_out: Option<Arc<AtomicBool>>,
}

/// The recorder's view of this machine: its clock, and the bell that wakes the collector.
#[derive(Clone, Debug)]
pub(crate) struct RecordWorld {
    pub(crate) clock: Clock,
    pub(crate) bell: Doorbell,
}

impl World for RecordWorld {
    #[inline]
    fn ticks(&self) -> u64 {
        self.clock.ticks()
    }

    fn notify_host(&self) {
        self.bell.ring();
    }

    fn thread_counters(&self, group: CounterGroup) -> Option<Box<dyn ThreadCounters>> {
        counters::open(group)
    }
}

impl Device {
    /// What a run is to record, if anything: what its options say, else what the environment says.
    pub(crate) fn recording_of(&self, options: &RunOptions) -> Option<RecordOptions> {
        let asked = options.record.as_ref().or(self.environment_recording());
        asked.filter(|record| !record.flags.is_empty()).cloned()
    }

    /// Starts to record a run. If that fails, the report says nothing of an earlier run.
    /// `elsewhere` are the kernels of a program in another process.
    pub(crate) fn start_recording(
        &mut self,
        options: &RecordOptions,
        drive: Drive,
        elsewhere: Option<Vec<(String, CoreClass)>>,
    ) -> Result<Recorder> {
        self.set_report(RunReport::default());
        let mut run_facts = self.run_facts();
        run_facts.kernels = elsewhere.unwrap_or(run_facts.kernels);
        Recorder::start(options, &run_facts, drive)
    }
}

impl Recorder {
    /// Makes the directory, the region and the first manifest, and starts to drain.
    fn start(options: &RecordOptions, run_facts: &RunFacts<'_>, drive: Drive) -> Result<Self> {
        let counters = counter_choice(options, run_facts)?;
        let roles = run_facts.agents.iter().map(|(_, role)| *role).collect();
        let (RunPlace::Exactly(dir) | RunPlace::Under(dir)) = &options.place;
        // Adds the flags that these imply, in case whoever put them together did not.
        let flags = Flags::NONE.with(options.flags);
        let mut config = SessionConfig::new(dir, flags, run_facts.cores.len() as u16, roles);
        config.region_dir.clone_from(&options.region_dir);
        config.policy = options.policy;
        config.host_gone = options.host_gone;
        config.clock_hz = run_facts.clock_hz;
        config.clock_source = run_facts.clock_source;
        config.sizes = options.sizes;
        config.kernel_name_bytes = run_facts.kernels.iter().map(|(name, _)| name.len() as u64).sum();
        config.drive = drive;
        let usual = if run_facts.host_mapped { TransportKind::Mapped } else { TransportKind::Shadow };
        config.transport = options.transport.unwrap_or(usual);
        config.collector_stops_after = options.collector_stops_after;
        config.dump = dump_plan(options, &run_facts.kernels)?;
        let mut manifest = first_manifest(options, run_facts);
        if let Some(CounterChoice { asked, group, note }) = counters {
            config.counters = group;
            let (asked, group) = (asked.name().to_owned(), group.name().to_owned());
            manifest.counters =
                Some(facts::CounterFacts { asked, group, virtual_counts: run_facts.virtual_time, note });
        }
        let run_dir = match &options.place {
            RunPlace::Exactly(_) => RunDir::start(config, manifest),
            RunPlace::Under(outputs) => {
                let name = options.dir_name.clone().unwrap_or_else(|| manifest.program.clone());
                RunDir::start_under(outputs, &name, config, manifest)
            }
        };
        let run_dir = run_dir.map_err(|error| recording_failed(&error).caused_by(error))?;
        let dump_level = options.flags.has(Flags::TENSOR_DUMP).then_some(u64::from(options.dump.level));
        let (wording, records_out) = (options.wording, options.records_out.clone());
        Ok(Self { run_dir, started: Instant::now(), dump_level, wording, records_out })
    }

    /// The run's directory.
    pub(crate) fn path(&self) -> &Path {
        self.run_dir.path()
    }

    /// The session that drains the run's records.
    pub(crate) fn session(&self) -> &Session {
        self.run_dir.session()
    }

    /// Notes a reading of the run's clock beside the time since the recording started.
    pub(crate) fn clock_pair(&mut self, tick: u64, ns: u64) {
        self.run_dir.clock_pair(tick, ns);
    }

    /// Time since the recording started.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Ends the recording. What the run itself ended with is in `error`.
    pub(crate) fn finish(self, report: &RunReport, error: Option<&Error>) -> Result<Ledger> {
        let dir = self.run_dir.path().to_path_buf();
        let account = self.run_dir.finish(|manifest, account| {
            put_figures(manifest, report);
            let broke = account.err().map(recording_failed);
            let error = error.or(broke.as_ref());
            let status = Status::of(error.map(Error::code));
            let told = error.map(|error| {
                let mut told = error_report(error);
                told.explanation =
                    self.wording.map_or_else(|| error.explanation().to_owned(), |of| of(error.explanation()));
                told
            });
            Ending { status, error: told }
        });
        if let Some(out) = &self.records_out {
            out.store(true, Ordering::Relaxed);
        }
        if error.is_some() || account.is_err() {
            // What ended the run is in its manifest by now; this says it at length.
            drop(explain_run(&dir, self.wording));
        }
        // Also of a recording that broke off: what it had captured is in its records.
        let written = self.dump_level.map(|level| plimsoll_trace::export_args(&dir, level));
        let account = account.map_err(|error| recording_failed(&error).caused_by(error))?;
        if let Some(written) = written {
            written.map_err(|error| Error::new(ErrorCode::RecordingFailed, error.to_string()).caused_by(error))?;
        }
        Ok(account)
    }
}

/// Explains a run that did not end well, from what it left in its directory, and notes that in `run.json`. Calls of this
/// library that the explanation names are given as `wording` has them.
///
/// # Errors
/// If there is no run, or its manifest cannot be written.
pub fn explain_run(dir: &Path, wording: Option<fn(&str) -> String>) -> Result<Explanation> {
    let failed = |error: &dyn std::error::Error| Error::new(ErrorCode::RecordingFailed, error.to_string());
    let parts = TraceParts { deps: true, scopes: true, ..TraceParts::TASKS };
    let trace = plimsoll_trace::open_with(dir, parts).map_err(|error| failed(&error).caused_by(error))?;
    let mut explanation = plimsoll_analyze::explain(&trace, None, None);
    if let Some(wording) = wording {
        explanation.reword(wording);
    }
    plimsoll_collect::add_explanation(dir, explanation.clone()).map_err(|error| failed(&error).caused_by(error))?;
    Ok(explanation)
}

/// What is counted, if counters are recorded.
fn counter_choice(options: &RecordOptions, run_facts: &RunFacts<'_>) -> Result<Option<CounterChoice>> {
    if !options.flags.has(Flags::PMU) {
        return Ok(None);
    }
    if run_facts.virtual_time {
        return Ok(Some(CounterChoice::in_virtual_time(options.counters)));
    }
    if options.counters == CounterGroup::Virtual {
        return Err(Error::invalid(format!(
            "The counters `virtual` cannot be recorded on the engine {}. They are what a cost table charges by, which only virtual time has. Choose another group, or the engine `virtual`.",
            run_facts.engine
        )));
    }
    Ok(Some(CounterChoice::make(options.counters, run_facts.cores.len())))
}

/// What is captured of which tasks.
fn dump_plan(options: &RecordOptions, kernels: &[(String, CoreClass)]) -> Result<DumpPlan> {
    let mut plan = DumpPlan { rules: options.dump, ..DumpPlan::default() };
    for name in &options.dump_tasks {
        let kernel = kernels.iter().position(|(known, _)| known == name);
        match (kernel, plimsoll_trace::Trace::task_word(name)) {
            (Some(kernel), _) => plan.kernels.push(KernelId(kernel as u32)),
            (None, Some(word)) if name.contains('@') => plan.in_rounds.push(word),
            (None, Some(word)) => plan.tasks.push(TaskId::from_raw(word)),
            (None, None) => {
                return Err(Error::invalid(format!(
                    "Tasks {name:?} cannot be captured. That is neither a kernel of the program nor a task such as r2t17. Its kernels are {}.",
                    kernels.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
                )));
            }
        }
    }
    Ok(plan)
}

/// What the run did, for the manifest.
fn put_figures(manifest: &mut Manifest, report: &RunReport) {
    // A prebuilt graph lies in an arena of its own and says nothing about rings.
    if !report.load.is_empty() {
        manifest.peaks = Some(amounts(report, |load| load.peak));
        manifest.floors = Some(amounts(report, |load| load.floor));
    }
    manifest.rounds = report.rounds.max(1);
    manifest.tasks = report.tasks;
    manifest.dispatches = report.dispatches;
    manifest.left_behind = report.left_behind;
    manifest.elapsed_ns = report.elapsed_ns;
}

fn first_manifest(options: &RecordOptions, run_facts: &RunFacts<'_>) -> Manifest {
    let mut manifest = Manifest::new(&options.run_name());
    manifest.command.clone_from(&options.command);
    manifest.recorder = std::env::var(RecordOptions::RECORDER_VARIABLE).unwrap_or_default();
    manifest.language = options.language.to_owned();
    manifest.settings.clone_from(&options.settings);
    manifest.engine = run_facts.engine.to_owned();
    manifest.arch = run_facts.arch.to_owned();
    manifest.virtual_time = run_facts.virtual_time;
    manifest.emulated = run_facts.emulated;
    manifest.pid = std::process::id();
    manifest.device_pid = run_facts.device_pid;
    manifest.device_run = run_facts.device_run;
    manifest.started_unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let agents = run_facts.agents.iter().map(|(name, role)| facts::AgentFacts {
        name: name.clone(),
        orchestrates: role.orchestrates,
        schedules: role.schedules,
    });
    let cores = run_facts.cores.iter().map(|&(core_type, agent)| facts::CoreFacts { core_type, agent: Some(agent) });
    manifest.topology = facts::Topology { agents: agents.collect(), cores: cores.collect() };
    manifest.capacities = facts::CapacityFacts {
        rings: run_facts.capacities.rings.map(|c| facts::RingCapacity {
            task_window: u64::from(c.window),
            heap: c.heap,
            dep_pool: u64::from(c.dep_pool),
        }),
        tensormap: u64::from(run_facts.capacities.tensormap),
    };
    let source = run_facts.clock_source.name().to_owned();
    manifest.clock = facts::ClockFacts { hz: run_facts.clock_hz as f64, source, pairs: Vec::new() };
    manifest.kernels = run_facts
        .kernels
        .iter()
        .enumerate()
        .map(|(id, (name, class))| facts::KernelFacts { id: id as u32, name: name.clone(), core_type: *class })
        .collect();
    if options.flags.has(Flags::TENSOR_DUMP) {
        manifest.dump_args_level = options.dump.level.into();
    }
    manifest.rounds = 1;
    manifest
}

/// One amount of every resource, as the manifest carries it.
fn amounts(report: &RunReport, amount: impl Fn(&Load) -> u64) -> facts::CapacityFacts {
    let mut out = facts::CapacityFacts::default();
    for load in &report.load {
        let ring = &mut out.rings[load.ring.map_or(0, usize::from)];
        *match load.resource {
            Resource::TaskWindow => &mut ring.task_window,
            Resource::Heap => &mut ring.heap,
            Resource::DepPool => &mut ring.dep_pool,
            Resource::Tensormap => &mut out.tensormap,
        } = amount(load);
    }
    out
}

/// An error as the manifest carries it.
pub fn error_report(error: &Error) -> facts::ErrorReport {
    facts::ErrorReport {
        code: error.code().number(),
        name: error.code().name().to_owned(),
        explanation: error.explanation().to_owned(),
        resource: error.resource().map(|r| r.name().to_owned()),
        ring: error.ring(),
        site: error.site().map(str::to_owned),
        used: error.used(),
        capacity: error.capacity(),
        needed: error.needed(),
        needed_is_bound: error.needed_is_bound(),
        task: error.task().map(|task| task.to_string()),
        kernel: error.kernel().map(str::to_owned),
        core: error.worker(),
        class: error.stall_class().map(|class| class.name().to_owned()),
        budget: error.budget().cloned(),
    }
}

/// The code of a run whose recording ended with this error.
fn code_of(error: &plimsoll_collect::Error) -> ErrorCode {
    match error {
        plimsoll_collect::Error::HostGone { .. } => ErrorCode::HostGone,
        error if error.is_disk_full() => ErrorCode::DiskFull,
        _ => ErrorCode::RecordingFailed,
    }
}

/// Why a recording could not begin or its account not be stored, as a part of a sentence. Of a full file system the advice is to free
/// some space, whatever could not be written.
fn why_not_begun(error: &plimsoll_collect::Error) -> String {
    use plimsoll_collect::Error as Collect;
    match error {
        Collect::Io { doing: what, path, source, .. }
        | Collect::Manifest(plimsoll_trace::Error::Io { action: what, path, source })
            if error.is_disk_full() =>
        {
            format!(
                "cannot {what} {}: {source}; free some space on that file system, or choose another directory with `RecordOptions::place`",
                path.display()
            )
        }
        _ => error.to_string().trim_end_matches('.').to_owned(),
    }
}

/// What became of the recording, for people: how much of it there is, why it ended, and what to do.
fn recording_failed(error: &plimsoll_collect::Error) -> Error {
    let Some(ledger) = error.ledger() else {
        return Error::new(code_of(error), format!("The run could not be recorded: {}.", why_not_begun(error)));
    };
    let sum = |part: fn(&plimsoll_collect::PoolLedger) -> u64| ledger.pools.iter().map(part).sum::<u64>();
    let (kept, total) = (sum(|p| p.collected + p.recovered), sum(|p| p.total));
    let cause =
        if error.is_disk_full() { " The file system is full, or a quota or file size limit was met." } else { "" };
    Error::new(
        code_of(error),
        format!("The tasks have run, but {error}.{cause} {kept} of {total} records were written and are readable."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::PathBuf;

    #[test]
    fn a_full_disk_at_the_start_is_told_with_advice_that_helps() {
        let source = || io::Error::from(io::ErrorKind::StorageFull);
        let path = PathBuf::from("out/run.json");
        let advice = "check that it can be written";
        let io = plimsoll_collect::Error::Io { doing: "make", path: path.clone(), source: source(), advice };
        let manifest = plimsoll_trace::Error::Io { action: "write", path, source: source() };
        for error in [io, manifest.into()] {
            let told = recording_failed(&error);
            let words = told.explanation();
            assert_eq!(told.code(), ErrorCode::DiskFull, "{words}");
            assert!(words.contains("free some space") && !words.contains("heck that"), "{words}");
            assert!(words.ends_with('.') && !words.ends_with(".."), "{words}");
        }
        let refused = plimsoll_trace::Error::Io {
            action: "write",
            path: "out/run.json".into(),
            source: io::Error::from(io::ErrorKind::PermissionDenied),
        };
        let told = recording_failed(&refused.into());
        assert!(!told.explanation().ends_with(".."), "{}", told.explanation());
    }
}
