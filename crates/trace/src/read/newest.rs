//! What the reference's newest swimlane files have besides: run epochs, streams of scheduler records, lifecycle records and
//! submits on the host's clock. The files carry no version; their keys and columns tell them apart.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use plimsoll_abi::TaskId;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::null::{OrNull, or_default};
use super::number::JsonNumber;
use super::swimlane::NumberRows;
use crate::model::{RINGLESS_EPOCH_BIT, RINGLESS_EPOCHS};
use crate::phases::SchedPhaseRow;
use crate::{FindingKind, OrchPhases, Quality, SchedPhases};

/// Several runs in one file. Tokens start again in each, so those after the first are numbered anew; their tasks are of
/// another round.
#[derive(Default)]
pub(super) struct Epochs {
    /// Whether ids have no rings, and so their own place for an epoch.
    pub(super) ringless: bool,
    seen: Vec<u64>,
    later: HashMap<(usize, u32), u32>,
}

impl Epochs {
    pub(super) fn new(ringless: bool) -> Self {
        Self { ringless, ..Self::default() }
    }

    /// Whether rows of a second run have been placed.
    pub(super) fn several(&self) -> bool {
        self.seen.len() > 1
    }

    /// The task word and token of a row of this epoch.
    pub(super) fn place(&mut self, epoch: Option<u64>, task: u64, token: u32) -> (u64, u32) {
        let Some(epoch) = epoch else { return (task, token) };
        let at = self.seen.iter().position(|seen| *seen == epoch).unwrap_or_else(|| {
            self.seen.push(epoch);
            self.seen.len() - 1
        });
        if at == 0 {
            return (task, token);
        }
        // Counted down from the largest number, which tokens of the first epoch do not reach.
        let next = u32::MAX - self.later.len() as u32;
        let token = *self.later.entry((at, token)).or_insert(next);
        if self.ringless {
            return (task | (at as u64 & RINGLESS_EPOCHS) << RINGLESS_EPOCH_BIT, token);
        }
        let (id, round) = TaskId::from_word(task);
        // An id that has no room for a round keeps its own.
        let word = if round == 0 { id.with_round(at as u32) } else { task };
        (word, token)
    }
}

/// `{producer, records: [[core_id, reg_task_id, dispatch, finish, run_epoch]]}`, each row given to a function.
pub(super) struct SchedulerTasks<'f>(pub(super) &'f mut dyn FnMut(&[u64]));

impl<'de> DeserializeSeed<'de> for SchedulerTasks<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SchedulerTasks<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list of records")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "records" {
                map.next_value_seed(OrNull(NumberRows(|row: &[u64]| (self.0)(row))))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Records of schedulers, a stream each; threads that idled have none.
#[derive(Default, Deserialize)]
pub(super) struct SchedulerRecords {
    #[serde(default, deserialize_with = "or_default")]
    streams: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    #[serde(default)]
    scheduler_id: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    capture: Capture,
    #[serde(default, deserialize_with = "or_default")]
    records: Vec<StreamRecord>,
    #[serde(default, deserialize_with = "or_default")]
    metrics: Vec<Metric>,
}

/// What a stream says of its own completeness.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Capture {
    dropped: JsonNumber,
    truncated: bool,
}

impl Capture {
    /// Records that are missing. How much was cut off is not told; it is one record at least.
    fn lost(&self) -> u64 {
        self.dropped.0.max(u64::from(self.truncated))
    }
}

/// The part of the scheduler streams that says how many records they lost.
#[derive(Default, Deserialize)]
pub(super) struct StreamLosses {
    #[serde(default, deserialize_with = "or_default")]
    streams: Vec<StreamLoss>,
}

#[derive(Deserialize)]
struct StreamLoss {
    #[serde(default, deserialize_with = "or_default")]
    capture: Capture,
}

impl StreamLosses {
    /// How many records the streams say they lost.
    pub(super) fn lost(&self) -> u64 {
        self.streams.iter().fold(0, |lost, stream| lost.saturating_add(stream.capture.lost()))
    }
}

/// What was counted besides, for some records of a stream.
#[derive(Deserialize)]
struct Metric {
    record_index: JsonNumber,
    #[serde(default)]
    pop_hit: JsonNumber,
    #[serde(default)]
    pop_miss: JsonNumber,
}

#[derive(Deserialize)]
struct StreamRecord {
    start_cycles: JsonNumber,
    end_cycles: JsonNumber,
    #[serde(default)]
    loop_iter: JsonNumber,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    tasks_processed: JsonNumber,
}

