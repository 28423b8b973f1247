//! Reader of a run directory of ours: the manifest and the segments.

use std::collections::HashSet;
use std::path::Path;

use plimsoll_abi::record::{
    AicoreTask, AicpuTask, CounterReading, Kind, OrchPhase, SchedPhase, SchedPhaseKind, ScopeRecord, ScopeRingsRecord,
    SubmitRecord,
};
use plimsoll_abi::{CounterGroup, TaskId};

use super::TraceParts;
use super::scope_samples::ScopeJoin;
use super::segments::{LooseFrame, Segments};
use crate::deps::Submits;
use crate::phases::SchedPhaseRow;
use crate::{
    BoardFacts, Core, CoreClass, CoreRows, CounterTable, DispatchRows, Error, Executions, Facts, FindingKind,
    KernelTime, Manifest, NO_TICKS, PhaseRows, Quality, RunClock, SchedPhases, Source, Trace,
};

/// The directory of segments in a run directory.
pub(super) const RECORDS: &str = "records";

pub(super) fn read(dir: &Path, load: TraceParts) -> Result<Trace, Error> {
    read_as(dir, load, Manifest::read(dir)?, Vec::new())
}

/// Reads the segments of a run whose manifest is given, with frames that they may lack.
pub(super) fn read_as(
    dir: &Path,
    load: TraceParts,
    manifest: Manifest,
    loose: Vec<LooseFrame>,
) -> Result<Trace, Error> {
    let mut trace = Trace::empty(Source::Run(dir.to_path_buf()));
    let mut quality = Quality::default();
    take_manifest(&mut trace, &manifest);
    let mut segments = Segments::find(&dir.join(RECORDS), &mut quality)?;
    segments.add(loose);
    // Dependencies come first: inference needs much memory, and gives it back before the rest is read.
    if load.deps {
        // Arguments of tasks that were running at the end are kept in any case, and those of the one that failed: they explain
        // what ended the run.
        let running = manifest.board.iter().flat_map(|board| &board.running).map(|of| of.task);
        let failed = manifest.error.as_ref().and_then(|error| Trace::task_word(error.task.as_deref()?));
        let mut submits = Submits::new(load.args).keeping(running.chain(failed).collect());
        let pools = &mut trace.pools;
        segments.visit(pools, &mut quality, |_, record: SubmitRecord, quality| submits.push(&record, quality))?;
        trace.deps = submits.infer(&mut quality);
        note_any_core(&mut trace, &manifest);
    }
    read_executions(&mut segments, manifest.board.as_ref(), &mut trace, &mut quality)?;
    if load.phases != PhaseRows::None {
        trace.sched_phases = SchedPhases::keeping(load.phases);
        read_phases(&mut segments, &mut trace, &mut quality)?;
    }
    if load.counters {
        read_counters(&mut segments, &manifest, &mut trace, &mut quality)?;
    }
    if load.scopes {
        read_scopes(&mut segments, &manifest, &mut trace, &mut quality)?;
    }
    if load == TraceParts::ALL {
        segments.count_unread(&mut trace.pools, &mut quality)?;
    }
    trace.liveness = manifest.liveness();
    trace.manifest = Some(manifest);
    trace.quality = quality;
    trace.settle_origin();
    Ok(trace)
}

/// Marks the tasks of a chip that cores of both types run: records have their kernels where those of vector cores are.
fn note_any_core(trace: &mut Trace, manifest: &Manifest) {
    let is_chip = trace.cores.iter().any(|core| core.core_type == CoreClass::Aic);
    let Some(deps) = trace.deps.as_mut().filter(|_| is_chip) else { return };
    let any = manifest.kernels.iter().filter(|kernel| kernel.core_type == CoreClass::Any);
    let any: HashSet<i32> = any.filter_map(|kernel| i32::try_from(kernel.id).ok()).collect();
    for task in &mut deps.tasks {
        task.any_core = matches!(task.kernels, [-1, kernel, -1] if any.contains(&kernel));
    }
}

pub(super) fn kernel_time(dir: &Path) -> Result<(KernelTime, usize, RunClock), Error> {
    let mut trace = Trace::empty(Source::Run(dir.to_path_buf()));
    take_manifest(&mut trace, &Manifest::read(dir)?);
    let mut quality = Quality::default();
    let mut time = KernelTime::default();
    Segments::find(&dir.join(RECORDS), &mut quality)?.visit(
        &mut trace.pools,
        &mut quality,
        |_, record: AicoreTask, _| {
            if record.token != 0 {
                time.see(record.start, end_of(&record));
            }
        },
    )?;
    Ok((time, trace.cores.len(), trace.clock))
}

