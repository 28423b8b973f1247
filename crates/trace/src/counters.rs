//! Readings of counters, one row per execution, as columns.

use crate::{Core, CoreClass, NO_KERNEL};
use plimsoll_abi::CounterGroup;
use plimsoll_abi::record::CounterReading;

/// One reading, to be added.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterRow {
    /// The agent that committed it.
    pub agent: u16,
    /// The core.
    pub core: u16,
    /// Task id and round.
    pub task: u64,
    /// The kernel, or [`NO_KERNEL`].
    pub kernel: u32,
    /// What the core can run.
    pub core_type: CoreClass,
    /// Cycles of the whole execution.
    pub total_cycles: u64,
    /// The group of events that was counted.
    pub group: u32,
}

/// The readings of a run.
#[derive(Clone, Debug, Default)]
pub struct CounterTable {
    /// The names of the counters, apart from the cycles of the whole execution.
    pub names: Vec<String>,
    /// Whether the cycles of whole executions were counted: some groups have none.
    pub has_cycles: bool,
    /// Readings of counters that were shared with others, so that a part of their counts is estimated.
    pub estimated: u64,
    /// Executions during which nothing could be counted. They are no readings.
    pub not_counted: u64,
    /// The readings, in the order of the file.
    pub rows: Vec<CounterRow>,
    /// The counts: as many per row as there are names.
    values: Vec<u64>,
}

impl CounterTable {
    /// A table of these counters and of cycles.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, has_cycles: true, ..Self::default() }
    }

    /// A table of what a group of ours counts.
    pub fn of_group(group: CounterGroup) -> Self {
        let names = group.counters().iter().skip(usize::from(group.has_cycles())).map(|name| (*name).to_string());
        Self { has_cycles: group.has_cycles(), ..Self::new(names.collect()) }
    }

    /// Adds a record of ours. One of another group than the table's was not counted.
    pub(crate) fn push_record(&mut self, core: u16, at: Core, record: &CounterReading, group: CounterGroup) {
        if record.quality == CounterReading::NOT_COUNTED || record.group != group.number() {
            self.not_counted += 1;
            return;
        }
        self.estimated += u64::from(record.quality == CounterReading::ESTIMATED);
        let cycles = usize::from(self.has_cycles);
        let row = CounterRow {
            agent: at.agent.unwrap_or(0),
            core,
            task: record.task,
            kernel: record.kernel,
            core_type: at.core_type,
            total_cycles: record.counts[..cycles].first().copied().unwrap_or(0),
            group: group.number().into(),
        };
        self.push(row, record.counts[cycles..].iter().copied());
    }

    /// Whether there is no reading.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a reading; a count that is missing is 0.
    pub fn push(&mut self, row: CounterRow, counts: impl IntoIterator<Item = u64>) {
        self.rows.push(row);
        self.values.extend(counts.into_iter().take(self.names.len()));
        self.values.resize(self.rows.len() * self.names.len(), 0);
    }

    /// The counts of reading `at`, in the order of the names.
    pub fn counts(&self, at: usize) -> &[u64] {
        let width = self.names.len();
        &self.values[at * width..(at + 1) * width]
    }

    /// The names of all columns: cycles first if they were counted, then the counters.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.has_cycles.then_some("cycles").into_iter().chain(self.names.iter().map(String::as_str))
    }

    /// The counts of reading `at`, in the order of the columns.
    pub fn values(&self, at: usize) -> impl Iterator<Item = u64> {
        self.has_cycles.then_some(self.rows[at].total_cycles).into_iter().chain(self.counts(at).iter().copied())
    }

    /// The kernel of reading `at`, if the file names it.
    pub fn kernel(&self, at: usize) -> Option<u32> {
        Some(self.rows[at].kernel).filter(|kernel| *kernel != NO_KERNEL)
    }
}
