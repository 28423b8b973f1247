//! Reader of the reference's older forms, `l2_swimlane_records.json` and `l2_perf_records.json`: tasks joined already,
//! times in microseconds.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use super::number::JsonNumber;
use super::swimlane::note_core_type;
use super::{TraceParts, cycles, read_file};
use crate::deps::{Dependencies, Edge, EdgeSource, NO_ARG, TaskIndex, TaskNode};
use crate::phases::SchedPhaseRow;
use crate::{
    Core, CoreClass, CoreRows, DispatchRows, Error, Executions, FindingKind, NO_KERNEL, OrchPhases, PhaseRows, Quality,
    RunClock, SchedPhases, Trace,
};

/// Microseconds are kept as nanoseconds: the files print three places.
const HZ: f64 = 1e9;

#[derive(Deserialize)]
struct L2File<'a> {
    l2_swimlane_level: Option<JsonNumber>,
    version: Option<JsonNumber>,
    #[serde(borrow, default)]
    tasks: Vec<TaskObject<'a>>,
    #[serde(borrow, default)]
    aicpu_scheduler_phases: Vec<Vec<PhaseObject<'a>>>,
    #[serde(borrow, default)]
    aicpu_orchestrator_phases: Vec<Vec<PhaseObject<'a>>>,
    #[serde(default)]
    core_to_thread: Vec<i64>,
}

#[derive(Deserialize)]
struct TaskObject<'a> {
    task_id: JsonNumber,
    #[serde(default)]
    func_id: Option<i64>,
    core_id: JsonNumber,
    #[serde(borrow, default)]
    core_type: Cow<'a, str>,
    ring_id: Option<JsonNumber>,
    start_time_us: f64,
    end_time_us: f64,
    dispatch_time_us: Option<f64>,
    finish_time_us: Option<f64>,
    #[serde(default)]
    fanout: Vec<JsonNumber>,
}

#[derive(Deserialize)]
struct PhaseObject<'a> {
    #[serde(borrow, alias = "kind", default)]
    phase: Cow<'a, str>,
    start_time_us: f64,
    end_time_us: f64,
    #[serde(default)]
    loop_iter: JsonNumber,
    #[serde(default)]
    submit_idx: JsonNumber,
    #[serde(default)]
    tasks_processed: JsonNumber,
    #[serde(default)]
    task_id: JsonNumber,
    #[serde(default)]
    pop_hit: JsonNumber,
    #[serde(default)]
    pop_miss: JsonNumber,
}

pub(super) fn read(path: &Path, load: TraceParts, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let records: L2File<'_> = serde_json::from_slice(&bytes).map_err(Error::json("l2 records", path))?;
    trace.clock = RunClock::new(HZ, 0);
    trace.facts.level = level(&records);
    let mut rows = CoreRows::default();
    let mut dispatches = DispatchRows::default();
    let mut core_types: Vec<CoreClass> = Vec::new();
    for task in &records.tasks {
        let (Ok(core), Some(start), Some(end)) =
            (u16::try_from(task.core_id.0), ticks(task.start_time_us), ticks(task.end_time_us))
        else {
            trace.quality.note(FindingKind::BadRecord, Some(path), || format!("task {}", task.task_id.0));
            continue;
        };
        if core_types.len() <= core as usize {
            core_types.resize(core as usize + 1, CoreClass::Any);
        }
        core_types[core as usize] = CoreClass::from_name(&task.core_type);
        note_core_type(&task.core_type, path, &mut trace.quality);
        // These files have no tokens: the row's own number serves, as the views are joined already.
        let token = rows.len() as u32 + 1;
        rows.core.push(core);
        rows.task.push(word(task));
        rows.token.push(token);
        rows.kernel.push(task.func_id.and_then(|f| u32::try_from(f).ok()).unwrap_or(NO_KERNEL));
        rows.start.push(start);
        rows.end.push(end);
        rows.receive_to_start.push(0);
        match (task.dispatch_time_us.and_then(ticks), task.finish_time_us.and_then(ticks)) {
            // The oldest files print zeroes at the level that did not record them.
            (Some(0), Some(0)) | (None, _) | (_, None) => {}
            (Some(dispatch), Some(finish)) => {
                dispatches.core.push(core);
                dispatches.token.push(token);
                dispatches.dispatch.push(dispatch);
                dispatches.finish.push(finish);
            }
        }
    }
    trace.executions = Executions::join(rows, dispatches, &mut trace.quality);
    let threads = &records.core_to_thread;
    let agent = |core: usize| threads.get(core).and_then(|t| u16::try_from(*t).ok());
    trace.cores = core_types.iter().enumerate().map(|(i, t)| Core { core_type: *t, agent: agent(i) }).collect();
    if load.phases != PhaseRows::None {
        (trace.sched_phases, trace.orch_phases) = phases(&records);
    }
    if trace.deps.is_none() && records.tasks.iter().any(|t| !t.fanout.is_empty()) {
        trace.deps = Some(fanout_edges(&records.tasks, path, trace));
    }
    Ok(())
}

