//! Writing `chip_swimlane_records.json` in the reference's newest form: seven columns, a stream per scheduler, run epochs.

use std::io::{self, Write};

use plimsoll_trace::{SchedPhases, Trace};

use super::swimlane::{
    RunEpochs, core_type, is_exclusive, separator, write_core_rows, write_dispatches, write_head, write_submits,
};

/// The reference's name for the way in which task ids of a trace are made.
pub(super) fn runtime(trace: &Trace) -> &str {
    Some(trace.facts.runtime.as_str()).filter(|runtime| !runtime.is_empty()).unwrap_or("tensormap_and_ringbuffer")
}

/// Writes the records in the newest form.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_newest_swimlane(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let level = trace.facts.level.max(1);
    write_head(trace, Some(runtime(trace)), level, out)?;
    write_core_rows(trace, RunEpochs::Apart, out)?;
    out.write_all(b"\n  ],\n  \"scheduler_tasks\": {\"producer\": \"aicpu\", \"records\": [")?;
    write_dispatches(trace, RunEpochs::Apart, out)?;
    out.write_all(b"\n  ]}")?;
    if level >= 3 {
        write_streams(trace, out)?;
    }
    if level >= 4 {
        write_submits(trace, RunEpochs::Apart, out)?;
    }
    out.write_all(b"\n}\n")
}

/// Writes a stream for each scheduler that has phases.
fn write_streams(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let phases = &trace.sched_phases;
    out.write_all(b",\n  \"scheduler_records\": {\"streams\": [")?;
    let mut streams = 0;
    for agent in 0..phases.agents {
        let rows: Vec<usize> = phases.of_agent(agent).filter(|at| is_exclusive(phases, *at)).collect();
        if rows.is_empty() {
            continue;
        }
        let first = trace.cores.iter().find(|core| core.agent == Some(agent));
        write!(
            out,
            "{}\n    {{\"platform\": {}, \"producer\": \"aicpu\", \"scheduler_id\": {agent}, \"worker_id\": {agent}, \"core_type\": \"{}\", \"physical_core_id\": null, \"capture\": {{\"committed\": {}, \"dropped\": 0, \"truncated\": false}}, \"records\": [",
            separator(streams, ","),
            serde_json::to_string(&trace.facts.arch)?,
            first.map_or("aiv", |core| core_type(core.core_type)),
            rows.len(),
        )?;
        streams += 1;
        write_records(phases, &rows, out)?;
        write_metrics(phases, &rows, out)?;
    }
    out.write_all(b"\n  ]}")
}

fn write_records(phases: &SchedPhases, rows: &[usize], out: &mut impl Write) -> io::Result<()> {
    for (row, &at) in rows.iter().enumerate() {
        let kind = match phases.name_of(at) {
            "steal" => "worksteal",
            "park" => "idle",
            known => known,
        };
        // Phases do not record their round, so all have the same epoch.
        write!(
            out,
            "{}\n      {{\"start_cycles\": {}, \"end_cycles\": {}, \"run_epoch\": 0, \"loop_iter\": {}, \"kind\": {}, \"tasks_processed\": {}, \"task_id\": null}}",
            separator(row, ","),
            phases.start[at],
            phases.end[at],
            phases.loop_iter[at],
            serde_json::to_string(kind)?,
            phases.tasks[at],
        )?;
    }
    out.write_all(b"\n    ], ")
}

fn write_metrics(phases: &SchedPhases, rows: &[usize], out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\"metrics\": [")?;
    let popped = rows.iter().enumerate().filter(|(_, at)| phases.pop_hit[**at] > 0 || phases.pop_miss[**at] > 0);
    for (metric, (row, &at)) in popped.enumerate() {
        let (hit, miss) = (phases.pop_hit[at], phases.pop_miss[at]);
        let between = separator(metric, ", ");
        write!(out, "{between}{{\"record_index\": {row}, \"pop_hit\": {hit}, \"pop_miss\": {miss}}}")?;
    }
    out.write_all(b"]}")
}
