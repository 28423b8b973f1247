//! Times of the reference's files that cannot all be true: they are read as they are, and told.

use std::path::Path;

use crate::deps::TaskIndex;
use crate::model::task_name;
use crate::{FindingKind, Trace};

/// Notes what the executions of a file say that contradicts itself.
pub(super) fn note(trace: &mut Trace, path: &Path) {
    note_overlaps(trace, path);
    note_lifecycles(trace, path);
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
