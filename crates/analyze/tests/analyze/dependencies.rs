//! The graph is the one that the reference's viewer prints.

use crate::samples_dir::{RUNS, samples};
use plimsoll_analyze::{DependencyGraph, graph};
use plimsoll_trace::MachineMark;
use plimsoll_trace::deps::write_deps_json;
use serde_json::{Value, json};

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
            if run.starts_with("paged_attention") {
                assert_eq!(reduced.reduced_pairs, 64, "{run}: tasks that only allocate come last in the file");
            }
            seen += 1;
        }
    }
    assert!(seen >= 6, "the viewer's answers were there");
}

/// The graph of a `deps.json`, and what is false in it when the file is written by us and read again.
fn read(deps: &Value) -> (DependencyGraph, Vec<String>) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("deps.json");
    std::fs::write(&file, deps.to_string()).expect("written");
    let trace = plimsoll_trace::open(&file).expect("readable");
    let mut again = Vec::new();
    write_deps_json(trace.deps.as_ref().expect("dependencies"), &MachineMark::of(&trace.facts), &mut again)
        .expect("written");
    std::fs::write(&file, again).expect("written");
    let again = graph(&plimsoll_trace::open(&file).expect("readable"), false).expect("dependencies");
    (graph(&trace, false).expect("dependencies"), found(&again))
}

fn found(graph: &DependencyGraph) -> Vec<String> {
    let all = graph.false_dependencies.iter().map(|f| format!("{} {} {}", f.pred, f.succ, f.kind));
    all.chain([format!("untold {}", graph.untold_pairs)]).collect()
}

/// A tile of 256 by 128 elements of a matrix 4,096 wide: a part of `tensor` for argument `idx`.
fn tile(idx: u64, how: &str, row: u64, column: u64) -> Value {
    json!({ "idx": idx, "type": how, "tensor_id": "9", "dtype": "FLOAT32", "shape": [256, 128],
            "start_offset": (row * 256 * 4096 + column * 128).to_string(), "strides": [4096, 1] })
}

/// One task writes a tile, another one reads `column` of the same row.
fn two_tiles(column: u64) -> Value {
    let of = |prefix: &str, at: &Value| {
        ["shape", "start_offset", "strides"].map(|key| (format!("{prefix}_{key}"), at[key].clone()))
    };
    let (written, read) = (tile(0, "INOUT", 3, 4), tile(1, "INPUT", 3, column));
    let mut edge =
        json!({ "pred": 1, "succ": 2, "arg": 1, "source": "tensormap", "overlap": "other", "tensor_id": "9" });
    for (key, value) in of("producer", &written).into_iter().chain(of("consumer", &read)) {
        edge[key] = value;
    }
    json!({ "tasks": [{ "task_id": 1, "kernel_ids": [0, -1, -1], "args": [tile(1, "INPUT", 0, 0), written] },
                      { "task_id": 2, "kernel_ids": [0, -1, -1], "args": [read] }],
            "tensors": [{ "tensor_id": "9", "buffer_addr": "77", "version": 0, "dtype": "FLOAT32", "buffer_numel": "16777216" }],
            "edges": [edge] })
}

#[test]
fn tiles_of_any_size_that_share_no_byte_are_found_in_files_of_either_system() {
    for (column, expected) in [(5, ["r0t1 r0t2 no_shared_byte", "untold 0"].as_slice()), (4, &["untold 0"])] {
        let (graph, again) = read(&two_tiles(column));
        assert_eq!(found(&graph), expected, "column {column}");
        assert_eq!(again, expected, "column {column}, written by us");
    }
}

#[test]
fn what_an_edge_tells_counts_where_tasks_have_no_arguments() {
    let mut deps = two_tiles(5);
    for task in 0..2 {
        deps["tasks"][task]["args"] = json!([]);
    }
    assert_eq!(found(&read(&deps).0), ["r0t1 r0t2 no_shared_byte", "untold 0"]);
    let edge = deps["edges"][0].as_object_mut().expect("an edge");
    edge.retain(|key, _| !key.starts_with("producer_"));
    assert_eq!(found(&read(&deps).0), ["untold 1"], "nothing tells what the producer wrote");
}

#[test]
fn views_too_large_to_compare_are_not_called_apart() {
    let one = json!({ "shape": [1], "strides": [1] });
    for (shape, strides, shared) in [
        (json!([2]), json!([1u64 << 31]), 1u64 << 31),
        (json!([2]), json!([1u64 << 33]), 1 << 33),
        (json!([1u64 << 33]), json!([1]), (1 << 32) + 5),
        (json!([1, 1, 1, 1, 1, 2]), json!([0, 0, 0, 0, 0, 32]), 32),
    ] {
        let mut deps = two_tiles(4);
        let set = |at: &mut Value, prefix: &str, shape: &Value, strides: &Value, offset: u64| {
            at[format!("{prefix}shape")] = shape.clone();
            at[format!("{prefix}strides")] = strides.clone();
            at[format!("{prefix}start_offset")] = json!(offset.to_string());
        };
        set(&mut deps["tasks"][0]["args"][1], "", &shape, &strides, 0);
        set(&mut deps["tasks"][1]["args"][0], "", &one["shape"], &one["strides"], shared);
        set(&mut deps["edges"][0], "producer_", &shape, &strides, 0);
        set(&mut deps["edges"][0], "consumer_", &one["shape"], &one["strides"], shared);
        let (graph, _) = read(&deps);
        assert_eq!(found(&graph), ["untold 1"], "{shape} {strides}");
        for task in 0..2 {
            deps["tasks"][task]["args"] = json!([]);
        }
        assert_eq!(found(&read(&deps).0), ["untold 1"], "{shape} {strides}, told by the edge alone");
    }
}

#[test]
fn what_cannot_be_told_is_not_called_needed() {
    let mut deps = two_tiles(4);
    deps["edges"][0]["source"] = json!("fanout");
    assert_eq!(found(&read(&deps).0), ["untold 1"], "an edge without a reason");
    deps["edges"][0]["source"] = json!("explicit");
    assert_eq!(found(&read(&deps).0), ["untold 0"], "the program asked for it");
    let mut deps = two_tiles(5);
    deps["tasks"][1]["args"][0]["dtype"] = json!("FLOAT64");
    assert_eq!(found(&read(&deps).0), ["untold 1"], "elements of two sizes");
    deps["edges"][0]["overlap"] = json!("covered");
    assert_eq!(found(&read(&deps).0), ["untold 0"], "the runtime knew it");
}
