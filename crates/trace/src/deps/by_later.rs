//! Edges by their later task.

use std::borrow::Cow;

use super::Edge;

/// Edges in order of their later task. Submits give them in this order, so they are only copied if a file does not.
#[derive(Clone, Debug)]
pub struct EdgesByLater<'d> {
    edges: Cow<'d, [Edge]>,
}

impl<'d> EdgesByLater<'d> {
    /// Those of a list in any order.
    pub fn of(edges: &'d [Edge]) -> Self {
        if edges.is_sorted_by_key(|edge| edge.succ) {
            return Self { edges: Cow::Borrowed(edges) };
        }
        let mut edges = edges.to_vec();
        edges.sort_by_key(|edge| edge.succ);
        Self { edges: Cow::Owned(edges) }
    }

    /// The edges to one task.
    pub fn to(&self, succ: u32) -> &[Edge] {
        let first = self.edges.partition_point(|edge| edge.succ < succ);
        let count = self.edges[first..].iter().take_while(|edge| edge.succ == succ).count();
        &self.edges[first..first + count]
    }

    /// The edges of each task that waits for another, by task.
    pub fn each_task(&self) -> impl Iterator<Item = &[Edge]> {
        self.edges.chunk_by(|a, b| a.succ == b.succ)
    }

    /// Shows `see` the pairs (earlier, later), each once, by later and then by earlier task.
    pub fn each_pair(&self, mut see: impl FnMut(u32, u32)) {
        let mut preds = Vec::new();
        for edges in self.each_task() {
            preds.clear();
            preds.extend(edges.iter().map(|edge| edge.pred));
            preds.sort_unstable();
            preds.dedup();
            preds.iter().for_each(|pred| see(*pred, edges[0].succ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EdgeSource, NO_ARG};
    use super::*;

    fn edge(pred: u32, succ: u32) -> Edge {
        Edge { succ, pred, arg: NO_ARG, pred_arg: NO_ARG, source: EdgeSource::Explicit, covered: false, loose: 0 }
    }

    #[test]
    fn edges_are_found_by_later_task_in_whatever_order_they_came() {
        let sorted = [edge(1, 2), edge(0, 2), edge(1, 2), edge(2, 4)];
        let mixed = [edge(2, 4), edge(1, 2), edge(0, 2), edge(1, 2)];
        for edges in [&sorted, &mixed] {
            let by_later = EdgesByLater::of(edges);
            let mut pairs = Vec::new();
            by_later.each_pair(|pred, succ| pairs.push((pred, succ)));
            assert_eq!(pairs, [(0, 2), (1, 2), (2, 4)]);
            let preds: Vec<u32> = by_later.to(2).iter().map(|edge| edge.pred).collect();
            assert_eq!((preds, by_later.to(3).len(), by_later.to(5).len()), (vec![1, 0, 1], 0, 0));
        }
    }
}
