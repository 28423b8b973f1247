//! When submitters waited for a ring, and agents for the recorder: the stretches of a run that its scheduling is not to blame for.

use std::collections::BTreeMap;

use plimsoll_trace::Trace;

/// From one tick to another.
type Stretch = (u64, u64);

/// The waits of a run. Stretches of one list are in order and do not touch each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedWaits {
    /// Waits of submitters for a ring.
    ring: Vec<Stretch>,
    /// Waits of submitters for the recorder, where they did not wait for a ring.
    submitters: Vec<Stretch>,
    /// Waits of each agent for the recorder.
    agents: BTreeMap<u16, Vec<Stretch>>,
    /// Waits of the kernels on each core for the lock of an interpreter.
    gil: BTreeMap<u32, Vec<Stretch>>,
}

impl RecordedWaits {
    /// The waits that a trace records; none if it cannot tell them, as the reference's files cannot.
    pub(crate) fn of(trace: &Trace) -> Option<Self> {
        let phases = &trace.sched_phases;
        if trace.manifest.is_none() || !phases.were_recorded() {
            return None;
        }
        let mut waits = Self::default();
        for at in 0..phases.len() {
            let stretch = (phases.start[at], phases.end[at]);
            match phases.name_of(at) {
                "ring_wait" => waits.ring.push(stretch),
                "recorder_wait" => waits.agents.entry(phases.agent[at]).or_default().push(stretch),
                "gil_wait" => waits.gil.entry(phases.loop_iter[at]).or_default().push(stretch),
                _ => {}
            }
        }
        waits.gil.values_mut().for_each(|list| *list = merged(std::mem::take(list)));
        waits.ring = merged(waits.ring);
        waits.agents.values_mut().for_each(|list| *list = merged(std::mem::take(list)));
        let mut submitting = Vec::new();
        let mut agents = trace.orch_phases.agent.clone();
        agents.dedup();
        for agent in agents {
            submitting.extend(waits.agents.get(&agent).into_iter().flatten().copied());
        }
        waits.submitters = without(merged(submitting), &waits.ring);
        Some(waits)
    }

    /// How long between two ticks a submitter waited for a ring.
    pub(crate) fn ring(&self, from: u64, until: u64) -> u64 {
        covered(&self.ring, from, until)
    }

    /// How long between two ticks a submitter waited for the recorder and for no ring.
    pub(crate) fn submitter(&self, from: u64, until: u64) -> u64 {
        covered(&self.submitters, from, until)
    }

    /// How long between two ticks one of two agents waited for the recorder.
    pub(crate) fn recorder(&self, agents: [Option<u16>; 2], from: u64, until: u64) -> u64 {
        if self.agents.is_empty() {
            return 0;
        }
        let lists = agents.into_iter().flatten().filter_map(|agent| self.agents.get(&agent));
        let both = merged(lists.flat_map(|list| within(list, from, until)).collect());
        covered(&both, from, until)
    }

    /// Whether any kernel waited for the lock of an interpreter.
    pub(crate) fn has_gil(&self) -> bool {
        !self.gil.is_empty()
    }

    /// How long within executions, each on a core from one tick to another, kernels waited for the lock of an interpreter. What
    /// several waited at the same time counts once.
    pub(crate) fn gil(&self, executions: impl Iterator<Item = (u16, Stretch)>) -> u64 {
        let of = |(core, (from, until)): (u16, Stretch)| {
            let list = self.gil.get(&core.into()).map_or(&[][..], |list| list);
            within(list, from, until).map(move |(start, end)| (start.max(from), end.min(until)))
        };
        covered(&merged(executions.flat_map(of).collect()), 0, u64::MAX)
    }

    /// The longest wait for a ring that lies between two ticks, as far as it does.
    pub(crate) fn longest_ring(&self, from: u64, until: u64) -> Option<Stretch> {
        let all = within(&self.ring, from, until);
        all.max_by_key(|(start, end)| (*end).min(until) - (*start).max(from))
    }
}

/// Sorts the stretches and joins those that touch. A stretch that ends before it starts is left out.
fn merged(mut list: Vec<Stretch>) -> Vec<Stretch> {
    list.retain(|(start, end)| start < end);
    list.sort_unstable();
    list.dedup_by(|next, last| {
        let touch = next.0 <= last.1;
        if touch {
            last.1 = last.1.max(next.1);
        }
        touch
    });
    list
}

/// The parts of `list` that lie in none of `others`.
fn without(list: Vec<Stretch>, others: &[Stretch]) -> Vec<Stretch> {
    let mut left = Vec::with_capacity(list.len());
    for (mut start, end) in list {
        for (from, until) in within(others, start, end) {
            if start < from {
                left.push((start, from));
            }
            start = until.min(end);
        }
        if start < end {
            left.push((start, end));
        }
    }
    left
}

/// The stretches of a list that overlap the time between two ticks.
fn within(list: &[Stretch], from: u64, until: u64) -> impl Iterator<Item = Stretch> + '_ {
    let first = list.partition_point(|(_, end)| *end <= from);
    list[first..].iter().copied().take_while(move |(start, _)| *start < until)
}

/// How much of the time between two ticks a list covers.
fn covered(list: &[Stretch], from: u64, until: u64) -> u64 {
    within(list, from, until).map(|(start, end)| end.min(until) - start.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_joined_cut_and_measured() {
        let list = merged(vec![(30, 40), (10, 20), (15, 25), (9, 5), (25, 26)]);
        assert_eq!(list, [(10, 26), (30, 40)]);
        assert_eq!(without(list.clone(), &[(0, 12), (20, 32), (38, 50)]), [(12, 20), (32, 38)]);
        assert_eq!((covered(&list, 0, 100), covered(&list, 20, 35), covered(&list, 26, 30)), (26, 11, 0));
        let waits = RecordedWaits {
            agents: [(1, list), (2, vec![(20, 28)])].into(),
            ring: vec![(5, 9), (50, 70)],
            gil: [(0, vec![(10, 20), (30, 50)]), (1, vec![(15, 35)])].into(),
            ..RecordedWaits::default()
        };
        assert_eq!(waits.gil([(0, (12, 40)), (2, (0, 100))].into_iter()), 8 + 10);
        assert_eq!(waits.gil([(0, (12, 40)), (1, (0, 25))].into_iter()), 13 + 10);
        assert_eq!(waits.recorder([Some(1), Some(2)], 0, 100), 28);
        assert_eq!(waits.recorder([Some(2), None], 25, 27), 2);
        assert_eq!((waits.longest_ring(0, 52), waits.ring(7, 60)), (Some((5, 9)), 12));
    }
}