/// A record's end; none if its task still ran.
pub(super) fn end_of(record: &AicoreTask) -> Option<u64> {
    (record.end != 0 || record.start == 0).then_some(record.end)
}

fn take_manifest(trace: &mut Trace, manifest: &Manifest) {
    trace.facts = Facts {
        program: manifest.program.clone(),
        engine: manifest.engine.clone(),
        arch: manifest.arch.clone(),
        virtual_time: manifest.virtual_time,
        emulated: manifest.emulated,
        level: manifest.level,
        runtime: String::new(),
    };
    let clock = &manifest.clock;
    trace.clock = match (clock.pairs.first(), clock.pairs.last()) {
        (Some(first), Some(last)) if !manifest.virtual_time => {
            RunClock::from_pairs(clock.hz, 0, (first.tick, first.ns), (last.tick, last.ns))
        }
        _ => RunClock::new(clock.hz, 0),
    };
    let topology = &manifest.topology;
    trace.cores = topology.cores.iter().map(|c| Core { core_type: c.core_type, agent: c.agent }).collect();
    trace.agents = topology.agents.iter().map(|a| a.name.clone()).collect();
    trace.kernels = manifest.kernels.iter().map(|k| (k.id, k.name.clone())).collect();
}

fn read_executions(
    segments: &mut Segments,
    board: Option<&BoardFacts>,
    trace: &mut Trace,
    quality: &mut Quality,
) -> Result<(), Error> {
    let mut rows = reserved_rows(segments.records(Kind::AicoreTask));
    segments.visit(&mut trace.pools, quality, |core, record: AicoreTask, quality| {
        if record.token == 0 {
            quality.note(FindingKind::BadRecord, None, || format!("a slot of core {core} without its stamp"));
            return;
        }
        rows.core.push(core);
        rows.task.push(record.task);
        rows.token.push(record.token);
        rows.kernel.push(record.kernel());
        rows.start.push(record.start);
        rows.end.push(end_of(&record).unwrap_or(NO_TICKS));
        rows.receive_to_start.push(record.receive_to_start());
    })?;
    add_open(&mut rows, board);
    let mut dispatches = reserved_dispatches(segments.records(Kind::AicpuTask));
    segments.visit(&mut trace.pools, quality, |core, record: AicpuTask, _| {
        dispatches.core.push(core);
        dispatches.task.push(record.task);
        dispatches.token.push(record.token);
        dispatches.dispatch.push(record.dispatch);
        dispatches.finish.push(if record.finish == 0 && record.dispatch != 0 { NO_TICKS } else { record.finish });
    })?;
    trace.executions = Executions::join(rows, dispatches, quality);
    let seen = trace.executions.len().checked_sub(1).map_or(0, |last| trace.executions.core(last) as usize + 1);
    if trace.cores.len() < seen {
        trace.cores.resize(seen, Core::default());
    }
    Ok(())
}

/// Adds the executions that had not ended when the run did, from its status board: they have no record.
fn add_open(rows: &mut CoreRows, board: Option<&BoardFacts>) {
    let Some(board) = board.filter(|board| !board.running.is_empty()) else { return };
    let round = rows.task.iter().map(|word| TaskId::from_word(*word).1).max().unwrap_or(0);
    let mut open = Vec::new();
    for of in &board.running {
        // Records come core by core.
        let mine =
            || rows.core.partition_point(|core| *core < of.core)..rows.core.partition_point(|core| *core <= of.core);
        let recorded = mine().any(|at| rows.token[at] == of.token && TaskId::from_word(rows.task[at]).1 == round);
        // The look may have read the line after its task was stored and before its time was. The task began when the one
        // before it on this core had ended.
        let before = mine().map(|at| rows.end[at]).filter(|end| *end != NO_TICKS).max();
        let since = Some(of.since).filter(|since| *since > 0).max(before);
        open.extend(since.filter(|_| !recorded).map(|start| (of, start)));
    }
    for (of, start) in open {
        rows.core.push(of.core);
        rows.task.push(TaskId::from_raw(of.task).with_round(round));
        rows.token.push(of.token);
        rows.kernel.push(of.kernel);
        rows.start.push(start);
        rows.end.push(NO_TICKS);
        rows.receive_to_start.push(0);
    }
}

