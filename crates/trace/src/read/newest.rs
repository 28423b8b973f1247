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
    /// The number of each epoch that was met.
    numbers: HashMap<u64, usize>,
    /// The epoch that was met last and its number: rows of one epoch follow each other.
    last: Option<(u64, usize)>,
    later: HashMap<(usize, u32), u32>,
    /// Rows of epochs that have no number left.
    pub(super) beyond: u64,
}

impl Epochs {
    /// What rows have to be placed by once more, if they were placed by other numbers or other ids than the whole file says: epochs
    /// count up from the least one.
    pub(super) fn revised(&self, ringless: bool) -> Option<Self> {
        let mut sorted: Vec<u64> = self.numbers.keys().copied().collect();
        sorted.sort_unstable();
        let is_right = ringless == self.ringless && sorted.iter().enumerate().all(|(at, of)| self.numbers[of] == at);
        let numbers = sorted.into_iter().zip(0..).collect();
        (self.several() && !is_right).then(|| Self { ringless, numbers, ..Self::default() })
    }

    /// Whether rows of a second run have been placed.
    pub(super) fn several(&self) -> bool {
        self.numbers.len() > 1
    }

    fn number(&mut self, epoch: u64) -> usize {
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == epoch) {
            return number;
        }
        let next = self.numbers.len();
        let number = *self.numbers.entry(epoch).or_insert(next);
        self.last = Some((epoch, number));
        number
    }

    /// A token as the file has it.
    pub(super) fn token_in_file(&self, token: u32) -> u32 {
        self.later.iter().find(|(_, own)| **own == token).map_or(token, |((_, in_file), _)| *in_file)
    }

    /// The task word and token of a row of this epoch; nothing for one of an epoch whose number ids have no room for, which is counted.
    pub(super) fn place(&mut self, epoch: Option<u64>, task: u64, token: u32) -> Option<(u64, u32)> {
        let Some(epoch) = epoch else { return Some((task, token)) };
        let at = self.number(epoch);
        if at == 0 {
            return Some((task, token));
        }
        let most = if self.ringless { RINGLESS_EPOCHS } else { u64::from(TaskId::from_word(u64::MAX).1) };
        if at as u64 > most {
            self.beyond += 1;
            return None;
        }
        // Counted down from the largest number, which tokens of the first epoch do not reach.
        let next = u32::MAX - self.later.len() as u32;
        let token = *self.later.entry((at, token)).or_insert(next);
        if self.ringless {
            return Some((task | (at as u64) << RINGLESS_EPOCH_BIT, token));
        }
        let (id, round) = TaskId::from_word(task);
        // An id that has no room for a round keeps its own.
        let word = if round == 0 { id.with_round(at as u32) } else { task };
        Some((word, token))
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
    #[serde(default, deserialize_with = "or_default")]
    producer: String,
    #[serde(default, deserialize_with = "or_default")]
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
    #[serde(deserialize_with = "or_default")]
    committed: Option<JsonNumber>,
    #[serde(deserialize_with = "or_default")]
    dropped: JsonNumber,
    #[serde(deserialize_with = "or_default")]
    truncated: FlagOrCount,
}

/// Whether something happened; some files say how often.
#[derive(Deserialize)]
#[serde(untagged)]
enum FlagOrCount {
    Flag(bool),
    Count(JsonNumber),
}

impl Default for FlagOrCount {
    fn default() -> Self {
        Self::Flag(false)
    }
}

impl FlagOrCount {
    /// How often, at least.
    fn count(&self) -> u64 {
        match self {
            Self::Flag(flag) => u64::from(*flag),
            Self::Count(count) => count.0,
        }
    }
}

impl Capture {
    /// Records that are missing. Where it is not told how much was cut off, it is one record at least.
    fn lost(&self) -> u64 {
        self.dropped.0.max(self.truncated.count())
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
    #[serde(default, deserialize_with = "or_default")]
    pop_hit: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    pop_miss: JsonNumber,
}

#[derive(Deserialize)]
struct StreamRecord {
    start_cycles: JsonNumber,
    end_cycles: JsonNumber,
    run_epoch: Option<JsonNumber>,
    #[serde(default, deserialize_with = "or_default")]
    loop_iter: JsonNumber,
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    tasks_processed: JsonNumber,
}

impl SchedulerRecords {
    /// Gives every phase with its scheduler and name; yields how many records the streams say they lost. What a stream says of its
    /// records and they do not bear out is noted.
    pub(super) fn each(self, quality: &mut Quality, mut each: impl FnMut(u16, String, SchedPhaseRow)) -> u64 {
        let narrow = |n: JsonNumber| u32::try_from(n.0).unwrap_or(u32::MAX);
        let mut lost = 0u64;
        let mut agents = StreamAgents::of_ids(self.streams.iter().map(|stream| stream.scheduler_id.0));
        for stream in self.streams {
            lost = lost.saturating_add(stream.capture.lost());
            let (records, id) = (stream.records.len() as u64, stream.scheduler_id.0);
            if let Some(committed) = stream.capture.committed.filter(|committed| committed.0 != records) {
                quality.note(FindingKind::WrongCount, None, || {
                    format!("scheduler {id} committed {} records and has {records}", committed.0)
                });
            }
            for metric in stream.metrics.iter().filter(|metric| metric.record_index.0 >= records) {
                quality.note(FindingKind::BadRecord, None, || {
                    format!("metrics of record {} of scheduler {id}, which has {records}", metric.record_index.0)
                });
            }
            let agent = agents.of(stream.producer, id);
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
                    epoch: record.run_epoch.map(|epoch| epoch.0),
                };
                each(agent, record.kind, row);
            }
        }
        lost
    }
}

