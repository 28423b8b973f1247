//! What bounds a run: the one word that a person reads first, and the share of the makespan that decided it.

use crate::critical_path::{Parts, PathSummary};

/// What the makespan is blamed on. Unlike the parts of a path, the wait before the path's first task is divided by its causes,
/// and what lies between rounds is apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Blame {
    /// In kernels.
    pub(crate) kernel_ns: u64,
    /// Until tasks had been submitted, without waits for a ring; what of a front gap has no recorded cause is in it.
    pub(crate) submit_ns: u64,
    /// Until a ring had room.
    pub(crate) ring_ns: u64,
    /// Until the scheduler had seen what was done and had acted on it.
    pub(crate) wait_ns: u64,
    /// Until the recorder had a buffer.
    pub(crate) recorder_ns: u64,
    /// Between rounds: nobody had begun to submit. Nothing bounds a run there.
    pub(crate) between_rounds_ns: u64,
}

/// What bounds a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct RunBound {
    /// `submitting`, `ring`, `scheduling`, `recording`, `dependencies`, `cores` or `kernels`.
    pub(crate) word: &'static str,
    /// The share of the makespan that decided.
    pub(crate) share: f64,
}

/// At this share of what no schedule could beat, only other dependencies, more cores or shorter kernels would help.
const NEAR_THE_BOUND: f64 = 0.8;

/// What bounds a run, by what its makespan is made of.
pub(crate) fn verdict(path: &PathSummary) -> RunBound {
    let Blame { kernel_ns, submit_ns, ring_ns, wait_ns, recorder_ns, between_rounds_ns } = path.blame;
    let worked = path.makespan_ns.saturating_sub(between_rounds_ns).max(1) as f64;
    // A bound that the run was shorter than says nothing.
    let is_near = !path.contradicts_itself() && path.bound_ns as f64 / worked >= NEAR_THE_BOUND;
    let not_submitted = submit_ns.saturating_add(ring_ns);
    let (word, ns) = match () {
        // A single task is a bound; what a person hears of is the time in all kernels of the path.
        () if is_near && path.bound_by == "kernels" => ("kernels", kernel_ns),
        () if is_near => (path.bound_by, path.bound_ns),
        () if kernel_ns >= not_submitted.max(wait_ns).max(recorder_ns) => ("kernels", kernel_ns),
        () if recorder_ns > not_submitted.max(wait_ns) => ("recording", recorder_ns),
        () if not_submitted <= wait_ns => ("scheduling", wait_ns),
        () if ring_ns > submit_ns => ("ring", ring_ns),
        () => ("submitting", not_submitted),
    };
    RunBound { word, share: ns as f64 / path.makespan_ns.max(1) as f64 }
}

/// Parts of the makespan that a verdict takes in because they were not recorded: what nothing else explains is called scheduling.
pub(crate) fn unrecorded_in(word: &str, parts: &Parts) -> Vec<&'static str> {
    let untold = [("submit", parts.submit), ("data_wait", parts.data_wait)];
    untold.into_iter().filter(|(_, ns)| word == "scheduling" && ns.is_none()).map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critical_path::LongestSteps;

    fn path(blame: Blame) -> PathSummary {
        PathSummary {
            makespan_ns: 100,
            static_ns: 10,
            static_tasks: 2,
            bound_ns: 10,
            bound_by: "dependencies",
            tasks: 2,
            edges: Some(1),
            parts: Parts::default(),
            folded: Vec::new(),
            functions: Vec::new(),
            longest: LongestSteps::default(),
            blame,
        }
    }

    #[test]
    fn what_weighs_most_names_the_verdict_and_waiting_for_the_recorder_is_no_scheduling() {
        let blame = |[kernel_ns, submit_ns, ring_ns, wait_ns, recorder_ns]: [u64; 5]| Blame {
            kernel_ns,
            submit_ns,
            ring_ns,
            wait_ns,
            recorder_ns,
            between_rounds_ns: 0,
        };
        for (parts, word, share) in [
            ([50, 10, 10, 20, 10], "kernels", 0.5),
            ([10, 10, 10, 10, 60], "recording", 0.6),
            ([10, 10, 0, 45, 35], "scheduling", 0.45),
            ([20, 20, 10, 25, 25], "submitting", 0.3),
            ([20, 5, 30, 20, 25], "ring", 0.3),
        ] {
            assert_eq!(verdict(&path(blame(parts))), RunBound { word, share }, "{parts:?}");
        }
    }
}
