//! The graph of dependencies, as text and for Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write;

use plimsoll_analyze::{DependencyGraph, Node};

use super::{Table, duration};
use crate::plain::one_line;

/// Most tasks and false dependencies that are listed; JSON has them all.
const MOST: usize = 40;

/// A summary, tasks with whom they wait for, and dependencies that data does not need.
pub fn graph(graph: &DependencyGraph) -> String {
    let mut text = summary(graph);
    let waits = by_succ(graph);
    let mut tasks = Table::new(&["task", "function", "waits for", "waited for by", "producers"]);
    for node in graph.nodes.iter().take(MOST) {
        let producers = waits.get(node.task.as_str()).map_or(String::new(), |preds| preds.join(" "));
        let cells = [func(node), node.fanin.to_string(), node.fanout.to_string(), producers];
        tasks.rows.push([node.task.clone()].into_iter().chain(cells).collect());
    }
    let _ = write!(text, "{tasks}");
    if graph.nodes.len() > MOST {
        let _ =
            writeln!(text, "({} more tasks; --task shows one, --json and --dot have all)", graph.nodes.len() - MOST);
    }
    text.push_str(&false_dependencies(graph));
    text
}

fn summary(graph: &DependencyGraph) -> String {
    format!(
        "{} tasks, {} pairs of {} edges ({} pairs without those that others imply), {} tensors\n\n",
        graph.tasks, graph.pairs, graph.annotated_edges, graph.reduced_pairs, graph.tensors
    )
}

fn func(node: &Node) -> String {
    match &node.func {
        Some(name) => name.clone(),
        None if node.alloc => "(allocates)".to_string(),
        // A task without kernels only waits and is waited for.
        None => "(dummy)".to_string(),
    }
}

fn by_succ(graph: &DependencyGraph) -> BTreeMap<&str, Vec<&str>> {
    let mut waits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in &graph.edges {
        waits.entry(&edge.succ).or_default().push(&edge.pred);
    }
    waits
}

fn false_dependencies(graph: &DependencyGraph) -> String {
    let untold = match graph.untold_pairs {
        0 => String::new(),
        pairs => format!(
            "Of {pairs} of {} pairs cannot be told whether data needs them: what the tasks use is not in the file, or too irregular to compare.\n",
            graph.pairs
        ),
    };
    if graph.false_dependencies.is_empty() {
        let all = if graph.pairs > 0 { "Data or the program itself needs every dependency.\n" } else { "" };
        return if untold.is_empty() { all.to_string() } else { untold };
    }
    let mut table = Table::new(&["data does not need", "because", "argument", "costs on the critical path"]);
    for found in graph.false_dependencies.iter().take(MOST) {
        let because = match found.kind {
            "no_shared_byte" => "they share no byte",
            "write_after_read" => "overwrites what was read: take another buffer",
            _ => "overwrites what was written: take another buffer",
        };
        table.rows.push(vec![
            format!("{} → {}", found.pred, found.succ),
            because.to_string(),
            found.arg.map_or(String::new(), |arg| arg.to_string()),
            if found.cost_ns > 0 { duration(found.cost_ns as f64) } else { "–".to_string() },
        ]);
    }
    let left = graph.false_dependencies.len().saturating_sub(MOST);
    let more = if left > 0 { format!("({left} more; --json has them all)\n") } else { String::new() };
    format!("\n{table}{more}{untold}")
}

/// One task: whom it waits for and who waits for it, with the reasons.
pub fn neighbours(graph: &DependencyGraph, task: &str) -> Option<String> {
    let node = graph.nodes.iter().find(|node| node.task == task)?;
    let name = one_line(&func(node), 200);
    let mut text = format!("{task} ({name}): waits for {}, waited for by {}\n", node.fanin, node.fanout);
    for edge in &graph.edges {
        let implied = if edge.implied { ", implied by others" } else { "" };
        let because = edge.sources.join(", ");
        if edge.succ == task {
            let _ = writeln!(text, "  ← {} ({because}{implied})", edge.pred);
        } else if edge.pred == task {
            let _ = writeln!(text, "  → {} ({because}{implied})", edge.succ);
        }
    }
    Some(text)
}

/// The graph for Graphviz. False dependencies are red, implied ones dotted.
pub fn dot(graph: &DependencyGraph) -> String {
    dot_with_label(graph, "")
}

/// The same with a sentence above the picture; none if it is empty.
pub fn dot_with_label(graph: &DependencyGraph, label: &str) -> String {
    let mut text = String::from("digraph tasks {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    let quoted = |name: &str| format!("\"{}\"", one_line(name, 200).replace('\\', "\\\\").replace('"', "\\\""));
    if !label.is_empty() {
        let _ = writeln!(text, "  label={}; labelloc=t; fontname=\"sans-serif\";", quoted(label));
    }
    for node in &graph.nodes {
        let shape = if node.alloc { ", style=dashed" } else { "" };
        let label = quoted(&format!("{} {}", node.task, func(node)));
        let _ = writeln!(text, "  {} [label={label}{shape}];", quoted(&node.task));
    }
    let false_ones: std::collections::BTreeSet<(&str, &str)> =
        graph.false_dependencies.iter().map(|f| (f.pred.as_str(), f.succ.as_str())).collect();
    for edge in &graph.edges {
        let colour = if false_ones.contains(&(edge.pred.as_str(), edge.succ.as_str())) { "color=red" } else { "" };
        let style = if edge.implied { "style=dotted" } else { "" };
        let look: Vec<&str> = [colour, style].into_iter().filter(|part| !part.is_empty()).collect();
        let _ = writeln!(text, "  {} -> {} [{}];", quoted(&edge.pred), quoted(&edge.succ), look.join(", "));
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_of_a_kernel_stays_on_the_line_of_its_task() {
        let node = Node {
            task: "r2t2".into(),
            kernels: [0, -1, -1],
            func: Some("a\nb\u{1b}[2J".into()),
            alloc: false,
            fanin: 0,
            fanout: 0,
        };
        let graph = DependencyGraph {
            tasks: 1,
            pairs: 0,
            annotated_edges: 0,
            tensors: 0,
            reduced_pairs: 0,
            nodes: vec![node],
            edges: Vec::new(),
            false_dependencies: Vec::new(),
            untold_pairs: 0,
        };
        let text = neighbours(&graph, "r2t2").expect("it is there");
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
    }
}
