//! What a run keeps for the tasks of a scope: owners of memory that was entered in it.
//!
//! ```text
//!   entered ──add──► of an open scope ──close──► leaving ──sweep, once all that was submitted before the close has completed──► dropped
//!                          └─────────────── the run ends: dropped with the rest of what the run keeps ───────────────┘
//! ```
//!
//! Everything lies in the run's own list, which outlives the program, panics included, and which nobody drops if a thread was
//! left behind: here are only the places in it.

use crate::sink::SubmitSink;
use plimsoll_abi::RINGS;
use std::any::Any;
use std::collections::VecDeque;

/// Places in the run's list.
#[derive(Default)]
pub(super) struct ScopeKeep {
    /// What open scopes entered, by their depth, which grows.
    open: Vec<(usize, usize)>,
    /// What closed scopes entered, and the marks of the rings then.
    leaving: VecDeque<([u64; RINGS], usize)>,
    /// Places that are free.
    free: Vec<usize>,
}

impl ScopeKeep {
    /// Keeps something for the scope of this depth, the innermost.
    pub(super) fn add(&mut self, depth: usize, keep: Box<dyn Any>, all: &mut Vec<Box<dyn Any>>) {
        let place = match self.free.pop() {
            Some(place) => {
                all[place] = keep;
                place
            }
            None => {
                all.push(keep);
                all.len() - 1
            }
        };
        self.open.push((depth, place));
    }

    /// A scope has closed, and `inner` are still open inside the root.
    #[inline]
    pub(super) fn close(&mut self, inner: usize, engine: &mut dyn SubmitSink, all: &mut [Box<dyn Any>]) {
        if self.open.last().is_some_and(|(depth, _)| *depth > inner) {
            let marks = engine.marks();
            while let Some((_, place)) = self.open.pop_if(|(depth, _)| *depth > inner) {
                self.leaving.push_back((marks, place));
            }
        }
        self.sweep(engine, all);
    }

    /// Drops what no task can touch any more.
    #[inline]
    pub(super) fn sweep(&mut self, engine: &mut dyn SubmitSink, all: &mut [Box<dyn Any>]) {
        while let Some((marks, place)) = self.leaving.front() {
            if !engine.have_completed(marks) {
                return;
            }
            all[*place] = Box::new(());
            self.free.push(*place);
            self.leaving.pop_front();
        }
    }
}
