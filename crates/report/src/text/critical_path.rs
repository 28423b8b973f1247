//! The critical path, and why a task started only when it did.

use crate::plain::one_line;
use std::fmt::Write;

use plimsoll_analyze::{CriticalPath, Hop, Parts, TaskWhy, Wait};

use super::{Table, duration, percent};

/// Most steps of a path that are shown; JSON has them all.
const MOST: usize = 12;

/// What the makespan is made of, by function, and the longest steps of the path.
pub fn critical_path(path: &CriticalPath) -> String {
    let (path, steps) = (&path.summary, steps(&path.path));
    let makespan = path.makespan_ns.max(1) as f64;
    let share = |ns: u64| match ns as f64 / makespan {
        more if more > 1.0 => format!("{} (more than the makespan: the file contradicts itself)", duration(ns as f64)),
        share => format!("{} ({})", duration(ns as f64), percent(share)),
    };
    let edges = path.edges.map_or("no dependencies recorded".to_string(), |edges| format!("{edges} edges"));
    let mut text = format!(
        "{} tasks ran, {edges}, makespan {}\n  dependencies alone: {} over {} tasks; lower bound: {} by {}\n\n",
        path.tasks,
        duration(path.makespan_ns as f64),
        share(path.static_ns),
        path.static_tasks,
        share(path.bound_ns),
        path.bound_by,
    );
    let mut parts = Table::new(&["the makespan is", "time", "share"]);
    // Only kernels of an interpreter wait for its lock; of all others there is nothing to tell.
    let shown = named(&path.parts).into_iter().filter(|(name, ns)| *name != "gil_wait" || ns.is_some());
    for (name, ns) in shown {
        let (time, part) = match ns {
            Some(ns) => (duration(ns as f64), percent(ns as f64 / makespan)),
            None => ("–".to_string(), "not recorded".to_string()),
        };
        parts.rows.push(vec![name.to_string(), time, part]);
    }
    let mut functions = Table::new(&["function on the path", "tasks", "kernel", "share", "waits before"]);
    for f in &path.functions {
        let kernel = duration(f.kernel_ns as f64);
        let cells = [f.count.to_string(), kernel, percent(f.share), duration(f.wait_ns as f64)];
        functions.rows.push([f.func.clone()].into_iter().chain(cells).collect());
    }
    let _ = writeln!(text, "{parts}\n{functions}");
    text.push_str(&steps);
    text
}

fn named(parts: &Parts) -> [(&'static str, Option<u64>); 9] {
    [
        ("kernel", Some(parts.kernel)),
        ("data_wait", parts.data_wait),
        ("core_wait", Some(parts.core_wait)),
        ("scheduling", parts.scheduling),
        ("submit", parts.submit),
        ("ring_wait", parts.ring_wait),
        ("recorder_wait", parts.recorder_wait),
        ("gil_wait", parts.gil_wait),
        ("front_gap", Some(parts.front_gap)),
    ]
}

fn word(kind: Wait) -> &'static str {
    match kind {
        Wait::DataWait => "data",
        Wait::CoreWait => "core",
        Wait::FrontGap => "front gap",
    }
}

/// The steps that take longest, in the order of the path.
fn steps(path: &[Hop]) -> String {
    let mut longest: Vec<usize> = (0..path.len()).collect();
    let length = |hop: &Hop| hop.kernel_ns + hop.wait_ns;
    longest.sort_by_key(|at| std::cmp::Reverse(length(&path[*at])));
    longest.truncate(MOST);
    longest.sort_unstable();
    let mut table = Table::new(&["step", "task", "function", "waits", "for", "after", "kernel", "cores"]);
    for at in longest {
        let hop = &path[at];
        let cores: Vec<String> = hop.cores.iter().map(u16::to_string).collect();
        table.rows.push(vec![
            format!("{}", at + 1),
            hop.task.clone(),
            hop.func.clone(),
            duration(hop.wait_ns as f64),
            hop.kind.map_or("", word).to_string(),
            hop.pred.clone().unwrap_or_default(),
            duration(hop.kernel_ns as f64),
            cores.join(","),
        ]);
    }
    let left = path.len().saturating_sub(MOST);
    let more =
        if left > 0 { format!("({left} shorter steps are left out; --json has them all)\n") } else { String::new() };
    format!("{table}{more}")
}

/// Why a task started only when it did.
pub fn why(why: &TaskWhy) -> String {
    let after = match &why.pred {
        Some(pred) => format!("{} after {pred} ({})", duration(why.wait_ns as f64), word(why.kind)),
        None => format!("{} after the first kernel of the run", duration(why.wait_ns as f64)),
    };
    let mut text = format!(
        "{} ({}) started at {}, {after}, and ran {}.\n\n",
        why.task,
        one_line(&why.func, 200),
        duration(why.start_ns as f64),
        duration((why.end_ns - why.start_ns) as f64),
    );
    let mut table = Table::new(&["it waited for", "time", "who"]);
    for cause in &why.causes {
        let time = cause.ns.map_or("not recorded".to_string(), |ns| duration(ns as f64));
        table.rows.push(vec![cause.cause.to_string(), time, cause.who.clone().unwrap_or_default()]);
    }
    let _ = write!(text, "{table}");
    if !why.producers.is_empty() {
        let names: Vec<String> = why
            .producers
            .iter()
            .take(MOST)
            .map(|p| format!("{} until {}", p.task, duration(p.end_ns as f64)))
            .collect();
        let left = why.producers.len().saturating_sub(MOST);
        let more = if left > 0 { format!(" and {left} more") } else { String::new() };
        let _ = writeln!(text, "producers: {}{more}", names.join(", "));
    }
    text
}
