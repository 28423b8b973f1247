//! Scopes as they nest, for the scripts: which tasks were submitted in which.

use plimsoll_trace::Trace;
use serde::Serialize;

use super::columns::{Column, ColumnPart, Packing};
use super::{Answers, html};

/// A node of the nested scopes.
#[derive(Debug, Serialize)]
pub(super) struct SpanNode {
    site: String,
    /// The node that it lies in.
    parent: Option<u32>,
    depth: u16,
    ring: u8,
}

/// Adds a column entry per scope, in order of opening, and gives the nodes that they belong to. Tasks of a scope are those
/// that its ring was given between its two samples; every outermost scope begins a round.
pub(super) fn put(trace: &Trace, answers: &Answers, columns: &mut Packing) -> (Vec<SpanNode>, usize) {
    let tree = &answers.scope_tree;
    if tree.spans.is_empty() {
        return (Vec::new(), 0);
    }
    let column = |name| Column::new(name, ColumnPart::Scheduler);
    let (mut node, mut first, mut count) = (column("span.node"), column("span.first"), column("span.count"));
    let samples = &trace.scopes.samples;
    for (span, of) in &tree.spans {
        let begin = samples[span.begin].window_head;
        node.put_delta(u64::from(*of));
        first.put_delta(begin & 0xffff_ffff);
        count.put(span.end.map_or(0, |end| samples[end].window_head.saturating_sub(begin).min(1 << 32) + 1));
    }
    columns.extend([node, first, count]);
    let nodes = tree.nodes.iter().map(|node| SpanNode {
        site: html::plain(&node.row.site),
        parent: node.parent,
        depth: node.row.depth,
        ring: node.row.ring,
    });
    (nodes.collect(), tree.spans.len())
}