impl SchedulerRecords {
    /// Gives every phase with its scheduler and name; yields how many records the streams say they lost.
    pub(super) fn each(self, mut each: impl FnMut(u16, String, SchedPhaseRow)) -> u64 {
        let narrow = |n: JsonNumber| u32::try_from(n.0).unwrap_or(u32::MAX);
        let mut lost = 0u64;
        for stream in self.streams {
            lost = lost.saturating_add(stream.capture.lost());
            let agent = u16::try_from(stream.scheduler_id.0).unwrap_or(u16::MAX - 1);
            let looks: HashMap<u64, &Metric> = stream.metrics.iter().map(|m| (m.record_index.0, m)).collect();
            for (at, record) in stream.records.into_iter().enumerate() {
                let look = looks.get(&(at as u64));
                let row = SchedPhaseRow {
                    start: record.start_cycles.0,
                    end: record.end_cycles.0,
                    loop_iter: narrow(record.loop_iter),
                    tasks: narrow(record.tasks_processed),
                    pop_hit: look.map_or(0, |look| narrow(look.pop_hit)),
                    pop_miss: look.map_or(0, |look| narrow(look.pop_miss)),
                    name: 0,
                };
                each(agent, record.kind, row);
            }
        }
        lost
    }
}

/// What threads did before and after scheduling: pairs of `…_start_cycles` and `…_complete_cycles` or `…_end_cycles`.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Lifecycles(Vec<BTreeMap<String, Value>>);

/// A number, or anything else.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(JsonNumber),
    Other(IgnoredAny),
}

impl Lifecycles {
    /// Gives every pair with its thread and name.
    pub(super) fn each(self, mut each: impl FnMut(u16, String, SchedPhaseRow)) {
        for (thread, fields) in self.0.iter().enumerate().take(1 << 15) {
            let number = |key: &str| match fields.get(key) {
                Some(Value::Number(number)) => Some(number.0),
                Some(Value::Other(_)) | None => None,
            };
            for name in fields.keys().filter_map(|key| key.strip_suffix("_start_cycles")) {
                let end = number(&format!("{name}_complete_cycles")).or_else(|| number(&format!("{name}_end_cycles")));
                if let (Some(start), Some(end)) = (number(&format!("{name}_start_cycles")), end) {
                    each(thread as u16, name.to_string(), SchedPhaseRow { start, end, ..SchedPhaseRow::default() });
                }
            }
        }
    }
}

/// Adds phases that came in any order to those of their schedulers.
pub(super) fn place_phases(sched: &mut SchedPhases, mut scattered: Vec<(u16, String, SchedPhaseRow)>) {
    if scattered.is_empty() {
        return;
    }
    for agent in 0..sched.agents {
        for at in sched.of_agent(agent) {
            let row = SchedPhaseRow {
                name: 0,
                start: sched.start[at],
                end: sched.end[at],
                loop_iter: sched.loop_iter[at],
                tasks: sched.tasks[at],
                pop_hit: sched.pop_hit[at],
                pop_miss: sched.pop_miss[at],
            };
            scattered.push((agent, sched.name_of(at).to_string(), row));
        }
    }
    scattered.sort_by_key(|(agent, _, row)| (*agent, row.start));
    *sched = SchedPhases::default();
    for (agent, name, row) in scattered {
        let name = sched.names.intern(&name);
        sched.push(agent, SchedPhaseRow { name, ..row });
    }
}

/// How the host's clock is placed on the device's.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Alignment {
    status: String,
    #[serde(deserialize_with = "or_default")]
    device_anchor_cycles: JsonNumber,
    #[serde(deserialize_with = "or_default")]
    host_anchor_ns: JsonNumber,
}

/// What the host says of the completeness of its submits.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct HostCapture {
    status: String,
    #[serde(deserialize_with = "or_default")]
    dropped_records: JsonNumber,
}

impl HostCapture {
    /// Records that are missing by its own account.
    pub(super) fn lost(&self) -> u64 {
        let incomplete = matches!(self.status.as_str(), "dropped" | "incomplete");
        self.dropped_records.0.max(u64::from(incomplete))
    }
}

/// Submits on the host's clock, per thread.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct HostSubmits(Vec<Vec<HostSubmit>>);

#[derive(Deserialize)]
struct HostSubmit {
    #[serde(default)]
    submit_idx: JsonNumber,
    task_id: Option<JsonNumber>,
    start_host_ns: JsonNumber,
    end_host_ns: JsonNumber,
}

impl HostSubmits {
    /// Adds the submits, placed on the device's clock; without a bounded alignment they cannot be, and that is told.
    pub(super) fn place(self, orch: &mut OrchPhases, by: &Alignment, hz: f64, path: &Path, quality: &mut Quality) {
        let count = self.0.iter().map(Vec::len).sum::<usize>() as u64;
        if by.status != "bounded" || !orch.is_empty() {
            let unplaced = if orch.is_empty() { count } else { 0 };
            quality.note_many(FindingKind::Unplaced, Some(path), unplaced, || format!("alignment {:?}", by.status));
            return;
        }
        let ticks = |ns: u64| {
            let ahead = (ns as f64 - by.host_anchor_ns.0 as f64) * hz / 1e9;
            (by.device_anchor_cycles.0 as f64 + ahead).max(0.0) as u64
        };
        for (thread, phases) in self.0.into_iter().enumerate().take(1 << 15) {
            for phase in phases {
                let submit_idx = u32::try_from(phase.submit_idx.0).unwrap_or(u32::MAX);
                let (start, end) = (ticks(phase.start_host_ns.0), ticks(phase.end_host_ns.0));
                let task = phase.task_id.unwrap_or_default().0;
                orch.push(thread as u16, start, end, task, submit_idx);
            }
        }
    }
}
