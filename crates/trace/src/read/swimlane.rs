//! Reader of `chip_swimlane_records.json`: rows of ticks. What the newest of these files have besides is in `newest.rs`.
//!
//! A capture of a million tasks is half a gigabyte of text, so rows go straight into columns while they are parsed.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::newest::{
    self, Alignment, Epochs, HostCapture, HostClock, HostSubmits, Lifecycles, SchedulerRecords, SchedulerTasks,
    StreamLosses,
};
use super::null::{OrNull, or_default};
use super::number::JsonNumber;
use super::threads::Threads;
use super::{TraceParts, read_file};
use crate::executions::RowNames;
use crate::model::HOST_BUILD_GRAPH;
use crate::phases::SchedPhaseRow;
use crate::{
    Core, CoreClass, CoreRows, DispatchRows, Error, Executions, FindingKind, KernelTime, NO_KERNEL, OrchPhases,
    PhaseNames, PhaseRows, Quality, RunClock, SchedPhases, Trace,
};

/// More columns than any file has; rows of a broken file are not read further.
const MAX_COLUMNS: usize = 8;

#[derive(Default)]
struct SwimlaneFile {
    /// Whether the file has any of the keys that tell it from others.
    is_swimlane: bool,
    level: u8,
    metadata: Metadata,
    core_rows: CoreRows,
    dispatches: DispatchRows,
    sched: SchedPhases,
    orch: OrchPhases,
    bad_rows: u64,
    /// Scheduler records that the file says are missing.
    lost: u64,
    phases: bool,
    epochs: Epochs,
    /// Phases of the newest files, whose threads come in any order.
    scattered: Vec<(u16, String, SchedPhaseRow)>,
    host_phases: HostSubmits,
    /// What is wrong with the parts that are dealt with while they are read.
    quality: Quality,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "or_default")]
    clock_freq_hz: f64,
    #[serde(deserialize_with = "or_default")]
    num_cores: JsonNumber,
    #[serde(deserialize_with = "or_default")]
    core_types: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    core_to_thread: Vec<i64>,
    /// How task ids are made; only the newest files say so.
    #[serde(deserialize_with = "or_default")]
    runtime: String,
    #[serde(deserialize_with = "or_default")]
    clock_alignment: Alignment,
    #[serde(deserialize_with = "or_default")]
    host_capture: HostCapture,
    /// Written by us only: what the capture lacked that the file was made from.
    lost_records: JsonNumber,
    /// Written by us only: whether times are those of a model.
    #[serde(rename = "virtual")]
    virtual_time: bool,
    /// Written by us only: whether the chip is emulated, and which it is.
    emulated: bool,
    arch: String,
}

#[derive(Deserialize)]
struct SchedPhaseObject<'a> {
    #[serde(borrow, alias = "phase", default)]
    kind: Cow<'a, str>,
    start_cycles: JsonNumber,
    end_cycles: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    loop_iter: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    tasks_processed: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    pop_hit: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    pop_miss: JsonNumber,
}

#[derive(Deserialize)]
struct OrchPhaseObject<'a> {
    #[serde(borrow, alias = "phase", default)]
    kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "or_default")]
    submit_idx: JsonNumber,
    task_id: Option<JsonNumber>,
    start_cycles: JsonNumber,
    end_cycles: JsonNumber,
    run_epoch: Option<JsonNumber>,
}

