//! Writing `chip_swimlane_records.json`.

use std::io::{self, Write};

use plimsoll_trace::{CoreClass, OrchPhases, SchedPhases, Trace};

/// Writes the records; rows have six columns.
pub fn write_swimlane(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let level = trace.facts.level.max(1);
    write!(out, "{{\n  \"chip_swimlane_level\": {level},\n  \"metadata\": {{\n")?;
    write!(out, "    \"clock_freq_hz\": {},\n    \"num_cores\": {}", clock_hz(trace), trace.cores.len())?;
    if trace.facts.virtual_time {
        out.write_all(b",\n    \"virtual\": true")?;
    }
    write_cores(trace, level, out)?;
    out.write_all(b"\n  },\n  \"aicore_tasks\": [")?;
    write_core_rows(trace, out)?;
    out.write_all(b"\n  ],\n  \"aicpu_tasks\": [")?;
    write_dispatches(trace, out)?;
    out.write_all(b"\n  ]")?;
    if level >= 3 {
        write_sched_phases(&trace.sched_phases, out)?;
    }
    if level >= 4 {
        write_orch_phases(&trace.orch_phases, out)?;
    }
    out.write_all(b"\n}\n")
}

/// What cores there are, and whose, within the metadata.
pub(super) fn write_cores(trace: &Trace, level: u8, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b",\n    \"core_types\": [")?;
    for (at, core) in trace.cores.iter().enumerate() {
        write!(out, "{}\"{}\"", separator(at, ", "), core_type(core.core_type))?;
    }
    out.write_all(b"]")?;
    if level >= 3 {
        out.write_all(b",\n    \"core_to_thread\": [")?;
        for (at, core) in trace.cores.iter().enumerate() {
            write!(out, "{}{}", separator(at, ", "), core.agent.unwrap_or(0))?;
        }
        out.write_all(b"]")?;
    }
    Ok(())
}

/// The reference knows two types; a worker runs anything and is written as the more numerous one.
pub(super) fn core_type(core_type: CoreClass) -> &'static str {
    if core_type == CoreClass::Aic { "aic" } else { "aiv" }
}

/// The clock's rate as a whole number, which is how the reference writes it.
pub(super) fn clock_hz(trace: &Trace) -> u64 {
    trace.clock.hz().round() as u64
}

fn write_core_rows(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let executions = &trace.executions;
    let mut first = true;
    // A task without an end has no row in this form.
    for at in (0..executions.len()).filter(|at| executions.end(*at).is_some()) {
        write!(
            out,
            "{}\n    [{}, {}, {}, {}, {}, {}]",
            if first { "" } else { "," },
            executions.core(at),
            executions.word(at),
            executions.token(at),
            executions.start(at),
            executions.end(at).unwrap_or(0),
            executions.receive_to_start(at)
        )?;
        first = false;
    }
    Ok(())
}

fn write_dispatches(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let executions = &trace.executions;
    let rows = (0..executions.len()).filter_map(|at| executions.lifecycle(at).map(|ends| (at, ends)));
    for (row, (at, (dispatch, finish))) in rows.enumerate() {
        let (core, token) = (executions.core(at), executions.token(at));
        write!(out, "{}\n    [{core}, {token}, {dispatch}, {finish}]", separator(row, ","))?;
    }
    Ok(())
}

fn write_sched_phases(phases: &SchedPhases, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b",\n  \"aicpu_scheduler_phases\": [")?;
    for agent in 0..phases.agents {
        write!(out, "{}\n    [", separator(agent as usize, ","))?;
        for (row, at) in phases.of_agent(agent).filter(|at| is_exclusive(phases, *at)).enumerate() {
            let (kind, tasks) = match phases.name_of(at) {
                "steal" => ("dispatch", 0),
                "park" => ("idle", phases.tasks[at]),
                known => (known, phases.tasks[at]),
            };
            let kind = serde_json::to_string(kind)?;
            write!(
                out,
                "{}\n      {{\"kind\": {kind}, \"start_cycles\": {}, \"end_cycles\": {}, \"loop_iter\": {}, \"tasks_processed\": {tasks}",
                separator(row, ","),
                phases.start[at],
                phases.end[at],
                phases.loop_iter[at]
            )?;
            if kind == "\"dispatch\"" {
                write!(out, ", \"pop_hit\": {}, \"pop_miss\": {}", phases.pop_hit[at], phases.pop_miss[at])?;
            }
            out.write_all(b"}")?;
        }
        out.write_all(b"\n    ]")?;
    }
    out.write_all(b"\n  ]")
}

/// Whether a phase excludes others in time, as all of the reference's do but those inside one; waits lie over others.
pub(super) fn is_exclusive(phases: &SchedPhases, at: usize) -> bool {
    !matches!(phases.name_of(at), "ring_wait" | "recorder_wait" | "gil_wait")
}

fn write_orch_phases(phases: &OrchPhases, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b",\n  \"aicpu_orchestrator_phases\": [")?;
    let agents = phases.agent.last().map_or(0, |last| u32::from(*last) + 1);
    for agent in (0..agents).map(|agent| agent as u16) {
        write!(out, "{}\n    [", separator(agent as usize, ","))?;
        for (row, at) in phases.of_agent(agent).enumerate() {
            write!(
                out,
                "{}\n      {{\"submit_idx\": {}, \"task_id\": {}, \"start_cycles\": {}, \"end_cycles\": {}}}",
                separator(row, ","),
                phases.submit_idx[at],
                phases.task[at],
                phases.start[at],
                phases.end[at]
            )?;
        }
        out.write_all(b"\n    ]")?;
    }
    out.write_all(b"\n  ]")
}

pub(super) fn separator(at: usize, between: &'static str) -> &'static str {
    if at == 0 { "" } else { between }
}
