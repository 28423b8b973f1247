//! What a run leaves behind, checked record by record.

use crate::program::{BoxView, Op, SimulatedProgram, SimulatedTask, Target};
use crate::shapes::SimulatedShape;
use bytemuck::Pod;
use plimsoll_abi::record::{AicoreTask, AicpuTask, CounterReading, Kind, OrchPhase, SchedPhase, ScopePhase};
use plimsoll_abi::{RINGS, RingUse};
use plimsoll_collect::segment::scan;
use plimsoll_runtime::{Capacities, Ledger};
use plimsoll_trace::{FindingKind, FullSample, Quality, ScopeJoin};
use std::collections::BTreeMap;
use std::path::Path;

/// The records of a run.
#[derive(Debug, Default)]
pub struct Records {
    /// By core, in the order of writing.
    pub aicore: BTreeMap<u16, Vec<AicoreTask>>,
    /// By core, in the order of writing.
    pub aicpu: BTreeMap<u16, Vec<AicpuTask>>,
    /// By core, in the order of writing.
    pub readings: BTreeMap<u16, Vec<CounterReading>>,
    /// By agent, in the order of writing.
    pub phases: BTreeMap<u16, Vec<SchedPhase>>,
    /// In the order of writing.
    pub submits: Vec<OrchPhase>,
    /// In the order of writing.
    pub scopes: Vec<FullSample>,
    /// Samples of scopes without the record of what all rings held.
    pub missing_rings: u64,
    /// Records in the file, by kind and instance.
    pub counts: BTreeMap<(Kind, u16), u64>,
}