pub(super) fn read(path: &Path, load: TraceParts, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let mut records = parse(&bytes, path, load, Epochs::default())?;
    // Where the file says behind its rows how ids are made, or where rows of a later epoch come first, rows have to be placed once more.
    // Older files leave it to deps.json to name the runtime.
    let own = Some(&records.metadata.runtime).filter(|runtime| !runtime.is_empty());
    let ringless = own.unwrap_or(&trace.facts.runtime) == HOST_BUILD_GRAPH;
    if let Some(epochs) = records.epochs.revised(ringless) {
        records = parse(&bytes, path, load, epochs)?;
    }
    records.epochs.ringless = ringless;
    drop(bytes);

    let quality = &mut trace.quality;
    note_faults(&records, path, quality);
    trace.facts.level = records.level;
    trace.facts.virtual_time = records.metadata.virtual_time;
    trace.facts.emulated = records.metadata.emulated;
    trace.clock = RunClock::new(records.metadata.clock_freq_hz, 0);
    // The counters' rates are what tells the two chips apart; the reference's files do not name them.
    trace.facts.arch = match records.metadata.clock_freq_hz as u64 {
        _ if !records.metadata.arch.is_empty() => records.metadata.arch.clone(),
        50_000_000 => "a2a3".to_string(),
        1_000_000_000 => "a5".to_string(),
        _ => String::new(),
    };
    trace.cores = cores(&records);
    records.metadata.core_types.iter().for_each(|name| note_core_type(name, path, quality));
    if !records.metadata.runtime.is_empty() {
        let (own, theirs) = (&records.metadata.runtime, &trace.facts.runtime);
        if !theirs.is_empty() && theirs != own {
            quality.note(FindingKind::RuntimesDiffer, Some(path), || format!("{own} here, {theirs} there"));
        }
        trace.facts.runtime.clone_from(&records.metadata.runtime);
    }
    newest::place_phases(&mut records.sched, std::mem::take(&mut records.scattered));
    let host = std::mem::take(&mut records.host_phases);
    let clock = HostClock {
        alignment: &records.metadata.clock_alignment,
        hz: trace.clock.hz(),
        makespan: makespan(&records.core_rows),
        epochs: &mut records.epochs,
    };
    host.place(&mut records.orch, clock, path, quality);
    for number in 0..u16::MAX {
        let name = records.sched.names.name(number);
        if name == "?" {
            break;
        }
        if !PhaseNames::is_known(name) {
            quality.note(FindingKind::UnknownName, Some(path), || format!("scheduler phase {name:?}"));
        }
    }
    let backwards = |starts: &[u64], ends: &[u64]| starts.iter().zip(ends).filter(|(start, end)| end < start).count();
    let phases =
        backwards(&records.sched.start, &records.sched.end) + backwards(&records.orch.start, &records.orch.end);
    quality.note_many(FindingKind::EndBeforeStart, Some(path), phases as u64, || "phases".to_string());
    let names = RowNames { runtime: &trace.facts.runtime, token_in_file: &|token| records.epochs.token_in_file(token) };
    trace.executions = Executions::join_named(records.core_rows, records.dispatches, &names, quality);
    trace.sched_phases = records.sched;
    trace.orch_phases = records.orch;
    Ok(())
}

/// What a file says it lost, and how it contradicts itself.
fn note_faults(records: &SwimlaneFile, path: &Path, quality: &mut Quality) {
    quality.take_in(&records.quality, path);
    quality.note_many(FindingKind::BadRecord, Some(path), records.bad_rows, || "a row of tasks".to_string());
    quality.note_many(FindingKind::ReportedLoss, Some(path), records.lost, || "scheduler records".to_string());
    let source = records.metadata.lost_records.0;
    quality.note_many(FindingKind::ReportedLoss, Some(path), source, || "records of the capture behind it".to_string());
    let submits = records.metadata.host_capture.lost();
    quality.note_many(FindingKind::ReportedLoss, Some(path), submits, || "submits of the host".to_string());
    records.metadata.host_capture.note_counts(path, quality);
    quality.note_many(FindingKind::EpochBeyondRounds, Some(path), records.epochs.beyond, String::new);
    let hz = records.metadata.clock_freq_hz;
    if !records.core_rows.is_empty() && !RunClock::is_rate(hz) {
        quality.note(FindingKind::NoClockRate, Some(path), || format!("clock_freq_hz is {hz}"));
    }
    let (beyond, first) = beyond_count(records);
    quality.note_many(FindingKind::CoreBeyondCount, Some(path), beyond, || first);
    let (counted, typed) = (records.metadata.num_cores.0, records.metadata.core_types.len() as u64);
    if counted > 0 && typed > 0 && counted != typed {
        quality.note(FindingKind::CoreTypesDiffer, Some(path), || format!("{counted} cores and {typed} types"));
    }
}

/// Ticks from the first kernel start to the last kernel end.
fn makespan(rows: &CoreRows) -> u64 {
    let mut time = KernelTime::default();
    rows.start.iter().zip(&rows.end).for_each(|(start, end)| time.see(*start, Some(*end)));
    time.makespan().unwrap_or(0)
}

fn parse(bytes: &[u8], path: &Path, load: TraceParts, epochs: Epochs) -> Result<SwimlaneFile, Error> {
    let mut records = SwimlaneFile { phases: load.phases != PhaseRows::None, epochs, ..SwimlaneFile::default() };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = deserializer.deserialize_map(RecordsVisitor(&mut records)).and_then(|()| deserializer.end());
    parsed.map_err(Error::json("swimlane records", path))?;
    match records.is_swimlane {
        true => Ok(records),
        false => Err(Error::other_kind("swimlane records", path, "`chip_swimlane_level` or `aicore_tasks`")),
    }
}

