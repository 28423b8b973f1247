//! `pmu.csv`: a row per reading of counters.

use std::io::{self, Write};

use plimsoll_trace::{CoreClass, MachineMark, Trace};

/// Writes `pmu.csv`; ids of tasks carry their round.
///
/// # Errors
/// What `out` says.
pub fn write_pmu(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    write_readings(trace, out, |word| word)
}

/// The same with the ids that `id` gives to tasks.
pub(super) fn write_readings(trace: &Trace, out: &mut impl Write, id: impl Fn(u64) -> u64) -> io::Result<()> {
    let counters = &trace.counters;
    write!(out, "thread_id,core_id,task_id,func_id,core_type,pmu_total_cycles")?;
    counters.names.iter().try_for_each(|name| write!(out, ",{name}"))?;
    // Behind all columns of the reference, whose tools go by names.
    let (name, cell) = match MachineMark::of(&trace.facts) {
        mark if mark.is_real() => (String::new(), String::new()),
        mark => (format!(",{}", MachineMark::COLUMN), format!(",{}", mark.cell())),
    };
    writeln!(out, ",event_type{name}")?;
    for (at, row) in counters.rows.iter().enumerate() {
        // A worker of a CPU run is a vector core to the reference.
        let core_type = if row.core_type == CoreClass::Aic { 0 } else { 1 };
        let kernel = counters.kernel(at).map_or(-1, i64::from);
        write!(out, "{},{},{:#018x},{kernel},{core_type},{}", row.agent, row.core, id(row.task), row.total_cycles)?;
        counters.counts(at).iter().try_for_each(|count| write!(out, ",{count}"))?;
        writeln!(out, ",{}{cell}", row.group)?;
    }
    Ok(())
}
