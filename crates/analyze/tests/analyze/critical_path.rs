//! The critical path of the reference's files is the one its own tool reports, once our finer classes are folded into
//! its: everything before a task that followed a producer is its data-wait, everything before one that followed another
//! task on its core is its core-wait.

use crate::samples_dir::{RUNS, samples};
use plimsoll_analyze::{CriticalPath, Wait, critical_path};

/// A row of the reference's table.
struct Row {
    func: String,
    task_us: f64,
    compute_us: f64,
    stall_us: f64,
    kind: String,
}

fn rows(report: &str) -> Vec<Row> {
    let lines = report.lines().skip_while(|line| !line.starts_with("| # |")).skip(2);
    let number = |cell: &str| cell.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            Row {
                func: cells[2].to_string(),
                task_us: number(cells[3]),
                compute_us: number(cells[4]),
                stall_us: number(cells[5]),
                kind: cells[6].to_string(),
            }
        })
        .collect()
}

/// The number after a label: `label: 12.624 ms`.
fn told(report: &str, label: &str) -> Option<f64> {
    let line = report.lines().find(|line| line.trim_start().starts_with(label))?;
    line.split(label).nth(1)?.split_whitespace().next()?.parse().ok()
}

/// Equal as far as it was printed.
#[track_caller]
fn same(ours_ns: u64, theirs: f64, unit: f64, places: i32, what: &str) {
    let ours = ours_ns as f64 / unit;
    assert!((ours - theirs).abs() <= 0.5 * 10f64.powi(-places) + 1e-9, "{what}: ours {ours}, theirs {theirs}");
}

fn folded(path: &CriticalPath, kind: Wait) -> u64 {
    path.path.iter().filter(|hop| hop.kind == Some(kind)).map(|hop| hop.wait_ns).sum()
}

#[test]
fn the_path_is_the_references() {
    let Some(samples) = samples() else { return };
    for run in RUNS {
        let dir = samples.join(run).join("all");
        let report = std::fs::read_to_string(dir.join("critical_path_report.md")).expect("the tool's report");
        let trace = plimsoll_trace::open(&dir).expect("readable");
        let ours = critical_path(&trace).expect("tasks ran");
        assert_eq!(told(&report, "- tasks:"), Some(ours.summary.tasks as f64), "{run}");
        let edges = report.split("happens-before edges: ").nth(1).and_then(|rest| rest.lines().next());
        assert_eq!(edges.and_then(|n| n.parse().ok()), ours.summary.edges, "{run}");
        same(ours.summary.makespan_ns, told(&report, "- **makespan**:").expect("it"), 1e6, 3, run);
        same(ours.summary.static_ns, told(&report, "- **static CPM path**:").expect("it"), 1e6, 3, run);
        assert!(
            report.contains(&format!("over {} tasks", ours.summary.static_tasks)),
            "{run}: {}",
            ours.summary.static_tasks
        );
        same(ours.summary.parts.kernel, told(&report, "- compute:").expect("it"), 1e6, 3, run);
        for (label, kind) in
            [("- data-wait:", Wait::DataWait), ("- core-wait:", Wait::CoreWait), ("- front-gap:", Wait::FrontGap)]
        {
            same(folded(&ours, kind), told(&report, label).unwrap_or(0.0), 1e6, 3, &format!("{run}: {label}"));
        }
        let theirs = rows(&report);
        assert_eq!(ours.path.len(), theirs.len(), "{run}");
        for (at, (hop, row)) in ours.path.iter().zip(&theirs).enumerate() {
            let what = format!("{run}, step {at}");
            // Without a map of names the reference makes names up from the number.
            assert!(hop.func == row.func || row.func == hop.func.replace("kernel ", "F"), "{what}: {}", hop.func);
            same(hop.end_ns - hop.start_ns, row.task_us, 1e3, 1, &what);
            same(hop.kernel_ns, row.compute_us, 1e3, 1, &what);
            same(hop.wait_ns, row.stall_us, 1e3, 1, &what);
            let kind = hop.kind.map_or("", |kind| match kind {
                Wait::DataWait => "data-wait",
                Wait::CoreWait => "core-wait",
                Wait::FrontGap => "front-gap",
            });
            assert_eq!(kind, row.kind, "{what}");
        }
    }
}

#[test]
fn parts_tile_the_makespan_and_what_cannot_be_told_is_absent() {
    let Some(samples) = samples() else { return };
    for run in RUNS {
        for level in 1..=4 {
            let file = samples.join(run).join(format!("swimlane_l{level}/chip_swimlane_records.json"));
            let trace = plimsoll_trace::open(&file).expect("readable");
            let ours = critical_path(&trace).expect("tasks ran");
            let p = &ours.summary.parts;
            let told =
                [p.data_wait, p.scheduling, p.submit, p.ring_wait, p.recorder_wait].into_iter().flatten().sum::<u64>();
            let sum = p.kernel + p.core_wait + p.front_gap + told;
            assert_eq!(sum, ours.summary.makespan_ns, "{run}, level {level}");
            let hops: u64 = ours.path.iter().map(|hop| hop.kernel_ns + hop.wait_ns).sum();
            assert!(
                hops.abs_diff(ours.summary.makespan_ns) <= 1,
                "{run}, level {level}: only the window's end is rounded"
            );
            assert_eq!((p.scheduling.is_some(), p.submit.is_some()), (level >= 2, level >= 4), "{run}");
            let folded: Vec<&str> = ours.summary.folded.iter().map(|f| f.part).collect();
            assert_eq!(folded.contains(&"scheduling"), level < 2);
            assert!(
                ours.summary.bound_ns >= ours.summary.static_ns && ours.summary.static_ns <= ours.summary.makespan_ns
            );
        }
    }
}
