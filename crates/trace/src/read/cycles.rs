//! Cycles in dependencies, which only a broken file has: tasks that wait for each other would never have run.

use crate::deps::Dependencies;
use crate::model::task_name;
use crate::{FindingKind, Quality};

/// Leaves out the edges that close a cycle: of the tasks that would wait for ever, those edges whose producer the file has after
/// its consumer.
pub(super) fn leave_out(deps: &mut Dependencies, runtime: &str, quality: &mut Quality) {
    if !may_have_cycle(deps) {
        return;
    }
    let waiting = waiting_for_ever(deps);
    let Dependencies { tasks, edges, .. } = deps;
    edges.retain(|edge| {
        let (pred, succ) = (edge.pred as usize, edge.succ as usize);
        let closes = waiting[pred] && waiting[succ] && pred > succ;
        if closes {
            quality.note(FindingKind::DependencyCycle, None, || {
                format!("from {} to {}", task_name(runtime, tasks[pred].word), task_name(runtime, tasks[succ].word))
            });
        }
        !closes
    });
}

/// Whether an edge goes against the order of the tasks. Tasks that only edges name are last in the list, but come first if they
/// wait for nobody.
fn may_have_cycle(deps: &Dependencies) -> bool {
    let mut waits = vec![false; deps.tasks.len()];
    deps.edges.iter().for_each(|edge| waits[edge.succ as usize] = true);
    let comes_first = |task: u32| deps.tasks[task as usize].implied && !waits[task as usize];
    deps.edges.iter().any(|edge| edge.pred > edge.succ && !comes_first(edge.pred))
}

/// The tasks of cycles, and those that wait for one of them.
fn waiting_for_ever(deps: &Dependencies) -> Vec<bool> {
    let tasks = deps.tasks.len();
    let mut by_pred: Vec<(u32, u32)> = deps.edges.iter().map(|edge| (edge.pred, edge.succ)).collect();
    by_pred.sort_unstable();
    let mut missing = vec![0u32; tasks];
    by_pred.iter().for_each(|(_, succ)| missing[*succ as usize] += 1);
    let mut ready: Vec<u32> = (0..tasks as u32).filter(|task| missing[*task as usize] == 0).collect();
    while let Some(task) = ready.pop() {
        let first = by_pred.partition_point(|(pred, _)| *pred < task);
        for (_, succ) in by_pred[first..].iter().take_while(|(pred, _)| *pred == task) {
            missing[*succ as usize] -= 1;
            if missing[*succ as usize] == 0 {
                ready.push(*succ);
            }
        }
    }
    missing.into_iter().map(|missing| missing > 0).collect()
}
