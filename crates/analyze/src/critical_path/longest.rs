//! Which task of a path has most of each part.

use super::Ticks;

/// Names of the parts, in the order of [`Ticks::all`].
const PARTS: [&str; 9] =
    ["kernel", "data_wait", "core_wait", "scheduling", "submit", "ring_wait", "recorder_wait", "gil_wait", "front_gap"];

/// The task of a path that has most of each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LongestSteps([(u64, u64); PARTS.len()]);

impl LongestSteps {
    pub(super) fn see(&mut self, word: u64, ticks: &Ticks) {
        for (most, own) in self.0.iter_mut().zip(ticks.all()) {
            if own > most.0 {
                *most = (own, word);
            }
        }
    }

    /// The word of the task with most of a part; none if no task has any of it. Of `front_gap` it is the path's first.
    pub fn task(&self, part: &str) -> Option<u64> {
        let at = PARTS.iter().position(|name| *name == part)?;
        Some(self.0[at]).filter(|(ticks, _)| *ticks > 0).map(|(_, word)| word)
    }
}

impl Ticks {
    /// All parts, in the order of [`PARTS`].
    fn all(&self) -> [u64; PARTS.len()] {
        let Ticks { kernel, data_wait, core_wait, scheduling, submit, ring_wait, recorder_wait, gil_wait, front_gap } =
            *self;
        [kernel, data_wait, core_wait, scheduling, submit, ring_wait, recorder_wait, gil_wait, front_gap]
    }
}
