//! Reader of `pmu.csv`: a row per execution, columns by the names of the header, counters between those that are known.

use std::path::Path;

use super::read_file;
use crate::counters::CounterRow;
use crate::{CoreClass, CounterTable, Error, FindingKind, MachineMark, NO_KERNEL, Trace};

/// Columns that are no counters.
const KNOWN: [&str; 8] =
    ["thread_id", "core_id", "task_id", "func_id", "core_type", "pmu_total_cycles", "event_type", MachineMark::COLUMN];

pub(super) fn read(path: &Path, trace: &mut Trace) -> Result<(), Error> {
    let bytes = read_file(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header: Vec<&str> = lines.next().map_or(Vec::new(), |(_, line)| line.split(',').map(str::trim).collect());
    let columns = Columns::of(&header).map_err(|missing| Error::Table {
        what: "readings of counters",
        path: path.to_path_buf(),
        line: 1,
        reason: format!("there is no column {missing:?}"),
    })?;
    let mut counters = CounterTable::new(columns.counters.iter().map(|at| header[*at].to_string()).collect());
    for (number, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if let Some(cell) = columns.machine.and_then(|at| cells.get(at)).filter(|_| counters.is_empty()) {
            MachineMark::from_cell(cell).note(trace);
        }
        match columns.row(&cells) {
            Some((row, counts)) => counters.push(row, counts),
            None => trace.quality.note(FindingKind::BadRecord, Some(path), || format!("line {}: {line:?}", number + 1)),
        }
    }
    trace.counters = counters;
    Ok(())
}

/// Where each column is.
struct Columns {
    thread: Option<usize>,
    core: usize,
    task: usize,
    kernel: Option<usize>,
    core_type: Option<usize>,
    total: usize,
    group: Option<usize>,
    /// Written by us only: what machine the run had.
    machine: Option<usize>,
    counters: Vec<usize>,
}

impl Columns {
    /// From a header; or the name of a column that it lacks.
    fn of(header: &[&str]) -> Result<Self, &'static str> {
        let find = |name: &str| header.iter().position(|column| *column == name);
        Ok(Self {
            thread: find("thread_id"),
            core: find("core_id").ok_or("core_id")?,
            task: find("task_id").ok_or("task_id")?,
            kernel: find("func_id"),
            core_type: find("core_type"),
            total: find("pmu_total_cycles").ok_or("pmu_total_cycles")?,
            group: find("event_type"),
            machine: find(MachineMark::COLUMN),
            counters: (0..header.len()).filter(|at| !KNOWN.contains(&header[*at])).collect(),
        })
    }

    /// A row; none if a cell is missing or no number.
    fn row(&self, cells: &[&str]) -> Option<(CounterRow, Vec<u64>)> {
        let number = |at: usize| parse(cells.get(at)?);
        let optional = |at: Option<usize>| at.map_or(Some(0), number);
        // The file has −1 for an unknown kernel.
        let kernel = self.kernel.map_or(Some(NO_KERNEL), |at| {
            let cell = cells.get(at)?;
            if cell.starts_with('-') { Some(NO_KERNEL) } else { u32::try_from(parse(cell)?).ok() }
        })?;
        let core_type = match self.core_type.map(number) {
            Some(Some(0)) => CoreClass::Aic,
            Some(Some(1)) => CoreClass::Aiv,
            Some(None) => return None,
            _ => CoreClass::Any,
        };
        let row = CounterRow {
            agent: u16::try_from(optional(self.thread)?).ok()?,
            core: u16::try_from(number(self.core)?).ok()?,
            task: number(self.task)?,
            kernel,
            core_type,
            total_cycles: number(self.total)?,
            group: u32::try_from(optional(self.group)?).ok()?,
        };
        let counts = self.counters.iter().map(|at| number(*at)).collect::<Option<Vec<u64>>>()?;
        Some((row, counts))
    }
}

fn parse(cell: &str) -> Option<u64> {
    match cell.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => cell.parse().ok(),
    }
}