/// The agents of streams. Schedulers of several producers may have one id: those of the producer that comes first keep it, and others
/// get numbers behind all ids.
struct StreamAgents {
    known: HashMap<(String, u64), u16>,
    next: u16,
}

impl StreamAgents {
    fn of_ids(ids: impl Iterator<Item = u64>) -> Self {
        Self { known: HashMap::new(), next: ids.map(agent_of_id).max().unwrap_or(0) }
    }

    fn of(&mut self, producer: String, id: u64) -> u16 {
        let is_taken = self.known.keys().any(|(other, of)| *of == id && *other != producer);
        let next = &mut self.next;
        *self.known.entry((producer, id)).or_insert_with(|| {
            if !is_taken {
                return agent_of_id(id);
            }
            *next = next.saturating_add(1).min(MOST_AGENT);
            *next
        })
    }
}

/// The largest number of an agent; larger ids share it.
const MOST_AGENT: u16 = u16::MAX - 1;

fn agent_of_id(id: u64) -> u16 {
    u16::try_from(id).unwrap_or(MOST_AGENT).min(MOST_AGENT)
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
    /// Gives every pair with its thread and name. Starts without an end are noted.
    pub(super) fn each(self, quality: &mut Quality, mut each: impl FnMut(u16, String, SchedPhaseRow)) {
        for (place, fields) in self.0.iter().enumerate().take(1 << 15) {
            let number = |key: &str| match fields.get(key) {
                Some(Value::Number(number)) => Some(number.0),
                Some(Value::Other(_)) | None => None,
            };
            // The list leaves threads out that did nothing.
            let thread = number("aicpu_thread_id").and_then(|id| u16::try_from(id).ok()).unwrap_or(place as u16);
            for name in fields.keys().filter_map(|key| key.strip_suffix("_start_cycles")) {
                let Some(start) = number(&format!("{name}_start_cycles")) else { continue };
                // Of two phases the end is named for what it completes.
                let completes = match name {
                    "config" => "topology",
                    "bootstrap_wait" => "bootstrap",
                    name => name,
                };
                let ends = [
                    format!("{name}_complete_cycles"),
                    format!("{name}_end_cycles"),
                    format!("{completes}_complete_cycles"),
                ];
                match ends.iter().find_map(|end| number(end)) {
                    Some(end) => {
                        each(thread, name.to_string(), SchedPhaseRow { start, end, ..SchedPhaseRow::default() });
                    }
                    None => quality.note(FindingKind::StartWithoutEnd, None, || format!("{name} of thread {thread}")),
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
                epoch: None,
            };
            scattered.push((agent, sched.name_of(at).to_string(), row));
        }
    }
    scattered.sort_by_key(|(agent, _, row)| (*agent, row.start));
    // Loops are counted run by run, so where runs overlap the phases of one are kept together. What names no run is of the one
    // before it.
    let mut last = None;
    let placed: Vec<(u16, Option<u64>)> = scattered
        .iter()
        .map(|(agent, _, row)| {
            let before = last.filter(|(of, _)| of == agent).and_then(|(_, epoch)| epoch);
            *last.insert((*agent, row.epoch.or(before)))
        })
        .collect();
    let mut scattered: Vec<_> = placed.into_iter().zip(scattered).collect();
    scattered.sort_by_key(|(place, _)| *place);
    *sched = SchedPhases::default();
    for (_, (agent, name, row)) in scattered {
        let name = sched.names.intern(&name);
        sched.push(agent, SchedPhaseRow { name, ..row });
    }
}

/// How the host's clock is placed on the device's.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Alignment {
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    device_anchor_cycles: JsonNumber,
    #[serde(deserialize_with = "or_default")]
    host_anchor_ns: JsonNumber,
    #[serde(deserialize_with = "or_default")]
    host_anchor_min_ns: Option<JsonNumber>,
    #[serde(deserialize_with = "or_default")]
    host_anchor_max_ns: Option<JsonNumber>,
}

