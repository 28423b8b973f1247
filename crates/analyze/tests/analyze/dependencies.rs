//! The graph is the one that the reference's viewer prints.

use crate::samples_dir::{RUNS, samples};
use plimsoll_analyze::{DependencyGraph, graph};

/// `(2, 17)` as we write it.
fn task(pair: &str) -> String {
    let numbers: Vec<&str> = pair.trim_matches(|c| c == '(' || c == ')').split(", ").collect();
    format!("r{}t{}", numbers[0], numbers[1])
}

fn check(text: &str, ours: &DependencyGraph, run: &str) {
    let number = |label: &str| -> u64 {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{label}"))
    };
    assert_eq!(number("tasks:"), ours.tasks, "{run}");
    assert_eq!(number("unique_task_edges:"), ours.pairs, "{run}");
    assert_eq!(number("annotated_edges:"), ours.annotated_edges, "{run}");
    assert_eq!(number("tensors:"), ours.tensors, "{run}");
    let mut shown = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("TASK (")) {
        let (id, rest) = line.split_once(") ").expect("an id");
        let node = ours.nodes.iter().find(|node| node.task == task(id)).unwrap_or_else(|| panic!("{run}: {id}"));
        let [a, b, c] = node.kernels;
        let func = if node.alloc { "none".to_string() } else { format!("[{a},{b},{c}]") };
        let kind = if node.alloc { "alloc" } else { "submit" };
        let expected = format!("kind={kind} func_id={func} fanin={} fanout={}", node.fanin, node.fanout);
        assert_eq!(rest, expected, "{run}: {id}");
        shown += 1;
    }
    assert_eq!(shown, ours.nodes.len(), "{run}");
    let mut current = String::new();
    let mut pairs = 0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("=== TASK ") {
            current = task(rest.split_once(") ").expect("an id").0.trim_start_matches('('));
        } else if let Some(pred) = line.strip_prefix("  <- ") {
            assert!(ours.edges.iter().any(|e| e.succ == current && e.pred == task(pred)), "{run}: {pred} → {current}");
            pairs += 1;
        }
    }
    assert_eq!(pairs, ours.edges.len(), "{run}");
}

#[test]
fn tasks_and_edges_are_those_of_the_references_viewer() {
    let Some(samples) = samples() else { return };
    let mut seen = 0;
    for run in RUNS {
        for part in ["all", "dep_gen"] {
            let dir = samples.join(run).join(part);
            let Ok(text) = std::fs::read_to_string(dir.join("deps_viewer.txt")) else { continue };
            let trace = plimsoll_trace::open(&dir.join("deps.json")).expect("readable");
            check(&text, &graph(&trace, false).expect("dependencies"), run);
            let reduced = graph(&trace, true).expect("dependencies");
            assert_eq!(reduced.edges.len() as u64, reduced.reduced_pairs, "{run}");
            assert!(reduced.edges.iter().all(|edge| !edge.implied), "{run}");
            seen += 1;
        }
    }
    assert!(seen >= 6, "the viewer's answers were there");
}