fn reserved_rows(count: usize) -> CoreRows {
    CoreRows {
        core: Vec::with_capacity(count),
        task: Vec::with_capacity(count),
        token: Vec::with_capacity(count),
        kernel: Vec::with_capacity(count),
        start: Vec::with_capacity(count),
        end: Vec::with_capacity(count),
        receive_to_start: Vec::with_capacity(count),
    }
}

fn reserved_dispatches(count: usize) -> DispatchRows {
    DispatchRows {
        core: Vec::with_capacity(count),
        task: Vec::with_capacity(count),
        token: Vec::with_capacity(count),
        dispatch: Vec::with_capacity(count),
        finish: Vec::with_capacity(count),
    }
}

fn read_phases(segments: &mut Segments, trace: &mut Trace, quality: &mut Quality) -> Result<(), Error> {
    let sched = &mut trace.sched_phases;
    sched.reserve(segments.records(Kind::SchedPhase));
    segments.visit(&mut trace.pools, quality, |agent, record: SchedPhase, quality| {
        let name = match SchedPhaseKind::ALL.get(record.kind as usize) {
            Some(_) => record.kind as u16,
            None => {
                let name = format!("phase {}", record.kind);
                quality.note(FindingKind::UnknownName, None, || format!("scheduler phase {}", record.kind));
                sched.names.intern(&name)
            }
        };
        let row = SchedPhaseRow {
            name,
            start: record.start,
            end: record.end,
            loop_iter: record.loop_iter,
            tasks: record.tasks_processed,
            pop_hit: record.pop_hit,
            pop_miss: record.pop_miss,
            epoch: None,
        };
        sched.push(agent, row);
    })?;
    let orch = &mut trace.orch_phases;
    segments.visit(&mut trace.pools, quality, |agent, record: OrchPhase, _| {
        orch.push(agent, record.start, record.end, record.task, record.submit_idx);
    })
}

fn read_counters(
    segments: &mut Segments,
    manifest: &Manifest,
    trace: &mut Trace,
    quality: &mut Quality,
) -> Result<(), Error> {
    let named = manifest.counters.as_ref().and_then(|counters| CounterGroup::from_name(&counters.group));
    let Trace { pools, cores, counters, .. } = trace;
    let mut group = named;
    segments.visit(pools, quality, |core, record: CounterReading, quality| {
        // The manifest may not name the group, or may be damaged. The records name their group themselves.
        let known = group.or_else(|| CounterGroup::from_number(record.group));
        let Some(known) = known.filter(|_| record.token != 0) else {
            quality.note(FindingKind::BadRecord, None, || format!("a reading of counters of core {core}"));
            return;
        };
        if counters.names.is_empty() {
            *counters = CounterTable::of_group(known);
        }
        group = Some(known);
        let at = cores.get(usize::from(core)).copied().unwrap_or_default();
        counters.push_record(core, at, &record, known);
    })
}

fn read_scopes(
    segments: &mut Segments,
    manifest: &Manifest,
    trace: &mut Trace,
    quality: &mut Quality,
) -> Result<(), Error> {
    let scopes = &mut trace.scopes;
    scopes.timed = true;
    scopes.capacities = manifest.capacities.clone();
    // Records number sites as the manifest's table does; ours are numbered by place in the list of texts.
    let known = manifest.sites.iter().map(|s| s.id).max().unwrap_or(0).min(1 << 20);
    scopes.sites = vec!["(unknown):0".to_string(); known as usize + 1];
    for site in manifest.sites.iter().filter(|s| s.id <= known) {
        scopes.sites[site.id as usize] = format!("{}:{}", site.file, site.line);
    }
    let mut join = ScopeJoin::default();
    segments.visit(&mut trace.pools, quality, |agent, record: ScopeRingsRecord, _| join.add_rings(agent, record))?;
    segments.visit(&mut trace.pools, quality, |agent, record: ScopeRecord, quality| {
        let full = join.full_sample(agent, &record, quality);
        scopes.fatal |= full.sample.fatal;
        scopes.push(full.sample, &full.used, &full.peaks);
    })
}
