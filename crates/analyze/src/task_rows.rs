//! One row per task that ran: its times, its place in the graph and what it waited for. What tables of a run are made of.

use plimsoll_trace::Trace;

use crate::critical_path::{Parts, Wait, observed};
use crate::task_table::{NONE, TaskTable};
use crate::why::TaskWaits;

/// A task that ran. Times are ticks of the trace's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskRow {
    /// Task id and round.
    pub word: u64,
    /// What its first execution ran, if a file names it.
    pub kernel: Option<u32>,
    /// End of its submit, if that was recorded.
    pub submitted: Option<u64>,
    /// Earliest dispatch, if that was recorded.
    pub dispatch: Option<u64>,
    /// First start of its executions.
    pub start: u64,
    /// Last end of its executions.
    pub end: u64,
    /// Latest finish, if that was recorded.
    pub finish: Option<u64>,
    /// Executions.
    pub executions: u32,
    /// Timed tasks that it waited for.
    pub fanin: u32,
    /// Timed tasks that waited for it.
    pub fanout: u32,
    /// Whom it followed.
    pub followed: Option<u64>,
    /// Its wait by cause, in nanoseconds, as `why` tells it; of the path's first task it is the front gap, so that those of the path add up
    /// to the makespan.
    pub waits: Parts,
    /// Whether it is on the observed critical path.
    pub critical: bool,
    /// Kernel time on that path, in nanoseconds: without what overlaps whom it followed. Absent off the path.
    pub path_kernel_ns: Option<u64>,
}

/// The tasks of a trace that ran, by core and start of their first execution.
pub fn task_rows(trace: &Trace) -> Vec<TaskRow> {
    let time = trace.executions.kernel_time();
    let Some(first) = time.first_start() else { return Vec::new() };
    let table = TaskTable::new(trace);
    let waits = TaskWaits::of(trace, &table);
    let mut on_path = vec![None; table.len()];
    let steps = time.window().map_or(Vec::new(), |window| observed(trace, &table, window));
    steps.iter().for_each(|step| on_path[step.task as usize] = Some(step.ns(trace, &table, first).1));
    let begin = steps.first().filter(|step| step.kind == Wait::FrontGap);
    let mut fanout = vec![0u32; table.len()];
    for task in 0..table.len() as u32 {
        table.preds.of(task).iter().for_each(|pred| fanout[*pred as usize] += 1);
    }
    let row = |task: u32| {
        let at = task as usize;
        let (step, own) = waits.divided(task);
        TaskRow {
            word: table.word[at],
            kernel: table.kernel(trace, task),
            submitted: table.submitted(task),
            dispatch: table.dispatch(task),
            start: table.start[at],
            end: table.end[at],
            finish: table.finish(task),
            executions: table.rows.of(task).len() as u32,
            fanin: table.preds.of(task).len() as u32,
            fanout: fanout[at],
            followed: (step.pred != NONE).then(|| table.word[step.pred as usize]),
            waits: begin.filter(|begin| begin.task == task).map_or(own, |begin| waits.on_path(begin)),
            critical: on_path[at].is_some(),
            path_kernel_ns: on_path[at],
        }
    };
    (0..table.len() as u32).map(row).collect()
}
