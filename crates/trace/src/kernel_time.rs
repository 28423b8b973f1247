//! The one definition of makespan and utilisation, which every command and report gives.

use crate::RunClock;

/// When kernels ran, and for how long in all. Made of executions in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelTime {
    first_start: u64,
    last_end: Option<u64>,
    ticks: u64,
}

impl Default for KernelTime {
    fn default() -> Self {
        Self { first_start: u64::MAX, last_end: None, ticks: 0 }
    }
}

impl KernelTime {
    /// Counts an execution; one that had not ended counts with its start alone, and its start is no end.
    #[inline]
    pub fn see(&mut self, start: u64, end: Option<u64>) {
        self.first_start = self.first_start.min(start);
        if let Some(end) = end.map(|end| end.max(start)) {
            self.last_end = self.last_end.max(Some(end));
            // A broken file cannot overflow the sum.
            self.ticks = self.ticks.saturating_add(end - start);
        }
    }

    /// First kernel start, in ticks; none if no kernel began.
    pub fn first_start(&self) -> Option<u64> {
        Some(self.first_start).filter(|start| *start != u64::MAX)
    }

    /// First kernel start and last kernel end, in ticks; none if no kernel ended.
    pub fn window(&self) -> Option<(u64, u64)> {
        self.last_end.map(|last| (self.first_start, last))
    }

    /// From the first kernel start to the last kernel end, in ticks; none if no kernel ended.
    pub fn makespan(&self) -> Option<u64> {
        self.window().map(|(first, last)| last - first)
    }

    /// The same in nanoseconds.
    pub fn makespan_ns(&self, clock: &RunClock) -> Option<u64> {
        self.makespan().map(|ticks| clock.ns(ticks))
    }

    /// Ticks in kernels, over all workers.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Time in kernels over workers × makespan; none if no time passed.
    pub fn utilisation(&self, workers: usize) -> Option<f64> {
        let whole = self.makespan()? as f64 * workers as f64;
        (whole > 0.0).then(|| self.ticks as f64 / whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makespan_is_from_the_first_start_to_the_last_end() {
        let mut time = KernelTime::default();
        assert_eq!((time.makespan(), time.utilisation(2)), (None, None));
        time.see(30, Some(50));
        time.see(10, Some(20));
        time.see(40, None);
        time.see(70, None);
        assert_eq!((time.window(), time.ticks()), (Some((10, 50)), 30), "what still runs has no end");
        assert_eq!(time.utilisation(2), Some(30.0 / 80.0));
        assert_eq!(time.makespan_ns(&RunClock::new(50e6, 0)), Some(800));
    }

    #[test]
    fn without_an_end_there_is_no_makespan() {
        let mut time = KernelTime::default();
        assert_eq!(time.first_start(), None);
        time.see(10, None);
        assert_eq!((time.first_start(), time.window(), time.makespan()), (Some(10), None, None));
    }

    #[test]
    fn times_that_contradict_themselves_are_survived() {
        let mut time = KernelTime::default();
        time.see(20, Some(10));
        time.see(0, Some(u64::MAX - 1));
        time.see(0, Some(u64::MAX - 1));
        assert_eq!(time.ticks(), u64::MAX);
    }
}
