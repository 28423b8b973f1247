//! The measuring loop, and what it gathers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::roster::{FLOOR, Roster, STEALING, System};
use super::sample::Sample;

/// A system this slow on a case gets a tenth of the tasks from then on: libgomp's fork-join is quadratic.
const SLOW: Duration = Duration::from_millis(2500);
const FEWEST_TASKS: u64 = 2000;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerCase {
    pub(crate) grain_ns: u64,
    pub(crate) workers: u64,
    pub(crate) shape: &'static str,
    pub(crate) tasks: u64,
}

/// One system on one case.
#[derive(Default)]
pub(crate) struct PeerCell {
    pub(crate) samples: Vec<Sample>,
    /// The first failure; the system is not tried again on this case.
    pub(crate) failure: Option<String>,
    tasks_asked: Option<u64>,
}

/// Minimum and median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) min: f64,
    pub(crate) median: f64,
}

/// Cells in the order of cases, then of systems; the floor stands before the stealing it is made of.
pub(crate) struct PeerResults {
    pub(crate) cases: Vec<PeerCase>,
    pub(crate) systems: Vec<&'static str>,
    cells: BTreeMap<(usize, usize), PeerCell>,
}

pub(crate) fn all(roster: &Roster, cases: &[PeerCase], repetitions: usize) -> Result<PeerResults> {
    let names: Vec<&'static str> = roster.systems.iter().map(|system| system.name).collect();
    let mut cells: BTreeMap<(usize, usize), PeerCell> = BTreeMap::new();
    let begin = Instant::now();
    for repetition in 0..repetitions {
        for (c, case) in cases.iter().enumerate() {
            for turn in 0..names.len() {
                let s = (turn + repetition + c) % names.len();
                let iterations = roster.iterations(case.grain_ns);
                cells.entry((c, s)).or_default().measure(&roster.systems[s], case, iterations);
            }
        }
        eprintln!("repetition {} of {repetitions}, {:.0} s", repetition + 1, begin.elapsed().as_secs_f64());
    }
    Ok(with_floor(cases, names, cells))
}

fn with_floor(
    cases: &[PeerCase],
    mut names: Vec<&'static str>,
    mut cells: BTreeMap<(usize, usize), PeerCell>,
) -> PeerResults {
    if let Some(stealing) = names.iter().position(|&name| name == STEALING) {
        let floor = names.len();
        names.push(FLOOR);
        for c in 0..cases.len() {
            let cell = cells.get(&(c, stealing));
            let samples =
                cell.map(|cell| cell.samples.iter().map(Sample::with_inference).collect()).unwrap_or_default();
            cells.insert((c, floor), PeerCell { samples, ..PeerCell::default() });
        }
    }
    PeerResults { cases: cases.to_vec(), systems: names, cells }
}

impl PeerCell {
    fn measure(&mut self, system: &System, case: &PeerCase, iterations: u64) {
        if self.failure.is_some() {
            return;
        }
        let tasks = *self.tasks_asked.get_or_insert(case.tasks);
        let begin = Instant::now();
        match system.measure(case, tasks, iterations) {
            Err(why) => {
                eprintln!("{}, {}: {why:#}", system.name, case.shape);
                self.failure = Some(format!("{why:#}"));
            }
            Ok(_) if begin.elapsed() > SLOW && tasks > FEWEST_TASKS => {
                self.tasks_asked = Some((tasks / 10).max(FEWEST_TASKS));
                self.samples.clear();
                self.measure(system, case, iterations);
            }
            Ok(sample) => self.samples.push(sample),
        }
    }

    pub(crate) fn tasks(&self) -> Option<u64> {
        self.samples.first().map(|sample| sample.tasks)
    }

    pub(crate) fn time(&self) -> Option<Figure> {
        Figure::of(self.samples.iter().map(|sample| sample.ns_per_task))
    }

    pub(crate) fn cpu(&self) -> Option<Figure> {
        Figure::of(self.samples.iter().map(|sample| sample.cpu_ns_per_task))
    }

    pub(crate) fn submit(&self) -> Option<Figure> {
        Figure::of(self.samples.iter().map(|sample| sample.submit_ns_per_task))
    }

    pub(crate) fn peak_rss_bytes(&self) -> Option<u64> {
        self.samples.iter().map(|sample| sample.peak_rss_bytes).max()
    }
}

impl Figure {
    fn of(values: impl Iterator<Item = f64>) -> Option<Figure> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let median = |v: &[f64]| (v[(v.len() - 1) / 2] + v[v.len() / 2]) / 2.0;
        values.first().map(|&min| Figure { min, median: median(&values) })
    }
}

impl PeerResults {
    pub(crate) fn cell(&self, case: &PeerCase, system: &str) -> Option<&PeerCell> {
        let c = self.cases.iter().position(|other| other == case)?;
        let s = self.systems.iter().position(|&other| other == system)?;
        self.cells.get(&(c, s))
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = (&PeerCase, &str, &PeerCell)> {
        self.cells.iter().map(|(&(c, s), cell)| (&self.cases[c], self.systems[s], cell))
    }

    /// Minimum to minimum: below 1, `numerator` is the faster.
    pub(crate) fn ratio(&self, case: &PeerCase, numerator: &str, denominator: &str) -> Option<f64> {
        let min = |system: &str| Some(self.cell(case, system)?.time()?.min);
        Some(min(numerator)? / min(denominator)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_minimum_and_median() {
        let of = |values: &[f64]| Figure::of(values.iter().copied());
        assert_eq!(of(&[5.0, 1.0, 3.0]), Some(Figure { min: 1.0, median: 3.0 }));
        assert_eq!(of(&[4.0, 2.0]), Some(Figure { min: 2.0, median: 3.0 }));
        assert_eq!(of(&[]), None);
    }
}