/// Notes a type of cores that this build does not know: they are taken for cores that run anything.
pub(super) fn note_core_type(name: &str, path: &Path, quality: &mut Quality) {
    if !matches!(name, "" | "any" | "ANY") && CoreClass::from_name(name) == CoreClass::Any {
        quality.note(FindingKind::UnknownName, Some(path), || format!("core type {name:?}"));
    }
}

/// How many rows are of cores that the file does not have by its own count, and the first of them in words.
fn beyond_count(records: &SwimlaneFile) -> (u64, String) {
    let metadata = &records.metadata;
    let counts = [metadata.num_cores.0, metadata.core_types.len() as u64];
    let Some(count) = counts.into_iter().find(|count| *count > 0) else { return (0, String::new()) };
    let mut beyond = records.core_rows.core.iter().filter(|core| u64::from(**core) >= count).peekable();
    let first = beyond.peek().map_or(String::new(), |core| format!("core {core} of {count}"));
    (beyond.count() as u64, first)
}

fn cores(records: &SwimlaneFile) -> Vec<Core> {
    let metadata = &records.metadata;
    let named = metadata.core_types.len().min(1 << 16);
    let seen = records.core_rows.core.iter().max().map_or(0, |c| *c as usize + 1);
    // The count in the file is only believed where nothing lists the cores.
    let counted = if named > 0 { named } else { (metadata.num_cores.0 as usize).min(1024) };
    let count = counted.max(seen);
    (0..count)
        .map(|core| Core {
            core_type: metadata.core_types.get(core).map_or(CoreClass::Any, |name| CoreClass::from_name(name)),
            agent: metadata.core_to_thread.get(core).and_then(|t| u16::try_from(*t).ok()),
        })
        .collect()
}

struct RecordsVisitor<'r>(&'r mut SwimlaneFile);

