//! Readings of hardware counters, for the scripts: what each execution of a task counted.

use plimsoll_trace::Trace;

use super::Answers;
use super::columns::{Column, ColumnPart, Packing};
use super::lanes::Tasks;

/// Adds a column entry per reading, in order of tasks, and gives the names of what was counted and how many readings there are.
pub(super) fn put(trace: &Trace, tasks: &Tasks, columns: &mut Packing) -> (Vec<String>, usize) {
    let table = &trace.counters;
    let mut last = 0;
    let mut rows: Vec<(u64, usize)> =
        table.rows.iter().enumerate().map(|(at, row)| (tasks.place(row.task, &mut last), at)).collect();
    rows.retain(|(place, _)| *place > 0);
    if rows.is_empty() {
        return (Vec::new(), 0);
    }
    rows.sort_unstable();
    let column = |name| Column::new(name, ColumnPart::Counters);
    let (mut task, mut core, mut value) = (column("count.task"), column("count.core"), column("count.value"));
    for (place, at) in &rows {
        task.put_delta(*place);
        core.put(u64::from(table.rows[*at].core));
        table.values(*at).for_each(|count| value.put(count));
    }
    columns.extend([task, core, value]);
    (table.columns().map(str::to_owned).collect(), rows.len())
}

/// The ratios that the counters allow, as places among the columns; none where no reading is on the page.
pub(super) fn ratios(answers: &Answers, readings: usize) -> Vec<(&'static str, usize, usize)> {
    let Some(stats) = answers.stats.counters.as_ref().filter(|_| readings > 0) else { return Vec::new() };
    stats.ratio_names.iter().zip(&stats.ratio_columns).map(|(name, (above, below))| (*name, *above, *below)).collect()
}
