//! Times of the reference's files that cannot all be true: they are read as they are, and told.

use std::path::Path;

use crate::deps::TaskIndex;
use crate::model::task_name;
use crate::{FindingKind, PhaseNames, Trace};

/// Notes what the executions of a file say that contradicts itself.
pub(super) fn note(trace: &mut Trace, path: &Path) {
    note_overlaps(trace, path);
    note_lifecycles(trace, path);
    note_submits(trace, path);
    note_phases(trace, path);
    // With dispatches every row has its own, and with dependencies a task says how many rows it asked for.
    if !trace.executions.has_lifecycle() && trace.deps.is_none() {
        note_several_cores(trace, path);
    }
}

fn note_overlaps(trace: &mut Trace, path: &Path) {
    let Trace { executions, quality, facts, .. } = trace;
    // Rows are sorted by core and start.
    let (mut core, mut until) = (None, 0);
    for at in 0..executions.len() {
        if core != Some(executions.core(at)) {
            (core, until) = (Some(executions.core(at)), 0);
        }
        if executions.start(at) < until {
            let told = || format!("{} on core {}", task_name(&facts.runtime, executions.word(at)), executions.core(at));
            quality.note(FindingKind::OverlapOnCore, Some(path), told);
        }
        until = until.max(executions.end(at).unwrap_or(0));
    }
}

fn note_lifecycles(trace: &mut Trace, path: &Path) {
    let Trace { executions, quality, facts, .. } = trace;
    for at in 0..executions.len() {
        let Some((dispatch, finish)) = executions.lifecycle(at) else { continue };
        let told = || format!("{} on core {}", task_name(&facts.runtime, executions.word(at)), executions.core(at));
        if dispatch > executions.start(at) {
            quality.note(FindingKind::DispatchAfterStart, Some(path), told);
        }
        if executions.end(at).is_some_and(|end| finish < end) {
            quality.note(FindingKind::FinishBeforeEnd, Some(path), told);
        }
    }
}

fn note_submits(trace: &mut Trace, path: &Path) {
    let Trace { executions, orch_phases: orch, quality, facts, .. } = trace;
    let mut index = TaskIndex::with_room_for(orch.task.iter().copied());
    // Of each task that was submitted: its word, when its submit began, and when its last kernel ended. A task may run before its submit
    // has ended: whoever takes it does not wait for the submitter.
    let mut tasks: Vec<(u64, u64, u64)> = Vec::new();
    // Older files tell several phases of one submit.
    for at in (0..orch.len()).filter(|at| orch.name_of(*at) == "orch_submit") {
        let (word, begin) = (orch.task[at], orch.start[at]);
        match index.get(word) {
            None => {
                index.insert(word, tasks.len() as u32);
                tasks.push((word, begin, 0));
            }
            Some(task) => {
                tasks[task].1 = tasks[task].1.min(begin);
                // A submit that names no task reads as one of task 0.
                if word != 0 {
                    quality.note(FindingKind::SubmittedTwice, Some(path), || task_name(&facts.runtime, word));
                }
            }
        }
    }
    for at in 0..executions.len() {
        if let Some((task, end)) = index.get(executions.word(at)).zip(executions.end(at)) {
            tasks[task].2 = tasks[task].2.max(end);
        }
    }
    for (word, _, _) in tasks.iter().filter(|(_, submitted, ended)| *ended > 0 && submitted > ended) {
        quality.note(FindingKind::SubmitAfterEnd, Some(path), || task_name(&facts.runtime, *word));
    }
}

/// Phases that may lie inside of others are left out, as they are in sums.
fn note_phases(trace: &mut Trace, path: &Path) {
    let phases = &trace.sched_phases;
    for agent in 0..phases.agents {
        let own = phases.of_agent(agent).filter(|at| phases.start[*at] < phases.end[*at]);
        let outer = own.filter(|at| !PhaseNames::is_inner(phases.name_of(*at)));
        let mut spans: Vec<(u64, u64)> = outer.map(|at| (phases.start[at], phases.end[at])).collect();
        spans.sort_unstable();
        let mut until = 0;
        for (start, end) in spans {
            if start < until {
                let told = || format!("scheduler {agent}, one that begins at tick {start}");
                trace.quality.note(FindingKind::PhaseOverlap, Some(path), told);
            }
            until = until.max(end);
        }
    }
}

fn note_several_cores(trace: &mut Trace, path: &Path) {
    let Trace { executions, quality, facts, .. } = trace;
    let mut index = TaskIndex::with_room_for((0..executions.len()).map(|at| executions.word(at)));
    // The first core of each task, and whether it was told already.
    let mut cores: Vec<(u16, bool)> = Vec::new();
    for at in 0..executions.len() {
        let Some(task) = index.get(executions.word(at)) else {
            index.insert(executions.word(at), cores.len() as u32);
            cores.push((executions.core(at), false));
            continue;
        };
        let (first, was_told) = cores[task];
        if first != executions.core(at) && !was_told {
            cores[task].1 = true;
            let told = || {
                format!(
                    "{} on cores {first} and {}",
                    task_name(&facts.runtime, executions.word(at)),
                    executions.core(at)
                )
            };
            quality.note(FindingKind::SeveralCores, Some(path), told);
        }
    }
}