fn cast<R: Pod>(bytes: &[u8]) -> Vec<R> {
    bytes.chunks_exact(size_of::<R>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Reads the records of a run's directory.
pub fn read(dir: &Path) -> Result<Records, String> {
    let mut records = Records::default();
    let (mut samples, mut join) = (Vec::new(), ScopeJoin::default());
    let mut quality = Quality::default();
    let scanned = scan(dir, |frame, bytes| {
        let Some(kind) = Kind::from_number(frame.kind) else { return };
        *records.counts.entry((kind, frame.instance)).or_default() += u64::from(frame.count);
        match kind {
            Kind::AicoreTask => records.aicore.entry(frame.instance).or_default().extend(cast::<AicoreTask>(bytes)),
            Kind::AicpuTask => records.aicpu.entry(frame.instance).or_default().extend(cast::<AicpuTask>(bytes)),
            Kind::CounterReading => {
                records.readings.entry(frame.instance).or_default().extend(cast::<CounterReading>(bytes));
            }
            Kind::SchedPhase => records.phases.entry(frame.instance).or_default().extend(cast::<SchedPhase>(bytes)),
            Kind::OrchPhase => records.submits.extend(cast::<OrchPhase>(bytes)),
            Kind::ScopeSample => samples.extend(cast(bytes).into_iter().map(|record| (frame.instance, record))),
            Kind::ScopeRings => cast(bytes).into_iter().for_each(|record| join.add_rings(frame.instance, record)),
            // Of the others only the number is looked at.
            _ => {}
        }
    });
    let scanned = scanned.map_err(|error| error.to_string())?;
    let full = samples.iter().map(|(instance, record)| join.full_sample(*instance, record, &mut quality));
    records.scopes = full.collect();
    ensure(scanned.torn_bytes + scanned.damaged_bytes + scanned.duplicates == 0, || {
        format!("the segment file is not whole: {scanned:?}")
    })?;
    records.missing_rings = quality.count(FindingKind::MissingRings);
    ensure(quality.findings().iter().all(|finding| finding.kind == FindingKind::MissingRings), || {
        format!("scope records: {quality:?}")
    })?;
    Ok(records)
}

/// An error with this text unless it holds.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Records {
    /// The ledger's parts, each against what is in the file.
    pub fn check_ledger(&self, ledger: &Ledger, may_drop: bool) -> Result<(), String> {
        for pool in &ledger.pools {
            let found =
                pool.record_kind().and_then(|kind| self.counts.get(&(kind, pool.instance)).copied()).unwrap_or(0);
            ensure(pool.collected + pool.recovered == found, || format!("{pool:?}, but {found} are in the file"))?;
            ensure(pool.mismatch == 0 && pool.is_balanced(), || format!("{pool:?} does not balance"))?;
            ensure(may_drop || pool.dropped == 0, || format!("{pool:?} dropped although nothing may be"))?;
        }
        let dropped = ledger
            .pools
            .iter()
            .filter(|pool| pool.record_kind() == Some(Kind::ScopeRings))
            .map(|pool| pool.dropped)
            .sum();
        ensure(self.missing_rings <= dropped, || {
            format!("{} samples miss what all rings held, but {dropped} such records were dropped", self.missing_rings)
        })?;
        ensure(ledger.balanced, || "the ledger does not balance".to_owned())
    }

    /// Times and tokens of every core. With `all`, no record is missing. In a run that `failed` the last execution of a core may
    /// have no end: it hung, and the run was given up.
    pub fn check_cores(&self, all: bool, failed: bool) -> Result<(), String> {
        for (core, tasks) in &self.aicore {
            for pair in tasks.windows(2) {
                let [a, b] = pair else { continue };
                ensure(a.token < b.token && a.end <= b.start, || format!("core {core}: {a:?} and then {b:?}"))?;
            }
            let hung = tasks.last().filter(|last| failed && last.end == 0).map(|last| last.token);
            let early = tasks.iter().find(|task| task.start > task.end && Some(task.token) != hung);
            ensure(early.is_none(), || format!("core {core}: {early:?} ends before it starts"))?;
            if all {
                let in_order = tasks.iter().zip(1..).all(|(task, token)| task.token == token);
                ensure(in_order, || format!("core {core}: tokens are not 1, 2, 3, …"))?;
                self.check_joined(*core, tasks)?;
            }
        }
        Ok(())
    }

    /// Every execution has one reading of counters, of its own token, task and kernel.
    pub fn check_readings(&self) -> Result<(), String> {
        ensure(self.aicore.keys().eq(self.readings.keys()), || "not every core that ran has readings".to_owned())?;
        for ((core, tasks), readings) in self.aicore.iter().zip(self.readings.values()) {
            let ran = tasks.iter().map(|ran| (ran.token, ran.task, ran.kernel()));
            let counted = readings.iter().map(|read| (read.token, read.task, read.kernel));
            ensure(ran.eq(counted), || format!("core {core}: readings are not those of its executions"))?;
        }
        Ok(())
    }

    /// The scheduler's view of every execution encloses the core's.
    fn check_joined(&self, core: u16, tasks: &[AicoreTask]) -> Result<(), String> {
        let empty = Vec::new();
        let seen = self.aicpu.get(&core).unwrap_or(&empty);
        ensure(seen.len() == tasks.len(), || format!("core {core}: {} ran and {} were seen", tasks.len(), seen.len()))?;
        for (ran, seen) in tasks.iter().zip(seen) {
            let receive = ran.start - u64::from(ran.receive_to_start());
            let ordered = seen.dispatch <= receive && ran.end <= seen.finish;
            let same = (ran.token, ran.task, ran.kernel()) == (seen.token, seen.task, seen.kernel);
            ensure(same && ordered, || format!("core {core}: {ran:?} and {seen:?} do not belong together"))?;
        }
        Ok(())
    }

    /// Watermarks only grow, and nothing exceeds its capacity.
    pub fn check_scopes(&self, capacities: &Capacities) -> Result<(), String> {
        let mut last = [[0u64; 6]; RINGS];
        // After a failure the books count what would be needed, which is more than there is.
        for FullSample { sample, used, peaks } in self.scopes.iter().filter(|full| !full.sample.fatal) {
            let ring = sample.ring as usize;
            let marks = [
                sample.window_tail,
                sample.heap_tail,
                sample.dep_tail,
                sample.window_head,
                sample.heap_head,
                sample.dep_head,
            ];
            // Entries that are compacted come back from the middle; their head stays, so that mark only grows too.
            let grows = marks.iter().zip(&last[ring]).all(|(now, before)| now >= before);
            ensure(grows, || format!("ring {ring}: watermarks went from {:?} to {marks:?}", last[ring]))?;
            ensure(marks[..3].iter().zip(&marks[3..]).all(|(tail, head)| tail <= head), || {
                format!("ring {ring}: a tail is ahead of its head: {marks:?}")
            })?;
            last[ring] = marks;
            let ends = sample.phase == ScopePhase::End;
            for ring in 0..RINGS {
                let c = &capacities.rings[ring];
                let (used, peak) = (used.ring(ring), peaks.ring(ring));
                let fits = |of: RingUse| of.window <= c.window && of.heap <= c.heap && of.dep_pool <= c.dep_pool;
                ensure(fits(used), || format!("ring {ring} holds {used:?} of {c:?}"))?;
                let covers = peak.window >= used.window && peak.heap >= used.heap && peak.dep_pool >= used.dep_pool;
                let sound = fits(peak) && covers;
                ensure(!ends || sound, || format!("ring {ring}: peaks {peak:?} of {c:?} while {used:?} are held"))?;
            }
        }
        Ok(())
    }

    /// Every task of a program that ended well ran once, and after those it depends on.
    pub fn check_order(&self, program: &SimulatedProgram) -> Result<(), String> {
        ensure(self.submits.len() == program.tasks, || format!("{} submits were recorded", self.submits.len()))?;
        let mut spans: BTreeMap<u64, (u64, u64, u32)> = BTreeMap::new();
        for task in self.aicore.values().flatten() {
            let (first, last, count) = spans.entry(task.task).or_insert((u64::MAX, 0, 0));
            (*first, *last, *count) = (task.start.min(*first), task.end.max(*last), *count + 1);
        }
        let mut times = vec![None; program.tasks];
        for submit in &self.submits {
            times[submit.submit_idx as usize] = spans.get(&submit.task).copied();
        }
        let mut tasks = Vec::with_capacity(program.tasks);
        collect(&program.ops, &mut tasks);
        for (later, task) in tasks.iter().enumerate() {
            let count = times[later].map_or(0, |(.., count)| count);
            ensure(may_run(&task.shape, count), || format!("task {later}, {:?}, ran {count} times", task.shape))?;
            let Some((start, end, _)) = times[later] else { continue };
            for (earlier, before) in tasks[..later].iter().enumerate() {
                let waits = conflict(task, before) || task.after.contains(&earlier);
                let beside = times[earlier].filter(|(_, ended, _)| waits && *ended > start);
                ensure(beside.is_none(), || {
                    format!("task {later} ran from {start} to {end} beside task {earlier}: {beside:?}")
                })?;
            }
        }
        Ok(())
    }
}

fn collect<'p>(ops: &'p [Op], tasks: &mut Vec<&'p SimulatedTask>) {
    for op in ops {
        match op {
            Op::Task(task) => tasks.push(task),
            Op::Scope(ops) => collect(ops, tasks),
            Op::Read(_) => {}
        }
    }
}

