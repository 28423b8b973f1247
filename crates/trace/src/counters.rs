//! Readings of hardware counters, one row per execution, as columns.

use crate::{CoreClass, NO_KERNEL};

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
    /// What was counted, besides all cycles.
    pub names: Vec<String>,
    /// The readings, in the order of the file.
    pub rows: Vec<CounterRow>,
    /// The counts: as many per row as there are names.
    values: Vec<u64>,
}

impl CounterTable {
    /// CounterTable of these names.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, ..Self::default() }
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

    /// The kernel of reading `at`, if the file names it.
    pub fn kernel(&self, at: usize) -> Option<u32> {
        Some(self.rows[at].kernel).filter(|kernel| *kernel != NO_KERNEL)
    }
}