fn level(records: &L2File<'_>) -> u8 {
    if let Some(level) = records.l2_swimlane_level {
        return level.0.min(255) as u8;
    }
    // In the oldest form the version said what was recorded.
    match records.version.map(|v| v.0) {
        Some(0) | None => 1,
        Some(1) => 2,
        Some(_) if records.aicpu_orchestrator_phases.iter().all(Vec::is_empty) => 3,
        Some(_) => 4,
    }
}

fn word(task: &TaskObject<'_>) -> u64 {
    match task.ring_id {
        Some(ring) if task.task_id.0 >> 32 == 0 => (ring.0 & 0xff) << 32 | task.task_id.0,
        _ => task.task_id.0,
    }
}

fn ticks(us: f64) -> Option<u64> {
    let ns = (us * 1e3).round();
    (0.0..1e18).contains(&ns).then_some(ns as u64)
}

fn phases(records: &L2File<'_>) -> (SchedPhases, OrchPhases) {
    let narrow = |n: JsonNumber| u32::try_from(n.0).unwrap_or(u32::MAX);
    let mut sched = SchedPhases::default();
    for (agent, thread) in records.aicpu_scheduler_phases.iter().enumerate().take(1 << 15) {
        for phase in thread {
            let row = SchedPhaseRow {
                name: sched.names.intern(&phase.phase),
                start: ticks(phase.start_time_us).unwrap_or(0),
                end: ticks(phase.end_time_us).unwrap_or(0),
                loop_iter: narrow(phase.loop_iter),
                tasks: narrow(phase.tasks_processed),
                pop_hit: narrow(phase.pop_hit),
                pop_miss: narrow(phase.pop_miss),
                epoch: None,
            };
            sched.push(agent as u16, row);
        }
        sched.agents = agent as u16 + 1;
    }
    let mut orch = OrchPhases::default();
    for (agent, thread) in records.aicpu_orchestrator_phases.iter().enumerate().take(1 << 15) {
        for phase in thread {
            let (start, end) = (ticks(phase.start_time_us).unwrap_or(0), ticks(phase.end_time_us).unwrap_or(0));
            orch.push(agent as u16, start, end, phase.task_id.0, narrow(phase.submit_idx));
            if !matches!(phase.phase.as_ref(), "" | "orch_submit") {
                orch.name_last(&phase.phase);
            }
        }
    }
    (sched, orch)
}

/// The edges that tasks list as their fan-out, without reasons.
fn fanout_edges(tasks: &[TaskObject<'_>], path: &Path, trace: &mut Trace) -> Dependencies {
    let mut deps = Dependencies::default();
    let mut index = TaskIndex::default();
    for task in tasks {
        let word = word(task);
        if index.get(word).is_none() {
            index.insert(word, deps.tasks.len() as u32);
            let kernel = task.func_id.and_then(|f| i32::try_from(f).ok()).unwrap_or(-1);
            let slot = usize::from(CoreClass::from_name(&task.core_type) == CoreClass::Aiv);
            let mut node = TaskNode { implied: false, blocks: 1, ..TaskNode::implied(word) };
            node.kernels[slot] = kernel;
            deps.tasks.push(node);
        }
    }
    for task in tasks {
        let Some(pred) = index.get(word(task)) else { continue };
        for succ in &task.fanout {
            match index.get(succ.0) {
                Some(succ) if succ == pred => {
                    trace.quality.note(FindingKind::SelfEdge, Some(path), || deps.tasks[pred].id().to_string());
                }
                Some(succ) => deps.edges.push(Edge {
                    succ: succ as u32,
                    pred: pred as u32,
                    arg: NO_ARG,
                    pred_arg: NO_ARG,
                    source: EdgeSource::Fanout,
                    covered: false,
                    loose: 0,
                }),
                None => trace.quality.note(FindingKind::EdgeWithoutTask, Some(path), || format!("to task {}", succ.0)),
            }
        }
    }
    // A task that ran in parts lists its fan-out with each of them.
    deps.edges.sort_unstable();
    deps.edges.dedup();
    let mut quality = Quality::default();
    cycles::leave_out(&mut deps, "", &mut quality);
    trace.quality.take_in(&quality, path);
    deps
}
