//! Our numbers on the reference's files are those that the reference's own tools printed.
//!
//! The files lie beside the repository and not in it; where they are absent the test says so and passes.

use crate::samples_dir::{RUNS, samples};
use plimsoll_analyze::{FunctionStats, stats};

/// A row of the table that `swimlane_converter` prints, times in microseconds.
#[derive(Debug)]
struct Row {
    kernel: u32,
    name: String,
    count: u64,
    exec: f64,
    latency: f64,
    exec_percent: f64,
    head: f64,
    tail: f64,
    local: f64,
}

fn printed(text: &str) -> (Vec<Row>, f64) {
    let mut lines = text.lines().skip_while(|l| !l.starts_with("Func_ID")).skip(2);
    let mut rows = Vec::new();
    for line in lines.by_ref().take_while(|l| !l.starts_with("---")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].trim_end_matches('%').parse::<f64>().expect("a number");
        rows.push(Row {
            kernel: number(0) as u32,
            name: words[1].to_string(),
            count: number(2) as u64,
            exec: number(3),
            latency: number(4),
            exec_percent: number(5),
            head: number(6),
            tail: number(7),
            local: number(9),
        });
    }
    let total = text.lines().find_map(|l| l.strip_prefix("Total Test Time: ")).expect("a total");
    (rows, total.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number"))
}

/// Equal to the printed number as far as it was printed: two places of a microsecond.
fn assert_us(ours_ns: f64, theirs_us: f64, what: &str) {
    let ours = ours_ns / 1e3;
    assert!((ours - theirs_us).abs() <= 0.005 + 1e-6, "{what}: ours {ours}, theirs {theirs_us}");
}

fn compare(ours: &FunctionStats, theirs: &Row, what: &str) {
    let what = format!("{what}, function {}", theirs.kernel);
    let lifecycle = ours.lifecycle.as_ref().expect("level 4 has lifecycles");
    assert_eq!(ours.count, theirs.count, "{what}");
    assert_us(ours.exec_avg_ns, theirs.exec, &format!("{what}: exec"));
    assert_us(lifecycle.latency_avg_ns, theirs.latency, &format!("{what}: latency"));
    assert_us(lifecycle.head_avg_ns, theirs.head, &format!("{what}: head"));
    assert_us(lifecycle.tail_avg_ns, theirs.tail, &format!("{what}: tail"));
    assert_us(ours.local_avg_ns, theirs.local, &format!("{what}: local"));
    assert!((lifecycle.exec_of_latency * 100.0 - theirs.exec_percent).abs() <= 0.051, "{what}: exec share");
    // Without a map of names the reference makes names up from the number.
    if !theirs.name.starts_with("func_") {
        assert_eq!(ours.name, theirs.name, "{what}");
    }
}

#[test]
fn statistics_equal_those_of_the_reference() {
    let Some(samples) = samples() else { return };
    for run in RUNS {
        let dir = samples.join(run).join("all");
        let text = std::fs::read_to_string(dir.join("swimlane_converter.stdout.txt")).expect("the tool's answers");
        let (rows, total_us) = printed(&text);
        let trace = plimsoll_trace::open(&dir).expect("a readable capture");
        assert!(trace.quality.is_sound(), "{run}: {:?}", trace.quality);
        let ours = stats(&trace);
        assert_eq!(ours.functions.len(), rows.len(), "{run}");
        for row in &rows {
            let function = ours.functions.iter().find(|f| f.kernel == Some(row.kernel)).expect("the same function");
            compare(function, row, run);
        }
        assert_us(ours.wall_ns.expect("level 4") as f64, total_us, &format!("{run}: total time"));
    }
}

#[test]
fn one_file_alone_is_enough() {
    let Some(samples) = samples() else { return };
    for level in 1..=4 {
        let file = samples.join(format!("vector_example-a2a3sim/swimlane_l{level}/chip_swimlane_records.json"));
        let trace = plimsoll_trace::open(&file).expect("readable");
        assert_eq!((trace.facts.level, trace.executions.len()), (level, 5));
        assert_eq!(trace.executions.has_lifecycle(), level >= 2);
        assert_eq!(trace.sched_phases.is_empty(), level < 3);
        assert_eq!(trace.orch_phases.len(), if level == 4 { 5 } else { 0 });
        let ours = stats(&trace);
        assert_eq!(ours.functions.len(), 1, "without deps.json no function is told apart");
        assert_eq!((ours.functions[0].kernel, ours.functions[0].count), (None, 5));
    }
}

#[test]
fn dependencies_and_scopes_are_read_as_the_viewers_show_them() {
    let Some(samples) = samples() else { return };
    let trace = plimsoll_trace::open(&samples.join("paged_attention-a2a3sim/all")).expect("readable");
    let deps = trace.deps.as_ref().expect("deps.json is there");
    assert_eq!(deps.edges.len(), 128);
    assert_eq!(deps.pairs().len(), 92);
    assert_eq!(deps.tasks.len(), 68, "four tasks only allocate and are named by edges alone");
    assert_eq!(deps.tasks.iter().filter(|t| t.implied).count(), 4);
    assert_eq!(deps.tensors.len(), 96);

    let trace = plimsoll_trace::open(&samples.join("noop_nested5k-a2a3sim/all")).expect("readable");
    assert_eq!(trace.deps.as_ref().map(|d| d.pairs().len()), Some(7348));
    assert_eq!(trace.scopes.samples.len(), 5346);
    let table = plimsoll_analyze::scopes(&trace);
    assert_eq!(table.scopes.iter().map(|s| s.entered).sum::<u64>(), 2673);
    // Scopes from depth 3 on share ring 3, so an outer one counts the tasks of those inside it too.
    let outer = table.scopes.iter().filter(|s| s.depth <= 3);
    assert_eq!(outer.map(|s| s.tasks).sum::<u64>(), 5010);
    assert_eq!(table.peaks, "high_water");
    assert!(table.scopes.windows(2).all(|w| w[0].fullest >= w[1].fullest));
}