impl<'de> Visitor<'de> for RecordsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of swimlane records")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let records = self.0;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            records.is_swimlane |= matches!(key.as_ref(), "chip_swimlane_level" | "aicore_tasks");
            match key.as_ref() {
                "chip_swimlane_level" => records.level = map.next_value::<JsonNumber>()?.0.min(255) as u8,
                "metadata" => {
                    records.metadata = map.next_value::<Option<Metadata>>()?.unwrap_or_default();
                    if !records.epochs.several() {
                        records.epochs.ringless = records.metadata.runtime == HOST_BUILD_GRAPH;
                    }
                }
                "aicore_tasks" => {
                    let (rows, bad, epochs) = (&mut records.core_rows, &mut records.bad_rows, &mut records.epochs);
                    map.next_value_seed(OrNull(NumberRows(|row: &[u64]| {
                        *bad += u64::from(push_core_row(rows, row, epochs).is_none());
                    })))?;
                }
                "scheduler_tasks" => {
                    let (rows, bad, epochs) = (&mut records.dispatches, &mut records.bad_rows, &mut records.epochs);
                    map.next_value_seed(OrNull(SchedulerTasks(&mut |row| {
                        *bad += u64::from(push_dispatch(rows, row, epochs).is_none());
                    })))?;
                }
                "scheduler_records" if records.phases => {
                    let scattered = &mut records.scattered;
                    let streams = map.next_value::<Option<SchedulerRecords>>()?.unwrap_or_default();
                    records.lost +=
                        streams.each(&mut records.quality, |agent, name, row| scattered.push((agent, name, row)));
                }
                // What the streams lost is told even where their records are not read.
                "scheduler_records" => {
                    records.lost += map.next_value::<Option<StreamLosses>>()?.unwrap_or_default().lost()
                }
                "aicpu_lifecycle_records" if records.phases => {
                    let scattered = &mut records.scattered;
                    map.next_value::<Option<Lifecycles>>()?
                        .unwrap_or_default()
                        .each(&mut records.quality, |agent, name, row| scattered.push((agent, name, row)));
                }
                "host_orchestrator_phases" if records.phases => {
                    records.host_phases = map.next_value::<Option<_>>()?.unwrap_or_default()
                }
                "aicpu_tasks" => {
                    let (rows, bad, epochs) = (&mut records.dispatches, &mut records.bad_rows, &mut records.epochs);
                    map.next_value_seed(OrNull(NumberRows(|row: &[u64]| {
                        *bad += u64::from(push_dispatch(rows, row, epochs).is_none());
                    })))?;
                }
                "aicpu_scheduler_phases" if records.phases => {
                    let sched = &mut records.sched;
                    let threads =
                        map.next_value_seed(OrNull(Threads(&mut |agent, phase| push_sched(sched, agent, phase))))?;
                    records.sched.agents = threads.unwrap_or(0);
                }
                "aicpu_orchestrator_phases" if records.phases => {
                    let (orch, epochs) = (&mut records.orch, &mut records.epochs);
                    map.next_value_seed(OrNull(Threads(&mut |agent, phase| push_orch(orch, agent, phase, epochs))))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// `[core_id, task_token_raw, reg_task_id, start, end, receive_to_start, run_epoch]`; the last two are absent in older files.
fn push_core_row(rows: &mut CoreRows, row: &[u64], epochs: &mut Epochs) -> Option<()> {
    let [core, task, token, start, end] = *row.first_chunk()?;
    let core = u16::try_from(core).ok()?;
    let token = u32::try_from(token).ok()?;
    // A row of an epoch that has no number left is counted there.
    let Some((task, token)) = epochs.place(row.get(6).copied(), task, token) else { return Some(()) };
    rows.core.push(core);
    rows.task.push(task);
    rows.token.push(token);
    rows.kernel.push(NO_KERNEL);
    rows.start.push(start);
    rows.end.push(end);
    rows.receive_to_start.push(row.get(5).map_or(0, |r| u32::try_from(*r).unwrap_or(u32::MAX)));
    Some(())
}

/// `[core_id, reg_task_id, dispatch, finish, run_epoch]`; the last is absent in older files.
fn push_dispatch(rows: &mut DispatchRows, row: &[u64], epochs: &mut Epochs) -> Option<()> {
    let [core, token, dispatch, finish] = *row.first_chunk()?;
    let core = u16::try_from(core).ok()?;
    let token = u32::try_from(token).ok()?;
    let Some((_, token)) = epochs.place(row.get(4).copied(), 0, token) else { return Some(()) };
    rows.core.push(core);
    rows.token.push(token);
    rows.dispatch.push(dispatch);
    rows.finish.push(finish);
    Some(())
}

fn push_sched(sched: &mut SchedPhases, agent: u16, phase: SchedPhaseObject<'_>) {
    let narrow = |n: JsonNumber| u32::try_from(n.0).unwrap_or(u32::MAX);
    let row = SchedPhaseRow {
        name: sched.names.intern(&phase.kind),
        start: phase.start_cycles.0,
        end: phase.end_cycles.0,
        loop_iter: narrow(phase.loop_iter),
        tasks: narrow(phase.tasks_processed),
        pop_hit: narrow(phase.pop_hit),
        pop_miss: narrow(phase.pop_miss),
        epoch: None,
    };
    sched.push(agent, row);
}

fn push_orch(orch: &mut OrchPhases, agent: u16, phase: OrchPhaseObject<'_>, epochs: &mut Epochs) {
    let submit_idx = u32::try_from(phase.submit_idx.0).unwrap_or(u32::MAX);
    let task = phase.task_id.unwrap_or_default().0;
    let Some((task, _)) = epochs.place(phase.run_epoch.map(|epoch| epoch.0), task, 0) else { return };
    orch.push(agent, phase.start_cycles.0, phase.end_cycles.0, task, submit_idx);
    if !matches!(phase.kind.as_ref(), "" | "orch_submit") {
        orch.name_last(&phase.kind);
    }
}

/// A list of rows of numbers, each given to a function.
pub(super) struct NumberRows<F>(pub(super) F);

impl<'de, F: FnMut(&[u64])> DeserializeSeed<'de> for NumberRows<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&[u64])> Visitor<'de> for NumberRows<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(row) = seq.next_element::<Row>()? {
            (self.0)(&row.values[..row.len]);
        }
        Ok(())
    }
}

struct Row {
    values: [u64; MAX_COLUMNS],
    len: usize,
}

impl<'de> Deserialize<'de> for Row {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row of numbers")
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Row, A::Error> {
        let mut row = Row { values: [0; MAX_COLUMNS], len: 0 };
        while row.len < MAX_COLUMNS {
            match seq.next_element::<JsonNumber>()? {
                Some(number) => row.values[row.len] = number.0,
                None => return Ok(row),
            }
            row.len += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(row)
    }
}
