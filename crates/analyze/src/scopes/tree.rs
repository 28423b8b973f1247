//! Scopes as they nest: one node per way down from the outermost scope.

use std::collections::HashMap;

use plimsoll_trace::{Quality, ScopeSpan, Trace};
use serde::Serialize;

use super::{Gathered, ScopeRow, finish, gather, run_ticks};

/// The scopes of a run, nested.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct ScopeTree {
    /// The nodes; a node stands behind the one that it lies in.
    pub nodes: Vec<ScopeNode>,
    /// Every scope in order of opening, and which node it belongs to.
    #[serde(skip)]
    pub spans: Vec<(ScopeSpan, u32)>,
}

/// The scopes of one site that lie in scopes of one node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScopeNode {
    /// The node that it lies in; absent if it is outermost.
    pub parent: Option<u32>,
    /// What `plimsoll scopes` tells of a site, of this node's scopes alone.
    #[serde(flatten)]
    pub row: ScopeRow,
}

/// The nested scopes of a trace; a trace without samples has none.
pub fn scope_tree(trace: &Trace) -> ScopeTree {
    let samples = &trace.scopes;
    let mut tree = ScopeTree::default();
    let mut gathered: Vec<(Option<u32>, u32, u16, Gathered)> = Vec::new();
    let mut known: HashMap<(Option<u32>, u32, u16), u32> = HashMap::new();
    // The scopes that the present one may lie in: where each ends, and its node.
    let mut around: Vec<(usize, u16, u32)> = Vec::new();
    for span in samples.spans(&mut Quality::default()) {
        let begin = &samples.samples[span.begin];
        // A scope that never ended holds only what is deeper than itself.
        while around.last().is_some_and(|(end, depth, _)| *end < span.begin || *depth >= begin.depth) {
            around.pop();
        }
        let parent = around.last().map(|(_, _, node)| *node);
        let key = (parent, begin.site, begin.depth);
        let node = *known.entry(key).or_insert_with(|| {
            gathered.push((parent, begin.site, begin.depth, Gathered::default()));
            gathered.len() as u32 - 1
        });
        gather(&mut gathered[node as usize].3, samples, span);
        around.push((span.end.unwrap_or(usize::MAX), begin.depth, node));
        tree.spans.push((span, node));
    }
    let run_ticks = run_ticks(trace);
    tree.nodes = gathered
        .iter()
        .map(|(parent, site, depth, of)| ScopeNode {
            parent: *parent,
            row: finish(trace, *site, *depth, of, run_ticks),
        })
        .collect();
    tree
}

#[cfg(test)]
mod tests {
    use plimsoll_abi::Usage;
    use plimsoll_abi::record::ScopePhase::{self, Begin, End};
    use plimsoll_trace::{ScopeSample, Source};

    use super::*;

    #[test]
    fn heads_that_no_ring_reaches_are_added_up_as_far_as_numbers_go() {
        let mut trace = Trace::empty(Source::Reference(Vec::new()));
        for window_head in [0, u64::MAX, 0, u64::MAX] {
            let mut sample = ScopeSample::default();
            sample.window_head = window_head;
            sample.phase = if window_head == 0 { Begin } else { End };
            trace.scopes.push(sample, &Usage::NONE, &Usage::NONE);
        }
        let rows = super::super::scopes(&trace).scopes;
        assert_eq!((rows.len(), rows[0].entered, rows[0].tasks), (1, 2, u64::MAX));
    }

    #[test]
    fn a_site_that_is_entered_from_two_places_has_two_nodes() {
        let mut trace = Trace::empty(Source::Reference(Vec::new()));
        trace.scopes.sites = ["root", "a", "b", "leaf"].map(String::from).to_vec();
        let mut scope = 0;
        let mut sample = |site: u32, depth: u16, phase: ScopePhase| {
            scope += 1;
            let mut sample = ScopeSample::default();
            (sample.at, sample.site, sample.depth, sample.phase) = (scope, site, depth, phase);
            trace.scopes.push(sample, &Usage::NONE, &Usage::NONE);
        };
        sample(0, 0, Begin);
        for (site, leaves) in [(1, 2), (2, 1)] {
            sample(site, 1, Begin);
            for _ in 0..leaves {
                sample(3, 2, Begin);
                sample(3, 2, End);
            }
            sample(site, 1, End);
        }
        // It never ended, and neither did the root.
        sample(1, 1, Begin);
        let tree = scope_tree(&trace);
        let told: Vec<(&str, Option<u32>, u64, u64)> =
            tree.nodes.iter().map(|n| (n.row.site.as_str(), n.parent, n.row.entered, n.row.open)).collect();
        let wanted = [
            ("root", None, 1, 1),
            ("a", Some(0), 2, 1),
            ("leaf", Some(1), 2, 0),
            ("b", Some(0), 1, 0),
            ("leaf", Some(3), 1, 0),
        ];
        assert_eq!(told, wanted);
        assert_eq!(tree.spans.iter().map(|(_, node)| *node).collect::<Vec<_>>(), [0, 1, 2, 2, 3, 4, 1]);
    }
}
