//! Writing `chip_swimlane_records.json`.

use std::io::{self, Write};

use plimsoll_trace::{CoreClass, FindingKind, MachineMark, SchedPhases, Trace};

/// Which run of several a row is of.
#[derive(Clone, Copy)]
pub(super) enum RunEpochs {
    /// The task's id carries it.
    InId,
    /// A column of its own has it.
    Apart,
}

impl RunEpochs {
    /// The id of a task as it is written, and its run with what comes before that: nothing where the id carries it.
    fn id_and_epoch(self, trace: &Trace, word: u64, before: &str) -> (u64, String) {
        match self {
            RunEpochs::InId => (word, String::new()),
            RunEpochs::Apart => {
                let (task, epoch) = trace.id_and_epoch(word);
                (task, format!("{before}{epoch}"))
            }
        }
    }
}

/// Writes the records; rows have six columns.
///
/// # Errors
/// What `out` fails with when it is written to.
pub fn write_swimlane(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let level = trace.facts.level.max(1);
    // Readers of this form take ids for ring and number unless the file says otherwise.
    write_head(trace, Some(trace.facts.runtime.as_str()).filter(|runtime| !runtime.is_empty()), level, out)?;
    write_core_rows(trace, RunEpochs::InId, out)?;
    out.write_all(b"\n  ],\n  \"aicpu_tasks\": [")?;
    write_dispatches(trace, RunEpochs::InId, out)?;
    out.write_all(b"\n  ]")?;
    if level >= 3 {
        write_sched_phases(&trace.sched_phases, out)?;
    }
    if level >= 4 {
        write_submits(trace, RunEpochs::InId, out)?;
    }
    out.write_all(b"\n}\n")
}

/// Level and metadata, up to where the rows of cores begin.
pub(super) fn write_head(trace: &Trace, runtime: Option<&str>, level: u8, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{{\n  \"chip_swimlane_level\": {level},\n  \"metadata\": {{\n")?;
    // The reference writes the clock's rate as a whole number.
    let hz = trace.clock.hz().round() as u64;
    write!(out, "    \"clock_freq_hz\": {hz},\n    \"num_cores\": {}", trace.cores.len())?;
    if let Some(runtime) = runtime {
        write!(out, ",\n    \"runtime\": {}", serde_json::to_string(runtime)?)?;
    }
    match lost(trace) {
        0 => {}
        lost => write!(out, ",\n    \"lost_records\": {lost}")?,
    }
    let MachineMark { virtual_time, emulated, arch } = MachineMark::of(&trace.facts);
    for (key, says) in [("virtual", virtual_time), ("emulated", emulated)] {
        if says {
            write!(out, ",\n    \"{key}\": true")?;
        }
    }
    if !arch.is_empty() {
        write!(out, ",\n    \"arch\": {}", serde_json::to_string(&arch)?)?;
    }
    write_cores(trace, level, out)?;
    out.write_all(b"\n  },\n  \"aicore_tasks\": [")
}

/// Records that the capture says it has not, whoever lost them.
fn lost(trace: &Trace) -> u64 {
    let kinds = [FindingKind::ReportedLoss, FindingKind::SequenceGap, FindingKind::BadChecksum];
    // Those of scopes are told in the file of scopes.
    let is_of_scopes = |file: &Option<String>| file.as_ref().is_some_and(|file| file.starts_with("scope_stats"));
    let findings = trace.quality.findings().iter().filter(|f| kinds.contains(&f.kind) && !is_of_scopes(&f.file));
    findings.fold(0, |lost, finding| lost.saturating_add(finding.count))
}

/// What cores there are, and whose, within the metadata.
fn write_cores(trace: &Trace, level: u8, out: &mut impl Write) -> io::Result<()> {
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

/// The rows of cores. A task without an end has none in these forms.
pub(super) fn write_core_rows(trace: &Trace, epochs: RunEpochs, out: &mut impl Write) -> io::Result<()> {
    let executions = &trace.executions;
    let ended = (0..executions.len()).filter_map(|at| executions.end(at).map(|end| (at, end)));
    for (row, (at, end)) in ended.enumerate() {
        let (task, epoch) = epochs.id_and_epoch(trace, executions.word(at), ", ");
        let (core, token, start) = (executions.core(at), executions.token(at), executions.start(at));
        let receive = executions.receive_to_start(at);
        write!(out, "{}\n    [{core}, {task}, {token}, {start}, {end}, {receive}{epoch}]", separator(row, ","))?;
    }
    Ok(())
}

/// What schedulers saw of each execution.
pub(super) fn write_dispatches(trace: &Trace, epochs: RunEpochs, out: &mut impl Write) -> io::Result<()> {
    let executions = &trace.executions;
    let rows = (0..executions.len()).filter_map(|at| executions.lifecycle(at).map(|ends| (at, ends)));
    for (row, (at, (dispatch, finish))) in rows.enumerate() {
        let (core, token) = (executions.core(at), executions.token(at));
        let (_, epoch) = epochs.id_and_epoch(trace, executions.word(at), ", ");
        write!(out, "{}\n    [{core}, {token}, {dispatch}, {finish}{epoch}]", separator(row, ","))?;
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

/// What orchestrators submitted.
pub(super) fn write_submits(trace: &Trace, epochs: RunEpochs, out: &mut impl Write) -> io::Result<()> {
    let phases = &trace.orch_phases;
    out.write_all(b",\n  \"aicpu_orchestrator_phases\": [")?;
    let agents = phases.agent.last().map_or(0, |last| u32::from(*last) + 1);
    for agent in (0..agents).map(|agent| agent as u16) {
        write!(out, "{}\n    [", separator(agent as usize, ","))?;
        for (row, at) in phases.of_agent(agent).enumerate() {
            let (task, epoch) = epochs.id_and_epoch(trace, phases.task[at], ", \"run_epoch\": ");
            write!(
                out,
                "{}\n      {{\"submit_idx\": {}, \"task_id\": {task}, \"start_cycles\": {}, \"end_cycles\": {}{epoch}}}",
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

pub(super) fn separator(at: usize, between: &'static str) -> &'static str {
    if at == 0 { "" } else { between }
}