impl Alignment {
    /// Why times of the host cannot be placed among kernels that ran for so long; nothing if they can.
    fn refusal(&self, makespan_ns: f64) -> Option<String> {
        let anchor = self.host_anchor_ns.0;
        let least = self.host_anchor_min_ns.map_or(anchor, |bound| bound.0);
        let most = self.host_anchor_max_ns.map_or(anchor, |bound| bound.0);
        if self.status.is_empty() {
            Some("the file does not say how the host's clock is aligned".to_string())
        } else if self.status != "bounded" {
            Some(format!("alignment {:?}", self.status))
        } else if self.device_anchor_cycles.0 == 0 || anchor == 0 {
            Some("the alignment has no anchor".to_string())
        } else if !(least..=most).contains(&anchor) {
            Some(format!("the anchor {anchor} does not lie between {least} and {most}"))
        } else if (most - least) as f64 > makespan_ns {
            Some(format!("the anchor is known to {} ns, more than all kernels took", most - least))
        } else {
            None
        }
    }
}

/// What the host says of the completeness of its submits.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct HostCapture {
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    expected_records: Option<JsonNumber>,
    #[serde(deserialize_with = "or_default")]
    recorded_records: Option<JsonNumber>,
    #[serde(deserialize_with = "or_default")]
    dropped_records: JsonNumber,
}

impl HostCapture {
    /// Records that are missing by its own account.
    pub(super) fn lost(&self) -> u64 {
        let incomplete = matches!(self.status.as_str(), "dropped" | "incomplete");
        self.dropped_records.0.max(u64::from(incomplete))
    }

    /// Notes a capture that is complete by its own account and by its own counts is not.
    pub(super) fn note_counts(&self, path: &Path, quality: &mut Quality) {
        let counts = self.expected_records.zip(self.recorded_records);
        if let Some((expected, recorded)) = counts.filter(|(expected, recorded)| expected != recorded)
            && self.status == "complete"
        {
            quality.note(FindingKind::WrongCount, Some(path), || {
                format!("the host's capture is complete, expected {} records and has {}", expected.0, recorded.0)
            });
        }
    }
}

/// Submits on the host's clock, per thread.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct HostSubmits(Vec<Vec<HostSubmit>>);

#[derive(Deserialize)]
struct HostSubmit {
    #[serde(default, deserialize_with = "or_default")]
    submit_idx: JsonNumber,
    task_id: Option<JsonNumber>,
    start_host_ns: JsonNumber,
    end_host_ns: JsonNumber,
    run_epoch: Option<JsonNumber>,
}

/// What the host's submits are placed by: how its clock lies to the device's, the rate of that one, how long kernels ran, and the epochs
/// of the file.
pub(super) struct HostClock<'r> {
    pub(super) alignment: &'r Alignment,
    pub(super) hz: f64,
    pub(super) makespan: u64,
    pub(super) epochs: &'r mut Epochs,
}

impl HostSubmits {
    /// Adds the submits, placed on the device's clock. Those that cannot be placed are told: where nothing bounds the alignment, and in a
    /// file of several runs where nothing says of which they are.
    pub(super) fn place(self, orch: &mut OrchPhases, by: HostClock<'_>, path: &Path, quality: &mut Quality) {
        if !orch.is_empty() {
            return;
        }
        let HostClock { alignment, hz, makespan, epochs } = by;
        let count = self.0.iter().map(Vec::len).sum::<usize>() as u64;
        if let Some(refusal) = alignment.refusal(makespan as f64 * 1e9 / hz) {
            quality.note_many(FindingKind::Unplaced, Some(path), count, || refusal);
            return;
        }
        // Stamps of both clocks are too large for `f64`; how far they lie apart is not.
        let ticks = |ns: u64| {
            let ahead = (i128::from(ns) - i128::from(alignment.host_anchor_ns.0)) as f64 * hz / 1e9;
            let at = i128::from(alignment.device_anchor_cycles.0) + ahead.floor() as i128;
            at.clamp(0, i128::from(u64::MAX)) as u64
        };
        let several = epochs.several();
        for (thread, phases) in self.0.into_iter().enumerate().take(1 << 15) {
            for phase in phases {
                if several && phase.run_epoch.is_none() {
                    quality.note(FindingKind::Unplaced, Some(path), || "submits do not say of which epoch".to_string());
                    continue;
                }
                let submit_idx = u32::try_from(phase.submit_idx.0).unwrap_or(u32::MAX);
                let (start, end) = (ticks(phase.start_host_ns.0), ticks(phase.end_host_ns.0));
                let task = phase.task_id.unwrap_or_default().0;
                if let Some((task, _)) = epochs.place(phase.run_epoch.map(|epoch| epoch.0), task, 0) {
                    orch.push(thread as u16, start, end, task, submit_idx);
                }
            }
        }
    }
}