/// Whether a task of this shape may be executed so many times. Where one worker takes turns at the parts of a mixed task, each
/// of its blocks is one execution.
fn may_run(shape: &SimulatedShape, count: u32) -> bool {
    match *shape {
        SimulatedShape::Ordinary => count == 1,
        SimulatedShape::Blocks(blocks) => count == blocks,
        SimulatedShape::Mixed(blocks, parts) => count == blocks || count == blocks * parts as u32,
        // As many blocks as divide them and can start together.
        SimulatedShape::Cohort(blocks, parts) => {
            (1..=blocks).any(|cohort| blocks.is_multiple_of(cohort) && [cohort, cohort * parts as u32].contains(&count))
        }
        SimulatedShape::Predicated(blocks, ..) => count == 0 || count == blocks,
        SimulatedShape::Dummy => count == 0,
    }
}

/// What a task writes, as a view.
fn written(task: &SimulatedTask) -> BoxView {
    match &task.target {
        Target::Make { tensor, len } => BoxView { tensor: *tensor, rows: 0..1, columns: 0..*len },
        Target::Update(view) | Target::Replace(view) => view.clone(),
    }
}

/// Whether two tasks must not run at the same time.
fn conflict(a: &SimulatedTask, b: &SimulatedTask) -> bool {
    let (writes_a, writes_b) = (written(a), written(b));
    writes_a.overlaps(&writes_b)
        || a.reads().any(|view| view.overlaps(&writes_b))
        || b.reads().any(|view| view.overlaps(&writes_a))
}
