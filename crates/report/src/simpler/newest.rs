//! Writing `chip_swimlane_records.json` in the reference's newest form: seven columns, a stream per scheduler, run epochs.

use std::io::{self, Write};

use plimsoll_trace::{OrchPhases, SchedPhases, Trace};

use super::swimlane::{clock_hz, core_type, is_exclusive, separator, write_cores};

/// How ids of a trace are made, in the reference's words.
pub(super) fn runtime(trace: &Trace) -> &str {
    Some(trace.facts.runtime.as_str()).filter(|runtime| !runtime.is_empty()).unwrap_or("tensormap_and_ringbuffer")
}

/// Writes the records in the newest form.
pub fn write_newest_swimlane(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let level = trace.facts.level.max(1);
    write!(out, "{{\n  \"chip_swimlane_level\": {level},\n  \"metadata\": {{\n")?;
    write!(out, "    \"clock_freq_hz\": {},\n    \"num_cores\": {}", clock_hz(trace), trace.cores.len())?;
    write!(out, ",\n    \"runtime\": {}", serde_json::to_string(runtime(trace))?)?;
    if trace.facts.virtual_time {
        out.write_all(b",\n    \"virtual\": true")?;
    }
    write_cores(trace, level, out)?;
    out.write_all(b"\n  },\n  \"aicore_tasks\": [")?;
    write_core_rows(trace, out)?;
    out.write_all(b"\n  ],\n  \"scheduler_tasks\": {\"producer\": \"aicpu\", \"records\": [")?;
    write_dispatches(trace, out)?;
    out.write_all(b"\n  ]}")?;
    if level >= 3 {
        write_streams(trace, out)?;
    }
    if level >= 4 {
        write_submits(trace, &trace.orch_phases, out)?;
    }
    out.write_all(b"\n}\n")
}

fn write_core_rows(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let executions = &trace.executions;
    // A task without an end has no row in this form.
    let ended = (0..executions.len()).filter_map(|at| executions.end(at).map(|end| (at, end)));
    for (row, (at, end)) in ended.enumerate() {
        let (task, epoch) = trace.id_and_epoch(executions.word(at));
        let (core, token, start) = (executions.core(at), executions.token(at), executions.start(at));
        let receive = executions.receive_to_start(at);
        write!(out, "{}\n    [{core}, {task}, {token}, {start}, {end}, {receive}, {epoch}]", separator(row, ","))?;
    }
    Ok(())
}

fn write_dispatches(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let executions = &trace.executions;
    let rows = (0..executions.len()).filter_map(|at| executions.lifecycle(at).map(|ends| (at, ends)));
    for (row, (at, (dispatch, finish))) in rows.enumerate() {
        let (core, token) = (executions.core(at), executions.token(at));
        let (_, epoch) = trace.id_and_epoch(executions.word(at));
        write!(out, "{}\n    [{core}, {token}, {dispatch}, {finish}, {epoch}]", separator(row, ","))?;
    }
    Ok(())
}

/// A stream per scheduler; one that did nothing has none.
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
        // Which of several runs a phase was in is not recorded.
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

fn write_submits(trace: &Trace, phases: &OrchPhases, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b",\n  \"aicpu_orchestrator_phases\": [")?;
    let agents = phases.agent.last().map_or(0, |last| u32::from(*last) + 1);
    for agent in (0..agents).map(|agent| agent as u16) {
        write!(out, "{}\n    [", separator(agent as usize, ","))?;
        for (row, at) in phases.of_agent(agent).enumerate() {
            let (task, epoch) = trace.id_and_epoch(phases.task[at]);
            write!(
                out,
                "{}\n      {{\"submit_idx\": {}, \"task_id\": {task}, \"start_cycles\": {}, \"end_cycles\": {}, \"run_epoch\": {epoch}}}",
                separator(row, ","),
                phases.submit_idx[at],
                phases.start[at],
                phases.end[at],
            )?;
        }
        out.write_all(b"\n    ]")?;
    }
    out.write_all(b"\n  ]")
}
